/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* Another process of a domain, which does what it is told. */
#include "ofed_util.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

struct order {
	enum member_op op;
	uint32_t qpn;
	uint32_t arg;
};

static int query(struct ibv_xrc_domain *domain, uint32_t qpn)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int ret = ibv_query_xrc_rcv_qp(domain, qpn, &attr, IBV_QP_STATE, &init);

	return ret ? -ret : (int)attr.qp_state;
}

static int obey(struct rig *r, struct ibv_xrc_domain *domain, struct ibv_srq **srq,
		struct order *order)
{
	struct ibv_qp_attr init = init_attr();

	switch (order->op) {
	case MEMBER_SRQ:
		*srq = create_srq(r, domain);
		if (!*srq || post_recv(r, *srq, 0))
			return -1;
		return (*srq)->xrc_srq_num;
	case MEMBER_REG:
		return ibv_reg_xrc_rcv_qp(domain, order->qpn);
	case MEMBER_UNREG:
		return ibv_unreg_xrc_rcv_qp(domain, order->qpn);
	case MEMBER_QUERY:
		return query(domain, order->qpn);
	case MEMBER_INIT:
		return ibv_modify_xrc_rcv_qp(domain, order->qpn, &init, INIT_MASK);
	case MEMBER_CONNECT:
		return connect_rcv_qp(r, domain, order->qpn, order->arg);
	case MEMBER_RECV:
		/* The sender's process has the same bytes. */
		return arrives(r, 0, order->arg, order->qpn);
	case MEMBER_EVENT:
		return event_is_of(r, order->qpn);
	case MEMBER_CLOSE:
		if (*srq && ibv_destroy_srq(*srq))
			return -1;
		return ibv_close_xrc_domain(domain);
	}
	return -1;
}

static int is_member(int socket, int fd, int oflag)
{
	static struct rig r;
	struct ibv_xrc_domain *domain;
	struct ibv_srq *srq = NULL;
	struct order order;
	int ret, closed = 0;

	/* Its test cases are not those of the test. */
	if (!freopen("/dev/null", "w", stdout))
		return 1;
	open_rig(&r);
	domain = ibv_open_xrc_domain(r.context, fd, oflag);
	ret = domain ? 0 : errno;
	if (write(socket, &ret, sizeof(ret)) != sizeof(ret) || !domain)
		return 1;
	while (read(socket, &order, sizeof(order)) == sizeof(order)) {
		ret = obey(&r, domain, &srq, &order);
		closed = order.op == MEMBER_CLOSE && !ret;
		if (write(socket, &ret, sizeof(ret)) != sizeof(ret))
			return 1;
	}
	/* Otherwise it goes as programs do that just exit. */
	if (closed)
		close_rig(&r);
	return closed ? finish() : 0;
}

void start_member(struct member *m, int fd, int oflag)
{
	int sockets[2], ret = -1;

	/* What is buffered would be written twice. */
	fflush(stdout);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
		exit(1);
	m->pid = fork();
	if (!m->pid) {
		close(sockets[0]);
		exit(is_member(sockets[1], fd, oflag));
	}
	close(sockets[1]);
	m->fd = sockets[0];
	if (read(m->fd, &ret, sizeof(ret)) != sizeof(ret) || ret) {
		printf("1..0 # SKIP no device with XRC (%s)\n", strerror(ret));
		exit(4);
	}
}

int call_member(struct member *m, enum member_op op, uint32_t qpn, uint32_t arg)
{
	struct order order = { .op = op, .qpn = qpn, .arg = arg };
	int ret = -1;

	if (write(m->fd, &order, sizeof(order)) != sizeof(order) ||
	    read(m->fd, &ret, sizeof(ret)) != sizeof(ret))
		return -1;
	return ret;
}

int end_member(struct member *m)
{
	int status = -1;

	/* Those that were started later have the socket, too. */
	shutdown(m->fd, SHUT_RDWR);
	close(m->fd);
	if (waitpid(m->pid, &status, 0) != m->pid)
		return -1;
	return status;
}

void kill_member(struct member *m)
{
	kill(m->pid, SIGKILL);
	end_member(m);
}
