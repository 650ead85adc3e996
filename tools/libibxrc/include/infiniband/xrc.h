/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * libibxrc: XRC domains on any RDMA device.
 *
 * With XRC the processes of a host share one connection for each remote peer.
 * The sender names in each message the SRQ of the process that shall have it.
 * The receiving end of a connection is a TGT QP, which belongs to a domain
 * (XRCD) and not to a process: it lives until the last process that registered
 * with it has closed it or is gone, or for as long as the domain's policy says.
 *
 * A receiver does
 *
 *	ctx = ibxrc_open("rxe0");
 *	xrcd = ibxrc_open_xrcd(ctx, fd, O_CREAT);	the same file in each process
 *	cq = ibxrc_create_cq(ctx, 256, NULL, NULL);
 *	srq = ibxrc_create_srq(xrcd, cq, 128, 1, NULL);
 *	ibxrc_post_srq_recv(srq, &wr, &bad_wr);
 *	qp = ibxrc_create_tgt_qp(xrcd);			one process of all
 *	ibxrc_connect_tgt_qp(qp, &attr, mask, NULL);	to the sender's QP
 *	qp = ibxrc_open_tgt_qp(xrcd, qp_num);		the other processes
 *	ibxrc_poll_cq(cq, 16, wc);
 *
 * and a sender uses libibverbs with an ordinary RC QP, which it connects to the
 * TGT QP: see "senders" at the end.
 *
 * Conventions, which are those of libibverbs:
 *
 * - Functions that return a pointer return NULL and set errno when they fail.
 *   Functions that return int return 0 or an errno value, unless they say
 *   otherwise. ibxrc_error_message() has a sentence that explains.
 * - NULL for a pointer that is not said to be optional gives EINVAL.
 * - EIO means that the device is gone. Closing and destroying still work.
 * - ESTALE means that the TGT QP was destroyed although there are registrations
 *   (IB_XRC_DOMAIN_RECLAIM_REFERENCED). Closing them still works.
 * - EACCES means that the domain may be looked at only
 *   (IB_XRC_DOMAIN_USE_NEEDS_WRITE), or that the TGT QP has another job key.
 * - EPROTONOSUPPORT means that the kernel module is older than this library.
 * - Structures with a comp_mask may become longer. A field that has a bit of its
 *   own counts only if comp_mask has it. An unknown bit gives EOPNOTSUPP.
 * - All functions may be called from several threads at a time, also on the same
 *   object; but an object must not be in use while it is closed or destroyed.
 * - A child of fork(2) shares the objects with its parent and what it closes is
 *   closed for both. The child should not use them, or should exec.
 * - QP numbers, SRQ numbers, PSNs: host byte order, 24 bits. GUIDs, GIDs and
 *   immediate data: network byte order.
 */
#ifndef INFINIBAND_XRC_H
#define INFINIBAND_XRC_H

#include <stddef.h>
#include <stdint.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_xrc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An open device. */
struct ibxrc_context;
/* A handle on a domain. */
struct ibxrc_xrcd;
/* A registration with a TGT QP. */
struct ibxrc_tgt_qp;
/* A descriptor that tells of completions. */
struct ibxrc_comp_channel;
/* A completion queue. */
struct ibxrc_cq;
/* An XRC shared receive queue. */
struct ibxrc_srq;
/* Memory that is registered in a domain. */
struct ibxrc_mr;
/* A descriptor that tells of asynchronous events. */
struct ibxrc_event_file;
/* What makes an RC QP of libibverbs the sender's end of a connection. */
struct ibxrc_ini_qp;

/*
 * A completion. Of wc are valid: wr_id, status, qp_num (the TGT QP)
 * and, if status is IBV_WC_SUCCESS: opcode (IBV_WC_RECV), byte_len, src_qp (the
 * sender's QP), wc_flags (IBV_WC_WITH_IMM) and imm_data.
 */
