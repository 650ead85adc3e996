// SPDX-License-Identifier: GPL-2.0
/*
 * When a TGT QP dies: the policies of a domain, who sets them and who sees them, and
 * its limits. What async errors do to a TGT QP is in reclaim.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

/* So long that a slow machine gets something done meanwhile. */
#define LINGER 2000
/* Longer than any test. */
#define FOREVER 3600000

#define SIZE 64

FIXTURE(policy)
{
	int file;
	int objects;
	struct xrc x;
	struct xrc y;
	struct ib_xrc_limits limits;
};

FIXTURE_SETUP(policy)
{
	self->objects = xrc_kernel_objects();
	self->file = memfd_create("policy", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
	ASSERT_EQ(0, xrc_limits(&self->x, &self->limits));
}

FIXTURE_TEARDOWN(policy)
{
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->file);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects))
		TH_LOG("%d kernel objects more than before",
		       xrc_kernel_objects() - self->objects);
}

typedef FIXTURE_DATA(policy) policy_t;

/* Open the domain of a file, and make it if there is none. */
static int open_with(struct xrc *x, int file, const struct ib_xrc_policy *policy,
		     __u32 *xrcd)
{
	const struct xrc_xrcd_opts opts = { .policy = policy };

	return xrc_xrcd_open_with(x, file, O_CREAT, &opts, xrcd);
}

/* How many TGT QPs the domain has, by its list and by its description. */
static int tgt_qps(struct xrc *x, __u32 xrcd)
{
	struct ib_xrc_xrcd_info info;
	__u32 count;

	if (xrc_xrcd_query(x, xrcd, &info) ||
	    xrc_list_tgt_qps(x, xrcd, NULL, 0, &count) || count != info.tgt_qps)
		return -1;
	return count;
}

/* What was reclaimed counts until it is destroyed, which takes a moment. */
static int wait_tgt_qps(struct xrc *x, __u32 xrcd, int n)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (tgt_qps(x, xrcd) != n) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
	return 0;
}

/* Create a TGT QP and give the registration back at once. */
static int create_and_close(struct xrc *x, __u32 xrcd, struct xrc_qp *qp)
{
	int ret = xrc_tgt_create(x, xrcd, qp);

	return ret ? ret : xrc_tgt_close(x, qp);
}

struct srq {
	struct xrc_cq cq;
	struct xrc_srq srq;
};

static int srq_open_mapped(struct xrc *x, __u32 xrcd, struct srq *s)
{
	int ret = xrc_cq_create(x, 4, 0, XRC_NO_FD, &s->cq);

	if (ret)
		return ret;
	ret = xrc_srq_create(x, xrcd, &s->cq, 4, 1, 0, &s->srq);
	if (ret)
		xrc_cq_destroy(x, &s->cq);
	return ret;
}

/* One that nobody sends to. Its rings are not mapped: they would keep the file. */
static int srq_open(struct xrc *x, __u32 xrcd, struct srq *s)
{
	int ret = srq_open_mapped(x, xrcd, s);

	if (ret)
		return ret;
	munmap(s->cq.ring, s->cq.info.mmap_length);
	munmap(s->srq.ring, s->srq.info.mmap_length);
	s->cq.ring = NULL;
	s->srq.ring = NULL;
	return 0;
}

static int srq_close(struct xrc *x, struct srq *s)
{
	int ret = xrc_srq_destroy(x, &s->srq);

	return ret ? ret : xrc_cq_destroy(x, &s->cq);
}

/* A message comes by the TGT QP of this number to an SRQ of the domain. */
static int receive_by(struct xrc *x, __u32 xrcd, __u32 qp_num)
{
	const struct xrc_qp qp = {
		.by_num = true, .handle = xrcd, .qp_num = qp_num,
	};
	struct xrc_send send = { .length = SIZE };
	struct xrc_ini ini;
	struct ib_xrc_cqe cqe;
	struct srq s;
	__u8 buf[SIZE];
	int ret;

	ret = xrc_ini_open(&ini, 8, SIZE);
	if (ret)
		return ret;
	ret = xrc_ini_pair(&ini, x, &qp);
	if (!ret)
		ret = srq_open_mapped(x, xrcd, &s);
	if (!ret)
		ret = xrc_srq_post(x, &s.srq, 0, buf, SIZE);
	if (!ret) {
		xrc_fill(ini.buf, SIZE, qp_num);
		send.srq_num = s.srq.srq_num;
		ret = xrc_ini_send(&ini, &send);
	}
	if (!ret)
		ret = xrc_cq_wait(&s.cq, &cqe, XRC_TIMEOUT_MS);
	if (!ret && (cqe.status || cqe.qp_num != qp_num ||
		     !xrc_check(buf, SIZE, qp_num)))
		ret = -EBADMSG;
	if (!ret)
		ret = srq_close(x, &s);
	xrc_ini_close(&ini);
	return ret;
}

/* ------------------------------------------------------- setting and reading -- */

/* No field is as in the others, and none is 0. */
static const struct ib_xrc_policy full = {
	.type = IB_XRC_POLICY_DOMAIN,
	.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED |
		 IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ |
		 IB_XRC_DOMAIN_USE_NEEDS_WRITE,
	.linger_ms = FOREVER,
	.max_tgt_qps = 7,
	.max_srqs = 8,
	.max_bytes = 1ULL << 40,
};

TEST_F_TIMEOUT(policy, default_policy, TIMEOUT)
{
	static const struct ib_xrc_policy zero;
	struct ib_xrc_policy policy;
	struct ib_xrc_xrcd_info info;
	__u32 xrcd, anonymous;

	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, &xrcd));
	memset(&policy, 0xff, sizeof(policy));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, xrcd, &policy));
	EXPECT_EQ(0, memcmp(&zero, &policy, sizeof(policy)));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(IB_XRC_POLICY_REFS, info.policy);

	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, NULL, &anonymous));
	memset(&policy, 0xff, sizeof(policy));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, anonymous, &policy));
	EXPECT_EQ(0, memcmp(&zero, &policy, sizeof(policy)));
}

