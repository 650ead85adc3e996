/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a program for XRC has, by libibverbs alone: nothing here knows of ib_xrc.
 */
#ifndef COMPAT_UTIL_H
#define COMPAT_UTIL_H

#include <infiniband/verbs.h>

#define RIG_PORT 1
#define RIG_DEPTH 64
#define RIG_BUF_SIZE (1024 * 1024)
#define RIG_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/*
 * A domain of its own, an XRC SRQ, and a pair of QPs: from "ini" to "tgt". Send and
 * receive side have a CQ each on one channel, whose events carry the rig as context. The
 * first half of the memory is to send from, the other one to receive into.
 */
struct rig {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq;
	struct ibv_cq *recv_cq;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	__u32 srq_num;
	struct ibv_qp *tgt;
	struct ibv_qp *ini;
	struct ibv_mr *mr;
	char *buf;
	union ibv_gid gid;
	int gid_index;
	enum ibv_mtu mtu;
};

/* The device that the tests use; NULL: there is none. */
struct ibv_context *rig_open_device(void);

/*
 * Opening makes the QPs, but does not connect them: somebody may want to replace something
 * before. Returns 0 or a negative errno value. Closing closes what there is.
 */
int rig_open(struct rig *rig);
int rig_open_without_qps(struct rig *rig);
void rig_close(struct rig *rig);

/* These return what libibverbs does: 0 or an errno value. */
int rig_connect(struct rig *rig);

struct ibv_srq *rig_create_srq(struct rig *rig, struct ibv_cq *cq, int depth);
struct ibv_qp *rig_create_tgt(struct rig *rig);
/* send_ops: of ibv_qp_create_send_ops_flags, or 0. */
struct ibv_qp *rig_create_ini(struct rig *rig, struct ibv_cq *cq, __u64 send_ops);
/* Connects two QPs of the device, each of any type, both ways. */
int rig_pair(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b);

/* A receive of "length" bytes at "offset" of the receiving half. */
int rig_post_recv(struct rig *rig, struct ibv_srq *srq, __u64 wr_id, size_t offset,
		  __u32 length);
/* A signaled SEND of "length" bytes at "offset" of the memory to an SRQ. */
int rig_post_send(struct rig *rig, struct ibv_qp *qp, __u64 wr_id, __u32 srq_num,
		  size_t offset, __u32 length, int flags);
/* Where the receiving half is. */
char *rig_recv_buf(struct rig *rig);

/* Polls until there is a completion: 1; 0: there was none for long enough. */
int rig_poll(struct ibv_cq *cq, struct ibv_wc *wc);

/* These return what is wrong, or NULL. A message of "length" bytes goes through. */
const char *rig_exchange(struct rig *rig, __u32 length);
/* The MR is reached at "there" by RDMA WRITE through the TGT QP. */
const char *rig_write(struct rig *rig, struct ibv_mr *mr, void *there);

#endif /* COMPAT_UTIL_H */