struct ibxrc_wc {
	struct ibv_wc wc;
	/* What ibxrc_create_srq() got as srq_context. */
	void *srq_context;
	/* Number of the SRQ. */
	uint32_t srq_num;
	/* The sender asked for a solicited event: 1, else 0. */
	uint32_t solicited;
};

/*
 * A sentence about the last call of this thread that failed: what could not be
 * done, why, and where it is known what to do about it. It is valid until the
 * thread's next call into this library. Never NULL.
 */
const char *ibxrc_error_message(void);

/* ------------------------------------------------------------- devices -- */

/*
 * List the devices that may be opened. Writes at most max elements to devices
 * (which may be NULL if max is 0) and to *count how many devices there are, which
 * may be more.
 *
 * Errors: ENOENT the kernel module is not loaded; EACCES no permission to open
 * the character device.
 */
int ibxrc_list_devices(struct ib_xrc_device_info *devices, uint32_t max,
		       uint32_t *count);

/*
 * Open a device by its name as in rdma(8), for example "rxe0".
 *
 * Errors: as ibxrc_list_devices(); ENODEV there is no such device, it cannot do
 * RC, or it is in another network namespace; EPROTO the kernel module is of an
 * incompatible version.
 */
struct ibxrc_context *ibxrc_open(const char *device_name);

/* Open a device by its index as in rdma(8). Errors: as ibxrc_open(). */
struct ibxrc_context *ibxrc_open_index(uint32_t index);

/* Close it. EBUSY: objects made with it still exist; it stays open. */
int ibxrc_close(struct ibxrc_context *context);

/*
 * Describe the open device and the limits of the module. Either pointer may be
 * NULL.
 */
int ibxrc_query(struct ibxrc_context *context, struct ib_xrc_device_info *device,
		struct ib_xrc_limits *limits);

/* -------------------------------------------------------------- events -- */

/*
 * Create an event file, which tells of what happens to domains, TGT QPs and SRQs
 * that are opened or created with it, and of the ports and the removal of the
 * device. A context may have several.
 *
 * depth is how many events can wait (EINVAL: 0 or above
 * IB_XRC_EVENT_FILE_MAX_DEPTH); IB_XRC_EVENT_FILE_DEPTH is a good value. Events
 * that find it full are dropped, and IB_XRC_EVENT_OVERFLOW says how many.
 */
struct ibxrc_event_file *ibxrc_create_event_file(struct ibxrc_context *context,
						 uint32_t depth);

/*
 * Destroy it. EBUSY: domains, TGT QPs or SRQs that report to it still exist; it
 * stays as it is.
 */
int ibxrc_destroy_event_file(struct ibxrc_event_file *file);

/*
 * The descriptor of the event file, for poll(2) and epoll(7): readable while an
 * event waits. It belongs to the event file. -1 with errno if file is NULL.
 */
int ibxrc_event_file_fd(const struct ibxrc_event_file *file);

/*
 * Take up to num_entries (1 or more, else EINVAL) events, and wait for the first
 * unless the descriptor is set to O_NONBLOCK. Returns their number, or -1 with
 * errno: EAGAIN there is none, and it does not wait; EINTR a signal came; EIO the
 * device is gone, and IB_XRC_EVENT_DEVICE_REMOVED has been taken.
 *
 * user_handle of an event is the address that the object was given as its
 * context; ib_user_xrc.h says what the rest of it means. Events of an object that
 * was closed do not come any more. They need no acknowledgement.
 */
int ibxrc_read_events(struct ibxrc_event_file *file, int num_entries,
		      struct ib_xrc_event *events);

/* ------------------------------------------------------------- domains -- */

/*
 * Open the domain of the file that fd is open on (as ibv_open_xrcd(3); the
 * inode counts, not the name), or with fd -1 a new one that only this handle has.
 * Of oflags count O_CREAT and O_EXCL. fd may be closed afterwards.
 *
 * Errors: EBADF fd is not open; EAGAIN the file has no domain and O_CREAT is not
 * given; EINVAL it has one and O_EXCL is given.
 */
