/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The C API at work: policies, events, disconnect, job keys, lists. Each call is made
 * at least once with success, and once to fail.
 */
#include "capi_util.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An SRQ number that no domain has. */
#define NO_SRQ 0xffffff

/* What the objects have as their contexts: only the addresses count. */
static char xrcd_context, qp_context, srq_context;

static struct ib_xrc_policy policy = {
	.type = IB_XRC_POLICY_DOMAIN,
	.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	.linger_ms = 200,
	.max_tgt_qps = 2,
	.max_srqs = 1,
};

/* Whether NULL came with this errno. */
static int failed(void *object, int expected)
{
	return !object && errno == expected;
}

/* Waits for an event, and compares it. */
static int event_is(struct ibxrc_event_file *file, void *context, uint32_t type,
		    uint32_t number, uint32_t value)
{
	struct pollfd pollfd = { ibxrc_event_file_fd(file), POLLIN, 0 };
	struct ib_xrc_event event;

	if (poll(&pollfd, 1, 20000) != 1 || ibxrc_read_events(file, 1, &event) != 1)
		return 0;
	if (event.user_handle == (uintptr_t)context && event.type == type &&
	    event.number == number && event.value == value)
		return 1;
	printf("# event type %u number %u value %u instead of %u %u %u\n",
	       event.type, event.number, event.value, type, number, value);
	return 0;
}

static void test_event_files(struct ibxrc_context *context)
{
	struct ib_xrc_event event;
	struct ibxrc_event_file *file;
	int fd;

	report(failed(ibxrc_create_event_file(context, 0), EINVAL) &&
	       failed(ibxrc_create_event_file(context,
					      IB_XRC_EVENT_FILE_MAX_DEPTH + 1),
		      EINVAL), "event files of no or too great depth are refused");
	file = ibxrc_create_event_file(context, IB_XRC_EVENT_FILE_DEPTH);
	need(file != NULL, "an event file");
	fd = ibxrc_event_file_fd(file);
	report(!(fcntl(fd, F_GETFL) & O_NONBLOCK), "it blocks");
	fcntl(fd, F_SETFL, O_NONBLOCK);
	errno = 0;
	report(ibxrc_read_events(file, 1, &event) == -1 && errno == EAGAIN,
	       "unless it is told not to");
	errno = 0;
	report(ibxrc_read_events(file, 0, &event) == -1 && errno == EINVAL,
	       "no events are not read");
	report(!ibxrc_destroy_event_file(file), "it is destroyed");
}

/* The domain that the rest is in, of which there are two handles. */
static struct ibxrc_xrcd *test_domain(struct ibxrc_context *context,
				      struct ibxrc_event_file *events,
				      struct ibxrc_xrcd **other_job)
{
	struct ib_xrc_policy other = { 0 }, got;
	struct ibxrc_xrcd_init_attr attr = {
		.comp_mask = IBXRC_XRCD_INIT_ATTR_POLICY |
			     IBXRC_XRCD_INIT_ATTR_JOB_KEY |
			     IBXRC_XRCD_INIT_ATTR_EVENTS,
		.oflags = O_CREAT,
		.policy = &policy,
		.job_key = 42,
		.event_file = events,
		.xrcd_context = &xrcd_context,
	};
	char path[] = "/tmp/ibxrc-capi-XXXXXX";
	struct ibxrc_xrcd *xrcd;
	int fd, read_only;

	fd = mkstemp(path);
	read_only = open(path, O_RDONLY);
	need(fd >= 0 && read_only >= 0 && !unlink(path), "a temporary file");
	attr.fd = read_only;
	report(failed(ibxrc_open_xrcd_ex(context, &attr), EACCES),
	       "a domain with a policy is not made read-only");
	attr.fd = fd;
	attr.comp_mask |= 1 << 31;
	report(failed(ibxrc_open_xrcd_ex(context, &attr), EOPNOTSUPP),
	       "unknown attributes are refused");
	attr.comp_mask &= ~(1 << 31);
	xrcd = ibxrc_open_xrcd_ex(context, &attr);
	need(xrcd != NULL, "a domain with everything");
	report(!ibxrc_query_xrcd_policy(xrcd, &got) &&
	       !memcmp(&got, &policy, sizeof(policy)), "it has its policy");
	report(ibxrc_query_xrcd_policy(xrcd, NULL) == EINVAL,
	       "which goes somewhere");
	attr.policy = &other;
	report(failed(ibxrc_open_xrcd_ex(context, &attr), EEXIST),
	       "and keeps it");
	attr.comp_mask = 0;
	*other_job = ibxrc_open_xrcd_ex(context, &attr);
	need(*other_job != NULL, "a handle without a key");
	close(read_only);
	close(fd);
	return xrcd;
}

