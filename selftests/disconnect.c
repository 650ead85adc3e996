// SPDX-License-Identifier: GPL-2.0
/*
 * Connect and disconnect: where they end when they fail or are told not to wait, and
 * that of what a sender knows to have arrived each message is delivered or counted.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define DEPTH 1024
#define SIZE 200
#define BUFFERS 512

/* Longer than any test waits, where a call is to end for another reason. */
#define LONG_MS 600000
/* What a slow machine may add to a time that was asked for. */
#define SLACK_MS (15000 * xrc_scale())

/* An SRQ, its CQ and buffers. */
struct receiver {
	struct xrc_cq cq;
	struct xrc_srq srq;
	__u32 posted;
	__u32 next;	/* the message that comes next */
	__u8 (*buf)[SIZE];
};

FIXTURE(disconnect)
{
	int objects;
	int file;
	struct xrc x;
	struct xrc y;			/* another file of the domain */
	__u32 xrcd;
	__u32 y_xrcd;
	struct xrc_qp qp;		/* the QP by its handle, in x */
	struct xrc_qp by_num;		/* and by its number, in y */
	struct xrc_ini ini;
	struct receiver r;
	__u32 sent;
};

typedef FIXTURE_DATA(disconnect) disconnect_t;

static int receiver_open(struct xrc *x, __u32 xrcd, struct receiver *r)
{
	int ret;

	memset(r, 0, sizeof(*r));
	r->buf = mmap(NULL, sizeof(*r->buf) * BUFFERS, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (r->buf == MAP_FAILED)
		return -errno;
	ret = xrc_cq_create(x, 2 * BUFFERS, 0, XRC_NO_FD, &r->cq);
	return ret ? ret : xrc_srq_create(x, xrcd, &r->cq, BUFFERS, 1, 0, &r->srq);
}

static int receiver_post(struct xrc *x, struct receiver *r, __u32 n)
{
	int ret = 0;

	for (; n && !ret; n--, r->posted++)
		ret = xrc_srq_post(x, &r->srq, r->posted % BUFFERS,
				   r->buf[r->posted % BUFFERS], SIZE);
	return ret;
}

/* A completion of the message that is next. */
static int receiver_check(struct receiver *r, const struct ib_xrc_cqe *cqe)
{
	if (cqe->status)
		return -EIO;
	if (cqe->byte_len != SIZE ||
	    !xrc_check(r->buf[cqe->wr_id], SIZE, r->next++))
		return -EBADMSG;
	return 0;
}

/* Receive n messages, in order. */
static int receiver_wait(struct receiver *r, __u32 n)
{
	struct ib_xrc_cqe cqe;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_cq_wait(&r->cq, &cqe, XRC_TIMEOUT_MS);
		if (!ret)
			ret = receiver_check(r, &cqe);
	}
	return ret;
}

/* How many messages have been received, or a negative errno. */
static int receiver_drain(struct receiver *r)
{
	struct ib_xrc_cqe cqe;
	int ret, n = 0;

	for (; xrc_cq_poll(&r->cq, &cqe); n++) {
		ret = receiver_check(r, &cqe);
		if (ret)
			return ret;
	}
	return n;
}

static int send_number(struct xrc_ini *ini, const struct receiver *r, __u32 i)
{
	struct xrc_send send = {
		.srq_num = r->srq.srq_num,
		.offset = i % DEPTH * SIZE,
		.length = SIZE,
	};

	xrc_fill(ini->buf + send.offset, SIZE, i);
	return xrc_ini_send(ini, &send);
}

/* Send the next n messages. */
static int send_next(disconnect_t *self, __u32 n)
{
	int ret = 0;

	for (; n && !ret; n--, self->sent++)
		ret = send_number(&self->ini, &self->r, self->sent);
	return ret;
}

static int wait_acked(struct xrc_ini *ini, __u32 n)
{
	struct ibv_wc wc;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS);
		if (!ret && wc.status)
			ret = -EIO;
	}
	return ret;
}

/* Take all completions of n sends; returns how many messages had arrived. */
static int count_acked(struct xrc_ini *ini, __u32 n)
{
	struct ibv_wc wc;
	int ret, acked = 0;

	while (n--) {
		ret = xrc_ini_wait(ini, &wc, 3 * XRC_TIMEOUT_MS);
		if (ret)
			return ret;
		if (!wc.status)
			acked++;
	}
	return acked;
}

static int set_state(struct xrc *x, const struct xrc_qp *qp, int state)
{
	const struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = state,
	};

	return xrc_tgt_modify(x, qp, &attr);
}

FIXTURE_SETUP(disconnect)
{
	self->objects = xrc_kernel_objects();
	self->file = memfd_create("disconnect", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, O_CREAT, &self->xrcd));
	ASSERT_EQ(0, xrc_xrcd_open(&self->y, self->file, 0, &self->y_xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
	self->by_num = (struct xrc_qp) {
		.by_num = true,
		.handle = self->y_xrcd,
		.qp_num = self->qp.qp_num,
	};
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, &self->r));
	ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, DEPTH * SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
}

FIXTURE_TEARDOWN(disconnect)
{
	xrc_ini_close(&self->ini);
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->file);
}

/* The connection is set up anew and works. */
#define EXPECT_RECONNECT() do {						\
	EXPECT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));	\
	ASSERT_EQ(0, xrc_ini_reset(&self->ini));			\
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));	\
	self->r.next = self->sent;					\
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 2));		\
	ASSERT_EQ(0, send_next(self, 2));				\
	EXPECT_EQ(0, receiver_wait(&self->r, 2));			\
	EXPECT_EQ(0, wait_acked(&self->ini, 2));			\
} while (0)

