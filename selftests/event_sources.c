// SPDX-License-Identifier: GPL-2.0
/*
 * What domains, TGT QPs and SRQs report, to whom, and how often.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

FIXTURE(events)
{
	struct xrc x;
	int file;	/* of the domain */
	int ef;		/* an event file; does not block */
	struct xrc_ini ini;
};

FIXTURE_SETUP(events)
{
	self->file = memfd_create("events", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	fcntl(self->ef, F_SETFL, O_NONBLOCK);
}

FIXTURE_TEARDOWN(events)
{
	xrc_ini_close(&self->ini);
	close(self->ef);
	xrc_close(&self->x);
	close(self->file);
}

typedef FIXTURE_DATA(events) events_t;

/* --------------------------------------------------------------- domains -- */

TEST_F_TIMEOUT(events, created_and_reclaimed, TIMEOUT)
{
	struct xrc_qp qp, second;
	struct xrc y;
	__u32 mine, theirs, silent;
	int ef;

	/* Two who ask, and one who does not though it has an event file. */
	ASSERT_EQ(0, xrc_open(&y));
	ASSERT_EQ(0, xrc_event_file_create(&y, -1, &ef));
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, ~0ULL,
				    &mine));
	ASSERT_EQ(0, ev_open_domain(&y, self->file, NULL, ef, 1ULL << 40, &theirs));
	ASSERT_EQ(0, ev_open_domain(&y, self->file, NULL, XRC_NO_FD, 0, &silent));

	ASSERT_EQ(0, xrc_tgt_create(&y, silent, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, ~0ULL);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 1ULL << 40);
	/* Who creates it is told as well. */
	ASSERT_EQ(0, xrc_tgt_create(&self->x, mine, &second));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, second.qp_num, 0,
		     ~0ULL);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_CREATED, second.qp_num, 0,
		     1ULL << 40);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, second.qp_num,
		     IB_XRC_RECLAIM_LAST_REF, ~0ULL);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, second.qp_num,
		     IB_XRC_RECLAIM_LAST_REF, 1ULL << 40);

	/* A registration is no creation, and only the last one is the end. */
	ASSERT_EQ(0, xrc_tgt_open(&self->x, mine, qp.qp_num, &second));
	EXPECT_EQ(0, xrc_tgt_close(&y, &qp));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_NO_EVENT(ef);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LAST_REF, ~0ULL);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LAST_REF, 1ULL << 40);

	/* What failed created nothing. */
	EXPECT_EQ(-ENOENT, xrc_tgt_create(&self->x, 12345, &qp));
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, mine, qp.qp_num, &second));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_NO_EVENT(ef);
	close(ef);
	xrc_close(&y);
}

/* The domain of a file, a second one, and one without a name. */
TEST_F_TIMEOUT(events, domains_apart, TIMEOUT)
{
	int file = memfd_create("second", MFD_CLOEXEC), ef[3], i;
	struct xrc_qp qp[3];
	__u32 xrcd[3];

	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, 8, &ef[i]));
	}
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, ef[0], 10, &xrcd[0]));
	ASSERT_EQ(0, ev_open_domain(&self->x, file, NULL, ef[1], 11, &xrcd[1]));
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, ef[2], 12, &xrcd[2]));
	for (i = 2; i >= 0; i--) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd[i], &qp[i]));
	}
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[i]));
	}
	for (i = 0; i < 3; i++) {
		EXPECT_EVENT(ef[i], IB_XRC_EVENT_TGT_QP_CREATED, qp[i].qp_num, 0,
			     10 + i);
		EXPECT_EVENT(ef[i], IB_XRC_EVENT_TGT_QP_RECLAIMED, qp[i].qp_num,
			     IB_XRC_RECLAIM_LAST_REF, 10 + i);
		EXPECT_NO_EVENT(ef[i]);
		close(ef[i]);
	}
	EXPECT_NO_EVENT(self->ef);
	close(file);
}

