// SPDX-License-Identifier: GPL-2.0
/*
 * The ABI as C sees it, and that the kernel means the same. The layout is
 * asserted when abi_layout.h is compiled; here a 64-bit program also calls as a
 * 32-bit one would.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "abi_layout.h"
#include "kselftest_harness.h"
#include "xrc_util.h"

/* enum rdma_driver_id is not among the headers that user space gets. */
#define DRIVER_RXE 14

FIXTURE(abi)
{
	struct xrc x;
};

FIXTURE_SETUP(abi)
{
	ASSERT_EQ(0, xrc_open(&self->x));
}

FIXTURE_TEARDOWN(abi)
{
	xrc_close(&self->x);
}

TEST(node)
{
	struct stat st;

	ASSERT_EQ(0, stat(XRC_NODE, &st));
	EXPECT_TRUE(S_ISCHR(st.st_mode));
	EXPECT_EQ(0666, st.st_mode & 07777);
	EXPECT_EQ(0, st.st_uid);
}

TEST_F(abi, version)
{
	EXPECT_EQ(IB_XRC_ABI_VERSION, self->x.dev.abi_version);
	EXPECT_EQ(0, self->x.dev.reserved);
	EXPECT_STREQ(xrc_device(), (char *)self->x.dev.name);
}

TEST_F(abi, device)
{
	struct ibv_device **list;
	int i, n, seen = 0;

	EXPECT_EQ(IB_XRC_DEVICE_SOFT, self->x.dev.flags);
	if (!strncmp(xrc_device(), "rxe", 3)) {
		EXPECT_EQ(DRIVER_RXE, self->x.dev.driver_id);
		EXPECT_EQ(1, self->x.dev.phys_port_cnt);
	}
	list = ibv_get_device_list(&n);
	ASSERT_TRUE(list);
	for (i = 0; i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), xrc_device()))
			continue;
		seen++;
		EXPECT_EQ(ibv_get_device_guid(list[i]), self->x.dev.node_guid);
		EXPECT_EQ(ibv_get_device_index(list[i]), (int)self->x.dev.index);
	}
	EXPECT_EQ(1, seen);
	ibv_free_device_list(list);
}

TEST_F(abi, limits)
{
	struct ib_xrc_limits limits;

	memset(&limits, 0xff, sizeof(limits));
	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	EXPECT_GE(limits.max_cqe, 4096);
	EXPECT_GE(limits.max_srq_wr, 1024);
	EXPECT_GE(limits.max_srq_sge, 2);
	EXPECT_GE(limits.max_msg_size, 1024);
	EXPECT_GE(limits.tgt_qp_recv_wr, 8);
	EXPECT_LT(0, limits.tgt_qp_bytes);
	EXPECT_LT(0, limits.srq_bytes);
	EXPECT_EQ(0, limits.reserved);
	/* A program may ask for the most there is. */
	EXPECT_EQ(0, limits.max_cqe & (limits.max_cqe - 1));
	EXPECT_EQ(0, limits.max_srq_wr & (limits.max_srq_wr - 1));
}

#ifdef __x86_64__
/* ioctl(2) by the entry of 32-bit programs. */
static int ioctl32(int fd, unsigned int cmd, void *arg)
{
	long ret;

	asm volatile("int $0x80"
		     : "=a" (ret)
		     : "a" (54), "b" (fd), "c" (cmd), "d" (arg)
		     : "memory", "r8", "r9", "r10", "r11");
	return ret;
}

/* All that a call points to must be below 4 GiB. */
struct low {
	union xrc_cmd cmd;
	struct ib_xrc_device_info dev;
	struct ib_xrc_limits limits;
	struct ib_xrc_xrcd_info info;
	struct ib_uverbs_qp_attr attr;
	__u32 qp_num;
};

static struct low *map_low(void)
{
	void *p = mmap(NULL, sizeof(struct low), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

TEST_F(abi, compat)
{
	struct low *low = map_low();
	struct xrc y;
	__u32 xrcd, qp;

	ASSERT_TRUE(low);
	ASSERT_EQ(0, xrc_open_node(&y));

	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND);
	xrc_in_u32(&low->cmd, IB_XRC_ATTR_BIND_ABI_VERSION, IB_XRC_ABI_VERSION);
	xrc_in_u32(&low->cmd, IB_XRC_ATTR_BIND_INDEX, self->x.dev.index);
	xrc_out(&low->cmd, IB_XRC_ATTR_BIND_RESP_DEVICE, &low->dev,
		sizeof(low->dev));
	ASSERT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd)) {
		TH_LOG("does this kernel run 32-bit programs?");
	}
	EXPECT_EQ(0, memcmp(&low->dev, &self->x.dev, sizeof(low->dev)));
	y.dev = low->dev;

	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_QUERY_CONTEXT);
	xrc_out(&low->cmd, IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, &low->limits,
		sizeof(low->limits));
	EXPECT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd));
	EXPECT_NE(0, low->limits.max_cqe);

	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_handle(&low->cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE, 0);
	xrc_raw_fd(&low->cmd, IB_XRC_ATTR_XRCD_OPEN_FD, -1);
	EXPECT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd));
	xrcd = xrc_find(&low->cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;

	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_CREATE);
	xrc_handle(&low->cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, 0);
	xrc_handle(&low->cmd, IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd);
	xrc_out(&low->cmd, IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, &low->qp_num,
		sizeof(low->qp_num));
	EXPECT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd));
	qp = xrc_find(&low->cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE)->data;

	memset(&low->attr, 0, sizeof(low->attr));
	low->attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				 IBV_QP_ACCESS_FLAGS;
	low->attr.qp_state = IBV_QPS_INIT;
	low->attr.port_num = 1;
	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_MODIFY);
	xrc_handle(&low->cmd, IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE, qp);
	xrc_in(&low->cmd, IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, &low->attr,
	       sizeof(low->attr));
	EXPECT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd));

	xrc_cmd_for(&y, &low->cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_QUERY);
	xrc_handle(&low->cmd, IB_XRC_ATTR_XRCD_QUERY_HANDLE, xrcd);
	xrc_out(&low->cmd, IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, &low->info,
		sizeof(low->info));
	EXPECT_EQ(0, ioctl32(y.fd, RDMA_VERBS_IOCTL, &low->cmd));
	EXPECT_EQ(1, low->info.tgt_qps);

	EXPECT_EQ(-ENOTTY, ioctl32(y.fd, RDMA_VERBS_IOCTL + 1, &low->cmd));

	xrc_close(&y);
	munmap(low, sizeof(*low));
}
#endif /* __x86_64__ */

TEST_HARNESS_MAIN
