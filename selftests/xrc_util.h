/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the selftests of ib_xrc share: the calls of /dev/infiniband/xrc as raw
 * ioctls on the uapi header, the rings, and an INI side made of an ordinary
 * libibverbs RC QP.
 *
 * Functions return 0 (or what their comment says) or a negative errno.
 */
#ifndef XRC_UTIL_H
#define XRC_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_xrc.h>
#include "scale.h"

#define XRC_NODE "/dev/" IB_XRC_DEVICE_NODE
#define XRC_NO_FD (-1)

/* Long enough for the slowest machine; never waited for when all is well. */
#define XRC_TIMEOUT_MS (20000 * xrc_scale())

/* What ib_uverbs_ioctl_hdr.driver_id is before bind (enum rdma_driver_id). */
#define XRC_DRIVER_UNKNOWN 0

/* ------------------------------------------------------------- framing -- */

#define XRC_MAX_ATTRS 16

union xrc_cmd {
	struct ib_uverbs_ioctl_hdr hdr;
	__u8 bytes[sizeof(struct ib_uverbs_ioctl_hdr) +
		   XRC_MAX_ATTRS * sizeof(struct ib_uverbs_attr)];
};

void xrc_cmd_init(union xrc_cmd *cmd, __u16 object, __u16 method, __u32 driver);
/* Append an attribute, zeroed but for its id and the mandatory flag. */
struct ib_uverbs_attr *xrc_attr(union xrc_cmd *cmd, __u16 id);
/* Find an attribute that was appended. */
struct ib_uverbs_attr *xrc_find(union xrc_cmd *cmd, __u16 id);
/* Take an attribute out again. */
void xrc_drop(union xrc_cmd *cmd, __u16 id);
struct ib_uverbs_attr *xrc_in(union xrc_cmd *cmd, __u16 id, const void *data,
			      size_t len);
struct ib_uverbs_attr *xrc_in_u32(union xrc_cmd *cmd, __u16 id, __u32 value);
struct ib_uverbs_attr *xrc_in_u64(union xrc_cmd *cmd, __u16 id, __u64 value);
struct ib_uverbs_attr *xrc_out(union xrc_cmd *cmd, __u16 id, void *data,
			       size_t len);
struct ib_uverbs_attr *xrc_handle(union xrc_cmd *cmd, __u16 id, __u64 handle);
struct ib_uverbs_attr *xrc_raw_fd(union xrc_cmd *cmd, __u16 id, __s64 fd);
int xrc_ioctl(int fd, union xrc_cmd *cmd);

/* ------------------------------------------------------------- context -- */

struct xrc {
	int fd;
	struct ib_xrc_device_info dev;
};

/* Name of the device under test: XRC_DEVICE in the environment, else rxe0. */
const char *xrc_device(void);
/* A file that is not bound. */
int xrc_open_node(struct xrc *x);
int xrc_bind(struct xrc *x, const char *name);
/* A file bound to the device under test. */
int xrc_open(struct xrc *x);
void xrc_close(struct xrc *x);
void xrc_cmd_for(const struct xrc *x, union xrc_cmd *cmd, __u16 object,
		 __u16 method);
int xrc_limits(struct xrc *x, struct ib_xrc_limits *limits);

/* ------------------------------------------------ domains and TGT QPs -- */

/* Where an object reports its events. */
struct xrc_report {
	int fd;			/* an event file */
	__u64 user_handle;
};

/* What else can be said when a domain is opened: NULL where it is not said. */
struct xrc_xrcd_opts {
	const struct ib_xrc_policy *policy;
	const __u64 *job_key;
	const struct xrc_report *report;
};

int xrc_xrcd_open(struct xrc *x, int fd, int oflags, __u32 *handle);
int xrc_xrcd_open_with(struct xrc *x, int fd, int oflags,
		       const struct xrc_xrcd_opts *opts, __u32 *handle);
