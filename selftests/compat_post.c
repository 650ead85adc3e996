// SPDX-License-Identifier: GPL-2.0
/*
 * What is posted to XRC QPs and SRQs, well and badly: lists of work requests of which one is
 * bad, scatter lists, nothing at all, addresses that make no sense, threads. Run under "ibxrc
 * run".
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())
#define OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE)

FIXTURE(post)
{
	struct rig rig;
	struct ibv_qp_ex *qpx;
};

FIXTURE_SETUP(post)
{
	struct rig *rig = &self->rig;

	ASSERT_EQ(0, rig_open_without_qps(rig));
	rig->tgt = rig_create_tgt(rig);
	rig->ini = rig_create_ini(rig, rig->send_cq, OPS);
	ASSERT_NE(NULL, rig->tgt);
	ASSERT_NE(NULL, rig->ini);
	self->qpx = ibv_qp_to_qp_ex(rig->ini);
	ASSERT_NE(NULL, self->qpx);
	ASSERT_EQ(0, rig_connect(rig));
}

FIXTURE_TEARDOWN(post)
{
	rig_close(&self->rig);
}

typedef FIXTURE_DATA(post) post_t;

static void received(struct __test_metadata *_metadata, post_t *self, __u64 id, __u32 length)
{
	struct ibv_wc wc;

	ASSERT_EQ(1, rig_poll(self->rig.recv_cq, &wc));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(id, wc.wr_id);
	EXPECT_EQ(length, wc.byte_len);
}

static void sent(struct __test_metadata *_metadata, post_t *self, __u64 id)
{
	struct ibv_wc wc;

	ASSERT_EQ(1, rig_poll(self->rig.send_cq, &wc));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(id, wc.wr_id);
}

/* The next completions are those of this message, and not of what was refused before. */
static void next_is(struct __test_metadata *_metadata, post_t *self, __u64 id)
{
	struct rig *rig = &self->rig;

	ASSERT_EQ(0, rig_post_send(rig, rig->ini, id, rig->srq_num, 0, 8, 0));
	received(_metadata, self, id, 8);
	sent(_metadata, self, id);
}

static void start(post_t *self, __u64 id, __u32 srq_num, unsigned int flags)
{
	self->qpx->wr_id = id;
	self->qpx->wr_flags = IBV_SEND_SIGNALED | flags;
	ibv_wr_send(self->qpx);
	ibv_wr_set_xrc_srqn(self->qpx, srq_num);
}

static void add(post_t *self, __u64 id, __u32 srq_num, __u32 length)
{
	struct rig *rig = &self->rig;

	start(self, id, srq_num, 0);
	ibv_wr_set_sge(self->qpx, rig->mr->lkey, (uintptr_t)rig->buf, length);
}

/* A QP as deep as the device has them, and one that is deeper or has longer lists. */
TEST_F_TIMEOUT(post, too_much, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_device_attr limits;
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->send_cq,
		.recv_cq = rig->send_cq,
		.cap = { .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC_SEND,
	};
	struct ibv_qp *qp;

	ASSERT_EQ(0, ibv_query_device(rig->context, &limits));
	attr.cap.max_send_wr = limits.max_qp_wr;
	qp = ibv_create_qp(rig->pd, &attr);
	ASSERT_NE(NULL, qp);
	EXPECT_EQ(0, ibv_destroy_qp(qp));

	attr.cap.max_send_wr = limits.max_qp_wr + 1;
	EXPECT_EQ(NULL, ibv_create_qp(rig->pd, &attr));
	EXPECT_EQ(EINVAL, errno);
	attr.cap.max_send_wr = UINT32_MAX;
	EXPECT_EQ(NULL, ibv_create_qp(rig->pd, &attr));
	EXPECT_EQ(EINVAL, errno);
	attr.cap.max_send_wr = 1;
	attr.cap.max_send_sge = limits.max_sge + 1;
	EXPECT_EQ(NULL, ibv_create_qp(rig->pd, &attr));
	EXPECT_EQ(EINVAL, errno);
}

