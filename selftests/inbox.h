/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tests of messages share: an SRQ with memory to receive into, and a TGT QP with
 * who sends to it.
 *
 * Functions return 0 (or what their comment says) or a negative errno.
 */
#ifndef INBOX_H
#define INBOX_H

#include "xrc_util.h"

/* An SRQ, and one buffer for each of its work requests. wr_id counts them. */
struct inbox {
	struct xrc *x;
	struct xrc_cq *cq;
	struct xrc_srq srq;
	__u8 *buf;
	size_t size;
	__u32 posted;
};

/* Events are reported to event_file, unless it is XRC_NO_FD. */
int inbox_open(struct xrc *x, __u32 xrcd, struct xrc_cq *cq, __u32 max_wr,
	       size_t size, int event_file, struct inbox *in);
/* Destroys the SRQ, and frees the memory. */
int inbox_close(struct inbox *in);
__u8 *inbox_buf(const struct inbox *in, __u64 wr_id);
int inbox_post(struct inbox *in, __u32 n);
int inbox_wait(struct inbox *in, struct ib_xrc_cqe *cqe);
/* Nothing completes for a while. */
bool inbox_idle(struct inbox *in);
/* Wait until the kernel has taken so many work requests: nothing announces it. */
int inbox_wait_taken(const struct inbox *in, __u32 n);
/* Wait until the ring says that it is in error. */
int inbox_wait_error(const struct inbox *in);
/* Wait until so many messages wait at it. */
int inbox_wait_waiting(const struct inbox *in, __u32 xrcd, __u32 n);
/* The completion is of a whole SEND, filled by xrc_fill() with this seed. */
bool inbox_has(const struct inbox *in, const struct ib_xrc_cqe *cqe,
	       size_t length, unsigned int seed);

/* A TGT QP, connected to an INI QP. */
struct peer {
	struct xrc_qp qp;
	struct xrc_ini ini;
};

int peer_open(struct xrc *x, __u32 xrcd, unsigned int depth, size_t size,
	      struct peer *p);
void peer_close(struct xrc *x, struct peer *p);
/* Wait until n sends have succeeded. */
int peer_wait_sent(struct peer *p, unsigned int n);
/* Send a message, filled by xrc_fill() with this seed, from this offset. */
int peer_send(struct peer *p, const struct inbox *to, size_t offset,
	      __u32 length, unsigned int seed);
/* Send a part as it is: flags, and whatever is in the buffer. */
int peer_send_part(struct peer *p, const struct inbox *to, __u32 flags,
		   __u32 length);

#endif /* INBOX_H */