TEST_F_TIMEOUT(policy, readable_by_all, TIMEOUT)
{
	char path[64];
	struct ib_xrc_policy policy;
	struct ib_xrc_xrcd_info info;
	__u32 xrcd, other;
	int read_only;

	EXPECT_EQ(0, open_with(&self->x, self->file, &full, &xrcd));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, xrcd, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));

	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->file, 0, &other));
	memset(&policy, 0, sizeof(policy));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->y, other, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));

	sprintf(path, "/proc/self/fd/%d", self->file);
	read_only = open(path, O_RDONLY);
	ASSERT_LE(0, read_only);
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, read_only, 0, &other));
	memset(&policy, 0, sizeof(policy));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->y, other, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));
	EXPECT_EQ(0, xrc_xrcd_query(&self->y, other, &info));
	EXPECT_EQ(IB_XRC_POLICY_DOMAIN, info.policy);
	EXPECT_EQ(3, info.handles);
	close(read_only);
}

/* An anonymous domain has the policy it was given, as any other. */
TEST_F_TIMEOUT(policy, anonymous, TIMEOUT)
{
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN, .max_tgt_qps = 1,
	};
	struct ib_xrc_policy policy;
	struct xrc_qp qp;
	__u32 xrcd, more;

	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, &domain, &xrcd));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, xrcd, &policy));
	EXPECT_EQ(0, memcmp(&domain, &policy, sizeof(policy)));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp));
	/* Each one is new, so that there is nothing to differ from. */
	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, &full, &more));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, more, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));
}

TEST_F_TIMEOUT(policy, second_opener, TIMEOUT)
{
	struct ib_xrc_policy other[9], policy;
	struct ib_xrc_xrcd_info info;
	unsigned int i;
	__u32 xrcd, more;

	for (i = 0; i < ARRAY_SIZE(other); i++)
		other[i] = full;
	other[0].type = IB_XRC_POLICY_REFS;
	other[0].linger_ms = 0;
	other[0].flags &= ~IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ;
	other[1].flags &= ~IB_XRC_DOMAIN_RECLAIM_REFERENCED;
	other[2].flags &= ~IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ;
	other[3].flags &= ~IB_XRC_DOMAIN_USE_NEEDS_WRITE;
	other[4].linger_ms++;
	other[5].max_tgt_qps--;
	other[6].max_srqs++;
	other[7].max_bytes += 1ULL << 32;
	memset(&other[8], 0, sizeof(other[8]));

	EXPECT_EQ(0, open_with(&self->x, self->file, &full, &xrcd));
	for (i = 0; i < ARRAY_SIZE(other); i++) {
		EXPECT_EQ(-EEXIST, open_with(&self->x, self->file, &other[i],
					     &more))
			TH_LOG("policy %u", i);
		EXPECT_EQ(-EEXIST, open_with(&self->y, self->file, &other[i],
					     &more))
			TH_LOG("policy %u", i);
	}
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(1, info.handles);
	EXPECT_EQ(0, xrc_xrcd_policy(&self->x, xrcd, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));

	EXPECT_EQ(0, open_with(&self->y, self->file, &full, &more));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &more));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->y, more, &policy));
	EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(3, info.handles);
}

/* No policy at all is the one with all fields 0. */
TEST_F_TIMEOUT(policy, second_opener_of_default, TIMEOUT)
{
	static const struct ib_xrc_policy zero;
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	__u32 xrcd, more;

	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, &zero, &more));
	EXPECT_EQ(-EEXIST, open_with(&self->y, self->file, &domain, &more));
	EXPECT_EQ(-EEXIST, open_with(&self->y, self->file, &full, &more));
}

/* What was the policy of a domain is forgotten with it. */
TEST_F_TIMEOUT(policy, domain_made_anew, TIMEOUT)
{
	static const struct ib_xrc_policy zero;
	struct ib_xrc_policy policy;
	__u32 xrcd, more;

	EXPECT_EQ(0, open_with(&self->x, self->file, &full, &xrcd));
	EXPECT_EQ(-EEXIST, open_with(&self->y, self->file, &zero, &more));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, &zero, &more));
	EXPECT_EQ(0, xrc_xrcd_policy(&self->y, more, &policy));
	EXPECT_EQ(0, memcmp(&zero, &policy, sizeof(policy)));
	EXPECT_EQ(-EEXIST, open_with(&self->x, self->file, &full, &xrcd));
}

/* A policy does not stand for O_CREAT. */
TEST_F_TIMEOUT(policy, without_creat, TIMEOUT)
{
	const struct xrc_xrcd_opts opts = { .policy = &full };
	__u32 xrcd;

	EXPECT_EQ(-EAGAIN, xrc_xrcd_open_with(&self->x, self->file, 0, &opts,
					      &xrcd));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open_with(&self->x, self->file, O_EXCL, &opts,
					      &xrcd));
	EXPECT_EQ(0, xrc_xrcd_open_with(&self->x, self->file, O_CREAT | O_EXCL,
					&opts, &xrcd));
	EXPECT_EQ(0, xrc_xrcd_open_with(&self->y, self->file, 0, &opts, &xrcd));
	EXPECT_EQ(-EINVAL, xrc_xrcd_open_with(&self->y, self->file,
					      O_CREAT | O_EXCL, &opts, &xrcd));
}

TEST_F_TIMEOUT(policy, invalid, TIMEOUT)
{
	static const struct ib_xrc_policy bad[] = {
		{ .type = 2 },
		{ .type = 0xffffffff },
		{ .type = 1 << 8 },
		{ .type = IB_XRC_POLICY_DOMAIN, .flags = 1 << 3 },
		{ .type = IB_XRC_POLICY_DOMAIN, .flags = 1U << 31 },
		{ .type = IB_XRC_POLICY_DOMAIN, .flags = 0xffffffff },
		{ .flags = IB_XRC_DOMAIN_USE_NEEDS_WRITE | 1 << 4 },
		{ .reserved = 1 },
		{ .type = IB_XRC_POLICY_DOMAIN, .reserved = 1U << 31 },
		/* What a domain that counts registrations has no use for. */
		{ .linger_ms = 1 },
		{ .linger_ms = 0xffffffff },
		{ .flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ },
		{ .flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ |
			   IB_XRC_DOMAIN_RECLAIM_REFERENCED },
	};
	struct ib_xrc_xrcd_info info;
	__u32 xrcd, more;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, open_with(&self->x, self->file, &bad[i],
					     &xrcd))
			TH_LOG("policy %u", i);
		EXPECT_EQ(-EINVAL, open_with(&self->x, XRC_NO_FD, &bad[i], &xrcd))
			TH_LOG("policy %u", i);
		/* No domain has come of it. */
		EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, self->file, 0, &xrcd))
			TH_LOG("policy %u", i);
	}
	/* Nor is it any better where there is a domain. */
	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, &xrcd));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, open_with(&self->y, self->file, &bad[i],
					     &more))
			TH_LOG("policy %u", i);
	}
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(1, info.handles);
}

