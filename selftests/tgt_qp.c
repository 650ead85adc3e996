// SPDX-License-Identifier: GPL-2.0
/*
 * TGT QPs: registrations, and modify as ib_modify_qp_is_ok() says for IB_QPT_XRC_TGT
 * (qp_state_table in drivers/infiniband/core/verbs.c) with the checks of modify_qp()
 * in uverbs_cmd.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "xrc_util.h"

#define TO_INIT (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | \
		 IBV_QP_ACCESS_FLAGS)
#define TO_RTR (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
		IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define TO_RTS (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN)

/* What libibverbs passes and uverbs takes out again (modify_qp_mask()). */
#define IGNORED (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

/* IB_QP_ATTR_STANDARD_BITS of the kernel: up to IB_QP_DEST_QPN. */
#define STANDARD_BITS ((1U << 21) - 1)

FIXTURE(tgt_qp)
{
	struct xrc x;
	struct xrc y;
	int file;
	__u32 xrcd;
	__u32 y_xrcd;
	struct xrc_ini ini;
	struct xrc_qp qp;
	/* All that connects the QP to the INI side. */
	struct ib_uverbs_qp_attr attr;
};

FIXTURE_SETUP(tgt_qp)
{
	self->file = memfd_create("tgt_qp", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, O_CREAT, &self->xrcd));
	ASSERT_EQ(0, xrc_xrcd_open(&self->y, self->file, 0, &self->y_xrcd));
	ASSERT_EQ(0, xrc_ini_open(&self->ini, 1, 64));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
	xrc_ini_tgt_attr(&self->ini, &self->attr);
}

FIXTURE_TEARDOWN(tgt_qp)
{
	xrc_ini_close(&self->ini);
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->file);
}

typedef FIXTURE_DATA(tgt_qp) tgt_qp_t;

/* Modify self->qp with the attributes of self->attr that mask says. */
static int modify(tgt_qp_t *self, int state, int mask)
{
	struct ib_uverbs_qp_attr attr = self->attr;

	attr.qp_state = state;
	attr.qp_attr_mask = mask;
	return xrc_tgt_modify(&self->x, &self->qp, &attr);
}

/* Take self->qp to a state by the way there is. */
static int go(tgt_qp_t *self, int state)
{
	int ret;

	ret = modify(self, IBV_QPS_RESET, IBV_QP_STATE);
	if (!ret && state != IBV_QPS_RESET)
		ret = modify(self, IBV_QPS_INIT, TO_INIT);
	if (!ret && state == IBV_QPS_ERR)
		return modify(self, IBV_QPS_ERR, IBV_QP_STATE);
	if (!ret && state >= IBV_QPS_RTR)
		ret = modify(self, IBV_QPS_RTR, TO_RTR);
	if (!ret && state >= IBV_QPS_RTS)
		ret = modify(self, IBV_QPS_RTS, TO_RTS);
	return ret;
}

static int state(tgt_qp_t *self)
{
	return xrc_tgt_state(&self->x, &self->qp);
}

/* -------------------------------------------------------- registrations -- */

TEST_F(tgt_qp, create)
{
	struct ib_xrc_tgt_qp_info info;

	memset(&info, 0xff, sizeof(info));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
	EXPECT_NE(0, self->qp.qp_num);
	EXPECT_GE(0xffffff, self->qp.qp_num);
	EXPECT_EQ(self->qp.qp_num, info.qp_num);
	EXPECT_EQ(IBV_QPS_RESET, info.state);
	EXPECT_EQ(1, info.refs);
	EXPECT_EQ(0, info.dest_qp_num);
	EXPECT_EQ(0, info.recv_msgs);
	EXPECT_EQ(0, info.recv_bytes);
	EXPECT_EQ(0, info.refused_msgs);
	EXPECT_EQ(0, info.reserved);
}

TEST_F(tgt_qp, references)
{
	struct ib_xrc_tgt_qp_info info, list[4];
	struct xrc_qp same, other, again;
	__u32 count;

	EXPECT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, self->qp.qp_num, &same));
	EXPECT_NE(self->qp.handle, same.handle);
	EXPECT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, self->qp.qp_num,
				  &other));
	EXPECT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, self->qp.qp_num,
				  &again));
	EXPECT_EQ(0, xrc_tgt_query(&self->y, &other, NULL, &info));
	EXPECT_EQ(4, info.refs);
	EXPECT_EQ(self->qp.qp_num, info.qp_num);
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, self->y_xrcd, list, 4, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(4, list[0].refs);
	EXPECT_EQ(0, memcmp(&info, &list[0], sizeof(info)));

	EXPECT_EQ(0, xrc_tgt_close(&self->y, &again));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &same, NULL, &info));
	EXPECT_EQ(3, info.refs);
	/* The creator's registration is one as any other. */
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &same, NULL, &info));
	EXPECT_EQ(2, info.refs);
	xrc_close(&self->y);
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &same, NULL, &info));
	EXPECT_EQ(1, info.refs);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &same));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, self->xrcd, list, 4, &count));
	EXPECT_EQ(0, count);
}

