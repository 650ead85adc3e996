// SPDX-License-Identifier: GPL-2.0
/*
 * Extended CQs that XRC objects complete into, as the manual pages of libibverbs have
 * them. It is run under "ibxrc run".
 */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())
#define SECONDS (60 * xrc_scale())

FIXTURE(cq_ex)
{
	struct rig rig;
	struct ibv_cq_ex *cq;
	struct ibv_qp *rc[2];
	struct ibv_srq *srq;
	__u32 srq_num;
	struct ibv_qp *tgt;
	struct ibv_qp *ini;
};

typedef FIXTURE_DATA(cq_ex) cq_ex_t;

static struct ibv_cq_ex *create_cq(struct rig *rig, __u64 wc_flags)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = 2 * RIG_DEPTH,
		.cq_context = rig,
		.channel = rig->channel,
		.wc_flags = wc_flags,
	};

	return ibv_create_cq_ex(rig->context, &attr);
}

/* Two RC QPs that complete into it, which does not make it one of XRC. */
FIXTURE_SETUP(cq_ex)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 16, 16, 1, 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	int i;

	ASSERT_EQ(0, rig_open_without_qps(&self->rig));
	self->cq = create_cq(&self->rig, IBV_WC_STANDARD_FLAGS);
	ASSERT_NE(NULL, self->cq);
	attr.send_cq = ibv_cq_ex_to_cq(self->cq);
	attr.recv_cq = attr.send_cq;
	for (i = 0; i < 2; i++) {
		self->rc[i] = ibv_create_qp(self->rig.pd, &attr);
		ASSERT_NE(NULL, self->rc[i]);
	}
	ASSERT_EQ(0, rig_pair(&self->rig, self->rc[0], self->rc[1]));
}

FIXTURE_TEARDOWN(cq_ex)
{
	struct ibv_qp *qps[] = { self->ini, self->tgt, self->rc[0], self->rc[1] };
	size_t i;

	for (i = 0; i < sizeof(qps) / sizeof(*qps); i++)
		if (qps[i])
			EXPECT_EQ(0, ibv_destroy_qp(qps[i]));
	if (self->srq)
		EXPECT_EQ(0, ibv_destroy_srq(self->srq));
	if (self->cq)
		EXPECT_EQ(0, ibv_destroy_cq(ibv_cq_ex_to_cq(self->cq)));
	rig_close(&self->rig);
}

/* An XRC SRQ and an XRC_SEND QP that complete into it. */
static int add_xrc(cq_ex_t *self)
{
	struct rig *rig = &self->rig;

	self->srq = rig_create_srq(rig, ibv_cq_ex_to_cq(self->cq), RIG_DEPTH);
	self->tgt = rig_create_tgt(rig);
	self->ini = rig_create_ini(rig, ibv_cq_ex_to_cq(self->cq), 0);
	if (!self->srq || !self->tgt || !self->ini ||
	    ibv_get_srq_num(self->srq, &self->srq_num))
		return -EIO;
	return rig_pair(rig, self->tgt, self->ini);
}

static int rc_message(cq_ex_t *self)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig_recv_buf(rig),
		.length = 64,
		.lkey = rig->mr->lkey,
	};
	struct ibv_recv_wr *bad, recv = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 };
	int err;

	err = ibv_post_recv(self->rc[1], &recv, &bad);
	return err ? err : rig_post_send(rig, self->rc[0], 2, 0, 0, 30, 0);
}

static int xrc_message(cq_ex_t *self)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig->buf,
		.length = 5000,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = 1,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.imm_data = htobe32(0x01020304),
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = self->srq_num,
	};
	int err;

	err = rig_post_recv(rig, self->srq, 0, 4096, 8192);
	return err ? err : ibv_post_send(self->ini, &wr, &bad);
}

/* Until there is a completion. */
static int start_poll(struct ibv_cq_ex *cq)
{
	time_t end = time(NULL) + SECONDS;
	struct ibv_poll_cq_attr attr = {};
	int err;

	do {
		err = ibv_start_poll(cq, &attr);
	} while (err == ENOENT && time(NULL) < end);
	return err;
}

