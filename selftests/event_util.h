/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of events share.
 *
 * Of what the kernel reports the SRQ limit is the cheapest to cause: an SRQ without
 * buffers is below any limit, and the event carries it. So limits serve as numbers
 * where a test wants many events.
 *
 * Functions return 0 (or what their comment says) or a negative errno.
 */
#ifndef EVENT_UTIL_H
#define EVENT_UTIL_H

#include <pthread.h>

#include "xrc_util.h"

/* Messages that an INI QP can have under way. */
#define EV_DEPTH 1024
/* Bytes of a message. */
#define EV_SIZE 64

/* More numbers than an event file ever holds. */
#define EV_NUMBERS (2 * IB_XRC_EVENT_FILE_MAX_DEPTH)

/* An SRQ whose events are wanted. */
struct ev_source {
	struct xrc_cq cq;
	struct xrc_srq srq;
	__u8 buf[EV_SIZE];
};

/* A thread that reads an event. */
struct ev_reader {
	int fd;
	pthread_t thread;
	volatile pid_t tid;
	struct ib_xrc_event event;
	/* As read(2) has it, or the negative errno. */
	int ret;
};

/* The next event is this one. */
#define EXPECT_EVENT(fd_, type_, number_, value_, user_handle_) do {	\
	struct ib_xrc_event event_;					\
									\
	memset(&event_, 0xff, sizeof(event_));				\
	ASSERT_EQ(0, xrc_event_wait(fd_, &event_, XRC_TIMEOUT_MS));	\
	EXPECT_EQ((__u32)(type_), event_.type);				\
	EXPECT_EQ((__u32)(number_), event_.number);			\
	EXPECT_EQ((__u32)(value_), event_.value);			\
	EXPECT_EQ((__u64)(user_handle_), event_.user_handle);		\
	EXPECT_EQ(0U, event_.reserved);					\
} while (0)

#define EXPECT_NO_EVENT(fd_) do {					\
	struct ib_xrc_event event_ = {};				\
									\
	EXPECT_EQ(-EAGAIN, xrc_event_read(fd_, &event_, 1))		\
		TH_LOG("type %u number %u value %u", event_.type,	\
		       event_.number, event_.value);			\
} while (0)

/* Open the domain of a file, reporting to an event file or to none. */
int ev_open_domain(struct xrc *x, int file,
		   const struct ib_xrc_policy *policy, int ef,
		   __u64 user_handle, __u32 *xrcd);
int ev_create_qp(struct xrc *x, __u32 xrcd, int ef, __u64 user_handle,
		 struct xrc_qp *qp);
int ev_open_qp(struct xrc *x, __u32 xrcd, __u32 qp_num, int ef,
	       __u64 user_handle, struct xrc_qp *qp);
int ev_source_open(struct xrc *x, __u32 xrcd, __u32 max_wr,
		   __u64 user_handle, int ef, struct ev_source *s);
int ev_source_post(struct xrc *x, struct ev_source *s, __u32 n);
/* Destroyed, and not mapped any more: a mapping keeps the file. */
int ev_source_close(struct xrc *x, struct ev_source *s);
/* Raise the events first to last. */
int ev_raise_numbers(struct xrc *x, const struct ev_source *s, __u32 first,
		     __u32 last);
/*
 * Read all that is there, up to n reads, and see that each number comes in its turn,
 * or that it is said where and how many do not. Returns how many it read.
 */
int ev_take_numbers(int ef, const struct ev_source *s, __u32 *next, int n);
/* Connect an INI QP, for the first time or anew, to a TGT QP that is in RESET. */
int ev_connect_ini(struct xrc *x, struct xrc_ini *ini,
		   const struct xrc_qp *qp);
int ev_set_state(struct xrc *x, const struct xrc_qp *qp, int state);
int ev_send_to(struct xrc_ini *ini, __u32 srq_num, __u32 n);
/* A message to an SRQ that does not exist. */
int ev_send_bad(struct xrc_ini *ini);
int ev_wait_sent(struct xrc_ini *ini, __u32 n);
int ev_wait_received(struct ev_source *s, __u32 n);
/* Wait until no message is left at the SRQ: nothing else announces that. */
int ev_wait_drained(const struct ev_source *s);
/* Start a thread that reads, and wait until it has to wait. */
int ev_reader_start(struct ev_reader *r, int fd);

#endif /* EVENT_UTIL_H */
