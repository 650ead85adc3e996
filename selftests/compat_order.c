// SPDX-License-Identifier: GPL-2.0
/*
 * Objects that are given back in the wrong order: what somebody needs stays, and works. Run
 * under "ibxrc run".
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

FIXTURE(order)
{
	struct rig rig;
};

FIXTURE_SETUP(order)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(order)
{
	rig_close(&self->rig);
}

TEST_F_TIMEOUT(order, in_use, TIMEOUT)
{
	struct rig *rig = &self->rig;

	EXPECT_EQ(EBUSY, ibv_destroy_cq(rig->send_cq));
	EXPECT_EQ(EBUSY, ibv_destroy_cq(rig->recv_cq));
	EXPECT_EQ(EBUSY, ibv_destroy_comp_channel(rig->channel));
	EXPECT_EQ(EBUSY, ibv_close_xrcd(rig->xrcd));
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(rig->pd));
	EXPECT_EQ(NULL, rig_exchange(rig, 64));

	EXPECT_EQ(0, ibv_destroy_qp(rig->tgt));
	rig->tgt = NULL;
	EXPECT_EQ(EBUSY, ibv_close_xrcd(rig->xrcd));
	EXPECT_EQ(EBUSY, ibv_destroy_cq(rig->recv_cq));
	EXPECT_EQ(0, ibv_destroy_srq(rig->srq));
	rig->srq = NULL;
	EXPECT_EQ(0, ibv_close_xrcd(rig->xrcd));
	rig->xrcd = NULL;
	EXPECT_EQ(0, ibv_destroy_cq(rig->recv_cq));
	rig->recv_cq = NULL;
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(rig->pd));
	EXPECT_EQ(EBUSY, ibv_destroy_comp_channel(rig->channel));
	EXPECT_EQ(0, ibv_destroy_qp(rig->ini));
	rig->ini = NULL;
	EXPECT_EQ(0, ibv_destroy_cq(rig->send_cq));
	rig->send_cq = NULL;
	EXPECT_EQ(0, ibv_destroy_comp_channel(rig->channel));
	rig->channel = NULL;
}

/* The PD of an XRC SRQ, and of nothing else. */
TEST_F_TIMEOUT(order, pd_of_an_srq, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_pd *own = rig->pd, *pd = ibv_alloc_pd(rig->context);
	struct ibv_srq *first, *second;

	ASSERT_NE(NULL, pd);
	rig->pd = pd;
	first = rig_create_srq(rig, rig->recv_cq, 8);
	second = rig_create_srq(rig, rig->recv_cq, 8);
	rig->pd = own;
	ASSERT_NE(NULL, first);
	ASSERT_NE(NULL, second);
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_EQ(0, ibv_destroy_srq(first));
	EXPECT_EQ(EBUSY, ibv_dealloc_pd(pd));
	EXPECT_EQ(0, ibv_destroy_srq(second));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));
	EXPECT_EQ(NULL, rig_exchange(rig, 64));
}

/* A CQ that XRC and RC QPs complete into is free when both are gone. */
TEST_F_TIMEOUT(order, cq_of_both, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *rc, *ini;

	cq = ibv_create_cq(rig->context, 16, NULL, rig->channel, 0);
	ASSERT_NE(NULL, cq);
	attr.send_cq = cq;
	attr.recv_cq = cq;
	rc = ibv_create_qp(rig->pd, &attr);
	srq = rig_create_srq(rig, cq, 8);
	ini = rig_create_ini(rig, cq, 0);
	ASSERT_NE(NULL, rc);
	ASSERT_NE(NULL, srq);
	ASSERT_NE(NULL, ini);
	EXPECT_EQ(EBUSY, ibv_destroy_cq(cq));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(EBUSY, ibv_destroy_cq(cq));
	EXPECT_EQ(0, ibv_destroy_qp(ini));
	/* Now it is the kernel that says so. */
	EXPECT_EQ(EBUSY, ibv_destroy_cq(cq));
	/* It is good for both again. */
	srq = rig_create_srq(rig, cq, 8);
	ASSERT_NE(NULL, srq);
	EXPECT_EQ(0, ibv_destroy_qp(rc));
	EXPECT_EQ(EBUSY, ibv_destroy_cq(cq));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
	EXPECT_EQ(0, ibv_destroy_cq(cq));
	EXPECT_EQ(NULL, rig_exchange(rig, 64));
}

TEST_HARNESS_MAIN
