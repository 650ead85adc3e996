// SPDX-License-Identifier: GPL-2.0
/*
 * Who may do what: the open mode of a domain's file, job keys, files that are passed
 * on, privileges that are dropped and net namespaces that are left.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "task_util.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define SIZE 64

FIXTURE(isolation)
{
	int objects;
	char dir[40];
	char path[64];
	struct xrc x;
	struct xrc y;
	int file;		/* O_RDWR */
	int read_only;
};

FIXTURE_SETUP(isolation)
{
	self->objects = xrc_kernel_objects();
	strcpy(self->dir, "/tmp/isolation-XXXXXX");
	ASSERT_TRUE(mkdtemp(self->dir));
	ASSERT_EQ(0, chmod(self->dir, 0755));
	sprintf(self->path, "%s/a", self->dir);
	self->file = open(self->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT_LE(0, self->file);
	self->read_only = open(self->path, O_RDONLY | O_CLOEXEC);
	ASSERT_LE(0, self->read_only);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
}

FIXTURE_TEARDOWN(isolation)
{
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->file);
	close(self->read_only);
	unlink(self->path);
	EXPECT_EQ(0, rmdir(self->dir));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects))
		TH_LOG("%d kernel objects more than before",
		       xrc_kernel_objects() - self->objects);
}

typedef FIXTURE_DATA(isolation) isolation_t;

static const struct ib_xrc_policy needs_write = {
	.flags = IB_XRC_DOMAIN_USE_NEEDS_WRITE,
};

static int open_with(struct xrc *x, int file, const struct ib_xrc_policy *policy,
		     const __u64 *job_key, __u32 *xrcd)
{
	const struct xrc_xrcd_opts opts = {
		.policy = policy, .job_key = job_key,
	};

	return xrc_xrcd_open_with(x, file, O_CREAT, &opts, xrcd);
}

/* ---------------------------------------------------------- using and looking -- */

static int set_state(struct xrc *x, const struct xrc_qp *qp, int state)
{
	const struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = state,
	};

	return xrc_tgt_modify(x, qp, &attr);
}

/*
 * Try with a handle of the XRCD everything that changes a TGT QP of somebody else,
 * which is in the RESET state: all must return the same. 0, or UNEXPECTED().
 */
static int change(struct xrc *x, __u32 xrcd, __u32 qp_num, int want)
{
	const struct xrc_qp num = {
		.by_num = true, .handle = xrcd, .qp_num = qp_num,
	};
	const struct ib_uverbs_qp_attr init = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};
	struct xrc_qp qp;
	int ret, state;

	ret = xrc_tgt_open(x, xrcd, qp_num, &qp);
	if (!ret)
		xrc_tgt_close(x, &qp);
	if (ret != want)
		return UNEXPECTED(1, ret);
	ret = xrc_tgt_connect(x, &num, &init, NULL);
	if (ret != want)
		return UNEXPECTED(2, ret);
	state = xrc_tgt_state(x, &num);
	if (state != (want ? IBV_QPS_RESET : IBV_QPS_INIT))
		return UNEXPECTED(3, state);
	ret = xrc_tgt_disconnect(x, &num, 0, NULL);
	if (ret != want)
		return UNEXPECTED(4, ret);
	state = xrc_tgt_state(x, &num);
	if (state != (want ? IBV_QPS_RESET : IBV_QPS_ERR))
		return UNEXPECTED(5, state);
	ret = set_state(x, &num, IBV_QPS_ERR);
	if (ret != want)
		return UNEXPECTED(6, ret);
	ret = set_state(x, &num, IBV_QPS_RESET);
	if (ret != want)
		return UNEXPECTED(7, ret);
	state = xrc_tgt_state(x, &num);
	return state == IBV_QPS_RESET ? 0 : UNEXPECTED(8, state);
}

/* Try to add something to the domain; nothing of it stays. */
static int add(struct xrc *x, __u32 xrcd, int want)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	int ret;

	ret = xrc_tgt_create(x, xrcd, &qp);
	if (!ret)
		xrc_tgt_close(x, &qp);
	if (ret != want)
		return UNEXPECTED(11, ret);
	ret = xrc_cq_create(x, 4, 0, XRC_NO_FD, &cq);
	if (ret)
		return UNEXPECTED(12, ret);
	ret = xrc_srq_create(x, xrcd, &cq, 4, 1, 0, &srq);
	if (!ret)
		xrc_srq_destroy(x, &srq);
	xrc_cq_destroy(x, &cq);
	return ret == want ? 0 : UNEXPECTED(13, ret);
}

