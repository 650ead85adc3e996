/* SPDX-License-Identifier: ((GPL-2.0 WITH Linux-syscall-note) OR Linux-OpenIB) */
/*
 * ib_xrc: XRC domains on any RC-capable RDMA device.
 *
 * This header is the one definition of the ABI of /dev/infiniband/xrc. The
 * kernel module and the Rust library are generated from it, C includes it.
 *
 * The calls are uverbs ioctls: RDMA_VERBS_IOCTL on a struct
 * ib_uverbs_ioctl_hdr followed by struct ib_uverbs_attr, as
 * <rdma/rdma_user_ioctl_cmds.h> defines them, with uverbs' rules and errnos
 * (drivers/infiniband/core/uverbs_ioctl.c):
 *
 *   EPROTONOSUPPORT  unknown object or method, an unknown attribute that is
 *                    flagged UVERBS_ATTR_F_MANDATORY, reserved header bits set
 *   EINVAL           a header whose length does not match, a wrong driver_id,
 *                    an attribute given twice, missing or of a wrong size, a
 *                    handle that names an object of another kind
 *   EOPNOTSUPP       trailing bytes beyond what the kernel knows are not zero
 *   ENOENT           no such handle
 *   ENOSPC           the file has 65536 handles
 *   EBUSY            the handle is in use by another call, or cannot be closed
 *                    while objects depend on it
 *   EFAULT           a bad pointer
 *   EIO              the device is gone; only closing still works
 *   EACCES           the handle of the XRCD may list and query only, or the TGT QP
 *                    has another job key
 *   ESTALE           the TGT QP behind the handle was reclaimed; only closing it
 *                    still works
 *   EDQUOT           a limit of the domain is reached
 *   EAGAIN           the rdma cgroup of the caller has as much of the device as it
 *                    may: an hca_handle for a bind, an hca_object for a new domain
 *                    or an MR, two for a TGT QP
 *
 * Before IB_XRC_METHOD_BIND a file belongs to no device: driver_id must then be
 * RDMA_DRIVER_UNKNOWN and only IB_XRC_METHOD_BIND and
 * IB_XRC_METHOD_LIST_DEVICES work (the others return ENODEV). After it,
 * driver_id must be the device's, as on a uverbs file.
 *
 * How to read the attribute lists below:
 *   handle, new    len 0; the kernel writes the new handle to attr.data
 *   handle         len 0; attr.data is a handle of this file
 *   fd, new        len 0; the kernel writes the new descriptor to attr.data_s64
 *   raw fd         len 0; attr.data_s64 is any descriptor of the caller
 *   in TYPE        len = size, inline in attr.data when size <= 8, else attr.data
 *                  is a pointer to it. An integer has its exact size, a structure
 *                  may be longer if the rest is zero
 *   out TYPE       len = size of the buffer, attr.data is a pointer to it, never
 *                  inline; UVERBS_ATTR_F_VALID_OUTPUT is set when it was written.
 *                  A longer buffer is filled up with zeroes
 *   out TYPE[]     an array; the kernel writes as many whole elements as fit
 *   ?              the attribute is optional
 */
#ifndef IB_USER_XRC_H
#define IB_USER_XRC_H

#include <linux/types.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

/*
 * Increased when a program built for an older header would stop working. New
 * methods, new optional attributes and longer structures do not change it.
 */
#define IB_XRC_ABI_VERSION 1

/* The character device, below /dev. */
#define IB_XRC_DEVICE_NODE "infiniband/xrc"

enum ib_xrc_objects {
	IB_XRC_OBJECT_CONTEXT = (1U << UVERBS_ID_NS_SHIFT),
	IB_XRC_OBJECT_XRCD,
	IB_XRC_OBJECT_TGT_QP,
	IB_XRC_OBJECT_COMP_CHANNEL,
	IB_XRC_OBJECT_CQ,
	IB_XRC_OBJECT_SRQ,
	IB_XRC_OBJECT_EVENT_FILE,
	IB_XRC_OBJECT_MR,
};

/* -------------------------------------------------------------- context -- */

enum ib_xrc_context_methods {
	/* Bind this file to a device; once per file (else EINVAL). */
	IB_XRC_METHOD_BIND = (1U << UVERBS_ID_NS_SHIFT),
	/* Describe the bound device and the limits of the module. */
	IB_XRC_METHOD_QUERY_CONTEXT,
	/* List the devices that the caller's network namespace may use. */
	IB_XRC_METHOD_LIST_DEVICES,
};

/*
 * Exactly one of NAME and INDEX must be given. ENODEV: there is no such device,
 * it cannot do RC, or the caller's network namespace may not see it. EPROTO: the
 * kernel does not speak ABI_VERSION.
 */
enum ib_xrc_bind_attrs {
	/* in u32: IB_XRC_ABI_VERSION that the caller was built for */
	IB_XRC_ATTR_BIND_ABI_VERSION = (1U << UVERBS_ID_NS_SHIFT),
	/* ? in char[1..64]: name as in rdma(8), with or without the final NUL */
	IB_XRC_ATTR_BIND_NAME,
	/* ? in u32: index as in rdma(8) */
	IB_XRC_ATTR_BIND_INDEX,
	/* out struct ib_xrc_device_info */
	IB_XRC_ATTR_BIND_RESP_DEVICE,
};

enum ib_xrc_query_context_attrs {
	/* ? out struct ib_xrc_device_info */
	IB_XRC_ATTR_QUERY_CONTEXT_RESP_DEVICE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? out struct ib_xrc_limits */
	IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS,
};

