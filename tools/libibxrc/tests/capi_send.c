/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The C API at work: all that can be sent. */
#include "capi_util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

/* Where messages arrive. */
static char received[SEND_SIZE];

struct receiver {
	struct ibxrc_xrcd *xrcd;
	struct ibxrc_cq *cq;
	struct ibxrc_srq *srq;
	struct ibxrc_tgt_qp *tgt;
};

/* A work request for the first bytes of the buffer. */
static struct ibv_send_wr send_wr(struct receiver *r, struct sender *s,
				  struct ibv_sge *sge, uint32_t length)
{
	*sge = (struct ibv_sge){ (uintptr_t)s->buffer, length, s->mr->lkey };
	return (struct ibv_send_wr){
		.wr_id = length, .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
		.qp_type.xrc.remote_srqn = ibxrc_get_srq_num(r->srq),
	};
}

static int post_recv(struct receiver *r)
{
	struct ibv_sge sge = { (uintptr_t)received, sizeof(received), 0 };
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	memset(received, 0, sizeof(received));
	return ibxrc_post_srq_recv(r->srq, &wr, &bad);
}

static int arrives(struct receiver *r, struct ibxrc_wc *wc)
{
	return poll_n(r->cq, 1, wc) == 1 && wc->wc.status == IBV_WC_SUCCESS;
}

static int is_done(struct sender *s, uint64_t id, enum ibv_wc_opcode opcode,
		   uint32_t length)
{
	struct ibv_wc wc;

	return poll_sender(s, &wc) && wc.status == IBV_WC_SUCCESS &&
	       wc.wr_id == id && wc.opcode == opcode && wc.byte_len == length &&
	       wc.qp_num == s->qp->qp_num;
}

static void test_long(struct receiver *r, struct sender *s)
{
	struct ibv_sge sge[2];
	struct ibv_send_wr *bad, wr = send_wr(r, s, &sge[0], SEND_SIZE);
	struct ibxrc_wc wc;

	report(!post_recv(r) && !ibxrc_post_ini_send(s->ini, &wr, &bad),
	       "a message of several parts");
	report(arrives(r, &wc) && wc.wc.byte_len == SEND_SIZE &&
	       !memcmp(received, s->buffer, SEND_SIZE), "arrives as one");
	report(is_done(s, SEND_SIZE, IBV_WC_SEND, SEND_SIZE), "and completes as one");

	wr = send_wr(r, s, &sge[0], 5000);
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	wr.imm_data = htonl(0x01020304);
	report(!post_recv(r) && !ibxrc_post_ini_send(s->ini, &wr, &bad) &&
	       arrives(r, &wc) && wc.wc.byte_len == 5000 &&
	       wc.wc.wc_flags == IBV_WC_WITH_IMM &&
	       wc.wc.imm_data == htonl(0x01020304) &&
	       !memcmp(received, s->buffer, 5000) && !received[5000] &&
	       is_done(s, 5000, IBV_WC_SEND, 5000), "one with an immediate");

	wr = send_wr(r, s, sge, 4095);
	sge[1] = (struct ibv_sge){ (uintptr_t)s->buffer + 10000, 3, s->mr->lkey };
	wr.num_sge = 2;
	report(!post_recv(r) && !ibxrc_post_ini_send(s->ini, &wr, &bad) &&
	       arrives(r, &wc) && wc.wc.byte_len == 4098 &&
	       !memcmp(received, s->buffer, 4095) &&
	       !memcmp(received + 4095, s->buffer + 10000, 3) &&
	       is_done(s, 4095, IBV_WC_SEND, 4098), "one from two places");
	wr.opcode = IBV_WR_SEND_WITH_IMM;
	report(ibxrc_post_ini_send(s->ini, &wr, &bad) == EINVAL && bad == &wr,
	       "there is no place for the header");
}

static void test_inline(struct receiver *r, struct sender *s)
{
	char data[MAX_INLINE + 1] = "inline";
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = send_wr(r, s, &sge, MAX_INLINE);
	struct ibxrc_wc wc;
	int ret;

	sge = (struct ibv_sge){ (uintptr_t)data, MAX_INLINE, 0 };
	wr.send_flags |= IBV_SEND_INLINE;
	/* It waits for a buffer until the data is overwritten. */
	ret = ibxrc_post_ini_send(s->ini, &wr, &bad);
	memset(data, 'x', sizeof(data));
	report(!ret && !post_recv(r) && arrives(r, &wc) &&
	       wc.wc.byte_len == MAX_INLINE && !strcmp(received, "inline") &&
	       is_done(s, MAX_INLINE, IBV_WC_SEND, MAX_INLINE), "inline data");
	sge.length++;
	report(ibxrc_post_ini_send(s->ini, &wr, &bad) == EINVAL,
	       "but not more than was asked for");
	wr.opcode = IBV_WR_LOCAL_INV;
	report(ibxrc_post_ini_send(s->ini, &wr, &bad) == EOPNOTSUPP && bad == &wr,
	       "an opcode that a QP with XRC does not have");
}

