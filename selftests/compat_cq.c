// SPDX-License-Identifier: GPL-2.0
/*
 * Completions of XRC objects, as the manual pages of libibverbs have them. It is run
 * under "ibxrc run".
 */
#include <errno.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

FIXTURE(cq)
{
	struct rig rig;
	/* Two RC QPs, connected with each other, that complete into one CQ. */
	struct ibv_qp *rc[2];
};

FIXTURE_SETUP(cq)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(cq)
{
	int i;

	for (i = 0; i < 2; i++)
		if (self->rc[i])
			ibv_destroy_qp(self->rc[i]);
	rig_close(&self->rig);
}

/* A work request that the parts of the tests change before it is posted. */
static struct ibv_send_wr work(struct rig *rig, struct ibv_sge *sge, __u32 length)
{
	*sge = (struct ibv_sge) {
		.addr = (uintptr_t)rig->buf,
		.length = length,
		.lkey = rig->mr->lkey,
	};
	return (struct ibv_send_wr) {
		.wr_id = 100,
		.sg_list = sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = rig->srq_num,
	};
}

static int open_rc(struct rig *rig, struct ibv_cq *cq, struct ibv_qp **rc)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
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

/* From the first RC QP to the second one. */
static int rc_message(struct rig *rig, struct ibv_qp **rc, __u64 send_id, __u64 recv_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig_recv_buf(rig),
		.length = 64,
		.lkey = rig->mr->lkey,
	};
	struct ibv_recv_wr *bad_recv, recv = {
		.wr_id = recv_id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_send_wr *bad, wr;
	struct ibv_sge data;
	int err;

	err = ibv_post_recv(rc[1], &recv, &bad_recv);
	if (err)
		return err;
	wr = work(rig, &data, 64);
	wr.wr_id = send_id;
	return ibv_post_send(rc[0], &wr, &bad);
}

TEST_F_TIMEOUT(cq, fields_of_a_send, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	wr = work(rig, &sge, 5000);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htobe32(0x01020304);
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 0, 8192));
	ASSERT_EQ(0, ibv_post_send(rig->ini, &wr, &bad));

	memset(&wc, 0xff, sizeof(wc));
	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(7, wc.wr_id);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_RECV, wc.opcode);
	EXPECT_EQ(5000, wc.byte_len);
	EXPECT_EQ(IBV_WC_WITH_IMM, wc.wc_flags);
	EXPECT_EQ(htobe32(0x01020304), wc.imm_data);
	EXPECT_EQ(rig->tgt->qp_num, wc.qp_num);
	EXPECT_EQ(rig->ini->qp_num, wc.src_qp);
	EXPECT_EQ(0, wc.vendor_err);
	EXPECT_EQ(0, wc.pkey_index);
	EXPECT_EQ(0, wc.slid);
	EXPECT_EQ(0, wc.sl);
	EXPECT_EQ(0, wc.dlid_path_bits);

	memset(&wc, 0xff, sizeof(wc));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(100, wc.wr_id);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_SEND, wc.opcode);
	EXPECT_EQ(5000, wc.byte_len);
	EXPECT_EQ(0, wc.wc_flags);
	EXPECT_EQ(rig->ini->qp_num, wc.qp_num);

	/* There is one completion of each. */
	EXPECT_EQ(0, ibv_poll_cq(rig->recv_cq, 1, &wc));
	EXPECT_EQ(0, ibv_poll_cq(rig->send_cq, 1, &wc));
	EXPECT_EQ(0, ibv_poll_cq(rig->send_cq, 0, NULL));
}

TEST_F_TIMEOUT(cq, fields_of_a_write, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_send_wr *bad, wr;
	struct ibv_sge sge;
	struct ibv_wc wc;

	wr = work(rig, &sge, 3000);
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htobe32(0xf1f2f3f4);
	wr.wr.rdma.remote_addr = (uintptr_t)rig_recv_buf(rig);
	wr.wr.rdma.rkey = rig->mr->rkey;
	memset(rig->buf, 0x5a, 3000);
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 8192, 1));
	ASSERT_EQ(0, ibv_post_send(rig->ini, &wr, &bad));

	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(7, wc.wr_id);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_RECV_RDMA_WITH_IMM, wc.opcode);
	EXPECT_EQ(3000, wc.byte_len);
	EXPECT_EQ(IBV_WC_WITH_IMM, wc.wc_flags);
	EXPECT_EQ(htobe32(0xf1f2f3f4), wc.imm_data);
	EXPECT_EQ(rig->tgt->qp_num, wc.qp_num);
	EXPECT_EQ(0, memcmp(rig->buf, rig_recv_buf(rig), 3000));

	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(100, wc.wr_id);
	EXPECT_EQ(IBV_WC_RDMA_WRITE, wc.opcode);
	EXPECT_EQ(rig->ini->qp_num, wc.qp_num);
}