/* What there is to know of the completion, by its wr_id. */
static void check(struct __test_metadata *_metadata, cq_ex_t *self)
{
	struct ibv_cq_ex *cq = self->cq;

	EXPECT_EQ(IBV_WC_SUCCESS, cq->status);
	EXPECT_EQ(0, ibv_wc_read_vendor_err(cq));
	EXPECT_EQ(0, ibv_wc_read_sl(cq));
	EXPECT_EQ(0, ibv_wc_read_slid(cq));
	EXPECT_EQ(0, ibv_wc_read_dlid_path_bits(cq));
	switch (cq->wr_id) {
	case 0:
		EXPECT_EQ(IBV_WC_RECV, ibv_wc_read_opcode(cq));
		EXPECT_EQ(5000, ibv_wc_read_byte_len(cq));
		EXPECT_EQ(IBV_WC_WITH_IMM, ibv_wc_read_wc_flags(cq));
		EXPECT_EQ(htobe32(0x01020304), ibv_wc_read_imm_data(cq));
		EXPECT_EQ(self->tgt->qp_num, ibv_wc_read_qp_num(cq));
		EXPECT_EQ(self->ini->qp_num, ibv_wc_read_src_qp(cq));
		break;
	case 1:
		EXPECT_EQ(IBV_WC_SEND, ibv_wc_read_opcode(cq));
		EXPECT_EQ(5000, ibv_wc_read_byte_len(cq));
		EXPECT_EQ(0, ibv_wc_read_wc_flags(cq));
		EXPECT_EQ(self->ini->qp_num, ibv_wc_read_qp_num(cq));
		break;
	case 2:
		EXPECT_EQ(IBV_WC_SEND, ibv_wc_read_opcode(cq));
		EXPECT_EQ(self->rc[0]->qp_num, ibv_wc_read_qp_num(cq));
		break;
	default:
		EXPECT_EQ(3, cq->wr_id);
		EXPECT_EQ(IBV_WC_RECV, ibv_wc_read_opcode(cq));
		EXPECT_EQ(30, ibv_wc_read_byte_len(cq));
		EXPECT_EQ(0, ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM);
		EXPECT_EQ(self->rc[1]->qp_num, ibv_wc_read_qp_num(cq));
	}
}

TEST_F_TIMEOUT(cq_ex, one_by_one, TIMEOUT)
{
	struct ibv_poll_cq_attr attr = {};
	unsigned int seen = 0;
	int i;

	ASSERT_EQ(0, add_xrc(self));
	EXPECT_EQ(ENOENT, ibv_start_poll(self->cq, &attr));
	ASSERT_EQ(0, xrc_message(self));
	ASSERT_EQ(0, rc_message(self));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, start_poll(self->cq));
		check(_metadata, self);
		seen |= 1 << self->cq->wr_id;
		ibv_end_poll(self->cq);
	}
	EXPECT_EQ(0xf, seen);
	EXPECT_EQ(ENOENT, ibv_start_poll(self->cq, &attr));
	attr.comp_mask = 1;
	EXPECT_EQ(EINVAL, ibv_start_poll(self->cq, &attr));
}

TEST_F_TIMEOUT(cq_ex, in_a_row, TIMEOUT)
{
	struct ibv_poll_cq_attr attr = {};
	unsigned int seen;
	int round, n, err;

	ASSERT_EQ(0, add_xrc(self));
	/* Each source is the first one to be asked once. */
	for (round = 0; round < 6; round++) {
		ASSERT_EQ(0, xrc_message(self));
		ASSERT_EQ(0, rc_message(self));
		seen = 0;
		for (n = 0; n < 4; ) {
			ASSERT_EQ(0, start_poll(self->cq));
			do {
				check(_metadata, self);
				seen |= 1 << self->cq->wr_id;
				n++;
				err = ibv_next_poll(self->cq);
			} while (!err);
			EXPECT_EQ(ENOENT, err);
			ibv_end_poll(self->cq);
		}
		EXPECT_EQ(4, n);
		EXPECT_EQ(0xf, seen);
	}
	EXPECT_EQ(ENOENT, ibv_start_poll(self->cq, &attr));
}