/* Several handles on one domain may report to the same file: each does. */
TEST_F_TIMEOUT(events, two_handles_one_file, TIMEOUT)
{
	__u32 first, second;
	struct xrc_qp qp;
	struct ib_xrc_event event[3];

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &first));
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 2,
				    &second));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, first, &qp));
	ASSERT_EQ(2, xrc_event_read(self->ef, event, 3));
	EXPECT_EQ(3U, event[0].user_handle + event[1].user_handle);
	EXPECT_EQ(qp.qp_num, event[0].number);
	EXPECT_EQ(qp.qp_num, event[1].number);
}

/* What a child says of the events that it got. */
struct heard {
	int ret;
	__u32 xrcd;
	struct ib_xrc_event event[2];
};

/*
 * Another process of the domain: opens it, says so, and on being told to tells which
 * events it got. The one that did not ask waits for none.
 */
static void sharer(int file, int sock, bool ask)
{
	struct heard h = {};
	struct xrc x;
	int ef, i;
	char c;

	h.ret = xrc_open(&x);
	if (!h.ret)
		h.ret = xrc_event_file_create(&x, -1, &ef);
	if (!h.ret)
		h.ret = ev_open_domain(&x, file, NULL, ask ? ef : XRC_NO_FD, getpid(),
				       &h.xrcd);
	if (send(sock, &h, sizeof(h), 0) < 0 || h.ret)
		_exit(1);
	for (i = 0; i < 2 && ask && !h.ret; i++)
		h.ret = xrc_event_wait(ef, &h.event[i], XRC_TIMEOUT_MS);
	if (recv(sock, &c, 1, 0) != 1)
		_exit(1);
	if (!h.ret)
		h.ret = xrc_event_read(ef, &h.event[ask ? 1 : 0], 1);
	if (send(sock, &h, sizeof(h), 0) < 0)
		_exit(1);
	_exit(0);
}

TEST_F_TIMEOUT(events, sharers_in_other_processes, TIMEOUT)
{
	enum { N = 3 };
	static const bool ask[N] = { true, false, true };
	int sock[N][2], i, status;
	struct heard h;
	struct xrc_qp qp;
	pid_t pid[N];
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &xrcd));
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0,
					sock[i]));
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i])
			sharer(self->file, sock[i][1], ask[i]);
		close(sock[i][1]);
		ASSERT_EQ((ssize_t)sizeof(h), recv(sock[i][0], &h, sizeof(h), 0));
		ASSERT_EQ(0, h.ret);
	}
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	for (i = 0; i < N; i++) {
		EXPECT_EQ(1, send(sock[i][0], "", 1, 0));
		ASSERT_EQ((ssize_t)sizeof(h), recv(sock[i][0], &h, sizeof(h), 0));
		EXPECT_EQ(-EAGAIN, h.ret);
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
		if (!ask[i]) {
			EXPECT_EQ(0U, h.event[0].number);
			continue;
		}
		EXPECT_EQ((__u32)IB_XRC_EVENT_TGT_QP_CREATED, h.event[0].type);
		EXPECT_EQ((__u32)IB_XRC_EVENT_TGT_QP_RECLAIMED, h.event[1].type);
		EXPECT_EQ(qp.qp_num, h.event[0].number);
		EXPECT_EQ(qp.qp_num, h.event[1].number);
		EXPECT_EQ((__u64)pid[i], h.event[0].user_handle);
		EXPECT_EQ((__u64)pid[i], h.event[1].user_handle);
		close(sock[i][0]);
	}
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 1);
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LAST_REF, 1);
	EXPECT_NO_EVENT(self->ef);
}

/* The last registration goes with a process that is killed. */
TEST_F_TIMEOUT(events, reclaimed_by_kill, TIMEOUT)
{
	struct xrc_qp qp;
	struct xrc y;
	__u32 xrcd, num;
	int pipes[2];
	pid_t pid;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &xrcd));
	ASSERT_EQ(0, pipe2(pipes, O_CLOEXEC));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (xrc_open(&y) || xrc_xrcd_open(&y, self->file, 0, &xrcd) ||
		    xrc_tgt_create(&y, xrcd, &qp) ||
		    write(pipes[1], &qp.qp_num, sizeof(num)) != sizeof(num))
			_exit(1);
		for (;;)
			pause();
	}
	ASSERT_EQ((ssize_t)sizeof(num), read(pipes[0], &num, sizeof(num)));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, num, 0, 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, num,
		     IB_XRC_RECLAIM_LAST_REF, 1);
	EXPECT_NO_EVENT(self->ef);
	close(pipes[0]);
	close(pipes[1]);
}

