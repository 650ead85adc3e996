/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_create_xrc_srq(), and all that is done with such an SRQ. */
#include "ofed_util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct rig r;
static struct ibv_xrc_domain *domain;

static int fails(struct ibv_pd *pd, struct ibv_xrc_domain *in, struct ibv_cq *cq,
		 uint32_t max_wr, uint32_t max_sge)
{
	struct ibv_srq_init_attr attr = { .attr = { max_wr, max_sge, 0 } };

	errno = 0;
	return !ibv_create_xrc_srq(pd, in, cq, &attr) && errno == EINVAL;
}

static void test_arguments(void)
{
	report(fails(NULL, domain, r.cq, 8, 1) && fails(r.pd, NULL, r.cq, 8, 1) &&
	       fails(r.pd, domain, NULL, 8, 1), "no PD, no domain, no CQ");
	errno = 0;
	report(!ibv_create_xrc_srq(r.pd, domain, r.cq, NULL) && errno == EINVAL,
	       "no attributes");
	report(fails(r.pd, domain, r.cq, 0, 1) && fails(r.pd, domain, r.cq, 8, 0) &&
	       fails(r.pd, domain, r.cq, ~0U, 1) && fails(r.pd, domain, r.cq, 8, ~0U),
	       "attributes that make no sense");
}

static void test_modify(struct ibv_srq *srq)
{
	struct ibv_srq_attr attr = { .max_wr = 16, .srq_limit = 1 };
	struct ibv_async_event event;

	report(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR) == EOPNOTSUPP,
	       "it cannot be made larger");
	report(!ibv_query_srq(srq, &attr) && attr.max_wr >= RECV_DEPTH &&
	       attr.max_sge >= 1 && attr.srq_limit == 0, "it is as it was made");
	/* None is posted. */
	attr.srq_limit = 1;
	report(!ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), "its limit is set");
	do {
		if (ibv_get_async_event(r.context, &event))
			break;
		ibv_ack_async_event(&event);
	} while (event.event_type == IBV_EVENT_PORT_ACTIVE ||
		 event.event_type == IBV_EVENT_GID_CHANGE);
	report(event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
	       event.element.srq == srq, "and is reached");
	ibv_ack_async_event(&event);
}

static void test_messages(struct ibv_srq *srq, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_sge sge = { (uintptr_t)r.sent, 100, r.mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 7, .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(0x01020304),
		.xrc_remote_srq_num = srq->xrc_srq_num,
	};
	struct ibv_wc wc;

	report(!post_recv(&r, srq, 0) && sends(&r, qp, srq->xrc_srq_num, 5) &&
	       arrives(&r, 0, 5, qpn), "a message");
	report(!post_recv(&r, srq, 1) && sends(&r, qp, srq->xrc_srq_num, MSG_SIZE) &&
	       arrives(&r, 1, MSG_SIZE, qpn), "one of several parts");
	report(!post_recv(&r, srq, 2) && !ibv_post_send(qp, &wr, &bad) &&
	       poll_one(r.cq, &wc) && wc.status == IBV_WC_SUCCESS &&
	       wc.opcode == IBV_WC_RECV && wc.wr_id == 2 &&
	       (wc.wc_flags & IBV_WC_WITH_IMM) && wc.imm_data == htonl(0x01020304) &&
	       !memcmp(r.received[2], r.sent, 100), "one with an immediate");
	report(!ibv_poll_cq(r.cq, 1, &wc), "it was not to be told of");
	wr.xrc_remote_srq_num = 1 << 24;
	report(ibv_post_send(qp, &wr, &bad) == EINVAL && bad == &wr,
	       "an SRQ number of 25 bits");
}

