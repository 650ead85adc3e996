/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_close_xrc_domain() */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct rig r;

int main(void)
{
	struct ibv_xrc_domain *domain;
	int fd = domain_file();
	struct member m;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	uint32_t qpn = 0, lasting = 0;

	start_member(&m, fd, O_CREAT);
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	need(domain != NULL, "a domain");
	report(ibv_close_xrc_domain(NULL) == EINVAL, "no domain");

	srq = create_srq(&r, domain);
	need(srq != NULL, "an SRQ");
	report(ibv_close_xrc_domain(domain) == EBUSY, "keeps it open");
	report(!ibv_destroy_srq(srq), "the SRQ is destroyed");
	qp = create_sender(&r, domain);
	need(qp != NULL, "a QP");
	report(ibv_close_xrc_domain(domain) == EBUSY, "keeps it open");
	report(!ibv_destroy_qp(qp), "the QP is destroyed");
	need(!create_rcv_qp(domain, &qpn), "a registration");
	report(ibv_close_xrc_domain(domain) == EBUSY, "keeps it open");
	report(!query_errno(domain, qpn), "and it works as before");
	report(!ibv_unreg_xrc_rcv_qp(domain, qpn), "the registration is given back");

	/* What others have keeps it open for them only. */
	need(!create_rcv_qp(domain, &lasting) &&
	     !call_member(&m, MEMBER_REG, lasting, 0) &&
	     !ibv_unreg_xrc_rcv_qp(domain, lasting), "another process has a registration");
	report(!ibv_close_xrc_domain(domain), "the domain is closed");
	report(call_member(&m, MEMBER_QUERY, lasting, 0) == IBV_QPS_RESET,
	       "and is there for the other one");
	report(call_member(&m, MEMBER_CLOSE, 0, 0) == EBUSY, "who cannot close it");
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	report(domain && !query_errno(domain, lasting), "it can be opened again");
	report(!ibv_close_xrc_domain(domain), "and closed");
	report(!call_member(&m, MEMBER_UNREG, lasting, 0) &&
	       !call_member(&m, MEMBER_CLOSE, 0, 0) && !end_member(&m),
	       "the other process closes it as the last one");
	errno = 0;
	report(!ibv_open_xrc_domain(r.context, fd, 0) && errno == EAGAIN,
	       "then it is gone");

	/* Exit and what comes with it close it, too. */
	start_member(&m, fd, O_CREAT);
	domain = ibv_open_xrc_domain(r.context, fd, 0);
	need(domain && !create_rcv_qp(domain, &qpn) &&
	     !call_member(&m, MEMBER_REG, qpn, 0) &&
	     !ibv_unreg_xrc_rcv_qp(domain, qpn), "a process with the registration");
	report(!end_member(&m) && goes(domain, qpn), "exits without giving it back");
	report(!ibv_close_xrc_domain(domain), "the domain is closed again");
	close(fd);
	close_rig(&r);
	return finish();
}
