/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * What the tests of the OFED calls have in common. They are written as a program for
 * OFED is, which knows of one more header.
 */
#ifndef OFED_UTIL_H
#define OFED_UTIL_H

#include <sys/types.h>
#include <infiniband/verbs.h>
#include <infiniband/xrc_ofed.h>

#define PORT 1
#define MSG_SIZE 20000
#define RECV_DEPTH 8
#define SEND_DEPTH 16
#define SEND_PSN 0x123456
/* No QP or SRQ has these. */
#define NO_QP 0xfffffe
#define NO_SRQ 0xffffff

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | \
		   IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
		  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
		  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

/* Ids of work requests: of receives the number of the buffer, of sends the length. */
#define FIRST_SEND 1000
#define IS_SEND(wr_id) ((wr_id) >= FIRST_SEND)
#define MAX_KEPT 8

/* A test case. */
void report(int ok, const char *what);
/* What the rest needs: without it there is no going on. */
void need(int ok, const char *what);
/* Prints the plan; returns the exit status. */
int finish(void);

/* What a process has of the device. */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	/* Of SRQs and QPs. */
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
	/* Completions that were polled, and nobody has asked for yet. */
	struct ibv_wc kept[MAX_KEPT];
	int num_kept;
	char sent[MSG_SIZE];
	char received[RECV_DEPTH][MSG_SIZE];
};

/* Skips the test if there is no module or no device. */
void open_rig(struct rig *r);
void close_rig(struct rig *r);

/* An open file without a name, for a domain. */
int domain_file(void);

struct ibv_srq *create_srq(struct rig *r, struct ibv_xrc_domain *domain);
/* Posts received[id]. */
int post_recv(struct rig *r, struct ibv_srq *srq, int id);
/* Polls until there is a completion, or for long enough. */
int poll_one(struct ibv_cq *cq, struct ibv_wc *wc);
/* Whether the next completion is that of received[id], and the message arrived whole. */
int arrives(struct rig *r, int id, uint32_t length, uint32_t rcv_qpn);

int create_rcv_qp(struct ibv_xrc_domain *domain, uint32_t *qpn);
struct ibv_qp_attr init_attr(void);
struct ibv_qp_attr rtr_attr(struct rig *r, uint32_t remote_qpn);
/* To RTR. */
int connect_rcv_qp(struct rig *r, struct ibv_xrc_domain *domain, uint32_t qpn,
		   uint32_t remote_qpn);

/* A QP that sends, connected or not. */
struct ibv_qp *create_sender(struct rig *r, struct ibv_xrc_domain *domain);
int connect_sender(struct rig *r, struct ibv_qp *qp, uint32_t rcv_qpn);
int post_send(struct rig *r, struct ibv_qp *qp, uint32_t srq_num, uint32_t length);
/* Posts, and waits for the completion. */
int sends(struct rig *r, struct ibv_qp *qp, uint32_t srq_num, uint32_t length);

/* Another process, which has the domain open. */
struct member {
	pid_t pid;
	int fd;
};

enum member_op {
	/* Create an SRQ and post a buffer: returns its number. */
	MEMBER_SRQ,
	/* The call of this name: returns what that does. */
	MEMBER_REG,
	MEMBER_UNREG,
	/* Returns the state, or the negative errno value. */
	MEMBER_QUERY,
	/* Modify it to INIT: returns what that does. */
	MEMBER_INIT,
	/* Modify it to RTR, connected to the QP "arg". */
	MEMBER_CONNECT,
	/* Whether a message of "arg" bytes arrives. */
	MEMBER_RECV,
	/* Whether the next asynchronous event is one of the QP. */
	MEMBER_EVENT,
	/* Give all back but the domain, and close that: returns what that does. */
	MEMBER_CLOSE,
};

/* To be called before open_rig(). It opens the domain of the file. */
void start_member(struct member *m, int fd, int oflag);
int call_member(struct member *m, enum member_op op, uint32_t qpn, uint32_t arg);
/* Waits for its end; 0: it ended well. */
int end_member(struct member *m);
void kill_member(struct member *m);

/* Whether the next asynchronous event is one of the receiving QP. */
int event_is_of(struct rig *r, uint32_t qpn);
/* Whether the QP goes, at once or in long enough. */
int goes(struct ibv_xrc_domain *domain, uint32_t qpn);
/* errno value of a query. */
int query_errno(struct ibv_xrc_domain *domain, uint32_t qpn);

#endif /* OFED_UTIL_H */
