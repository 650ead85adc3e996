// SPDX-License-Identifier: GPL-2.0
/*
 * Completion events of XRC objects, as the manual pages of libibverbs have them. It is
 * run under "ibxrc run".
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/time.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())
/* How long an event may take, and how long none is waited for. */
#define LONG_MS 60000
#define SHORT_MS 300

FIXTURE(notify)
{
	struct rig rig;
	struct ibv_qp *rc[2];
};

FIXTURE_SETUP(notify)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(notify)
{
	int i;

	for (i = 0; i < 2; i++)
		if (self->rc[i])
			ibv_destroy_qp(self->rc[i]);
	rig_close(&self->rig);
}

static int readable(struct ibv_comp_channel *channel, int ms)
{
	struct pollfd fds = { .fd = channel->fd, .events = POLLIN };

	return poll(&fds, 1, ms);
}

/* The CQ that has an event, which is acknowledged; NULL: there is none. */
static struct ibv_cq *event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	if (readable(channel, LONG_MS) != 1 || ibv_get_cq_event(channel, &cq, &context))
		return NULL;
	ibv_ack_cq_events(cq, 1);
	return context == cq->cq_context ? cq : NULL;
}

static int set_nonblocking(struct ibv_comp_channel *channel)
{
	return fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
}

/* A message that has come; the sending side is polled. */
static int message(struct rig *rig, int flags)
{
	struct ibv_wc wc;
	int err;

	err = rig_post_recv(rig, rig->srq, 1, 0, 64);
	if (!err)
		err = rig_post_send(rig, rig->ini, 2, rig->srq_num, 0, 8, flags);
	if (!err && (rig_poll(rig->send_cq, &wc) != 1 || wc.status))
		err = EIO;
	return err;
}

/* An XRC_SEND QP that completes into this CQ, with a TGT QP of its own. */
static struct ibv_qp *open_ini(struct rig *rig, struct ibv_cq *cq)
{
	struct ibv_qp *ini = rig_create_ini(rig, cq, 0);

	ibv_destroy_qp(rig->tgt);
	rig->tgt = rig_create_tgt(rig);
	if (ini && rig->tgt && !rig_pair(rig, rig->tgt, ini))
		return ini;
	return NULL;
}

static int open_rc(struct rig *rig, struct ibv_cq *cq, struct ibv_qp **rc)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->send_cq,
		.recv_cq = cq,
		.cap = { 16, 16, 1, 1 },
		.qp_type = IBV_QPT_RC,
	};
	int i;

	for (i = 0; i < 2; i++) {
		rc[i] = ibv_create_qp(rig->pd, &attr);
		if (!rc[i])
			return errno;
	}
	return rig_pair(rig, rc[0], rc[1]);
}

static int rc_message(struct rig *rig, struct ibv_qp **rc)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig_recv_buf(rig),
		.length = 64,
		.lkey = rig->mr->lkey,
	};
	struct ibv_recv_wr *bad, recv = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc;
	int err;

	err = ibv_post_recv(rc[1], &recv, &bad);
	if (!err)
		err = rig_post_send(rig, rc[0], 4, 0, 0, 8, 0);
	if (!err && (rig_poll(rig->send_cq, &wc) != 1 || wc.status))
		err = EIO;
	return err;
}

TEST_F_TIMEOUT(notify, only_if_asked_for, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	int i;

	ASSERT_EQ(0, message(rig, IBV_SEND_SOLICITED));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	/* For what is there already there is none. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, message(rig, 0));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));

	/* The sending side. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->send_cq, 0));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, message(rig, 0));
	EXPECT_EQ(rig->send_cq, event(rig->channel));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
}

/* What was asked for before the first XRC object completes into the CQ. */
TEST_F_TIMEOUT(notify, asked_for_before, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_cq *cqs[2], *first, *second;
	struct ibv_srq *srq;
	struct ibv_qp *ini;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 2; i++) {
		cqs[i] = ibv_create_cq(rig->context, 16, &cqs[i], rig->channel, 0);
		ASSERT_NE(NULL, cqs[i]);
		ASSERT_EQ(0, ibv_req_notify_cq(cqs[i], 0));
	}
	srq = rig_create_srq(rig, cqs[0], RIG_DEPTH);
	ASSERT_NE(NULL, srq);
	ASSERT_EQ(0, ibv_get_srq_num(srq, &rig->srq_num));
	ini = open_ini(rig, cqs[1]);
	ASSERT_NE(NULL, ini);
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));

	ASSERT_EQ(0, rig_post_recv(rig, srq, 1, 0, 64));
	ASSERT_EQ(0, rig_post_send(rig, ini, 2, rig->srq_num, 0, 8, 0));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(1, rig_poll(cqs[i], &wc));
	first = event(rig->channel);
	second = event(rig->channel);
	EXPECT_TRUE(first == cqs[0] || first == cqs[1]);
	EXPECT_EQ(first == cqs[0] ? cqs[1] : cqs[0], second);
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_qp(ini));
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, ibv_destroy_cq(cqs[i]));
}