/* ibv_wr_complete(3) posts all or nothing. */
TEST_F_TIMEOUT(post, calls_are_whole, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sges[64] = {};
	int i;

	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 10 + i, 0, 64));
	/* A number of 25 bits. */
	ibv_wr_start(self->qpx);
	add(self, 1, rig->srq_num, 8);
	add(self, 2, 1 << 24, 8);
	EXPECT_EQ(EINVAL, ibv_wr_complete(self->qpx));
	/* More elements than it has. */
	ibv_wr_start(self->qpx);
	add(self, 3, rig->srq_num, 8);
	start(self, 4, rig->srq_num, 0);
	ibv_wr_set_sge_list(self->qpx, 64, sges);
	EXPECT_EQ(EINVAL, ibv_wr_complete(self->qpx));
	/* More inline data. */
	ibv_wr_start(self->qpx);
	add(self, 5, rig->srq_num, 8);
	start(self, 6, rig->srq_num, 0);
	ibv_wr_set_inline_data(self->qpx, rig->buf, 65536);
	EXPECT_EQ(EINVAL, ibv_wr_complete(self->qpx));
	/* More than fit. */
	ibv_wr_start(self->qpx);
	for (i = 0; i < 10 * RIG_DEPTH; i++)
		add(self, 7, rig->srq_num, 8);
	EXPECT_EQ(ENOMEM, ibv_wr_complete(self->qpx));
	ibv_wr_start(self->qpx);
	add(self, 8, rig->srq_num, 8);
	ibv_wr_abort(self->qpx);
	ibv_wr_start(self->qpx);
	EXPECT_EQ(0, ibv_wr_complete(self->qpx));

	ibv_wr_start(self->qpx);
	add(self, 10, rig->srq_num, 8);
	start(self, 11, rig->srq_num, 0);
	ibv_wr_set_sge_list(self->qpx, 1, sges);
	EXPECT_EQ(0, ibv_wr_complete(self->qpx));
	received(_metadata, self, 10, 8);
	sent(_metadata, self, 10);
	received(_metadata, self, 11, 0);
	sent(_metadata, self, 11);
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 14, 0, 64));
	next_is(_metadata, self, 12);
}

/* Which data is inline tell the functions that set it, and no flag. */
TEST_F_TIMEOUT(post, calls_and_inline_flag, TIMEOUT)
{
	struct rig *rig = &self->rig;

	memset(rig->buf, 0x5a, 64);
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 1, 0, 64));
	ibv_wr_start(self->qpx);
	start(self, 1, rig->srq_num, IBV_SEND_INLINE);
	ibv_wr_set_sge(self->qpx, rig->mr->lkey, (uintptr_t)rig->buf, 64);
	EXPECT_EQ(0, ibv_wr_complete(self->qpx));
	received(_metadata, self, 1, 64);
	sent(_metadata, self, 1);
	EXPECT_EQ(0, memcmp(rig->buf, rig_recv_buf(rig), 64));
}

/* Those before the bad one are posted, as ibv_post_send(3) and ibv_post_srq_recv(3) say. */
TEST_F_TIMEOUT(post, bad_in_a_list, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig->buf,
		.length = 8,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr *bad_send = NULL, send[3] = {};
	struct ibv_recv_wr *bad_recv = NULL, recv[3] = {};
	int i;

	for (i = 0; i < 3; i++) {
		recv[i].wr_id = i;
		recv[i].next = i < 2 ? &recv[i + 1] : NULL;
		recv[i].sg_list = &sge;
		recv[i].num_sge = i == 1 ? 1000 : 1;
		send[i].wr_id = i;
		send[i].next = i < 2 ? &send[i + 1] : NULL;
		send[i].sg_list = &sge;
		send[i].num_sge = 1;
		send[i].opcode = i == 1 ? 99 : IBV_WR_SEND;
		send[i].send_flags = IBV_SEND_SIGNALED;
		send[i].qp_type.xrc.remote_srqn = rig->srq_num;
	}
	EXPECT_EQ(EINVAL, ibv_post_srq_recv(rig->srq, recv, &bad_recv));
	EXPECT_EQ(&recv[1], bad_recv);
	EXPECT_NE(0, ibv_post_send(rig->ini, send, &bad_send));
	EXPECT_EQ(&send[1], bad_send);
	received(_metadata, self, 0, 8);
	sent(_metadata, self, 0);
	/* Negative numbers are no better. */
	recv[2].num_sge = -1;
	EXPECT_EQ(EINVAL, ibv_post_srq_recv(rig->srq, &recv[2], &bad_recv));
	EXPECT_EQ(&recv[2], bad_recv);
	send[2].num_sge = -1;
	EXPECT_EQ(EINVAL, ibv_post_send(rig->ini, &send[2], &bad_send));
	EXPECT_EQ(&send[2], bad_send);
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 0, 64));
	next_is(_metadata, self, 7);
}

