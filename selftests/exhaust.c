// SPDX-License-Identifier: GPL-2.0
/*
 * A process that takes as much as it can get of something: where that ends, that
 * others go on, and that all of it goes, at once, however the process ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "inbox.h"
#include "task_util.h"
#include "scale.h"

#define TIMEOUT (300 * xrc_scale())

#define MAX_HANDLES 65536
#define MAX_FILES 20000
/* For something large to go; a grace period for each would take minutes. */
#define QUICK_MS (20000 * xrc_scale())

FIXTURE(exhaust)
{
	struct xrc x;
	/* Of somebody else. */
	struct xrc other;
	__u32 other_xrcd;
	int file;
	int objects;
};

typedef FIXTURE_DATA(exhaust) exhaust_t;

FIXTURE_SETUP(exhaust)
{
	const struct rlimit files = { 65536, 65536 };

	self->objects = xrc_kernel_objects();
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	self->file = memfd_create("domain", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->other));
	ASSERT_EQ(0, xrc_xrcd_open(&self->other, XRC_NO_FD, 0, &self->other_xrcd));
}

FIXTURE_TEARDOWN(exhaust)
{
	xrc_close(&self->x);
	xrc_close(&self->other);
	close(self->file);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

/* Somebody else makes one of everything. */
static int go_on(struct xrc *x, __u32 xrcd)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc_mr mr;
	int ret, fd;

	ret = xrc_tgt_create(x, xrcd, &qp);
	if (!ret)
		ret = xrc_tgt_close(x, &qp);
	if (!ret)
		ret = xrc_cq_create(x, 16, 0, XRC_NO_FD, &cq);
	if (!ret)
		ret = xrc_srq_create(x, xrcd, &cq, 16, 1, 0, &srq);
	if (!ret)
		ret = xrc_srq_destroy(x, &srq);
	if (!ret)
		ret = xrc_cq_destroy(x, &cq);
	if (!ret)
		ret = xrc_mr_reg(x, xrcd, &ret, sizeof(ret),
				 IBV_ACCESS_LOCAL_WRITE, &mr);
	if (!ret)
		ret = xrc_mr_dereg(x, &mr);
	if (!ret)
		ret = xrc_channel_create(x, &fd);
	if (!ret)
		close(fd);
	return ret;
}

#define EXPECT_OTHERS_GO_ON() \
	EXPECT_EQ(0, go_on(&self->other, self->other_xrcd))

static int open_limited(struct xrc *x, const struct ib_xrc_policy *policy,
			__u32 *xrcd)
{
	const struct xrc_xrcd_opts opts = { .policy = policy };

	return xrc_xrcd_open_with(x, XRC_NO_FD, 0, &opts, xrcd);
}

/* --------------------------------------------------------------------- handles -- */

TEST_F_TIMEOUT(exhaust, handles, TIMEOUT)
{
	struct xrc_cq cq;
	long long start;
	__u32 xrcd;
	int i, ret;

	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, O_CREAT, &xrcd));
	for (i = 1; i <= MAX_HANDLES; i++) {
		ret = xrc_xrcd_open(&self->x, self->file, 0, &xrcd);
		if (ret)
			break;
	}
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_EQ(MAX_HANDLES, i);
	/* Of any kind. */
	EXPECT_EQ(-ENOSPC, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	EXPECT_OTHERS_GO_ON();
	/* One goes, one comes. */
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, 4711));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
	EXPECT_EQ(4711, xrcd);
	EXPECT_EQ(-ENOSPC, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
	start = xrc_now();
	xrc_close(&self->x);
	EXPECT_GT(QUICK_MS, xrc_now() - start);
	ASSERT_EQ(0, xrc_open(&self->x));
	/* The domain is gone with the last. */
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
}

/* -------------------------------------------------------- limits of the domain -- */

#define LIMIT 50

/* Kept by the domain, so that no handle bounds them. */
TEST_F_TIMEOUT(exhaust, tgt_qps_of_a_domain, TIMEOUT)
{
	const struct ib_xrc_policy policy = {
		.type = IB_XRC_POLICY_DOMAIN, .max_tgt_qps = LIMIT,
	};
	struct ib_xrc_xrcd_info info;
	struct xrc_qp qp;
	__u32 xrcd;
	int i, ret;

	ASSERT_EQ(0, open_limited(&self->x, &policy, &xrcd));
	for (i = 0; i <= LIMIT; i++) {
		ret = xrc_tgt_create(&self->x, xrcd, &qp);
		if (ret)
			break;
		ASSERT_EQ(0, xrc_tgt_close(&self->x, &qp));
	}
	EXPECT_EQ(-EDQUOT, ret);
	EXPECT_EQ(LIMIT, i);
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(LIMIT, info.tgt_qps);
	EXPECT_OTHERS_GO_ON();
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	/* But for the PD of the other one. */
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects + 1));
}