/* A structure of a later or an earlier header. */
TEST_F_TIMEOUT(policy, other_size, TIMEOUT)
{
	struct {
		struct ib_xrc_policy policy;
		__u64 more[2];
	} longer = { .policy = full };
	struct ib_xrc_policy policy;
	const size_t len[] = {
		sizeof(policy) + 1, sizeof(policy) + 8, sizeof(longer),
	};
	union xrc_cmd cmd;
	unsigned int i;
	__u32 xrcd;

	for (i = 0; i < ARRAY_SIZE(len); i++) {
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD,
			    IB_XRC_METHOD_XRCD_OPEN);
		xrc_attr(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
		xrc_in(&cmd, IB_XRC_ATTR_XRCD_OPEN_POLICY, &longer, len[i]);
		EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
		xrcd = xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;
		EXPECT_EQ(0, xrc_xrcd_policy(&self->x, xrcd, &policy));
		EXPECT_EQ(0, memcmp(&full, &policy, sizeof(policy)));

		/* The last byte that is given. */
		((__u8 *)&longer)[len[i] - 1] = 1;
		EXPECT_EQ(-EOPNOTSUPP, xrc_ioctl(self->x.fd, &cmd));
		((__u8 *)&longer)[len[i] - 1] = 0;
		xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_POLICY)->len =
			sizeof(policy) - 1 - i;
		EXPECT_EQ(-EINVAL, xrc_ioctl(self->x.fd, &cmd));
	}
}

/* -------------------------------------------------------------- REFS, DOMAIN -- */

TEST_F_TIMEOUT(policy, refs, TIMEOUT)
{
	static const struct ib_xrc_policy refs = { .type = IB_XRC_POLICY_REFS };
	struct xrc_qp qp, other;
	__u32 xrcd, y_xrcd;
	int objects;

	EXPECT_EQ(0, open_with(&self->x, self->file, &refs, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, &refs, &y_xrcd));
	objects = xrc_kernel_objects();
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_tgt_open(&self->y, y_xrcd, qp.qp_num, &other));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &other));
	/* When the last close has returned it is gone. */
	EXPECT_EQ(-EINVAL, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->y, y_xrcd, qp.qp_num, &other));
	EXPECT_EQ(0, tgt_qps(&self->x, xrcd));
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects));
}

TEST_F_TIMEOUT(policy, domain, TIMEOUT)
{
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp, other;
	__u32 xrcd, y_xrcd, count;

	EXPECT_EQ(0, open_with(&self->x, self->file, &domain, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(0, xrc_list_tgt_qps(&self->y, y_xrcd, &info, 1, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(qp.qp_num, info.qp_num);
	EXPECT_EQ(0, info.refs);
	EXPECT_EQ(IBV_QPS_RESET, info.state);

	/* It is as good as ever, and does not become somebody's by that. */
	EXPECT_EQ(0, receive_by(&self->y, y_xrcd, qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	/* Whoever comes can register, again and again. */
	EXPECT_EQ(0, xrc_tgt_open(&self->y, y_xrcd, qp.qp_num, &other));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->y, &other));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &other));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_open(&self->x, xrcd, qp.qp_num, &other));

	/* The file of its creator is one as any other. */
	xrc_close(&self->x);
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->y, y_xrcd, qp.qp_num, 0));
	EXPECT_EQ(1, tgt_qps(&self->y, y_xrcd));
	/* It holds up nobody who closes the domain, and goes with it. */
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, y_xrcd));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, self->file, 0, &y_xrcd));
}

/* With linger or without, in whichever way the last handle of the domain goes. */
TEST_F_TIMEOUT(policy, domain_closed, TIMEOUT)
{
	const struct ib_xrc_policy domain[] = {
		{ .type = IB_XRC_POLICY_DOMAIN },
		{ .type = IB_XRC_POLICY_DOMAIN, .linger_ms = FOREVER },
		{ .type = IB_XRC_POLICY_DOMAIN, .linger_ms = 0xffffffff },
	};
	struct xrc_qp qp, held;
	__u32 xrcd, other;
	unsigned int i, j;

	for (i = 0; i < 2 * ARRAY_SIZE(domain); i++) {
		EXPECT_EQ(0, open_with(&self->x, self->file, &domain[i / 2],
				       &xrcd));
		EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->file, 0, &other));
		for (j = 0; j < 5; j++) {
			EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
		}
		EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &held));
		EXPECT_EQ(6, tgt_qps(&self->x, xrcd));
		/* Another handle keeps the domain, and so all of them. */
		EXPECT_EQ(0, xrc_xrcd_close(&self->x, other));
		EXPECT_EQ(6, tgt_qps(&self->x, xrcd));
		/* Registrations hold up the close, lingering QPs do not. */
		EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, xrcd));
		if (i % 2) {
			xrc_close(&self->x);
			ASSERT_EQ(0, xrc_open(&self->x));
		} else {
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &held));
			EXPECT_EQ(6, tgt_qps(&self->x, xrcd));
			EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
		}
		EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
		EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, self->file, 0, &other));
	}
}

/* ---------------------------------------------------------------------- linger -- */

static const struct ib_xrc_policy linger = {
	.type = IB_XRC_POLICY_DOMAIN, .linger_ms = LINGER,
};

/* Look again and again, until it is gone; how long after since, or -ETIME. */
static long long gone_after(struct xrc *x, __u32 xrcd, __u32 qp_num,
			    long long since)
{
	long long end = xrc_now() + LINGER + XRC_TIMEOUT_MS;

	while (xrc_tgt_refs(x, xrcd, qp_num) != -EINVAL) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
	return xrc_now() - since;
}

