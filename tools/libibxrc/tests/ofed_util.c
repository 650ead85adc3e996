/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the tests of the OFED calls have in common. */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int tests, failures;

void report(int ok, const char *what)
{
	if (!tests)
		printf("TAP version 13\n");
	printf("%s %d %s\n", ok ? "ok" : "not ok", ++tests, what);
	if (!ok) {
		printf("# errno %d, last message: %s\n", errno,
		       ibxrc_error_message());
		failures++;
	}
	fflush(stdout);
}

void need(int ok, const char *what)
{
	report(ok, what);
	if (!ok) {
		printf("Bail out! %s\n", what);
		exit(1);
	}
}

int finish(void)
{
	printf("1..%d\n", tests);
	return failures != 0;
}

static int find_gid(struct rig *r)
{
	static const unsigned char v4[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 256; i++) {
		if (ibv_query_gid_ex(r->context, PORT, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, v4, sizeof(v4)))
			continue;
		r->gid = entry.gid;
		r->gid_index = i;
		return 1;
	}
	return 0;
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device;
	struct ibv_context *context = NULL;
	const char *name = getenv("XRC_DEVICE");

	for (device = list; device && *device; device++)
		if (!strcmp(ibv_get_device_name(*device), name ? name : "rxe0"))
			context = ibv_open_device(*device);
	if (list)
		ibv_free_device_list(list);
	return context;
}

void open_rig(struct rig *r)
{
	struct ibv_device_attr device;
	struct ibv_port_attr port;
	int i;

	memset(r, 0, sizeof(*r));
	r->context = open_device();
	if (!r->context || ibv_query_device(r->context, &device) ||
	    !(device.device_cap_flags & IBV_DEVICE_XRC)) {
		printf("1..0 # SKIP no device with XRC\n");
		exit(4);
	}
	need(find_gid(r) && !ibv_query_port(r->context, PORT, &port),
	     "the port of the device");
	r->mtu = port.active_mtu;
	r->pd = ibv_alloc_pd(r->context);
	r->channel = ibv_create_comp_channel(r->context);
	r->cq = ibv_create_cq(r->context, 64, r, r->channel, 0);
	need(r->pd && r->cq, "a PD and a CQ");
	r->mr = ibv_reg_mr(r->pd, r->sent, sizeof(r->sent) + sizeof(r->received),
			   IBV_ACCESS_LOCAL_WRITE);
	need(r->mr != NULL, "an MR");
	for (i = 0; i < MSG_SIZE; i++)
		r->sent[i] = 'A' + i % 61;
}

void close_rig(struct rig *r)
{
	report(!ibv_destroy_cq(r->cq) && !ibv_destroy_comp_channel(r->channel) &&
	       !ibv_dereg_mr(r->mr) && !ibv_dealloc_pd(r->pd) &&
	       !ibv_close_device(r->context), "nothing keeps the device");
}

int domain_file(void)
{
	char path[] = "/tmp/ibxrc-ofed-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path))
		exit(1);
	return fd;
}

struct ibv_srq *create_srq(struct rig *r, struct ibv_xrc_domain *domain)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = r,
		.attr = { .max_wr = RECV_DEPTH, .max_sge = 1 },
	};

	return ibv_create_xrc_srq(r->pd, domain, r->cq, &attr);
}

int post_recv(struct rig *r, struct ibv_srq *srq, int id)
{
	struct ibv_sge sge = { (uintptr_t)r->received[id], MSG_SIZE, r->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 };

	memset(r->received[id], 0, MSG_SIZE);
	return ibv_post_srq_recv(srq, &wr, &bad);
}

int poll_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int i, n;

	for (i = 0; i < 20000; i++) {
		n = ibv_poll_cq(cq, 1, wc);
		if (n)
			return n == 1;
		usleep(1000);
	}
	return 0;
}

/*
 * The next completion of a send, or of a receive. Those of the other kind, which come in
 * any order with them, are kept.
 */
static int poll_kind(struct rig *r, int of_send, struct ibv_wc *wc)
{
	int i;

	for (i = 0; i < r->num_kept; i++)
		if (IS_SEND(r->kept[i].wr_id) == of_send) {
			*wc = r->kept[i];
			r->kept[i] = r->kept[--r->num_kept];
			return 1;
		}
	while (r->num_kept < MAX_KEPT && poll_one(r->cq, wc)) {
		if (IS_SEND(wc->wr_id) == of_send)
			return 1;
		r->kept[r->num_kept++] = *wc;
	}
	return 0;
}