/* All that only looks works: the domain has the given TGT QP, with one holder. */
static int look(struct xrc *x, __u32 xrcd, __u32 qp_num)
{
	const struct xrc_qp num = {
		.by_num = true, .handle = xrcd, .qp_num = qp_num,
	};
	struct ib_xrc_tgt_qp_info list[4], info;
	struct ib_xrc_holder_info holder;
	struct ib_xrc_srq_info srqs[4];
	struct ib_uverbs_qp_attr attr;
	struct ib_xrc_policy policy;
	struct ib_xrc_xrcd_info xi;
	__u32 count;
	int ret;

	ret = xrc_xrcd_query(x, xrcd, &xi);
	if (ret || xi.tgt_qps != 1)
		return UNEXPECTED(21, ret);
	ret = xrc_xrcd_policy(x, xrcd, &policy);
	if (ret)
		return UNEXPECTED(22, ret);
	ret = xrc_list_tgt_qps(x, xrcd, list, 4, &count);
	if (ret || count != 1 || list[0].qp_num != qp_num || list[0].refs != 1)
		return UNEXPECTED(23, ret);
	ret = xrc_list_srqs(x, xrcd, 0, srqs, 4, &count);
	if (ret || count != xi.srqs)
		return UNEXPECTED(24, ret);
	ret = xrc_tgt_query(x, &num, &attr, &info);
	if (ret || info.qp_num != qp_num || info.state != list[0].state)
		return UNEXPECTED(25, ret);
	ret = xrc_list_holders(x, &num, 0, &holder, 1, &count);
	if (ret || count != 1 || holder.id != 1)
		return UNEXPECTED(26, ret);
	return 0;
}

/* Everything, with a handle that may do everything or may only look. */
static int use(struct xrc *x, __u32 xrcd, __u32 qp_num, int want)
{
	int ret = look(x, xrcd, qp_num);

	if (!ret)
		ret = add(x, xrcd, want);
	if (!ret)
		ret = change(x, xrcd, qp_num, want);
	return ret ? ret : look(x, xrcd, qp_num);
}

/* ------------------------------------------------------------------ open mode -- */

static const struct {
	const char *name;
	int flags;
	/* What opening a domain by such a descriptor returns. */
	int make;
	int make_with_policy;
	int open;
	/* What using one that needs write returns. */
	int use;
} modes[] = {
	{ "O_RDONLY", O_RDONLY, 0, -EACCES, 0, -EACCES },
	{ "O_WRONLY", O_WRONLY, -EACCES, -EACCES, -EACCES, 0 },
	{ "O_RDWR", O_RDWR, 0, 0, 0, 0 },
	{ "O_RDONLY | O_APPEND", O_RDONLY | O_APPEND, 0, -EACCES, 0, -EACCES },
	{ "O_PATH", O_PATH, -EBADF, -EBADF, -EBADF, 0 },
	/* The mode counts that was given, not that which could have been. */
	{ "O_PATH | O_RDWR", O_PATH | O_RDWR, -EBADF, -EBADF, -EBADF, 0 },
};

TEST_F_TIMEOUT(isolation, make, TIMEOUT)
{
	static const struct ib_xrc_policy zero, domain = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	const struct {
		const struct ib_xrc_policy *policy;
		bool anew;
	} how[] = {
		{ NULL }, { &zero, true }, { &domain, true }, { &needs_write, true },
	};
	unsigned int i, j;
	int fd, ret, want;
	__u32 xrcd, other;

	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		fd = open(self->path, modes[i].flags);
		ASSERT_LE(0, fd);
		for (j = 0; j < ARRAY_SIZE(how); j++) {
			want = how[j].anew ? modes[i].make_with_policy :
					     modes[i].make;
			ret = open_with(&self->x, fd, how[j].policy, NULL, &xrcd);
			EXPECT_EQ(want, ret)
				TH_LOG("%s, policy %u", modes[i].name, j);
			/* There is a domain if and only if it was made. */
			EXPECT_EQ(ret ? -EAGAIN : 0,
				  xrc_xrcd_open(&self->y, self->file, 0, &other));
			if (ret)
				continue;
			EXPECT_EQ(0, xrc_xrcd_close(&self->y, other));
			EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
		}
		close(fd);
	}
}