static void test_write(struct receiver *r, struct sender *s)
{
	static char memory[SEND_SIZE];
	struct ibxrc_mr *mr = ibxrc_reg_mr(r->xrcd, memory, sizeof(memory), ACCESS);
	struct ibv_sge sge;
	struct ibv_send_wr *bad, wr = send_wr(r, s, &sge, 9000);
	struct ibxrc_wc wc;

	need(mr != NULL, "memory of the domain");
	wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr.imm_data = htonl(77);
	wr.wr.rdma.remote_addr = (uintptr_t)memory;
	wr.wr.rdma.rkey = ibxrc_mr_rkey(mr);
	report(!post_recv(r) && !ibxrc_post_ini_send(s->ini, &wr, &bad) &&
	       arrives(r, &wc) && wc.wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM &&
	       wc.wc.byte_len == 9000 && wc.wc.imm_data == htonl(77) &&
	       !memcmp(memory, s->buffer, 9000) && !received[0] &&
	       is_done(s, 9000, IBV_WC_RDMA_WRITE, 9000),
	       "an RDMA WRITE with an immediate");
	report(!ibxrc_dereg_mr(mr), "the memory is given back");
}

/* As many as may be outstanding, and one more; none has a buffer. */
static void test_flush(struct receiver *r, struct sender *s)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_sge sge[MAX_SEND_WR + 1];
	struct ibv_send_wr wr[MAX_SEND_WR + 1], *bad = NULL;
	struct ibv_wc wc;
	int i, flushed = 0;

	for (i = 0; i <= MAX_SEND_WR; i++) {
		wr[i] = send_wr(r, s, &sge[i], SEND_SIZE);
		wr[i].wr_id = i;
		wr[i].next = i < MAX_SEND_WR ? &wr[i + 1] : NULL;
	}
	report(ibxrc_post_ini_send(s->ini, wr, &bad) == ENOMEM &&
	       bad == &wr[MAX_SEND_WR], "more than may be outstanding");
	need(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE), "the QP in error");
	for (i = 0; i < MAX_SEND_WR && poll_sender(s, &wc); i++) {
		if (wc.wr_id != (uint64_t)i)
			break;
		flushed += wc.status == IBV_WC_WR_FLUSH_ERR;
	}
	report(i == MAX_SEND_WR && flushed > MAX_SEND_WR / 2, "flushes them in order");
	report(!ibxrc_ini_flushed(s->ini, &wc), "and nothing else");

	wr[0].next = NULL;
	report(!ibxrc_post_ini_send(s->ini, wr, &bad) && poll_sender(s, &wc) &&
	       wc.wr_id == 0 && wc.status == IBV_WC_WR_FLUSH_ERR,
	       "what is posted now is flushed, too");
	attr.qp_state = IBV_QPS_RESET;
	report(!ibv_modify_qp(s->qp, &attr, IBV_QP_STATE) &&
	       !ibxrc_reset_ini_qp(s->ini), "it is reset");
}

void test_send(struct ibxrc_context *context, const char *device)
{
	struct sender s = { 0 };
	struct receiver r = { .xrcd = ibxrc_open_xrcd(context, -1, 0) };
	struct ibv_qp_attr attr;
	int i;

	need(r.xrcd && open_sender(&s, device), "a domain and a sender");
	for (i = 0; i < SEND_SIZE; i++)
		s.buffer[i] = 'A' + i % 61;
	r.cq = ibxrc_create_cq(context, 16, NULL, NULL);
	r.srq = ibxrc_create_srq(r.xrcd, r.cq, 8, 1, NULL);
	r.tgt = ibxrc_create_tgt_qp(r.xrcd);
	need(r.srq && r.tgt, "an SRQ and a TGT QP");
	attr = rtr_attr(&s, s.qp->qp_num, SEND_PSN);
	attr.qp_access_flags = ACCESS;
	need(!ibxrc_connect_tgt_qp(r.tgt, &attr, INIT_MASK | RTR_MASK, NULL) &&
	     connect_sender(&s, ibxrc_tgt_qp_num(r.tgt)), "they are connected");

	test_long(&r, &s);
	test_inline(&r, &s);
	test_write(&r, &s);
	test_flush(&r, &s);

	close_sender(&s);
	report(!ibxrc_close_tgt_qp(r.tgt) && !ibxrc_destroy_srq(r.srq) &&
	       !ibxrc_destroy_cq(r.cq) && !ibxrc_close_xrcd(r.xrcd),
	       "everything closes");
}
