// SPDX-License-Identifier: GPL-2.0
/*
 * Who pays: the memory of each kind of object is charged to the memory cgroup of who
 * makes it, too much of it harms that cgroup only, and all comes back. What is on the
 * device is counted in the rdma cgroup.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "task_util.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define MB (1024 * 1024)
/* More than one process can have of anything. */
#define ENDLESS (1 << 20)

/* ---------------------------------------------------------------- what is made -- */

/* What an object is made with. */
struct ground {
	struct xrc x;
	__u32 xrcd;
	int file;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc_report report;
	void *page;
};

static int make_file(struct ground *g)
{
	struct xrc x;

	return xrc_open(&x);
}

static int make_handle(struct ground *g)
{
	__u32 xrcd;

	return xrc_xrcd_open(&g->x, g->file, 0, &xrcd);
}

static int make_subscriber(struct ground *g)
{
	const struct xrc_xrcd_opts opts = { .report = &g->report };
	__u32 xrcd;

	return xrc_xrcd_open_with(&g->x, g->file, 0, &opts, &xrcd);
}

static int make_domain(struct ground *g)
{
	__u32 xrcd;

	return xrc_xrcd_open(&g->x, XRC_NO_FD, 0, &xrcd);
}

static int make_tgt_qp(struct ground *g)
{
	struct xrc_qp qp;

	return xrc_tgt_create(&g->x, g->xrcd, &qp);
}

/* It has its receive buffers. */
static int make_ready_tgt_qp(struct ground *g)
{
	static const struct ib_uverbs_qp_attr init = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};
	struct xrc_qp qp;
	int ret = xrc_tgt_create(&g->x, g->xrcd, &qp);

	return ret ? ret : xrc_tgt_connect(&g->x, &qp, &init, NULL);
}

static int make_registration(struct ground *g)
{
	struct xrc_qp qp;

	return xrc_tgt_open(&g->x, g->xrcd, g->qp.qp_num, &qp);
}

static int make_cq(struct ground *g)
{
	struct ib_xrc_limits limits;
	struct xrc_cq cq;
	int ret = xrc_limits(&g->x, &limits);

	return ret ? ret : xrc_cq_create(&g->x, limits.max_cqe, 0, XRC_NO_FD, &cq);
}

static int make_srq(struct ground *g)
{
	struct xrc_srq srq;

	return xrc_srq_create(&g->x, g->xrcd, &g->cq, 1, 1, 0, &srq);
}

static int make_largest_srq(struct ground *g)
{
	struct ib_xrc_limits limits;
	struct xrc_srq srq;
	int ret = xrc_limits(&g->x, &limits);

	return ret ? ret : xrc_srq_create(&g->x, g->xrcd, &g->cq,
					  limits.max_srq_wr,
					  limits.max_srq_sge, 0, &srq);
}

static int make_channel(struct ground *g)
{
	int fd;

	return xrc_channel_create(&g->x, &fd);
}

static int make_event_file(struct ground *g)
{
	int fd;

	return xrc_event_file_create(&g->x, IB_XRC_EVENT_FILE_MAX_DEPTH, &fd);
}

static int make_mr(struct ground *g)
{
	struct xrc_mr mr;

	return xrc_mr_reg(&g->x, g->xrcd, g->page, 1, IBV_ACCESS_LOCAL_WRITE, &mr);
}

/* Something of everything, so that only the object in question is new. */
static int prepare(struct ground *g)
{
	const struct rlimit files = { 65536, 65536 };
	int ret;

	setrlimit(RLIMIT_NOFILE, &files);
	g->file = memfd_create("domain", MFD_CLOEXEC);
	g->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (g->file < 0 || g->page == MAP_FAILED)
		return -errno;
	ret = xrc_open(&g->x);
	if (!ret)
		ret = xrc_xrcd_open(&g->x, g->file, O_CREAT, &g->xrcd);
	if (!ret)
		ret = xrc_tgt_create(&g->x, g->xrcd, &g->qp);
	if (!ret)
		ret = xrc_cq_create(&g->x, 1, 0, XRC_NO_FD, &g->cq);
	if (!ret)
		ret = xrc_event_file_create(&g->x, 1, &g->report.fd);
	return ret;
}