TEST_F_TIMEOUT(isolation, open, TIMEOUT)
{
	static const struct ib_xrc_policy zero;
	const struct ib_xrc_policy *const policies[] = { &needs_write, &zero };
	struct ib_xrc_xrcd_info info;
	struct xrc_qp qp;
	unsigned int i, j;
	__u32 xrcd, other;
	int fd;

	for (j = 0; j < ARRAY_SIZE(policies); j++) {
		ASSERT_EQ(0, open_with(&self->x, self->file, policies[j], NULL,
				       &xrcd));
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		for (i = 0; i < ARRAY_SIZE(modes); i++) {
			fd = open(self->path, modes[i].flags);
			ASSERT_LE(0, fd);
			EXPECT_EQ(modes[i].open, xrc_xrcd_open(&self->y, fd,
							       O_CREAT, &other))
				TH_LOG("%s", modes[i].name);
			/* Who names the policy that there is makes nothing. */
			EXPECT_EQ(modes[i].open, open_with(&self->y, fd,
							   policies[j], NULL,
							   &other))
				TH_LOG("%s", modes[i].name);
			/* The descriptor is not needed any more. */
			close(fd);
			if (modes[i].open)
				continue;
			EXPECT_EQ(0, use(&self->y, other, qp.qp_num,
					 j ? 0 : modes[i].use))
				TH_LOG("%s, policy %u", modes[i].name, j);
		}
		/* Nothing has come of what was refused. */
		EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
		EXPECT_EQ(1, info.tgt_qps);
		EXPECT_EQ(0, info.srqs);
		EXPECT_EQ(1, xrc_tgt_refs(&self->x, xrcd, qp.qp_num));
		xrc_close(&self->y);
		ASSERT_EQ(0, xrc_open(&self->y));
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
		EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	}
}

/* Each handle has its own rights, also beside others in one file. */
TEST_F_TIMEOUT(isolation, handles_of_one_file, TIMEOUT)
{
	struct xrc_qp qp, again;
	__u32 rw, ro;

	EXPECT_EQ(0, open_with(&self->x, self->file, &needs_write, NULL, &rw));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->read_only, 0, &ro));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, rw, &qp));
	EXPECT_EQ(0, use(&self->x, rw, qp.qp_num, 0));
	EXPECT_EQ(0, use(&self->x, ro, qp.qp_num, -EACCES));
	/* A registration that was made with the one is not of the other. */
	EXPECT_EQ(0, xrc_tgt_open(&self->x, rw, qp.qp_num, &again));
	EXPECT_EQ(0, set_state(&self->x, &again, IBV_QPS_RESET));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, ro));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, rw));
}

/* Whoever makes a domain, by reading only, may use it: nobody asked for more. */
TEST_F_TIMEOUT(isolation, made_by_reader, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->read_only, O_CREAT, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, use(&self->x, xrcd, qp.qp_num, 0));
}

/* There is no file that could have been opened for writing. */
TEST_F_TIMEOUT(isolation, anonymous, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd;

	EXPECT_EQ(0, open_with(&self->x, XRC_NO_FD, &needs_write, NULL, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(0, use(&self->x, xrcd, qp.qp_num, 0));
}

/* ------------------------------------------------------------------- job keys -- */

/* The greatest difference between keys, and the smallest. */
static const __u64 key_zero;
static const __u64 key_a = 0x0123456789abcdef;
static const __u64 key_b = 0x8123456789abcdef;
static const __u64 key_c = 0x0123456789abcdee;

static const __u64 *const keys[] = { NULL, &key_zero, &key_a, &key_b, &key_c };

#define KEYS ARRAY_SIZE(keys)

/* A message from a TGT QP of one key to an SRQ of another. */
TEST_F_TIMEOUT(isolation, job_key_messages, TIMEOUT)
{
	struct ib_uverbs_qp_attr attr;
	struct ib_xrc_tgt_qp_info info;
	struct xrc_srq srq[KEYS];
	struct xrc_send send = { .length = SIZE };
	__u32 xrcd[KEYS], y_xrcd[KEYS];
	struct ib_xrc_cqe cqe;
	struct xrc_ini ini;
	struct xrc_cq cq;
	struct xrc_qp qp;
	__u8 buf[SIZE];
	unsigned int i, j;
	int channel;

	ASSERT_EQ(0, xrc_ini_open(&ini, 8, SIZE));
	ASSERT_EQ(0, xrc_channel_create(&self->y, &channel));
	ASSERT_EQ(0, xrc_cq_create(&self->y, 64, 0, channel, &cq));
	for (i = 0; i < KEYS; i++) {
		ASSERT_EQ(0, open_with(&self->x, self->file, NULL, keys[i],
				       &xrcd[i]));
		ASSERT_EQ(0, open_with(&self->y, self->file, NULL, keys[i],
				       &y_xrcd[i]));
		ASSERT_EQ(0, xrc_srq_create(&self->y, y_xrcd[i], &cq, 8, 1, i,
					    &srq[i]));
		ASSERT_EQ(0, xrc_srq_post(&self->y, &srq[i], i, buf, SIZE));
	}
	for (i = 0; i < KEYS; i++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd[i], &qp));
		for (j = 0; j < KEYS; j++) {
			ASSERT_EQ(0, set_state(&self->x, &qp, IBV_QPS_RESET));
			ASSERT_EQ(0, xrc_ini_reset(&ini));
			xrc_ini_tgt_attr(&ini, &attr);
			ASSERT_EQ(0, xrc_tgt_connect(&self->x, &qp, &attr, NULL));
			ASSERT_EQ(0, xrc_ini_connect(&ini, qp.qp_num));
			send.srq_num = srq[j].srq_num;
			xrc_fill(ini.buf, SIZE, 10 * i + j);
			ASSERT_EQ(0, xrc_ini_send(&ini, &send));
			if (i == j) {
				ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe,
							 XRC_TIMEOUT_MS))
					TH_LOG("key %u", i);
				EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
				EXPECT_EQ(srq[j].srq_num, cqe.srq_num);
				EXPECT_EQ(qp.qp_num, cqe.qp_num);
				EXPECT_TRUE(xrc_check(buf, SIZE, 10 * i + j));
				ASSERT_EQ(0, xrc_srq_post(&self->y, &srq[j], j,
							  buf, SIZE));
				continue;
			}
			/* As with a number that no SRQ has. */
			EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &qp,
							IBV_QPS_ERR))
				TH_LOG("QP with key %u, SRQ with key %u", i, j);
			EXPECT_EQ(0, xrc_tgt_query(&self->x, &qp, NULL, &info));
			EXPECT_EQ(j < i ? j + 1 : j, info.refused_msgs);
			EXPECT_EQ(0, xrc_cq_poll(&cq, &cqe));
		}
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &qp, NULL, &info));
		EXPECT_EQ(1, info.recv_msgs);
		EXPECT_EQ(SIZE, info.recv_bytes);
		EXPECT_EQ(KEYS - 1, info.refused_msgs);
		ASSERT_EQ(0, xrc_tgt_close(&self->x, &qp));
	}
	for (i = 0; i < KEYS; i++) {
		EXPECT_EQ(1, srq[i].ring->consumer);
		EXPECT_EQ(0, srq[i].ring->flags);
		EXPECT_EQ(0, xrc_srq_destroy(&self->y, &srq[i]));
	}
	EXPECT_EQ(0, xrc_cq_destroy(&self->y, &cq));
	close(channel);
	xrc_ini_close(&ini);
}

