/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the tests of the C API on a device have in common. */
#ifndef CAPI_UTIL_H
#define CAPI_UTIL_H

#include <infiniband/xrc.h>

#define PORT 1
#define BUFFER_SIZE 256
#define SEND_SIZE 20000
#define MAX_SEND_WR 16
#define MAX_INLINE 64
#define SEND_PSN 0x123456

#define INIT_MASK (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | \
		   IBV_QP_ACCESS_FLAGS)
#define RTR_MASK (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | \
		  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_MASK (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | \
		  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

/* Counted by report(). */
extern int tests, failures;

/* A test case. */
void report(int ok, const char *what);
/* What the rest needs: without it there is no going on. */
void need(int ok, const char *what);

/* The sender: libibverbs, and an INI QP for 16 work requests on an RC QP for 8. */
struct sender {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibxrc_ini_qp *ini;
	struct ibv_mr *mr;
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
	char buffer[SEND_SIZE];
};

int open_sender(struct sender *s, const char *name);
int connect_sender(struct sender *s, uint32_t tgt_qp_num);
void close_sender(struct sender *s);
/* Polls until a work request completes, or for long enough. */
int poll_sender(struct sender *s, struct ibv_wc *wc);

/* Attributes that take a QP of this device to RTR, connected to another one. */
struct ibv_qp_attr rtr_attr(struct sender *s, uint32_t qp_num, uint32_t psn);

/* Polls until there are n completions, or for long enough. */
int poll_n(struct ibxrc_cq *cq, int n, struct ibxrc_wc *wc);

/* Policies, events, disconnect, job keys, lists: see capi_lifetime.c. */
void test_lifetime(struct ibxrc_context *context, const char *device);
/* All that can be sent: see capi_send.c. */
void test_send(struct ibxrc_context *context, const char *device);
/* Memory of a domain: see capi_mr.c. */
void test_mr(struct ibxrc_context *context, const char *device);

#endif /* CAPI_UTIL_H */
