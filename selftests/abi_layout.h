/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The layout of the ABI, written down a second time: a change of the header that
 * changes a size, an offset or a number does not compile. It is compiled for 64
 * and for 32 bits, against the same numbers.
 */
#ifndef ABI_LAYOUT_H
#define ABI_LAYOUT_H

#include <stddef.h>

/* What the header includes is not ours: it may have padding. */
#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

/* No structure of ours has implicit padding. */
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wpadded"
#include <rdma/ib_user_xrc.h>
#pragma GCC diagnostic pop

#define SIZE(type, size) \
	_Static_assert(sizeof(struct type) == (size), "size of " #type)
#define FIELD(type, field, offset, size) \
	_Static_assert(offsetof(struct type, field) == (offset) && \
		       sizeof(((struct type *)0)->field) == (size), \
		       #type "." #field)
#define VALUE(name, value) \
	_Static_assert((name) == (value), #name)

/* The framing, on which all rests. */
SIZE(ib_uverbs_ioctl_hdr, 24);
SIZE(ib_uverbs_attr, 16);
VALUE(RDMA_VERBS_IOCTL, 0xc0181b01);
VALUE(UVERBS_ID_NS_SHIFT, 12);

VALUE(IB_XRC_ABI_VERSION, 1);

VALUE(IB_XRC_OBJECT_CONTEXT, 0x1000);
VALUE(IB_XRC_OBJECT_XRCD, 0x1001);
VALUE(IB_XRC_OBJECT_TGT_QP, 0x1002);
VALUE(IB_XRC_OBJECT_COMP_CHANNEL, 0x1003);
VALUE(IB_XRC_OBJECT_CQ, 0x1004);
VALUE(IB_XRC_OBJECT_SRQ, 0x1005);
VALUE(IB_XRC_OBJECT_EVENT_FILE, 0x1006);

VALUE(IB_XRC_METHOD_BIND, 0x1000);
VALUE(IB_XRC_METHOD_QUERY_CONTEXT, 0x1001);
VALUE(IB_XRC_METHOD_LIST_DEVICES, 0x1002);
VALUE(IB_XRC_ATTR_BIND_ABI_VERSION, 0x1000);
VALUE(IB_XRC_ATTR_BIND_NAME, 0x1001);
VALUE(IB_XRC_ATTR_BIND_INDEX, 0x1002);
VALUE(IB_XRC_ATTR_BIND_RESP_DEVICE, 0x1003);
VALUE(IB_XRC_ATTR_QUERY_CONTEXT_RESP_DEVICE, 0x1000);
VALUE(IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, 0x1001);
VALUE(IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, 0x1000);
VALUE(IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, 0x1001);

VALUE(IB_XRC_DEVICE_NAME_MAX, 64);
VALUE(IB_XRC_DEVICE_SOFT, 1);
SIZE(ib_xrc_device_info, 96);
FIELD(ib_xrc_device_info, name, 0, 64);
FIELD(ib_xrc_device_info, node_guid, 64, 8);
FIELD(ib_xrc_device_info, index, 72, 4);
FIELD(ib_xrc_device_info, driver_id, 76, 4);
FIELD(ib_xrc_device_info, phys_port_cnt, 80, 4);
FIELD(ib_xrc_device_info, flags, 84, 4);
FIELD(ib_xrc_device_info, abi_version, 88, 4);
FIELD(ib_xrc_device_info, reserved, 92, 4);

SIZE(ib_xrc_limits, 32);
FIELD(ib_xrc_limits, max_cqe, 0, 4);
FIELD(ib_xrc_limits, max_srq_wr, 4, 4);
FIELD(ib_xrc_limits, max_srq_sge, 8, 4);
FIELD(ib_xrc_limits, max_msg_size, 12, 4);
FIELD(ib_xrc_limits, tgt_qp_recv_wr, 16, 4);
FIELD(ib_xrc_limits, tgt_qp_bytes, 20, 4);
FIELD(ib_xrc_limits, srq_bytes, 24, 4);
FIELD(ib_xrc_limits, reserved, 28, 4);

VALUE(IB_XRC_METHOD_XRCD_OPEN, 0x1000);
VALUE(IB_XRC_METHOD_XRCD_CLOSE, 0x1001);
VALUE(IB_XRC_METHOD_XRCD_QUERY, 0x1002);
VALUE(IB_XRC_METHOD_XRCD_LIST_TGT_QPS, 0x1003);
VALUE(IB_XRC_METHOD_XRCD_LIST_SRQS, 0x1004);
VALUE(IB_XRC_ATTR_XRCD_OPEN_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_XRCD_OPEN_FD, 0x1001);
VALUE(IB_XRC_ATTR_XRCD_OPEN_OFLAGS, 0x1002);
VALUE(IB_XRC_ATTR_XRCD_OPEN_POLICY, 0x1003);
VALUE(IB_XRC_ATTR_XRCD_OPEN_JOB_KEY, 0x1004);
VALUE(IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE, 0x1005);
VALUE(IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE, 0x1006);
VALUE(IB_XRC_ATTR_XRCD_CLOSE_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_XRCD_QUERY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, 0x1001);
VALUE(IB_XRC_ATTR_XRCD_QUERY_RESP_POLICY, 0x1002);
VALUE(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS, 0x1001);
VALUE(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, 0x1002);
VALUE(IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER, 0x1003);
VALUE(IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS, 0x1001);
VALUE(IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT, 0x1002);
VALUE(IB_XRC_ATTR_XRCD_LIST_SRQS_AFTER, 0x1003);
VALUE(IB_XRC_POLICY_REFS, 0);
VALUE(IB_XRC_POLICY_DOMAIN, 1);
VALUE(IB_XRC_DOMAIN_RECLAIM_REFERENCED, 1);
VALUE(IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ, 2);
VALUE(IB_XRC_DOMAIN_USE_NEEDS_WRITE, 4);

SIZE(ib_xrc_policy, 32);
FIELD(ib_xrc_policy, type, 0, 4);
FIELD(ib_xrc_policy, flags, 4, 4);
FIELD(ib_xrc_policy, linger_ms, 8, 4);
FIELD(ib_xrc_policy, max_tgt_qps, 12, 4);
FIELD(ib_xrc_policy, max_srqs, 16, 4);
FIELD(ib_xrc_policy, reserved, 20, 4);
FIELD(ib_xrc_policy, max_bytes, 24, 8);

SIZE(ib_xrc_xrcd_info, 40);
FIELD(ib_xrc_xrcd_info, inode, 0, 8);
FIELD(ib_xrc_xrcd_info, dev, 8, 4);
FIELD(ib_xrc_xrcd_info, policy, 12, 4);
FIELD(ib_xrc_xrcd_info, handles, 16, 4);
FIELD(ib_xrc_xrcd_info, tgt_qps, 20, 4);
FIELD(ib_xrc_xrcd_info, srqs, 24, 4);
FIELD(ib_xrc_xrcd_info, reserved, 28, 4);
FIELD(ib_xrc_xrcd_info, bytes, 32, 8);

VALUE(IB_XRC_METHOD_TGT_QP_CREATE, 0x1000);
VALUE(IB_XRC_METHOD_TGT_QP_OPEN, 0x1001);
VALUE(IB_XRC_METHOD_TGT_QP_MODIFY, 0x1002);
VALUE(IB_XRC_METHOD_TGT_QP_QUERY, 0x1003);
VALUE(IB_XRC_METHOD_TGT_QP_CONNECT, 0x1004);
VALUE(IB_XRC_METHOD_TGT_QP_CLOSE, 0x1005);
VALUE(IB_XRC_METHOD_TGT_QP_DISCONNECT, 0x1006);
VALUE(IB_XRC_METHOD_TGT_QP_LIST_HOLDERS, 0x1007);
VALUE(IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_CREATE_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_OPEN_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_OPEN_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_OPEN_USER_HANDLE, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_MODIFY_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_QUERY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_QUERY_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_QUERY_RESP_ATTR, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_QUERY_RESP_INFO, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_ATTR, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_CONNECT_TIMEOUT_MS, 0x1005);
VALUE(IB_XRC_ATTR_TGT_QP_CLOSE_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_DISCONNECT_RESP_INFO, 0x1005);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM, 0x1002);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS, 0x1003);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, 0x1004);
VALUE(IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_AFTER, 0x1005);

