/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_create_xrc_rcv_qp(), and the whole way of a message to it. */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static struct rig r;

/* As many as fit, and then one more. */
static void test_depth(struct ibv_qp *qp, struct ibv_srq *srq, uint32_t qpn)
{
	int i, ret = 0, sent = 0, received = 0;
	struct ibv_wc wc;

	for (i = 0; i < RECV_DEPTH; i++)
		ret |= post_recv(&r, srq, i);
	for (i = 0; i < RECV_DEPTH; i++)
		ret |= post_send(&r, qp, srq->xrc_srq_num, MSG_SIZE);
	for (i = 0; !ret && i < 2 * RECV_DEPTH && poll_one(r.cq, &wc); i++) {
		if (wc.status != IBV_WC_SUCCESS)
			break;
		sent += wc.opcode == IBV_WC_SEND;
		/* In their order. */
		received += wc.opcode == IBV_WC_RECV && wc.qp_num == qpn &&
			    wc.wr_id == (uint64_t)received &&
			    !memcmp(r.received[received], r.sent, MSG_SIZE);
	}
	report(sent == RECV_DEPTH && received == RECV_DEPTH, "many messages");
	for (i = 0, ret = 0; i <= SEND_DEPTH && !ret; i++)
		ret = post_send(&r, qp, srq->xrc_srq_num, 10);
	report(i == SEND_DEPTH + 1 && ret == ENOMEM, "no more than the QP is deep");
}

static void test_sender(struct ibv_xrc_domain *domain, struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init, plain = {
		.send_cq = r.cq, .recv_cq = r.cq, .qp_type = IBV_QPT_RC,
		.cap = { 1, 1, 1, 1, 0 },
	};
	struct ibv_qp_attr attr;
	struct ibv_qp *rc;

	report(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) &&
	       attr.qp_state == IBV_QPS_RESET && init.qp_type == IBV_QPT_XRC &&
	       init.xrc_domain == domain && init.send_cq == r.cq &&
	       init.cap.max_send_wr == SEND_DEPTH, "the sender's QP is as it was made");
	errno = 0;
	report(!create_sender(&r, NULL) && errno == EINVAL,
	       "a QP of this type needs a domain");
	rc = ibv_create_qp(r.pd, &plain);
	report(rc && !ibv_query_qp(rc, &attr, IBV_QP_STATE, &init) &&
	       init.qp_type == IBV_QPT_RC && !init.xrc_domain && !ibv_destroy_qp(rc),
	       "a QP of another one is as ever");
}

int main(void)
{
	struct ibv_qp_init_attr attr = { 0 };
	struct ibv_xrc_domain *domain;
	int fd = domain_file(), srq_num;
	struct member m;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	uint32_t qpn = 0, second = 0;
	int done = 0;

	start_member(&m, fd, O_CREAT);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	need(domain != NULL, "a domain");
	report(ibv_create_xrc_rcv_qp(&attr, &qpn) == EINVAL &&
	       ibv_create_xrc_rcv_qp(NULL, &qpn) == EINVAL && !qpn, "no domain");
	attr.xrc_domain = domain;
	report(ibv_create_xrc_rcv_qp(&attr, NULL) == EINVAL, "no place for the number");
	need(!create_rcv_qp(domain, &qpn), "a receiving QP");
	report(!create_rcv_qp(domain, &second) && second != qpn &&
	       !ibv_unreg_xrc_rcv_qp(domain, second) &&
	       query_errno(domain, second) == EINVAL,
	       "another one, with which only its creator was registered");

	qp = create_sender(&r, domain);
	need(qp != NULL, "a sender's QP");
	test_sender(domain, qp);
	srq = create_srq(&r, domain);
	need(srq && !connect_rcv_qp(&r, domain, qpn, qp->qp_num) &&
	     connect_sender(&r, qp, qpn), "an SRQ, and a connection");
	srq_num = call_member(&m, MEMBER_SRQ, 0, 0);
	report(!post_recv(&r, srq, 0) && sends(&r, qp, srq->xrc_srq_num, 5000) &&
	       arrives(&r, 0, 5000, qpn), "a message to this process");
	/* It is not registered: SRQs do not need that. */
	report(srq_num > 0 && sends(&r, qp, srq_num, 300) &&
	       call_member(&m, MEMBER_RECV, qpn, 300) == 1,
	       "and one to the other, by the same QP");
	test_depth(qp, srq, qpn);
	/* Nobody has posted buffers for them, but they are taken. */
	while (done < SEND_DEPTH && poll_one(r.cq, &wc))
		done += wc.qp_num == qp->qp_num;
	report(done == SEND_DEPTH && !ibv_modify_qp(qp, &err, IBV_QP_STATE),
	       "they complete, and the sender's QP is put in error");
	report(!post_send(&r, qp, srq->xrc_srq_num, 10) && poll_one(r.cq, &wc) &&
	       wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == FIRST_SEND + 10 &&
	       wc.qp_num == qp->qp_num, "where it flushes");

	report(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) &&
	       !ibv_unreg_xrc_rcv_qp(domain, qpn) && query_errno(domain, qpn) == EINVAL,
	       "the receiving QP goes with its creator");
	report(!ibv_close_xrc_domain(domain) && !call_member(&m, MEMBER_CLOSE, 0, 0) &&
	       !end_member(&m), "all is given back");
	close_rig(&r);
	return finish();
}