TEST_F(tgt_qp, gone_with_last_reference)
{
	struct ib_xrc_tgt_qp_info info;
	struct ib_uverbs_qp_attr attr = { .qp_attr_mask = IBV_QP_STATE };
	struct xrc_qp by_num = {
		.by_num = true, .handle = self->xrcd, .qp_num = self->qp.qp_num,
	};
	struct xrc_qp qp;
	__u32 count;
	int objects = xrc_kernel_objects();

	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, self->xrcd, self->qp.qp_num,
					&qp));
	EXPECT_EQ(-EINVAL, xrc_tgt_query(&self->x, &by_num, NULL, &info));
	EXPECT_EQ(-EINVAL, xrc_tgt_modify(&self->x, &by_num, &attr));
	EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &by_num, &self->attr, NULL));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, self->xrcd, NULL, 0, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects - 1));
}

TEST_F(tgt_qp, open_wrong_number)
{
	struct xrc_qp qp, elsewhere;
	__u32 wrong[] = {
		0, 1, 0xffffff, 0x1000000, 0x80000000, 0xffffffff,
		self->qp.qp_num + 1,
		/* Must not be cut to 24 bits. */
		self->qp.qp_num | 1 << 24,
		/* An ordinary QP. */
		self->ini.qp->qp_num,
		0,
	};
	unsigned int i;
	__u32 other, count;

	/* One of another domain. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &other));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, other, &elsewhere));
	wrong[ARRAY_SIZE(wrong) - 1] = elsewhere.qp_num;
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, self->xrcd, wrong[i],
						&qp))
			TH_LOG("QP number %#x", wrong[i]);
	}
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, other, self->qp.qp_num, &qp));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, self->xrcd, NULL, 0, &count));
	EXPECT_EQ(1, count);
}

TEST_F(tgt_qp, list)
{
	struct ib_xrc_tgt_qp_info list[8], part[8];
	struct ib_uverbs_attr *attr;
	struct xrc_qp qp[4];
	union xrc_cmd cmd;
	unsigned int i, n;
	__u32 count;
	__u8 *tail;

	for (i = 0; i < 4; i++) {
		EXPECT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp[i]));
	}
	EXPECT_EQ(0, go(self, IBV_QPS_RTR));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, self->y_xrcd, list, 8, &count));
	ASSERT_EQ(5, count);
	for (i = 0; i < 5; i++) {
		if (i) {
			EXPECT_LT(list[i - 1].qp_num, list[i].qp_num);
		}
		EXPECT_EQ(1, list[i].refs);
		if (list[i].qp_num == self->qp.qp_num) {
			EXPECT_EQ(IBV_QPS_RTR, list[i].state);
			EXPECT_EQ(self->ini.qp->qp_num, list[i].dest_qp_num);
		} else {
			EXPECT_EQ(IBV_QPS_RESET, list[i].state);
			EXPECT_EQ(0, list[i].dest_qp_num);
		}
	}

	/* As many as fit, and how many there are. */
	for (n = 0; n <= 5; n++) {
		memset(part, 0xa5, sizeof(part));
		count = 0;
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD,
			    IB_XRC_METHOD_XRCD_LIST_TGT_QPS);
		xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, self->xrcd);
		attr = xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS,
			       part, n * sizeof(part[0]) + sizeof(part[0]) - 1);
		xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, &count,
			sizeof(count));
		EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
		EXPECT_EQ(5, count);
		EXPECT_EQ(0, memcmp(part, list, n * sizeof(part[0])));
		tail = (__u8 *)&part[n];
		EXPECT_TRUE(n == 5 || tail[0] == 0xa5 || !tail[0]);
		EXPECT_EQ(0xa5, ((__u8 *)part)[attr->len]);
	}

	/* Another domain has none of them. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &count));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, count, list, 8, &count));
	EXPECT_EQ(0, count);
}

/* In pieces, each going on where the one before had no more room. */
TEST_F(tgt_qp, list_after)
{
	struct ib_xrc_tgt_qp_info list[8], part[8];
	__u32 count, after, n, room, i;
	struct xrc_qp qp[4];
	union xrc_cmd cmd;

	for (i = 0; i < 4; i++)
		EXPECT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp[i]));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, self->xrcd, list, 8, &count));
	ASSERT_EQ(5, count);
	for (room = 1; room <= 6; room++) {
		for (n = after = 0; n < 6; n += room) {
			xrc_cmd_for(&self->y, &cmd, IB_XRC_OBJECT_XRCD,
				    IB_XRC_METHOD_XRCD_LIST_TGT_QPS);
			xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE,
				   self->y_xrcd);
			xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS,
				part, room * sizeof(part[0]));
			xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT,
				&count, sizeof(count));
			xrc_in_u32(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER,
				   after);
			EXPECT_EQ(0, xrc_ioctl(self->y.fd, &cmd));
			EXPECT_EQ(n > 5 ? 0 : 5 - n, count);
			if (!count)
				break;
			i = count < room ? count : room;
			EXPECT_EQ(0, memcmp(part, list + n, i * sizeof(part[0])));
			after = part[i - 1].qp_num;
		}
	}
	/* A number that is nobody's, and the greatest there is. */
	for (i = 0; i < 2; i++) {
		memcpy(&xrc_find(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER)->data,
		       i ? &(__u32){ 0xffffffff } : &(__u32){ list[4].qp_num + 1 },
		       sizeof(__u32));
		EXPECT_EQ(0, xrc_ioctl(self->y.fd, &cmd));
		EXPECT_EQ(0, count);
	}
}