/* ---------------------------------------------------------------------- memory -- */

/* What the last process did, for its parent to see. */
struct outcome {
	int ret;
	int made;
	long long bytes;
};

FIXTURE(accounting)
{
	struct cgroup cg;
	struct outcome *outcome;
	int objects;
	bool skipped;
};

FIXTURE_VARIANT(accounting)
{
	int (*make)(struct ground *g);
	int number;
	/* What one has at least, and mostly not much more. */
	int bytes;
};

#define KIND(name_, number_, bytes_)					\
	FIXTURE_VARIANT_ADD(accounting, name_) {			\
		.make = make_##name_, .number = number_, .bytes = bytes_ \
	}

KIND(file, 2000, 300);
KIND(handle, 4000, 250);
KIND(subscriber, 4000, 350);
KIND(domain, 1000, 1000);
KIND(tgt_qp, 200, 32 * 128);
KIND(ready_tgt_qp, 40, 32 * 4096);
KIND(registration, 4000, 300);
KIND(cq, 4, 4 * MB);
KIND(srq, 16, 128 * 4096);
KIND(largest_srq, 2, 32768 * 272);
KIND(channel, 2000, 500);
KIND(event_file, 50, 4096 * 40);
KIND(mr, 2000, 200);

FIXTURE_SETUP(accounting)
{
	int ret;

	self->objects = xrc_kernel_objects();
	self->outcome = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->outcome);
	ret = cgroup_make(&self->cg, "memory");
	self->skipped = ret;
	if (ret == -ENOENT)
		SKIP(return, "there is no memory controller");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(accounting)
{
	if (self->skipped)
		return;
	EXPECT_EQ(0, cgroup_remove(&self->cg));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

static long long kernel_bytes(const struct cgroup *cg)
{
	return cgroup_read(cg, "memory.stat", "kernel");
}

/* Nothing of the kernel's memory is left in it but what is kept for the next one. */
static long long wait_returned(const struct cgroup *cg)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS, bytes;

	do {
		bytes = kernel_bytes(cg);
		if (bytes < MB / 2)
			break;
		usleep(50000);
	} while (xrc_now() < end);
	return bytes;
}

/*
 * In the cgroup: make so many, of which the last may fail; with less memory than that
 * if there is a limit on what is added.
 */
static void make_many(const struct cgroup *cg, int (*make)(struct ground *g),
		      int number, long long limit, struct outcome *outcome)
{
	struct ground ground = {};
	long long before;
	char text[32];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	outcome->ret = cgroup_enter(cg);
	if (!outcome->ret)
		outcome->ret = prepare(&ground);
	if (outcome->ret)
		return;
	before = kernel_bytes(cg);
	if (limit) {
		snprintf(text, sizeof(text), "%lld",
			 cgroup_read(cg, "memory.current", "") + limit);
		outcome->ret = cgroup_write(cg, "memory.max", text);
		if (outcome->ret)
			return;
	}
	for (outcome->made = 0; outcome->made < number; outcome->made++) {
		outcome->ret = make(&ground);
		if (outcome->ret)
			break;
	}
	outcome->bytes = kernel_bytes(cg) - before;
}

/* Outside of the cgroup. */
static int task_make_one(void *arg)
{
	int (*const *make)(struct ground *g) = arg;
	struct ground ground = {};
	int ret = prepare(&ground);

	return ret ? ret : (*make)(&ground);
}

TEST_F_TIMEOUT(accounting, charged, TIMEOUT)
{
	struct outcome *o = self->outcome;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		make_many(&self->cg, variant->make, variant->number, 0, o);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, o->ret);
	EXPECT_EQ(variant->number, o->made);
	TH_LOG("%lld bytes each", o->bytes / variant->number);
	EXPECT_LE((long long)variant->number * variant->bytes, o->bytes);
	/* And nobody pays for what is another's. */
	EXPECT_GE((long long)variant->number * variant->bytes * 8 * xrc_memory_scale(),
		  o->bytes);
	EXPECT_GT(MB / 2, wait_returned(&self->cg));
}