/* --------------------------------------------------------------- reclaim -- */

static const struct ib_xrc_policy lingering = {
	.type = IB_XRC_POLICY_DOMAIN,
	.linger_ms = 300,
};

static const struct ib_xrc_policy with_domain = {
	.type = IB_XRC_POLICY_DOMAIN,
};

static const struct ib_xrc_policy with_last_srq = {
	.type = IB_XRC_POLICY_DOMAIN,
	.flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ,
};

static const struct ib_xrc_policy even_referenced = {
	.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
};

TEST_F_TIMEOUT(events, reclaimed_after_linger, TIMEOUT)
{
	struct xrc_qp qp;
	long long start;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, &lingering, self->ef, 4,
				    &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	start = xrc_now();
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LINGER, 4);
	EXPECT_LE((long long)lingering.linger_ms, xrc_now() - start);
	EXPECT_NO_EVENT(self->ef);
}

TEST_F_TIMEOUT(events, reclaimed_with_last_srq, TIMEOUT)
{
	struct ev_source s[2];
	struct xrc_qp qp;
	__u32 xrcd;
	int i;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, &with_last_srq, self->ef, 4,
				    &xrcd));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 4, 0, XRC_NO_FD, &s[i]));
	}
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, ev_source_close(&self->x, &s[0]));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_EQ(0, ev_source_close(&self->x, &s[1]));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LAST_SRQ, 4);

	/* Later ones go when they are given back. */
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_LAST_SRQ, 4);
	EXPECT_NO_EVENT(self->ef);
}

/* An error hits it when nobody is registered. */
TEST_F_TIMEOUT(events, reclaimed_by_error, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, &with_domain, self->ef, 4,
				    &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_NO_EVENT(self->ef);
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_ERROR, 4);
	EXPECT_NO_EVENT(self->ef);
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, xrcd, qp.qp_num, &qp));
}

/* It is in error already when it is given back. */
TEST_F_TIMEOUT(events, reclaimed_in_error, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, &with_domain, self->ef, 4,
				    &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 5);
	EXPECT_NO_EVENT(self->ef);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_ERROR, 4);
	EXPECT_NO_EVENT(self->ef);
}

/* With the flag an error takes it from those who have it, and they are told. */
TEST_F_TIMEOUT(events, reclaimed_from_holders, TIMEOUT)
{
	struct xrc_qp qp, second, silent;
	int own, ef;
	struct xrc y;
	__u32 xrcd, theirs;

	ASSERT_EQ(0, xrc_open(&y));
	ASSERT_EQ(0, xrc_event_file_create(&y, -1, &ef));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &own));
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, &even_referenced, self->ef,
				    4, &xrcd));
	ASSERT_EQ(0, ev_open_domain(&y, self->file, NULL, XRC_NO_FD, 0, &theirs));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, own, 5, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 4);
	ASSERT_EQ(0, ev_open_qp(&y, theirs, qp.qp_num, ef, 6, &second));
	ASSERT_EQ(0, xrc_tgt_open(&y, theirs, qp.qp_num, &silent));
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_ERROR, 4);
	/* Holders hear of the error first. */
	EXPECT_EVENT(own, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 5);
	EXPECT_EVENT(own, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_ERROR, 5);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 6);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp.qp_num,
		     IB_XRC_RECLAIM_ERROR, 6);
	EXPECT_EQ(-ESTALE, xrc_tgt_state(&self->x, &qp));
	EXPECT_EQ(-ESTALE, xrc_tgt_state(&y, &second));
	/* Giving it back is no second end. */
	EXPECT_EQ(0, xrc_tgt_close(&y, &second));
	EXPECT_EQ(0, xrc_tgt_close(&y, &silent));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_NO_EVENT(own);
	EXPECT_NO_EVENT(ef);
	close(own);
	close(ef);
	xrc_close(&y);
}