int xrc_xrcd_close(struct xrc *x, __u32 handle);
int xrc_xrcd_query(struct xrc *x, __u32 handle, struct ib_xrc_xrcd_info *info);
int xrc_xrcd_policy(struct xrc *x, __u32 handle, struct ib_xrc_policy *policy);
/* The first n; *count is how many there are. */
int xrc_list_tgt_qps(struct xrc *x, __u32 xrcd, struct ib_xrc_tgt_qp_info *info,
		     unsigned int n, __u32 *count);
/* Those with a number greater than after, which is not said if it is 0. */
int xrc_list_srqs(struct xrc *x, __u32 xrcd, __u32 after,
		  struct ib_xrc_srq_info *info, unsigned int n, __u32 *count);

/* How a call names a TGT QP. */
struct xrc_qp {
	bool by_num;
	__u32 handle;		/* of the QP, or of the XRCD if by_num */
	__u32 qp_num;
};

int xrc_tgt_create(struct xrc *x, __u32 xrcd, struct xrc_qp *qp);
int xrc_tgt_create_report(struct xrc *x, __u32 xrcd,
			  const struct xrc_report *report, struct xrc_qp *qp);
int xrc_tgt_open(struct xrc *x, __u32 xrcd, __u32 qp_num, struct xrc_qp *qp);
int xrc_tgt_open_report(struct xrc *x, __u32 xrcd, __u32 qp_num,
			const struct xrc_report *report, struct xrc_qp *qp);
int xrc_tgt_close(struct xrc *x, const struct xrc_qp *qp);
int xrc_tgt_modify(struct xrc *x, const struct xrc_qp *qp,
		   const struct ib_uverbs_qp_attr *attr);
int xrc_tgt_query(struct xrc *x, const struct xrc_qp *qp,
		  struct ib_uverbs_qp_attr *attr,
		  struct ib_xrc_tgt_qp_info *info);
/* *state is ~0 if the kernel did not write it. */
int xrc_tgt_connect(struct xrc *x, const struct xrc_qp *qp,
		    const struct ib_uverbs_qp_attr *attr, __u32 *state);
int xrc_tgt_connect_timeout(struct xrc *x, const struct xrc_qp *qp,
			    const struct ib_uverbs_qp_attr *attr,
			    __u32 timeout_ms, __u32 *state);
/* info may be NULL. */
int xrc_tgt_disconnect(struct xrc *x, const struct xrc_qp *qp, __u32 timeout_ms,
		       struct ib_xrc_disconnect_info *info);
/* The same, with RELEASE: of a handle only. */
int xrc_tgt_disconnect_release(struct xrc *x, const struct xrc_qp *qp,
			       __u32 timeout_ms,
			       struct ib_xrc_disconnect_info *info);
/* Those with an id greater than after, which is not said if it is 0. */
int xrc_list_holders(struct xrc *x, const struct xrc_qp *qp, __u64 after,
		     struct ib_xrc_holder_info *info, unsigned int n,
		     __u32 *count);
/* State of the QP or a negative errno. */
int xrc_tgt_state(struct xrc *x, const struct xrc_qp *qp);
/* Wait until the QP is in the given state. */
int xrc_tgt_wait_state(struct xrc *x, const struct xrc_qp *qp, int state);
/* Registrations of the QP of this number; -EINVAL if the domain has none. */
int xrc_tgt_refs(struct xrc *x, __u32 xrcd, __u32 qp_num);
/* Wait until there are so many, or with -EINVAL until the QP is gone. */
int xrc_tgt_wait_refs(struct xrc *x, __u32 xrcd, __u32 qp_num, int refs);

/* ------------------------------------------------------------ CQs, SRQs -- */

struct xrc_cq {
	__u32 handle;
	int channel;
	struct ib_xrc_ring_info info;
	struct ib_xrc_cq_ring *ring;
};

struct xrc_srq {
	__u32 handle;
	__u32 srq_num;
	__u32 max_sge;
	struct ib_xrc_ring_info info;
	struct ib_xrc_srq_ring *ring;
};

