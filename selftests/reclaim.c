// SPDX-License-Identifier: GPL-2.0
/*
 * Async errors of TGT QPs, each one provoked by what a remote peer sends: who is told,
 * which TGT QP stays and which is reclaimed, and what happens to calls that come at
 * the same moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (240 * xrc_scale())

/* Longer than any test. */
#define FOREVER 3600000

#define SIZE 64
#define INI_SIZE 65536

/* USER_HANDLEs. */
#define DOMAIN_REPORT 0xd0d0d0d0d0
#define X_REPORT 0x0101010101
#define Y_REPORT 0x0202020202

/* ------------------------------------------------------------------- errors -- */

enum fault {
	BAD_RKEY,	/* RDMA WRITE to memory that is not there */
	NOT_ALLOWED,	/* RDMA WRITE to a QP that takes none */
	BAD_SRQ,	/* the number of no SRQ */
	TOO_LONG,	/* a SEND longer than a buffer of the kernel */
	NO_ROOM,	/* a message longer than the posted buffer */
	BAD_BUFFER,	/* a posted buffer that cannot be written to */
};

/* What the event says of it. */
static const enum ibv_event_type event_of[] = {
	[BAD_RKEY] = IBV_EVENT_QP_ACCESS_ERR,
	/* The device does not say why it has flushed the receive queue. */
	[NOT_ALLOWED] = IBV_EVENT_QP_FATAL,
	[BAD_SRQ] = IBV_EVENT_QP_REQ_ERR,
	[TOO_LONG] = IBV_EVENT_QP_REQ_ERR,
	[NO_ROOM] = IBV_EVENT_QP_REQ_ERR,
	[BAD_BUFFER] = IBV_EVENT_QP_ACCESS_ERR,
};

/* Both sides of one TGT QP, in a domain with an SRQ. */
struct scene {
	int file;
	int objects;
	struct xrc x;
	struct xrc y;
	__u32 xrcd;
	__u32 y_xrcd;
	int domain_events;
	int x_events;
	int y_events;
	struct xrc_qp qp;
	struct xrc_qp y_qp;
	struct xrc_cq cq;
	struct xrc_srq srq;
	int channel;
	struct xrc_ini ini;
	struct ib_xrc_limits limits;
	__u8 *buf;
};

static int scene_open(struct scene *s, const struct ib_xrc_policy *policy)
{
	struct xrc_report report = { .user_handle = DOMAIN_REPORT };
	const struct xrc_xrcd_opts opts = { .policy = policy, .report = &report };
	int ret;

	s->objects = xrc_kernel_objects();
	s->file = memfd_create("reclaim", MFD_CLOEXEC);
	s->buf = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (s->file < 0 || s->buf == MAP_FAILED)
		return -errno;
	ret = xrc_open(&s->x);
	if (!ret)
		ret = xrc_open(&s->y);
	if (!ret)
		ret = xrc_limits(&s->x, &s->limits);
	if (!ret)
		ret = xrc_event_file_create(&s->x, -1, &s->domain_events);
	if (!ret)
		ret = xrc_event_file_create(&s->x, -1, &s->x_events);
	if (!ret)
		ret = xrc_event_file_create(&s->y, -1, &s->y_events);
	if (ret)
		return ret;
	report.fd = s->domain_events;
	ret = xrc_xrcd_open_with(&s->x, s->file, O_CREAT, &opts, &s->xrcd);
	if (!ret)
		ret = xrc_xrcd_open(&s->y, s->file, 0, &s->y_xrcd);
	if (!ret)
		ret = xrc_channel_create(&s->x, &s->channel);
	if (!ret)
		ret = xrc_cq_create(&s->x, 8, 0, s->channel, &s->cq);
	if (!ret)
		ret = xrc_srq_create(&s->x, s->xrcd, &s->cq, 8, 1, 0, &s->srq);
	if (!ret)
		ret = xrc_ini_open(&s->ini, 16, INI_SIZE);
	return ret;
}

