/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* A thread that waits for events, as programs for OFED have it: cancelled, and told. */
#include "ofed_util.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SHORT_US 300000

static struct rig r;
static struct ibv_xrc_domain *domain;
static struct ibv_srq *srq;

static void *wait_for_async(void *arg)
{
	struct ibv_async_event event;

	while (!ibv_get_async_event(r.context, &event))
		ibv_ack_async_event(&event);
	return arg;
}

static void *wait_for_completion(void *arg)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(r.channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	return arg;
}

static int is_cancelled(void *(*wait)(void *))
{
	pthread_t thread;
	void *ret;

	if (pthread_create(&thread, NULL, wait, NULL))
		return 0;
	usleep(SHORT_US);
	return !pthread_cancel(thread) && !pthread_join(thread, &ret) &&
	       ret == PTHREAD_CANCELED;
}

static void *destroy_srq(void *arg)
{
	return (void *)(intptr_t)ibv_destroy_srq(arg);
}

/* Takes events until it is that of the SRQ. */
static int has_limit_event(struct ibv_async_event *event)
{
	struct ibv_srq_attr attr = { .srq_limit = 1 };

	/* None is posted. */
	if (ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT))
		return 0;
	while (!ibv_get_async_event(r.context, event)) {
		if (event->event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			return event->element.srq == srq;
		ibv_ack_async_event(event);
	}
	return 0;
}

static void test_destroy(void)
{
	struct ibv_async_event event;
	uint32_t number = srq->xrc_srq_num;
	pthread_t thread;
	void *ret;

	need(has_limit_event(&event), "an event of an SRQ");
	need(!pthread_create(&thread, NULL, destroy_srq, srq), "a thread");
	usleep(SHORT_US);
	report(pthread_tryjoin_np(thread, &ret) == EBUSY,
	       "who destroys it waits for the acknowledgement");
	report(srq->xrc_srq_num == number, "until then it is there");
	ibv_ack_async_event(&event);
	report(!pthread_join(thread, &ret) && !ret, "and it goes");
}

int main(void)
{
	struct ibv_srq *second;
	struct ibv_qp *qp;
	uint32_t qpn = 0;

	open_rig(&r);
	report(is_cancelled(wait_for_async) && is_cancelled(wait_for_completion),
	       "threads that wait before there is a domain are cancelled");
	domain = ibv_open_xrc_domain(r.context, -1, O_CREAT);
	need(domain != NULL, "a domain");
	srq = create_srq(&r, domain);
	second = create_srq(&r, domain);
	need(srq && second, "two SRQs");
	report(is_cancelled(wait_for_async), "who waits for asynchronous events is cancelled");
	report(is_cancelled(wait_for_completion), "who waits for completions is cancelled");
	test_destroy();

	qp = create_sender(&r, domain);
	need(qp && !create_rcv_qp(domain, &qpn) &&
	     !connect_rcv_qp(&r, domain, qpn, qp->qp_num) &&
	     connect_sender(&r, qp, qpn), "a connection");
	report(!post_recv(&r, second, 0) && sends(&r, qp, second->xrc_srq_num, 100) &&
	       arrives(&r, 0, 100, qpn), "messages arrive as ever");
	report(!ibv_destroy_qp(qp) && !ibv_unreg_xrc_rcv_qp(domain, qpn) &&
	       !ibv_destroy_srq(second) && !ibv_close_xrc_domain(domain),
	       "all is given back");
	close_rig(&r);
	return finish();
}