#define EXPECT_STATE(state_)						\
	EXPECT_EQ(state_, xrc_tgt_state(&self->y, &self->by_num))

/* A disconnect in a thread of its own. */
struct call {
	struct xrc *x;
	struct xrc_qp qp;
	__u32 timeout_ms;
	bool release;
	pthread_t thread;
	volatile pid_t tid;
	volatile bool done;
	int ret;
	long long ms;
	struct ib_xrc_disconnect_info info;
};

static void *call_main(void *arg)
{
	struct call *c = arg;
	long long start = xrc_now();

	c->tid = gettid();
	c->ret = (c->release ? xrc_tgt_disconnect_release : xrc_tgt_disconnect)
		 (c->x, &c->qp, c->timeout_ms, &c->info);
	c->ms = xrc_now() - start;
	c->done = true;
	return NULL;
}

/* Start one that has something to wait for, and wait until it does. */
static int call_start(disconnect_t *self, struct call *c)
{
	int ret;

	ret = -pthread_create(&c->thread, NULL, call_main, c);
	if (!ret)
		ret = xrc_tgt_wait_state(&self->y, &self->by_num, IBV_QPS_ERR);
	if (ret)
		return ret;
	while (!c->tid)
		usleep(1000);
	ret = xrc_wait_in_syscall(c->tid, SYS_ioctl);
	return c->done ? -EALREADY : ret;
}

static int call_join(struct call *c)
{
	pthread_join(c->thread, NULL);
	return c->ret;
}

/* -------------------------------------------------------- the plain cases -- */

TEST_F_TIMEOUT(disconnect, nothing_under_way, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct ib_uverbs_qp_attr got;
	struct ib_xrc_tgt_qp_info qp_info;
	const __u32 timeout_ms[] = { 0, 1, LONG_MS, 0xffffffff };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(timeout_ms); i++) {
		long long start = xrc_now();

		memset(&info, 0xff, sizeof(info));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp,
						timeout_ms[i], &info));
		EXPECT_GT(SLACK_MS, xrc_now() - start);
		EXPECT_EQ(0U, info.delivered_msgs);
		EXPECT_EQ(0U, info.flushed_msgs);
		EXPECT_STATE(IBV_QPS_ERR);
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, &qp_info));
		EXPECT_EQ((__u32)IBV_QPS_ERR, got.qp_state);
		EXPECT_EQ(1U, qp_info.refs);
		/* Once more, without asking. */
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp,
						timeout_ms[i], NULL));
		EXPECT_RECONNECT();
	}
}

/* From every state that ib_modify_qp_is_ok() lets go to ERR. */
TEST_F_TIMEOUT(disconnect, from_each_state, TIMEOUT)
{
	static const int states[] = {
		IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR,
	};
	struct ib_xrc_disconnect_info info;
	struct ib_uverbs_qp_attr attr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));
		if (states[i] == IBV_QPS_ERR) {
			xrc_ini_tgt_attr(&self->ini, &attr);
			ASSERT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &attr,
						     NULL));
			ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_ERR));
		} else {
			xrc_ini_tgt_attr(&self->ini, &attr);
			attr.qp_state = states[i];
			ASSERT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &attr,
						     NULL));
		}
		memset(&info, 0xff, sizeof(info));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 0, &info));
		EXPECT_EQ(0U, info.delivered_msgs);
		EXPECT_EQ(0U, info.flushed_msgs);
		EXPECT_STATE(IBV_QPS_ERR);
	}
	EXPECT_RECONNECT();
}

/* A QP in RESET has no connection, and does not go to ERR. */
TEST_F_TIMEOUT(disconnect, from_reset, TIMEOUT)
{
	ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect(&self->x, &self->qp, 0, NULL));
	EXPECT_STATE(IBV_QPS_RESET);
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect_release(&self->x, &self->qp, 0,
						      NULL));
	EXPECT_STATE(IBV_QPS_RESET);
	EXPECT_RECONNECT();
}

TEST_F_TIMEOUT(disconnect, attributes, TIMEOUT)
{
	enum { HANDLE = 1, RELEASE = 2, XRCD = 4, QP_NUM = 8, TIME = 16 };
	struct xrc_qp unknown = self->qp, second;
	union xrc_cmd cmd;
	int what, which;

	/* Another handle, since one cannot be used twice in a call (EBUSY). */
	ASSERT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, self->qp.qp_num, &second));
	for (what = 0; what < 32; what++) {
		which = what & ~TIME;
		if ((what & TIME) && (which == HANDLE || which == RELEASE ||
				      which == (XRCD | QP_NUM)))
			continue;
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
			    IB_XRC_METHOD_TGT_QP_DISCONNECT);
		if (what & HANDLE)
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE,
				   self->qp.handle);
		if (what & RELEASE)
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE,
				   second.handle);
		if (what & XRCD)
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD,
				   self->xrcd);
		if (what & QP_NUM)
			xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM,
				   self->qp.qp_num);
		if (what & TIME)
			xrc_in_u32(&cmd,
				   IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS, 0);
		EXPECT_EQ(-EINVAL, xrc_ioctl(self->x.fd, &cmd))
			TH_LOG("attributes %#x", what);
		EXPECT_STATE(IBV_QPS_RTS);
	}
	/* Handles of something else, or of nothing, and a number of nothing. */
	unknown.handle = self->xrcd;
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect(&self->x, &unknown, 0, NULL));
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect_release(&self->x, &unknown, 0, NULL));
	unknown.handle = 4711;
	EXPECT_EQ(-ENOENT, xrc_tgt_disconnect(&self->x, &unknown, 0, NULL));
	EXPECT_EQ(-ENOENT, xrc_tgt_disconnect_release(&self->x, &unknown, 0, NULL));
	unknown = self->by_num;
	unknown.qp_num ^= 0x800000;
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect(&self->y, &unknown, 0, NULL));
	EXPECT_STATE(IBV_QPS_RTS);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	/* After all that it still receives. */
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 1));
	ASSERT_EQ(0, send_next(self, 1));
	EXPECT_EQ(0, receiver_wait(&self->r, 1));
}