struct ibxrc_xrcd *ibxrc_open_xrcd(struct ibxrc_context *context, int fd,
				   int oflags);

enum ibxrc_xrcd_init_attr_mask {
	IBXRC_XRCD_INIT_ATTR_POLICY = 1 << 0,
	IBXRC_XRCD_INIT_ATTR_JOB_KEY = 1 << 1,
	IBXRC_XRCD_INIT_ATTR_EVENTS = 1 << 2,
};

struct ibxrc_xrcd_init_attr {
	/* enum ibxrc_xrcd_init_attr_mask */
	uint32_t comp_mask;
	/* As with ibxrc_open_xrcd(). */
	int fd;
	int oflags;
	/*
	 * IBXRC_XRCD_INIT_ATTR_POLICY: the rules of the domain, if it is made. All 0
	 * is what a domain gets whose maker gives none. Without them the opener
	 * takes the domain as it is.
	 */
	const struct ib_xrc_policy *policy;
	/*
	 * IBXRC_XRCD_INIT_ATTR_JOB_KEY: the key of the TGT QPs and SRQs that are made
	 * with the handle. Messages are accepted only if TGT QP and SRQ have the
	 * same, or none.
	 */
	uint64_t job_key;
	/*
	 * IBXRC_XRCD_INIT_ATTR_EVENTS: where to report TGT QPs that are created in the
	 * domain or reclaimed, until the handle is closed, and what these events
	 * carry as user_handle. The event file must be of the same context.
	 */
	struct ibxrc_event_file *event_file;
	void *xrcd_context;
};

/*
 * The same with a policy, a job key and events.
 *
 * fd must be open for reading and, to make a domain with a policy, for writing
 * (else EACCES). If the domain has IB_XRC_DOMAIN_USE_NEEDS_WRITE, it decides once
 * and for all what the handle may do: if it is not open for writing, query and
 * list only.
 *
 * Errors: as ibxrc_open_xrcd(); EEXIST the domain is there, and has another
 * policy; EINVAL the policy makes no sense; EACCES as above.
 */
struct ibxrc_xrcd *ibxrc_open_xrcd_ex(struct ibxrc_context *context,
				      const struct ibxrc_xrcd_init_attr *attr);

/*
 * Close the handle. EBUSY: TGT QPs, SRQs or MRs made with it still exist; it
 * stays open.
 */
int ibxrc_close_xrcd(struct ibxrc_xrcd *xrcd);

/* Describe the domain. */
int ibxrc_query_xrcd(struct ibxrc_xrcd *xrcd, struct ib_xrc_xrcd_info *info);

/* Tell the rules of the domain. */
int ibxrc_query_xrcd_policy(struct ibxrc_xrcd *xrcd,
			    struct ib_xrc_policy *policy);

/*
 * List the TGT QPs of the domain, whoever made them, in the order of their
 * numbers. Writes at most max elements to qps (which may be NULL if max is 0) and
 * to *count how many there are, which may be more.
 */
int ibxrc_list_tgt_qps(struct ibxrc_xrcd *xrcd, struct ib_xrc_tgt_qp_info *qps,
		       uint32_t max, uint32_t *count);

/* The same for its SRQs. */
int ibxrc_list_srqs(struct ibxrc_xrcd *xrcd, struct ib_xrc_srq_info *srqs,
		    uint32_t max, uint32_t *count);

/* ------------------------------------------------------------- TGT QPs -- */

/*
 * Create a TGT QP, in the RESET state, and register with it. EDQUOT: the domain
 * has as many as its policy lets it.
 */
struct ibxrc_tgt_qp *ibxrc_create_tgt_qp(struct ibxrc_xrcd *xrcd);

/*
 * Register with the domain's TGT QP of this number, as ibv_open_qp(3): it lives
 * at least until this registration is closed, or its process gone. EINVAL: the
 * domain has no such TGT QP.
 */