TEST_F_TIMEOUT(exhaust, srqs_of_a_domain, TIMEOUT)
{
	const struct ib_xrc_policy policy = { .max_srqs = LIMIT };
	struct xrc_srq srq[LIMIT + 1];
	struct xrc_cq cq;
	__u32 xrcd;
	int i, ret;

	ASSERT_EQ(0, open_limited(&self->x, &policy, &xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	for (i = 0; i <= LIMIT; i++) {
		ret = xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &srq[i]);
		if (ret)
			break;
	}
	EXPECT_EQ(-EDQUOT, ret);
	EXPECT_EQ(LIMIT, i);
	EXPECT_OTHERS_GO_ON();
	/* What is mapped keeps the file. */
	while (i--)
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq[i]));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

/* TGT QPs, SRQs and MRs have their bytes from one purse. */
TEST_F_TIMEOUT(exhaust, bytes_of_a_domain, TIMEOUT)
{
	struct ib_xrc_policy policy = {};
	struct ib_xrc_xrcd_info info;
	struct ib_xrc_limits limits;
	struct xrc_srq srq, more;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc_mr mr;
	__u32 xrcd;
	void *mem;

	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	mem = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	policy.max_bytes = limits.tgt_qp_bytes + limits.srq_bytes + 4096;
	ASSERT_EQ(0, open_limited(&self->x, &policy, &xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &srq));
	EXPECT_EQ(-EDQUOT, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(-EDQUOT, xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &more));
	EXPECT_EQ(-EDQUOT, xrc_mr_reg(&self->x, xrcd, mem, 4097,
				      IBV_ACCESS_LOCAL_WRITE, &mr));
	EXPECT_EQ(0, xrc_mr_reg(&self->x, xrcd, mem, 4096,
				IBV_ACCESS_LOCAL_WRITE, &mr));
	EXPECT_EQ(-EDQUOT, xrc_mr_reg(&self->x, xrcd, mem, 1,
				      IBV_ACCESS_LOCAL_WRITE, &mr));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(policy.max_bytes, info.bytes);
	EXPECT_OTHERS_GO_ON();
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
	munmap(mem, 8192);
}

/* -------------------------------------------------------- limits of the system -- */

/* Domains, of which each has a PD, up to what the rdma cgroup allows. */
static int task_domains(void *arg)
{
	struct xrc x;
	__u32 xrcd;
	int ret, i;

	ret = cgroup_enter(arg);
	if (!ret)
		ret = xrc_open(&x);
	if (ret)
		return UNEXPECTED(1, ret);
	for (i = 0; !ret && i <= 1000; i++)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	/* The last one was refused. */
	return ret == -EAGAIN && i == 1001 ? 0 : UNEXPECTED(2, ret);
}

static int task_tgt_qps(void *arg)
{
	const struct ib_xrc_policy policy = { .type = IB_XRC_POLICY_DOMAIN };
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;
	int ret, i;

	ret = cgroup_enter(arg);
	if (!ret)
		ret = xrc_open(&x);
	if (!ret)
		ret = open_limited(&x, &policy, &xrcd);
	if (ret)
		return UNEXPECTED(1, ret);
	/* Two objects each, beside the PD. */
	for (i = 0; i <= 1000; i++) {
		ret = xrc_tgt_create(&x, xrcd, &qp);
		if (ret)
			break;
		ret = xrc_tgt_close(&x, &qp);
		if (ret)
			return UNEXPECTED(2, ret);
	}
	return ret == -EAGAIN && i == 499 ? 0 : UNEXPECTED(3, i);
}

static void bounded_by_cgroup(struct __test_metadata *_metadata,
			      exhaust_t *self, int (*task)(void *arg))
{
	struct cgroup cg;
	char max[64];
	int ret;

	ret = cgroup_make(&cg, "rdma");
	if (ret == -ENOENT)
		SKIP(return, "there is no rdma controller");
	ASSERT_EQ(0, ret);
	snprintf(max, sizeof(max), "%s hca_object=1000", xrc_device());
	EXPECT_EQ(0, cgroup_write(&cg, "rdma.max", max));
	EXPECT_EQ(0, task_run(task, &cg));
	EXPECT_OTHERS_GO_ON();
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects + 1));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_F_TIMEOUT(exhaust, domains, TIMEOUT)
{
	bounded_by_cgroup(_metadata, self, task_domains);
}