static void test_holders(struct ibxrc_xrcd *xrcd, struct ibxrc_xrcd *other_job,
			 struct ibxrc_tgt_qp *qp)
{
	uint32_t qp_num = ibxrc_tgt_qp_num(qp), count = 0;
	struct ibxrc_tgt_qp *opened = ibxrc_open_tgt_qp(xrcd, qp_num);
	struct ib_xrc_holder_info holders[3] = { 0 };

	need(opened != NULL, "a second registration");
	report(!ibxrc_list_tgt_qp_holders(qp, holders, 3, &count) && count == 2 &&
	       holders[0].id == 1 && holders[1].id == 2 &&
	       holders[0].pid == (uint32_t)getpid(), "both are listed");
	memset(holders, 0, sizeof(holders));
	report(!ibxrc_list_tgt_qpn_holders(other_job, qp_num, holders, 1, &count) &&
	       count == 2 && holders[0].id == 1 && !holders[1].id,
	       "by number, too, and no more than there is room for");
	report(ibxrc_list_tgt_qpn_holders(xrcd, 0, NULL, 0, &count) == EINVAL,
	       "of a TGT QP that there is");
	report(failed(ibxrc_open_tgt_qp(other_job, qp_num), EACCES),
	       "another job cannot register");
	report(!ibxrc_close_tgt_qp(opened), "the second registration is closed");
}

/* The limit of the SRQ, and a message that finds no buffer. */
static void test_srq(struct ibxrc_xrcd *xrcd, struct ibxrc_srq *srq,
		     struct ibxrc_event_file *events, struct sender *s)
{
	struct ibv_sge sge = { (uintptr_t)s->buffer, 1, s->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.qp_type.xrc.remote_srqn = ibxrc_get_srq_num(srq),
	}, *bad_wr;
	struct ib_xrc_srq_info info = { 0 };
	struct ibv_srq_attr attr;
	uint32_t count;
	int i;

	report(ibxrc_set_srq_limit(srq, 5) == EINVAL, "a limit must fit");
	report(!ibxrc_set_srq_limit(srq, 2), "it is set");
	report(!ibxrc_query_srq(srq, &attr) && attr.max_wr == 4 &&
	       attr.max_sge == 1 && !attr.srq_limit, "and is over, as it was reached");
	report(event_is(events, &srq_context, IB_XRC_EVENT_SRQ_LIMIT,
			ibxrc_get_srq_num(srq), 2), "and told at once");

	report(!ibxrc_post_ini_send(s->ini, &wr, &bad_wr), "a message");
	for (i = 0; i < 20000 && !info.waiting_msgs; i++) {
		if (ibxrc_list_srqs(xrcd, &info, 1, &count))
			break;
		usleep(1000);
	}
	report(info.waiting_msgs == 1 && count == 1 &&
	       info.srq_num == ibxrc_get_srq_num(srq) &&
	       info.pid == (uint32_t)getpid(), "waits at the SRQ that is listed");
}

static void test_error(struct ibxrc_xrcd *xrcd, struct ibxrc_tgt_qp *qp,
		       struct ibxrc_event_file *xrcd_events,
		       struct ibxrc_event_file *qp_events, struct sender *s)
{
	struct ibv_sge sge = { (uintptr_t)s->buffer, 1, s->mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.qp_type.xrc.remote_srqn = NO_SRQ,
	}, *bad_wr;
	uint32_t qp_num = ibxrc_tgt_qp_num(qp), count;