TEST_F(tgt_qp, many)
{
	struct ib_xrc_tgt_qp_info list[128];
	struct xrc_qp qp[100];
	unsigned int i;
	__u32 count;

	for (i = 0; i < ARRAY_SIZE(qp); i++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp[i]));
	}
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, self->y_xrcd, list, 128, &count));
	EXPECT_EQ(101, count);
	for (i = 1; i < count; i++) {
		EXPECT_LT(list[i - 1].qp_num, list[i].qp_num);
	}
	for (i = 0; i < ARRAY_SIZE(qp); i += 2) {
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[i]));
	}
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, self->y_xrcd, list, 128, &count));
	EXPECT_EQ(51, count);
}

/* --------------------------------------------------------- how it is named -- */

TEST_F(tgt_qp, by_number_without_registration)
{
	struct xrc_qp qp = {
		.by_num = true, .handle = self->y_xrcd, .qp_num = self->qp.qp_num,
	};
	struct ib_uverbs_qp_attr attr = self->attr, got;
	struct ib_xrc_tgt_qp_info info;
	__u32 now;

	attr.qp_attr_mask = TO_INIT;
	attr.qp_state = IBV_QPS_INIT;
	EXPECT_EQ(0, xrc_tgt_modify(&self->y, &qp, &attr));
	EXPECT_EQ(IBV_QPS_INIT, state(self));
	EXPECT_EQ(0, xrc_tgt_query(&self->y, &qp, &got, &info));
	EXPECT_EQ(IBV_QPS_INIT, got.qp_state);
	EXPECT_EQ(IBV_QPS_INIT, info.state);
	EXPECT_EQ(1, info.refs);
	EXPECT_EQ(0, xrc_tgt_connect(&self->y, &qp, &self->attr, &now));
	EXPECT_EQ(IBV_QPS_RTS, now);
	EXPECT_EQ(IBV_QPS_RTS, state(self));
}

TEST_F(tgt_qp, named_both_ways_or_neither)
{
	static const struct {
		__u16 method, handle, xrcd, qp_num, attr;
	} m[] = {
		{ IB_XRC_METHOD_TGT_QP_MODIFY, IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE,
		  IB_XRC_ATTR_TGT_QP_MODIFY_XRCD,
		  IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM,
		  IB_XRC_ATTR_TGT_QP_MODIFY_ATTR },
		{ IB_XRC_METHOD_TGT_QP_QUERY, IB_XRC_ATTR_TGT_QP_QUERY_HANDLE,
		  IB_XRC_ATTR_TGT_QP_QUERY_XRCD,
		  IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM, 0 },
		{ IB_XRC_METHOD_TGT_QP_CONNECT, IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE,
		  IB_XRC_ATTR_TGT_QP_CONNECT_XRCD,
		  IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM,
		  IB_XRC_ATTR_TGT_QP_CONNECT_ATTR },
	};
	union xrc_cmd cmd;
	unsigned int i;
	int which, expected;

	self->attr.qp_state = IBV_QPS_INIT;
	self->attr.qp_attr_mask = TO_INIT;
	for (i = 0; i < ARRAY_SIZE(m); i++) {
		for (which = 0; which < 8; which++) {
			EXPECT_EQ(0, go(self, IBV_QPS_RESET));
			xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
				    m[i].method);
			if (which & 1)
				xrc_handle(&cmd, m[i].handle, self->qp.handle);
			if (which & 2)
				xrc_handle(&cmd, m[i].xrcd, self->xrcd);
			if (which & 4)
				xrc_in_u32(&cmd, m[i].qp_num, self->qp.qp_num);
			if (m[i].attr)
				xrc_in(&cmd, m[i].attr, &self->attr,
				       sizeof(self->attr));
			/* By handle alone, or by domain and number. */
			expected = which == 1 || which == 6 ? 0 : -EINVAL;
			EXPECT_EQ(expected, xrc_ioctl(self->x.fd, &cmd))
				TH_LOG("method %#x, named by %d", m[i].method,
				       which);
			EXPECT_EQ(!expected && m[i].attr ? IBV_QPS_INIT :
				  IBV_QPS_RESET, state(self));
		}
	}
}