static void scene_close(struct scene *s)
{
	xrc_ini_close(&s->ini);
	if (s->srq.ring)
		munmap(s->srq.ring, s->srq.info.mmap_length);
	if (s->cq.ring)
		munmap(s->cq.ring, s->cq.info.mmap_length);
	close(s->channel);
	close(s->domain_events);
	close(s->x_events);
	close(s->y_events);
	xrc_close(&s->x);
	xrc_close(&s->y);
	munmap(s->buf, 4096);
	close(s->file);
}

/* A TGT QP, registered with in x only. */
static int create(struct scene *s)
{
	const struct xrc_report report = {
		.fd = s->x_events, .user_handle = X_REPORT,
	};

	return xrc_tgt_create_report(&s->x, s->xrcd, &report, &s->qp);
}

/* Register with it in y. */
static int register_y(struct scene *s)
{
	const struct xrc_report report = {
		.fd = s->y_events, .user_handle = Y_REPORT,
	};

	return xrc_tgt_open_report(&s->y, s->y_xrcd, s->qp.qp_num, &report,
				   &s->y_qp);
}

static struct xrc_qp by_num(const struct scene *s)
{
	return (struct xrc_qp) {
		.by_num = true, .handle = s->xrcd, .qp_num = s->qp.qp_num,
	};
}

/* The attributes with which it is connected for a fault. */
static void attr_for(const struct scene *s, enum fault what,
		     struct ib_uverbs_qp_attr *attr)
{
	xrc_ini_tgt_attr(&s->ini, attr);
	if (what == BAD_RKEY)
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
}

/* Connect both sides anew, from whatever state they are in. */
static int connect_both(struct scene *s, enum fault what)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	const struct xrc_qp qp = by_num(s);
	int ret;

	ret = xrc_tgt_modify(&s->x, &qp, &attr);
	if (!ret)
		ret = xrc_ini_reset(&s->ini);
	if (ret)
		return ret;
	attr_for(s, what, &attr);
	ret = xrc_tgt_connect(&s->x, &qp, &attr, NULL);
	return ret ? ret : xrc_ini_connect(&s->ini, s->qp.qp_num);
}

/* What the remote peer does; nobody has seen anything of it yet. */
static int provoke(struct scene *s, enum fault what)
{
	struct xrc_send send = { .srq_num = s->srq.srq_num, .length = 8 };
	int ret = 0;

	switch (what) {
	case BAD_RKEY:
	case NOT_ALLOWED:
		return xrc_ini_rdma_write(&s->ini, 0x1000, 0xbadbad00, 0, 8);
	case BAD_SRQ:
		send.srq_num = IB_XRC_WIRE_SRQ_NUM_MAX;
		break;
	case TOO_LONG:
		return xrc_ini_send_raw(&s->ini, IBV_WR_SEND_WITH_IMM,
			send.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT, 0,
			2 * IB_XRC_WIRE_PART_SIZE);
	case NO_ROOM:
		send.length = SIZE + 1;
		ret = xrc_srq_post(&s->x, &s->srq, 1, s->buf, SIZE);
		break;
	case BAD_BUFFER:
		ret = xrc_srq_post(&s->x, &s->srq, 1, NULL, SIZE);
		break;
	}
	return ret ? ret : xrc_ini_send(&s->ini, &send);
}

/* What the receiver sees of it: nothing, or how its buffer was used up. */
static bool receiver_saw(struct scene *s, enum fault what)
{
	struct ib_xrc_cqe cqe;

	switch (what) {
	case NO_ROOM:
		return !xrc_cq_wait(&s->cq, &cqe, XRC_TIMEOUT_MS) &&
		       cqe.status == IBV_WC_LOC_LEN_ERR;
	case BAD_BUFFER:
		return !xrc_cq_wait(&s->cq, &cqe, XRC_TIMEOUT_MS) &&
		       cqe.status == IBV_WC_LOC_PROT_ERR;
	default:
		return !xrc_cq_poll(&s->cq, &cqe);
	}
}