/* ---------------------------------------------------------------- errors -- */

enum fault {
	BAD_SRQ_NUMBER,
	BAD_KEY,
	NO_IMMEDIATE,
	LONGER_THAN_BUFFER,
	LONGER_THAN_KERNEL_TAKES,
	UNWRITABLE,
};

FIXTURE(errors)
{
	events_t e;
	struct ib_xrc_limits limits;
	struct xrc y;
	int theirs;	/* an event file of y */
	__u32 xrcd;
	__u32 y_xrcd;
	struct xrc_qp qp;
	struct ev_source s;
};

FIXTURE_VARIANT(errors)
{
	enum fault fault;
	__u32 value;
};

#define FAULT(fault_, value_)						\
	FIXTURE_VARIANT_ADD(errors, fault_) {				\
		.fault = fault_, .value = value_,			\
	}

FAULT(BAD_SRQ_NUMBER, IBV_EVENT_QP_REQ_ERR);
FAULT(BAD_KEY, IBV_EVENT_QP_ACCESS_ERR);
FAULT(NO_IMMEDIATE, IBV_EVENT_QP_REQ_ERR);
FAULT(LONGER_THAN_BUFFER, IBV_EVENT_QP_REQ_ERR);
FAULT(LONGER_THAN_KERNEL_TAKES, IBV_EVENT_QP_REQ_ERR);
FAULT(UNWRITABLE, IBV_EVENT_QP_ACCESS_ERR);

FIXTURE_SETUP(errors)
{
	events_t *e = &self->e;

	e->file = memfd_create("errors", MFD_CLOEXEC);
	ASSERT_LE(0, e->file);
	ASSERT_EQ(0, xrc_open(&e->x));
	ASSERT_EQ(0, xrc_limits(&e->x, &self->limits));
	ASSERT_EQ(0, xrc_event_file_create(&e->x, -1, &e->ef));
	ASSERT_EQ(0, xrc_open(&self->y));
	ASSERT_EQ(0, xrc_event_file_create(&self->y, -1, &self->theirs));
	ASSERT_EQ(0, ev_open_domain(&e->x, e->file, NULL, XRC_NO_FD, 0,
				    &self->xrcd));
	ASSERT_EQ(0, ev_open_domain(&self->y, e->file, NULL, XRC_NO_FD, 0,
				    &self->y_xrcd));
	ASSERT_EQ(0, ev_source_open(&e->x, self->xrcd, 64, 9, XRC_NO_FD, &self->s));
	ASSERT_EQ(0, ev_create_qp(&e->x, self->xrcd, e->ef, 1, &self->qp));
	ASSERT_EQ(0, ev_connect_ini(&e->x, &e->ini, &self->qp));
}

FIXTURE_TEARDOWN(errors)
{
	xrc_ini_close(&self->e.ini);
	close(self->e.ef);
	close(self->theirs);
	xrc_close(&self->e.x);
	xrc_close(&self->y);
	close(self->e.file);
}

typedef FIXTURE_DATA(errors) errors_t;

/* The peer does what it should not. */
static int provoke(errors_t *self, enum fault fault)
{
	events_t *e = &self->e;
	struct xrc_send send = { .srq_num = self->s.srq.srq_num };
	int ret = 0;

	switch (fault) {
	case BAD_SRQ_NUMBER:
		return ev_send_bad(&e->ini);
	case BAD_KEY:
		return xrc_ini_rdma_write(&e->ini, 0x10000, 0x12345678, 0, EV_SIZE);
	case NO_IMMEDIATE:
		return xrc_ini_send_raw(&e->ini, IBV_WR_SEND, 0, 0, EV_SIZE);
	case LONGER_THAN_BUFFER:
		ret = ev_source_post(&e->x, &self->s, 1);
		send.length = EV_SIZE + 1;
		break;
	case LONGER_THAN_KERNEL_TAKES:
		return xrc_ini_send_raw(&e->ini, IBV_WR_SEND_WITH_IMM,
			send.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT, 0,
			IB_XRC_WIRE_PART_SIZE + 1024);
	case UNWRITABLE:
		ret = xrc_srq_post(&e->x, &self->s.srq, 0, xrc_guard_page(), EV_SIZE);
		send.length = EV_SIZE;
		break;
	}
	return ret ? ret : xrc_ini_send(&e->ini, &send);
}

