/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ibv_open_xrc_domain() */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static struct rig r;

static int fails(int fd, int oflag, int expected)
{
	errno = 0;
	return !ibv_open_xrc_domain(r.context, fd, oflag) && errno == expected;
}

int main(void)
{
	struct ibv_xrc_domain *domain, *again, *private, *other;
	int fd = domain_file(), fd2;
	struct member m;
	uint32_t qpn = 0, private_qpn = 0;

	start_member(&m, fd, O_CREAT);
	open_rig(&r);

	domain = ibv_open_xrc_domain(r.context, fd, 0);
	need(domain != NULL, "the domain of another process is found by its file");
	report(domain->context == r.context, "it names its device");
	fd2 = domain_file();
	report(fails(fd2, 0, EAGAIN), "a file without a domain has none");
	report(fails(fd, O_CREAT | O_EXCL, EINVAL), "one that must be new is not shared");
	report(fails(9999, O_CREAT, EBADF), "a descriptor that is not open");
	errno = 0;
	report(!ibv_open_xrc_domain(NULL, fd, O_CREAT) && errno == EINVAL,
	       "no device");
	again = ibv_open_xrc_domain(r.context, fd, O_CREAT);
	need(again && again != domain, "another handle on it");
	/* Only the inode counted. */
	close(fd);
	report(!create_rcv_qp(domain, &qpn) && !query_errno(again, qpn) &&
	       call_member(&m, MEMBER_QUERY, qpn, 0) == IBV_QPS_RESET,
	       "all handles are on the same domain");

	private = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	other = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(private && other, "two private domains");
	report(!create_rcv_qp(private, &private_qpn) &&
	       query_errno(other, private_qpn) == EINVAL &&
	       query_errno(domain, private_qpn) == EINVAL &&
	       query_errno(private, qpn) == EINVAL &&
	       !query_errno(private, private_qpn), "which nobody shares");
	report(!ibv_unreg_xrc_rcv_qp(private, private_qpn) &&
	       !ibv_unreg_xrc_rcv_qp(domain, qpn), "the QPs go");
	report(!ibv_close_xrc_domain(other) && !ibv_close_xrc_domain(private) &&
	       !ibv_close_xrc_domain(again) && !ibv_close_xrc_domain(domain),
	       "all domains are closed");
	report(!call_member(&m, MEMBER_CLOSE, 0, 0) && !end_member(&m),
	       "by the other process, too");
	close(fd2);
	close_rig(&r);
	return finish();
}
