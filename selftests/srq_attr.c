// SPDX-License-Identifier: GPL-2.0
/*
 * What an SRQ is like, and how that changes: query, the limit and its event, and that
 * the size is for good.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "inbox.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define PART IB_XRC_WIRE_PART_SIZE

FIXTURE(srq_attr)
{
	struct xrc x;
	__u32 xrcd;
	int ef;
	struct xrc_cq cq;
	struct peer peer;
};

FIXTURE_SETUP(srq_attr)
{
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1024, 0, XRC_NO_FD, &self->cq));
	ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 1024, 64 * 1024,
			       &self->peer));
}

FIXTURE_TEARDOWN(srq_attr)
{
	xrc_ini_close(&self->peer.ini);
	close(self->ef);
	xrc_close(&self->x);
}

#define EXPECT_ATTR(srq_, max_wr_, max_sge_, limit_) do {			\
	struct ib_xrc_srq_attr attr_;					\
									\
	memset(&attr_, 0xff, sizeof(attr_));				\
	ASSERT_EQ(0, xrc_srq_query(&self->x, srq_, &attr_));		\
	EXPECT_EQ((__u32)(max_wr_), attr_.max_wr);			\
	EXPECT_EQ((__u32)(max_sge_), attr_.max_sge);			\
	EXPECT_EQ((__u32)(limit_), attr_.limit);				\
	EXPECT_EQ(0U, attr_.reserved);					\
} while (0)

/* What was asked for, rounded as the ring was. */
TEST_F(srq_attr, query)
{
	const struct {
		__u32 wr, sge, max_wr;
	} size[] = {
		{ 1, 1, 1 }, { 3, 2, 4 }, { 64, 16, 64 }, { 65, 5, 128 },
	};
	struct xrc_srq srq;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(size); i++) {
		ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &self->cq,
					    size[i].wr, size[i].sge, 0, &srq));
		EXPECT_ATTR(&srq, size[i].max_wr, size[i].sge, 0);
		EXPECT_EQ(size[i].max_wr, srq.info.entries);
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	}
}

TEST_F(srq_attr, query_refused)
{
	struct ib_xrc_srq_attr attr = { .max_wr = 0x5a };
	struct xrc_srq srq, not_one = { .handle = self->cq.handle };
	union xrc_cmd cmd;

	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &self->cq, 4, 1, 0,
				    &srq));
	/* As any handle of another kind. */
	EXPECT_EQ(-EINVAL, xrc_srq_query(&self->x, &not_one, &attr));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_QUERY);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_QUERY_HANDLE, srq.handle);
	/* What is it to be written to? */
	EXPECT_EQ(-EINVAL, xrc_ioctl(self->x.fd, &cmd));
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR, xrc_guard_page(),
		sizeof(attr));
	EXPECT_EQ(-EFAULT, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(-ENOENT, xrc_srq_query(&self->x, &srq, &attr));
	EXPECT_EQ(0x5aU, attr.max_wr);
}

/* The limit, as it is armed now. */
TEST_F_TIMEOUT(srq_attr, limit, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct inbox in;
	__u32 num;
	int i;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, 3 * PART,
				self->ef, &in));
	num = in.srq.srq_num;
	ASSERT_EQ(0, inbox_post(&in, 8));
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 7));
	EXPECT_ATTR(&in.srq, 8, 1, 7);
	EXPECT_EQ(-EINVAL, xrc_srq_limit(&self->x, &in.srq, 9));
	EXPECT_ATTR(&in.srq, 8, 1, 7);
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 5));
	EXPECT_ATTR(&in.srq, 8, 1, 5);
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 0));
	EXPECT_ATTR(&in.srq, 8, 1, 0);

	/* Each time once, and then there is none. */
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 7));
		ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 8, i));
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_NO_EVENT(self->ef);
		EXPECT_ATTR(&in.srq, 8, 1, 7);
		ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 8, i));
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 7,
			     (uintptr_t)&in);
		EXPECT_ATTR(&in.srq, 8, 1, 0);
		ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 8, i));
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_NO_EVENT(self->ef);
		ASSERT_EQ(0, inbox_post(&in, 3));
	}

	/* A message in parts takes its work request when it begins. */
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 8));
	ASSERT_EQ(0, peer_send_part(&self->peer, &in, IB_XRC_WIRE_MORE, PART));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 8, (uintptr_t)&in);
	EXPECT_EQ(0, xrc_cq_poll(&self->cq, &cqe));
	ASSERT_EQ(0, peer_send_part(&self->peer, &in, IB_XRC_WIRE_CONT, PART));
	ASSERT_EQ(0, inbox_wait(&in, &cqe));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	EXPECT_NO_EVENT(self->ef);

	/* Below it already: at once. */
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 8));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 8, (uintptr_t)&in);
	EXPECT_ATTR(&in.srq, 8, 1, 0);
}

#define ROUNDS 400
/* How many messages the sender may be ahead: fewer than an SRQ holds back. */
#define AHEAD 32