struct ibxrc_tgt_qp *ibxrc_open_tgt_qp(struct ibxrc_xrcd *xrcd, uint32_t qp_num);

enum ibxrc_tgt_qp_init_attr_mask {
	IBXRC_TGT_QP_INIT_ATTR_EVENTS = 1 << 0,
};

struct ibxrc_tgt_qp_init_attr {
	/* enum ibxrc_tgt_qp_init_attr_mask */
	uint32_t comp_mask;
	/*
	 * IBXRC_TGT_QP_INIT_ATTR_EVENTS: where to report errors of the TGT QP and that
	 * it is reclaimed, until the registration is closed, and what these events
	 * carry as user_handle. The event file must be of the same context.
	 */
	struct ibxrc_event_file *event_file;
	void *qp_context;
};

/*
 * The same with events. Opening a TGT QP that is in error already reports the
 * error once more, to who opens it.
 */
struct ibxrc_tgt_qp *
ibxrc_create_tgt_qp_ex(struct ibxrc_xrcd *xrcd,
		       const struct ibxrc_tgt_qp_init_attr *attr);
struct ibxrc_tgt_qp *
ibxrc_open_tgt_qp_ex(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
		     const struct ibxrc_tgt_qp_init_attr *attr);

/*
 * Give the registration back. With the last one the TGT QP is destroyed, unless
 * the domain's policy is IB_XRC_POLICY_DOMAIN.
 */
int ibxrc_close_tgt_qp(struct ibxrc_tgt_qp *qp);

/* The number of the TGT QP, which the sender connects to; 0 if qp is NULL. */
uint32_t ibxrc_tgt_qp_num(const struct ibxrc_tgt_qp *qp);

/*
 * Modify the TGT QP, as ibv_modify_qp(3) on a QP of type IBV_QPT_XRC_RECV:
 * attr_mask (enum ibv_qp_attr_mask) says which fields of attr count. Every process
 * that has the domain open may modify every TGT QP in it: with
 * ibxrc_modify_tgt_qpn() by number and without a registration.
 *
 * Errors: EINVAL the transition is not allowed, fields are missing or wrong, or
 * the domain has no such TGT QP; EOPNOTSUPP attr_mask has a bit that a TGT QP
 * does not know (IBV_QP_RATE_LIMIT).
 */
int ibxrc_modify_tgt_qp(struct ibxrc_tgt_qp *qp, const struct ibv_qp_attr *attr,
			int attr_mask);
int ibxrc_modify_tgt_qpn(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
			 const struct ibv_qp_attr *attr, int attr_mask);

/*
 * Query the attributes of the TGT QP as the device has them, and its state,
 * registrations and counters. Either output may be NULL. Errors: EINVAL the
 * domain has no such TGT QP.
 */
int ibxrc_query_tgt_qp(struct ibxrc_tgt_qp *qp, struct ibv_qp_attr *attr,
		       struct ib_xrc_tgt_qp_info *info);
int ibxrc_query_tgt_qpn(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
			struct ibv_qp_attr *attr,
			struct ib_xrc_tgt_qp_info *info);

/*
 * Take the TGT QP through INIT, RTR and RTS, up to attr->qp_state, in one call.
 * Each transition takes from attr the fields that it needs and those optional
 * ones which attr_mask names. IBV_QP_STATE must be in attr_mask.
 *
 * INIT needs port_num, pkey_index, qp_access_flags; RTR ah_attr, path_mtu,
 * dest_qp_num, rq_psn, max_dest_rd_atomic, min_rnr_timer; RTS timeout, sq_psn. A
 * TGT QP receives from RTR on.
 *
 * When a transition fails, those before it stand. *state (if state is not NULL)
 * is the state of the QP after the call, also when it fails.
 *
 * Errors: as ibxrc_modify_tgt_qp(); EINVAL attr->qp_state is not beyond the
 * present state.
 */