/* A message goes by the QP to the SRQ, after it was connected anew. */
static int deliver(struct scene *s)
{
	struct xrc_send send = {
		.srq_num = s->srq.srq_num, .length = SIZE, .offset = SIZE,
	};
	struct ib_xrc_cqe cqe;
	int ret = connect_both(s, BAD_SRQ);

	if (!ret)
		ret = xrc_srq_post(&s->x, &s->srq, 7, s->buf, SIZE);
	memset(s->buf, 0, SIZE);
	xrc_fill(s->ini.buf + SIZE, SIZE, s->qp.qp_num);
	if (!ret)
		ret = xrc_ini_send(&s->ini, &send);
	if (!ret)
		ret = xrc_cq_wait(&s->cq, &cqe, XRC_TIMEOUT_MS);
	if (ret)
		return ret;
	return !cqe.status && cqe.wr_id == 7 && cqe.qp_num == s->qp.qp_num &&
	       xrc_check(s->buf, SIZE, s->qp.qp_num) ? 0 : -EBADMSG;
}

/* ---------------------------------------------------------- error by policy -- */

struct mode {
	struct ib_xrc_policy policy;
	/* Registrations when the error comes: of x and y, or none. */
	bool referenced;
	/* The error destroys it. */
	bool reclaimed;
};

static const struct mode REFS = {
	.referenced = true,
};

static const struct mode DOMAIN_REFERENCED = {
	.policy = { .type = IB_XRC_POLICY_DOMAIN },
	.referenced = true,
};

static const struct mode DOMAIN_UNREFERENCED = {
	.policy = { .type = IB_XRC_POLICY_DOMAIN },
	.reclaimed = true,
};

static const struct mode LINGERING = {
	.policy = { .type = IB_XRC_POLICY_DOMAIN, .linger_ms = FOREVER },
	.reclaimed = true,
};

static const struct mode REFS_RECLAIM_REFERENCED = {
	.policy = { .flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED },
	.referenced = true,
	.reclaimed = true,
};

static const struct mode DOMAIN_RECLAIM_REFERENCED = {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	},
	.referenced = true,
	.reclaimed = true,
};

FIXTURE(reclaim)
{
	struct scene s;
	int objects;
};

FIXTURE_VARIANT(reclaim)
{
	const struct mode *mode;
	enum fault what;
};

FIXTURE_SETUP(reclaim)
{
	ASSERT_EQ(0, scene_open(&self->s, &variant->mode->policy));
	self->objects = xrc_kernel_objects();
	ASSERT_EQ(0, create(&self->s));
	ASSERT_EQ(0, register_y(&self->s));
}

FIXTURE_TEARDOWN(reclaim)
{
	scene_close(&self->s);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->s.objects))
		TH_LOG("%d kernel objects more than before",
		       xrc_kernel_objects() - self->s.objects);
}

typedef FIXTURE_DATA(reclaim) reclaim_t;

#define ERROR_IN(what_, mode_)						\
	FIXTURE_VARIANT_ADD(reclaim, what_##_##mode_) {			\
		.mode = &mode_, .what = what_,				\
	}
#define ERROR_IN_EACH(what)						\
	ERROR_IN(what, REFS);					\
	ERROR_IN(what, DOMAIN_REFERENCED);			\
	ERROR_IN(what, DOMAIN_UNREFERENCED);			\
	ERROR_IN(what, LINGERING);				\
	ERROR_IN(what, REFS_RECLAIM_REFERENCED);		\
	ERROR_IN(what, DOMAIN_RECLAIM_REFERENCED)

ERROR_IN_EACH(BAD_RKEY);
ERROR_IN_EACH(NOT_ALLOWED);
ERROR_IN_EACH(BAD_SRQ);
ERROR_IN_EACH(TOO_LONG);
ERROR_IN_EACH(NO_ROOM);
ERROR_IN_EACH(BAD_BUFFER);

/* The next event there is exactly this one. */
static void expect_event(struct __test_metadata *_metadata, int fd,
			 __u64 user_handle, __u32 type, __u32 qp_num, __u32 value)
{
	struct ib_xrc_event event;

	ASSERT_EQ(0, xrc_event_wait(fd, &event, XRC_TIMEOUT_MS))
		TH_LOG("no event of type %u for %#llx", type,
		       (unsigned long long)user_handle);
	EXPECT_EQ(type, event.type);
	EXPECT_EQ(user_handle, event.user_handle);
	EXPECT_EQ(qp_num, event.number);
	EXPECT_EQ(value, event.value);
	EXPECT_EQ(0, event.reserved);
}