/* Without being registered, in another file. */
TEST_F_TIMEOUT(disconnect, by_number, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;

	ASSERT_EQ(0, send_next(self, 3));
	ASSERT_EQ(0, wait_acked(&self->ini, 3));
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->y, &self->by_num, 0, &info));
	EXPECT_EQ(3U, info.flushed_msgs);
	EXPECT_EQ(IBV_QPS_ERR, xrc_tgt_state(&self->x, &self->qp));
	EXPECT_RECONNECT();
}

TEST_F_TIMEOUT(disconnect, release, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_tgt_qp_info qp_info;
	struct xrc_qp second;

	ASSERT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, self->qp.qp_num,
				  &second));
	ASSERT_EQ(0, send_next(self, 3));
	ASSERT_EQ(0, wait_acked(&self->ini, 3));
	EXPECT_EQ(0, xrc_tgt_disconnect_release(&self->y, &second, 0, &info));
	EXPECT_EQ(0U, info.delivered_msgs);
	EXPECT_EQ(3U, info.flushed_msgs);
	/* The registration is gone, the QP is not. */
	EXPECT_EQ(-ENOENT, xrc_tgt_close(&self->y, &second));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &qp_info));
	EXPECT_EQ((__u32)IBV_QPS_ERR, qp_info.state);
	EXPECT_EQ(1U, qp_info.refs);
	/* With the last one it goes. */
	EXPECT_EQ(0, xrc_tgt_disconnect_release(&self->x, &self->qp, 0, &info));
	EXPECT_EQ(0U, info.flushed_msgs);
	EXPECT_EQ(-ENOENT, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_EQ(-EINVAL, xrc_tgt_state(&self->y, &self->by_num));
	/* Nothing depends on the XRCD but the SRQ. */
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, self->xrcd));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &self->r.srq));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, self->xrcd));
}

/* A QP that was taken from its holders cannot be disconnected, only closed. */
TEST_F_TIMEOUT(disconnect, reclaimed, TIMEOUT)
{
	const struct ib_xrc_policy policy = {
		.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	};
	const struct xrc_xrcd_opts opts = { .policy = &policy };
	struct xrc_send send = {
		.srq_num = IB_XRC_WIRE_SRQ_NUM_MAX, .length = SIZE,
	};
	struct xrc_qp qp, num;
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, -1, 0, &opts, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	num = (struct xrc_qp) {
		.by_num = true, .handle = xrcd, .qp_num = qp.qp_num,
	};
	ASSERT_EQ(0, xrc_ini_reset(&self->ini));
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &qp));
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	while (xrc_tgt_state(&self->x, &qp) >= 0 && xrc_now() < end)
		usleep(1000);
	EXPECT_EQ(-ESTALE, xrc_tgt_disconnect(&self->x, &qp, 0, NULL));
	EXPECT_EQ(-ESTALE, xrc_tgt_disconnect_release(&self->x, &qp, 0, NULL));
	EXPECT_EQ(-EINVAL, xrc_tgt_disconnect(&self->x, &num, 0, NULL));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
}

/* ------------------------------------------------------- what had arrived -- */

/* With buffers all is delivered, be it before the call or by it. */
TEST_F_TIMEOUT(disconnect, delivered, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_tgt_qp_info qp_info;
	const __u32 n = 100;
	int round;

	for (round = 0; round < 5; round++) {
		ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
		ASSERT_EQ(0, send_next(self, n));
		ASSERT_EQ(0, wait_acked(&self->ini, n));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, LONG_MS,
						&info));
		/* Not a moment later: there is nothing to wait for. */
		EXPECT_EQ((int)n, receiver_drain(&self->r));
		EXPECT_GE(n, info.delivered_msgs);
		EXPECT_EQ(0U, info.flushed_msgs);
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &qp_info));
		EXPECT_EQ(self->sent, qp_info.recv_msgs);
		EXPECT_RECONNECT();
	}
}

/* Without, it is dropped when the time is over. */
TEST_F_TIMEOUT(disconnect, flushed, TIMEOUT)
{
	static const __u32 timeout_ms[] = { 0, 300 };
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_tgt_qp_info qp_info;
	const __u32 n = 20;
	long long start, ms;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(timeout_ms); i++) {
		ASSERT_EQ(0, send_next(self, n));
		ASSERT_EQ(0, wait_acked(&self->ini, n));
		start = xrc_now();
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp,
						timeout_ms[i], &info));
		ms = xrc_now() - start;
		EXPECT_LE(timeout_ms[i], ms);
		EXPECT_GT(timeout_ms[i] + SLACK_MS, ms);
		EXPECT_EQ(0U, info.delivered_msgs);
		EXPECT_EQ(n, info.flushed_msgs);
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &qp_info));
		EXPECT_EQ(2 * i, qp_info.recv_msgs);
		/* Nor do they come later: what is posted is for others. */
		EXPECT_RECONNECT();
		EXPECT_EQ(0, receiver_drain(&self->r));
	}
}

