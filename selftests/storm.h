/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the processes of a storm share: who is there, what was done, and what came of
 * it.
 */
#ifndef STORM_H
#define STORM_H

#include <stdbool.h>
#include <linux/types.h>

#define STORM_WORKERS 16
#define STORM_DOMAINS 8
#define STORM_ERRNOS 135

/* The calls that are counted. */
enum storm_call {
	STORM_BIND,
	STORM_XRCD_OPEN,
	STORM_XRCD_CLOSE,
	STORM_EVENT_FILE,
	STORM_CHANNEL,
	STORM_CQ_CREATE,
	STORM_CQ_DESTROY,
	STORM_SRQ_CREATE,
	STORM_SRQ_DESTROY,
	STORM_SRQ_MODIFY,
	STORM_SRQ_POST,
	STORM_TGT_CREATE,
	STORM_TGT_OPEN,
	STORM_TGT_CLOSE,
	STORM_TGT_MODIFY,
	STORM_TGT_CONNECT,
	STORM_TGT_DISCONNECT,
	STORM_TGT_RELEASE,
	STORM_TGT_QUERY,
	STORM_LIST_TGT_QPS,
	STORM_LIST_SRQS,
	STORM_LIST_HOLDERS,
	STORM_EVENT_READ,
	STORM_INI_OPEN,
	STORM_INI_RESET,
	STORM_INI_CONNECT,
	STORM_INI_SEND,
	STORM_INI_WAIT,
	STORM_CALLS,
};

/* What a worker tells the others; 0 where there is nothing. */
struct storm_slot {
	__u32 domain;
	__u32 key;
	__u32 srq_num;
	/* Calls in its present life. */
	__u32 calls;
};

struct storm {
	__u64 seed;
	/* The device comes and goes. */
	bool removal;
	int file[STORM_DOMAINS];
	struct storm_slot slot[STORM_WORKERS];

	__u64 done[STORM_CALLS];
	__u64 error[STORM_CALLS][STORM_ERRNOS];
	/* Messages that were sent and acknowledged, and that were not. */
	__u64 sent;
	__u64 unsent;
	/* Messages that were received whole, and completions in error. */
	__u64 received;
	__u64 refused;
	/* Errors that were provoked. */
	__u64 provoked;
	__u64 events;
	/* Files that were opened since the device went. */
	__u64 rebinds;

	/* The first thing that should not have been. */
	__u32 failed;
	char failure[240];
};

extern const char *const storm_call_name[STORM_CALLS];

static inline void storm_count(__u64 *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

static inline __u64 storm_random(__u64 *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dULL;
}

/* Remember what should not have been, if it is the first. */
void storm_fail(struct storm *storm, const char *format, ...);
/* The life of a worker; returns when it exits by itself. */
void storm_work(struct storm *storm, unsigned int index, __u32 life);

#endif /* STORM_H */