SIZE(ib_xrc_disconnect_info, 16);
FIELD(ib_xrc_disconnect_info, delivered_msgs, 0, 8);
FIELD(ib_xrc_disconnect_info, flushed_msgs, 8, 8);

SIZE(ib_xrc_holder_info, 16);
FIELD(ib_xrc_holder_info, id, 0, 8);
FIELD(ib_xrc_holder_info, pid, 8, 4);
FIELD(ib_xrc_holder_info, reserved, 12, 4);

SIZE(ib_xrc_tgt_qp_info, 48);
FIELD(ib_xrc_tgt_qp_info, qp_num, 0, 4);
FIELD(ib_xrc_tgt_qp_info, state, 4, 4);
FIELD(ib_xrc_tgt_qp_info, refs, 8, 4);
FIELD(ib_xrc_tgt_qp_info, dest_qp_num, 12, 4);
FIELD(ib_xrc_tgt_qp_info, recv_msgs, 16, 8);
FIELD(ib_xrc_tgt_qp_info, recv_bytes, 24, 8);
FIELD(ib_xrc_tgt_qp_info, refused_msgs, 32, 8);
FIELD(ib_xrc_tgt_qp_info, reserved, 40, 8);

VALUE(IB_XRC_METHOD_COMP_CHANNEL_CREATE, 0x1000);
VALUE(IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD, 0x1000);