/* A holder hears of the error, and then that it was the end. */
static void expect_reclaim(struct __test_metadata *_metadata, int fd,
			   __u64 user_handle, __u32 qp_num, __u32 error)
{
	expect_event(_metadata, fd, user_handle, IB_XRC_EVENT_TGT_QP_ERROR, qp_num,
		     error);
	expect_event(_metadata, fd, user_handle, IB_XRC_EVENT_TGT_QP_RECLAIMED,
		     qp_num, IB_XRC_RECLAIM_ERROR);
}

static void expect_no_event(struct __test_metadata *_metadata, int fd)
{
	struct ib_xrc_event event;

	EXPECT_EQ(-EAGAIN, xrc_event_read(fd, &event, 1))
		TH_LOG("type %u, QP %#x, value %u", event.type, event.number,
		       event.value);
}

/* The QP is as it was, but in error, and its holders know. */
static void check_reported(struct __test_metadata *_metadata, struct scene *s,
			   enum fault what)
{
	struct ib_xrc_tgt_qp_info info;

	expect_event(_metadata, s->x_events, X_REPORT, IB_XRC_EVENT_TGT_QP_ERROR,
		     s->qp.qp_num, event_of[what]);
	expect_event(_metadata, s->y_events, Y_REPORT, IB_XRC_EVENT_TGT_QP_ERROR,
		     s->qp.qp_num, event_of[what]);
	EXPECT_EQ(0, xrc_tgt_wait_state(&s->x, &s->qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_tgt_query(&s->y, &s->y_qp, NULL, &info));
	EXPECT_EQ(IBV_QPS_ERR, info.state);
	EXPECT_EQ(2, info.refs);
	EXPECT_TRUE(receiver_saw(s, what));
}

/* The QP is no more: by number it is unknown, by handle it can only be closed. */
static void check_stale(struct __test_metadata *_metadata, struct scene *s,
			struct xrc *x, __u32 xrcd, const struct xrc_qp *handle)
{
	const struct xrc_qp num = {
		.by_num = true, .handle = xrcd, .qp_num = s->qp.qp_num,
	};
	struct ib_uverbs_qp_attr attr, reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	const struct xrc_qp *qp[] = { &num, handle };
	struct ib_xrc_disconnect_info flushed;
	struct ib_xrc_holder_info holder;
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp again;
	__u32 count, state;
	int i, want;

	xrc_ini_tgt_attr(&s->ini, &attr);
	for (i = 0; i < 2 && qp[i]; i++) {
		want = qp[i]->by_num ? -EINVAL : -ESTALE;
		EXPECT_EQ(want, xrc_tgt_query(x, qp[i], NULL, &info));
		EXPECT_EQ(want, xrc_tgt_query(x, qp[i], &attr, NULL));
		EXPECT_EQ(want, xrc_tgt_modify(x, qp[i], &reset));
		EXPECT_EQ(want, xrc_tgt_connect(x, qp[i], &attr, &state));
		EXPECT_EQ(want, xrc_tgt_connect_timeout(x, qp[i], &attr, 1000,
							&state));
		EXPECT_EQ(want, xrc_tgt_disconnect(x, qp[i], 0, &flushed));
		EXPECT_EQ(want, xrc_list_holders(x, qp[i], 0, &holder, 1,
						 &count));
	}
	if (handle) {
		EXPECT_EQ(-ESTALE, xrc_tgt_disconnect_release(x, handle, 0,
							      &flushed));
	}
	EXPECT_EQ(-EINVAL, xrc_tgt_open(x, xrcd, s->qp.qp_num, &again));
}

/* Everybody who wanted to know does, and nothing of it is left. */
static void check_reclaimed(struct __test_metadata *_metadata, reclaim_t *self,
			    enum fault what, bool referenced)
{
	struct scene *s = &self->s;
	struct ib_xrc_xrcd_info info;
	__u32 count;