int arrives(struct rig *r, int id, uint32_t length, uint32_t rcv_qpn)
{
	struct ibv_wc wc;

	return poll_kind(r, 0, &wc) && wc.status == IBV_WC_SUCCESS &&
	       wc.opcode == IBV_WC_RECV && wc.wr_id == (uint64_t)id &&
	       wc.byte_len == length && wc.qp_num == rcv_qpn &&
	       !memcmp(r->received[id], r->sent, length);
}

int create_rcv_qp(struct ibv_xrc_domain *domain, uint32_t *qpn)
{
	struct ibv_qp_init_attr attr;

	/* Only the domain counts. */
	memset(&attr, 0xff, sizeof(attr));
	attr.xrc_domain = domain;
	return ibv_create_xrc_rcv_qp(&attr, qpn);
}

struct ibv_qp_attr init_attr(void)
{
	return (struct ibv_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = PORT };
}

struct ibv_qp_attr rtr_attr(struct rig *r, uint32_t remote_qpn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = r->mtu,
		.dest_qp_num = remote_qpn,
		.rq_psn = SEND_PSN,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = r->gid, .sgid_index = r->gid_index,
				 .hop_limit = 64 },
			.port_num = PORT,
		},
	};
}

int connect_rcv_qp(struct rig *r, struct ibv_xrc_domain *domain, uint32_t qpn,
		   uint32_t remote_qpn)
{
	struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(r, remote_qpn);
	int ret = ibv_modify_xrc_rcv_qp(domain, qpn, &init, INIT_MASK);

	return ret ? ret : ibv_modify_xrc_rcv_qp(domain, qpn, &rtr, RTR_MASK);
}

struct ibv_qp *create_sender(struct rig *r, struct ibv_xrc_domain *domain)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = r->cq,
		.recv_cq = r->cq,
		.cap = { .max_send_wr = SEND_DEPTH, .max_send_sge = 1 },
		.qp_type = IBV_QPT_XRC,
		.xrc_domain = domain,
	};

	return ibv_create_qp(r->pd, &attr);
}

int connect_sender(struct rig *r, struct ibv_qp *qp, uint32_t rcv_qpn)
{
	struct ibv_qp_attr init = init_attr(), rtr = rtr_attr(r, rcv_qpn);
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = SEND_PSN, .timeout = 16,
		.retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 1,
	};

	return !ibv_modify_qp(qp, &init, INIT_MASK) &&
	       !ibv_modify_qp(qp, &rtr, RTR_MASK) &&
	       !ibv_modify_qp(qp, &rts, RTS_MASK);
}

int post_send(struct rig *r, struct ibv_qp *qp, uint32_t srq_num, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)r->sent, length, r->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = FIRST_SEND + length, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.xrc_remote_srq_num = srq_num,
	};

	return ibv_post_send(qp, &wr, &bad);
}

int sends(struct rig *r, struct ibv_qp *qp, uint32_t srq_num, uint32_t length)
{
	struct ibv_wc wc;

	return !post_send(r, qp, srq_num, length) && poll_kind(r, 1, &wc) &&
	       wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND &&
	       wc.wr_id == FIRST_SEND + length && wc.qp_num == qp->qp_num;
}

int event_is_of(struct rig *r, uint32_t qpn)
{
	struct ibv_async_event event;
	int ours;

	do {
		/* A port may have come up meanwhile. */
		if (ibv_get_async_event(r->context, &event))
			return 0;
		ours = event.event_type & IBV_XRC_QP_EVENT_FLAG;
		ibv_ack_async_event(&event);
	} while (!ours);
	return event.element.xrc_qp_num == qpn;
}

int query_errno(struct ibv_xrc_domain *domain, uint32_t qpn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	return ibv_query_xrc_rcv_qp(domain, qpn, &attr, IBV_QP_STATE, &init);
}

int goes(struct ibv_xrc_domain *domain, uint32_t qpn)
{
	int i, ret = 0;

	for (i = 0; i < 20000 && !ret; i++) {
		ret = query_errno(domain, qpn);
		usleep(1000);
	}
	return ret == EINVAL;
}
