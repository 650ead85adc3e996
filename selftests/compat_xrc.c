// SPDX-License-Identifier: GPL-2.0
/*
 * A program that uses XRC as the manual pages of libibverbs have it. It is run under
 * "ibxrc run".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

FIXTURE(xrc)
{
	struct rig rig;
};

FIXTURE_SETUP(xrc)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(xrc)
{
	rig_close(&self->rig);
}

TEST_F_TIMEOUT(xrc, device_has_it, TIMEOUT)
{
	struct ibv_device_attr attr = {};
	struct ibv_device_attr_ex ex = {};

	ASSERT_EQ(0, ibv_query_device(self->rig.context, &attr));
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_XRC);
	ASSERT_EQ(0, ibv_query_device_ex(self->rig.context, NULL, &ex));
	EXPECT_TRUE(ex.orig_attr.device_cap_flags & IBV_DEVICE_XRC);
}

/* Of all lengths around those at which a message is divided, on its way. */
TEST_F_TIMEOUT(xrc, messages, TIMEOUT)
{
	static const __u32 lengths[] = { 0, 1, 4095, 4096, 4097, 65536, RIG_BUF_SIZE };
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	size_t i, j;

	for (i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		for (j = 0; j < lengths[i]; j++)
			rig->buf[j] = rand();
		memset(rig_recv_buf(rig), 0, RIG_BUF_SIZE);
		ASSERT_EQ(0, rig_post_recv(rig, rig->srq, i, 0, RIG_BUF_SIZE));
		ASSERT_EQ(0, rig_post_send(rig, rig->ini, 100 + i, rig->srq_num, 0,
					   lengths[i], 0));
		ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(i, wc.wr_id);
		EXPECT_EQ(IBV_WC_RECV, wc.opcode);
		EXPECT_EQ(lengths[i], wc.byte_len);
		EXPECT_EQ(0, memcmp(rig->buf, rig_recv_buf(rig), lengths[i]));
		ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(100 + i, wc.wr_id);
		EXPECT_EQ(IBV_WC_SEND, wc.opcode);
		EXPECT_EQ(rig->ini->qp_num, wc.qp_num);
	}
}

/* RDMA and atomics reach memory by the key that ibv_reg_mr(3) gave. */
TEST_F_TIMEOUT(xrc, one_sided, TIMEOUT)
{
	struct rig *rig = &self->rig;
	__u64 *there = (__u64 *)rig_recv_buf(rig);
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig->buf,
		.length = 8,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = rig->srq_num,
	};
	struct ibv_wc wc;

	*(__u64 *)rig->buf = 41;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)there;
	wr.wr.rdma.rkey = rig->mr->rkey;
	ASSERT_EQ(0, ibv_post_send(rig->ini, &wr, &bad));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_RDMA_WRITE, wc.opcode);
	EXPECT_EQ(41, *there);

	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = (uintptr_t)there;
	wr.wr.atomic.rkey = rig->mr->rkey;
	wr.wr.atomic.compare_add = 1;
	ASSERT_EQ(0, ibv_post_send(rig->ini, &wr, &bad));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_FETCH_ADD, wc.opcode);
	EXPECT_EQ(41, *(__u64 *)rig->buf);
	EXPECT_EQ(42, *there);

	*there = 43;
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = (uintptr_t)there;
	wr.wr.rdma.rkey = rig->mr->rkey;
	ASSERT_EQ(0, ibv_post_send(rig->ini, &wr, &bad));
	ASSERT_EQ(1, rig_poll(rig->send_cq, &wc));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_RDMA_READ, wc.opcode);
	EXPECT_EQ(43, *(__u64 *)rig->buf);
}

/* The answers of ibv_open_xrcd(3) and ibv_close_xrcd(3). */
TEST_F_TIMEOUT(xrc, domain_by_file, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
	};
	struct ibv_xrcd *first, *second;
	char name[] = "/tmp/compat.XXXXXX";
	int fd = mkstemp(name);

	ASSERT_LE(0, fd);
	unlink(name);
	attr.fd = fd;
	EXPECT_EQ(NULL, ibv_open_xrcd(rig->context, &attr));
	attr.oflags = O_CREAT | O_EXCL;
	first = ibv_open_xrcd(rig->context, &attr);
	ASSERT_NE(NULL, first);
	EXPECT_EQ(NULL, ibv_open_xrcd(rig->context, &attr));
	attr.oflags = O_CREAT;
	second = ibv_open_xrcd(rig->context, &attr);
	ASSERT_NE(NULL, second);
	EXPECT_EQ(0, ibv_close_xrcd(first));
	EXPECT_EQ(0, ibv_close_xrcd(second));
	EXPECT_EQ(EBUSY, ibv_close_xrcd(rig->xrcd));
	close(fd);
}

/* A second registration with the TGT QP outlives the first one. */
TEST_F_TIMEOUT(xrc, open_qp, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
			     IBV_QP_OPEN_ATTR_TYPE | IBV_QP_OPEN_ATTR_CONTEXT,
		.qp_num = rig->tgt->qp_num,
		.xrcd = rig->xrcd,
		.qp_context = rig,
		.qp_type = IBV_QPT_XRC_RECV,
	};
	struct ibv_qp_attr found = {};
	struct ibv_qp_init_attr init;
	struct ibv_qp *second;
	struct ibv_wc wc;

	second = ibv_open_qp(rig->context, &attr);
	ASSERT_NE(NULL, second);
	EXPECT_EQ(rig, second->qp_context);
	EXPECT_EQ(rig->tgt->qp_num, second->qp_num);
	EXPECT_EQ(0, ibv_query_qp(second, &found, IBV_QP_STATE, &init));
	EXPECT_EQ(IBV_QPS_RTS, found.qp_state);
	EXPECT_EQ(IBV_QPT_XRC_RECV, init.qp_type);
	EXPECT_EQ(0, ibv_destroy_qp(rig->tgt));
	rig->tgt = second;
	ASSERT_EQ(0, rig_post_recv(rig, rig->srq, 7, 0, 64));
	ASSERT_EQ(0, rig_post_send(rig, rig->ini, 8, rig->srq_num, 0, 64, 0));
	ASSERT_EQ(1, rig_poll(rig->recv_cq, &wc));
	EXPECT_EQ(7, wc.wr_id);
	attr.qp_num ^= 1 << 20;
	EXPECT_EQ(NULL, ibv_open_qp(rig->context, &attr));
	EXPECT_EQ(EINVAL, errno);
}

TEST_HARNESS_MAIN