int ibxrc_connect_tgt_qp(struct ibxrc_tgt_qp *qp, const struct ibv_qp_attr *attr,
			 int attr_mask, enum ibv_qp_state *state);
int ibxrc_connect_tgt_qpn(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
			  const struct ibv_qp_attr *attr, int attr_mask,
			  enum ibv_qp_state *state);

/*
 * The same, beginning no transition any more when timeout_ms milliseconds have
 * passed: ETIMEDOUT. One that has begun takes as long as the device takes.
 */
int ibxrc_connect_tgt_qp_timeout(struct ibxrc_tgt_qp *qp,
				 const struct ibv_qp_attr *attr, int attr_mask,
				 uint32_t timeout_ms, enum ibv_qp_state *state);
int ibxrc_connect_tgt_qpn_timeout(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
				  const struct ibv_qp_attr *attr, int attr_mask,
				  uint32_t timeout_ms, enum ibv_qp_state *state);

/*
 * Take the TGT QP to the ERR state, and wait for the messages that have arrived:
 * each is delivered or, if no buffer for it is posted within timeout_ms
 * milliseconds, dropped and counted in *info (optional).
 *
 * Errors: EINVAL the TGT QP is in the RESET state, or the domain has no such TGT QP;
 * ETIMEDOUT the device or the memory of a receiver took too long, some seconds more
 * than timeout_ms. The TGT QP is in the ERR state or on its way there then, and the
 * call may be repeated.
 */
int ibxrc_disconnect_tgt_qp(struct ibxrc_tgt_qp *qp, uint32_t timeout_ms,
			    struct ib_xrc_disconnect_info *info);
int ibxrc_disconnect_tgt_qpn(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
			     uint32_t timeout_ms,
			     struct ib_xrc_disconnect_info *info);

/*
 * The same, and give the registration back, as ibxrc_close_tgt_qp(). When it fails
 * the registration stays.
 */
int ibxrc_disconnect_close_tgt_qp(struct ibxrc_tgt_qp *qp, uint32_t timeout_ms,
				  struct ib_xrc_disconnect_info *info);

/*
 * List the registrations with the TGT QP, in all processes, oldest first. Writes at
 * most max elements to holders (which may be NULL if max is 0) and to *count how
 * many there are, which may be more. EINVAL: the domain has no such TGT QP.
 */
int ibxrc_list_tgt_qp_holders(struct ibxrc_tgt_qp *qp,
			      struct ib_xrc_holder_info *holders, uint32_t max,
			      uint32_t *count);
int ibxrc_list_tgt_qpn_holders(struct ibxrc_xrcd *xrcd, uint32_t qp_num,
			       struct ib_xrc_holder_info *holders, uint32_t max,
			       uint32_t *count);

/* --------------------------------------------------------- completions -- */

/* Create a channel, which tells of completions of CQs made with it. */
struct ibxrc_comp_channel *
ibxrc_create_comp_channel(struct ibxrc_context *context);

/*
 * Destroy it. EBUSY: CQs made with it still exist; the channel stays as it is.
 */
int ibxrc_destroy_comp_channel(struct ibxrc_comp_channel *channel);

/*
 * The descriptor of the channel, for poll(2): readable while an event waits. It
 * belongs to the channel. -1 with errno if channel is NULL.
 */
int ibxrc_comp_channel_fd(const struct ibxrc_comp_channel *channel);

/*
 * Wait for an event and take it: *cq_context becomes the cq_context of the CQ
 * that raised it. Events need no acknowledgement. EAGAIN: there is none, and the
 * descriptor is set to O_NONBLOCK.
 */
int ibxrc_get_cq_event(struct ibxrc_comp_channel *channel, void **cq_context);

/*
 * Create a CQ with room for at least cqe completions (up to
 * ib_xrc_limits.max_cqe, else EINVAL). channel may be NULL.
 *
 * If completions are not polled and the CQ runs full, completions are lost and it
 * is in error, as with libibverbs: make it as large as the SRQs on it together.
 */