TEST_F(tgt_qp, wrong_number_or_domain)
{
	struct xrc_qp qp = { .by_num = true, .handle = self->xrcd };
	__u32 wrong[] = {
		0, 1, self->qp.qp_num | 1 << 24, self->ini.qp->qp_num, 0xffffffff,
	};
	struct ib_xrc_tgt_qp_info info;
	unsigned int i;
	__u32 other;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		qp.qp_num = wrong[i];
		EXPECT_EQ(-EINVAL, xrc_tgt_query(&self->x, &qp, NULL, &info));
		EXPECT_EQ(-EINVAL, xrc_tgt_modify(&self->x, &qp, &self->attr));
		EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &qp, &self->attr,
						   NULL));
	}
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &other));
	qp.handle = other;
	qp.qp_num = self->qp.qp_num;
	EXPECT_EQ(-EINVAL, xrc_tgt_query(&self->x, &qp, NULL, &info));
	EXPECT_EQ(-EINVAL, xrc_tgt_modify(&self->x, &qp, &self->attr));
	EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &qp, &self->attr, NULL));
	EXPECT_EQ(IBV_QPS_RESET, state(self));
}

/* ---------------------------------------------------------------- modify -- */

static const struct {
	int from, to, required, optional;
} transitions[] = {
	{ IBV_QPS_RESET, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RESET, IBV_QPS_INIT, TO_INIT, 0 },
	{ IBV_QPS_INIT, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0,
	  IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS },
	{ IBV_QPS_INIT, IBV_QPS_RTR, TO_RTR,
	  IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTR, IBV_QPS_RTS, TO_RTS,
	  IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
	  IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE },
	{ IBV_QPS_RTS, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_ERR, 0, 0 },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0,
	  IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_ALT_PATH |
	  IBV_QP_PATH_MIG_STATE | IBV_QP_MIN_RNR_TIMER },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_ERR, IBV_QPS_RESET, 0, 0 },
	{ IBV_QPS_ERR, IBV_QPS_ERR, 0, 0 },
};

static int find_transition(int from, int to)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(transitions); i++)
		if (transitions[i].from == from && transitions[i].to == to)
			return i;
	return -1;
}

/* Every state that can be reached, every state that can be asked for. */
TEST_F_TIMEOUT(tgt_qp, transitions, 120)
{
	static const int from[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR
	};
	int mask, to, i;
	unsigned int f;

	for (f = 0; f < ARRAY_SIZE(from); f++) {
		for (to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 1; to++) {
			i = find_transition(from[f], to);
			mask = IBV_QP_STATE;
			if (i >= 0)
				mask |= transitions[i].required;
			else if (to == IBV_QPS_INIT)
				mask = TO_INIT;
			else if (to == IBV_QPS_RTR)
				mask = TO_RTR;
			else if (to == IBV_QPS_RTS)
				mask = TO_RTS;
			ASSERT_EQ(0, go(self, from[f]));
			ASSERT_EQ(from[f], state(self));
			EXPECT_EQ(i < 0 ? -EINVAL : 0, modify(self, to, mask))
				TH_LOG("from %d to %d", from[f], to);
			EXPECT_EQ(i < 0 ? from[f] : to, state(self))
				TH_LOG("from %d to %d", from[f], to);
		}
	}
}

/* Every required attribute missing, every attribute that does not belong there. */
TEST_F_TIMEOUT(tgt_qp, masks, 120)
{
	int bit, mask, wrong;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(transitions); i++) {
		for (bit = 0; bit < 21; bit++) {
			mask = IBV_QP_STATE | transitions[i].required;
			if (1 << bit == IBV_QP_STATE || mask & IGNORED)
				continue;
			wrong = mask ^ 1 << bit;
			if (wrong & 1 << bit & (transitions[i].optional | IGNORED))
				continue;
			/* An AV also needs a port in the AV, which is right. */
			ASSERT_EQ(0, go(self, transitions[i].from));
			EXPECT_EQ(-EINVAL, modify(self, transitions[i].to, wrong))
				TH_LOG("from %d to %d, mask %#x, bit %#x",
				       transitions[i].from, transitions[i].to,
				       wrong, 1 << bit);
			EXPECT_EQ(transitions[i].from, state(self));
		}
	}
}