/* It has that many registrations, all the time until then. */
static bool stays_until(struct xrc *x, __u32 xrcd, __u32 qp_num, int refs,
			long long until)
{
	while (xrc_now() < until) {
		if (xrc_tgt_refs(x, xrcd, qp_num) != refs)
			return false;
		usleep(1000);
	}
	return true;
}

/* Both times are cut to whole milliseconds. */
#define EXPECT_LINGERED(ms) EXPECT_LE(LINGER - 1, ms)

TEST_F_TIMEOUT(policy, linger, TIMEOUT)
{
	struct xrc_qp qp;
	long long since;
	int objects;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &linger, &xrcd));
	objects = xrc_kernel_objects();
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	/* While it is registered no time passes. */
	EXPECT_TRUE(stays_until(&self->x, xrcd, qp.qp_num, 1,
				xrc_now() + LINGER * 5 / 4));
	since = xrc_now();
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_LINGERED(gone_after(&self->x, xrcd, qp.qp_num, since));
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, xrcd, qp.qp_num, &qp));
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects));
}

/* Who registers keeps it; the time begins anew when he goes. */
TEST_F_TIMEOUT(policy, linger_interrupted, TIMEOUT)
{
	struct xrc_qp qp, again;
	long long since;
	__u32 xrcd;
	int i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &linger, &xrcd));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
	since = xrc_now();
	for (i = 0; i < 2; i++) {
		/* Part of the time passes without registration. */
		EXPECT_TRUE(stays_until(&self->x, xrcd, qp.qp_num, 0,
					since + LINGER / 4));
		ASSERT_EQ(0, xrc_tgt_open(&self->x, xrcd, qp.qp_num, &again));
		/* All of it passes with one. */
		EXPECT_TRUE(stays_until(&self->x, xrcd, qp.qp_num, 1,
					since + LINGER * 3 / 2));
		since = xrc_now();
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &again));
	}
	EXPECT_LINGERED(gone_after(&self->x, xrcd, qp.qp_num, since));
}

/* Using it is not registering with it. */
TEST_F_TIMEOUT(policy, linger_in_use, TIMEOUT)
{
	struct xrc_qp qp;
	long long since;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &linger, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, receive_by(&self->x, xrcd, qp.qp_num));
	since = xrc_now();
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	/* By number, all the time. */
	EXPECT_LINGERED(gone_after(&self->x, xrcd, qp.qp_num, since));
}

/* Each one has its own time. */
TEST_F_TIMEOUT(policy, linger_several, TIMEOUT)
{
	enum { N = 6 };
	const int step = LINGER / N;
	long long since[N] = {}, start, now;
	struct xrc_qp qp[N], kept, back;
	int closed = 0, gone = 0, i;
	bool is_gone[N] = {};
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &linger, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &kept));
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[i]));
	}
	start = xrc_now();
	while (gone < N && xrc_now() < start + 2 * LINGER + XRC_TIMEOUT_MS) {
		now = xrc_now();
		if (closed < N && now >= start + closed * step) {
			since[closed] = now;
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[closed]));
			if (closed == 2) {
				/* Back, and away again: now is what counts. */
				EXPECT_EQ(0, xrc_tgt_open(&self->x, xrcd,
							  qp[2].qp_num, &back));
				since[2] = xrc_now();
				EXPECT_EQ(0, xrc_tgt_close(&self->x, &back));
			}
			closed++;
		}
		for (i = 0; i < N; i++) {
			if (is_gone[i] ||
			    xrc_tgt_refs(&self->x, xrcd, qp[i].qp_num) >= 0)
				continue;
			is_gone[i] = true;
			gone++;
			EXPECT_GT(closed, i);
			EXPECT_LINGERED(xrc_now() - since[i])
				TH_LOG("QP %d of %d", i, N);
		}
		usleep(1000);
	}
	EXPECT_EQ(N, gone);
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, kept.qp_num));
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 1));
}

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

/* It is registered with or it is gone, and nothing between. */
TEST_F_TIMEOUT(policy, register_when_linger_ends, TIMEOUT)
{
	static const struct ib_xrc_policy brief = {
		.type = IB_XRC_POLICY_DOMAIN, .linger_ms = 8,
	};
	struct aim aim = { .ns = 8000000, .step = 100000 };
	struct xrc_qp qp, again;
	int i, ret, early = 0;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &brief, &xrcd));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, create_and_close(&self->x, xrcd, &qp));
		xrc_spin(aim.ns);
		ret = xrc_tgt_open(&self->x, xrcd, qp.qp_num, &again);
		ASSERT_TRUE(!ret || ret == -EINVAL) TH_LOG("open: %d", ret);
		correct(&aim, !ret);
		if (ret) {
			ASSERT_EQ(-EINVAL, xrc_tgt_refs(&self->x, xrcd,
							qp.qp_num));
			continue;
		}
		early++;
		/* The timer that may have run at that moment is without effect. */
		ASSERT_TRUE(stays_until(&self->x, xrcd, qp.qp_num, 1,
					xrc_now() + 10));
		ASSERT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &again));
		ASSERT_EQ(0, xrc_tgt_close(&self->x, &again));
		ASSERT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num,
					       -EINVAL));
	}
	TH_LOG("%d of 300 came early enough", early);
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
}

/* The timers of a domain that goes just then. */
TEST_F_TIMEOUT(policy, domain_closed_when_linger_ends, TIMEOUT)
{
	static const struct ib_xrc_policy brief = {
		.type = IB_XRC_POLICY_DOMAIN, .linger_ms = 8,
	};
	struct aim aim = { .ns = 8000000, .step = 100000 };
	struct xrc_qp qp[4];
	unsigned int i, j;
	__u32 xrcd;
	int left;

	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, open_with(&self->x, self->file, &brief, &xrcd));
		for (j = 0; j < ARRAY_SIZE(qp); j++) {
			ASSERT_EQ(0, create_and_close(&self->x, xrcd, &qp[j]));
		}
		xrc_spin(aim.ns);
		left = tgt_qps(&self->x, xrcd);
		/* Between the two calls of it, one may have gone. */
		correct(&aim, left >= 2);
		ASSERT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	}
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

/* ----------------------------------------------------------- with the last SRQ -- */

static const struct ib_xrc_policy last_srq = {
	.type = IB_XRC_POLICY_DOMAIN,
	.flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ,
};