	expect_event(_metadata, s->domain_events, DOMAIN_REPORT,
		     IB_XRC_EVENT_TGT_QP_RECLAIMED, s->qp.qp_num,
		     IB_XRC_RECLAIM_ERROR);
	EXPECT_EQ(0, xrc_tgt_wait_refs(&s->y, s->y_xrcd, s->qp.qp_num, -EINVAL));
	EXPECT_TRUE(receiver_saw(s, what));
	if (referenced) {
		expect_reclaim(_metadata, s->x_events, X_REPORT, s->qp.qp_num,
			       event_of[what]);
		expect_reclaim(_metadata, s->y_events, Y_REPORT, s->qp.qp_num,
			       event_of[what]);
	}
	check_stale(_metadata, s, &s->x, s->xrcd, referenced ? &s->qp : NULL);
	check_stale(_metadata, s, &s->y, s->y_xrcd, referenced ? &s->y_qp : NULL);

	EXPECT_EQ(0, xrc_list_tgt_qps(&s->x, s->xrcd, NULL, 0, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(0, xrc_xrcd_query(&s->x, s->xrcd, &info));
	EXPECT_EQ(0, info.tgt_qps);
	EXPECT_EQ(s->limits.srq_bytes, info.bytes);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	if (referenced) {
		/* The handle is there until it is closed. */
		EXPECT_EQ(-EBUSY, xrc_xrcd_close(&s->y, s->y_xrcd));
		EXPECT_EQ(0, xrc_tgt_close(&s->y, &s->y_qp));
		EXPECT_EQ(-ENOENT, xrc_tgt_close(&s->y, &s->y_qp));
		EXPECT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
	}
	expect_no_event(_metadata, s->x_events);
	expect_no_event(_metadata, s->y_events);
	expect_no_event(_metadata, s->domain_events);
}

TEST_F_TIMEOUT(reclaim, error, TIMEOUT)
{
	struct ib_uverbs_qp_attr err = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_ERR,
	};
	const enum fault what = variant->what;
	struct scene *s = &self->s;
	struct ib_xrc_event event;
	int i;

	expect_event(_metadata, s->domain_events, DOMAIN_REPORT,
		     IB_XRC_EVENT_TGT_QP_CREATED, s->qp.qp_num, 0);
	ASSERT_EQ(0, connect_both(s, what));
	if (!variant->mode->referenced) {
		ASSERT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
		ASSERT_EQ(0, xrc_tgt_close(&s->y, &s->y_qp));
		ASSERT_EQ(0, xrc_tgt_refs(&s->x, s->xrcd, s->qp.qp_num));
	} else if (!variant->mode->reclaimed) {
		/* To be put there by a user is no error, and nothing to report. */
		ASSERT_EQ(0, xrc_tgt_modify(&s->x, &s->qp, &err));
		ASSERT_EQ(0, connect_both(s, what));
	}
	ASSERT_EQ(0, provoke(s, what));
	if (variant->mode->reclaimed) {
		check_reclaimed(_metadata, self, what,
				variant->mode->referenced);
		/* The domain is none the worse for it. */
		ASSERT_EQ(0, create(s));
		EXPECT_EQ(0, deliver(s));
		return;
	}
	/* It can be used again, and get into error again. */
	for (i = 0; i < 2; i++) {
		check_reported(_metadata, s, what);
		EXPECT_EQ(0, deliver(s));
		ASSERT_EQ(0, connect_both(s, what));
		ASSERT_EQ(0, provoke(s, what));
	}
	check_reported(_metadata, s, what);
	/* Each error is one event, and none is a reclaim. */
	expect_no_event(_metadata, s->x_events);
	expect_no_event(_metadata, s->y_events);
	expect_no_event(_metadata, s->domain_events);

	/* In error it goes with the last registration, whatever the policy. */
	EXPECT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
	EXPECT_EQ(1, xrc_tgt_refs(&s->x, s->xrcd, s->qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_close(&s->y, &s->y_qp));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&s->x, s->xrcd, s->qp.qp_num, -EINVAL));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	/* Both reasons are true of it. */
	ASSERT_EQ(0, xrc_event_wait(s->domain_events, &event, XRC_TIMEOUT_MS));
	EXPECT_EQ(IB_XRC_EVENT_TGT_QP_RECLAIMED, event.type);
	EXPECT_EQ(s->qp.qp_num, event.number);
	EXPECT_TRUE(event.value == IB_XRC_RECLAIM_ERROR ||
		    event.value == IB_XRC_RECLAIM_LAST_REF)
		TH_LOG("reason %u", event.value);
}

/* --------------------------------------------------------- several at a time -- */

FIXTURE(several)
{
	struct scene s;
};

FIXTURE_SETUP(several)
{
	static const struct ib_xrc_policy policy = {
		.type = IB_XRC_POLICY_DOMAIN,
	};

	ASSERT_EQ(0, scene_open(&self->s, &policy));
}

FIXTURE_TEARDOWN(several)
{
	scene_close(&self->s);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->s.objects));
}