enum ib_xrc_list_devices_attrs {
	/* ? out struct ib_xrc_device_info[] */
	IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES = (1U << UVERBS_ID_NS_SHIFT),
	/* out u32: how many devices there are, however many were written */
	IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT,
};

#define IB_XRC_DEVICE_NAME_MAX 64

enum ib_xrc_device_flags {
	/* The soft backend carries XRC over RC on this device. */
	IB_XRC_DEVICE_SOFT = 1U << 0,
};

/* A device that domains can be opened on. All fields are written by the kernel. */
struct ib_xrc_device_info {
	/* Name as in rdma(8), NUL-terminated. */
	__u8 name[IB_XRC_DEVICE_NAME_MAX];
	/* Node GUID, big endian as on the wire. */
	__aligned_u64 node_guid;
	/* Index as in rdma(8); not reused while the kernel runs. */
	__u32 index;
	/* enum rdma_driver_id: what ib_uverbs_ioctl_hdr.driver_id must be. */
	__u32 driver_id;
	/* Ports of the device, numbered from 1. */
	__u32 phys_port_cnt;
	/* enum ib_xrc_device_flags */
	__u32 flags;
	/* IB_XRC_ABI_VERSION of the kernel. */
	__u32 abi_version;
	__u32 reserved;
};

/* What the module takes at most. All fields are written by the kernel. */
struct ib_xrc_limits {
	/* Entries of a CQ; a CQ is rounded up to a power of two. */
	__u32 max_cqe;
	/* Work requests posted to an SRQ at a time; rounded likewise. */
	__u32 max_srq_wr;
	/* Scatter entries of a receive work request. */
	__u32 max_srq_sge;
	/* Bytes of the longest message that a TGT QP is sure to receive. */
	__u32 max_msg_size;
	/* Receive buffers that the kernel posts to each TGT QP. */
	__u32 tgt_qp_recv_wr;
	/* Bytes that a TGT QP, and an SRQ, count against ib_xrc_policy.max_bytes. */
	__u32 tgt_qp_bytes;
	__u32 srq_bytes;
	__u32 reserved;
};

/* ----------------------------------------------------------------- XRCD -- */

enum ib_xrc_xrcd_methods {
	/* Open a domain, as ibv_open_xrcd(3). */
	IB_XRC_METHOD_XRCD_OPEN = (1U << UVERBS_ID_NS_SHIFT),
	/*
	 * Close the handle, as ibv_close_xrcd(3). EBUSY while this file has TGT
	 * QPs, SRQs or MRs that were made with the handle.
	 */
	IB_XRC_METHOD_XRCD_CLOSE,
	/* Describe the domain. */
	IB_XRC_METHOD_XRCD_QUERY,
	/* List the TGT QPs of the domain, in the order of their numbers. */
	IB_XRC_METHOD_XRCD_LIST_TGT_QPS,
	/* List the SRQs of the domain, in the order of their numbers. */
	IB_XRC_METHOD_XRCD_LIST_SRQS,
};

/*
 * A domain is found by the inode of FD, among the domains of the bound device.
 * Without FD, or with -1, the domain is anonymous: new, and never found again. The
 * file system of FD cannot be unmounted while the domain is open (EBUSY).
 * EBADF: FD is not open. EAGAIN: the inode has no domain and O_CREAT is not set.
 * EINVAL: it has one and O_EXCL is set.
 *
 * What the handle may do depends on how FD was opened, at this moment and for
 * good; an anonymous domain may be used by its handle without limits.
 *   EACCES  FD was not opened for reading; or it was not opened for writing and
 *           would make a new domain, with POLICY or for a caller who does not
 *           own the file
 *   Query and list, of domain and TGT QPs, need no more. Everything else that
 *   is done with the handle needs FD to have been opened for writing if the
 *   domain has IB_XRC_DOMAIN_USE_NEEDS_WRITE (else EACCES when it is tried).
 *
 * POLICY is for who makes the domain. EEXIST: there is one already, and its
 * policy is not this one; without POLICY the opener takes what there is, and who
 * makes a domain gets struct ib_xrc_policy with all fields 0. EINVAL: POLICY has
 * unknown values or flags.
 *
 * JOB_KEY marks all TGT QPs and SRQs that are made with the handle. A message is
 * accepted only if TGT QP and SRQ both have the same key, or none; else it is
 * refused like one to an SRQ number that does not exist. Modifying, connecting,
 * disconnecting and opening a TGT QP needs the key that it has (else EACCES).
 * The key is a secret: it is never shown.
 */
enum ib_xrc_xrcd_open_attrs {
	/* handle, new */
	IB_XRC_ATTR_XRCD_OPEN_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? raw fd */
	IB_XRC_ATTR_XRCD_OPEN_FD,
	/* ? in u32: O_CREAT, O_EXCL of <fcntl.h>; other bits are ignored */
	IB_XRC_ATTR_XRCD_OPEN_OFLAGS,
	/* ? in struct ib_xrc_policy */
	IB_XRC_ATTR_XRCD_OPEN_POLICY,
	/* ? in u64: the job key; not given is not the same as any value */
	IB_XRC_ATTR_XRCD_OPEN_JOB_KEY,
	/*
	 * ? raw fd: an event file of this file (else EBADF), which is told of TGT
	 * QPs created in and reclaimed from the domain, until the handle is closed
	 */
	IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE,
	/* ? in u64: what these events carry; 0 if not given */
	IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE,
};