/* A TGT QP of another key can be looked at, and no more. */
TEST_F_TIMEOUT(isolation, job_key_calls, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 xrcd, other;
	unsigned int i, j;

	for (i = 0; i < KEYS; i++) {
		ASSERT_EQ(0, open_with(&self->x, self->file, NULL, keys[i],
				       &xrcd));
		ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
		for (j = 0; j < KEYS; j++) {
			ASSERT_EQ(0, open_with(&self->y, self->file, NULL,
					       keys[j], &other));
			EXPECT_EQ(0, look(&self->y, other, qp.qp_num))
				TH_LOG("key %u", j);
			EXPECT_EQ(0, change(&self->y, other, qp.qp_num,
					    i == j ? 0 : -EACCES))
				TH_LOG("QP with key %u, caller with key %u", i, j);
			EXPECT_EQ(0, look(&self->y, other, qp.qp_num));
			/* What is his own he may make. */
			EXPECT_EQ(0, add(&self->y, other, 0));
			ASSERT_EQ(0, xrc_xrcd_close(&self->y, other));
		}
		EXPECT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &qp));
		ASSERT_EQ(0, xrc_tgt_close(&self->x, &qp));
		ASSERT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	}
}

/* Keys are of handles: those of one file do not get mixed up. */
TEST_F_TIMEOUT(isolation, job_keys_of_one_file, TIMEOUT)
{
	struct xrc_qp qp_a, qp_none, again;
	__u32 a, none;

	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, &key_a, &a));
	EXPECT_EQ(0, open_with(&self->x, self->file, NULL, NULL, &none));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, a, &qp_a));
	EXPECT_EQ(0, change(&self->x, a, qp_a.qp_num, 0));
	EXPECT_EQ(0, change(&self->x, none, qp_a.qp_num, -EACCES));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, none, &qp_none));
	EXPECT_EQ(0, change(&self->x, none, qp_none.qp_num, 0));
	EXPECT_EQ(0, change(&self->x, a, qp_none.qp_num, -EACCES));
	/* A registration is enough to use what it is for. */
	EXPECT_EQ(0, xrc_tgt_open(&self->x, a, qp_a.qp_num, &again));
	EXPECT_EQ(0, set_state(&self->x, &again, IBV_QPS_RESET));
}

/* A key is not what opens a file: who may only look may do so with any. */
TEST_F_TIMEOUT(isolation, job_key_of_reader, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 rw, ro;

	EXPECT_EQ(0, open_with(&self->x, self->file, &needs_write, &key_a, &rw));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, rw, &qp));
	EXPECT_EQ(0, open_with(&self->y, self->read_only, NULL, &key_a, &ro));
	EXPECT_EQ(0, use(&self->y, ro, qp.qp_num, -EACCES));
}