/* Those that a domain keeps, which has no limits, and nobody has a handle of. */
TEST_F_TIMEOUT(exhaust, tgt_qps_without_handles, TIMEOUT)
{
	bounded_by_cgroup(_metadata, self, task_tgt_qps);
}

/* Pages pinned, by a process that may not have as many as it likes. */
static int task_mrs(void *arg)
{
	const struct rlimit locked = { 256 * 1024, 256 * 1024 };
	struct xrc_mr mr[128];
	struct xrc x;
	__u32 xrcd;
	void *mem;
	int ret, i;

	mem = mmap(NULL, 1024 * 1024, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ret = setrlimit(RLIMIT_MEMLOCK, &locked) ? -errno :
						   task_drop_privileges(NOBODY);
	if (!ret)
		ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (ret)
		return UNEXPECTED(1, ret);
	/* The same page again and again counts each time. */
	for (i = 0; i < 128; i++) {
		ret = xrc_mr_reg(&x, xrcd, mem, 4096, IBV_ACCESS_LOCAL_WRITE,
				 &mr[i]);
		if (ret)
			break;
	}
	if (ret != -ENOMEM || i != 64)
		return UNEXPECTED(2, i);
	for (i = 0; i < 64 && ret; i++)
		if (xrc_mr_dereg(&x, &mr[i]))
			return UNEXPECTED(3, i);
	/* A whole one, and not a page more. */
	ret = xrc_mr_reg(&x, xrcd, mem, 256 * 1024 + 1, IBV_ACCESS_LOCAL_WRITE,
			 &mr[0]);
	if (ret != -ENOMEM)
		return UNEXPECTED(4, ret);
	ret = xrc_mr_reg(&x, xrcd, mem, 256 * 1024, IBV_ACCESS_LOCAL_WRITE, &mr[0]);
	return ret ? UNEXPECTED(5, ret) : 0;
}

TEST_F_TIMEOUT(exhaust, mrs, TIMEOUT)
{
	EXPECT_EQ(0, task_run(task_mrs, NULL));
	EXPECT_OTHERS_GO_ON();
}

/* One that is larger than there may be. */
TEST_F_TIMEOUT(exhaust, too_large, TIMEOUT)
{
	struct ib_xrc_limits limits;
	struct xrc_srq srq, large_srq;
	struct xrc_cq cq, large_cq;
	struct xrc_mr mr;
	__u32 xrcd;
	int fd;

	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, limits.max_cqe, 0, XRC_NO_FD, &cq));
	EXPECT_EQ(0, xrc_srq_create(&self->x, xrcd, &cq, limits.max_srq_wr,
				    limits.max_srq_sge, 0, &srq));
	EXPECT_EQ(-EINVAL, xrc_srq_create(&self->x, xrcd, &cq,
					  limits.max_srq_wr + 1, 1, 0,
					  &large_srq));
	EXPECT_EQ(-EINVAL, xrc_srq_create(&self->x, xrcd, &cq, 1,
					  limits.max_srq_sge + 1, 0,
					  &large_srq));
	EXPECT_EQ(-EINVAL, xrc_srq_create(&self->x, xrcd, &cq, ~0U, ~0U, 0,
					  &large_srq));
	EXPECT_EQ(-EINVAL, xrc_cq_create(&self->x, limits.max_cqe + 1, 0,
					 XRC_NO_FD, &large_cq));
	EXPECT_EQ(-EINVAL, xrc_cq_create(&self->x, ~0U, 0, XRC_NO_FD, &large_cq));
	EXPECT_EQ(-EINVAL, xrc_event_file_create(&self->x,
						 IB_XRC_EVENT_FILE_MAX_DEPTH + 1,
						 &fd));
	/* More than there are addresses. */
	EXPECT_GT(0, xrc_mr_reg(&self->x, xrcd, NULL, 1ULL << 62,
				IBV_ACCESS_LOCAL_WRITE, &mr));
	EXPECT_OTHERS_GO_ON();
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

