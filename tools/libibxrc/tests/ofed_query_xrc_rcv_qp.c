/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_query_xrc_rcv_qp() */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define ALL (INIT_MASK | RTR_MASK)

static struct rig r;

int main(void)
{
	struct ibv_xrc_domain *domain, *private;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int fd = domain_file();
	struct member m;
	struct ibv_qp *qp;
	uint32_t qpn = 0;

	start_member(&m, fd, O_CREAT);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	private = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain && private, "two domains");
	qp = create_sender(&r, domain);
	need(qp && !create_rcv_qp(domain, &qpn), "a receiving QP");

	report(ibv_query_xrc_rcv_qp(NULL, qpn, &attr, ALL, &init) == EINVAL &&
	       ibv_query_xrc_rcv_qp(domain, qpn, NULL, ALL, &init) == EINVAL &&
	       ibv_query_xrc_rcv_qp(domain, qpn, &attr, ALL, NULL) == EINVAL,
	       "no domain, no place for the attributes");
	report(query_errno(domain, NO_QP) == EINVAL, "a number that no QP has");
	report(query_errno(domain, qp->qp_num) == EINVAL,
	       "one of a QP that is no receiving QP");
	report(query_errno(private, qpn) == EINVAL, "one of another domain");

	memset(&init, 0xff, sizeof(init));
	report(!ibv_query_xrc_rcv_qp(domain, qpn, &attr, ALL, &init) &&
	       attr.qp_state == IBV_QPS_RESET, "a new one is in RESET");
	report(init.qp_type == IBV_QPT_XRC && init.xrc_domain == domain &&
	       !init.send_cq && !init.recv_cq && !init.srq && !init.qp_context,
	       "and has a domain, and nothing else");
	need(!connect_rcv_qp(&r, domain, qpn, qp->qp_num), "it is connected");
	memset(&attr, 0, sizeof(attr));
	report(!ibv_query_xrc_rcv_qp(domain, qpn, &attr, ALL, &init) &&
	       attr.qp_state == IBV_QPS_RTR && attr.dest_qp_num == qp->qp_num &&
	       attr.rq_psn == SEND_PSN && attr.path_mtu == r.mtu &&
	       attr.min_rnr_timer == 12 && attr.port_num == PORT &&
	       attr.ah_attr.grh.sgid_index == r.gid_index &&
	       !memcmp(&attr.ah_attr.grh.dgid, &r.gid, sizeof(r.gid)),
	       "with the attributes that it was given");
	report(call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_RTR,
	       "another process, not registered, sees the same");
	report(call_member(&m, MEMBER_QUERY, NO_QP, 0) == -EINVAL,
	       "and no other number");
	report(!ibv_unreg_xrc_rcv_qp(domain, qpn) &&
	       query_errno(domain, qpn) == EINVAL &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == -EINVAL,
	       "when it is gone, nobody sees it");
	report(!ibv_destroy_qp(qp) && !ibv_close_xrc_domain(private) &&
	       !ibv_close_xrc_domain(domain) && !call_member(&m, MEMBER_CLOSE, 0, 0) &&
	       !end_member(&m), "all is given back");
	close_rig(&r);
	return finish();
}