/* Every holder that has a file is told, once, and who comes later as well. */
TEST_F_TIMEOUT(errors, reported, TIMEOUT)
{
	events_t *e = &self->e;
	const __u32 num = self->qp.qp_num, value = variant->value;
	struct xrc_qp second, silent, late;
	struct ibv_wc wc;
	int own, i;

	ASSERT_EQ(0, xrc_event_file_create(&e->x, -1, &own));
	/* A holder in the same file, in another file, and one without. */
	ASSERT_EQ(0, ev_open_qp(&e->x, self->xrcd, num, own, 2, &second));
	ASSERT_EQ(0, ev_open_qp(&self->y, self->y_xrcd, num, self->theirs, 3, &late));
	ASSERT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, num, &silent));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, provoke(self, variant->fault));
		EXPECT_EVENT(e->ef, IB_XRC_EVENT_TGT_QP_ERROR, num, value, 1);
		EXPECT_EVENT(own, IB_XRC_EVENT_TGT_QP_ERROR, num, value, 2);
		EXPECT_EVENT(self->theirs, IB_XRC_EVENT_TGT_QP_ERROR, num, value,
			     3);
		/* Who hears of it finds it so. */
		EXPECT_EQ(IBV_QPS_ERR, xrc_tgt_state(&e->x, &self->qp));
		EXPECT_EQ(0, xrc_tgt_close(&self->y, &late));
		EXPECT_NO_EVENT(self->theirs);

		/* Who comes when it is in error is told at once. */
		ASSERT_EQ(0, ev_open_qp(&self->y, self->y_xrcd, num, self->theirs, 3,
					&late));
		EXPECT_EVENT(self->theirs, IB_XRC_EVENT_TGT_QP_ERROR, num, value,
			     3);
		/* The others know. */
		EXPECT_NO_EVENT(e->ef);
		EXPECT_NO_EVENT(own);

		/* What the sender hears of it depends on the error. */
		ASSERT_EQ(0, xrc_ini_wait(&e->ini, &wc, XRC_TIMEOUT_MS));
		/* Set up anew it is as good as new, and so is its next error. */
		ASSERT_EQ(0, ev_set_state(&e->x, &self->qp, IBV_QPS_RESET));
		ASSERT_EQ(0, ev_connect_ini(&e->x, &e->ini, &self->qp));
		EXPECT_NO_EVENT(e->ef);
		EXPECT_NO_EVENT(own);
		EXPECT_NO_EVENT(self->theirs);
	}
	/* Nor is who comes now told of what was. */
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &late));
	ASSERT_EQ(0, ev_open_qp(&self->y, self->y_xrcd, num, self->theirs, 3, &late));
	EXPECT_NO_EVENT(self->theirs);
	close(own);
}

/* Several bad messages in a row are one error. */
TEST_F_TIMEOUT(events, one_error_is_reported_once, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd;
	int i, n;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, self->ef, 1, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 2, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 1);
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
		for (n = 0; n < 10; n++) {
			ASSERT_EQ(0, ev_send_bad(&self->ini));
		}
		/* Reported to its holder: who watches the domain did not ask. */
		EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
			     IBV_EVENT_QP_REQ_ERR, 2);
		/* A reset waits for all that was under way. */
		ASSERT_EQ(0, ev_set_state(&self->x, &qp, IBV_QPS_RESET));
		EXPECT_NO_EVENT(self->ef);
	}
}