struct ibxrc_cq *ibxrc_create_cq(struct ibxrc_context *context, int cqe,
				 void *cq_context,
				 struct ibxrc_comp_channel *channel);

/* Destroy it. EBUSY: an SRQ completes into it. */
int ibxrc_destroy_cq(struct ibxrc_cq *cq);

/*
 * Take up to num_entries completions. Returns their number, 0 if there are none,
 * or -1 with errno: EIO the device is gone, EOVERFLOW completions were lost; both
 * are told only after all completions that were not lost have been taken.
 */
int ibxrc_poll_cq(struct ibxrc_cq *cq, int num_entries, struct ibxrc_wc *wc);

/*
 * Ask for one event on the channel at the next completion or, with
 * solicited_only, at the next one for which the sender asked for it or which
 * failed. Completions that are in the CQ already raise none: poll it once more
 * after this call, then wait.
 */
int ibxrc_req_notify_cq(struct ibxrc_cq *cq, int solicited_only);

/* ---------------------------------------------------------------- SRQs -- */

/*
 * Create an XRC SRQ in the domain, with room for at least max_wr posted work
 * requests of up to max_sge scatter entries, completing into cq, which must be of
 * the same context.
 *
 * Errors: EINVAL above ib_xrc_limits, or 0; EDQUOT the domain has as many as its
 * policy lets it.
 */
struct ibxrc_srq *ibxrc_create_srq(struct ibxrc_xrcd *xrcd, struct ibxrc_cq *cq,
				   uint32_t max_wr, uint32_t max_sge,
				   void *srq_context);

enum ibxrc_srq_init_attr_mask {
	IBXRC_SRQ_INIT_ATTR_EVENTS = 1 << 0,
};

struct ibxrc_srq_init_attr {
	/* enum ibxrc_srq_init_attr_mask */
	uint32_t comp_mask;
	/* As with ibxrc_create_srq(). */
	uint32_t max_wr;
	uint32_t max_sge;
	void *srq_context;
	/*
	 * IBXRC_SRQ_INIT_ATTR_EVENTS: where to report that the limit is reached,
	 * that messages back up, and that it is in error. The events carry srq_context
	 * as user_handle. The event file must be of the same context.
	 */
	struct ibxrc_event_file *event_file;
};

/* The same with events. */
struct ibxrc_srq *ibxrc_create_srq_ex(struct ibxrc_xrcd *xrcd,
				      struct ibxrc_cq *cq,
				      const struct ibxrc_srq_init_attr *attr);

/*
 * Ask for one IB_XRC_EVENT_SRQ_LIMIT when fewer work requests than limit are posted,
 * at once if that is so already, as ibv_modify_srq(3) with IBV_SRQ_LIMIT. After it
 * there is no limit any more; 0 takes it away. EINVAL: more than fit.
 */
int ibxrc_set_srq_limit(struct ibxrc_srq *srq, uint32_t limit);

/*
 * As ibv_query_srq(3): how many work requests fit, scatter entries of one, and the
 * limit, which is 0 again once it was told.
 */
int ibxrc_query_srq(struct ibxrc_srq *srq, struct ibv_srq_attr *attr);

/*
 * Destroy it. Buffers that are still posted come back without completion;
 * messages that wait for a buffer are dropped.
 */
int ibxrc_destroy_srq(struct ibxrc_srq *srq);

/* The number of the SRQ, which senders address; 0 if srq is NULL. */
uint32_t ibxrc_get_srq_num(const struct ibxrc_srq *srq);

/*
 * Post receive buffers. sg_list[].lkey is ignored, no memory registration is
 * needed. Messages that have been waiting for a buffer may complete during the call.
 * A message that is longer than its buffers completes with IBV_WC_LOC_LEN_ERR.
 *
 * On error *bad_wr (optional) is the first work request that was not posted:
 * ENOMEM the SRQ is full; EINVAL more than max_sge entries; EIO the SRQ is in error
 * or the device is gone.
 */