/* Buffers that come while it waits are in time. */
TEST_F_TIMEOUT(disconnect, delivered_while_it_waits, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	const __u32 n = 20;

	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	ASSERT_EQ(0, call_start(self, &c));
	/* One by one, so that it is awake between. */
	for (__u32 i = 1; i < n; i++) {
		ASSERT_EQ(0, receiver_post(&self->x, &self->r, 1));
		EXPECT_EQ(0, receiver_wait(&self->r, 1));
	}
	EXPECT_FALSE(c.done);
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 1));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(1, receiver_drain(&self->r));
	EXPECT_EQ(n, c.info.delivered_msgs);
	EXPECT_EQ(0U, c.info.flushed_msgs);
	EXPECT_RECONNECT();
}

/* Some come, some do not. */
TEST_F_TIMEOUT(disconnect, delivered_in_part, TIMEOUT)
{
	struct call c = {
		.x = &self->y, .qp = self->by_num, .timeout_ms = 2000,
	};
	const __u32 n = 20;
	int got;

	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	ASSERT_EQ(0, call_start(self, &c));
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 7));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_LE(c.timeout_ms, c.ms);
	EXPECT_GT(c.timeout_ms + SLACK_MS, c.ms);
	/* In 2 s all 7, but who knows how slow this machine is. */
	got = receiver_drain(&self->r);
	EXPECT_LE(0, got);
	EXPECT_EQ((__u32)got, c.info.delivered_msgs);
	EXPECT_EQ(n - got, c.info.flushed_msgs);
	ASSERT_EQ(7, got);
	EXPECT_RECONNECT();
}

/* More than the SRQ keeps: what the QP itself holds back has arrived as well. */
TEST_F_TIMEOUT(disconnect, flushed_with_sender_held, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_limits limits;
	const __u32 n = 500;
	__u32 backlog;
	int acked, round;

	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	backlog = limits.srq_bytes / (limits.tgt_qp_bytes / limits.tgt_qp_recv_wr);
	for (round = 0; round < 2; round++) {
		ASSERT_EQ(0, send_next(self, n));
		/* As many as surely arrive. */
		ASSERT_EQ(0, wait_acked(&self->ini, backlog));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, round * 200,
						&info));
		acked = count_acked(&self->ini, n - backlog);
		ASSERT_LE(0, acked);
		acked += backlog;
		EXPECT_EQ(0U, info.delivered_msgs);
		EXPECT_LE(acked, info.flushed_msgs);
		EXPECT_GE(backlog + limits.tgt_qp_recv_wr, info.flushed_msgs);
		EXPECT_EQ(0, receiver_drain(&self->r));
		EXPECT_RECONNECT();
	}
}

/* The same, but all that arrived is delivered in the end. */
TEST_F_TIMEOUT(disconnect, delivered_with_sender_held, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	struct ib_xrc_tgt_qp_info info;
	struct ib_xrc_limits limits;
	const __u32 n = 500;
	__u32 backlog;
	int acked, got;

	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	backlog = limits.srq_bytes / (limits.tgt_qp_bytes / limits.tgt_qp_recv_wr);
	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, backlog));
	ASSERT_EQ(0, call_start(self, &c));
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
	EXPECT_EQ(0, call_join(&c));
	acked = count_acked(&self->ini, n - backlog);
	ASSERT_LE(0, acked);
	acked += backlog;
	got = receiver_drain(&self->r);
	EXPECT_LE(acked, got);
	EXPECT_EQ((__u32)got, c.info.delivered_msgs);
	EXPECT_EQ(0U, c.info.flushed_msgs);
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
	EXPECT_EQ((__u32)got, info.recv_msgs);
	EXPECT_GT(n, info.recv_msgs);
}

/* Two SRQs: what waits at one does not keep the other from its messages. */
TEST_F_TIMEOUT(disconnect, one_srq_without_buffers, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct receiver slow;
	const __u32 n = 40;
	__u32 i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, &slow));
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
	ASSERT_EQ(0, receiver_post(&self->x, &slow, 3));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, send_number(&self->ini, &slow, i));
		ASSERT_EQ(0, send_next(self, 1));
	}
	ASSERT_EQ(0, wait_acked(&self->ini, 2 * n));
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 100, &info));
	EXPECT_EQ((int)n, receiver_drain(&self->r));
	EXPECT_EQ(3, receiver_drain(&slow));
	EXPECT_EQ(n - 3, info.flushed_msgs);
	EXPECT_RECONNECT();
}

/* Messages of another TGT QP at the same SRQ are left alone. */
TEST_F_TIMEOUT(disconnect, other_qp_at_the_same_srq, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct receiver *r = &self->r;
	struct xrc_ini ini;
	struct xrc_qp qp;
	__u32 i;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&ini, DEPTH, DEPTH * SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &qp));
	for (i = 0; i < 10; i++) {
		ASSERT_EQ(0, send_next(self, 1));
		ASSERT_EQ(0, wait_acked(&self->ini, 1));
		ASSERT_EQ(0, send_number(&ini, r, i));
		ASSERT_EQ(0, wait_acked(&ini, 1));
	}
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 0, &info));
	EXPECT_EQ(10U, info.flushed_msgs);
	EXPECT_EQ(0, receiver_drain(r));
	/* They are all there, and in order. */
	ASSERT_EQ(0, receiver_post(&self->x, r, 10));
	EXPECT_EQ(0, receiver_wait(r, 10));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &qp));
	ASSERT_EQ(0, receiver_post(&self->x, r, 1));
	ASSERT_EQ(0, send_number(&ini, r, 10));
	EXPECT_EQ(0, receiver_wait(r, 1));
	xrc_ini_close(&ini);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_RECONNECT();
}