/* Each QP reports to its own file, or to none. */
TEST_F_TIMEOUT(events, errors_apart, TIMEOUT)
{
	struct xrc_ini ini[3] = {};
	struct xrc_qp qp[3];
	int ef, i;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &ef));
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 1, &qp[0]));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[1]));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, ef, 2, &qp[2]));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ev_connect_ini(&self->x, &ini[i], &qp[i]));
		ASSERT_EQ(0, ev_send_bad(&ini[i]));
	}
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, qp[0].qp_num,
		     IBV_EVENT_QP_REQ_ERR, 1);
	EXPECT_EVENT(ef, IB_XRC_EVENT_TGT_QP_ERROR, qp[2].qp_num,
		     IBV_EVENT_QP_REQ_ERR, 2);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &qp[1], IBV_QPS_ERR));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_NO_EVENT(ef);
	for (i = 0; i < 3; i++)
		xrc_ini_close(&ini[i]);
	close(ef);
}

/* Who takes the QP to ERR does not need to be told. */
TEST_F_TIMEOUT(events, modify_is_no_error, TIMEOUT)
{
	struct xrc_qp qp, late;
	__u32 xrcd;
	int i;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 1, &qp));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
		ASSERT_EQ(0, ev_set_state(&self->x, &qp, IBV_QPS_ERR));
		ASSERT_EQ(0, ev_open_qp(&self->x, xrcd, qp.qp_num, self->ef, 2,
					&late));
		/* Its buffers have all come back when this returns. */
		ASSERT_EQ(0, ev_set_state(&self->x, &qp, IBV_QPS_RESET));
		EXPECT_NO_EVENT(self->ef);
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &late));
	}
	/* A real one comes through, and is the first. */
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 1);
}

/* ------------------------------------------------------------------ SRQs -- */

TEST_F_TIMEOUT(events, srq_limit, TIMEOUT)
{
	struct ev_source s;
	struct xrc_qp qp;
	__u32 xrcd, num;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 8, 0x5190, self->ef, &s));
	num = s.srq.srq_num;
	ASSERT_EQ(0, ev_source_post(&self->x, &s, 5));
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 3));
	EXPECT_NO_EVENT(self->ef);
	/* Fewer than 3: when there are 2. */
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 2));
	ASSERT_EQ(0, ev_wait_received(&s, 2));
	EXPECT_NO_EVENT(self->ef);
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 1));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 3, 0x5190);
	/* Only once, be there more or fewer. */
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 2));
	ASSERT_EQ(0, ev_source_post(&self->x, &s, 5));
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 5));
	ASSERT_EQ(0, ev_wait_received(&s, 8));
	/* Set anew, at once: and that it is this one says there was no other. */
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 2));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 2, 0x5190);
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 2));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 2, 0x5190);
	EXPECT_NO_EVENT(self->ef);

	/* All entries at most. */
	EXPECT_EQ(8U, s.srq.info.entries);
	EXPECT_EQ(-EINVAL, xrc_srq_limit(&self->x, &s.srq, 9));
	EXPECT_EQ(-EINVAL, xrc_srq_limit(&self->x, &s.srq, 0xffffffff));
	EXPECT_NO_EVENT(self->ef);
	ASSERT_EQ(0, ev_source_post(&self->x, &s, 8));
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 8));
	EXPECT_NO_EVENT(self->ef);
	/* A wrong one leaves the one that is set. */
	EXPECT_EQ(-EINVAL, xrc_srq_limit(&self->x, &s.srq, 9));
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 1));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 8, 0x5190);

	/* None. */
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 4));
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 0));
	ASSERT_EQ(0, ev_send_to(&self->ini, num, 7));
	ASSERT_EQ(0, ev_wait_received(&s, 8));
	EXPECT_EQ(s.srq.ring->producer, s.srq.ring->consumer);
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 0));
	/* A limit set after all that says that nothing was on the way. */
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 1));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, num, 1, 0x5190);
	EXPECT_NO_EVENT(self->ef);
}

