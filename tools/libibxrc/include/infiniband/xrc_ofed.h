/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * XRC as OFED 1.3 to 1.5 had it in libibverbs, on any RDMA device.
 *
 * A program written to it includes this header after, or instead of,
 * infiniband/verbs.h, and links libibxrc besides libibverbs. What it uses is here
 * under the names that it uses. libibverbs has had some of these names all along, for
 * structures that have no fields for XRC any more and for functions that know nothing of
 * these objects; the macros at the end give them the meaning that they had. So all parts
 * of a program that deal with XRC objects, and with the CQs, completion channels and
 * asynchronous events of these, must include this header.
 *
 * Documentation/ofed.rst says what is not as it was; each of the eight calls has a
 * manual page.
 */
#ifndef INFINIBAND_XRC_OFED_H
#define INFINIBAND_XRC_OFED_H

#include <pthread.h>
#include <infiniband/verbs.h>
#include <infiniband/xrc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------- structures -- */

/* A handle on a domain. */
struct ibv_xrc_domain {
	struct ibv_context *context;
	uint32_t handle;
};

/* struct ibv_srq, and what an XRC SRQ has besides. Any SRQ may be had as one, */
/* but only those of ibv_create_xrc_srq() have the fields behind events_completed. */
struct ibxrc_ofed_srq {
	struct ibv_context *context;
	void *srq_context;
	struct ibv_pd *pd;
	uint32_t handle;
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t events_completed;
	/* What senders name. */
	uint32_t xrc_srq_num;
	struct ibv_xrc_domain *xrc_domain;
	struct ibv_cq *xrc_cq;
};

/* struct ibv_qp_init_attr, and the domain. */
struct ibxrc_ofed_qp_init_attr {
	void *qp_context;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibxrc_ofed_srq *srq;
	struct ibv_qp_cap cap;
	enum ibv_qp_type qp_type;
	int sq_sig_all;
	struct ibv_xrc_domain *xrc_domain;
};

/* struct ibv_send_wr, with the SRQ number under its old name besides the new one. */
struct ibxrc_ofed_send_wr {
	uint64_t wr_id;
	struct ibxrc_ofed_send_wr *next;
	struct ibv_sge *sg_list;
	int num_sge;
	enum ibv_wr_opcode opcode;
	unsigned int send_flags;
	union {
		__be32 imm_data;
		uint32_t invalidate_rkey;
	};
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add;
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			struct ibv_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
	} wr;
	union {
		union {
			struct {
				uint32_t remote_srqn;
			} xrc;
		} qp_type;
		uint32_t xrc_remote_srq_num;
	};
	union {
		struct {
			struct ibv_mw *mw;
			uint32_t rkey;
			struct ibv_mw_bind_info bind_info;
		} bind_mw;
		struct {
			void *hdr;
			uint16_t hdr_sz;
			uint16_t mss;
		} tso;
	};
};

/* struct ibv_async_event, with the number of a receiving QP. */
struct ibxrc_ofed_async_event {
	union {
		struct ibv_cq *cq;
		struct ibv_qp *qp;
		struct ibxrc_ofed_srq *srq;
		struct ibv_wq *wq;
		int port_num;
		uint32_t xrc_qp_num;
	} element;
	enum ibv_event_type event_type;
};

/* In event_type: the event is one of the receiving QP element.xrc_qp_num. */
enum ibv_event_flags {
	IBV_XRC_QP_EVENT_FLAG = 0x80000000,
};

/* The type of a QP that sends to SRQs, for ibv_create_qp(). */
#define IBV_QPT_XRC IBV_QPT_XRC_SEND

/* ------------------------------------------------------ the OFED calls -- */

/*
 * Open the domain of the file that fd is open on, or with fd -1 a new one that only
 * this handle has. Of oflag count O_CREAT and O_EXCL. NULL and errno: EBADF, EAGAIN
 * no O_CREAT and there is none, EINVAL O_EXCL and there is one; ENOENT, EACCES,
 * ENODEV as ibxrc_open().
 */
struct ibv_xrc_domain *ibv_open_xrc_domain(struct ibv_context *context, int fd,
					   int oflag);

/*
 * Close the handle. EBUSY: this process has SRQs, QPs or registrations with
 * receiving QPs of it.
 */
int ibv_close_xrc_domain(struct ibv_xrc_domain *domain);

/*
 * Create an SRQ of the domain, which completes into xrc_cq; its xrc_srq_num is what
 * senders name. Writes to srq_init_attr what the SRQ has. NULL and errno.
 */
struct ibxrc_ofed_srq *
ibv_create_xrc_srq(struct ibv_pd *pd, struct ibv_xrc_domain *xrc_domain,
		   struct ibv_cq *xrc_cq, struct ibv_srq_init_attr *srq_init_attr);

/*
 * Create a receiving QP (TGT QP) in init_attr->xrc_domain, all that counts of
 * init_attr, and register this process with it. It is known by its number.
 */