	report(!ibxrc_post_ini_send(s->ini, &wr, &bad_wr), "a message to nobody");
	report(event_is(xrcd_events, &xrcd_context, IB_XRC_EVENT_TGT_QP_RECLAIMED,
			qp_num, IB_XRC_RECLAIM_ERROR), "takes the TGT QP away");
	report(event_is(qp_events, &qp_context, IB_XRC_EVENT_TGT_QP_ERROR, qp_num,
			IBV_EVENT_QP_REQ_ERR) &&
	       event_is(qp_events, &qp_context, IB_XRC_EVENT_TGT_QP_RECLAIMED,
			qp_num, IB_XRC_RECLAIM_ERROR),
	       "and its holder is told");
	report(ibxrc_query_tgt_qp(qp, NULL, NULL) == ESTALE &&
	       ibxrc_disconnect_tgt_qp(qp, 0, NULL) == ESTALE &&
	       ibxrc_disconnect_close_tgt_qp(qp, 0, NULL) == ESTALE &&
	       ibxrc_list_tgt_qp_holders(qp, NULL, 0, &count) == ESTALE,
	       "who has only ESTALE from it");
	report(!ibxrc_close_tgt_qp(qp), "until it is closed");
	report(!ibxrc_list_tgt_qps(xrcd, NULL, 0, &count) && count == 0,
	       "nothing is left of it");
}

static void creation_is_told(struct ibxrc_event_file *events, uint32_t qp_num)
{
	report(event_is(events, &xrcd_context, IB_XRC_EVENT_TGT_QP_CREATED, qp_num,
			0), "its creation is told");
}