/* Without an event file a limit is good for nothing, but no mistake. */
TEST_F_TIMEOUT(events, srq_limit_of_the_silent, TIMEOUT)
{
	struct ev_source s;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, self->ef, 0, &xrcd));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 8, 1, XRC_NO_FD, &s));
	EXPECT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 8));
	EXPECT_EQ(-EINVAL, xrc_srq_limit(&self->x, &s.srq, 9));
	EXPECT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 0));
	EXPECT_NO_EVENT(self->ef);
	EXPECT_EQ(0, ev_source_close(&self->x, &s));
	EXPECT_EQ(-ENOENT, xrc_srq_limit(&self->x, &s.srq, 1));
}

/* Two SRQs that report to different files do so though they share a CQ. */
TEST_F_TIMEOUT(events, srqs_apart, TIMEOUT)
{
	struct ev_source s;
	struct xrc_srq second;
	__u32 xrcd;
	int ef;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &ef));
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 8, 1, self->ef, &s));
	ASSERT_EQ(0, xrc_srq_create_report(&self->x, xrcd, &s.cq, 8, 1, 2, ef,
					   &second));
	EXPECT_EQ(0, xrc_srq_limit(&self->x, &second, 3));
	EXPECT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 4));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, s.srq.srq_num, 4, 1);
	EXPECT_EVENT(ef, IB_XRC_EVENT_SRQ_LIMIT, second.srq_num, 3, 2);
	EXPECT_NO_EVENT(self->ef);
	EXPECT_NO_EVENT(ef);
	close(ef);
}

/* How many messages an SRQ keeps before it holds their senders back. */
static __u32 backlog_of(const struct ib_xrc_limits *limits)
{
	/* As many as the SRQ is charged for, if all buffers are alike. */
	return limits->srq_bytes / (limits->tgt_qp_bytes / limits->tgt_qp_recv_wr);
}

FIXTURE(backlog)
{
	events_t e;
	struct ib_xrc_limits limits;
	__u32 n;
	struct xrc_qp qp;
	struct ev_source s;
};

FIXTURE_SETUP(backlog)
{
	events_t *e = &self->e;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_open(&e->x));
	ASSERT_EQ(0, xrc_limits(&e->x, &self->limits));
	self->n = backlog_of(&self->limits);
	ASSERT_EQ(0, xrc_event_file_create(&e->x, -1, &e->ef));
	ASSERT_EQ(0, ev_open_domain(&e->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&e->x, xrcd, &self->qp));
	ASSERT_EQ(0, ev_connect_ini(&e->x, &e->ini, &self->qp));
	ASSERT_EQ(0, ev_source_open(&e->x, xrcd, 1024, 7, e->ef, &self->s));
}

FIXTURE_TEARDOWN(backlog)
{
	xrc_ini_close(&self->e.ini);
	close(self->e.ef);
	xrc_close(&self->e.x);
}

typedef FIXTURE_DATA(backlog) backlog_t;

#define EXPECT_BACKLOG() do {						\
	struct ib_xrc_event got_ = {};					\
									\
	ASSERT_EQ(0, xrc_event_wait(self->e.ef, &got_, XRC_TIMEOUT_MS));	\
	EXPECT_EQ((__u32)IB_XRC_EVENT_SRQ_BACKLOG, got_.type);		\
	EXPECT_EQ(self->s.srq.srq_num, got_.number);			\
	EXPECT_EQ(7U, got_.user_handle);				\
	EXPECT_LE(self->n, got_.value);					\
	EXPECT_GE(self->n + self->limits.tgt_qp_recv_wr, got_.value);	\
} while (0)

/* Send messages that all arrive, though there is no buffer for them. */
static int fill(backlog_t *self, __u32 n)
{
	int ret = ev_send_to(&self->e.ini, self->s.srq.srq_num, n);

	return ret ? ret : ev_wait_sent(&self->e.ini, n);
}

static int drain(backlog_t *self, __u32 n)
{
	int ret = ev_source_post(&self->e.x, &self->s, n);

	return ret ? ret : ev_wait_received(&self->s, n);
}