/* The event of a message and that of a completed send, in whichever order. */
static void test_events(struct ibv_srq *srq, struct ibv_qp *qp, uint32_t qpn)
{
	struct ibv_cq *cq = NULL;
	void *context = NULL;
	struct ibv_wc wc;
	int flags, received = 0, sent = 0, rounds;

	flags = fcntl(r.channel->fd, F_GETFL);
	fcntl(r.channel->fd, F_SETFL, flags | O_NONBLOCK);
	/* What there was, and what was not asked for. */
	while (!ibv_get_cq_event(r.channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	errno = 0;
	report(!ibv_req_notify_cq(r.cq, 0) &&
	       ibv_get_cq_event(r.channel, &cq, &context) && errno == EAGAIN,
	       "there is no event yet");
	fcntl(r.channel->fd, F_SETFL, flags);
	report(!post_recv(&r, srq, 3) && !post_send(&r, qp, srq->xrc_srq_num, 300),
	       "a message is sent");
	for (rounds = 0; rounds < 100 && !(sent && received); rounds++) {
		if (ibv_get_cq_event(r.channel, &cq, &context) || cq != r.cq ||
		    context != &r)
			break;
		ibv_ack_cq_events(cq, 1);
		if (ibv_req_notify_cq(cq, 0))
			break;
		while (ibv_poll_cq(cq, 1, &wc) == 1) {
			received += wc.status == IBV_WC_SUCCESS && wc.wr_id == 3 &&
				    wc.opcode == IBV_WC_RECV && wc.qp_num == qpn;
			sent += wc.status == IBV_WC_SUCCESS && wc.wr_id == FIRST_SEND + 300;
		}
	}
	report(sent == 1 && received == 1, "events tell of both completions");
}

int main(void)
{
	struct ibv_srq_init_attr attr = {
		.srq_context = &attr, .attr = { .max_wr = RECV_DEPTH, .max_sge = 1 },
	};
	struct ibv_srq *srq, *second, *plain;
	struct ibv_srq_attr plain_attr;
	struct ibv_qp *qp;
	uint32_t qpn = 0;

	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain != NULL, "a domain");
	test_arguments();
	srq = ibv_create_xrc_srq(r.pd, domain, r.cq, &attr);
	need(srq != NULL, "an SRQ");
	report(srq->context == r.context && srq->pd == r.pd &&
	       srq->srq_context == &attr && srq->xrc_domain == domain &&
	       srq->xrc_cq == r.cq && attr.attr.max_wr >= RECV_DEPTH,
	       "it tells what it was made of");
	second = create_srq(&r, domain);
	need(second != NULL, "another one, on the same CQ");
	report(srq->xrc_srq_num && srq->xrc_srq_num < 1 << 24 &&
	       second->xrc_srq_num != srq->xrc_srq_num, "each has its number");
	report(ibv_destroy_cq(r.cq) == EBUSY, "the CQ is in use");
	test_modify(srq);

	qp = create_sender(&r, domain);
	need(qp && !create_rcv_qp(domain, &qpn) &&
	     !connect_rcv_qp(&r, domain, qpn, qp->qp_num) &&
	     connect_sender(&r, qp, qpn), "a connection");
	test_messages(srq, qp, qpn);
	report(!post_recv(&r, srq, 4) && !post_recv(&r, second, 5) &&
	       sends(&r, qp, second->xrc_srq_num, 50) && arrives(&r, 5, 50, qpn) &&
	       sends(&r, qp, srq->xrc_srq_num, 60) && arrives(&r, 4, 60, qpn),
	       "each SRQ gets what is for it");
	test_events(srq, qp, qpn);

	/* An SRQ of libibverbs under the same names. */
	plain = ibv_create_srq(r.pd, &attr);
	report(plain && !post_recv(&r, plain, 6) && !ibv_query_srq(plain, &plain_attr) &&
	       plain_attr.max_wr >= RECV_DEPTH && !ibv_destroy_srq(plain),
	       "an SRQ without XRC is as ever");
	report(!ibv_destroy_qp(qp) && !ibv_unreg_xrc_rcv_qp(domain, qpn) &&
	       !ibv_destroy_srq(second) && !ibv_destroy_srq(srq) &&
	       !ibv_close_xrc_domain(domain), "all is given back");
	close_rig(&r);
	return finish();
}