/* An error of the connection does not lose what came before it. */
TEST_F_TIMEOUT(disconnect, in_error, TIMEOUT)
{
	struct xrc_send bad = {
		.srq_num = IB_XRC_WIRE_SRQ_NUM_MAX, .length = SIZE,
	};
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_tgt_qp_info qp_info;

	ASSERT_EQ(0, send_next(self, 10));
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &bad));
	ASSERT_EQ(0, wait_acked(&self->ini, 10));
	ASSERT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 4));
	EXPECT_EQ(0, receiver_wait(&self->r, 4));
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 0, &info));
	EXPECT_EQ(6U, info.flushed_msgs);
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &qp_info));
	EXPECT_EQ(4U, qp_info.recv_msgs);
	EXPECT_EQ(1U, qp_info.refused_msgs);
	EXPECT_RECONNECT();
}

/* Sends until the connection ends. */
struct sender {
	disconnect_t *self;
	pthread_t thread;
	volatile __u32 acked;
	__u32 sent;
	int ret;
};

static void *sender_main(void *arg)
{
	struct sender *s = arg;
	struct xrc_ini *ini = &s->self->ini;
	struct ibv_wc wc;
	bool ended = false;
	__u32 done = 0;

	while (!s->ret && (!ended || done < s->sent)) {
		while (!ended && !s->ret && s->sent < done + 64)
			s->ret = send_number(ini, &s->self->r, s->sent++);
		if (!s->ret)
			s->ret = xrc_ini_wait(ini, &wc, 3 * XRC_TIMEOUT_MS);
		if (s->ret)
			break;
		done++;
		if (wc.status)
			ended = true;
		else
			s->acked++;
	}
	return NULL;
}

/* In the middle of it all, over and over. */
TEST_F_TIMEOUT(disconnect, under_traffic, 300)
{
	/* Never enough buffers, then some to spare. */
	static const __u32 spare[] = { 1, 0, 0, 200, 0, 0 };
	struct ib_xrc_disconnect_info info;
	struct ib_xrc_tgt_qp_info qp_info;
	struct sender s;
	long long end;
	__u64 before = 0;
	int got, ret;
	unsigned int round;

	for (round = 0; round < ARRAY_SIZE(spare); round++) {
		s = (struct sender){ .self = self };
		self->r.next = 0;
		ASSERT_EQ(0, receiver_post(&self->x, &self->r, spare[round]));
		ASSERT_EQ(0, pthread_create(&s.thread, NULL, sender_main, &s));
		end = xrc_now() + XRC_TIMEOUT_MS;
		for (got = 0; got < 300 && xrc_now() < end; got += ret) {
			ret = receiver_drain(&self->r);
			ASSERT_LE(0, ret);
			ASSERT_EQ(0, receiver_post(&self->x, &self->r, ret));
			if (!ret)
				sched_yield();
		}
		EXPECT_LE(300, got);
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp,
						round % 3 * 150, &info));
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &qp_info));
		ret = receiver_drain(&self->r);
		ASSERT_LE(0, ret);
		got += ret;
		/* What was received when it returned is what was received. */
		EXPECT_EQ(qp_info.recv_msgs, before + got);
		before = qp_info.recv_msgs;
		pthread_join(s.thread, NULL);
		EXPECT_EQ(0, s.ret);
		EXPECT_LE(s.acked, got + info.flushed_msgs);
		EXPECT_GE(s.sent, got + info.flushed_msgs);
		EXPECT_EQ(0, receiver_drain(&self->r));
		ASSERT_EQ(0, receiver_post(&self->x, &self->r, ret));

		ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));
		ASSERT_EQ(0, xrc_ini_reset(&self->ini));
		ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
	}
}

TEST_F_TIMEOUT(disconnect, connected_again_and_again, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	__u32 i, n;

	for (i = 0; i < 40; i++) {
		n = i * 7 % 23;
		ASSERT_EQ(0, send_next(self, n));
		ASSERT_EQ(0, wait_acked(&self->ini, n));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 0, &info));
		EXPECT_EQ(n, info.flushed_msgs);
		EXPECT_RECONNECT();
	}
}

/* ----------------------------------------------------------- interrupted -- */

/* A process that waits is killed, by either signal: it goes at once, the messages stay. */
TEST_F_TIMEOUT(disconnect, killed, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct xrc_qp qp;
	struct xrc z;
	const __u32 n = 10;
	long long start;
	__u32 xrcd;
	int round, status;
	pid_t pid;

	for (round = 0; round < 4; round++) {
		ASSERT_EQ(0, send_next(self, n));
		ASSERT_EQ(0, wait_acked(&self->ini, n));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			/* By number, or giving a registration back. */
			if (xrc_open(&z) ||
			    xrc_xrcd_open(&z, self->file, 0, &xrcd) ||
			    xrc_tgt_open(&z, xrcd, self->qp.qp_num, &qp))
				_exit(1);
			if (round % 2)
				xrc_tgt_disconnect_release(&z, &qp, LONG_MS, NULL);
			qp = (struct xrc_qp) {
				.by_num = true,
				.handle = xrcd,
				.qp_num = self->qp.qp_num,
			};
			xrc_tgt_disconnect(&z, &qp, LONG_MS, NULL);
			_exit(2);
		}
		ASSERT_EQ(0, xrc_tgt_wait_state(&self->y, &self->by_num,
						IBV_QPS_ERR));
		EXPECT_EQ(0, xrc_wait_in_syscall(pid, SYS_ioctl));
		start = xrc_now();
		kill(pid, round % 3 ? SIGKILL : SIGTERM);
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_GT(SLACK_MS, xrc_now() - start);
		EXPECT_TRUE(WIFSIGNALED(status));
		EXPECT_STATE(IBV_QPS_ERR);
		/* They are delivered, or another call counts them. */
		if (round < 2) {
			ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
			EXPECT_EQ(0, receiver_wait(&self->r, n));
		}
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &self->qp, 0, &info));
		EXPECT_EQ(round < 2 ? 0 : n, info.flushed_msgs);
		EXPECT_RECONNECT();
	}
	munmap(self->r.srq.ring, self->r.srq.info.mmap_length);
	munmap(self->r.cq.ring, self->r.cq.info.mmap_length);
	xrc_close(&self->x);
	xrc_close(&self->y);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