TEST_F_TIMEOUT(exhaust, descriptors, TIMEOUT)
{
	const struct rlimit files = { 500, 65536 };
	int fds[500], n, ret, i;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	for (n = 0; n < 500; n++) {
		ret = n % 2 ? xrc_channel_create(&self->x, &fds[n]) :
			      xrc_event_file_create(&self->x, 16, &fds[n]);
		if (ret)
			break;
	}
	EXPECT_EQ(-EMFILE, ret);
	EXPECT_LT(400, n);
	close(fds[--n]);
	EXPECT_OTHERS_GO_ON();
	EXPECT_EQ(0, xrc_channel_create(&self->x, &fds[n]));
	for (i = 0; i <= n; i++)
		close(fds[i]);
}

/* ---------------------------------------------------------- events and messages -- */

#define EVENTS 100

TEST_F_TIMEOUT(exhaust, events, TIMEOUT)
{
	struct ib_xrc_event event[8];
	struct xrc_report report;
	const struct xrc_xrcd_opts opts = { .report = &report };
	struct xrc_qp qp;
	__u32 xrcd;
	int i;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, 4, &report.fd));
	ASSERT_EQ(0, fcntl(report.fd, F_SETFL, O_NONBLOCK));
	report.user_handle = 1;
	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, XRC_NO_FD, 0, &opts, &xrcd));
	/* Two events each. */
	for (i = 0; i < EVENTS; i++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		ASSERT_EQ(0, xrc_tgt_close(&self->x, &qp));
	}
	ASSERT_EQ(5, xrc_event_read(report.fd, event, 8));
	for (i = 0; i < 4; i++)
		EXPECT_EQ(i % 2 ? IB_XRC_EVENT_TGT_QP_RECLAIMED :
				  IB_XRC_EVENT_TGT_QP_CREATED, event[i].type);
	EXPECT_EQ(IB_XRC_EVENT_OVERFLOW, event[4].type);
	EXPECT_EQ(2 * EVENTS - 4, event[4].value);
	EXPECT_EQ(-EAGAIN, xrc_event_read(report.fd, event, 8));
	close(report.fd);
}

/*
 * A receiver that posts no buffers: what waits for it is bounded, is in memory that was
 * charged when the SRQ was made, and the rest waits at the sender's.
 */
TEST_F_TIMEOUT(exhaust, waiting_messages, TIMEOUT)
{
	struct ib_xrc_srq_info info;
	struct ib_xrc_limits limits;
	struct ib_xrc_cqe cqe;
	__u32 xrcd, bound, n, i, count;
	struct inbox in;
	struct xrc_cq cq;
	struct peer p;

	ASSERT_EQ(0, xrc_limits(&self->x, &limits));
	bound = limits.srq_bytes / (limits.tgt_qp_bytes / limits.tgt_qp_recv_wr) +
		limits.tgt_qp_recv_wr;
	n = 2 * bound;
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 2 * n, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, inbox_open(&self->x, xrcd, &cq, n, 64, XRC_NO_FD, &in));
	ASSERT_EQ(0, peer_open(&self->x, xrcd, n, 64, &p));
	for (i = 0; i < n; i++)
		ASSERT_EQ(0, peer_send(&p, &in, 0, 64, 7));
	ASSERT_EQ(0, inbox_wait_waiting(&in, xrcd, bound));
	/* It stays so. */
	EXPECT_TRUE(inbox_idle(&in));
	EXPECT_EQ(0, xrc_list_srqs(&self->x, xrcd, 0, &info, 1, &count));
	EXPECT_EQ(bound, info.waiting_msgs);
	EXPECT_OTHERS_GO_ON();
	/* Nothing is lost. */
	ASSERT_EQ(0, inbox_post(&in, n));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_TRUE(inbox_has(&in, &cqe, 64, 7));
	}
	EXPECT_EQ(0, inbox_close(&in));
	peer_close(&self->x, &p);
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

/* --------------------------------------------------------------- a sudden end -- */

/* Polled by epoll, so that each has an entry there. */
static int take_files(struct xrc *x, int n)
{
	struct epoll_event want = { .events = EPOLLIN };
	int epoll = epoll_create1(EPOLL_CLOEXEC), ret = 0, fd;

	while (n-- && !ret) {
		ret = n % 2 ? xrc_channel_create(x, &fd) :
			      xrc_event_file_create(x, 1, &fd);
		if (!ret && epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &want))
			ret = -errno;
	}
	return ret;
}

