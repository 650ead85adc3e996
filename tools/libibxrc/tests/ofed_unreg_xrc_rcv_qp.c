/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_unreg_xrc_rcv_qp(), and processes that go without it. */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>

static struct rig r;

int main(void)
{
	struct ibv_xrc_domain *domain, *private, *again;
	int fd = domain_file();
	struct member m, killed, exiting;
	uint32_t qpn = 0;

	start_member(&m, fd, O_CREAT);
	start_member(&killed, fd, 0);
	start_member(&exiting, fd, 0);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	again = ibv_open_xrc_domain(r.context, fd, 0);
	private = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain && again && private, "domains");
	need(!create_rcv_qp(domain, &qpn), "a receiving QP");

	report(ibv_unreg_xrc_rcv_qp(NULL, qpn) == EINVAL, "no domain");
	report(ibv_unreg_xrc_rcv_qp(domain, NO_QP) == EINVAL, "a number that no QP has");
	report(ibv_unreg_xrc_rcv_qp(private, qpn) == EINVAL, "one of another domain");
	report(call_member(&m, MEMBER_UNREG, qpn, 0) == EINVAL,
	       "a process that is not registered");
	report(ibv_unreg_xrc_rcv_qp(again, qpn) == EINVAL,
	       "a handle by which it is not registered");
	report(!query_errno(domain, qpn), "all that has changed nothing");

	report(!call_member(&m, MEMBER_REG, qpn, 0) &&
	       !call_member(&killed, MEMBER_REG, qpn, 0) &&
	       !call_member(&exiting, MEMBER_REG, qpn, 0), "three processes register");
	report(!ibv_unreg_xrc_rcv_qp(domain, qpn) &&
	       ibv_unreg_xrc_rcv_qp(domain, qpn) == EINVAL,
	       "the creator unregisters, once");
	report(!query_errno(domain, qpn), "the QP stays");
	report(!call_member(&m, MEMBER_UNREG, qpn, 0) && !query_errno(domain, qpn),
	       "as it does when the first one goes");
	report(!end_member(&exiting) && !query_errno(domain, qpn),
	       "and when the second one exits");
	kill_member(&killed);
	report(goes(domain, qpn), "but when the last one is killed, it goes");
	report(ibv_unreg_xrc_rcv_qp(domain, qpn) == EINVAL &&
	       call_member(&m, MEMBER_UNREG, qpn, 0) == EINVAL,
	       "nobody unregisters from what is gone");
	report(!ibv_close_xrc_domain(private) && !ibv_close_xrc_domain(again) &&
	       !ibv_close_xrc_domain(domain) && !call_member(&m, MEMBER_CLOSE, 0, 0) &&
	       !end_member(&m), "all is given back");
	close_rig(&r);
	return finish();
}