static volatile int signals;

static void on_signal(int sig)
{
	(void)sig;
	signals++;
}

/* A signal that is handled is handled when the call is over. */
TEST_F_TIMEOUT(disconnect, handled_signal, TIMEOUT)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	const __u32 n = 10;
	__u32 i;

	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	ASSERT_EQ(0, call_start(self, &c));
	for (i = 0; i < n; i++) {
		EXPECT_EQ(0, pthread_kill(c.thread, i % 2 ? SIGTERM : SIGUSR1));
		EXPECT_EQ(0, xrc_wait_in_syscall(c.tid, SYS_ioctl));
		EXPECT_FALSE(c.done);
		ASSERT_EQ(0, receiver_post(&self->x, &self->r, 1));
		EXPECT_EQ(0, receiver_wait(&self->r, 1));
	}
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(n, c.info.delivered_msgs);
	EXPECT_EQ(0U, c.info.flushed_msgs);
	EXPECT_LT(0, signals);
	EXPECT_RECONNECT();
}

/* ---------------------------------------------------------------- others -- */

TEST_F_TIMEOUT(disconnect, two_at_once, TIMEOUT)
{
	struct call c[2] = {
		{ .x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS },
		{ .x = &self->y, .qp = self->by_num, .timeout_ms = LONG_MS },
	};
	const __u32 n = 10;
	int i;

	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, call_start(self, &c[i]));
	}
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, call_join(&c[i]));
		EXPECT_EQ(0U, c[i].info.flushed_msgs);
	}
	EXPECT_EQ((int)n, receiver_drain(&self->r));
	EXPECT_EQ(n, c[0].info.delivered_msgs > c[1].info.delivered_msgs ?
		     c[0].info.delivered_msgs : c[1].info.delivered_msgs);
	EXPECT_RECONNECT();
}

/* Who is in more of a hurry does not wait for the other, and each message counts once. */
TEST_F_TIMEOUT(disconnect, two_with_different_times, TIMEOUT)
{
	struct call slow = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	struct ib_xrc_disconnect_info info;
	const __u32 n = 10;
	long long start;

	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	ASSERT_EQ(0, call_start(self, &slow));
	start = xrc_now();
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->y, &self->by_num, 200, &info));
	EXPECT_GT(200 + SLACK_MS, xrc_now() - start);
	/* Nothing is left for the first one. */
	EXPECT_EQ(0, call_join(&slow));
	EXPECT_GT(LONG_MS, slow.ms);
	EXPECT_EQ(0U, slow.info.delivered_msgs + info.delivered_msgs);
	EXPECT_EQ(n, slow.info.flushed_msgs + info.flushed_msgs);
	EXPECT_EQ(0, receiver_drain(&self->r));
	EXPECT_RECONNECT();
}

/* Both give the time up at the same moment. */
TEST_F_TIMEOUT(disconnect, two_flush, TIMEOUT)
{
	const __u32 n = 30;
	int round, i;

	for (round = 0; round < 5; round++) {
		struct call c[2] = {
			{ .x = &self->x, .qp = self->qp, .timeout_ms = 50 },
			{ .x = &self->y, .qp = self->by_num, .timeout_ms = 50 },
		};

		ASSERT_EQ(0, send_next(self, n));
		ASSERT_EQ(0, wait_acked(&self->ini, n));
		for (i = 0; i < 2; i++) {
			ASSERT_EQ(0, pthread_create(&c[i].thread, NULL, call_main,
						    &c[i]));
		}
		for (i = 0; i < 2; i++) {
			EXPECT_EQ(0, call_join(&c[i]));
			EXPECT_EQ(0U, c[i].info.delivered_msgs);
		}
		EXPECT_EQ(n, c[0].info.flushed_msgs + c[1].info.flushed_msgs);
		EXPECT_RECONNECT();
	}
}

/* The handle is in use as long as the call lasts; other registrations are not. */
TEST_F_TIMEOUT(disconnect, closed_meanwhile, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	struct xrc_qp second;

	ASSERT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, self->qp.qp_num,
				  &second));
	ASSERT_EQ(0, send_next(self, 1));
	ASSERT_EQ(0, wait_acked(&self->ini, 1));
	ASSERT_EQ(0, call_start(self, &c));
	EXPECT_EQ(-EBUSY, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &second));
	EXPECT_FALSE(c.done);
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 1));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(1U, c.info.delivered_msgs);
	EXPECT_EQ(0, receiver_wait(&self->r, 1));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
}

/* Nobody holds the QP of which it waits for messages: it goes all the same. */
TEST_F_TIMEOUT(disconnect, destroyed_meanwhile, TIMEOUT)
{
	struct call c = {
		.x = &self->y, .qp = self->by_num, .timeout_ms = LONG_MS,
	};
	const __u32 n = 10;
	long long start;

	ASSERT_EQ(0, send_next(self, n));
	ASSERT_EQ(0, wait_acked(&self->ini, n));
	ASSERT_EQ(0, call_start(self, &c));
	start = xrc_now();
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_GT(SLACK_MS, xrc_now() - start);
	EXPECT_EQ(-EINVAL, xrc_tgt_state(&self->y, &self->by_num));
	/* The messages outlive their QP, and the call waits for them. */
	EXPECT_FALSE(c.done);
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, n));
	EXPECT_EQ(0, receiver_wait(&self->r, n));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(n, c.info.delivered_msgs);
	EXPECT_EQ(0U, c.info.flushed_msgs);
}

