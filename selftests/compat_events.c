// SPDX-License-Identifier: GPL-2.0
/*
 * Asynchronous events of a program that knows libibverbs alone: ibv_get_async_event(3).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/epoll.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())
/* For an event that is to come, and for one that is not. */
#define LONG_MS 60000
#define SHORT_MS 300

FIXTURE(events)
{
	struct rig rig;
	/* As it was when the device was opened. */
	int fd;
};

FIXTURE_SETUP(events)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	self->fd = self->rig.context->async_fd;
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(events)
{
	EXPECT_EQ(self->fd, self->rig.context->async_fd);
	rig_close(&self->rig);
}

typedef FIXTURE_DATA(events) events_t;

static bool readable(int fd, int ms)
{
	struct pollfd fds = { .fd = fd, .events = POLLIN };

	return poll(&fds, 1, ms) == 1 && fds.revents & POLLIN;
}

/* The next event. */
static void get(struct __test_metadata *_metadata, events_t *self,
		struct ibv_async_event *event)
{
	ASSERT_TRUE(readable(self->fd, LONG_MS));
	ASSERT_EQ(0, ibv_get_async_event(self->rig.context, event));
}

static void no_event(struct __test_metadata *_metadata, events_t *self)
{
	struct ibv_async_event event;

	EXPECT_FALSE(readable(self->fd, SHORT_MS));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	EXPECT_EQ(-1, ibv_get_async_event(self->rig.context, &event));
	EXPECT_EQ(EAGAIN, errno);
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, 0));
}

/* Has the SRQ raise its limit event. */
static void reach_limit(struct __test_metadata *_metadata, events_t *self)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, i, 0, 64));
	ASSERT_EQ(0, ibv_modify_srq(rig->srq, &attr, IBV_SRQ_LIMIT));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, i, rig->srq_num, 0, 8, 0));
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	}
}

TEST_F_TIMEOUT(events, srq_limit, TIMEOUT)
{
	struct ibv_async_event event;

	no_event(_metadata, self);
	reach_limit(_metadata, self);
	get(_metadata, self, &event);
	EXPECT_EQ(IBV_EVENT_SRQ_LIMIT_REACHED, event.event_type);
	EXPECT_EQ(self->rig.srq, event.element.srq);
	ibv_ack_async_event(&event);
	no_event(_metadata, self);
}

static bool is_qp_error(enum ibv_event_type type)
{
	return type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
	       type == IBV_EVENT_QP_ACCESS_ERR;
}

/* Who created the TGT QP and who opened it are both told. */
TEST_F_TIMEOUT(events, tgt_qp_error, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_qp_open_attr open = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = rig->tgt->qp_num,
		.xrcd = rig->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_async_event event[2];
	struct ibv_qp *second;
	struct ibv_wc wc;
	int i;

	second = ibv_open_qp(rig->context, &open);
	ASSERT_NE(NULL, second);
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 1, rig->srq_num ^ 1, 0, 8, 0));
	for (i = 0; i < 2; i++) {
		get(_metadata, self, &event[i]);
		EXPECT_TRUE(is_qp_error(event[i].event_type));
	}
	EXPECT_TRUE((event[0].element.qp == rig->tgt && event[1].element.qp == second) ||
		    (event[1].element.qp == rig->tgt && event[0].element.qp == second));
	for (i = 0; i < 2; i++)
		ibv_ack_async_event(&event[i]);
	EXPECT_EQ(0, ibv_destroy_qp(second));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
}

