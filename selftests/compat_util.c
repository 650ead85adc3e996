// SPDX-License-Identifier: GPL-2.0
/*
 * What a program for XRC has, by libibverbs alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/mman.h>

#include "compat_util.h"
#include "scale.h"

/* For a completion, under emulation and load. */
#define SECONDS (60 * xrc_scale())

struct ibv_context *rig_open_device(void)
{
	const char *wanted = getenv("XRC_DEVICE");
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int i;

	list = ibv_get_device_list(NULL);
	if (!list)
		return NULL;
	for (i = 0; list[i] && !context; i++)
		if (!wanted || !strcmp(ibv_get_device_name(list[i]), wanted))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

/* A RoCE v2 GID that is an IPv4 address, which the device has for sure. */
static int find_gid(struct rig *rig)
{
	static const __u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry table[64];
	ssize_t n;
	int i;

	n = ibv_query_gid_table(rig->context, table, 64, 0);
	for (i = 0; i < n; i++) {
		if (table[i].port_num != RIG_PORT ||
		    table[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(table[i].gid.raw, mapped, sizeof(mapped)))
			continue;
		rig->gid = table[i].gid;
		rig->gid_index = table[i].gid_index;
		return 0;
	}
	return -ENOENT;
}

static struct ibv_xrcd *open_xrcd(struct ibv_context *context)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};

	return ibv_open_xrcd(context, &attr);
}

struct ibv_srq *rig_create_srq(struct rig *rig, struct ibv_cq *cq, int depth)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = depth, .max_sge = 4 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
		.srq_type = IBV_SRQT_XRC,
		.pd = rig->pd,
		.xrcd = rig->xrcd,
		.cq = cq,
	};

	return ibv_create_srq_ex(rig->context, &attr);
}

struct ibv_qp *rig_create_tgt(struct rig *rig)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = rig->xrcd,
	};

	return ibv_create_qp_ex(rig->context, &attr);
}

struct ibv_qp *rig_create_ini(struct rig *rig, struct ibv_cq *cq, __u64 send_ops)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = cq,
		.cap = {
			.max_send_wr = RIG_DEPTH,
			.max_send_sge = 4,
			.max_inline_data = 64,
		},
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = rig->pd,
	};

	if (send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = send_ops;
	}
	return ibv_create_qp_ex(rig->context, &attr);
}

int rig_open_without_qps(struct rig *rig)
{
	struct ibv_port_attr port;
	int err;

	memset(rig, 0, sizeof(*rig));
	rig->context = rig_open_device();
	if (!rig->context)
		return -ENODEV;
	err = -ibv_query_port(rig->context, RIG_PORT, &port);
	if (!err)
		err = find_gid(rig);
	if (err)
		goto fail;
	rig->mtu = port.active_mtu;

	errno = 0;
	rig->buf = mmap(NULL, 2 * RIG_BUF_SIZE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rig->buf == MAP_FAILED)
		rig->buf = NULL;
	rig->pd = ibv_alloc_pd(rig->context);
	rig->channel = ibv_create_comp_channel(rig->context);
	if (!rig->buf || !rig->pd || !rig->channel)
		goto fail_errno;
	rig->mr = ibv_reg_mr(rig->pd, rig->buf, 2 * RIG_BUF_SIZE, RIG_ACCESS);
	rig->send_cq = ibv_create_cq(rig->context, 2 * RIG_DEPTH, rig, rig->channel, 0);
	rig->recv_cq = ibv_create_cq(rig->context, 2 * RIG_DEPTH, rig, rig->channel, 0);
	rig->xrcd = open_xrcd(rig->context);
	if (!rig->mr || !rig->send_cq || !rig->recv_cq || !rig->xrcd)
		goto fail_errno;
	rig->srq = rig_create_srq(rig, rig->recv_cq, RIG_DEPTH);
	if (!rig->srq)
		goto fail_errno;
	err = -ibv_get_srq_num(rig->srq, &rig->srq_num);
	if (err)
		goto fail;
	return 0;

fail_errno:
	err = errno ? -errno : -EIO;
fail:
	rig_close(rig);
	return err;
}

int rig_open(struct rig *rig)
{
	int err = rig_open_without_qps(rig);

	if (err)
		return err;
	rig->tgt = rig_create_tgt(rig);
	if (rig->tgt)
		rig->ini = rig_create_ini(rig, rig->send_cq, 0);
	if (rig->tgt && rig->ini)
		return 0;
	err = errno ? -errno : -EIO;
	rig_close(rig);
	return err;
}