TEST_F_TIMEOUT(notify, solicited_only, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_wc wc;

	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 1));
	ASSERT_EQ(0, message(rig, 0));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	ASSERT_EQ(0, message(rig, IBV_SEND_SOLICITED));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));
	while (ibv_poll_cq(rig->recv_cq, 1, &wc) > 0)
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);

	/* Who waits for any completion still does. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 1));
	ASSERT_EQ(0, message(rig, 0));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));

	/* A sender's are not solicited, unless they have an error. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->send_cq, 1));
	ASSERT_EQ(0, message(rig, IBV_SEND_SOLICITED));
	EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	ASSERT_EQ(0, ibv_modify_qp(rig->ini, &(struct ibv_qp_attr) { .qp_state = IBV_QPS_ERR },
				   IBV_QP_STATE));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 9, rig->srq_num, 0, 8, 0));
	EXPECT_EQ(rig->send_cq, event(rig->channel));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
}

/* RC, XRC_SEND and an XRC SRQ complete into one CQ: an event for each time it is asked for. */
TEST_F_TIMEOUT(notify, one_for_all, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	struct ibv_qp *ini;
	int round, i;

	ini = open_ini(rig, rig->recv_cq);
	ASSERT_NE(NULL, ini);
	ASSERT_EQ(0, open_rc(rig, rig->recv_cq, self->rc));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
		ASSERT_EQ(0, rc_message(rig, self->rc));
		/*
		 * The device cannot be told later that its event is not wanted any more, and it
		 * may be late for it: Soft-RoCE shows the completion first.
		 */
		EXPECT_EQ(1, readable(rig->channel, LONG_MS));
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 1, 0, 64));
		ASSERT_EQ(0, rig_post_send(rig, ini, 2, rig->srq_num, 0, 8, 0));
		for (i = 0; i < 3; i++)
			ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		EXPECT_EQ(rig->recv_cq, event(rig->channel));
		EXPECT_EQ(0, readable(rig->channel, SHORT_MS));
	}
	/* Each of them alone. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
	ASSERT_EQ(0, rc_message(rig, self->rc));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 1, 0, 64));
	ASSERT_EQ(0, rig_post_send(rig, ini, 2, rig->srq_num, 0, 8, 0));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));
	for (i = 0; i < 3; i++)
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(0, ibv_destroy_qp(ini));
}

/* Edge-triggered: as usual, the program takes what there is until there is nothing. */
TEST_F_TIMEOUT(notify, edge_triggered, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct epoll_event wanted = { .events = EPOLLIN | EPOLLET }, got;
	int ep, round, events = 0;
	struct ibv_cq *cq;
	void *context;
	struct ibv_wc wc;

	ASSERT_EQ(0, set_nonblocking(rig->channel));
	EXPECT_EQ(-1, ibv_get_cq_event(rig->channel, &cq, &context));
	EXPECT_EQ(EAGAIN, errno);
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, rig->channel->fd, &wanted));
	for (round = 0; round < 50; round++) {
		ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
		ASSERT_EQ(0, ibv_req_notify_cq(rig->send_cq, 0));
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 1, 0, 64));
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, 2, rig->srq_num, 0, 8, 0));
		for (events = 0; events < 2; ) {
			ASSERT_EQ(1, epoll_wait(ep, &got, 1, LONG_MS));
			while (!ibv_get_cq_event(rig->channel, &cq, &context)) {
				ibv_ack_cq_events(cq, 1);
				events++;
			}
			ASSERT_EQ(EAGAIN, errno);
		}
		EXPECT_EQ(2, events);
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	}
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, SHORT_MS));
	close(ep);
}

