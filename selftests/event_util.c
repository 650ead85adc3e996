// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "event_util.h"

int ev_open_domain(struct xrc *x, int file,
		   const struct ib_xrc_policy *policy, int ef,
		   __u64 user_handle, __u32 *xrcd)
{
	struct xrc_report report = { ef, user_handle };
	struct xrc_xrcd_opts opts = {
		.policy = policy,
		.report = ef == XRC_NO_FD ? NULL : &report,
	};

	return xrc_xrcd_open_with(x, file, O_CREAT, &opts, xrcd);
}

int ev_create_qp(struct xrc *x, __u32 xrcd, int ef, __u64 user_handle,
		 struct xrc_qp *qp)
{
	struct xrc_report report = { ef, user_handle };

	return xrc_tgt_create_report(x, xrcd, &report, qp);
}

int ev_open_qp(struct xrc *x, __u32 xrcd, __u32 qp_num, int ef,
	       __u64 user_handle, struct xrc_qp *qp)
{
	struct xrc_report report = { ef, user_handle };

	return xrc_tgt_open_report(x, xrcd, qp_num, &report, qp);
}

int ev_source_open(struct xrc *x, __u32 xrcd, __u32 max_wr,
		   __u64 user_handle, int ef, struct ev_source *s)
{
	int ret = xrc_cq_create(x, 2048, 0, XRC_NO_FD, &s->cq);

	return ret ? ret : xrc_srq_create_report(x, xrcd, &s->cq, max_wr, 1,
						 user_handle, ef, &s->srq);
}

int ev_source_post(struct xrc *x, struct ev_source *s, __u32 n)
{
	int ret = 0;

	while (n-- && !ret)
		ret = xrc_srq_post(x, &s->srq, 0, s->buf, EV_SIZE);
	return ret;
}

int ev_source_close(struct xrc *x, struct ev_source *s)
{
	int ret = xrc_srq_destroy(x, &s->srq);

	return ret ? ret : xrc_cq_destroy(x, &s->cq);
}

int ev_raise_numbers(struct xrc *x, const struct ev_source *s, __u32 first,
		     __u32 last)
{
	int ret = 0;

	for (; first <= last && !ret; first++)
		ret = xrc_srq_limit(x, &s->srq, first);
	return ret;
}

int ev_take_numbers(int ef, const struct ev_source *s, __u32 *next, int n)
{
	struct ib_xrc_event event;
	int ret, i;

	for (i = 0; i < n; i++) {
		ret = xrc_event_read(ef, &event, 1);
		if (ret == -EAGAIN)
			break;
		if (ret != 1)
			return ret ? ret : -EPROTO;
		if (event.type == IB_XRC_EVENT_OVERFLOW && event.value &&
		    !event.number && !event.user_handle) {
			*next += event.value;
			continue;
		}
		if (event.type != IB_XRC_EVENT_SRQ_LIMIT ||
		    event.number != s->srq.srq_num)
			return -EBADMSG;
		if (event.value != *next)
			return -EILSEQ;
		++*next;
	}
	return i;
}

int ev_connect_ini(struct xrc *x, struct xrc_ini *ini,
		   const struct xrc_qp *qp)
{
	struct ib_uverbs_qp_attr attr;
	int ret;

	ret = ini->qp ? xrc_ini_reset(ini) : xrc_ini_open(ini, EV_DEPTH, 16384);
	if (ret)
		return ret;
	xrc_ini_tgt_attr(ini, &attr);
	/* What a peer may try, so that its key is looked at. */
	attr.qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	ret = xrc_tgt_connect(x, qp, &attr, NULL);
	return ret ? ret : xrc_ini_connect(ini, qp->qp_num);
}

int ev_set_state(struct xrc *x, const struct xrc_qp *qp, int state)
{
	const struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = state,
	};

	return xrc_tgt_modify(x, qp, &attr);
}

int ev_send_to(struct xrc_ini *ini, __u32 srq_num, __u32 n)
{
	struct xrc_send send = { .srq_num = srq_num, .length = EV_SIZE };
	int ret = 0;

	while (n-- && !ret)
		ret = xrc_ini_send(ini, &send);
	return ret;
}

int ev_send_bad(struct xrc_ini *ini)
{
	return ev_send_to(ini, IB_XRC_WIRE_SRQ_NUM_MAX, 1);
}

int ev_wait_sent(struct xrc_ini *ini, __u32 n)
{
	struct ibv_wc wc;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS);
		if (!ret && wc.status)
			ret = -EIO;
	}
	return ret;
}

int ev_wait_received(struct ev_source *s, __u32 n)
{
	struct ib_xrc_cqe cqe;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_cq_wait(&s->cq, &cqe, XRC_TIMEOUT_MS);
		if (!ret && cqe.status)
			ret = -EIO;
	}
	return ret;
}

int ev_wait_drained(const struct ev_source *s)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (__atomic_load_n(&s->srq.ring->flags, __ATOMIC_ACQUIRE)) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(100);
	}
	return 0;
}

static void *reader_main(void *arg)
{
	struct ev_reader *r = arg;
	ssize_t n;

	r->tid = gettid();
	n = read(r->fd, &r->event, sizeof(r->event));
	r->ret = n < 0 ? -errno : (int)n;
	return NULL;
}

int ev_reader_start(struct ev_reader *r, int fd)
{
	int ret;

	memset(r, 0, sizeof(*r));
	r->fd = fd;
	ret = -pthread_create(&r->thread, NULL, reader_main, r);
	if (ret)
		return ret;
	while (!r->tid)
		sched_yield();
	return xrc_wait_blocked(r->tid);
}