TEST_F_TIMEOUT(policy, last_srq, TIMEOUT)
{
	struct xrc_qp qp[3], held, other;
	struct srq first, second;
	__u32 xrcd, y_xrcd;
	int i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &last_srq, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &first));
	EXPECT_EQ(0, srq_open(&self->y, y_xrcd, &second));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp[i]));
		EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp[i].qp_num));
	}
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &held));
	/* One of them is somebody's again. */
	EXPECT_EQ(0, xrc_tgt_open(&self->y, y_xrcd, qp[1].qp_num, &other));
	EXPECT_EQ(4, tgt_qps(&self->x, xrcd));

	EXPECT_EQ(0, srq_close(&self->x, &first));
	EXPECT_EQ(4, tgt_qps(&self->x, xrcd));
	EXPECT_EQ(0, srq_close(&self->y, &second));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp[0].qp_num, -EINVAL));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp[2].qp_num, -EINVAL));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, held.qp_num));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp[1].qp_num));
	EXPECT_EQ(2, tgt_qps(&self->x, xrcd));

	/* From now on they go with the last registration. */
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &other));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp[1].qp_num, -EINVAL));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp[0].qp_num, -EINVAL));
	/* Until there is an SRQ again. */
	EXPECT_EQ(0, srq_open(&self->y, y_xrcd, &second));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &held));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, held.qp_num));
	/* An SRQ goes also with its file. */
	xrc_close(&self->y);
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, held.qp_num, -EINVAL));
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
}

/* An SRQ of another domain is none, and a domain that has had none is no other. */
TEST_F_TIMEOUT(policy, last_srq_never_was, TIMEOUT)
{
	struct xrc_qp qp, held;
	__u32 xrcd, other;
	struct srq srq;

	EXPECT_EQ(0, open_with(&self->x, self->file, &last_srq, &xrcd));
	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, &last_srq, &other));
	EXPECT_EQ(0, srq_open(&self->x, other, &srq));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &held));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num, -EINVAL));
	EXPECT_EQ(0, create_and_close(&self->x, other, &qp));
	EXPECT_EQ(0, srq_close(&self->x, &srq));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, other, qp.qp_num, -EINVAL));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, held.qp_num));
}

/* Without the flag SRQs mean nothing to it. */
TEST_F_TIMEOUT(policy, last_srq_not_asked_for, TIMEOUT)
{
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN, .linger_ms = FOREVER,
	};
	struct xrc_qp qp, more;
	struct srq srq;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &domain, &xrcd));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &qp));
	EXPECT_EQ(0, srq_close(&self->x, &srq));
	EXPECT_EQ(0, create_and_close(&self->x, xrcd, &more));
	EXPECT_TRUE(stays_until(&self->x, xrcd, qp.qp_num, 0, xrc_now() + 200));
	EXPECT_EQ(2, tgt_qps(&self->x, xrcd));
}

/* Whichever of the two comes first. */
TEST_F_TIMEOUT(policy, last_srq_and_linger, TIMEOUT)
{
	static const struct ib_xrc_policy both = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ,
		.linger_ms = LINGER,
	};
	struct xrc_qp qp;
	struct srq srq;
	long long since;
	__u32 xrcd;
	int i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &both, &xrcd));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq));
		EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		since = xrc_now();
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
		if (i) {
			EXPECT_LINGERED(gone_after(&self->x, xrcd, qp.qp_num,
						   since));
			EXPECT_EQ(0, srq_close(&self->x, &srq));
		} else {
			EXPECT_EQ(0, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
			EXPECT_EQ(0, srq_close(&self->x, &srq));
			EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num,
						       -EINVAL));
		}
	}
}

/* Somebody who closes the last SRQ at a given moment. */
struct closer {
	pthread_t thread;
	struct xrc *x;
	struct srq srq;
	int go;
	int ret;
};

static void *close_srq(void *arg)
{
	struct closer *c = arg;

	while (!__atomic_load_n(&c->go, __ATOMIC_ACQUIRE))
		sched_yield();
	c->ret = srq_close(c->x, &c->srq);
	return NULL;
}

/* It is registered with or it is gone, and nothing between. */
TEST_F_TIMEOUT(policy, register_when_last_srq_goes, TIMEOUT)
{
	struct aim aim = { .step = 10000 };
	struct closer c = { .x = &self->y };
	struct xrc_qp qp, again;
	int i, ret, early = 0;
	__u32 xrcd, y_xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &last_srq, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	for (i = 0; i < 300; i++) {
		ASSERT_EQ(0, srq_open(&self->y, y_xrcd, &c.srq));
		ASSERT_EQ(0, create_and_close(&self->x, xrcd, &qp));
		c.go = 0;
		ASSERT_EQ(0, pthread_create(&c.thread, NULL, close_srq, &c));
		__atomic_store_n(&c.go, 1, __ATOMIC_RELEASE);
		xrc_spin(aim.ns);
		ret = xrc_tgt_open(&self->x, xrcd, qp.qp_num, &again);
		pthread_join(c.thread, NULL);
		ASSERT_EQ(0, c.ret);
		ASSERT_TRUE(!ret || ret == -EINVAL) TH_LOG("open: %d", ret);
		correct(&aim, !ret);
		if (!ret) {
			early++;
			ASSERT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &again));
			ASSERT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
			ASSERT_EQ(0, xrc_tgt_close(&self->x, &again));
		}
		ASSERT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num,
					       -EINVAL));
	}
	TH_LOG("%d of 300 came early enough", early);
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
}

/* ---------------------------------------------------------------------- limits -- */

TEST_F_TIMEOUT(policy, max_tgt_qps, TIMEOUT)
{
	static const struct ib_xrc_policy limited = { .max_tgt_qps = 2 };
	struct xrc_qp qp[3], same;
	__u32 xrcd, y_xrcd;
	int objects, i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(0, xrc_tgt_create(&self->y, y_xrcd, &qp[1]));
	objects = xrc_kernel_objects();
	/* It is the domain's limit, not that of a handle or a file. */
	for (i = 0; i < 5; i++) {
		EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp[2]));
		EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->y, y_xrcd, &qp[2]));
	}
	EXPECT_EQ(2, tgt_qps(&self->x, xrcd));
	EXPECT_EQ(objects, xrc_kernel_objects());
	/* Registrations do not count, and SRQs neither. */
	EXPECT_EQ(0, xrc_tgt_open(&self->x, xrcd, qp[1].qp_num, &same));
	EXPECT_EQ(0, receive_by(&self->x, xrcd, qp[0].qp_num));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &qp[1]));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->y, y_xrcd, &qp[2]));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &same));
	EXPECT_EQ(0, xrc_tgt_create(&self->y, y_xrcd, &qp[2]));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &same));
	/* With a file goes what it had. */
	xrc_close(&self->y);
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 1));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[1]));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp[2]));
}