/* The error of one is not that of the others. */
TEST_F_TIMEOUT(several, error_of_one, TIMEOUT)
{
	struct scene *s = &self->s;
	struct xrc_qp idle, held;

	ASSERT_EQ(0, xrc_tgt_create(&s->x, s->xrcd, &idle));
	ASSERT_EQ(0, xrc_tgt_close(&s->x, &idle));
	ASSERT_EQ(0, xrc_tgt_create(&s->x, s->xrcd, &held));
	ASSERT_EQ(0, create(s));
	ASSERT_EQ(0, connect_both(s, BAD_SRQ));
	ASSERT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
	ASSERT_EQ(0, provoke(s, BAD_SRQ));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&s->x, s->xrcd, s->qp.qp_num, -EINVAL));
	EXPECT_EQ(0, xrc_tgt_refs(&s->x, s->xrcd, idle.qp_num));
	EXPECT_EQ(IBV_QPS_RESET, xrc_tgt_state(&s->x, &held));
	s->qp = idle;
	EXPECT_EQ(0, deliver(s));
}

/* Who registers with one that has been in error since before is told of it. */
TEST_F_TIMEOUT(several, registered_too_late, TIMEOUT)
{
	struct scene *s = &self->s;

	ASSERT_EQ(0, create(s));
	ASSERT_EQ(0, connect_both(s, BAD_SRQ));
	ASSERT_EQ(0, provoke(s, BAD_SRQ));
	expect_event(_metadata, s->x_events, X_REPORT, IB_XRC_EVENT_TGT_QP_ERROR,
		     s->qp.qp_num, event_of[BAD_SRQ]);
	EXPECT_EQ(0, xrc_tgt_wait_state(&s->x, &s->qp, IBV_QPS_ERR));
	EXPECT_EQ(0, register_y(s));
	expect_event(_metadata, s->y_events, Y_REPORT, IB_XRC_EVENT_TGT_QP_ERROR,
		     s->qp.qp_num, event_of[BAD_SRQ]);
	/* To those who know it nothing is said. */
	expect_no_event(_metadata, s->x_events);
	/* Nor to anybody when it works again. */
	EXPECT_EQ(0, xrc_tgt_close(&s->y, &s->y_qp));
	EXPECT_EQ(0, deliver(s));
	EXPECT_EQ(0, register_y(s));
	EXPECT_EQ(0, deliver(s));
	expect_no_event(_metadata, s->x_events);
	expect_no_event(_metadata, s->y_events);
}

/* -------------------------------------------------------------------- races -- */

FIXTURE(race)
{
	struct scene s;
};

FIXTURE_VARIANT(race)
{
	struct ib_xrc_policy policy;
	enum fault what;
};

FIXTURE_VARIANT_ADD(race, BAD_RKEY_reported) {
	.policy = { .type = IB_XRC_POLICY_DOMAIN },
	.what = BAD_RKEY,
};

FIXTURE_VARIANT_ADD(race, BAD_SRQ_reported) {
	.policy = { .type = IB_XRC_POLICY_DOMAIN },
	.what = BAD_SRQ,
};