/* Once when it is full, and again when it was empty between. */
TEST_F_TIMEOUT(backlog, once, TIMEOUT)
{
	int round;

	for (round = 0; round < 3; round++) {
		/* Less than that is nothing to speak of. */
		ASSERT_EQ(0, fill(self, self->n - 1));
		EXPECT_NO_EVENT(self->e.ef);
		ASSERT_EQ(0, fill(self, 11));
		EXPECT_BACKLOG();
		EXPECT_NO_EVENT(self->e.ef);
		/* Some go, others come, but never are there none. */
		ASSERT_EQ(0, drain(self, self->n - 2));
		ASSERT_EQ(0, fill(self, self->n - 2));
		EXPECT_NO_EVENT(self->e.ef);
		ASSERT_EQ(0, drain(self, self->n + 10));
		ASSERT_EQ(0, ev_wait_drained(&self->s));
		EXPECT_NO_EVENT(self->e.ef);
	}
}

/* What is told is so: the sender is held, and let go when there are buffers. */
TEST_F_TIMEOUT(backlog, sender_is_held, TIMEOUT)
{
	const __u32 n = 3 * self->n;
	struct ib_xrc_event event;
	struct ibv_wc wc;
	__u32 sent;

	ASSERT_EQ(0, ev_send_to(&self->e.ini, self->s.srq.srq_num, n));
	EXPECT_BACKLOG();
	ASSERT_EQ(0, ev_wait_sent(&self->e.ini, self->n));
	for (sent = self->n; xrc_ini_poll(&self->e.ini, &wc) > 0; sent++) {
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
	}
	EXPECT_GE(self->n + self->limits.tgt_qp_recv_wr, sent);
	EXPECT_NO_EVENT(self->e.ef);
	ASSERT_EQ(0, drain(self, n));
	ASSERT_EQ(0, ev_wait_drained(&self->s));
	ASSERT_EQ(0, ev_wait_sent(&self->e.ini, n - sent));
	/* It may have been empty and full again meanwhile, nothing else. */
	while (xrc_event_read(self->e.ef, &event, 1) == 1) {
		EXPECT_EQ((__u32)IB_XRC_EVENT_SRQ_BACKLOG, event.type);
	}
}

/* A disconnect that drops the messages ends the backlog as delivering them does. */
TEST_F_TIMEOUT(backlog, flushed, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	int round;

	for (round = 0; round < 3; round++) {
		if (round) {
			ASSERT_EQ(0, ev_set_state(&self->e.x, &self->qp,
						  IBV_QPS_RESET));
			ASSERT_EQ(0, ev_connect_ini(&self->e.x, &self->e.ini,
						    &self->qp));
		}
		ASSERT_EQ(0, fill(self, self->n + 10));
		EXPECT_BACKLOG();
		EXPECT_NO_EVENT(self->e.ef);
		ASSERT_EQ(0, xrc_tgt_disconnect(&self->e.x, &self->qp, 0, &info));
		EXPECT_EQ(self->n + 10, info.flushed_msgs);
		EXPECT_EQ(0, info.delivered_msgs);
	}
}

/* Nobody is told of an SRQ without an event file, and nothing else changes. */
TEST_F_TIMEOUT(backlog, of_the_silent, TIMEOUT)
{
	struct ev_source silent;
	__u32 xrcd, n = self->n + 10;
	struct xrc_qp qp;

	ASSERT_EQ(0, ev_open_domain(&self->e.x, -1, NULL, self->e.ef, 0, &xrcd));
	ASSERT_EQ(0, ev_source_open(&self->e.x, xrcd, 1024, 7, XRC_NO_FD, &silent));
	ASSERT_EQ(0, xrc_tgt_create(&self->e.x, xrcd, &qp));
	EXPECT_EVENT(self->e.ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 0);
	ASSERT_EQ(0, ev_connect_ini(&self->e.x, &self->e.ini, &qp));
	ASSERT_EQ(0, ev_send_to(&self->e.ini, silent.srq.srq_num, n));
	ASSERT_EQ(0, ev_wait_sent(&self->e.ini, n));
	ASSERT_EQ(0, ev_source_post(&self->e.x, &silent, n));
	ASSERT_EQ(0, ev_wait_received(&silent, n));
	EXPECT_NO_EVENT(self->e.ef);
}

TEST_HARNESS_MAIN
