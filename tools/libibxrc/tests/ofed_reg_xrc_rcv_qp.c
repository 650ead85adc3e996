/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_reg_xrc_rcv_qp(), and the events that come with a registration. */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>

static struct rig r;

int main(void)
{
	struct ibv_xrc_domain *domain, *private;
	int fd = domain_file(), srq_num;
	struct member m, other;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint32_t qpn = 0;

	start_member(&m, fd, O_CREAT);
	start_member(&other, fd, 0);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	private = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain && private, "two domains");
	qp = create_sender(&r, domain);
	need(qp && !create_rcv_qp(domain, &qpn) &&
	     !connect_rcv_qp(&r, domain, qpn, qp->qp_num) && connect_sender(&r, qp, qpn),
	     "a receiving QP, connected");

	report(ibv_reg_xrc_rcv_qp(NULL, qpn) == EINVAL, "no domain");
	report(ibv_reg_xrc_rcv_qp(domain, NO_QP) == EINVAL &&
	       call_member(&m, MEMBER_REG, NO_QP, 0) == EINVAL,
	       "a number that no QP has");
	report(ibv_reg_xrc_rcv_qp(domain, qp->qp_num) == EINVAL,
	       "one of a QP that is no receiving QP");
	report(ibv_reg_xrc_rcv_qp(private, qpn) == EINVAL, "one of another domain");

	report(!call_member(&m, MEMBER_REG, qpn, 0), "another process registers");
	report(!call_member(&m, MEMBER_REG, qpn, 0), "and again, which does not count");
	report(!ibv_unreg_xrc_rcv_qp(domain, qpn) && !query_errno(domain, qpn),
	       "the QP outlives its creator's registration");
	srq_num = call_member(&m, MEMBER_SRQ, 0, 0);
	report(srq_num > 0 && sends(&r, qp, srq_num, 12345) &&
	       call_member(&m, MEMBER_RECV, qpn, 12345) == 1, "and receives");
	report(!ibv_reg_xrc_rcv_qp(domain, qpn) && !call_member(&other, MEMBER_REG, qpn, 0),
	       "the creator registers again, and a third process");

	/* There is no such SRQ, which is an error of the connection. */
	report(!post_send(&r, qp, NO_SRQ, 10), "a message that nobody can have");
	report(event_is_of(&r, qpn), "the creator is told");
	/* How that one ended does not matter: another one does not get there. */
	report(!post_send(&r, qp, srq_num, 10) && poll_one(r.cq, &wc) &&
	       (wc.status != IBV_WC_SUCCESS ||
		(poll_one(r.cq, &wc) && wc.status != IBV_WC_SUCCESS)),
	       "and the sender, at the next message");
	report(call_member(&m, MEMBER_EVENT, qpn, 0) == 1 &&
	       call_member(&other, MEMBER_EVENT, qpn, 0) == 1, "and so are the others");

	report(!call_member(&m, MEMBER_UNREG, qpn, 0) &&
	       call_member(&m, MEMBER_UNREG, qpn, 0) == EINVAL,
	       "one call gives back what two have registered");
	report(!ibv_unreg_xrc_rcv_qp(domain, qpn) && !query_errno(domain, qpn),
	       "the third one still has it");
	report(!call_member(&other, MEMBER_UNREG, qpn, 0) &&
	       query_errno(domain, qpn) == EINVAL, "and is the last one");
	report(call_member(&m, MEMBER_REG, qpn, 0) == EINVAL,
	       "nobody registers with what is gone");
	report(!ibv_destroy_qp(qp) && !ibv_close_xrc_domain(private) &&
	       !ibv_close_xrc_domain(domain) && !call_member(&m, MEMBER_CLOSE, 0, 0) &&
	       !end_member(&m) && !call_member(&other, MEMBER_CLOSE, 0, 0) &&
	       !end_member(&other), "all is given back");
	close_rig(&r);
	return finish();
}