/* An event of the RC QP behind it has the QP that the program knows. */
static void drain(struct __test_metadata *_metadata, events_t *self, struct ibv_qp *qp)
{
	struct ibv_qp_attr sqd = {
		.qp_state = IBV_QPS_SQD,
		.en_sqd_async_notify = 1,
	};
	struct ibv_async_event event;

	ASSERT_EQ(0, ibv_modify_qp(qp, &sqd, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	get(_metadata, self, &event);
	EXPECT_EQ(IBV_EVENT_SQ_DRAINED, event.event_type);
	EXPECT_EQ(qp, event.element.qp);
	ibv_ack_async_event(&event);
	no_event(_metadata, self);
}

TEST_F_TIMEOUT(events, ini_qp, TIMEOUT)
{
	drain(_metadata, self, self->rig.ini);
}

static struct ibv_qp *create_rc(struct rig *rig, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->send_cq,
		.recv_cq = rig->recv_cq,
		.srq = srq,
		.cap = {
			.max_send_wr = 4, .max_recv_wr = 4,
			.max_send_sge = 1, .max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};

	return ibv_create_qp(rig->pd, &attr);
}

/* What is not XRC has its events as ever. */
TEST_F_TIMEOUT(events, not_xrc, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr limit = { .srq_limit = 1 };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad, send = { .opcode = IBV_WR_SEND };
	struct ibv_async_event event;
	struct ibv_qp *a, *b;
	struct ibv_srq *srq;

	srq = ibv_create_srq(rig->pd, &init);
	ASSERT_NE(NULL, srq);
	a = create_rc(rig, NULL);
	b = create_rc(rig, srq);
	ASSERT_NE(NULL, a);
	ASSERT_NE(NULL, b);
	ASSERT_EQ(0, rig_pair(rig, a, b));
	ASSERT_EQ(0, ibv_post_srq_recv(srq, &recv, &bad_recv));
	ASSERT_EQ(0, ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
	ASSERT_EQ(0, ibv_post_send(a, &send, &bad));
	do {
		get(_metadata, self, &event);
		if (event.event_type == IBV_EVENT_COMM_EST)
			EXPECT_EQ(b, event.element.qp);
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_COMM_EST);
	EXPECT_EQ(IBV_EVENT_SRQ_LIMIT_REACHED, event.event_type);
	EXPECT_EQ(srq, event.element.srq);
	drain(_metadata, self, a);
	EXPECT_EQ(0, ibv_destroy_qp(a));
	EXPECT_EQ(0, ibv_destroy_qp(b));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
}

/* A CQ that is full loses what comes then, and says so. It may have more room than was asked for. */
#define MANY 2000

TEST_F_TIMEOUT(events, cq_overflow, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_async_event event;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	int i, polled;
	__u32 num;

	cq = ibv_create_cq(rig->context, 4, NULL, NULL, 0);
	ASSERT_NE(NULL, cq);
	srq = rig_create_srq(rig, cq, MANY);
	ASSERT_NE(NULL, srq);
	ASSERT_EQ(0, ibv_get_srq_num(srq, &num));
	for (i = 0; i < MANY && !readable(self->fd, 0); i++) {
		ASSERT_EQ(0, rig_post_recv(rig, srq, i, 0, 64));
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, i, num, 0, 8, 0));
		/* Nobody answers once the TGT QP is in error. */
		do {
			polled = ibv_poll_cq(rig->send_cq, 1, &wc);
		} while (!polled && !readable(self->fd, 0));
	}
	get(_metadata, self, &event);
	if (is_qp_error(event.event_type)) {
		EXPECT_EQ(rig->tgt, event.element.qp);
		ibv_ack_async_event(&event);
		get(_metadata, self, &event);
	}
	EXPECT_EQ(IBV_EVENT_CQ_ERR, event.event_type);
	EXPECT_EQ(cq, event.element.cq);
	ibv_ack_async_event(&event);
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
}

/* An object is there until its events are acknowledged. */
static void *destroy_srq(void *arg)
{
	struct rig *rig = arg;
	long ret = ibv_destroy_srq(rig->srq);

	rig->srq = NULL;
	return (void *)ret;
}

static void *destroy_tgt(void *arg)
{
	struct rig *rig = arg;
	long ret = ibv_destroy_qp(rig->tgt);

	rig->tgt = NULL;
	return (void *)ret;
}

static void *destroy_ini(void *arg)
{
	struct rig *rig = arg;
	long ret = ibv_destroy_qp(rig->ini);

	rig->ini = NULL;
	return (void *)ret;
}

static void waits_for_ack(struct __test_metadata *_metadata, events_t *self,
			  struct ibv_async_event *event, void *(*destroy)(void *))
{
	/* QPs and SRQs begin alike. */
	struct ibv_qp *element = event->element.qp;
	pthread_t thread;
	void *ret;

	ASSERT_EQ(0, pthread_create(&thread, NULL, destroy, &self->rig));
	usleep(SHORT_MS * 1000);
	EXPECT_EQ(EBUSY, pthread_tryjoin_np(thread, &ret));
	/* Who has the event may look at it until then. */
	EXPECT_EQ(self->rig.context, element->context);
	EXPECT_EQ(NULL, element->qp_context);
	ibv_ack_async_event(event);
	ASSERT_EQ(0, pthread_join(thread, &ret));
	EXPECT_EQ(NULL, ret);
}

TEST_F_TIMEOUT(events, acknowledged, TIMEOUT)
{
	struct ibv_qp_attr sqd = {
		.qp_state = IBV_QPS_SQD,
		.en_sqd_async_notify = 1,
	};
	struct rig *rig = &self->rig;
	struct ibv_async_event event;
	struct ibv_wc wc;

	reach_limit(_metadata, self);
	get(_metadata, self, &event);
	waits_for_ack(_metadata, self, &event, destroy_srq);

	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 1, rig->srq_num, 0, 8, 0));
	get(_metadata, self, &event);
	EXPECT_EQ(rig->tgt, event.element.qp);
	waits_for_ack(_metadata, self, &event, destroy_tgt);

	/* The TGT QP has acknowledged the message, or was in error before it could. */
	ibv_destroy_qp(rig->ini);
	while (ibv_poll_cq(rig->send_cq, 1, &wc) > 0)
		;
	rig->tgt = rig_create_tgt(rig);
	rig->ini = rig_create_ini(rig, rig->send_cq, 0);
	ASSERT_NE(NULL, rig->tgt);
	ASSERT_NE(NULL, rig->ini);
	ASSERT_EQ(0, rig_connect(rig));
	ASSERT_EQ(0, ibv_modify_qp(rig->ini, &sqd,
				   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
	get(_metadata, self, &event);
	EXPECT_EQ(rig->ini, event.element.qp);
	waits_for_ack(_metadata, self, &event, destroy_ini);
}

/* Nobody is told of what is gone. */
TEST_F_TIMEOUT(events, destroyed_before, TIMEOUT)
{
	struct rig *rig = &self->rig;

	reach_limit(_metadata, self);
	EXPECT_TRUE(readable(self->fd, LONG_MS));
	EXPECT_EQ(0, ibv_destroy_srq(rig->srq));
	rig->srq = NULL;
	no_event(_metadata, self);
}

/* The descriptor can be watched by epoll(7) in both of its modes. */
TEST_F_TIMEOUT(events, epoll, TIMEOUT)
{
	struct epoll_event watch = { .events = EPOLLIN | EPOLLET }, found;
	struct ibv_async_event event;
	int epoll = epoll_create1(EPOLL_CLOEXEC);
	int i;

	ASSERT_LE(0, epoll);
	ASSERT_EQ(0, epoll_ctl(epoll, EPOLL_CTL_ADD, self->fd, &watch));
	ASSERT_EQ(0, fcntl(self->fd, F_SETFL, O_NONBLOCK));
	for (i = 0; i < 3; i++) {
		reach_limit(_metadata, self);
		ASSERT_EQ(1, epoll_wait(epoll, &found, 1, LONG_MS));
		ASSERT_EQ(0, ibv_get_async_event(self->rig.context, &event));
		EXPECT_EQ(IBV_EVENT_SRQ_LIMIT_REACHED, event.event_type);
		ibv_ack_async_event(&event);
		EXPECT_EQ(-1, ibv_get_async_event(self->rig.context, &event));
		EXPECT_EQ(EAGAIN, errno);
	}
	close(epoll);
}

/* One waits for events while others make and destroy all that has some. */
static void *make_and_destroy(void *arg)
{
	struct rig *rig = arg;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	int i;

	for (i = 0; i < 100; i++) {
		cq = ibv_create_cq(rig->context, 16, NULL, NULL, 0);
		if (!cq)
			return "create_cq";
		qp = create_rc(rig, NULL);
		if (!qp)
			return "create_qp";
		if (ibv_destroy_qp(qp))
			return "destroy_qp";
		srq = rig_create_srq(rig, cq, 16);
		if (!srq)
			return "create_srq_ex";
		qp = rig_create_ini(rig, cq, 0);
		if (!qp)
			return "create_qp_ex";
		if (ibv_destroy_qp(qp) || ibv_destroy_srq(srq) || ibv_destroy_cq(cq))
			return "destroy";
	}
	return NULL;
}

static void *wait_for_event(void *arg)
{
	struct rig *rig = arg;
	struct ibv_async_event event;

	if (ibv_get_async_event(rig->context, &event))
		return "get_async_event";
	if (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED || event.element.srq != rig->srq)
		return "another event";
	ibv_ack_async_event(&event);
	return NULL;
}

TEST_F_TIMEOUT(events, threads, TIMEOUT)
{
	pthread_t maker[2], waiter;
	void *failed;
	int i;

	ASSERT_EQ(0, pthread_create(&waiter, NULL, wait_for_event, &self->rig));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&maker[i], NULL, make_and_destroy,
					    &self->rig));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, pthread_join(maker[i], &failed));
		EXPECT_EQ(NULL, failed)
			TH_LOG("%s", (char *)failed);
	}
	reach_limit(_metadata, self);
	ASSERT_EQ(0, pthread_join(waiter, &failed));
	EXPECT_EQ(NULL, failed)
		TH_LOG("%s", (char *)failed);
}

TEST_HARNESS_MAIN