/* Nothing, and lists with nothing in between. */
TEST_F_TIMEOUT(post, empty, TIMEOUT)
{
	struct rig *rig = &self->rig;
	__u64 at = (uintptr_t)rig->buf, to = (uintptr_t)rig_recv_buf(rig);
	struct ibv_sge out[4] = {
		{ at, 3, rig->mr->lkey }, { at, 0, rig->mr->lkey },
		{ at + 3, 9000, rig->mr->lkey }, { at + 9003, 1, rig->mr->lkey },
	};
	struct ibv_sge in[4] = {
		{ to, 0, rig->mr->lkey }, { to, 5000, rig->mr->lkey },
		{ to + 5000, 1, rig->mr->lkey }, { to + 5001, 9000, rig->mr->lkey },
	};
	struct ibv_send_wr *bad_send, send = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
		.qp_type.xrc.remote_srqn = rig->srq_num,
	};
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 1 };
	int i;

	ASSERT_EQ(0, ibv_post_srq_recv(rig->srq, &recv, &bad_recv));
	ASSERT_EQ(0, ibv_post_send(rig->ini, &send, &bad_send));
	received(_metadata, self, 1, 0);
	sent(_metadata, self, 1);

	for (i = 0; i < 9004; i++)
		rig->buf[i] = rand();
	recv.wr_id = send.wr_id = 2;
	recv.sg_list = in;
	send.sg_list = out;
	recv.num_sge = send.num_sge = 4;
	send.send_flags = IBV_SEND_SIGNALED;
	ASSERT_EQ(0, ibv_post_srq_recv(rig->srq, &recv, &bad_recv));
	ASSERT_EQ(0, ibv_post_send(rig->ini, &send, &bad_send));
	received(_metadata, self, 2, 9004);
	sent(_metadata, self, 2);
	EXPECT_EQ(0, memcmp(rig->buf, rig_recv_buf(rig), 9004));
}

/* A message of several parts at the end of the address space is an error of the sender. */
TEST_F_TIMEOUT(post, no_such_address, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = {
		.addr = UINT64_MAX - 10,
		.length = 100000,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 3,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = rig->srq_num,
	};
	struct ibv_wc wc;

	if (ibv_post_send(rig->ini, &wr, &bad)) {
		EXPECT_EQ(&wr, bad);
		return;
	}
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(3, wc.wr_id);
}

#define THREADS 4
#define EACH 100

static void *post_many(void *arg)
{
	struct rig *rig = arg;
	int i, err;

	for (i = 0; i < EACH;) {
		err = rig_post_send(rig, rig->ini, 1, rig->srq_num, 0, 5000, 0);
		if (err && err != ENOMEM)
			return "post_send";
		if (!err)
			i++;
		else
			usleep(1000);
	}
	return NULL;
}

static void *receive_many(void *arg)
{
	struct rig *rig = arg;
	int i, err;

	for (i = 0; i < EACH;) {
		err = rig_post_recv(rig, rig->srq, 2, 0, 8192);
		if (err && err != ENOMEM)
			return "post_recv";
		if (!err)
			i++;
		else
			usleep(1000);
	}
	return NULL;
}

static int polled[2];

static void *poll_many(void *arg)
{
	struct rig *rig = arg;
	struct ibv_wc wc[3];
	time_t end = time(NULL) + 60 * xrc_scale();
	int i, n, kind;

	while (__atomic_load_n(&polled[0], __ATOMIC_RELAXED) +
	       __atomic_load_n(&polled[1], __ATOMIC_RELAXED) < 2 * THREADS * EACH) {
		for (kind = 0; kind < 2; kind++) {
			n = ibv_poll_cq(kind ? rig->recv_cq : rig->send_cq, 3, wc);
			for (i = 0; i < n; i++)
				if (wc[i].status || (int)wc[i].wr_id != kind + 1)
					return "a completion";
			if (n < 0 || time(NULL) > end)
				return "no completion";
			__atomic_fetch_add(&polled[kind], n, __ATOMIC_RELAXED);
		}
	}
	return NULL;
}

TEST_F_TIMEOUT(post, threads, TIMEOUT)
{
	static void *(*const does[3])(void *) = { post_many, receive_many, poll_many };
	pthread_t threads[3 * THREADS];
	void *wrong;
	int i;

	for (i = 0; i < 3 * THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, does[i % 3], &self->rig));
	for (i = 0; i < 3 * THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &wrong));
		EXPECT_EQ(NULL, wrong) {
			TH_LOG("thread %d: %s", i, (char *)wrong);
		}
	}
	EXPECT_EQ(THREADS * EACH, polled[0]);
	EXPECT_EQ(THREADS * EACH, polled[1]);
}

TEST_HARNESS_MAIN