/* What nobody is registered with counts until it is reclaimed. */
TEST_F_TIMEOUT(policy, max_tgt_qps_lingering, TIMEOUT)
{
	static const struct ib_xrc_policy limited = {
		.type = IB_XRC_POLICY_DOMAIN, .linger_ms = LINGER,
		.max_tgt_qps = 1,
	};
	struct xrc_qp qp, more;
	long long since;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	since = xrc_now();
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &more));
	EXPECT_LINGERED(gone_after(&self->x, xrcd, qp.qp_num, since));
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &more));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp));
}

TEST_F_TIMEOUT(policy, max_srqs, TIMEOUT)
{
	static const struct ib_xrc_policy limited = { .max_srqs = 2 };
	struct ib_xrc_xrcd_info info;
	struct srq srq[3];
	struct xrc_qp qp;
	__u32 xrcd, y_xrcd, count;

	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(0, srq_open(&self->y, y_xrcd, &srq[1]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[2]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->y, y_xrcd, &srq[2]));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(2, info.srqs);
	EXPECT_EQ(0, xrc_list_srqs(&self->x, xrcd, 0, NULL, 0, &count));
	EXPECT_EQ(2, count);
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, srq_close(&self->x, &srq[0]));
	EXPECT_EQ(0, srq_open(&self->y, y_xrcd, &srq[2]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[0]));
	xrc_close(&self->y);
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[1]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[2]));
}

static long long bytes(struct xrc *x, __u32 xrcd)
{
	struct ib_xrc_xrcd_info info;

	return xrc_xrcd_query(x, xrcd, &info) ? -1 : (long long)info.bytes;
}

/* As ib_xrc_limits says, whether there is a limit or not. */
TEST_F_TIMEOUT(policy, bytes, TIMEOUT)
{
	const __u32 qp_bytes = self->limits.tgt_qp_bytes;
	const __u32 srq_bytes = self->limits.srq_bytes;
	struct xrc_qp qp[2], same;
	struct srq srq[2];
	__u32 xrcd, y_xrcd, other;

	/* Both keep buffers of the kernel, a TGT QP one for each message. */
	EXPECT_EQ(self->limits.tgt_qp_recv_wr * IB_XRC_WIRE_PART_SIZE, qp_bytes);
	EXPECT_NE(0, srq_bytes);
	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, &xrcd));
	EXPECT_EQ(0, open_with(&self->y, self->file, NULL, &y_xrcd));
	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, NULL, &other));
	EXPECT_EQ(0, bytes(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(qp_bytes, bytes(&self->x, xrcd));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(qp_bytes + srq_bytes, bytes(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->y, y_xrcd, &qp[1]));
	EXPECT_EQ(0, srq_open(&self->y, y_xrcd, &srq[1]));
	EXPECT_EQ(2 * (qp_bytes + srq_bytes), bytes(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_open(&self->y, y_xrcd, qp[0].qp_num, &same));
	EXPECT_EQ(2 * (qp_bytes + srq_bytes), bytes(&self->x, xrcd));
	EXPECT_EQ(0, bytes(&self->x, other));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[0]));
	EXPECT_EQ(2 * (qp_bytes + srq_bytes), bytes(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &same));
	EXPECT_EQ(qp_bytes + 2 * srq_bytes, bytes(&self->x, xrcd));
	EXPECT_EQ(0, srq_close(&self->x, &srq[0]));
	EXPECT_EQ(qp_bytes + srq_bytes, bytes(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &qp[1]));
	EXPECT_EQ(0, srq_close(&self->y, &srq[1]));
	EXPECT_EQ(0, bytes(&self->x, xrcd));
}

TEST_F_TIMEOUT(policy, max_bytes, TIMEOUT)
{
	const __u32 qp_bytes = self->limits.tgt_qp_bytes;
	const __u32 srq_bytes = self->limits.srq_bytes;
	struct ib_xrc_policy limited = { .max_bytes = qp_bytes + srq_bytes };
	struct xrc_qp qp[2];
	struct srq srq[2];
	__u32 xrcd, i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	for (i = 0; i < 3; i++) {
		/* It fits exactly. */
		EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[0]));
		EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[0]));
		EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp[1]));
		EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[1]));
		EXPECT_EQ(qp_bytes + srq_bytes, bytes(&self->x, xrcd));
		EXPECT_EQ(1, tgt_qps(&self->x, xrcd));
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[0]));
		EXPECT_EQ(0, srq_close(&self->x, &srq[0]));
	}
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));

	/* A byte less. */
	limited.max_bytes--;
	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(0, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(srq_bytes, bytes(&self->x, xrcd));
	EXPECT_EQ(0, srq_close(&self->x, &srq[0]));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[0]));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));

	/* Not enough for anything. */
	limited.max_bytes = 1;
	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp[0]));
	EXPECT_EQ(-EDQUOT, srq_open(&self->x, xrcd, &srq[0]));
	EXPECT_EQ(0, bytes(&self->x, xrcd));
	EXPECT_EQ(0, tgt_qps(&self->x, xrcd));
}

/* A call that fails late gives back what it took of the limits. */
TEST_F_TIMEOUT(policy, limits_after_failure, TIMEOUT)
{
	static const struct ib_xrc_policy limited = {
		.max_tgt_qps = 1, .max_srqs = 1,
	};
	union xrc_cmd cmd;
	struct srq srq;
	struct xrc_qp qp;
	__u32 xrcd, i;

	EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
	EXPECT_EQ(0, xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &srq.cq));
	for (i = 0; i < 10; i++) {
		/* The number cannot be written. */
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
			    IB_XRC_METHOD_TGT_QP_CREATE);
		xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, 0);
		xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd);
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, NULL, 4);
		EXPECT_EQ(-EFAULT, xrc_ioctl(self->x.fd, &cmd));

		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ,
			    IB_XRC_METHOD_SRQ_CREATE);
		xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE, 0);
		xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_XRCD, xrcd);
		xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_CQ, srq.cq.handle);
		xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_WR, 4);
		xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, 1);
		xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, NULL, 4);
		xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_RING, &srq.srq.info,
			sizeof(srq.srq.info));
		EXPECT_EQ(-EFAULT, xrc_ioctl(self->x.fd, &cmd));
	}
	EXPECT_EQ(0, bytes(&self->x, xrcd));
	EXPECT_EQ(0, tgt_qps(&self->x, xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_srq_create(&self->x, xrcd, &srq.cq, 4, 1, 0, &srq.srq));
	EXPECT_EQ(0, srq_close(&self->x, &srq));
}