/* ------------------------------------------------------------ other processes -- */

/* What another process is given. */
struct task {
	isolation_t *self;
	int sock;
	struct xrc x;
	__u32 xrcd;
	__u32 ro_xrcd;
	__u32 qp_num;
	int want;
};

/* Run it in a process of its own; what it returns, or -1 if it died. */
static int in_child(int (*run)(struct task *task), struct task *task)
{
	int *ret, status, result = -1;
	pid_t pid;

	ret = mmap(NULL, sizeof(*ret), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret == MAP_FAILED)
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		*ret = run(task);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && !status)
		result = *ret;
	munmap(ret, sizeof(*ret));
	return result;
}

/* A file of its own, on the domain of a given descriptor. */
static int own_handle(struct task *task, int fd, struct xrc *x, __u32 *xrcd)
{
	int ret;

	close(task->self->x.fd);
	close(task->self->y.fd);
	ret = xrc_open(x);
	return ret ? ret : xrc_xrcd_open(x, fd, 0, xrcd);
}

static int task_unregistered(struct task *task)
{
	struct xrc x;
	__u32 xrcd;
	int ret;

	ret = own_handle(task, task->self->file, &x, &xrcd);
	if (ret)
		return UNEXPECTED(31, ret);
	/* It adds nothing, which would stay in this domain. */
	ret = look(&x, xrcd, task->qp_num);
	if (!ret)
		ret = change(&x, xrcd, task->qp_num, 0);
	return ret ? ret : look(&x, xrcd, task->qp_num);
}

static int task_registered(struct task *task)
{
	struct xrc x;
	struct xrc_qp qp;
	__u32 xrcd;
	int ret;

	ret = own_handle(task, task->self->file, &x, &xrcd);
	if (!ret)
		ret = xrc_tgt_open(&x, xrcd, task->qp_num, &qp);
	if (!ret)
		ret = set_state(&x, &qp, IBV_QPS_RESET);
	if (ret)
		return UNEXPECTED(32, ret);
	return change(&x, xrcd, task->qp_num, 0);
}

static int task_elsewhere(struct task *task)
{
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp = { .by_num = true, .qp_num = task->qp_num };
	struct xrc x;
	int ret;

	ret = own_handle(task, task->self->file, &x, &qp.handle);
	if (!ret)
		ret = xrc_xrcd_close(&x, qp.handle);
	/* The number alone is worth nothing. */
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &qp.handle);
	if (ret)
		return UNEXPECTED(33, ret);
	ret = xrc_tgt_query(&x, &qp, NULL, &info);
	if (ret != -EINVAL)
		return UNEXPECTED(34, ret);
	ret = set_state(&x, &qp, IBV_QPS_ERR);
	if (ret != -EINVAL)
		return UNEXPECTED(35, ret);
	ret = xrc_tgt_disconnect(&x, &qp, 0, NULL);
	return ret == -EINVAL ? 0 : UNEXPECTED(36, ret);
}

/* Any process of the domain may, whether it is registered or not. */
TEST_F_TIMEOUT(isolation, by_number, TIMEOUT)
{
	static const struct ib_xrc_policy domain = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	static const struct ib_uverbs_qp_attr init = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};
	struct xrc_qp qp, num = { .by_num = true };
	struct task task = { .self = self };
	__u32 xrcd;

	ASSERT_EQ(0, open_with(&self->x, self->file, &domain, NULL, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	task.qp_num = qp.qp_num;
	EXPECT_EQ(0, in_child(task_unregistered, &task));
	EXPECT_EQ(0, in_child(task_registered, &task));
	EXPECT_EQ(0, in_child(task_elsewhere, &task));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num, 1));
	EXPECT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &qp));
	/* Also one that is nobody's. */
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, in_child(task_registered, &task));
	EXPECT_EQ(0, in_child(task_elsewhere, &task));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, xrcd, qp.qp_num, 0));
	num.handle = xrcd;
	num.qp_num = qp.qp_num;
	EXPECT_EQ(0, xrc_tgt_connect(&self->x, &num, &init, NULL));
	EXPECT_EQ(IBV_QPS_INIT, xrc_tgt_state(&self->x, &num));
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &num, 0, NULL));
	/* In the state ERR it is kept for nobody. */
	EXPECT_EQ(-EINVAL, xrc_tgt_state(&self->x, &num));
}

/* ------------------------------------------------------------------ passing on -- */

/* Nothing is left of what it inherited but a socket. */
static int start_poor(struct task *task)
{
	isolation_t *self = task->self;

	close(self->x.fd);
	close(self->y.fd);
	close(self->file);
	close(self->read_only);
	return task_drop_privileges(NOBODY);
}