void test_lifetime(struct ibxrc_context *context, const char *device)
{
	struct ibxrc_tgt_qp_init_attr qp_attr = {
		.comp_mask = IBXRC_TGT_QP_INIT_ATTR_EVENTS,
		.qp_context = &qp_context,
	};
	struct ibxrc_srq_init_attr srq_attr = {
		.comp_mask = IBXRC_SRQ_INIT_ATTR_EVENTS,
		.max_wr = 4,
		.max_sge = 1,
		.srq_context = &srq_context,
	};
	struct ibxrc_event_file *xrcd_events, *qp_events;
	struct ib_xrc_disconnect_info info = { 9, 9 };
	struct ibxrc_tgt_qp *first, *second;
	enum ibv_qp_state state = IBV_QPS_ERR;
	struct ibxrc_xrcd *xrcd, *other_job;
	struct sender s = { 0 }, t = { 0 };
	struct ibv_qp_attr attr;
	struct ibxrc_srq *srq;
	struct ibxrc_cq *cq;
	uint32_t qp_num, count;

	test_event_files(context);
	xrcd_events = ibxrc_create_event_file(context, IB_XRC_EVENT_FILE_DEPTH);
	qp_events = ibxrc_create_event_file(context, IB_XRC_EVENT_FILE_DEPTH);
	need(xrcd_events && qp_events, "two event files");
	xrcd = test_domain(context, xrcd_events, &other_job);

	/* The events of SRQ and TGT QPs go to one file. */
	need(open_sender(&s, device) && open_sender(&t, device), "two senders' QPs");
	cq = ibxrc_create_cq(context, 16, NULL, NULL);
	need(cq != NULL, "a CQ");
	report(failed(ibxrc_create_srq_ex(xrcd, cq, &srq_attr), EINVAL),
	       "events need an event file");
	srq_attr.event_file = qp_attr.event_file = qp_events;
	srq = ibxrc_create_srq_ex(xrcd, cq, &srq_attr);
	need(srq != NULL, "an SRQ");
	report(failed(ibxrc_create_srq_ex(xrcd, cq, &srq_attr), EDQUOT),
	       "the policy lets no second one");

	first = ibxrc_create_tgt_qp_ex(xrcd, &qp_attr);
	need(first != NULL, "a TGT QP");
	qp_num = ibxrc_tgt_qp_num(first);
	creation_is_told(xrcd_events, qp_num);
	test_holders(xrcd, other_job, first);

	attr = rtr_attr(&s, s.qp->qp_num, SEND_PSN);
	report(ibxrc_connect_tgt_qp_timeout(first, &attr, INIT_MASK | RTR_MASK, 0,
					    &state) == ETIMEDOUT &&
	       state == IBV_QPS_RESET, "it is not connected in no time");
	report(ibxrc_connect_tgt_qpn_timeout(other_job, qp_num, &attr,
					     INIT_MASK | RTR_MASK, 20000,
					     NULL) == EACCES,
	       "nor by another job");
	report(ibxrc_disconnect_tgt_qp(first, 0, NULL) == EINVAL,
	       "and cannot be disconnected");
	need(!ibxrc_connect_tgt_qp_timeout(first, &attr, INIT_MASK | RTR_MASK,
					   20000, &state) &&
	     state == IBV_QPS_RTR && connect_sender(&s, qp_num),
	     "but in some it is");
	test_srq(xrcd, srq, qp_events, &s);

	report(ibxrc_disconnect_tgt_qpn(other_job, qp_num, 0, NULL) == EACCES,
	       "another job cannot disconnect it");
	report(!ibxrc_disconnect_tgt_qpn(xrcd, qp_num, 50, &info) &&
	       info.delivered_msgs == 0 && info.flushed_msgs == 1,
	       "its job can, and the message is dropped");
	report(!ibxrc_disconnect_tgt_qp(first, 0, &info) && info.flushed_msgs == 0,
	       "again, and there is none");

	second = ibxrc_open_tgt_qp_ex(xrcd, qp_num, &qp_attr);
	need(second != NULL, "another registration with it");
	report(!ibxrc_disconnect_close_tgt_qp(second, 0, &info), "is given back");
	report(!ibxrc_list_tgt_qp_holders(first, NULL, 0, &count) && count == 1,
	       "and one is left");

	second = ibxrc_create_tgt_qp_ex(xrcd, &qp_attr);
	need(second != NULL, "another TGT QP");
	report(failed(ibxrc_create_tgt_qp_ex(xrcd, &qp_attr), EDQUOT),
	       "the policy lets no third one");
	creation_is_told(xrcd_events, ibxrc_tgt_qp_num(second));
	/* Disconnected, it is in ERR, where no domain keeps it. */
	report(!ibxrc_close_tgt_qp(first) &&
	       event_is(xrcd_events, &xrcd_context, IB_XRC_EVENT_TGT_QP_RECLAIMED,
			qp_num, IB_XRC_RECLAIM_ERROR),
	       "the first one goes with its last registration");

	first = ibxrc_create_tgt_qp_ex(xrcd, &qp_attr);
	need(first != NULL, "one in its place");
	qp_num = ibxrc_tgt_qp_num(first);
	creation_is_told(xrcd_events, qp_num);
	report(!ibxrc_close_tgt_qp(first) &&
	       event_is(xrcd_events, &xrcd_context, IB_XRC_EVENT_TGT_QP_RECLAIMED,
			qp_num, IB_XRC_RECLAIM_LINGER),
	       "in RESET, it goes a while after its last registration");

	attr = rtr_attr(&t, t.qp->qp_num, SEND_PSN);
	need(!ibxrc_connect_tgt_qpn_timeout(xrcd, ibxrc_tgt_qp_num(second), &attr,
					    INIT_MASK | RTR_MASK, 20000, &state) &&
	     state == IBV_QPS_RTR && connect_sender(&t, ibxrc_tgt_qp_num(second)),
	     "the second one is connected");
	report(ibxrc_destroy_event_file(qp_events) == EBUSY &&
	       ibxrc_destroy_event_file(xrcd_events) == EBUSY,
	       "event files in use are not destroyed");
	test_error(xrcd, second, xrcd_events, qp_events, &t);

	close_sender(&s);
	close_sender(&t);
	report(!ibxrc_destroy_srq(srq) && !ibxrc_destroy_cq(cq) &&
	       !ibxrc_close_xrcd(other_job) && !ibxrc_close_xrcd(xrcd) &&
	       !ibxrc_destroy_event_file(qp_events) &&
	       !ibxrc_destroy_event_file(xrcd_events), "everything closes");
}