/* The kernel ends the process that has too much, or refuses it more. */
TEST_F_TIMEOUT(accounting, exceeded, TIMEOUT)
{
	long long limit = variant->bytes < MB ? 3 * MB : 3LL * variant->bytes;
	int (*make)(struct ground *g) = variant->make;
	struct outcome *o = self->outcome;
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		make_many(&self->cg, variant->make, ENDLESS, limit, o);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	TH_LOG("ended with status %d, after %d of them with %d", status, o->made,
	       o->ret);
	if (WIFSIGNALED(status)) {
		EXPECT_EQ(SIGKILL, WTERMSIG(status));
		EXPECT_LE(1, cgroup_read(&self->cg, "memory.events", "oom_kill"));
	} else {
		EXPECT_EQ(-ENOMEM, o->ret);
	}
	EXPECT_LE(1, cgroup_read(&self->cg, "memory.events", "max"));
	/* Some of it, and no more than there was room for. */
	EXPECT_LE(1, o->made);
	EXPECT_GE(limit + MB, (long long)o->made * variant->bytes);
	EXPECT_GT(MB / 2, wait_returned(&self->cg));
	/* Others have as much memory as ever. */
	EXPECT_EQ(0, task_run(task_make_one, &make));
}

/* ------------------------------------------------------------------------ rdma -- */

FIXTURE(rdma)
{
	struct cgroup cg;
	int objects;
	bool skipped;
};