/* It gets the file of the device with two handles of the domain. */
static int task_given_handles(struct task *task)
{
	struct xrc x = task->self->x;
	int ret = start_poor(task);

	if (ret)
		return UNEXPECTED(41, ret);
	/* By itself it would get nowhere. */
	if (open(task->self->path, O_RDONLY) >= 0 || errno != EACCES)
		return UNEXPECTED(42, errno);
	x.fd = task_recv_fd(task->sock);
	if (x.fd < 0)
		return UNEXPECTED(43, x.fd);
	ret = use(&x, task->ro_xrcd, task->qp_num, -EACCES);
	return ret ? ret : use(&x, task->xrcd, task->qp_num, 0);
}

/* A root that has more rights on the file than the handles it gets. */
static int task_rich_given_handles(struct task *task)
{
	struct xrc x = task->self->x;
	int ret;

	close(task->self->x.fd);
	x.fd = task_recv_fd(task->sock);
	if (x.fd < 0)
		return UNEXPECTED(44, x.fd);
	ret = use(&x, task->ro_xrcd, task->qp_num, -EACCES);
	return ret ? ret : use(&x, task->xrcd, task->qp_num, 0);
}

TEST_F_TIMEOUT(isolation, device_file_passed, TIMEOUT)
{
	struct task task = { .self = self };
	struct xrc_qp qp;
	int sock[2], i;

	ASSERT_EQ(0, open_with(&self->x, self->file, &needs_write, &key_a,
			       &task.xrcd));
	ASSERT_EQ(0, open_with(&self->x, self->read_only, NULL, &key_a,
			       &task.ro_xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, task.xrcd, &qp));
	task.qp_num = qp.qp_num;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	task.sock = sock[0];
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, task_send_fd(sock[1], self->x.fd));
		EXPECT_EQ(0, in_child(i ? task_rich_given_handles :
					  task_given_handles, &task));
	}
	/* The job key is the handles', too: a third party without it cannot. */
	ASSERT_EQ(0, open_with(&self->y, self->file, NULL, NULL, &task.xrcd));
	EXPECT_EQ(0, change(&self->y, task.xrcd, task.qp_num, -EACCES));
	close(sock[0]);
	close(sock[1]);
}

/* It gets the file of the domain: its mode says what it may. */
static int task_given_domain(struct task *task)
{
	int ret = start_poor(task), i, fd;
	struct xrc x;
	__u32 xrcd;

	if (!ret)
		ret = xrc_open(&x);
	if (ret)
		return UNEXPECTED(51, ret);
	for (i = 0; i < 2; i++) {
		fd = task_recv_fd(task->sock);
		if (fd < 0)
			return UNEXPECTED(52, fd);
		ret = xrc_xrcd_open(&x, fd, 0, &xrcd);
		close(fd);
		if (ret)
			return UNEXPECTED(53, ret);
		ret = use(&x, xrcd, task->qp_num, i ? 0 : -EACCES);
		if (ret)
			return ret;
	}
	return 0;
}

TEST_F_TIMEOUT(isolation, domain_file_passed, TIMEOUT)
{
	struct task task = { .self = self };
	struct xrc_qp qp;
	int sock[2];

	ASSERT_EQ(0, open_with(&self->x, self->file, &needs_write, NULL,
			       &task.xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, task.xrcd, &qp));
	task.qp_num = qp.qp_num;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	task.sock = sock[0];
	ASSERT_EQ(0, task_send_fd(sock[1], self->read_only));
	ASSERT_EQ(0, task_send_fd(sock[1], self->file));
	EXPECT_EQ(0, in_child(task_given_domain, &task));
	close(sock[0]);
	close(sock[1]);
}

/* ----------------------------------------------------------- what was had before -- */

static int task_drop(struct task *task)
{
	isolation_t *self = task->self;
	struct xrc x;
	__u32 rw, ro, more;
	int ret;

	ret = own_handle(task, self->file, &x, &rw);
	if (!ret)
		ret = xrc_xrcd_open(&x, self->read_only, 0, &ro);
	close(self->file);
	if (!ret)
		ret = task_drop_privileges(NOBODY);
	if (ret)
		return UNEXPECTED(61, ret);
	ret = open(self->path, O_RDONLY);
	if (ret >= 0 || errno != EACCES)
		return UNEXPECTED(62, errno);
	/* What was opened before is as good as it was. */
	ret = use(&x, rw, task->qp_num, 0);
	if (!ret)
		ret = use(&x, ro, task->qp_num, -EACCES);
	if (ret)
		return ret;
	/* What is opened now has the rights of the descriptor, still. */
	ret = xrc_xrcd_open(&x, self->read_only, 0, &more);
	if (ret)
		return UNEXPECTED(63, ret);
	return use(&x, more, task->qp_num, -EACCES);
}