static int rounds_received;

static void *send_rounds(void *arg)
{
	struct peer *p = ((void **)arg)[0];
	struct inbox *in = ((void **)arg)[1];
	intptr_t ret = 0;
	int i;

	for (i = 0; i < ROUNDS && !ret; i++) {
		while (i - __atomic_load_n(&rounds_received, __ATOMIC_ACQUIRE) >= AHEAD)
			usleep(1000);
		ret = peer_send(p, in, 0, 8, 0);
		if (!ret)
			ret = peer_wait_sent(p, 1);
	}
	return (void *)ret;
}

/* However often the line is crossed while it is armed: as many events as armings. */
TEST_F_TIMEOUT(srq_attr, limit_under_traffic, 300)
{
	void *arg[2], *ret;
	struct ib_xrc_event event;
	struct ib_xrc_cqe cqe;
	int i, armed = 0, told = 0;
	pthread_t thread;
	struct inbox in;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 16, 64, self->ef,
				&in));
	ASSERT_EQ(0, inbox_post(&in, 16));
	arg[0] = &self->peer;
	arg[1] = &in;
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_rounds, arg));
	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		__atomic_store_n(&rounds_received, i + 1, __ATOMIC_RELEASE);
		/* Down to some and up again. */
		if (i % 11 == 10)
			ASSERT_EQ(0, inbox_post(&in, 11));
		if (armed == told) {
			ASSERT_EQ(0, xrc_srq_limit(&self->x, &in.srq, 10));
			armed++;
		}
		if (xrc_event_read(self->ef, &event, 1) == 1) {
			EXPECT_EQ((__u32)IB_XRC_EVENT_SRQ_LIMIT, event.type);
			EXPECT_EQ(10U, event.value);
			told++;
		}
		ASSERT_LE(told, armed);
	}
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(NULL, ret);
	/* It was crossed often, and is armed or was told at the end. */
	EXPECT_LT(10, told);
	if (armed != told) {
		struct ib_xrc_srq_attr attr;

		ASSERT_EQ(0, xrc_srq_query(&self->x, &in.srq, &attr));
		if (!attr.limit)
			EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT,
				     in.srq.srq_num, 10, (uintptr_t)&in);
	}
	EXPECT_NO_EVENT(self->ef);
}

/*
 * Resizing is not part of the ABI, so it is refused as anything that is not; the SRQ
 * stays as it is.
 */
TEST_F_TIMEOUT(srq_attr, resize_refused, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	union xrc_cmd cmd;
	struct inbox in;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, 64, self->ef,
				&in));
	ASSERT_EQ(0, inbox_post(&in, 8));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_MODIFY);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_MODIFY_HANDLE, in.srq.handle);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_MODIFY_LIMIT, 3);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_MODIFY_LIMIT + 1, 16);
	EXPECT_EQ(-EPROTONOSUPPORT, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_ATTR(&in.srq, 8, 1, 0);
	ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 64, 3));
	ASSERT_EQ(0, inbox_wait(&in, &cqe));
	EXPECT_TRUE(inbox_has(&in, &cqe, 64, 3));
	EXPECT_NO_EVENT(self->ef);
}

/* In error it can be asked, and is told of once. */
TEST_F_TIMEOUT(srq_attr, in_error, TIMEOUT)
{
	struct ib_uverbs_sge sge[2] = {};
	struct inbox in;
	int i;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, 64,
					self->ef, &in));
		if (i)
			__atomic_store_n(&in.srq.ring->producer, 9,
					 __ATOMIC_RELEASE);
		else
			xrc_srq_write(&in.srq, 0, sge, 2);
		ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 64, 3));
		EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_ERROR, in.srq.srq_num,
			     IB_XRC_SRQ_ERROR_RING, (uintptr_t)&in);
		/* Before it is told, all is as it will be. */
		EXPECT_EQ(IB_XRC_SRQ_RING_ERROR, in.srq.ring->flags);
		EXPECT_ATTR(&in.srq, 8, 1, 0);
		EXPECT_EQ(0, xrc_srq_kick(&self->x, &in.srq));
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->peer.qp,
						IBV_QPS_ERR));
		EXPECT_NO_EVENT(self->ef);
		EXPECT_EQ(0, inbox_close(&in));
		peer_close(&self->x, &self->peer);
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 1024, 64 * 1024,
				       &self->peer));
	}
}

/* What is told goes with the SRQ. */
TEST_F_TIMEOUT(srq_attr, error_of_destroyed, TIMEOUT)
{
	struct inbox in;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, 64, self->ef,
				&in));
	__atomic_store_n(&in.srq.ring->producer, 9, __ATOMIC_RELEASE);
	ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 64, 3));
	ASSERT_EQ(0, inbox_wait_error(&in));
	EXPECT_EQ(0, inbox_close(&in));
	EXPECT_NO_EVENT(self->ef);
}

TEST_HARNESS_MAIN