/* A message that is too long; what comes after it is flushed. */
TEST_F_TIMEOUT(cq, errors, TIMEOUT)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	int i;

	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 0, 10));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 100, rig->srq_num, 0, 11, 0));
	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(7, wc.wr_id);
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, wc.status);
	EXPECT_EQ(rig->tgt->qp_num, wc.qp_num);
	/* Soft-RoCE does not give up trying, if it is to do so 7 times. */
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 101, rig->srq_num, 0, 11, 0));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 102, rig->srq_num, 0, RIG_BUF_SIZE, 0));
	ASSERT_EQ(0, ibv_modify_qp(rig->ini, &attr, IBV_QP_STATE));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 103, rig->srq_num, 0, 11, 0));
	for (i = 100; i <= 103; i++) {
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
		EXPECT_EQ(i, wc.wr_id);
		/* The TGT QP may have acknowledged the first before it was in error. */
		if (i > 100)
			EXPECT_NE(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(rig->ini->qp_num, wc.qp_num);
	}
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
}

/* What a CQ has no room for is not lost unseen. */
TEST_F_TIMEOUT(cq, overflow, TIMEOUT)
{
	struct rig *rig = &self->rig;
	int sent, posted = 0, received = 0, err = 0, n;
	struct ibv_cq *small;
	struct ibv_srq *srq;
	struct ibv_wc wc;
	__u32 num;

	small = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	ASSERT_NE(NULL, small);
	srq = rig_create_srq(rig, small, RIG_DEPTH);
	ASSERT_NE(NULL, srq);
	ASSERT_EQ(0, ibv_get_srq_num(srq, &num));
	/*
	 * Until the SRQ is in error. Then Soft-RoCE tries forever to send what comes next,
	 * so that this is looked at while a message is on its way.
	 */
	for (sent = 0; sent < 5000 && err != EIO; sent++) {
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, sent, num, 0, 8, 0));
		do {
			err = rig_post_recv(rig, srq, posted, 0, 64);
			posted += !err;
			n = ibv_poll_cq(rig->send_cq, 1, &wc);
		} while (!n && err != EIO);
		ASSERT_LE(0, n);
	}
	EXPECT_EQ(EIO, err);
	while ((n = ibv_poll_cq(small, 1, &wc)) > 0) {
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(received, wc.wr_id);
		received++;
	}
	EXPECT_GT(0, n);
	EXPECT_LE(1, received);
	EXPECT_LE(received, sent);
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_cq(small));
}

TEST_F_TIMEOUT(cq, resize, TIMEOUT)
{
	struct rig *rig = &self->rig;
	int cqe = rig->recv_cq->cqe, i;
	struct ibv_device_attr attr;
	struct ibv_cq *other;
	struct ibv_srq *srq;
	struct ibv_wc wc;

	ASSERT_EQ(0, ibv_query_device(rig->context, &attr));
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 0, 64));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 100, rig->srq_num, 0, 8, 0));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	/* With completions in it. */
	ASSERT_EQ(0, ibv_resize_cq(rig->recv_cq, 2 * cqe));
	ASSERT_EQ(0, ibv_resize_cq(rig->send_cq, 2 * cqe));
	EXPECT_LE(2 * cqe, rig->recv_cq->cqe);
	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(7, wc.wr_id);

	/* It now holds as many as it says. */
	for (i = 0; i < 2 * cqe; i++) {
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, i, 0, 64));
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, i, rig->srq_num, 0, 8, 0));
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
	}
	for (i = 0; i < 2 * cqe; i++) {
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		EXPECT_EQ(i, wc.wr_id);
	}

	cqe = rig->recv_cq->cqe;
	EXPECT_NE(0, ibv_resize_cq(rig->recv_cq, attr.max_cqe));
	EXPECT_EQ(cqe, rig->recv_cq->cqe);

	/* Before there is an XRC object. */
	other = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	ASSERT_NE(NULL, other);
	ASSERT_EQ(0, ibv_resize_cq(other, attr.max_cqe));
	srq = rig_create_srq(rig, other, RIG_DEPTH);
	ASSERT_NE(NULL, srq);
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_cq(other));
}