int ibxrc_post_srq_recv(struct ibxrc_srq *srq, struct ibv_recv_wr *wr,
			struct ibv_recv_wr **bad_wr);

/* ---------------------------------------------------------------- MRs -- */

/*
 * Register memory of this process in the domain, as ibv_reg_mr(3): whoever sends
 * to a TGT QP of the domain may access it by RDMA READ, RDMA WRITE and atomics as
 * far as access (enum ibv_access_flags: IBV_ACCESS_LOCAL_WRITE, _REMOTE_READ,
 * _REMOTE_WRITE, _REMOTE_ATOMIC) and the TGT QP's qp_access_flags let it. All MRs
 * of a domain are reached by all its TGT QPs, whoever made them and whatever job key
 * they have. The memory is pinned, and stays even if it is unmapped.
 *
 * Errors: EINVAL the memory is empty or wraps around, or remote writes or atomics
 * are asked for without IBV_ACCESS_LOCAL_WRITE; EOPNOTSUPP other access than that;
 * EFAULT it is not mapped, or may not be written and IBV_ACCESS_LOCAL_WRITE is asked
 * for; ENOMEM, EPERM more than RLIMIT_MEMLOCK allows; EDQUOT the domain has as much
 * as its policy lets it.
 */
struct ibxrc_mr *ibxrc_reg_mr(struct ibxrc_xrcd *xrcd, void *addr, size_t length,
			      int access);

/*
 * The same, for senders that name the start of the memory by the address iova. EINVAL:
 * it has another offset in the page than addr.
 */
struct ibxrc_mr *ibxrc_reg_mr_iova(struct ibxrc_xrcd *xrcd, void *addr,
				   size_t length, uint64_t iova, int access);

/* The key by which senders name it; 0 if mr is NULL. */
uint32_t ibxrc_mr_rkey(const struct ibxrc_mr *mr);

/* Deregister it. When this returns nobody accesses the memory any more. */
int ibxrc_dereg_mr(struct ibxrc_mr *mr);

/* ------------------------------------------------------------- senders -- */

/*
 * Sending needs neither the kernel module nor a domain: only an RC QP of libibverbs,
 * connected to a TGT QP, with what follows around it. The RC QP stays the caller's,
 * who does with it
 *
 *	qp = ibv_create_qp(pd, &init);			IBV_QPT_RC
 *	ini = ibxrc_create_ini_qp(qp, NULL);
 *	ibv_modify_qp(qp, &attr, mask);			INIT, RTR, RTS
 *	wr.qp_type.xrc.remote_srqn = srq_num;
 *	ibxrc_post_ini_send(ini, &wr, &bad_wr);		not ibv_post_send()
 *	while (ibv_poll_cq(cq, 1, &wc) == 1)
 *		for (got = ibxrc_ini_completed(ini, &wc); got == 1;
 *		     got = ibxrc_ini_flushed(ini, &wc))
 *			use(&wc);
 *	ibv_destroy_qp(qp);
 *	ibxrc_destroy_ini_qp(ini);
 *
 * A work request becomes one of the RC QP, or several: one for every
 * IB_XRC_WIRE_PART_SIZE bytes of a message, see Documentation/wire-format.rst. Those
 * that the RC QP has no room for wait, and are posted by ibxrc_ini_completed(), so that
 * completions must be polled for messages to get on. Completions come in order.
 *
 * - rnr_retry: 7, since receivers that are out of buffers hold senders by RNR NAKs.
 * - retry_cnt: 6 at most on Soft-RoCE, which tries for ever with 7: then a sender never
 *   learns that the TGT QP is in error or gone.
 * - cap.max_send_wr: it need not be deeper than is good for throughput; with one of 1 a
 *   message of any length gets through.
 * - cap.max_send_sge: one more than work requests have; one that is sent with an
 *   immediate takes it for the header.
 * - cap.max_inline_data: inline data is copied, so that 0 will do; see below.
 * - The CQ: room for cap.max_send_wr completions of the QP, whatever is signaled: as
 *   ibv_create_qp(3) returns it, which may be more than was asked for.
 */