enum ib_xrc_xrcd_close_attrs {
	/* handle */
	IB_XRC_ATTR_XRCD_CLOSE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

enum ib_xrc_xrcd_query_attrs {
	/* handle */
	IB_XRC_ATTR_XRCD_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? out struct ib_xrc_xrcd_info */
	IB_XRC_ATTR_XRCD_QUERY_RESP_INFO,
	/* ? out struct ib_xrc_policy */
	IB_XRC_ATTR_XRCD_QUERY_RESP_POLICY,
};

enum ib_xrc_xrcd_list_tgt_qps_attrs {
	/* handle */
	IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? out struct ib_xrc_tgt_qp_info[] */
	IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS,
	/* out u32: how many there are, however many were written */
	IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT,
	/*
	 * ? in u32: list and count only those with a greater number than this,
	 * to go on where an earlier call had no more room
	 */
	IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER,
};

enum ib_xrc_xrcd_list_srqs_attrs {
	/* handle */
	IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? out struct ib_xrc_srq_info[] */
	IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS,
	/* out u32: how many there are, however many were written */
	IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT,
	/* ? in u32: as IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER */
	IB_XRC_ATTR_XRCD_LIST_SRQS_AFTER,
};

/* When a TGT QP dies. */
enum ib_xrc_policy_type {
	/* With its last registration: closed, or its file gone. */
	IB_XRC_POLICY_REFS = 0,
	/*
	 * With the domain. Without registrations also before: at once if it is
	 * in error or when an async error hits it, or once linger_ms passed.
	 */
	IB_XRC_POLICY_DOMAIN = 1,
};

enum ib_xrc_domain_flags {
	/*
	 * An async error destroys a TGT QP even while there are registrations,
	 * which from then on answer ESTALE.
	 */
	IB_XRC_DOMAIN_RECLAIM_REFERENCED = 1U << 0,
	/*
	 * While the domain has no SRQ, it has no TGT QPs without registrations:
	 * they go with its last SRQ, and later ones with their last
	 * registration. IB_XRC_POLICY_DOMAIN only (else EINVAL).
	 */
	IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ = 1U << 1,
	/* Using the domain needs its file opened for writing. */
	IB_XRC_DOMAIN_USE_NEEDS_WRITE = 1U << 2,
};

/* The rules of a domain. Written by its creator, never changed after that. */
struct ib_xrc_policy {
	/* enum ib_xrc_policy_type */
	__u32 type;
	/* enum ib_xrc_domain_flags */
	__u32 flags;
	/*
	 * Milliseconds that a TGT QP stays without registrations, and up to a
	 * sixteenth more; 0: as long as the domain. IB_XRC_POLICY_DOMAIN only
	 * (else EINVAL).
	 */
	__u32 linger_ms;
	/* TGT QPs, and SRQs, of the domain at a time; 0: not limited. */
	__u32 max_tgt_qps;
	__u32 max_srqs;
	/* Must be zero. */
	__u32 reserved;
	/*
	 * Bytes of receive buffers that the kernel keeps for TGT QPs and SRQs of
	 * the domain, see ib_xrc_limits, and of the pages of its MRs; 0: not
	 * limited.
	 */
	__aligned_u64 max_bytes;
};

/* A domain. All fields are written by the kernel. */
struct ib_xrc_xrcd_info {
	/* Inode and device number (new_encode_dev) of the file; 0 if anonymous. */
	__aligned_u64 inode;
	__u32 dev;
	/* enum ib_xrc_policy_type */
	__u32 policy;
	/* XRCD handles open on the domain, in all files. */
	__u32 handles;
	__u32 tgt_qps;
	__u32 srqs;
	__u32 reserved;
	/* Bytes that count against ib_xrc_policy.max_bytes. */
	__aligned_u64 bytes;
};

/* --------------------------------------------------------------- TGT QP -- */

enum ib_xrc_tgt_qp_methods {
	/*
	 * Create a TGT QP in the RESET state and register with it. The handle
	 * is the registration; the QP belongs to the domain.
	 */
	IB_XRC_METHOD_TGT_QP_CREATE = (1U << UVERBS_ID_NS_SHIFT),
	/* Register with a TGT QP of the domain, as ibv_open_qp(3). */
	IB_XRC_METHOD_TGT_QP_OPEN,
	/*
	 * Modify it, as ibv_modify_qp(3) on an IBV_QPT_XRC_RECV QP, by handle
	 * or by (domain, QPN) without a registration.
	 */
	IB_XRC_METHOD_TGT_QP_MODIFY,
	/* Query it, by handle or by (domain, QPN). */
	IB_XRC_METHOD_TGT_QP_QUERY,
	/* Several transitions in one call: see ib_xrc_tgt_qp_connect_attrs. */
	IB_XRC_METHOD_TGT_QP_CONNECT,
	/* Give the registration back. */
	IB_XRC_METHOD_TGT_QP_CLOSE,
	/* Stop receiving: see ib_xrc_tgt_qp_disconnect_attrs. */
	IB_XRC_METHOD_TGT_QP_DISCONNECT,
	/* List the registrations with it, oldest first, by handle or (domain, QPN). */
	IB_XRC_METHOD_TGT_QP_LIST_HOLDERS,
};

enum ib_xrc_tgt_qp_create_attrs {
	/* handle, new */
	IB_XRC_ATTR_TGT_QP_CREATE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_CREATE_XRCD,
	/* out u32: the QP number, 24 bits, which INI QPs connect to */
	IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM,
	/*
	 * ? raw fd: an event file of this file (else EBADF), which is told of
	 * errors and the reclaim of the TGT QP, until the handle is closed
	 */
	IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE,
	/* ? in u64: what these events carry; 0 if not given */
	IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE,
};

/*
 * EINVAL: the domain has no TGT QP of this number, or has it no more. Opening one
 * that has been in error since before reports the error once more, to the new
 * EVENT_FILE.
 */
enum ib_xrc_tgt_qp_open_attrs {
	/* handle, new */
	IB_XRC_ATTR_TGT_QP_OPEN_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_OPEN_XRCD,
	/* in u32 */
	IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM,
	/* ? raw fd: as IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE */
	IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE,
	/* ? in u64: as IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE */
	IB_XRC_ATTR_TGT_QP_OPEN_USER_HANDLE,
};

/*
 * Either HANDLE alone, or XRCD and QP_NUM (else EINVAL). ATTR.qp_attr_mask says
 * which fields of ATTR count; the masks that each transition needs and takes are
 * those of an XRC TGT QP (ib_modify_qp_is_ok()). Bits which libibverbs would not
 * pass for such a QP (IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY,
 * IBV_QP_MAX_QP_RD_ATOMIC) are ignored, as uverbs does.
 *
 * When it fails the QP stays in the state that it was in. If that is impossible, as
 * the device failed halfway, a query says which state it is in: RESET if it was not
 * connected, ERR if a RESET failed.
 */
enum ib_xrc_tgt_qp_modify_attrs {
	/* ? handle */
	IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_MODIFY_XRCD,
	/* ? in u32 */
	IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM,
	/* in struct ib_uverbs_qp_attr */
	IB_XRC_ATTR_TGT_QP_MODIFY_ATTR,
};

/* Either HANDLE alone, or XRCD and QP_NUM (else EINVAL). */
enum ib_xrc_tgt_qp_query_attrs {
	/* ? handle */
	IB_XRC_ATTR_TGT_QP_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_QUERY_XRCD,
	/* ? in u32 */
	IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM,
	/* ? out struct ib_uverbs_qp_attr: the attributes as the device has them */
	IB_XRC_ATTR_TGT_QP_QUERY_RESP_ATTR,
	/* ? out struct ib_xrc_tgt_qp_info */
	IB_XRC_ATTR_TGT_QP_QUERY_RESP_INFO,
};

/*
 * Either HANDLE alone, or XRCD and QP_NUM (else EINVAL). The call takes the QP
 * through RESET, INIT, RTR and RTS in this order, up to ATTR.qp_state, starting
 * after the state that the QP is in, synchronously in the caller's thread. Each
 * transition uses the fields of ATTR which it needs, and of the optional ones
 * those in ATTR.qp_attr_mask. ATTR.qp_state must be INIT, RTR or RTS and beyond
 * the present state (else EINVAL).
 *
 * When a transition fails the call returns its errno, the earlier ones stand,
 * and RESP_STATE (written on failure too) says which state the QP is in.
 *
 * ETIMEDOUT: TIMEOUT_MS passed before the next transition could begin; one that
 * has begun takes as long as the device takes. EINTR: a fatal signal came.
 */
enum ib_xrc_tgt_qp_connect_attrs {
	/* ? handle */
	IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_CONNECT_XRCD,
	/* ? in u32 */
	IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM,
	/* in struct ib_uverbs_qp_attr */
	IB_XRC_ATTR_TGT_QP_CONNECT_ATTR,
	/* ? out u32: enum ib_qp_state after the call */
	IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE,
	/* ? in u32: milliseconds; without it only the device limits the time */
	IB_XRC_ATTR_TGT_QP_CONNECT_TIMEOUT_MS,
};

enum ib_xrc_tgt_qp_close_attrs {
	/* handle */
	IB_XRC_ATTR_TGT_QP_CLOSE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

/*
 * One of HANDLE alone, RELEASE alone, or XRCD and QP_NUM (else EINVAL). EINVAL
 * also if the QP is in RESET: there is nothing to disconnect. The call takes the
 * QP to the ERR state, waits until the device has given all receive buffers back,
 * then up to TIMEOUT_MS for the messages that have arrived to be delivered: those
 * which find no buffer posted at their SRQ until then are dropped. So when it
 * returns 0 each message that the QP ever acknowledged was delivered or is counted
 * in RESP.
 *
 * With RELEASE the registration is given back as well, if the call succeeds.
 *
 * ETIMEDOUT: the device or the memory of a receiver took too long, some seconds
 * more than TIMEOUT_MS. EINTR: a fatal signal came. EIO: the device was removed
 * meanwhile. In these cases the QP is in the ERR state or on its way there, and
 * the call may be repeated.
 */
enum ib_xrc_tgt_qp_disconnect_attrs {
	/* ? handle */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? handle: closed if the call succeeds */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE,
	/* ? handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD,
	/* ? in u32 */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM,
	/* in u32: milliseconds that messages may wait for buffers */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS,
	/* ? out struct ib_xrc_disconnect_info */
	IB_XRC_ATTR_TGT_QP_DISCONNECT_RESP_INFO,
};

/* What a disconnect found. All fields are written by the kernel. */
struct ib_xrc_disconnect_info {
	/* Messages that arrived before, or during the call, and were delivered in it. */
	__aligned_u64 delivered_msgs;
	/* Messages that had arrived and were dropped by this call. */
	__aligned_u64 flushed_msgs;
};

/* Either HANDLE alone, or XRCD and QP_NUM (else EINVAL). */
enum ib_xrc_tgt_qp_list_holders_attrs {
	/* ? handle */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* ? handle of the XRCD */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD,
	/* ? in u32 */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM,
	/* ? out struct ib_xrc_holder_info[] */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS,
	/* out u32: how many there are, however many were written */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT,
	/* ? in u64: list and count only those with a greater id than this */
	IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_AFTER,
};

/* A registration. All fields are written by the kernel. */
struct ib_xrc_holder_info {
	/* Tells the registrations of a TGT QP apart; the first one's is 1. */
	__aligned_u64 id;
	/*
	 * The process that registered, in the pid namespace of the caller; 0 if it
	 * is not visible there. Its descriptor may have been passed on since.
	 */
	__u32 pid;
	__u32 reserved;
};

/* A TGT QP. All fields are written by the kernel. */
struct ib_xrc_tgt_qp_info {
	/* 24 bits. */
	__u32 qp_num;
	/* enum ib_qp_state */
	__u32 state;
	/* Registrations: handles in all files. */
	__u32 refs;
	/* QP number of the INI QP that it is connected to; 0 before RTR. */
	__u32 dest_qp_num;
	/* Messages received and handed to an SRQ, and their bytes. */
	__aligned_u64 recv_msgs;
	__aligned_u64 recv_bytes;
	/*
	 * Messages which have been refused (no such SRQ, too long, ...), without
	 * those that were dropped because they came after one.
	 */
	__aligned_u64 refused_msgs;
	__aligned_u64 reserved;
};

/* --------------------------------------------------- completion channel -- */

/*
 * A completion channel is a descriptor. poll(2) reports it readable while a
 * completion event waits; read(2) takes events as struct
 * ib_uverbs_comp_event_desc, whose cq_handle is the USER_HANDLE of the CQ, and
 * blocks unless O_NONBLOCK is set (then EAGAIN). EINVAL: the buffer holds not
 * even one. A CQ raises one event each time it was armed (struct
 * ib_xrc_cq_ring.arm); events of a CQ that were not read yet count as one. When
 * the device is gone read returns EIO and poll EPOLLERR.
 */
enum ib_xrc_comp_channel_methods {
	IB_XRC_METHOD_COMP_CHANNEL_CREATE = (1U << UVERBS_ID_NS_SHIFT),
};

enum ib_xrc_comp_channel_create_attrs {
	/* fd, new: close-on-exec */
	IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD = (1U << UVERBS_ID_NS_SHIFT),
};

/* ------------------------------------------------------------------- CQ -- */

enum ib_xrc_cq_methods {
	IB_XRC_METHOD_CQ_CREATE = (1U << UVERBS_ID_NS_SHIFT),
	/* EBUSY while an SRQ completes into it. */
	IB_XRC_METHOD_CQ_DESTROY,
};

/* EINVAL: CQE is 0 or above ib_xrc_limits.max_cqe. */
enum ib_xrc_cq_create_attrs {
	/* handle, new */
	IB_XRC_ATTR_CQ_CREATE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* in u32: entries wanted */
	IB_XRC_ATTR_CQ_CREATE_CQE,
	/* ? in u64: what completion events carry; 0 if not given */
	IB_XRC_ATTR_CQ_CREATE_USER_HANDLE,
	/* ? raw fd: a completion channel that was made by this file (else EBADF) */
	IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL,
	/* out struct ib_xrc_ring_info: struct ib_xrc_cq_ring */
	IB_XRC_ATTR_CQ_CREATE_RESP_RING,
};

enum ib_xrc_cq_destroy_attrs {
	/* handle */
	IB_XRC_ATTR_CQ_DESTROY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

/* Where a ring is and how long it is. All fields are written by the kernel. */
struct ib_xrc_ring_info {
	/*
	 * Offset to give to mmap(2) on this file, MAP_SHARED, read and write. The
	 * mapping is not inherited by a child of fork(2). EACCES: the ring is an
	 * SRQ's that another process has made.
	 */
	__aligned_u64 mmap_offset;
	/* Length to give to mmap(2), bytes, whole pages. */
	__aligned_u64 mmap_length;
	/* Entries of the ring: a power of two. */
	__u32 entries;
	/* Bytes from one entry to the next. */
	__u32 stride;
};

/*
 * Ring indices run freely modulo 2^32; the entry of index i is i & (entries - 1)
 * and lies IB_XRC_RING_ENTRIES_OFFSET + that * stride bytes from the ring's
 * start. The producer writes an entry, then its index with release order; the
 * consumer reads the index with acquire order, then the entry, then writes its own
 * index with release order. The kernel writes the first cache line of a ring,
 * userspace the second one. Whatever userspace writes harms only itself.
 */
#define IB_XRC_RING_ENTRIES_OFFSET 128

enum ib_xrc_cq_arm {
	IB_XRC_CQ_ARM_NONE = 0,
	/* Raise an event at the next completion. */
	IB_XRC_CQ_ARM_NEXT = 1,
	/* Raise one at the next completion of a solicited message, or in error. */
	IB_XRC_CQ_ARM_SOLICITED = 2,
};

enum ib_xrc_cq_ring_flags {
	/*
	 * A completion found the ring full and was lost. The CQ takes no more,
	 * as after IBV_EVENT_CQ_ERR; its SRQs accept no message.
	 */
	IB_XRC_CQ_RING_OVERFLOW = 1U << 0,
	/* The device is gone, no completion will come. */
	IB_XRC_CQ_RING_DEAD = 1U << 1,
};

struct ib_xrc_cq_ring {
	/* Index of the next completion. Written by the kernel. */
	__u32 producer;
	/* enum ib_xrc_cq_ring_flags. Written by the kernel. */
	__u32 flags;
	__u32 reserved1[14];
	/* Index of the next completion to be polled. Written by userspace. */
	__u32 consumer;
	/*
	 * enum ib_xrc_cq_arm. Written by userspace, which then issues a full
	 * barrier and polls once more, so that no completion is missed; taken
	 * back to NONE by the kernel (atomically) when it raises the event.
	 */
	__u32 arm;
	__u32 reserved2[14];
};

/* A completion, 64 bytes. All fields are written by the kernel. */
struct ib_xrc_cqe {
	/* wr_id of the receive work request. */
	__aligned_u64 wr_id;
	/* USER_HANDLE of the SRQ. */
	__aligned_u64 srq_user_handle;
	/* enum ib_wc_status */
	__u32 status;
	/* enum ib_xrc_wc_opcode */
	__u32 opcode;
	/* Bytes received; of an RDMA WRITE those written, as the sender says. */
	__u32 byte_len;
	/* enum ib_xrc_wc_flags */
	__u32 wc_flags;
	/* Immediate data if IB_XRC_WC_WITH_IMM is set, big endian as on the wire. */
	__be32 imm_data;
	/* The SRQ that the message was addressed to. */
	__u32 srq_num;
	/* The TGT QP that received it. */
	__u32 qp_num;
	/* The INI QP that sent it. */
	__u32 src_qp;
	__u32 reserved[4];
};

/* As enum ibv_wc_opcode of libibverbs. */
enum ib_xrc_wc_opcode {
	IB_XRC_WC_RECV = 1U << 7,
	IB_XRC_WC_RECV_RDMA_WITH_IMM = (1U << 7) + 1,
};

enum ib_xrc_wc_flags {
	/* imm_data is valid. */
	IB_XRC_WC_WITH_IMM = 1U << 0,
	/* The sender asked for a solicited event. */
	IB_XRC_WC_SOLICITED = 1U << 1,
};

/* ------------------------------------------------------------------ SRQ -- */

enum ib_xrc_srq_methods {
	/* As ibv_create_srq_ex(3) with IBV_SRQT_XRC. */
	IB_XRC_METHOD_SRQ_CREATE = (1U << UVERBS_ID_NS_SHIFT),
	/*
	 * Look at the posting ring: needed after posting only if
	 * IB_XRC_SRQ_RING_NEED_KICK is set in it.
	 */
	IB_XRC_METHOD_SRQ_KICK,
	/* Messages that wait for a buffer are dropped. */
	IB_XRC_METHOD_SRQ_DESTROY,
	/*
	 * Set the limit, as ibv_modify_srq(3). The size is for good: the ring is
	 * mapped.
	 */
	IB_XRC_METHOD_SRQ_MODIFY,
	/* Describe it, as ibv_query_srq(3). */
	IB_XRC_METHOD_SRQ_QUERY,
};

/*
 * EINVAL: MAX_WR or MAX_SGE is 0 or above ib_xrc_limits. Posted addresses are
 * those of the process that creates the SRQ.
 */
enum ib_xrc_srq_create_attrs {
	/* handle, new */
	IB_XRC_ATTR_SRQ_CREATE_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* handle of the XRCD */
	IB_XRC_ATTR_SRQ_CREATE_XRCD,
	/* handle of the CQ, of this file */
	IB_XRC_ATTR_SRQ_CREATE_CQ,
	/* in u32: work requests posted at a time */
	IB_XRC_ATTR_SRQ_CREATE_MAX_WR,
	/* in u32: scatter entries of one */
	IB_XRC_ATTR_SRQ_CREATE_MAX_SGE,
	/* ? in u64: what completions carry as srq_user_handle; 0 if not given */
	IB_XRC_ATTR_SRQ_CREATE_USER_HANDLE,
	/* out u32: the SRQ number, 24 bits, which senders name */
	IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM,
	/* out struct ib_xrc_ring_info: struct ib_xrc_srq_ring */
	IB_XRC_ATTR_SRQ_CREATE_RESP_RING,
	/*
	 * ? raw fd: an event file of this file (else EBADF), which is told of the
	 * SRQ's limit, backlog and error; its events carry USER_HANDLE
	 */
	IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE,
};

enum ib_xrc_srq_kick_attrs {
	/* handle */
	IB_XRC_ATTR_SRQ_KICK_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

enum ib_xrc_srq_destroy_attrs {
	/* handle */
	IB_XRC_ATTR_SRQ_DESTROY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

enum ib_xrc_srq_modify_attrs {
	/* handle */
	IB_XRC_ATTR_SRQ_MODIFY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/*
	 * in u32: raise IB_XRC_EVENT_SRQ_LIMIT once when fewer work requests than
	 * this are posted, at once if that is so already; 0: never. EINVAL: more
	 * than the ring has entries.
	 */
	IB_XRC_ATTR_SRQ_MODIFY_LIMIT,
};

enum ib_xrc_srq_query_attrs {
	/* handle */
	IB_XRC_ATTR_SRQ_QUERY_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* out struct ib_xrc_srq_attr */
	IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR,
};

/* What an SRQ is like. All fields are written by the kernel. */
struct ib_xrc_srq_attr {
	/* Work requests that fit: MAX_WR, rounded up. */
	__u32 max_wr;
	/* MAX_SGE */
	__u32 max_sge;
	/* The limit; 0: there is none, or its event was raised. */
	__u32 limit;
	__u32 reserved;
};

/* An SRQ. All fields are written by the kernel. */
struct ib_xrc_srq_info {
	/* 24 bits. */
	__u32 srq_num;
	/* enum ib_xrc_srq_ring_flags */
	__u32 flags;
	/* As ib_xrc_holder_info.pid: the process whose memory is posted. */
	__u32 pid;
	/* Messages that wait for a buffer, or are being delivered. */
	__u32 waiting_msgs;
	/* Messages delivered. */
	__aligned_u64 recv_msgs;
};

enum ib_xrc_srq_ring_flags {
	/*
	 * Messages wait for buffers: after posting (a full barrier between the
	 * producer index and this test) call IB_XRC_METHOD_SRQ_KICK.
	 */
	IB_XRC_SRQ_RING_NEED_KICK = 1U << 0,
	/*
	 * The SRQ is in error and takes no more messages: a posted entry or the
	 * producer index made no sense, its CQ overflowed, or the device is gone.
	 */
	IB_XRC_SRQ_RING_ERROR = 1U << 1,
};

struct ib_xrc_srq_ring {
	/* Index of the next work request to be used. Written by the kernel. */
	__u32 consumer;
	/* enum ib_xrc_srq_ring_flags. Written by the kernel. */
	__u32 flags;
	__u32 reserved1[14];
	/* Index of the next work request to be posted. Written by userspace. */
	__u32 producer;
	__u32 reserved2[15];
};

/*
 * A receive work request, written by userspace: the ring's stride is 16 + 16 *
 * the SRQ's MAX_SGE bytes. sge[].lkey is ignored: the kernel copies with the
 * rights that the creator of the SRQ has on its own memory. A message longer than
 * the buffers together completes with IB_WC_LOC_LEN_ERR, one for which a buffer
 * cannot be written with IB_WC_LOC_PROT_ERR.
 *
 * Nothing is pinned: what counts is what is mapped when a part of the message is
 * copied. It is as if the creator wrote there at that time, but that the kernel does
 * not wait for another process to bring a page: memory of which userfaultfd(2) is to
 * be asked, and files on FUSE, cannot be written. When the creator has exited, or
 * called execve(2), none can.
 */
struct ib_xrc_recv_wqe {
	__aligned_u64 wr_id;
	__u32 num_sge;
	__u32 reserved;
	struct ib_uverbs_sge sge[];
};

/* ------------------------------------------------------------------- MR -- */

enum ib_xrc_mr_methods {
	/*
	 * Register memory of the calling process, as ibv_reg_mr(3), for who sends
	 * to a TGT QP of the domain: any of them, whoever made it and whatever job
	 * key it has. The memory is pinned and stays even if it is unmapped.
	 */
	IB_XRC_METHOD_MR_REG = (1U << UVERBS_ID_NS_SHIFT),
	/* When this returns the memory is accessed no more. */
	IB_XRC_METHOD_MR_DEREG,
};

/*
 * EINVAL: IOVA and ADDR differ in their offset in the page, ADDR + LENGTH
 * overflows, no page is touched, ACCESS_FLAGS has unknown bits, or has
 * REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE. EOPNOTSUPP: ACCESS_FLAGS has
 * others than LOCAL_WRITE, REMOTE_READ, REMOTE_WRITE, REMOTE_ATOMIC and those of
 * IB_UVERBS_ACCESS_OPTIONAL_RANGE; or the device's driver registers memory for
 * uverbs only (irdma, mthca, hns); or some of the memory is registered with
 * userfaultfd(2), or of a file on FUSE, even if its pages are there: other than with
 * ibv_reg_mr(3), nobody waits for another process to bring them. EFAULT: the memory
 * is not there, or may not be written and LOCAL_WRITE is asked for. ENOMEM:
 * RLIMIT_MEMLOCK. EPERM: that is 0. EINTR: a fatal signal came.
 *
 * A request that the MR does not allow fails at the sender as IBTA says, and puts
 * the TGT QP in error.
 */
enum ib_xrc_mr_reg_attrs {
	/* handle, new */
	IB_XRC_ATTR_MR_REG_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
	/* handle of the XRCD */
	IB_XRC_ATTR_MR_REG_XRCD,
	/* in u64: where the memory is */
	IB_XRC_ATTR_MR_REG_ADDR,
	/* in u64: bytes; its pages count against ib_xrc_policy.max_bytes */
	IB_XRC_ATTR_MR_REG_LENGTH,
	/* ? in u64: the address by which senders name the start; ADDR if not given */
	IB_XRC_ATTR_MR_REG_IOVA,
	/* in u32: enum ib_uverbs_access_flags */
	IB_XRC_ATTR_MR_REG_ACCESS_FLAGS,
	/* out u32: the key by which senders name the MR */
	IB_XRC_ATTR_MR_REG_RESP_RKEY,
};

enum ib_xrc_mr_dereg_attrs {
	/* handle */
	IB_XRC_ATTR_MR_DEREG_HANDLE = (1U << UVERBS_ID_NS_SHIFT),
};

/* ----------------------------------------------------------- event file -- */

/*
 * An event file is a descriptor for asynchronous events. poll(2) reports it
 * readable while one waits; read(2) takes as many as fit, each a struct
 * ib_xrc_event, and blocks for the first unless O_NONBLOCK is set (then EAGAIN).
 * EINVAL: the buffer holds not even one. A file may have several, and each
 * object says which one it reports to, if any. Ports and the device report to
 * all of them.
 *
 * The queue is bounded. What finds it full is dropped, and
 * IB_XRC_EVENT_OVERFLOW takes its place: it comes after the events which were
 * queued before, and says how many were dropped. Events of an object that was
 * closed are no longer in the queue when the close returns.
 *
 * When the device is removed, IB_XRC_EVENT_DEVICE_REMOVED is the last event:
 * it is never dropped, and once it was read, read returns EIO. poll reports
 * EPOLLERR from the removal on.
 */
enum ib_xrc_event_file_methods {
	IB_XRC_METHOD_EVENT_FILE_CREATE = (1U << UVERBS_ID_NS_SHIFT),
};

/* EINVAL: DEPTH is 0 or above IB_XRC_EVENT_FILE_MAX_DEPTH. */
enum ib_xrc_event_file_create_attrs {
	/* fd, new: close-on-exec */
	IB_XRC_ATTR_EVENT_FILE_CREATE_FD = (1U << UVERBS_ID_NS_SHIFT),
	/* ? in u32: events that can wait; IB_XRC_EVENT_FILE_DEPTH if not given */
	IB_XRC_ATTR_EVENT_FILE_CREATE_DEPTH,
};

#define IB_XRC_EVENT_FILE_DEPTH 256
#define IB_XRC_EVENT_FILE_MAX_DEPTH 4096

enum ib_xrc_event_type {
	/* Events were dropped here: VALUE says how many. */
	IB_XRC_EVENT_OVERFLOW = 0,
	/* XRCD: somebody created TGT QP NUMBER. */
	IB_XRC_EVENT_TGT_QP_CREATED = 1,
	/*
	 * TGT QP: NUMBER is in error; VALUE is an enum ib_event_type. If it is
	 * destroyed for that, TGT_QP_RECLAIMED follows.
	 */
	IB_XRC_EVENT_TGT_QP_ERROR = 2,
	/*
	 * XRCD and TGT QP: NUMBER was destroyed; VALUE is an enum
	 * ib_xrc_reclaim_reason.
	 */
	IB_XRC_EVENT_TGT_QP_RECLAIMED = 3,
	/* SRQ: fewer than the limit are posted to SRQ NUMBER; VALUE is the limit. */
	IB_XRC_EVENT_SRQ_LIMIT = 4,
	/*
	 * SRQ: so many messages wait for buffers at SRQ NUMBER that senders are
	 * held back from now on; VALUE says how many. Raised again only after
	 * all of them were delivered.
	 */
	IB_XRC_EVENT_SRQ_BACKLOG = 5,
	/* Port NUMBER of the device became active, or ceased to be. */
	IB_XRC_EVENT_PORT_ACTIVE = 6,
	IB_XRC_EVENT_PORT_DOWN = 7,
	/* The device is gone; nothing comes after this. */
	IB_XRC_EVENT_DEVICE_REMOVED = 8,
	/*
	 * SRQ: NUMBER takes no more messages (IB_XRC_SRQ_RING_ERROR); VALUE is an
	 * enum ib_xrc_srq_error.
	 */
	IB_XRC_EVENT_SRQ_ERROR = 9,
};

enum ib_xrc_reclaim_reason {
	/* Its last registration was given back. */
	IB_XRC_RECLAIM_LAST_REF = 1,
	/* An async error hit it, or it was without registrations in ERR. */
	IB_XRC_RECLAIM_ERROR = 2,
	/* It was without registrations for ib_xrc_policy.linger_ms. */
	IB_XRC_RECLAIM_LINGER = 3,
	/* It was without registrations, and the domain without SRQs. */
	IB_XRC_RECLAIM_LAST_SRQ = 4,
};

/* Why an SRQ is in error, other than that the device is gone. */
enum ib_xrc_srq_error {
	/* A posted entry or the producer index made no sense. */
	IB_XRC_SRQ_ERROR_RING = 1,
	/* Its CQ is full: see IB_XRC_CQ_RING_OVERFLOW. */
	IB_XRC_SRQ_ERROR_CQ = 2,
};

/* An event, 24 bytes. All fields are written by the kernel. */
struct ib_xrc_event {
	/* USER_HANDLE of the object that it is reported for; else 0. */
	__aligned_u64 user_handle;
	/* enum ib_xrc_event_type */
	__u32 type;
	/* QP number, SRQ number or port number. */
	__u32 number;
	/* See enum ib_xrc_event_type; else 0. */
	__u32 value;
	__u32 reserved;
};

/* ------------------------------------------------------ XRC over RC wire -- */

/*
 * The soft backend's wire format. An INI QP is any RC QP connected to a TGT QP. A
 * SEND travels as one SEND_WITH_IMM or several, its parts, whose immediate (host
 * order before htonl) is (SRQ number << 8) | flags. Each part but the last has a
 * payload of IB_XRC_WIRE_PART_SIZE bytes, its header included, and the last one at
 * least one byte; nothing else is sent to an SRQ between them.
 */
#define IB_XRC_WIRE_SRQ_NUM_SHIFT 8
#define IB_XRC_WIRE_SRQ_NUM_MAX 0xffffff
#define IB_XRC_WIRE_PART_SIZE 4096

enum ib_xrc_wire_flags {
	/*
	 * The payload starts with struct ib_xrc_wire_hdr, which carries an
	 * immediate. In the first part only.
	 */
	IB_XRC_WIRE_HDR = 1U << 0,
	/* The sender set IBV_SEND_SOLICITED. In the last part only. */
	IB_XRC_WIRE_SOLICITED = 1U << 1,
	/* Another part of the message follows. */
	IB_XRC_WIRE_MORE = 1U << 2,
	/* The message continues from the part before, which was to the same SRQ. */
	IB_XRC_WIRE_CONT = 1U << 3,
	/*
	 * No message: an RDMA_WRITE_WITH_IMM, of which the RDMA WRITE came just
	 * before. Takes a work request of the SRQ, whose buffers stay as they are.
	 * With IB_XRC_WIRE_HDR and maybe IB_XRC_WIRE_SOLICITED, and nothing after
	 * the header.
	 */
	IB_XRC_WIRE_WRITE = 1U << 4,
};

struct ib_xrc_wire_hdr {
	/* Immediate data of the message, big endian. */
	__be32 imm_data;
	/* With IB_XRC_WIRE_WRITE: bytes written, up to 2^31, big endian. Else zero. */
	__be32 write_len;
};

#endif /* IB_USER_XRC_H */