/* Optional attributes are taken, those of the send side are ignored. */
TEST_F_TIMEOUT(tgt_qp, optional, 120)
{
	/* Soft-RoCE has no alternate path and no migration. */
	const int skip = IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE;
	unsigned int i;
	int bit, mask;

	self->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	for (i = 0; i < ARRAY_SIZE(transitions); i++) {
		for (bit = 0; bit < 21; bit++) {
			if (!(1 << bit & transitions[i].optional & ~skip))
				continue;
			mask = IBV_QP_STATE | transitions[i].required | 1 << bit;
			ASSERT_EQ(0, go(self, transitions[i].from));
			self->attr.cur_qp_state = transitions[i].from;
			EXPECT_EQ(0, modify(self, transitions[i].to, mask))
				TH_LOG("from %d to %d, bit %#x",
				       transitions[i].from, transitions[i].to,
				       1 << bit);
			EXPECT_EQ(transitions[i].to, state(self));
		}
		/* Nothing of what is ignored is looked at. */
		self->attr.retry_cnt = 0xff;
		self->attr.rnr_retry = 0xff;
		self->attr.max_rd_atomic = 0xff;
		ASSERT_EQ(0, go(self, transitions[i].from));
		EXPECT_EQ(0, modify(self, transitions[i].to, IBV_QP_STATE | IGNORED |
				    transitions[i].required))
			TH_LOG("from %d to %d", transitions[i].from,
			       transitions[i].to);
	}
}

TEST_F(tgt_qp, unknown_mask_bits)
{
	int bit;

	for (bit = 0; bit < 32; bit++) {
		if (1U << bit & STANDARD_BITS)
			continue;
		EXPECT_EQ(-EOPNOTSUPP, modify(self, IBV_QPS_INIT,
					      TO_INIT | 1U << bit))
			TH_LOG("mask bit %d", bit);
		EXPECT_EQ(IBV_QPS_RESET, state(self));
	}
}

TEST_F(tgt_qp, unknown_mask_bits_in_connect)
{
	__u32 now;

	self->attr.qp_attr_mask |= 1U << 31;
	EXPECT_EQ(-EOPNOTSUPP, xrc_tgt_connect(&self->x, &self->qp, &self->attr,
					       &now));
	EXPECT_EQ(IBV_QPS_RESET, state(self));
}

TEST_F(tgt_qp, states_that_do_not_exist)
{
	static const int wrong[] = { 7, 8, 255, 256, INT_MAX, INT_MIN, -1 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		EXPECT_EQ(-EINVAL, modify(self, wrong[i], IBV_QP_STATE));
		EXPECT_EQ(-EINVAL, modify(self, wrong[i], TO_INIT));
		ASSERT_EQ(0, go(self, IBV_QPS_RTR));
		self->attr.cur_qp_state = wrong[i];
		EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTS,
					  TO_RTS | IBV_QP_CUR_STATE));
		EXPECT_EQ(IBV_QPS_RTR, state(self));
		ASSERT_EQ(0, go(self, IBV_QPS_RESET));
	}
}

TEST_F(tgt_qp, wrong_port)
{
	static const __u8 wrong[] = { 0, 2, 128, 255 };
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		self->attr.port_num = wrong[i];
		EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_INIT, TO_INIT));
		EXPECT_EQ(IBV_QPS_RESET, state(self));
	}
	self->attr.port_num = 1;
	ASSERT_EQ(0, go(self, IBV_QPS_INIT));
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		self->attr.ah_attr.port_num = wrong[i];
		EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR));
		EXPECT_EQ(IBV_QPS_INIT, state(self));
	}
	self->attr.ah_attr.port_num = 1;
	EXPECT_EQ(0, modify(self, IBV_QPS_RTR, TO_RTR));
}

TEST_F(tgt_qp, wrong_alternate_path)
{
	ASSERT_EQ(0, go(self, IBV_QPS_INIT));
	self->attr.alt_ah_attr = self->attr.ah_attr;
	/* Ports that do not exist, then ones that differ. */
	self->attr.alt_port_num = 0;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR | IBV_QP_ALT_PATH));
	self->attr.alt_port_num = 2;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR | IBV_QP_ALT_PATH));
	self->attr.alt_port_num = 1;
	self->attr.alt_ah_attr.port_num = 2;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR | IBV_QP_ALT_PATH));
	EXPECT_EQ(IBV_QPS_INIT, state(self));
}