struct waiter {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	atomic_int state;
	int err;
};

static void *wait_for_event(void *arg)
{
	struct waiter *waiter = arg;
	void *context;

	waiter->state = 1;
	if (ibv_get_cq_event(waiter->channel, &waiter->cq, &context))
		waiter->err = errno;
	waiter->state = 2;
	return NULL;
}

static void start(struct __test_metadata *_metadata, struct waiter *waiter, pthread_t *thread)
{
	ASSERT_EQ(0, pthread_create(thread, NULL, wait_for_event, waiter));
	while (!waiter->state)
		usleep(1000);
	usleep(SHORT_MS * 1000);
	EXPECT_EQ(1, waiter->state);
}

TEST_F_TIMEOUT(notify, blocked_thread, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct waiter waiter = { .channel = rig->channel };
	pthread_t thread;
	void *result;

	/* An event wakes it, ... */
	start(_metadata, &waiter, &thread);
	ASSERT_EQ(0, ibv_req_notify_cq(rig->send_cq, 0));
	ASSERT_EQ(0, message(rig, 0));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(0, waiter.err);
	EXPECT_EQ(rig->send_cq, waiter.cq);
	ibv_ack_cq_events(rig->send_cq, 1);

	/* ... and it can be cancelled. */
	waiter = (struct waiter) { .channel = rig->channel };
	start(_metadata, &waiter, &thread);
	ASSERT_EQ(0, pthread_cancel(thread));
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(PTHREAD_CANCELED, result);

	/* Nothing is locked. */
	ASSERT_EQ(0, ibv_req_notify_cq(rig->recv_cq, 0));
	ASSERT_EQ(0, message(rig, 0));
	EXPECT_EQ(rig->recv_cq, event(rig->channel));
}

static void on_signal(int signal)
{
}

/* As read(2), in which libibverbs waits. */
TEST_F_TIMEOUT(notify, signals, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct waiter waiter = { .channel = rig->channel };
	pthread_t thread;

	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	start(_metadata, &waiter, &thread);
	ASSERT_EQ(0, pthread_kill(thread, SIGUSR1));
	usleep(SHORT_MS * 1000);
	EXPECT_EQ(1, waiter.state);
	action.sa_flags = 0;
	ASSERT_EQ(0, sigaction(SIGUSR1, &action, NULL));
	ASSERT_EQ(0, pthread_kill(thread, SIGUSR1));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_EQ(EINTR, waiter.err);
}

struct destroyer {
	struct ibv_cq *cq;
	atomic_int state;
	int err;
};

static void *destroy_cq(void *arg)
{
	struct destroyer *destroyer = arg;

	destroyer->err = ibv_destroy_cq(destroyer->cq);
	destroyer->state = 1;
	return NULL;
}

/* A CQ is there until its events are acknowledged; those that nobody got go with it. */
TEST_F_TIMEOUT(notify, destroying_waits, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct destroyer destroyer = {};
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;
	int round;

	for (round = 0; round < 2; round++) {
		destroyer = (struct destroyer) {};
		destroyer.cq = ibv_create_cq(rig->context, 16, NULL, rig->channel, 0);
		ASSERT_NE(NULL, destroyer.cq);
		srq = rig_create_srq(rig, destroyer.cq, RIG_DEPTH);
		ASSERT_NE(NULL, srq);
		ASSERT_EQ(0, ibv_get_srq_num(srq, &rig->srq_num));
		ASSERT_EQ(0, ibv_req_notify_cq(destroyer.cq, 0));
		ASSERT_EQ(0, rig_post_recv(rig, srq, 1, 0, 64));
		ASSERT_EQ(0, message(rig, 0));
		ASSERT_EQ(1, readable(rig->channel, LONG_MS));
		if (!round)
			ASSERT_EQ(0, ibv_get_cq_event(rig->channel, &cq, &context));
		ASSERT_EQ(0, ibv_destroy_srq(srq));
		ASSERT_EQ(0, pthread_create(&thread, NULL, destroy_cq, &destroyer));
		if (!round) {
			EXPECT_EQ(destroyer.cq, cq);
			usleep(SHORT_MS * 1000);
			EXPECT_EQ(0, destroyer.state);
			ibv_ack_cq_events(cq, 1);
		}
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_EQ(0, destroyer.err);
		/* That of the second round is gone: nobody may wait for it in vain. */
		ASSERT_EQ(0, set_nonblocking(rig->channel));
		EXPECT_EQ(-1, ibv_get_cq_event(rig->channel, &cq, &context));
		EXPECT_EQ(EAGAIN, errno);
		ASSERT_EQ(0, fcntl(rig->channel->fd, F_SETFL, 0));
	}
}