void rig_close(struct rig *rig)
{
	if (rig->ini)
		ibv_destroy_qp(rig->ini);
	if (rig->tgt)
		ibv_destroy_qp(rig->tgt);
	if (rig->srq)
		ibv_destroy_srq(rig->srq);
	if (rig->xrcd)
		ibv_close_xrcd(rig->xrcd);
	if (rig->send_cq)
		ibv_destroy_cq(rig->send_cq);
	if (rig->recv_cq)
		ibv_destroy_cq(rig->recv_cq);
	if (rig->channel)
		ibv_destroy_comp_channel(rig->channel);
	if (rig->mr)
		ibv_dereg_mr(rig->mr);
	if (rig->pd)
		ibv_dealloc_pd(rig->pd);
	if (rig->buf)
		munmap(rig->buf, 2 * RIG_BUF_SIZE);
	if (rig->context)
		ibv_close_device(rig->context);
	memset(rig, 0, sizeof(*rig));
}

/* The attributes of all transitions; what the QP's type does not take is left out. */
static int connect_to(struct rig *rig, struct ibv_qp *qp, __u32 number)
{
	bool sends = qp->qp_type != IBV_QPT_XRC_RECV;
	bool receives = qp->qp_type != IBV_QPT_XRC_SEND;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RIG_PORT,
		.qp_access_flags = RIG_ACCESS,
	};
	int mask, err;

	err = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			    IBV_QP_ACCESS_FLAGS);
	if (err)
		return err;

	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = rig->mtu;
	attr.dest_qp_num = number;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = RIG_PORT;
	attr.ah_attr.grh.dgid = rig->gid;
	attr.ah_attr.grh.sgid_index = rig->gid_index;
	attr.ah_attr.grh.hop_limit = 1;
	mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (receives) {
		attr.max_dest_rd_atomic = 4;
		attr.min_rnr_timer = 1;
		mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	}
	err = ibv_modify_qp(qp, &attr, mask);
	if (err)
		return err;

	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT;
	if (sends) {
		attr.retry_cnt = 7;
		attr.rnr_retry = 7;
		attr.max_rd_atomic = 4;
		mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	}
	return ibv_modify_qp(qp, &attr, mask);
}

int rig_pair(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	int err = connect_to(rig, a, b->qp_num);

	return err ? err : connect_to(rig, b, a->qp_num);
}

int rig_connect(struct rig *rig)
{
	return rig_pair(rig, rig->tgt, rig->ini);
}

char *rig_recv_buf(struct rig *rig)
{
	return rig->buf + RIG_BUF_SIZE;
}

int rig_post_recv(struct rig *rig, struct ibv_srq *srq, __u64 wr_id, size_t offset,
		  __u32 length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig_recv_buf(rig) + offset,
		.length = length,
		.lkey = rig->mr->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
	};
	struct ibv_recv_wr *bad;

	return ibv_post_srq_recv(srq, &wr, &bad);
}

int rig_post_send(struct rig *rig, struct ibv_qp *qp, __u64 wr_id, __u32 srq_num,
		  size_t offset, __u32 length, int flags)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig->buf + offset,
		.length = length,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | flags,
		.qp_type.xrc.remote_srqn = srq_num,
	};
	struct ibv_send_wr *bad;

	return ibv_post_send(qp, &wr, &bad);
}

int rig_poll(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t end = time(NULL) + SECONDS;
	int n;

	do {
		n = ibv_poll_cq(cq, 1, wc);
	} while (!n && time(NULL) < end);
	return n;
}

const char *rig_exchange(struct rig *rig, __u32 length)
{
	char *there = rig_recv_buf(rig);
	struct ibv_wc wc;

	memset(rig->buf, 0x5a, length);
	memset(there, 0, length);
	if (rig_post_recv(rig, rig->srq, 1, 0, length))
		return "post_recv";
	if (rig_post_send(rig, rig->ini, 2, rig->srq_num, 0, length, 0))
		return "post_send";
	if (rig_poll(rig->recv_cq, &wc) != 1 || wc.status || wc.wr_id != 1 ||
	    wc.byte_len != length)
		return "no receive completion";
	if (rig_poll(rig->send_cq, &wc) != 1 || wc.status || wc.wr_id != 2)
		return "no send completion";
	return memcmp(rig->buf, there, length) ? "other bytes" : NULL;
}

const char *rig_write(struct rig *rig, struct ibv_mr *mr, void *there)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rig->buf,
		.length = 8,
		.lkey = rig->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = rig->srq_num,
		.wr.rdma.remote_addr = (uintptr_t)there,
		.wr.rdma.rkey = mr->rkey,
	};
	struct ibv_wc wc;
	__u64 value = rand();

	memcpy(rig->buf, &value, sizeof(value));
	if (ibv_post_send(rig->ini, &wr, &bad))
		return "post_send";
	if (rig_poll(rig->send_cq, &wc) != 1 || wc.status)
		return "no completion";
	return memcmp(there, &value, sizeof(value)) ? "other bytes" : NULL;
}