FIXTURE_VARIANT_ADD(race, BAD_RKEY_reclaimed) {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	},
	.what = BAD_RKEY,
};

FIXTURE_VARIANT_ADD(race, BAD_SRQ_reclaimed) {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	},
	.what = BAD_SRQ,
};

FIXTURE_SETUP(race)
{
	ASSERT_EQ(0, scene_open(&self->s, &variant->policy));
}

FIXTURE_TEARDOWN(race)
{
	scene_close(&self->s);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->s.objects));
}

#define ROUNDS 200

/*
 * Find the moment at which two things happen at once: come later if it was too
 * early, and earlier if it was too late.
 */
struct aim {
	long long ns;
	long long step;
};

static void correct(struct aim *aim, bool early)
{
	aim->ns += early ? aim->step : -aim->step;
	if (aim->ns < 0)
		aim->ns = 0;
}

/* Wait until a handle says that its QP is no more. */
static int wait_stale(struct xrc *x, const struct xrc_qp *qp)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	int ret;

	do {
		ret = xrc_tgt_state(x, qp);
		if (ret == -ESTALE)
			return 0;
		usleep(1000);
	} while (ret >= 0 && xrc_now() < end);
	return ret < 0 ? ret : -ETIME;
}

/*
 * A modify that leaves the state as it is comes before the error, or fails because
 * of it: one by one, until the error is there. In no case does it undo the error.
 */
TEST_F_TIMEOUT(race, modify, TIMEOUT)
{
	const bool reclaimed = variant->policy.flags;
	struct ib_uverbs_qp_attr attr;
	struct scene *s = &self->s;
	unsigned int done = 0;
	long long end;
	int i, ret;

	for (i = 0; i < ROUNDS; i++) {
		if (!i || reclaimed) {
			ASSERT_EQ(0, create(s));
		}
		ASSERT_EQ(0, connect_both(s, variant->what));
		attr_for(s, variant->what, &attr);
		attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS |
				    IBV_QP_MIN_RNR_TIMER;
		ASSERT_EQ(0, provoke(s, variant->what));
		end = xrc_now() + XRC_TIMEOUT_MS;
		do {
			attr.min_rnr_timer = 10 + done++ % 8;
			ret = xrc_tgt_modify(&s->x, &s->qp, &attr);
		} while (!ret && xrc_now() < end);
		ASSERT_TRUE(ret == -EINVAL || (reclaimed && ret == -ESTALE))
			TH_LOG("modify: %d", ret);
		if (reclaimed) {
			ASSERT_EQ(0, wait_stale(&s->x, &s->qp));
			ASSERT_EQ(-EINVAL, xrc_tgt_refs(&s->x, s->xrcd,
							s->qp.qp_num));
			ASSERT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
		} else {
			ASSERT_EQ(0, xrc_tgt_wait_state(&s->x, &s->qp,
							IBV_QPS_ERR));
			expect_event(_metadata, s->x_events, X_REPORT,
				     IB_XRC_EVENT_TGT_QP_ERROR, s->qp.qp_num,
				     event_of[variant->what]);
			ASSERT_EQ(-EINVAL, xrc_tgt_modify(&s->x, &s->qp, &attr));
		}
	}
	TH_LOG("%u modifies came before %d errors", done - ROUNDS, ROUNDS);
}

/*
 * Who registers with a QP that nobody is registered with has it, alive, until he
 * closes it, and hears of the error; or it is gone.
 */