TEST_F_TIMEOUT(isolation, privileges_dropped, TIMEOUT)
{
	struct task task = { .self = self };
	struct xrc_qp qp;

	ASSERT_EQ(0, open_with(&self->x, self->file, &needs_write, NULL,
			       &task.xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, task.xrcd, &qp));
	task.qp_num = qp.qp_num;
	EXPECT_EQ(0, in_child(task_drop, &task));
}

/* Neither mode nor name of the file matter once the handle is there. */
TEST_F_TIMEOUT(isolation, file_changed_afterwards, TIMEOUT)
{
	struct xrc_qp qp;
	__u32 rw, ro;

	EXPECT_EQ(0, open_with(&self->x, self->file, &needs_write, NULL, &rw));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->read_only, 0, &ro));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, rw, &qp));
	EXPECT_EQ(0, chmod(self->path, 0));
	EXPECT_EQ(0, unlink(self->path));
	EXPECT_EQ(0, use(&self->x, rw, qp.qp_num, 0));
	EXPECT_EQ(0, use(&self->y, ro, qp.qp_num, -EACCES));
	EXPECT_EQ(0, chmod(self->dir, 0700));
}

/* ------------------------------------------------------------ who makes a domain -- */

/* It has descriptors of the file from before, but not the rights of root. */
static int task_make(struct task *task)
{
	static const struct ib_xrc_policy zero;
	isolation_t *self = task->self;
	struct xrc x;
	__u32 xrcd;
	int ret;

	ret = task_drop_privileges(NOBODY);
	if (!ret)
		ret = xrc_open(&x);
	if (ret)
		return UNEXPECTED(101, ret);
	ret = xrc_xrcd_open(&x, self->read_only, O_CREAT, &xrcd);
	if (ret != task->want)
		return UNEXPECTED(102, ret);
	if (!ret && xrc_xrcd_close(&x, xrcd))
		return UNEXPECTED(103, ret);
	/* A policy takes more than to own the file. */
	ret = open_with(&x, self->read_only, &zero, NULL, &xrcd);
	if (ret != -EACCES)
		return UNEXPECTED(104, ret);
	/* Nothing has come of what was refused. */
	ret = xrc_xrcd_open(&x, self->file, 0, &xrcd);
	if (ret != -EAGAIN)
		return UNEXPECTED(105, ret);
	/* Who may write may make it, whosever it is. */
	ret = open_with(&x, self->file, &needs_write, NULL, &xrcd);
	if (ret)
		return UNEXPECTED(106, ret);
	/* Where there is one, it is opened by reading. */
	ret = xrc_xrcd_open(&x, self->read_only, O_CREAT, &xrcd);
	return ret ? UNEXPECTED(107, ret) : 0;
}

/*
 * Who may only read the file of somebody else does not make its domain, lest he be
 * there first and it lack the policy that its owner would have given.
 */
TEST_F_TIMEOUT(isolation, made_by_stranger, TIMEOUT)
{
	struct task task = { .self = self, .want = -EACCES };

	EXPECT_EQ(0, in_child(task_make, &task));
	ASSERT_EQ(0, fchown(self->file, NOBODY, NOBODY));
	task.want = 0;
	EXPECT_EQ(0, in_child(task_make, &task));
	/* The group is nobody in particular. */
	ASSERT_EQ(0, fchown(self->file, 0, NOBODY));
	task.want = -EACCES;
	EXPECT_EQ(0, in_child(task_make, &task));
}

/* -------------------------------------------------------------- net namespaces -- */

static int run(const char *cmd)
{
	int status = system(cmd);

	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A namespace goes some time after its last process, and until then it is EBUSY. */
static int set_netns_mode(const char *mode)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	char cmd[64];

	snprintf(cmd, sizeof(cmd), "rdma system set netns %s 2>/dev/null", mode);
	while (run(cmd)) {
		if (xrc_now() > end)
			return -EBUSY;
		usleep(50000);
	}
	return 0;
}

FIXTURE(netns)
{
	int objects;
	bool changed;
};

FIXTURE_SETUP(netns)
{
	self->objects = xrc_kernel_objects();
	if (run("rdma system | grep -q 'netns shared'"))
		SKIP(return, "the system is not in shared mode");
	ASSERT_EQ(0, set_netns_mode("exclusive"));
	self->changed = true;
}

FIXTURE_TEARDOWN(netns)
{
	if (self->changed) {
		EXPECT_EQ(0, set_netns_mode("shared"));
		EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
	}
}

static int count_devices(const struct xrc *x, __u32 *count)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, count, sizeof(*count));
	return xrc_ioctl(x->fd, &cmd);
}