TEST_F(tgt_qp, wrong_address)
{
	struct ib_uverbs_qp_attr good = self->attr;

	ASSERT_EQ(0, go(self, IBV_QPS_INIT));
	/* RoCE needs a GRH. */
	self->attr.ah_attr.is_global = 0;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR));
	self->attr = good;
	self->attr.ah_attr.grh.sgid_index = 255;
	EXPECT_GT(0, modify(self, IBV_QPS_RTR, TO_RTR));
	self->attr = good;
	self->attr.path_mtu = IBV_MTU_4096 + 1;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR));
	EXPECT_EQ(IBV_QPS_INIT, state(self));
	self->attr = good;
	EXPECT_EQ(0, modify(self, IBV_QPS_RTR, TO_RTR));
}

/* uverbs lets these through, and with 0 a device divides by nothing. */
TEST_F(tgt_qp, wrong_path_mtu)
{
	static const __u32 wrong[] = { 0, IBV_MTU_4096 + 1, 255 };
	const struct ib_uverbs_qp_attr good = self->attr;
	unsigned int i;
	__u32 now;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		self->attr.path_mtu = wrong[i];
		ASSERT_EQ(0, go(self, IBV_QPS_INIT));
		EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR))
			TH_LOG("MTU %u", wrong[i]);
		EXPECT_EQ(IBV_QPS_INIT, state(self));
		EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &self->qp,
						   &self->attr, &now))
			TH_LOG("MTU %u", wrong[i]);
		EXPECT_EQ(IBV_QPS_INIT, now);
		EXPECT_EQ(IBV_QPS_INIT, state(self));
		/* The step before it stands. */
		ASSERT_EQ(0, go(self, IBV_QPS_RESET));
		EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &self->qp,
						   &self->attr, &now))
			TH_LOG("MTU %u", wrong[i]);
		EXPECT_EQ(IBV_QPS_INIT, now);
		EXPECT_EQ(IBV_QPS_INIT, state(self));
	}
	self->attr = good;
	for (i = IBV_MTU_256; i <= IBV_MTU_4096; i++) {
		self->attr.path_mtu = i;
		EXPECT_EQ(0, go(self, IBV_QPS_RTR))
			TH_LOG("MTU %u", i);
	}
}

TEST_F(tgt_qp, current_state)
{
	ASSERT_EQ(0, go(self, IBV_QPS_RTR));
	self->attr.cur_qp_state = IBV_QPS_RTR;
	EXPECT_EQ(0, modify(self, IBV_QPS_RTS, TO_RTS | IBV_QP_CUR_STATE));
	EXPECT_EQ(IBV_QPS_RTS, state(self));
	/* From RESET and INIT it must not be given. */
	ASSERT_EQ(0, go(self, IBV_QPS_INIT));
	self->attr.cur_qp_state = IBV_QPS_INIT;
	EXPECT_EQ(-EINVAL, modify(self, IBV_QPS_RTR, TO_RTR | IBV_QP_CUR_STATE));
	/* It must not make believe that the QP is elsewhere. */
	self->attr.cur_qp_state = IBV_QPS_RTR;
	EXPECT_NE(0, modify(self, IBV_QPS_RTS, TO_RTS | IBV_QP_CUR_STATE));
	EXPECT_EQ(IBV_QPS_INIT, state(self));
}

TEST_F(tgt_qp, query)
{
	struct ib_uverbs_qp_attr got;
	struct ib_xrc_tgt_qp_info info;

	self->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				     IBV_ACCESS_REMOTE_READ;
	self->attr.rq_psn = 0x123456;
	self->attr.sq_psn = 0x654321;
	self->attr.path_mtu = IBV_MTU_512;
	self->attr.min_rnr_timer = 17;
	self->attr.timeout = 9;
	self->attr.max_dest_rd_atomic = 3;
	self->attr.ah_attr.grh.traffic_class = 0x20;
	ASSERT_EQ(0, go(self, IBV_QPS_RTS));

	memset(&got, 0xff, sizeof(got));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, &info));
	EXPECT_EQ(IBV_QPS_RTS, got.qp_state);
	EXPECT_EQ(IBV_QPS_RTS, got.cur_qp_state);
	EXPECT_EQ(self->attr.qp_access_flags, got.qp_access_flags);
	EXPECT_EQ(self->attr.rq_psn, got.rq_psn);
	EXPECT_EQ(self->attr.sq_psn, got.sq_psn);
	EXPECT_EQ(self->attr.path_mtu, got.path_mtu);
	EXPECT_EQ(self->attr.min_rnr_timer, got.min_rnr_timer);
	EXPECT_EQ(self->attr.timeout, got.timeout);
	EXPECT_EQ(self->attr.dest_qp_num, got.dest_qp_num);
	EXPECT_EQ(1, got.port_num);
	EXPECT_EQ(0, got.pkey_index);
	/* Devices round it up. */
	EXPECT_LE(3, got.max_dest_rd_atomic);
	EXPECT_EQ(1, got.ah_attr.is_global);
	EXPECT_EQ(1, got.ah_attr.port_num);
	EXPECT_EQ(self->attr.ah_attr.grh.sgid_index, got.ah_attr.grh.sgid_index);
	EXPECT_EQ(0x20, got.ah_attr.grh.traffic_class);
	EXPECT_EQ(0, memcmp(self->attr.ah_attr.grh.dgid, got.ah_attr.grh.dgid,
			    16));
	EXPECT_EQ(self->ini.qp->qp_num, info.dest_qp_num);
	/* What is not an attribute of it is zero, not what was there before. */
	EXPECT_EQ(0, got.reserved[0] | got.reserved[4]);
	EXPECT_EQ(0, got.ah_attr.reserved | got.ah_attr.grh.reserved);

	/* A reset forgets. */
	ASSERT_EQ(0, go(self, IBV_QPS_RESET));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, &info));
	EXPECT_EQ(IBV_QPS_RESET, got.qp_state);
	EXPECT_EQ(0, info.dest_qp_num);
}