/* One side of the stress below: a thread that sleeps whenever there is nothing to do. */
struct side {
	struct rig *rig;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	int messages;
	bool sends;
	int posted;
	int done;
	int bad;
};

/* Messages of which some are many parts, so that others have to wait for them. */
static __u32 length(int i)
{
	static const __u32 lengths[] = { 1, 100000, 64, 4097, 600000, 0 };

	return lengths[i % 6];
}

static int post(struct side *side)
{
	struct rig *rig = side->rig;
	int i = side->posted;

	if (side->sends)
		return rig_post_send(rig, rig->ini, i, rig->srq_num, 0, length(i), 0);
	return rig_post_recv(rig, rig->srq, i, 0, RIG_BUF_SIZE);
}

static void *run_side(void *arg)
{
	struct side *side = arg;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;
	int n;

	while (side->done < side->messages) {
		while (side->posted < side->messages && side->posted < side->done + 16) {
			if (post(side)) {
				side->bad++;
				return NULL;
			}
			side->posted++;
		}
		/* The order that does without a wake-up too many. */
		if (ibv_req_notify_cq(side->cq, 0)) {
			side->bad++;
			return NULL;
		}
		for (n = 0; ibv_poll_cq(side->cq, 1, &wc) > 0; n++) {
			side->bad += wc.status != IBV_WC_SUCCESS;
			side->bad += wc.wr_id != (__u64)side->done;
			side->done++;
		}
		if (n)
			continue;
		if (ibv_get_cq_event(side->channel, &cq, &context) || cq != side->cq) {
			side->bad++;
			return NULL;
		}
		ibv_ack_cq_events(cq, 1);
	}
	return NULL;
}

/* No wake-up is lost: if one were, the threads would sleep forever. */
TEST_F_TIMEOUT(notify, stress, 400)
{
	enum { MESSAGES = 150 };
	struct rig *rig = &self->rig;
	struct side sides[2] = {};
	pthread_t threads[2];
	int i;

	for (i = 0; i < 2; i++) {
		sides[i].rig = rig;
		sides[i].messages = MESSAGES;
		sides[i].channel = ibv_create_comp_channel(rig->context);
		ASSERT_NE(NULL, sides[i].channel);
		sides[i].cq = ibv_create_cq(rig->context, 64, NULL, sides[i].channel, 0);
		ASSERT_NE(NULL, sides[i].cq);
	}
	ASSERT_EQ(0, ibv_destroy_qp(rig->ini));
	ASSERT_EQ(0, ibv_destroy_srq(rig->srq));
	rig->srq = rig_create_srq(rig, sides[0].cq, RIG_DEPTH);
	ASSERT_NE(NULL, rig->srq);
	ASSERT_EQ(0, ibv_get_srq_num(rig->srq, &rig->srq_num));
	rig->ini = open_ini(rig, sides[1].cq);
	ASSERT_NE(NULL, rig->ini);
	sides[1].sends = true;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, run_side, &sides[i]));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(MESSAGES, sides[i].done);
		EXPECT_EQ(0, sides[i].bad);
	}
	ASSERT_EQ(0, ibv_destroy_qp(rig->ini));
	ASSERT_EQ(0, ibv_destroy_srq(rig->srq));
	rig->ini = NULL;
	rig->srq = NULL;
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, ibv_destroy_cq(sides[i].cq));
		EXPECT_EQ(0, ibv_destroy_comp_channel(sides[i].channel));
	}
}

TEST_HARNESS_MAIN