/* The other way to poll it. */
TEST_F_TIMEOUT(cq_ex, as_a_plain_cq, TIMEOUT)
{
	unsigned int seen = 0;
	struct ibv_wc wc;
	int i;

	ASSERT_EQ(0, add_xrc(self));
	ASSERT_EQ(0, xrc_message(self));
	ASSERT_EQ(0, rc_message(self));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(1, rig_poll(ibv_cq_ex_to_cq(self->cq), &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		seen |= 1 << wc.wr_id;
	}
	EXPECT_EQ(0xf, seen);
}

/* The first XRC object comes between ibv_start_poll(3) and ibv_end_poll(3). */
TEST_F_TIMEOUT(cq_ex, first_object_while_polling, TIMEOUT)
{
	ASSERT_EQ(0, rc_message(self));
	ASSERT_EQ(0, start_poll(self->cq));
	ASSERT_EQ(0, add_xrc(self));
	check(_metadata, self);
	if (!ibv_next_poll(self->cq))
		check(_metadata, self);
	ibv_end_poll(self->cq);

	ASSERT_EQ(0, xrc_message(self));
	ASSERT_EQ(0, start_poll(self->cq));
	check(_metadata, self);
	ibv_end_poll(self->cq);
}

/* What is not asked for is not there, and what the provider does not have neither. */
TEST_F_TIMEOUT(cq_ex, what_was_asked_for, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;

	cq = create_cq(rig, IBV_WC_EX_WITH_BYTE_LEN);
	ASSERT_NE(NULL, cq);
	EXPECT_EQ(rig, cq->cq_context);
	EXPECT_EQ(rig->channel, cq->channel);
	srq = rig_create_srq(rig, ibv_cq_ex_to_cq(cq), RIG_DEPTH);
	ASSERT_NE(NULL, srq);
	EXPECT_NE(NULL, cq->read_byte_len);
	EXPECT_EQ(NULL, cq->read_imm_data);
	EXPECT_EQ(NULL, cq->read_qp_num);
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));

	errno = 0;
	EXPECT_EQ(NULL, create_cq(rig, IBV_WC_EX_WITH_CVLAN));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

struct poller {
	struct ibv_cq_ex *cq;
	unsigned int count[4];
	int left;
	/*
	 * It goes on with ibv_next_poll(3). With the provider of Soft-RoCE two threads must
	 * not: it unlocks the CQ when there is nothing more, and once more at the end.
	 */
	int goes_on;
	pthread_mutex_t lock;
};

static void *poll_some(void *arg)
{
	struct poller *poller = arg;
	struct ibv_poll_cq_attr attr = {};
	time_t end = time(NULL) + SECONDS;
	int left;

	do {
		pthread_mutex_lock(&poller->lock);
		left = poller->left;
		pthread_mutex_unlock(&poller->lock);
		if (left <= 0 || ibv_start_poll(poller->cq, &attr))
			continue;
		do {
			pthread_mutex_lock(&poller->lock);
			if (poller->cq->wr_id < 4 && !poller->cq->status)
				poller->count[poller->cq->wr_id]++;
			poller->left--;
			pthread_mutex_unlock(&poller->lock);
		} while (poller->goes_on && !ibv_next_poll(poller->cq));
		ibv_end_poll(poller->cq);
	} while (left > 0 && time(NULL) < end);
	return NULL;
}

/* Threads that poll when the first XRC object comes, and go on. */
TEST_F_TIMEOUT(cq_ex, threads, TIMEOUT)
{
	enum { ROUNDS = 40, WAVES = 10 };
	struct poller poller = { .cq = self->cq, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[2];
	int i, round;

	poller.left = 2 * 10;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, poll_some, &poller));
	for (round = 0; round < 5; round++)
		ASSERT_EQ(0, rc_message(self));
	ASSERT_EQ(0, add_xrc(self));
	for (round = 0; round < 5; round++)
		ASSERT_EQ(0, rc_message(self));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(0, poller.left);

	memset(poller.count, 0, sizeof(poller.count));
	poller.left = 4 * ROUNDS;
	poller.goes_on = 1;
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, poll_some, &poller));
	for (round = 0; round < ROUNDS; round++) {
		/* No more than there is room for. */
		while (round % WAVES == 0) {
			int left;

			pthread_mutex_lock(&poller.lock);
			left = poller.left;
			pthread_mutex_unlock(&poller.lock);
			if (left <= 4 * (ROUNDS - round))
				break;
		}
		ASSERT_EQ(0, xrc_message(self));
		ASSERT_EQ(0, rc_message(self));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, pthread_join(threads[i], NULL));
	EXPECT_EQ(0, poller.left);
	for (i = 0; i < 4; i++)
		EXPECT_EQ(ROUNDS, poller.count[i]);
}

TEST_HARNESS_MAIN