/* Many at once: never more than may be, and never less. */
struct creator {
	pthread_t thread;
	struct xrc *x;
	__u32 xrcd;
	int *go;
	int created;
	int ret;
};

static void *create_some(void *arg)
{
	struct creator *c = arg;
	struct xrc_qp qp;
	int i;

	while (!__atomic_load_n(c->go, __ATOMIC_ACQUIRE))
		sched_yield();
	for (i = 0; i < 4; i++) {
		c->ret = xrc_tgt_create(c->x, c->xrcd, &qp);
		if (c->ret)
			break;
		c->created++;
	}
	return NULL;
}

TEST_F_TIMEOUT(policy, limits_raced_for, TIMEOUT)
{
	enum { LIMIT = 5 };
	static const struct ib_xrc_policy limited = { .max_tgt_qps = LIMIT };
	struct creator c[4];
	int round, created, go;
	unsigned int i;
	__u32 xrcd;

	for (round = 0; round < 10; round++) {
		EXPECT_EQ(0, open_with(&self->x, self->file, &limited, &xrcd));
		go = 0;
		for (i = 0; i < ARRAY_SIZE(c); i++) {
			c[i] = (struct creator) {
				.x = &self->x, .xrcd = xrcd, .go = &go,
			};
			ASSERT_EQ(0, pthread_create(&c[i].thread, NULL,
						    create_some, &c[i]));
		}
		__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
		for (i = created = 0; i < ARRAY_SIZE(c); i++) {
			pthread_join(c[i].thread, NULL);
			EXPECT_TRUE(!c[i].ret || c[i].ret == -EDQUOT)
				TH_LOG("create: %d", c[i].ret);
			created += c[i].created;
		}
		EXPECT_EQ(LIMIT, created);
		EXPECT_EQ(LIMIT, tgt_qps(&self->x, xrcd));
		xrc_close(&self->x);
		ASSERT_EQ(0, xrc_open(&self->x));
		/* The domain must be gone before its next round. */
		EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	}
}

/* ------------------------------------------------------- in error on request -- */

static int set_state(struct xrc *x, const struct xrc_qp *qp, int state)
{
	const struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
				IBV_QP_ACCESS_FLAGS,
		.qp_state = state, .port_num = 1,
	};
	struct ib_uverbs_qp_attr only_state = attr;

	only_state.qp_attr_mask = IBV_QP_STATE;
	return xrc_tgt_modify(x, qp, state == IBV_QPS_INIT ? &attr : &only_state);
}

/* A TGT QP whose creator was not told its number is not kept, whatever is. */
TEST_F_TIMEOUT(policy, create_fails_late, TIMEOUT)
{
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	const struct xrc_xrcd_opts opts = { .policy = &domain };
	union xrc_cmd cmd;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, self->file, O_CREAT, &opts,
					&xrcd));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_CREATE);
	xrc_attr(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd);
	xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, xrc_guard_page(), 4);
	EXPECT_EQ(-EFAULT, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
}

/* The next two events are that the QP was made, and that it went being in error. */
#define EXPECT_GONE_IN_ERROR(ef, num) do {				\
	struct ib_xrc_event event_ = {};				\
									\
	ASSERT_EQ(0, xrc_event_wait(ef, &event_, XRC_TIMEOUT_MS));	\
	EXPECT_EQ(IB_XRC_EVENT_TGT_QP_CREATED, event_.type);		\
	EXPECT_EQ(num, event_.number);					\
	ASSERT_EQ(0, xrc_event_wait(ef, &event_, XRC_TIMEOUT_MS));	\
	EXPECT_EQ(IB_XRC_EVENT_TGT_QP_RECLAIMED, event_.type);		\
	EXPECT_EQ(num, event_.number);					\
	EXPECT_EQ(IB_XRC_RECLAIM_ERROR, event_.value);			\
	EXPECT_EQ(-EINVAL, xrc_tgt_refs(&self->x, xrcd, num));		\
	EXPECT_EQ(0, wait_tgt_qps(&self->x, xrcd, 0));			\
} while (0)