TEST_F(tgt_qp, query_of_nothing)
{
	/* Both outputs are optional. */
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, NULL));
}

/* --------------------------------------------------------------- connect -- */

TEST_F(tgt_qp, connect_in_one_call)
{
	struct ib_uverbs_qp_attr got;
	__u32 now;

	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &self->attr, &now));
	EXPECT_EQ(IBV_QPS_RTS, now);
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
	EXPECT_EQ(IBV_QPS_RTS, got.qp_state);
	EXPECT_EQ(self->attr.rq_psn, got.rq_psn);
	EXPECT_EQ(self->attr.dest_qp_num, got.dest_qp_num);
}

TEST_F(tgt_qp, connect_by_steps)
{
	static const int steps[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	unsigned int first, i;
	__u32 now;

	/* Every way to cut the way to RTS into calls. */
	for (first = 0; first < 8; first++) {
		ASSERT_EQ(0, go(self, IBV_QPS_RESET));
		for (i = 0; i < 3; i++) {
			if (i < 2 && !(first & 1 << i))
				continue;
			self->attr.qp_state = steps[i];
			EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp,
						     &self->attr, &now));
			EXPECT_EQ(steps[i], now);
			EXPECT_EQ(steps[i], state(self));
		}
	}
}

TEST_F(tgt_qp, connect_not_forward)
{
	static const int from[] = {
		IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR
	};
	unsigned int f;
	int to, ok;
	__u32 now;

	for (f = 0; f < ARRAY_SIZE(from); f++) {
		for (to = IBV_QPS_RESET; to <= IBV_QPS_ERR + 1; to++) {
			ok = to > from[f] && to >= IBV_QPS_INIT &&
			     to <= IBV_QPS_RTS;
			ASSERT_EQ(0, go(self, from[f]));
			self->attr.qp_state = to;
			EXPECT_EQ(ok ? 0 : -EINVAL,
				  xrc_tgt_connect(&self->x, &self->qp,
						  &self->attr, &now))
				TH_LOG("from %d to %d", from[f], to);
			EXPECT_EQ(ok ? to : from[f], now);
			EXPECT_EQ(ok ? to : from[f], state(self));
		}
	}
}

TEST_F(tgt_qp, connect_fails_at_init)
{
	__u32 now;

	self->attr.port_num = 2;
	EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &self->qp, &self->attr,
					   &now));
	EXPECT_EQ(IBV_QPS_RESET, now);
	EXPECT_EQ(IBV_QPS_RESET, state(self));
}

TEST_F(tgt_qp, connect_fails_at_rtr)
{
	struct ib_uverbs_qp_attr good = self->attr;
	__u32 now;

	self->attr.ah_attr.is_global = 0;
	EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &self->qp, &self->attr,
					   &now));
	EXPECT_EQ(IBV_QPS_INIT, now);
	EXPECT_EQ(IBV_QPS_INIT, state(self));
	/* From there it can go on. */
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &good, &now));
	EXPECT_EQ(IBV_QPS_RTS, now);
}

TEST_F(tgt_qp, connect_fails_at_rts)
{
	struct ib_uverbs_qp_attr good = self->attr;
	__u32 now;

	/* A timeout has 5 bits. */
	self->attr.timeout = 32;
	EXPECT_EQ(-EINVAL, xrc_tgt_connect(&self->x, &self->qp, &self->attr,
					   &now));
	EXPECT_EQ(IBV_QPS_RTR, now);
	EXPECT_EQ(IBV_QPS_RTR, state(self));
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &good, &now));
	EXPECT_EQ(IBV_QPS_RTS, now);
}