struct ibxrc_ini_qp_init_attr {
	/* No bits yet: 0. */
	uint32_t comp_mask;
	/*
	 * Work requests that may be outstanding, and bytes of inline data that each
	 * may have; 0: as with the RC QP.
	 */
	uint32_t max_send_wr;
	uint32_t max_inline_data;
};

/*
 * Make an INI QP of an RC QP in any state, to which nothing is posted. attr may be
 * NULL, for zeroes. The RC QP belongs to the caller, but only ibxrc_post_ini_send()
 * posts send work requests to it.
 *
 * Errors: EINVAL qp is no RC QP; EOPNOTSUPP there is no libibverbs.so.1; ENOMEM; what
 * ibv_reg_mr(3) and ibv_query_qp(3) return.
 */
struct ibxrc_ini_qp *ibxrc_create_ini_qp(struct ibv_qp *qp,
					 const struct ibxrc_ini_qp_init_attr *attr);

/*
 * Destroy it, not the RC QP. That is to be destroyed or moved to RESET before, else
 * what is outstanding fails; its PD is to be there still.
 */
int ibxrc_destroy_ini_qp(struct ibxrc_ini_qp *ini);

/*
 * Post work requests as ibv_post_send(3) does to a QP of type IBV_QPT_XRC_SEND:
 * qp_type.xrc.remote_srqn of each names the SRQ. All opcodes that such a QP has are
 * there: SEND and RDMA WRITE, both with or without immediate, RDMA READ and atomics;
 * and all flags. The memory of sg_list stays untouched until the work request
 * completes or, with IBV_SEND_INLINE, until this returns.
 *
 * Errors: ENOMEM max_send_wr are outstanding; EMSGSIZE the data is longer than
 * max_msg_sz of the port; EINVAL the SRQ number has more than 24 bits, there is more
 * inline data than max_inline_data, or the scatter list, with the header, is longer
 * than that of the RC QP; EOPNOTSUPP another opcode; else as ibv_post_send(3). *bad_wr
 * is the first work request that was not posted.
 */
int ibxrc_post_ini_send(struct ibxrc_ini_qp *ini, struct ibv_send_wr *wr,
			struct ibv_send_wr **bad_wr);

/*
 * Hand over a completion of the RC QP's send queue: all of them, in the order in which
 * they are polled. Returns 1 and replaces *wc by the completion of the caller's work
 * request, as the sender of a device with XRC sees it; or 0 if it is not the
 * completion of one, which the caller may forget; or -1 with errno.
 *
 * If a work request that was accepted can not be posted later on, the QP goes to the
 * error state, and the work request completes with IBV_WC_LOC_QP_OP_ERR and the errno
 * value in vendor_err.
 */
int ibxrc_ini_completed(struct ibxrc_ini_qp *ini, struct ibv_wc *wc);

/*
 * When the RC QP is in error: take the completion of a work request that did not get
 * to it. Returns 1 and writes *wc, or 0 if there is no other one, or -1 with errno. To
 * be called after each ibxrc_ini_completed() until there is none.
 */
int ibxrc_ini_flushed(struct ibxrc_ini_qp *ini, struct ibv_wc *wc);

/*
 * To be called after the RC QP was moved to RESET, before anything is posted: what was
 * outstanding is forgotten, and does not complete. Of completions that are still in
 * the CQ ibxrc_ini_completed() makes nothing.
 */
int ibxrc_reset_ini_qp(struct ibxrc_ini_qp *ini);

#ifdef __cplusplus
}
#endif

#endif /* INFINIBAND_XRC_H */