/* What goes with its SRQ need not be waited for. */
TEST_F_TIMEOUT(disconnect, srq_destroyed_meanwhile, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};

	ASSERT_EQ(0, send_next(self, 10));
	ASSERT_EQ(0, wait_acked(&self->ini, 10));
	ASSERT_EQ(0, call_start(self, &c));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &self->r.srq));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_GT(LONG_MS, c.ms);
	EXPECT_EQ(0U, c.info.delivered_msgs);
	EXPECT_STATE(IBV_QPS_ERR);
}

/* Modified, queried and listed it can be while a disconnect waits. */
TEST_F_TIMEOUT(disconnect, others_use_it_meanwhile, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = LONG_MS,
	};
	struct ib_xrc_tgt_qp_info info;
	struct ib_uverbs_qp_attr attr;
	struct xrc_qp second;
	__u32 count;

	ASSERT_EQ(0, send_next(self, 2));
	ASSERT_EQ(0, wait_acked(&self->ini, 2));
	ASSERT_EQ(0, call_start(self, &c));
	EXPECT_EQ(0, xrc_tgt_query(&self->y, &self->by_num, &attr, &info));
	EXPECT_EQ((__u32)IBV_QPS_ERR, attr.qp_state);
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, self->y_xrcd, &info, 1, &count));
	EXPECT_EQ(1U, count);
	EXPECT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, self->qp.qp_num,
				  &second));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &second));
	EXPECT_EQ(0, set_state(&self->y, &self->by_num, IBV_QPS_RESET));
	EXPECT_FALSE(c.done);
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 2));
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(2U, c.info.delivered_msgs);
	/* The reset stands. */
	EXPECT_EQ(2, receiver_drain(&self->r));
	EXPECT_RECONNECT();
}

/* The next connection is none of a disconnect's business that waits for the last one. */
TEST_F_TIMEOUT(disconnect, reconnected_meanwhile, TIMEOUT)
{
	struct call c = {
		.x = &self->x, .qp = self->qp, .timeout_ms = 5000,
	};

	ASSERT_EQ(0, send_next(self, 6));
	ASSERT_EQ(0, wait_acked(&self->ini, 6));
	ASSERT_EQ(0, call_start(self, &c));
	ASSERT_EQ(0, set_state(&self->y, &self->by_num, IBV_QPS_RESET));
	ASSERT_EQ(0, xrc_ini_reset(&self->ini));
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->y, &self->by_num));
	ASSERT_EQ(0, send_next(self, 4));
	ASSERT_EQ(0, wait_acked(&self->ini, 4));
	EXPECT_FALSE(c.done);
	EXPECT_EQ(0, call_join(&c));
	EXPECT_EQ(6U, c.info.flushed_msgs);
	EXPECT_STATE(IBV_QPS_RTS);
	self->r.next = 6;
	ASSERT_EQ(0, receiver_post(&self->x, &self->r, 4));
	EXPECT_EQ(0, receiver_wait(&self->r, 4));
}

/* --------------------------------------------------------------- connect -- */

/* Every prefix of the way, whole or in two calls, by handle and by number. */
TEST_F_TIMEOUT(disconnect, connect_prefix, TIMEOUT)
{
	static const int to[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct ib_uverbs_qp_attr attr, got;
	unsigned int i, k;
	__u32 now;

	xrc_ini_tgt_attr(&self->ini, &attr);
	for (i = 0; i < 2 * ARRAY_SIZE(to); i++) {
		struct xrc *x = i % 2 ? &self->x : &self->y;
		struct xrc_qp *qp = i % 2 ? &self->qp : &self->by_num;

		for (k = 0; k <= i / 2; k++) {
			ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));
			if (k) {
				attr.qp_state = to[k - 1];
				EXPECT_EQ(0, xrc_tgt_connect_timeout(x, qp, &attr,
						LONG_MS, &now));
				EXPECT_EQ((__u32)to[k - 1], now);
			}
			attr.qp_state = to[i / 2];
			EXPECT_EQ(0, xrc_tgt_connect_timeout(x, qp, &attr, LONG_MS,
							     &now));
			EXPECT_EQ((__u32)to[i / 2], now);
			EXPECT_EQ(0, xrc_tgt_query(x, qp, &got, NULL));
			EXPECT_EQ((__u32)to[i / 2], got.qp_state);
		}
	}
}

/* A neighbour that does not answer, so that finding the way to it takes a while. */
static void unreachable(struct ib_uverbs_qp_attr *attr)
{
	attr->ah_attr.grh.dgid[15] ^= 0x40;
}

/* Where it fails it stops, what was done before stands, and it can go on from there. */
TEST_F_TIMEOUT(disconnect, connect_fails, TIMEOUT)
{
	struct ib_uverbs_qp_attr good, attr, got;
	__u32 now, i;
	int ret;

	xrc_ini_tgt_attr(&self->ini, &good);
	for (i = 0; i < 5; i++) {
		static const __u32 state[] = {
			IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_INIT, IBV_QPS_INIT,
			IBV_QPS_RTR,
		};

		ASSERT_EQ(0, set_state(&self->x, &self->qp, IBV_QPS_RESET));
		attr = good;
		switch (i) {
		case 0:
			attr.port_num = 77;
			break;
		case 1:
			attr.ah_attr.grh.sgid_index = 255;
			break;
		case 2:
			unreachable(&attr);
			break;
		case 3:
			attr.path_mtu = 99;
			break;
		case 4:
			attr.timeout = 32;
			break;
		}
		ret = xrc_tgt_connect_timeout(&self->y, &self->by_num, &attr,
					      LONG_MS, &now);
		EXPECT_GT(0, ret)
			TH_LOG("case %u", i);
		EXPECT_EQ(state[i], now)
			TH_LOG("case %u", i);
		EXPECT_STATE((int)state[i]);
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
		EXPECT_EQ(state[i], got.qp_state);
		if (state[i] >= IBV_QPS_INIT)
			EXPECT_EQ(good.port_num, got.port_num);
		if (state[i] >= IBV_QPS_RTR)
			EXPECT_EQ(good.dest_qp_num, got.dest_qp_num);
		/* Without RESP_STATE it fails in the same way. */
		EXPECT_EQ(ret, xrc_tgt_connect(&self->x, &self->qp, &attr, NULL));
		EXPECT_STATE((int)state[i]);
		EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &good, &now));
		EXPECT_EQ((__u32)IBV_QPS_RTS, now);
	}
	EXPECT_RECONNECT();
}