VALUE(IB_XRC_METHOD_CQ_CREATE, 0x1000);
VALUE(IB_XRC_METHOD_CQ_DESTROY, 0x1001);
VALUE(IB_XRC_ATTR_CQ_CREATE_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_CQ_CREATE_CQE, 0x1001);
VALUE(IB_XRC_ATTR_CQ_CREATE_USER_HANDLE, 0x1002);
VALUE(IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL, 0x1003);
VALUE(IB_XRC_ATTR_CQ_CREATE_RESP_RING, 0x1004);
VALUE(IB_XRC_ATTR_CQ_DESTROY_HANDLE, 0x1000);

SIZE(ib_xrc_ring_info, 24);
FIELD(ib_xrc_ring_info, mmap_offset, 0, 8);
FIELD(ib_xrc_ring_info, mmap_length, 8, 8);
FIELD(ib_xrc_ring_info, entries, 16, 4);
FIELD(ib_xrc_ring_info, stride, 20, 4);

/* The kernel's cache line and ours are apart. */
VALUE(IB_XRC_RING_ENTRIES_OFFSET, 128);
SIZE(ib_xrc_cq_ring, IB_XRC_RING_ENTRIES_OFFSET);
FIELD(ib_xrc_cq_ring, producer, 0, 4);
FIELD(ib_xrc_cq_ring, flags, 4, 4);
FIELD(ib_xrc_cq_ring, reserved1, 8, 56);
FIELD(ib_xrc_cq_ring, consumer, 64, 4);
FIELD(ib_xrc_cq_ring, arm, 68, 4);
FIELD(ib_xrc_cq_ring, reserved2, 72, 56);
VALUE(IB_XRC_CQ_ARM_NONE, 0);
VALUE(IB_XRC_CQ_ARM_NEXT, 1);
VALUE(IB_XRC_CQ_ARM_SOLICITED, 2);
VALUE(IB_XRC_CQ_RING_OVERFLOW, 1);
VALUE(IB_XRC_CQ_RING_DEAD, 2);

SIZE(ib_xrc_cqe, 64);
FIELD(ib_xrc_cqe, wr_id, 0, 8);
FIELD(ib_xrc_cqe, srq_user_handle, 8, 8);
FIELD(ib_xrc_cqe, status, 16, 4);
FIELD(ib_xrc_cqe, opcode, 20, 4);
FIELD(ib_xrc_cqe, byte_len, 24, 4);
FIELD(ib_xrc_cqe, wc_flags, 28, 4);
FIELD(ib_xrc_cqe, imm_data, 32, 4);
FIELD(ib_xrc_cqe, srq_num, 36, 4);
FIELD(ib_xrc_cqe, qp_num, 40, 4);
FIELD(ib_xrc_cqe, src_qp, 44, 4);
FIELD(ib_xrc_cqe, reserved, 48, 16);
VALUE(IB_XRC_WC_RECV, 128);
VALUE(IB_XRC_WC_RECV_RDMA_WITH_IMM, 129);
VALUE(IB_XRC_WC_WITH_IMM, 1);
VALUE(IB_XRC_WC_SOLICITED, 2);

VALUE(IB_XRC_METHOD_SRQ_CREATE, 0x1000);
VALUE(IB_XRC_METHOD_SRQ_KICK, 0x1001);
VALUE(IB_XRC_METHOD_SRQ_DESTROY, 0x1002);
VALUE(IB_XRC_METHOD_SRQ_MODIFY, 0x1003);
VALUE(IB_XRC_METHOD_SRQ_QUERY, 0x1004);
VALUE(IB_XRC_ATTR_SRQ_CREATE_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_SRQ_CREATE_XRCD, 0x1001);
VALUE(IB_XRC_ATTR_SRQ_CREATE_CQ, 0x1002);
VALUE(IB_XRC_ATTR_SRQ_CREATE_MAX_WR, 0x1003);
VALUE(IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, 0x1004);
VALUE(IB_XRC_ATTR_SRQ_CREATE_USER_HANDLE, 0x1005);
VALUE(IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, 0x1006);
VALUE(IB_XRC_ATTR_SRQ_CREATE_RESP_RING, 0x1007);
VALUE(IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE, 0x1008);
VALUE(IB_XRC_ATTR_SRQ_KICK_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_SRQ_DESTROY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_SRQ_MODIFY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_SRQ_MODIFY_LIMIT, 0x1001);
VALUE(IB_XRC_ATTR_SRQ_QUERY_HANDLE, 0x1000);
VALUE(IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR, 0x1001);

