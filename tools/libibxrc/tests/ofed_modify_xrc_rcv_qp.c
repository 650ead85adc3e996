/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_modify_xrc_rcv_qp() */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>

static struct rig r;

int main(void)
{
	struct ibv_xrc_domain *domain, *private;
	struct ibv_qp_attr init = init_attr(), rtr, other = { .rate_limit = 1 };
	struct ibv_qp_attr err = { .qp_state = IBV_QPS_ERR };
	int fd = domain_file();
	struct member m;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t qpn = 0, second = 0;

	start_member(&m, fd, O_CREAT);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	private = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain && private, "two domains");
	qp = create_sender(&r, domain);
	srq = create_srq(&r, domain);
	need(qp && srq && !create_rcv_qp(domain, &qpn) && !create_rcv_qp(domain, &second),
	     "two receiving QPs");
	rtr = rtr_attr(&r, qp->qp_num);

	report(ibv_modify_xrc_rcv_qp(NULL, qpn, &init, INIT_MASK) == EINVAL &&
	       ibv_modify_xrc_rcv_qp(domain, qpn, NULL, INIT_MASK) == EINVAL,
	       "no domain, no attributes");
	report(ibv_modify_xrc_rcv_qp(domain, NO_QP, &init, INIT_MASK) == EINVAL,
	       "a number that no QP has");
	report(ibv_modify_xrc_rcv_qp(domain, qp->qp_num, &init, INIT_MASK) == EINVAL,
	       "one of a QP that is no receiving QP");
	report(ibv_modify_xrc_rcv_qp(private, qpn, &init, INIT_MASK) == EINVAL,
	       "one of another domain");
	report(ibv_modify_xrc_rcv_qp(domain, qpn, &rtr, RTR_MASK) == EINVAL,
	       "not from RESET to RTR");
	report(ibv_modify_xrc_rcv_qp(domain, qpn, &init,
				     INIT_MASK & ~IBV_QP_PORT) == EINVAL,
	       "not without what is needed");
	report(ibv_modify_xrc_rcv_qp(domain, qpn, &other, IBV_QP_RATE_LIMIT) ==
	       EOPNOTSUPP, "it has no rate limit");
	report(call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_RESET,
	       "all that has changed nothing");

	report(!ibv_modify_xrc_rcv_qp(domain, qpn, &init, INIT_MASK) &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_INIT, "to INIT");
	report(!ibv_modify_xrc_rcv_qp(domain, qpn, &rtr, RTR_MASK) &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_RTR, "to RTR");
	/* Two processes may try; programs query then. */
	report(call_member(&m, MEMBER_INIT, qpn, 0) == EINVAL &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_RTR,
	       "another process is too late");
	report(connect_sender(&r, qp, qpn) && !post_recv(&r, srq, 0) &&
	       sends(&r, qp, srq->xrc_srq_num, 77) && arrives(&r, 0, 77, qpn),
	       "a message arrives");
	report(!ibv_modify_xrc_rcv_qp(domain, qpn, &err, IBV_QP_STATE) &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_ERR, "to ERR");

	/* It has neither created it nor registered. */
	report(!call_member(&m, MEMBER_CONNECT, second, qp->qp_num) &&
	       call_member(&m, MEMBER_QUERY, second, 0) == IBV_QPS_RTR,
	       "another process connects the second one");
	err.qp_state = IBV_QPS_RESET;
	report(!ibv_modify_qp(qp, &err, IBV_QP_STATE) && connect_sender(&r, qp, second) &&
	       !post_recv(&r, srq, 1) && sends(&r, qp, srq->xrc_srq_num, 9000) &&
	       arrives(&r, 1, 9000, second), "which receives");

	report(!ibv_destroy_qp(qp) && !ibv_destroy_srq(srq) &&
	       !ibv_unreg_xrc_rcv_qp(domain, qpn) &&
	       !ibv_unreg_xrc_rcv_qp(domain, second) &&
	       !ibv_close_xrc_domain(private) && !ibv_close_xrc_domain(domain) &&
	       !call_member(&m, MEMBER_CLOSE, 0, 0) && !end_member(&m),
	       "all is given back");
	close_rig(&r);
	return finish();
}