/* Connects to where nobody answers, which keeps the QP busy for a while. */
struct busy {
	disconnect_t *self;
	pthread_t thread;
	volatile pid_t tid;
	volatile bool done;
	int ret;
};

static void *busy_main(void *arg)
{
	struct busy *b = arg;
	struct ib_uverbs_qp_attr attr;

	xrc_ini_tgt_attr(&b->self->ini, &attr);
	unreachable(&attr);
	b->tid = gettid();
	b->ret = xrc_tgt_connect(&b->self->x, &b->self->qp, &attr, NULL);
	b->done = true;
	return NULL;
}

/* Wait until it is on its way to RTR. */
static int busy_start(disconnect_t *self, struct busy *b)
{
	int ret = set_state(&self->x, &self->qp, IBV_QPS_RESET);

	*b = (struct busy){ .self = self };
	if (!ret)
		ret = -pthread_create(&b->thread, NULL, busy_main, b);
	if (!ret)
		ret = xrc_tgt_wait_state(&self->y, &self->by_num, IBV_QPS_INIT);
	while (!ret && !b->tid)
		usleep(1000);
	return ret;
}

TEST_F_TIMEOUT(disconnect, connect_timeout, TIMEOUT)
{
	struct ib_uverbs_qp_attr attr;
	int round, ret, seen = 0;
	bool done;
	struct busy b;
	__u32 now;

	xrc_ini_tgt_attr(&self->ini, &attr);
	/* If the machine is so slow that the other is done before, then again. */
	for (round = 0; round < 20 && seen < 2; round++) {
		ASSERT_EQ(0, busy_start(self, &b));
		ret = xrc_tgt_connect_timeout(&self->y, &self->by_num, &attr,
					      round % 2 ? 50 : 0, &now);
		done = b.done;
		pthread_join(b.thread, NULL);
		EXPECT_GT(0, b.ret);
		if (done)
			continue;
		EXPECT_EQ(-ETIMEDOUT, ret);
		EXPECT_EQ((__u32)IBV_QPS_INIT, now);
		seen++;
	}
	EXPECT_EQ(2, seen);
	/* It is not busy now, and there is time enough. */
	EXPECT_EQ(0, xrc_tgt_connect_timeout(&self->y, &self->by_num, &attr,
					     LONG_MS, &now));
	EXPECT_EQ((__u32)IBV_QPS_RTS, now);
	EXPECT_RECONNECT();
}

/* So does a disconnect wait no longer than it may, and gets its way in the end. */
TEST_F_TIMEOUT(disconnect, disconnect_while_connecting, TIMEOUT)
{
	long long start = xrc_now();
	struct busy b;
	int ret;

	ASSERT_EQ(0, busy_start(self, &b));
	ret = xrc_tgt_disconnect(&self->y, &self->by_num, 0, NULL);
	EXPECT_GT(SLACK_MS, xrc_now() - start);
	EXPECT_TRUE(!ret || ret == -ETIMEDOUT)
		TH_LOG("error %d", ret);
	pthread_join(b.thread, NULL);
	EXPECT_GT(0, b.ret);
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->y, &self->by_num, 0, NULL));
	EXPECT_STATE(IBV_QPS_ERR);
	EXPECT_RECONNECT();
}

/* kill -9 of a process that waits for its turn to connect. */
TEST_F_TIMEOUT(disconnect, connect_killed, TIMEOUT)
{
	struct ib_uverbs_qp_attr attr;
	int round, status, sock[2], seen = 0;
	struct xrc_qp qp;
	struct busy b;
	struct xrc z;
	pid_t pid;
	char c;

	xrc_ini_tgt_attr(&self->ini, &attr);
	for (round = 0; round < 5 && !seen; round++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			qp = self->by_num;
			if (xrc_open(&z) ||
			    xrc_xrcd_open(&z, self->file, 0, &qp.handle) ||
			    write(sock[1], "", 1) != 1 ||
			    read(sock[1], &c, 1) != 1)
				_exit(1);
			xrc_tgt_connect(&z, &qp, &attr, NULL);
			for (;;)
				pause();
		}
		ASSERT_EQ(1, read(sock[0], &c, 1));
		ASSERT_EQ(0, busy_start(self, &b));
		ASSERT_EQ(1, write(sock[0], "", 1));
		xrc_wait_in_syscall(pid, SYS_ioctl);
		kill(pid, SIGKILL);
		EXPECT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_TRUE(WIFSIGNALED(status));
		/* If the machine was too slow it had its turn before: then again. */
		if (!b.done)
			seen++;
		pthread_join(b.thread, NULL);
		EXPECT_GT(0, b.ret);
		close(sock[0]);
		close(sock[1]);
	}
	/* It died while the other was still at it. */
	EXPECT_EQ(1, seen);
	EXPECT_RECONNECT();
}

TEST_HARNESS_MAIN