int xrc_channel_create(struct xrc *x, int *fd);
int xrc_cq_create(struct xrc *x, __u32 cqe, __u64 user_handle, int channel,
		  struct xrc_cq *cq);
int xrc_cq_destroy(struct xrc *x, struct xrc_cq *cq);
void *xrc_ring_map(const struct xrc *x, const struct ib_xrc_ring_info *info);
/* 1 if there was a completion, else 0. */
int xrc_cq_poll(struct xrc_cq *cq, struct ib_xrc_cqe *cqe);
void xrc_cq_arm(struct xrc_cq *cq, __u32 how);
/* Wait for a completion: by the channel if the CQ has one. -ETIME if none comes. */
int xrc_cq_wait(struct xrc_cq *cq, struct ib_xrc_cqe *cqe, int timeout_ms);
/* Read one event from a channel which does not block; -EAGAIN if there is none. */
int xrc_channel_read(int channel, __u64 *user_handle);
/* Wait with poll(2) until it is readable; -ETIME if that does not happen. */
int xrc_channel_wait(int channel, int timeout_ms);

int xrc_srq_create(struct xrc *x, __u32 xrcd, const struct xrc_cq *cq,
		   __u32 max_wr, __u32 max_sge, __u64 user_handle,
		   struct xrc_srq *srq);
/* Limit and backlog are reported to the event file. */
int xrc_srq_create_report(struct xrc *x, __u32 xrcd, const struct xrc_cq *cq,
			  __u32 max_wr, __u32 max_sge, __u64 user_handle,
			  int event_file, struct xrc_srq *srq);
int xrc_srq_limit(struct xrc *x, const struct xrc_srq *srq, __u32 limit);
int xrc_srq_query(struct xrc *x, const struct xrc_srq *srq,
		  struct ib_xrc_srq_attr *attr);
int xrc_srq_destroy(struct xrc *x, struct xrc_srq *srq);
int xrc_srq_kick(struct xrc *x, const struct xrc_srq *srq);
/* Write a work request to the ring without telling the kernel. */
void xrc_srq_write(struct xrc_srq *srq, __u64 wr_id,
		   const struct ib_uverbs_sge *sge, __u32 num_sge);
/* Post: write, and kick if needed. */
int xrc_srq_postv(struct xrc *x, struct xrc_srq *srq, __u64 wr_id,
		  const struct ib_uverbs_sge *sge, __u32 num_sge);
int xrc_srq_post(struct xrc *x, struct xrc_srq *srq, __u64 wr_id, void *addr,
		 __u32 length);

/* ------------------------------------------------------------------ MRs -- */

struct xrc_mr {
	__u32 handle;
	__u32 rkey;
};

/* iova is not said if it is NULL. */
int xrc_mr_reg_iova(struct xrc *x, __u32 xrcd, const void *addr, __u64 length,
		    const __u64 *iova, __u32 access, struct xrc_mr *mr);
int xrc_mr_reg(struct xrc *x, __u32 xrcd, const void *addr, __u64 length,
	       __u32 access, struct xrc_mr *mr);
int xrc_mr_dereg(struct xrc *x, const struct xrc_mr *mr);

/* --------------------------------------------------------------- events -- */

/* depth is not said if it is negative. */
int xrc_event_file_create(struct xrc *x, __s64 depth, int *fd);
/* Wait for one event and read it; -ETIME if none comes. */
int xrc_event_wait(int fd, struct ib_xrc_event *event, int timeout_ms);
/* Read what is there: as many as fit, or a negative errno; -EAGAIN if none. */
int xrc_event_read(int fd, struct ib_xrc_event *event, unsigned int n);

/* ------------------------------------------------------------- INI side -- */

/* An ordinary RC QP of libibverbs. */
struct xrc_ini {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	unsigned int depth;
	unsigned int posted;
	struct xrc_wire *slots;	/* headers of what is outstanding */
	__u8 *buf;		/* for payloads */
	size_t size;
	union ibv_gid gid;
	int gid_index;
	int mtu;
	__u32 psn;
	/* For xrc_ini_connect(); xrc_ini_open() sets what suits most. */
	union ibv_gid peer;	/* of the other side: that of this device */
	__u8 timeout;
	__u8 retry_cnt;
};