TEST_F_TIMEOUT(cq, srq_attributes, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 50, .max_sge = 3, .srq_limit = 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = rig->pd,
		.xrcd = rig->xrcd,
		.cq = rig->recv_cq,
		.srq_context = rig,
	};
	struct ibv_srq_attr attr, found;
	struct ibv_srq *srq;
	__u32 max_wr;

	srq = ibv_create_srq_ex(rig->context, &init);
	ASSERT_NE(NULL, srq);
	EXPECT_EQ(rig, srq->srq_context);
	EXPECT_EQ(rig->pd, srq->pd);
	EXPECT_LE(50, init.attr.max_wr);
	EXPECT_LE(3, init.attr.max_sge);
	max_wr = init.attr.max_wr;
	ASSERT_EQ(0, ibv_query_srq(srq, &found));
	EXPECT_EQ(max_wr, found.max_wr);
	EXPECT_EQ(init.attr.max_sge, found.max_sge);
	EXPECT_EQ(0, found.srq_limit);

	/* With work requests posted no event takes the limit away. */
	ASSERT_EQ(0, rig_post_recv(rig, srq, 1, 0, 64));
	ASSERT_EQ(0, rig_post_recv(rig, srq, 2, 0, 64));
	attr.srq_limit = 2;
	ASSERT_EQ(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	ASSERT_EQ(0, ibv_query_srq(srq, &found));
	EXPECT_EQ(2, found.srq_limit);
	attr.srq_limit = max_wr + 1;
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));

	attr.max_wr = max_wr;
	EXPECT_EQ(0, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = 10;
	EXPECT_EQ(0, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = 1;
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = 0;
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	attr.srq_limit = 1;
	attr.max_wr = max_wr + 1;
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT));
	EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &attr, 1 << 10));
	/* Nothing of it has changed anything. */
	ASSERT_EQ(0, ibv_query_srq(srq, &found));
	EXPECT_EQ(2, found.srq_limit);
	EXPECT_LE(10, found.max_wr);
	EXPECT_EQ(0, ibv_destroy_srq(srq));

	init.attr.max_wr = 0;
	EXPECT_EQ(NULL, ibv_create_srq_ex(rig->context, &init));
	EXPECT_EQ(EINVAL, errno);
}

TEST_F_TIMEOUT(cq, basic_srqs_stay_what_they_are, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 10, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .srq_limit = 1 }, found;
	struct ibv_srq *srq;
	__u32 num;

	srq = ibv_create_srq(rig->pd, &init);
	ASSERT_NE(NULL, srq);
	ASSERT_EQ(0, rig_post_recv(rig, srq, 1, 0, 64));
	ASSERT_EQ(0, rig_post_recv(rig, srq, 2, 0, 64));
	EXPECT_EQ(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	ASSERT_EQ(0, ibv_query_srq(srq, &found));
	EXPECT_EQ(1, found.srq_limit);
	/* Soft-RoCE's have none. */
	EXPECT_EQ(EOPNOTSUPP, ibv_get_srq_num(srq, &num));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
}

/* A program that sees to nothing while long messages are on their way. */
TEST_F_TIMEOUT(cq, long_messages_get_on, TIMEOUT)
{
	enum { QPS = 8 };
	struct rig *rig = &self->rig;
	struct ibv_qp *tgt[QPS], *ini[QPS];
	unsigned int seen = 0;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < QPS; i++) {
		tgt[i] = rig_create_tgt(rig);
		ini[i] = rig_create_ini(rig, rig->send_cq, 0);
		ASSERT_NE(NULL, tgt[i]);
		ASSERT_NE(NULL, ini[i]);
		ASSERT_EQ(0, rig_pair(rig, tgt[i], ini[i]));
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, i, 0, RIG_BUF_SIZE));
	}
	for (i = 0; i < QPS; i++)
		ASSERT_EQ(0, rig_post_send(rig, ini[i], i, rig->srq_num, 0, RIG_BUF_SIZE, 0));
	/* The sending side is not polled. */
	for (i = 0; i < QPS; i++) {
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(RIG_BUF_SIZE, wc.byte_len);
	}
	for (i = 0; i < QPS; i++) {
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(ini[wc.wr_id]->qp_num, wc.qp_num);
		seen |= 1 << wc.wr_id;
	}
	EXPECT_EQ((1 << QPS) - 1, seen);
	for (i = 0; i < QPS; i++) {
		EXPECT_EQ(0, ibv_destroy_qp(ini[i]));
		EXPECT_EQ(0, ibv_destroy_qp(tgt[i]));
	}
}

/* RC and XRC, both ways, into one CQ. */
TEST_F_TIMEOUT(cq, one_for_all, TIMEOUT)
{
	struct rig *rig = &self->rig;
	unsigned int seen = 0;
	struct ibv_qp *ini;
	struct ibv_wc wc;
	int i;

	ini = rig_create_ini(rig, rig->recv_cq, 0);
	ASSERT_NE(NULL, ini);
	ASSERT_EQ(0, open_rc(rig, rig->recv_cq, self->rc));
	ASSERT_EQ(0, ibv_destroy_qp(rig->tgt));
	rig->tgt = rig_create_tgt(rig);
	ASSERT_NE(NULL, rig->tgt);
	ASSERT_EQ(0, rig_pair(rig, rig->tgt, ini));
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 0, 0, 64));
	ASSERT_EQ(0, rig_post_send(rig, ini, 1, rig->srq_num, 0, 64, 0));
	ASSERT_EQ(0, rc_message(rig, self->rc, 2, 3));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(wc.wr_id == 1 || wc.wr_id == 2, wc.opcode == IBV_WC_SEND);
		seen |= 1 << wc.wr_id;
	}
	EXPECT_EQ(0xf, seen);
	EXPECT_EQ(0, ibv_poll_cq(rig->recv_cq, 1, &wc));
	EXPECT_EQ(0, ibv_destroy_qp(ini));
	EXPECT_EQ(EBUSY, ibv_destroy_cq(rig->recv_cq));
}

TEST_HARNESS_MAIN