FIXTURE_SETUP(rdma)
{
	int ret;

	self->objects = xrc_kernel_objects();
	ret = cgroup_make(&self->cg, "rdma");
	self->skipped = ret;
	if (ret == -ENOENT)
		SKIP(return, "there is no rdma controller");
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(rdma)
{
	if (self->skipped)
		return;
	EXPECT_EQ(0, cgroup_remove(&self->cg));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

static int set_max(const struct cgroup *cg, const char *what, int max)
{
	char text[64];

	snprintf(text, sizeof(text), "%s %s=%d", xrc_device(), what, max);
	return cgroup_write(cg, "rdma.max", text);
}

/* How many the group has; those of a group that never had any are not shown. */
static long long counted(const struct cgroup *cg, const char *what)
{
	long long n = cgroup_read(cg, "rdma.current", what);

	return n == -ENODATA ? 0 : n;
}

#define HANDLES 3

static int task_handles(void *arg)
{
	const struct cgroup *cg = arg;
	struct xrc x[HANDLES], more;
	int ret = cgroup_enter(cg), i;

	for (i = 0; i < HANDLES && !ret; i++)
		ret = xrc_open(&x[i]);
	if (ret)
		return UNEXPECTED(1, ret);
	if (counted(cg, "hca_handle") != HANDLES)
		return UNEXPECTED(2, 0);
	ret = xrc_open_node(&more);
	if (ret)
		return UNEXPECTED(3, ret);
	ret = xrc_bind(&more, xrc_device());
	if (ret != -EAGAIN)
		return UNEXPECTED(4, ret);
	/* It is not bound, and can be once there is room. */
	xrc_close(&x[0]);
	ret = xrc_bind(&more, xrc_device());
	if (ret)
		return UNEXPECTED(5, ret);
	/* A second bind counts nothing. */
	ret = xrc_bind(&more, xrc_device());
	if (ret != -EINVAL || counted(cg, "hca_handle") != HANDLES)
		return UNEXPECTED(6, ret);
	return 0;
}

TEST_F_TIMEOUT(rdma, handles, TIMEOUT)
{
	struct xrc x;

	ASSERT_EQ(0, set_max(&self->cg, "hca_handle", HANDLES));
	EXPECT_EQ(0, task_run(task_handles, &self->cg));
	EXPECT_EQ(0, counted(&self->cg, "hca_handle"));
	EXPECT_EQ(0, xrc_open(&x));
	xrc_close(&x);
}

#define OBJECTS 8

static int task_objects(void *arg)
{
	const struct cgroup *cg = arg;
	struct xrc_qp qp, more;
	__u32 xrcd, second;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_mr mr;
	struct xrc x;
	int ret, i;

	ret = cgroup_enter(cg);
	if (!ret)
		ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (ret || counted(cg, "hca_object") != 1)
		return UNEXPECTED(1, ret);
	ret = xrc_tgt_create(&x, xrcd, &qp);
	if (ret || counted(cg, "hca_object") != 3)
		return UNEXPECTED(2, ret);
	ret = xrc_mr_reg(&x, xrcd, &x, sizeof(x), IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret || counted(cg, "hca_object") != 4)
		return UNEXPECTED(3, ret);
	/* Of these the device has nothing. */
	ret = xrc_cq_create(&x, 1, 0, XRC_NO_FD, &cq);
	if (!ret)
		ret = xrc_srq_create(&x, xrcd, &cq, 1, 1, 0, &srq);
	if (!ret)
		ret = xrc_tgt_open(&x, xrcd, qp.qp_num, &more);
	if (ret || counted(cg, "hca_object") != 4)
		return UNEXPECTED(4, ret);
	/* Up to one below the limit: then a TGT QP, which takes two, is refused whole. */
	for (i = 4; i < OBJECTS - 1 && !ret; i++)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &second);
	if (ret)
		return UNEXPECTED(5, ret);
	ret = xrc_tgt_create(&x, xrcd, &more);
	if (ret != -EAGAIN || counted(cg, "hca_object") != OBJECTS - 1)
		return UNEXPECTED(6, ret);
	ret = xrc_mr_reg(&x, xrcd, &x, sizeof(x), IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret)
		return UNEXPECTED(7, ret);
	ret = xrc_mr_reg(&x, xrcd, &x, sizeof(x), IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret != -EAGAIN)
		return UNEXPECTED(8, ret);
	ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &second);
	if (ret != -EAGAIN)
		return UNEXPECTED(9, ret);
	/* What was refused has left nothing, and the rest works. */
	ret = xrc_tgt_state(&x, &qp);
	return ret == IBV_QPS_RESET ? 0 : UNEXPECTED(10, ret);
}

TEST_F_TIMEOUT(rdma, objects, TIMEOUT)
{
	ASSERT_EQ(0, set_max(&self->cg, "hca_object", OBJECTS));
	EXPECT_EQ(0, task_run(task_objects, &self->cg));
	EXPECT_EQ(0, counted(&self->cg, "hca_object"));
	EXPECT_LE(4, cgroup_read(&self->cg, "rdma.peak", "hca_object"));
}

struct passing {
	const struct cgroup *cg;
	struct xrc *x;
	__u32 xrcd;
};

static int task_leave_qp(void *arg)
{
	struct passing *p = arg;
	struct xrc_qp qp;
	int ret = cgroup_enter(p->cg);

	return ret ? ret : xrc_tgt_create(p->x, p->xrcd, &qp);
}

/* It counts where it was made, as long as it is there, whoever has it then. */
TEST_F_TIMEOUT(rdma, outlives_its_maker, TIMEOUT)
{
	struct passing p = { .cg = &self->cg };
	struct xrc x;

	ASSERT_EQ(0, xrc_open(&x));
	ASSERT_EQ(0, xrc_xrcd_open(&x, XRC_NO_FD, 0, &p.xrcd));
	p.x = &x;
	EXPECT_EQ(0, task_run(task_leave_qp, &p));
	EXPECT_EQ(2, counted(&self->cg, "hca_object"));
	xrc_close(&x);
	EXPECT_EQ(0, counted(&self->cg, "hca_object"));
}

TEST_HARNESS_MAIN
