/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* What the tests of the C API on a device have in common. */
#include "capi_util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int tests, failures;

void report(int ok, const char *what)
{
	printf("%s %d %s\n", ok ? "ok" : "not ok", ++tests, what);
	if (!ok) {
		printf("# errno %d, last message: %s\n", errno,
		       ibxrc_error_message());
		failures++;
	}
}

void need(int ok, const char *what)
{
	report(ok, what);
	if (!ok) {
		printf("Bail out! %s\n", what);
		exit(1);
	}
}

static int find_gid(struct sender *s)
{
	static const unsigned char v4[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 256; i++) {
		if (ibv_query_gid_ex(s->context, PORT, i, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(entry.gid.raw, v4, sizeof(v4)))
			continue;
		s->gid = entry.gid;
		s->gid_index = i;
		return 1;
	}
	return 0;
}

int open_sender(struct sender *s, const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL), **device;
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 8, .max_send_sge = 2 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};
	struct ibxrc_ini_qp_init_attr ini_init = {
		.max_send_wr = MAX_SEND_WR, .max_inline_data = MAX_INLINE,
	};
	struct ibv_port_attr port;

	for (device = list; device && *device; device++)
		if (!strcmp(ibv_get_device_name(*device), name))
			break;
	if (!device || !*device)
		return 0;
	s->context = ibv_open_device(*device);
	ibv_free_device_list(list);
	if (!s->context || !find_gid(s) || ibv_query_port(s->context, PORT, &port))
		return 0;
	s->mtu = port.active_mtu;
	s->pd = ibv_alloc_pd(s->context);
	s->cq = ibv_create_cq(s->context, 8, NULL, NULL, 0);
	if (!s->pd || !s->cq)
		return 0;
	s->mr = ibv_reg_mr(s->pd, s->buffer, sizeof(s->buffer),
			   IBV_ACCESS_LOCAL_WRITE);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &init);
	if (!s->mr || !s->qp)
		return 0;
	s->ini = ibxrc_create_ini_qp(s->qp, &ini_init);
	return s->ini != NULL;
}

struct ibv_qp_attr rtr_attr(struct sender *s, uint32_t qp_num, uint32_t psn)
{
	return (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.port_num = PORT,
		.path_mtu = s->mtu,
		.dest_qp_num = qp_num,
		.rq_psn = psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.is_global = 1,
			.grh = { .dgid = s->gid, .sgid_index = s->gid_index,
				 .hop_limit = 64 },
			.port_num = PORT,
		},
	};
}

int connect_sender(struct sender *s, uint32_t tgt_qp_num)
{
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = PORT };
	struct ibv_qp_attr rtr = rtr_attr(s, tgt_qp_num, 0);
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .sq_psn = SEND_PSN, .timeout = 16,
		.retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 1,
	};

	return !ibv_modify_qp(s->qp, &init, INIT_MASK) &&
	       !ibv_modify_qp(s->qp, &rtr, RTR_MASK) &&
	       !ibv_modify_qp(s->qp, &rts, RTS_MASK);
}

void close_sender(struct sender *s)
{
	ibv_destroy_qp(s->qp);
	ibxrc_destroy_ini_qp(s->ini);
	ibv_dereg_mr(s->mr);
	ibv_destroy_cq(s->cq);
	ibv_dealloc_pd(s->pd);
	ibv_close_device(s->context);
}

int poll_sender(struct sender *s, struct ibv_wc *wc)
{
	int i, got = 0;

	for (i = 0; i < 20000; i++) {
		do {
			/* What the last completion was followed by. */
			if (ibxrc_ini_flushed(s->ini, wc) == 1)
				return 1;
			if (ibv_poll_cq(s->cq, 1, wc) != 1)
				break;
			got = ibxrc_ini_completed(s->ini, wc);
		} while (!got);
		if (got)
			return got == 1;
		usleep(1000);
	}
	return 0;
}

int poll_n(struct ibxrc_cq *cq, int n, struct ibxrc_wc *wc)
{
	int got = 0, ret, i;

	for (i = 0; got < n && i < 20000; i++) {
		ret = ibxrc_poll_cq(cq, n - got, wc + got);
		if (ret < 0)
			return ret;
		got += ret;
		if (got < n)
			usleep(1000);
	}
	return got;
}