/* Nobody keeps a TGT QP in ERR that has no registrations: nor how it came there. */
TEST_F_TIMEOUT(policy, in_error_on_request, TIMEOUT)
{
	static const struct ib_xrc_policy policies[] = {
		{ .type = IB_XRC_POLICY_DOMAIN },
		{ .type = IB_XRC_POLICY_DOMAIN, .linger_ms = FOREVER },
	};
	struct xrc_report report = {};
	struct xrc_qp qp, num = { .by_num = true };
	struct ib_xrc_event event;
	unsigned int i;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &report.fd));
	fcntl(report.fd, F_SETFL, O_NONBLOCK);
	for (i = 0; i < ARRAY_SIZE(policies); i++) {
		const struct xrc_xrcd_opts opts = {
			.policy = &policies[i], .report = &report,
		};

		ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, self->file, O_CREAT,
						&opts, &xrcd));
		num.handle = xrcd;

		/* Modified while it is registered: it goes when it is given back. */
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		EXPECT_EQ(0, set_state(&self->x, &qp, IBV_QPS_INIT));
		EXPECT_EQ(0, set_state(&self->x, &qp, IBV_QPS_ERR));
		EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
		EXPECT_EQ(IBV_QPS_ERR, xrc_tgt_state(&self->x, &qp));
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
		EXPECT_GONE_IN_ERROR(report.fd, qp.qp_num);

		/* Disconnected, likewise. */
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		EXPECT_EQ(0, set_state(&self->x, &qp, IBV_QPS_INIT));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &qp, 0, NULL));
		EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
		EXPECT_EQ(0, xrc_tgt_disconnect_release(&self->x, &qp, 0, NULL));
		EXPECT_GONE_IN_ERROR(report.fd, qp.qp_num);

		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		EXPECT_EQ(0, set_state(&self->x, &qp, IBV_QPS_INIT));
		EXPECT_EQ(0, xrc_tgt_disconnect_release(&self->x, &qp, 0, NULL));
		EXPECT_GONE_IN_ERROR(report.fd, qp.qp_num);

		/* By number, when nobody is registered with it. */
		ASSERT_EQ(0, create_and_close(&self->x, xrcd, &qp));
		num.qp_num = qp.qp_num;
		EXPECT_EQ(0, set_state(&self->x, &num, IBV_QPS_INIT));
		EXPECT_EQ(IBV_QPS_INIT, xrc_tgt_state(&self->x, &num));
		EXPECT_EQ(0, set_state(&self->x, &num, IBV_QPS_ERR));
		EXPECT_GONE_IN_ERROR(report.fd, qp.qp_num);
		EXPECT_EQ(-EINVAL, set_state(&self->x, &num, IBV_QPS_RESET));

		ASSERT_EQ(0, create_and_close(&self->x, xrcd, &qp));
		num.qp_num = qp.qp_num;
		EXPECT_EQ(0, set_state(&self->x, &num, IBV_QPS_INIT));
		EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &num, 0, NULL));
		EXPECT_GONE_IN_ERROR(report.fd, qp.qp_num);

		EXPECT_EQ(-EAGAIN, xrc_event_read(report.fd, &event, 1));
		EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	}
	close(report.fd);
}

/* ------------------------------------------------------------------ kill -9 -- */

FIXTURE(killed)
{
	int file;
	int objects;
	struct xrc x;
	__u32 xrcd;
	pid_t pid;
	__u32 qp_num;
};

FIXTURE_VARIANT(killed)
{
	struct ib_xrc_policy policy;
	/* Who has an SRQ: the holder, and who watches. */
	bool srq;
	bool watcher_srq;
	/* The QP is there when the holder has gone. */
	bool stays;
};

FIXTURE_VARIANT_ADD(killed, refs) {
	.policy = { .type = IB_XRC_POLICY_REFS },
	.srq = true,
	.watcher_srq = true,
};

FIXTURE_VARIANT_ADD(killed, refs_reclaim_referenced) {
	.policy = { .flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED },
};

FIXTURE_VARIANT_ADD(killed, domain) {
	.policy = { .type = IB_XRC_POLICY_DOMAIN },
	.srq = true,
	.stays = true,
};

FIXTURE_VARIANT_ADD(killed, domain_reclaim_referenced) {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED,
	},
	.stays = true,
};

FIXTURE_VARIANT_ADD(killed, domain_linger) {
	.policy = { .type = IB_XRC_POLICY_DOMAIN, .linger_ms = LINGER },
	.stays = true,
};

FIXTURE_VARIANT_ADD(killed, domain_last_srq) {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ,
	},
	.srq = true,
};

FIXTURE_VARIANT_ADD(killed, domain_not_last_srq) {
	.policy = {
		.type = IB_XRC_POLICY_DOMAIN,
		.flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ,
	},
	.srq = true,
	.watcher_srq = true,
	.stays = true,
};

/* What the holder does until it is killed. */
static void hold(int file, const struct ib_xrc_policy *policy, bool with_srq,
		 int out)
{
	struct srq srq;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (xrc_open(&x) || open_with(&x, file, policy, &xrcd) ||
	    xrc_tgt_create(&x, xrcd, &qp) ||
	    (with_srq && srq_open(&x, xrcd, &srq)) ||
	    write(out, &qp.qp_num, sizeof(qp.qp_num)) < 0)
		_exit(1);
	for (;;)
		pause();
}

FIXTURE_SETUP(killed)
{
	int out[2];

	self->objects = xrc_kernel_objects();
	self->file = memfd_create("killed", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, pipe(out));
	self->pid = fork();
	ASSERT_LE(0, self->pid);
	if (!self->pid)
		hold(self->file, &variant->policy, variant->srq, out[1]);
	close(out[1]);
	ASSERT_EQ(sizeof(self->qp_num), read(out[0], &self->qp_num,
					     sizeof(self->qp_num)));
	close(out[0]);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, 0, &self->xrcd));
}

FIXTURE_TEARDOWN(killed)
{
	if (self->pid > 0) {
		kill(self->pid, SIGKILL);
		waitpid(self->pid, NULL, 0);
	}
	xrc_close(&self->x);
	close(self->file);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

TEST_F_TIMEOUT(killed, holder, TIMEOUT)
{
	struct xrc_qp again;
	long long since;
	struct srq srq;

	if (variant->watcher_srq) {
		EXPECT_EQ(0, srq_open(&self->x, self->xrcd, &srq));
	}
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, self->xrcd, self->qp_num));
	since = xrc_now();
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	self->pid = 0;
	if (!variant->stays) {
		EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, self->qp_num,
					       -EINVAL));
		EXPECT_EQ(0, wait_tgt_qps(&self->x, self->xrcd, 0));
		return;
	}
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, self->qp_num, 0));
	if (variant->policy.linger_ms) {
		EXPECT_LINGERED(gone_after(&self->x, self->xrcd, self->qp_num,
					   since));
		return;
	}
	/* Others go on with it. */
	EXPECT_EQ(0, receive_by(&self->x, self->xrcd, self->qp_num));
	EXPECT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, self->qp_num, &again));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &again));
	EXPECT_EQ(0, xrc_tgt_refs(&self->x, self->xrcd, self->qp_num));
	if (variant->watcher_srq) {
		EXPECT_EQ(0, srq_close(&self->x, &srq));
		EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, self->qp_num,
					       -EINVAL));
	}
}

/* The holder was the last one who had the domain open. */
TEST_F_TIMEOUT(killed, holder_alone, TIMEOUT)
{
	__u32 xrcd;

	EXPECT_EQ(0, xrc_xrcd_close(&self->x, self->xrcd));
	kill(self->pid, SIGKILL);
	waitpid(self->pid, NULL, 0);
	self->pid = 0;
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
}

TEST_HARNESS_MAIN