TEST_F_TIMEOUT(race, register_y, TIMEOUT)
{
	const bool reclaimed = variant->policy.flags;
	struct aim aim = { .step = 20000 };
	struct scene *s = &self->s;
	int i, ret, early = 0;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, create(s));
		ASSERT_EQ(0, connect_both(s, variant->what));
		ASSERT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
		ASSERT_EQ(0, provoke(s, variant->what));
		xrc_spin(aim.ns);
		ret = register_y(s);
		ASSERT_TRUE(!ret || ret == -EINVAL) TH_LOG("open: %d", ret);
		correct(&aim, !ret);
		if (ret) {
			ASSERT_EQ(-EINVAL, xrc_tgt_refs(&s->x, s->xrcd,
							s->qp.qp_num));
			continue;
		}
		early++;
		if (reclaimed) {
			ASSERT_EQ(0, wait_stale(&s->y, &s->y_qp));
			expect_reclaim(_metadata, s->y_events, Y_REPORT,
				       s->qp.qp_num, event_of[variant->what]);
		} else {
			ASSERT_EQ(0, xrc_tgt_wait_state(&s->y, &s->y_qp,
							IBV_QPS_ERR));
			expect_event(_metadata, s->y_events, Y_REPORT,
				     IB_XRC_EVENT_TGT_QP_ERROR, s->qp.qp_num,
				     event_of[variant->what]);
			ASSERT_EQ(1, xrc_tgt_refs(&s->y, s->y_xrcd,
						  s->qp.qp_num));
		}
		ASSERT_EQ(0, xrc_tgt_close(&s->y, &s->y_qp));
		ASSERT_EQ(0, xrc_tgt_wait_refs(&s->x, s->xrcd, s->qp.qp_num,
					       -EINVAL));
		expect_no_event(_metadata, s->y_events);
	}
	TH_LOG("%d of %d came early enough", early, ROUNDS);
}

/* The last holder closes just then: it goes, once, for one of two reasons. */
TEST_F_TIMEOUT(race, close, TIMEOUT)
{
	struct aim aim = { .step = 20000 };
	struct scene *s = &self->s;
	struct ib_xrc_event event;
	int i, ret, state;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, create(s));
		ASSERT_EQ(0, connect_both(s, variant->what));
		expect_event(_metadata, s->domain_events, DOMAIN_REPORT,
			     IB_XRC_EVENT_TGT_QP_CREATED, s->qp.qp_num, 0);
		ASSERT_EQ(0, provoke(s, variant->what));
		xrc_spin(aim.ns);
		state = xrc_tgt_state(&s->x, &s->qp);
		ret = xrc_tgt_close(&s->x, &s->qp);
		ASSERT_EQ(0, ret);
		correct(&aim, state == IBV_QPS_RTS);
		ASSERT_EQ(0, xrc_tgt_wait_refs(&s->x, s->xrcd, s->qp.qp_num,
					       -EINVAL));
		ASSERT_EQ(0, xrc_event_wait(s->domain_events, &event,
					    XRC_TIMEOUT_MS));
		ASSERT_EQ(IB_XRC_EVENT_TGT_QP_RECLAIMED, event.type);
		ASSERT_EQ(s->qp.qp_num, event.number);
		ASSERT_TRUE(event.value == IB_XRC_RECLAIM_ERROR ||
			    event.value == IB_XRC_RECLAIM_LAST_REF);
		expect_no_event(_metadata, s->domain_events);
		/* Events of a handle that is closed are not in the queue. */
		expect_no_event(_metadata, s->x_events);
	}
}

/* The domain goes just then, with all that is in it. */
TEST_F_TIMEOUT(race, domain_close, TIMEOUT)
{
	const struct xrc_xrcd_opts opts = { .policy = &variant->policy };
	struct aim aim = { .step = 20000 };
	struct scene *s = &self->s;
	int objects = xrc_kernel_objects();
	__u32 kept = s->xrcd;
	int i, refs;

	for (i = 0; i < ROUNDS; i++) {
		ASSERT_EQ(0, xrc_xrcd_open_with(&s->x, XRC_NO_FD, 0, &opts,
						&s->xrcd));
		ASSERT_EQ(0, create(s));
		ASSERT_EQ(0, connect_both(s, variant->what));
		ASSERT_EQ(0, xrc_tgt_close(&s->x, &s->qp));
		ASSERT_EQ(0, provoke(s, variant->what));
		xrc_spin(aim.ns);
		refs = xrc_tgt_refs(&s->x, s->xrcd, s->qp.qp_num);
		correct(&aim, !refs);
		ASSERT_EQ(0, xrc_xrcd_close(&s->x, s->xrcd));
	}
	s->xrcd = kept;
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects));
}

TEST_HARNESS_MAIN