TEST_F(tgt_qp, connect_uses_optional_by_mask)
{
	struct ib_uverbs_qp_attr got;

	/* Access flags are needed for INIT and stay optional for RTR. */
	self->attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	self->attr.cur_qp_state = 99;
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &self->attr, NULL));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
	EXPECT_EQ(IBV_ACCESS_REMOTE_WRITE, got.qp_access_flags);

	ASSERT_EQ(0, go(self, IBV_QPS_RTR));
	self->attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &self->attr, NULL));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
	EXPECT_NE(IBV_ACCESS_REMOTE_READ, got.qp_access_flags);

	ASSERT_EQ(0, go(self, IBV_QPS_RTR));
	self->attr.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &self->qp, &self->attr, NULL));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
	EXPECT_EQ(IBV_ACCESS_REMOTE_READ, got.qp_access_flags);
}

/* ----------------------------------------------------------------- races -- */

struct racer {
	pthread_barrier_t *barrier;
	tgt_qp_t *self;
	struct xrc *x;
	__u32 xrcd;
	int bad;
};

static void *churn(void *arg)
{
	struct racer *r = arg;
	struct ib_uverbs_qp_attr attr = r->self->attr;
	struct xrc_qp qp, num = {
		.by_num = true, .handle = r->xrcd, .qp_num = r->self->qp.qp_num,
	};
	struct ib_xrc_tgt_qp_info list[8];
	__u32 count;
	int i, ret;

	pthread_barrier_wait(r->barrier);
	for (i = 0; i < 100; i++) {
		r->bad |= xrc_tgt_open(r->x, r->xrcd, num.qp_num, &qp);
		attr.qp_attr_mask = IBV_QP_STATE;
		attr.qp_state = IBV_QPS_RESET;
		r->bad |= xrc_tgt_modify(r->x, &qp, &attr);
		attr.qp_state = IBV_QPS_RTS;
		/* Another one may be faster, or take it back to RESET between. */
		ret = xrc_tgt_connect(r->x, &num, &attr, NULL);
		if (ret && ret != -EINVAL)
			r->bad = ret;
		r->bad |= xrc_tgt_query(r->x, &num, &attr, NULL);
		attr = r->self->attr;
		r->bad |= xrc_list_tgt_qps(r->x, r->xrcd, list, 8, &count);
		if (count != 1)
			r->bad = -1;
		r->bad |= xrc_tgt_close(r->x, &qp);
	}
	return NULL;
}

TEST_F_TIMEOUT(tgt_qp, concurrent_calls, 120)
{
	struct ib_xrc_tgt_qp_info info;
	struct racer r[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	int i;

	pthread_barrier_init(&barrier, NULL, 4);
	for (i = 0; i < 4; i++) {
		r[i] = (struct racer) {
			.barrier = &barrier,
			.self = self,
			.x = i % 2 ? &self->x : &self->y,
			.xrcd = i % 2 ? self->xrcd : self->y_xrcd,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, churn, &r[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, r[i].bad);
	}
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
	EXPECT_EQ(1, info.refs);
	pthread_barrier_destroy(&barrier);
}

static void *create_open_close(void *arg)
{
	struct racer *r = arg;
	struct ib_xrc_tgt_qp_info list[64];
	struct xrc_qp qp, other;
	__u32 count, i, n;
	int ret;

	pthread_barrier_wait(r->barrier);
	for (n = 0; n < 100; n++) {
		r->bad |= xrc_tgt_create(r->x, r->xrcd, &qp);
		r->bad |= xrc_list_tgt_qps(r->x, r->xrcd, list, 64, &count);
		for (i = 0; i < count && i < 64; i++) {
			/* It may be gone by now, with its last registration. */
			ret = xrc_tgt_open(r->x, r->xrcd, list[i].qp_num, &other);
			if (!ret)
				r->bad |= xrc_tgt_close(r->x, &other);
			else if (ret != -EINVAL)
				r->bad = ret;
		}
		r->bad |= xrc_tgt_close(r->x, &qp);
	}
	return NULL;
}

/* The last close of one against the open of another. */
TEST_F_TIMEOUT(tgt_qp, race_of_open_and_close, 120)
{
	struct racer r[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	__u32 count;
	int i;

	pthread_barrier_init(&barrier, NULL, 4);
	for (i = 0; i < 4; i++) {
		r[i] = (struct racer) {
			.barrier = &barrier,
			.self = self,
			.x = i % 2 ? &self->x : &self->y,
			.xrcd = i % 2 ? self->xrcd : self->y_xrcd,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, create_open_close,
					    &r[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, r[i].bad);
	}
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->x, self->xrcd, NULL, 0, &count));
	EXPECT_EQ(1, count);
	pthread_barrier_destroy(&barrier);
}

TEST_HARNESS_MAIN