/* All that a process had before it left, in use. */
struct belongings {
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_ini ini;
	struct xrc_cq cq;
	struct xrc_srq srq;
	__u8 buf[SIZE];
};

static int acquire(struct belongings *b)
{
	int ret = xrc_open(&b->x);

	if (!ret)
		ret = xrc_xrcd_open(&b->x, XRC_NO_FD, 0, &b->xrcd);
	if (!ret)
		ret = xrc_cq_create(&b->x, 4, 0, XRC_NO_FD, &b->cq);
	if (!ret)
		ret = xrc_srq_create(&b->x, b->xrcd, &b->cq, 4, 1, 0, &b->srq);
	if (!ret)
		ret = xrc_ini_open(&b->ini, 8, SIZE);
	return ret;
}

/* A new TGT QP is connected, and a message comes by it. */
static int enjoy(struct belongings *b)
{
	struct xrc_send send = { .srq_num = b->srq.srq_num, .length = SIZE };
	struct ib_xrc_cqe cqe;
	int ret;

	ret = xrc_tgt_create(&b->x, b->xrcd, &b->qp);
	if (!ret)
		ret = xrc_ini_reset(&b->ini);
	if (!ret)
		ret = xrc_ini_pair(&b->ini, &b->x, &b->qp);
	if (!ret)
		ret = xrc_srq_post(&b->x, &b->srq, 0, b->buf, SIZE);
	memset(b->buf, 0, SIZE);
	xrc_fill(b->ini.buf, SIZE, b->qp.qp_num);
	if (!ret)
		ret = xrc_ini_send(&b->ini, &send);
	if (!ret)
		ret = xrc_cq_wait(&b->cq, &cqe, XRC_TIMEOUT_MS);
	if (!ret && (cqe.status || !xrc_check(b->buf, SIZE, b->qp.qp_num)))
		ret = -EBADMSG;
	return ret ? ret : xrc_tgt_close(&b->x, &b->qp);
}

static int task_leave(struct task *task)
{
	static struct belongings b;
	struct xrc here;
	int home, ret, i;
	__u32 count;

	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
	ret = acquire(&b);
	if (!ret)
		ret = enjoy(&b);
	if (ret)
		return UNEXPECTED(71, ret);
	if (unshare(CLONE_NEWNET))
		return UNEXPECTED(72, errno);
	for (i = 0; i < 2; i++) {
		/* Out there the device is only known by what one has of it. */
		ret = xrc_open(&here);
		if (ret != (i ? 0 : -ENODEV))
			return UNEXPECTED(73 + 10 * i, ret);
		xrc_close(&here);
		ret = xrc_open_node(&here);
		if (!ret)
			ret = count_devices(&here, &count);
		if (ret || !count != !i)
			return UNEXPECTED(74 + 10 * i, ret);
		xrc_close(&here);
		ret = enjoy(&b);
		if (ret)
			return UNEXPECTED(75 + 10 * i, ret);
		if (!i && setns(home, CLONE_NEWNET))
			return UNEXPECTED(76, errno);
	}
	return 0;
}

/* What was bound before stays bound; what is bound now is of where one is now. */
TEST_F_TIMEOUT(netns, left_after_bind, TIMEOUT)
{
	struct task task = {};

	EXPECT_EQ(0, in_child(task_leave, &task));
}

/* A process of the other namespace is given a file that is bound. */
static int task_given_from_home(struct task *task)
{
	static struct belongings b;
	struct xrc here;
	int ret;

	if (unshare(CLONE_NEWNET))
		return UNEXPECTED(91, errno);
	ret = xrc_open(&here);
	if (ret != -ENODEV)
		return UNEXPECTED(92, ret);
	b.x = task->x;
	b.x.fd = task_recv_fd(task->sock);
	if (b.x.fd < 0)
		return UNEXPECTED(93, b.x.fd);
	ret = xrc_tgt_create(&b.x, task->xrcd, &b.qp);
	if (ret)
		return UNEXPECTED(94, ret);
	ret = xrc_tgt_close(&b.x, &b.qp);
	return ret ? UNEXPECTED(95, ret) : 0;
}

TEST_F_TIMEOUT(netns, passed_on, TIMEOUT)
{
	struct task task = {};
	struct xrc x;
	int sock[2];

	ASSERT_EQ(0, xrc_open(&x));
	ASSERT_EQ(0, xrc_xrcd_open(&x, XRC_NO_FD, 0, &task.xrcd));
	task.x = x;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	task.sock = sock[0];
	ASSERT_EQ(0, task_send_fd(sock[1], x.fd));
	xrc_close(&x);
	EXPECT_EQ(0, in_child(task_given_from_home, &task));
	close(sock[0]);
	close(sock[1]);
}

TEST_HARNESS_MAIN