static void take_all(struct xrc *x, int file, volatile int *taken)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc_mr mr;
	__u32 xrcd, more;
	int ret, i;

	ret = xrc_xrcd_open(x, file, O_CREAT, &xrcd);
	for (i = 0; i < 20000 && !ret; i++)
		ret = xrc_xrcd_open(x, file, 0, &more);
	for (i = 0; i < 200 && !ret; i++)
		ret = xrc_tgt_create(x, xrcd, &qp);
	for (i = 0; i < 5000 && !ret; i++)
		ret = xrc_tgt_open(x, xrcd, qp.qp_num, &qp);
	for (i = 0; i < 1000 && !ret; i++)
		ret = xrc_mr_reg(x, xrcd, &mr, 1, IBV_ACCESS_LOCAL_WRITE, &mr);
	for (i = 0; i < 10 && !ret; i++)
		ret = xrc_cq_create(x, 65536, 0, XRC_NO_FD, &cq);
	for (i = 0; i < 10 && !ret; i++)
		ret = xrc_srq_create(x, xrcd, &cq, 4096, 16, 0, &srq);
	if (!ret)
		ret = take_files(x, MAX_FILES);
	*taken = ret ? ret : 1;
	pause();
}

TEST_F_TIMEOUT(exhaust, killed, TIMEOUT)
{
	volatile int *taken;
	long long start;
	int status;
	pid_t pid;

	taken = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)taken);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(self->x.fd);
		close(self->other.fd);
		if (!xrc_open(&self->x))
			take_all(&self->x, self->file, taken);
		_exit(1);
	}
	while (!*taken && !waitpid(pid, &status, WNOHANG))
		usleep(10000);
	ASSERT_EQ(1, *taken);
	EXPECT_OTHERS_GO_ON();
	start = xrc_now();
	ASSERT_EQ(0, kill(pid, SIGKILL));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(SIGKILL, status);
	TH_LOG("was gone after %lld ms", xrc_now() - start);
	EXPECT_GT(QUICK_MS, xrc_now() - start);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects + 1));
	munmap((void *)taken, 4096);
}

/* And in the middle of taking. */
TEST_F_TIMEOUT(exhaust, killed_halfway, TIMEOUT)
{
	volatile int taken = 0;
	long long start;
	int status, i;
	pid_t pid;

	for (i = 0; i < 8; i++) {
		pid = fork();
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(self->x.fd);
			close(self->other.fd);
			if (!xrc_open(&self->x))
				take_all(&self->x, self->file, &taken);
			_exit(1);
		}
		usleep((i * 150 + 20) * 1000);
		start = xrc_now();
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(SIGKILL, status);
		EXPECT_GT(QUICK_MS, xrc_now() - start);
		EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects + 1));
	}
	EXPECT_OTHERS_GO_ON();
}

/* ------------------------------------------------- who polls while a file goes -- */

struct poller {
	volatile bool stop;
	int epoll;
	pthread_t thread;
};

static void *poll_on(void *arg)
{
	struct poller *p = arg;
	struct epoll_event event;

	while (!p->stop)
		epoll_wait(p->epoll, &event, 1, 1);
	return NULL;
}

/*
 * A queue that is polled goes with its file, without anybody waiting for readers of
 * it: the last one to have the file may be epoll, or the one who closes epoll at the
 * same time.
 */
TEST_F_TIMEOUT(exhaust, closed_while_polled, TIMEOUT)
{
	struct epoll_event want = { .events = EPOLLIN | EPOLLET };
	struct poller p = {};
	int fds[16], i, j, status;
	pid_t pid;

	for (i = 0; i < 100; i++) {
		p.epoll = epoll_create1(EPOLL_CLOEXEC);
		ASSERT_LE(0, p.epoll);
		p.stop = false;
		ASSERT_EQ(0, pthread_create(&p.thread, NULL, poll_on, &p));
		for (j = 0; j < 16; j++) {
			ASSERT_EQ(0, j % 2 ? xrc_channel_create(&self->x, &fds[j]) :
				     xrc_event_file_create(&self->x, 4, &fds[j]));
			ASSERT_EQ(0, epoll_ctl(p.epoll, EPOLL_CTL_ADD, fds[j],
					       &want));
		}
		/* A child has them all, too, and lets go of epoll at about the same time. */
		pid = fork();
		if (!pid)
			_exit(0);
		ASSERT_LT(0, pid);
		for (j = 0; j < 8; j++)
			close(fds[j]);
		p.stop = true;
		ASSERT_EQ(0, pthread_join(p.thread, NULL));
		if (i % 2)
			close(p.epoll);
		for (j = 8; j < 16; j++)
			close(fds[j]);
		if (!(i % 2))
			close(p.epoll);
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		EXPECT_EQ(0, status);
	}
}

TEST_HARNESS_MAIN