SIZE(ib_xrc_srq_attr, 16);
FIELD(ib_xrc_srq_attr, max_wr, 0, 4);
FIELD(ib_xrc_srq_attr, max_sge, 4, 4);
FIELD(ib_xrc_srq_attr, limit, 8, 4);
FIELD(ib_xrc_srq_attr, reserved, 12, 4);

SIZE(ib_xrc_srq_info, 24);
FIELD(ib_xrc_srq_info, srq_num, 0, 4);
FIELD(ib_xrc_srq_info, flags, 4, 4);
FIELD(ib_xrc_srq_info, pid, 8, 4);
FIELD(ib_xrc_srq_info, waiting_msgs, 12, 4);
FIELD(ib_xrc_srq_info, recv_msgs, 16, 8);

VALUE(IB_XRC_METHOD_EVENT_FILE_CREATE, 0x1000);
VALUE(IB_XRC_ATTR_EVENT_FILE_CREATE_FD, 0x1000);
VALUE(IB_XRC_ATTR_EVENT_FILE_CREATE_DEPTH, 0x1001);
VALUE(IB_XRC_EVENT_FILE_DEPTH, 256);
VALUE(IB_XRC_EVENT_FILE_MAX_DEPTH, 4096);
VALUE(IB_XRC_EVENT_OVERFLOW, 0);
VALUE(IB_XRC_EVENT_TGT_QP_CREATED, 1);
VALUE(IB_XRC_EVENT_TGT_QP_ERROR, 2);
VALUE(IB_XRC_EVENT_TGT_QP_RECLAIMED, 3);
VALUE(IB_XRC_EVENT_SRQ_LIMIT, 4);
VALUE(IB_XRC_EVENT_SRQ_BACKLOG, 5);
VALUE(IB_XRC_EVENT_PORT_ACTIVE, 6);
VALUE(IB_XRC_EVENT_PORT_DOWN, 7);
VALUE(IB_XRC_EVENT_DEVICE_REMOVED, 8);
VALUE(IB_XRC_EVENT_SRQ_ERROR, 9);
VALUE(IB_XRC_SRQ_ERROR_RING, 1);
VALUE(IB_XRC_SRQ_ERROR_CQ, 2);
VALUE(IB_XRC_RECLAIM_LAST_REF, 1);
VALUE(IB_XRC_RECLAIM_ERROR, 2);
VALUE(IB_XRC_RECLAIM_LINGER, 3);
VALUE(IB_XRC_RECLAIM_LAST_SRQ, 4);

SIZE(ib_xrc_event, 24);
FIELD(ib_xrc_event, user_handle, 0, 8);
FIELD(ib_xrc_event, type, 8, 4);
FIELD(ib_xrc_event, number, 12, 4);
FIELD(ib_xrc_event, value, 16, 4);
FIELD(ib_xrc_event, reserved, 20, 4);

VALUE(IB_XRC_SRQ_RING_NEED_KICK, 1);
VALUE(IB_XRC_SRQ_RING_ERROR, 2);
SIZE(ib_xrc_srq_ring, IB_XRC_RING_ENTRIES_OFFSET);
FIELD(ib_xrc_srq_ring, consumer, 0, 4);
FIELD(ib_xrc_srq_ring, flags, 4, 4);
FIELD(ib_xrc_srq_ring, reserved1, 8, 56);
FIELD(ib_xrc_srq_ring, producer, 64, 4);
FIELD(ib_xrc_srq_ring, reserved2, 68, 60);

SIZE(ib_xrc_recv_wqe, 16);
FIELD(ib_xrc_recv_wqe, wr_id, 0, 8);
FIELD(ib_xrc_recv_wqe, num_sge, 8, 4);
FIELD(ib_xrc_recv_wqe, reserved, 12, 4);
_Static_assert(offsetof(struct ib_xrc_recv_wqe, sge) == 16, "ib_xrc_recv_wqe.sge");
SIZE(ib_uverbs_sge, 16);
/* The ABI does not say more of it than that it does not change. */
SIZE(ib_uverbs_qp_attr, 144);
SIZE(ib_uverbs_comp_event_desc, 8);

VALUE(IB_XRC_WIRE_SRQ_NUM_SHIFT, 8);
VALUE(IB_XRC_WIRE_SRQ_NUM_MAX, 0xffffff);
VALUE(IB_XRC_WIRE_PART_SIZE, 4096);
VALUE(IB_XRC_WIRE_HDR, 1);
VALUE(IB_XRC_WIRE_SOLICITED, 2);
VALUE(IB_XRC_WIRE_MORE, 4);
VALUE(IB_XRC_WIRE_CONT, 8);
VALUE(IB_XRC_WIRE_WRITE, 16);
SIZE(ib_xrc_wire_hdr, 8);
FIELD(ib_xrc_wire_hdr, imm_data, 0, 4);
FIELD(ib_xrc_wire_hdr, write_len, 4, 4);

#endif /* ABI_LAYOUT_H */