int xrc_ini_open(struct xrc_ini *ini, unsigned int depth, size_t buf_size);
void xrc_ini_close(struct xrc_ini *ini);
/* Take the QP to RTS, connected to the TGT QP of this number. */
int xrc_ini_connect(struct xrc_ini *ini, __u32 tgt_qp_num);
/* Attributes for all of RESET, INIT, RTR and RTS of a TGT QP facing this QP. */
void xrc_ini_tgt_attr(const struct xrc_ini *ini, struct ib_uverbs_qp_attr *attr);
/* Connect both sides. */
int xrc_ini_pair(struct xrc_ini *ini, struct xrc *x, const struct xrc_qp *qp);

struct xrc_send {
	__u32 srq_num;
	size_t offset;		/* in ini->buf */
	__u32 length;
	bool with_imm;
	__u32 imm;		/* host order */
	bool solicited;
};

/* The longest message in one part, with an immediate. */
#define XRC_PART_MAX (IB_XRC_WIRE_PART_SIZE - sizeof(struct ib_xrc_wire_hdr))

/* In as many parts as it takes, of which the last one completes. */
int xrc_ini_send(struct xrc_ini *ini, const struct xrc_send *send);
/* What follows an RDMA WRITE of so many bytes to make it one with immediate. */
int xrc_ini_write_note(struct xrc_ini *ini, const struct xrc_send *send);
/* As it is: opcode, wire immediate (host order), payload. */
int xrc_ini_send_raw(struct xrc_ini *ini, enum ibv_wr_opcode opcode, __u32 imm,
		     size_t offset, __u32 length);
/* RDMA READ, RDMA WRITE or an atomic, on memory of the other side. */
struct xrc_rdma {
	enum ibv_wr_opcode opcode;
	__u64 addr;
	__u32 rkey;
	size_t offset;		/* in ini->buf */
	__u32 length;
	__u64 compare_add;
	__u64 swap;
};

int xrc_ini_rdma(struct xrc_ini *ini, const struct xrc_rdma *rdma);
/* RDMA WRITE to memory of the other side. */
int xrc_ini_rdma_write(struct xrc_ini *ini, __u64 addr, __u32 rkey,
		       size_t offset, __u32 length);
/* Start anew, with another QP in INIT: nothing is outstanding, the number differs. */
int xrc_ini_reset(struct xrc_ini *ini);
/* Number of send completions taken (0 or 1). */
int xrc_ini_poll(struct xrc_ini *ini, struct ibv_wc *wc);
/* Wait for one send completion; -ETIME if none comes. */
int xrc_ini_wait(struct xrc_ini *ini, struct ibv_wc *wc, int timeout_ms);

/* --------------------------------------------------------------- others -- */

/* Milliseconds of a clock that does not jump. */
long long xrc_now(void);
/* Be busy for so many nanoseconds: to meet, or to miss, what another one does. */
void xrc_spin(long long ns);
/* Two pages, of which the second one faults; returns the start of the second. */
void *xrc_guard_page(void);
/* Bytes that depend on seed, so that one message is told from another. */
void xrc_fill(void *buf, size_t len, unsigned int seed);
bool xrc_check(const void *buf, size_t len, unsigned int seed);
/*
 * Objects that the kernel side of ib_xrc has on any RDMA device, as rdma(8) sees
 * them: PDs, CQs, QPs, MRs and SRQs together.
 */
int xrc_kernel_objects(void);
/* Wait until there are no more than this many of them. */
int xrc_wait_kernel_objects(int n);
/* Wait until a thread, of this process or another, sleeps in this system call. */
int xrc_wait_in_syscall(pid_t tid, long nr);
/* The same, in read(2). */
int xrc_wait_blocked(pid_t tid);

#endif /* XRC_UTIL_H */