int ibv_create_xrc_rcv_qp(struct ibxrc_ofed_qp_init_attr *init_attr,
			  uint32_t *xrc_rcv_qpn);

/*
 * Modify or query it, from any process that has the domain open. EINVAL: the domain
 * has no such QP, or it cannot be modified so.
 */
int ibv_modify_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			  struct ibv_qp_attr *attr, int attr_mask);
int ibv_query_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num,
			 struct ibv_qp_attr *attr, int attr_mask,
			 struct ibxrc_ofed_qp_init_attr *init_attr);

/*
 * Register this process with it, so that it lives as long as this process has not
 * unregistered; once, however often it is called. EINVAL: the domain has no such QP.
 */
int ibv_reg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

/*
 * Unregister. With the last process the QP goes. EINVAL: this process is not
 * registered with such a QP.
 */
int ibv_unreg_xrc_rcv_qp(struct ibv_xrc_domain *xrc_domain, uint32_t xrc_qp_num);

/*
 * The handle of xrc.h behind the domain, for what OFED did not have: it is not to be
 * closed, and is there until the domain is closed. NULL: domain is NULL.
 */
struct ibxrc_xrcd *ibxrc_ofed_xrcd(struct ibv_xrc_domain *domain);

/* ------------------------------------ functions of libibverbs, with XRC -- */

/*
 * These are the functions of libibverbs whose names they have, as their manual pages
 * say, for its objects and for those above. What is not for one of those is handed to
 * libibverbs.
 */
int ibxrc_ofed_query_device(struct ibv_context *context,
			    struct ibv_device_attr *device_attr);
int ibxrc_ofed_get_async_event(struct ibv_context *context,
			       struct ibxrc_ofed_async_event *event);
void ibxrc_ofed_ack_async_event(struct ibxrc_ofed_async_event *event);

int ibxrc_ofed_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int ibxrc_ofed_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int ibxrc_ofed_destroy_cq(struct ibv_cq *cq);
int ibxrc_ofed_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
			    void **cq_context);
void ibxrc_ofed_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

struct ibxrc_ofed_srq *
ibxrc_ofed_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *srq_init_attr);
int ibxrc_ofed_modify_srq(struct ibxrc_ofed_srq *srq, struct ibv_srq_attr *srq_attr,
			  int srq_attr_mask);
int ibxrc_ofed_query_srq(struct ibxrc_ofed_srq *srq, struct ibv_srq_attr *srq_attr);
int ibxrc_ofed_destroy_srq(struct ibxrc_ofed_srq *srq);
int ibxrc_ofed_post_srq_recv(struct ibxrc_ofed_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);

struct ibv_qp *ibxrc_ofed_create_qp(struct ibv_pd *pd,
				    struct ibxrc_ofed_qp_init_attr *init_attr);
int ibxrc_ofed_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int ibxrc_ofed_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
			struct ibxrc_ofed_qp_init_attr *init_attr);
int ibxrc_ofed_destroy_qp(struct ibv_qp *qp);
int ibxrc_ofed_post_send(struct ibv_qp *qp, struct ibxrc_ofed_send_wr *wr,
			 struct ibxrc_ofed_send_wr **bad_wr);

#ifdef __cplusplus
}
#endif

/* ----------------------------------------------------------- old names -- */

#define ibv_srq ibxrc_ofed_srq
#define ibv_qp_init_attr ibxrc_ofed_qp_init_attr
#define ibv_send_wr ibxrc_ofed_send_wr
#define ibv_async_event ibxrc_ofed_async_event

#define ibv_query_device ibxrc_ofed_query_device
#define ibv_get_async_event ibxrc_ofed_get_async_event
#define ibv_ack_async_event ibxrc_ofed_ack_async_event
#define ibv_poll_cq ibxrc_ofed_poll_cq
#define ibv_req_notify_cq ibxrc_ofed_req_notify_cq
#define ibv_destroy_cq ibxrc_ofed_destroy_cq
#define ibv_get_cq_event ibxrc_ofed_get_cq_event
#define ibv_ack_cq_events ibxrc_ofed_ack_cq_events
#define ibv_create_srq ibxrc_ofed_create_srq
#define ibv_modify_srq ibxrc_ofed_modify_srq
#define ibv_query_srq ibxrc_ofed_query_srq
#define ibv_destroy_srq ibxrc_ofed_destroy_srq
#define ibv_post_srq_recv ibxrc_ofed_post_srq_recv
#define ibv_create_qp ibxrc_ofed_create_qp
#define ibv_modify_qp ibxrc_ofed_modify_qp
#define ibv_query_qp ibxrc_ofed_query_qp
#define ibv_destroy_qp ibxrc_ofed_destroy_qp
#define ibv_post_send ibxrc_ofed_post_send

#endif /* INFINIBAND_XRC_OFED_H */
