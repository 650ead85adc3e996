// SPDX-License-Identifier: GPL-2.0
/*
 * What processes with few rights can open, pin, use and see. What a file's mode, job
 * keys and descriptors that are passed on mean is in isolation.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "task_util.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define SIZE 64
#define GROUP 4242
#define LOCKED (64 * 1024)

FIXTURE(privilege)
{
	int objects;
	char dir[40];
	char path[64];
	int file;		/* O_RDWR, of root */
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	/* What the process in question is told. */
	gid_t gid;
	int want_open;		/* for reading: 0 or a negative errno */
	int want_use;
	int sock;
	int channel;
	int event_file;
	struct ib_xrc_ring_info srq_ring;
};

typedef FIXTURE_DATA(privilege) privilege_t;

static const struct ib_xrc_policy needs_write = {
	.flags = IB_XRC_DOMAIN_USE_NEEDS_WRITE,
};

FIXTURE_SETUP(privilege)
{
	const struct xrc_xrcd_opts opts = { .policy = &needs_write };

	self->objects = xrc_kernel_objects();
	strcpy(self->dir, "/tmp/privilege-XXXXXX");
	ASSERT_TRUE(mkdtemp(self->dir));
	ASSERT_EQ(0, chmod(self->dir, 0755));
	sprintf(self->path, "%s/a", self->dir);
	self->file = open(self->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, self->file, O_CREAT, &opts,
					&self->xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
}

FIXTURE_TEARDOWN(privilege)
{
	xrc_close(&self->x);
	close(self->file);
	unlink(self->path);
	EXPECT_EQ(0, rmdir(self->dir));
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

/* All that a program needs, from opening the device to a message received. */
static int work(void)
{
	static __u8 buf[SIZE];
	struct xrc_send send = { .length = SIZE };
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_ini ini;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc x;
	__u32 xrcd;
	int ret;

	ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (!ret)
		ret = xrc_cq_create(&x, 4, 0, XRC_NO_FD, &cq);
	if (!ret)
		ret = xrc_srq_create(&x, xrcd, &cq, 4, 1, 0, &srq);
	if (!ret)
		ret = xrc_tgt_create(&x, xrcd, &qp);
	if (!ret)
		ret = xrc_ini_open(&ini, 2, SIZE);
	if (!ret)
		ret = xrc_ini_pair(&ini, &x, &qp);
	if (!ret)
		ret = xrc_srq_post(&x, &srq, 0, buf, SIZE);
	if (ret)
		return ret;
	send.srq_num = srq.srq_num;
	xrc_fill(ini.buf, SIZE, 3);
	ret = xrc_ini_send(&ini, &send);
	if (!ret)
		ret = xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS);
	if (!ret && (cqe.status || !xrc_check(buf, SIZE, 3)))
		ret = -EBADMSG;
	xrc_ini_close(&ini);
	xrc_close(&x);
	return ret;
}

/* The domain of the file, for those who can open that: what may be done with it. */
static int visit(privilege_t *self)
{
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd, count;
	int ret, fd;

	ret = xrc_open(&x);
	if (ret)
		return UNEXPECTED(21, ret);
	fd = open(self->path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		fd = open(self->path, O_RDONLY | O_CLOEXEC);
	if ((fd < 0 ? -errno : 0) != self->want_open)
		return UNEXPECTED(22, errno);
	if (fd < 0)
		return 0;
	ret = xrc_xrcd_open(&x, fd, 0, &xrcd);
	if (ret)
		return UNEXPECTED(23, ret);
	/* Who can read it can look. */
	ret = xrc_list_tgt_qps(&x, xrcd, &info, 1, &count);
	if (ret || count != 1 || info.qp_num != self->qp.qp_num)
		return UNEXPECTED(24, ret);
	/* Who can write to it can use it. */
	ret = xrc_tgt_open(&x, xrcd, info.qp_num, &qp);
	if (ret != self->want_use)
		return UNEXPECTED(25, ret);
	ret = xrc_tgt_create(&x, xrcd, &qp);
	if (ret != self->want_use)
		return UNEXPECTED(26, ret);
	xrc_close(&x);
	return 0;
}

/* -------------------------------------------------------------------- users -- */

static int task_nobody(void *arg)
{
	privilege_t *self = arg;
	int ret;

	close(self->x.fd);
	ret = task_drop_privileges(NOBODY);
	if (!ret && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		ret = -errno;
	if (!ret)
		ret = work();
	return ret ? UNEXPECTED(1, ret) : visit(self);
}

TEST_F_TIMEOUT(privilege, nobody, TIMEOUT)
{
	self->want_open = -EACCES;
	EXPECT_EQ(0, task_run(task_nobody, self));
	/* The other's QP is as it was. */
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, self->xrcd, self->qp.qp_num));
}

static int task_of_group(void *arg)
{
	privilege_t *self = arg;
	int ret;

	close(self->x.fd);
	ret = task_drop_privileges(self->gid);
	return ret ? UNEXPECTED(2, ret) : visit(self);
}

TEST_F_TIMEOUT(privilege, group, TIMEOUT)
{
	const struct {
		mode_t mode;
		/* Of the file's group, and of another. */
		int open[2];
		int use[2];
	} modes[] = {
		{ 0600, { -EACCES, -EACCES }, {} },
		{ 0640, { 0, -EACCES }, { -EACCES } },
		{ 0660, { 0, -EACCES }, { 0 } },
		{ 0664, { 0, 0 }, { 0, -EACCES } },
		{ 0604, { -EACCES, 0 }, { 0, -EACCES } },
		{ 0666, { 0, 0 }, { 0, 0 } },
	};
	unsigned int i, j;

	ASSERT_EQ(0, fchown(self->file, 0, GROUP));
	for (i = 0; i < ARRAY_SIZE(modes); i++) {
		ASSERT_EQ(0, fchmod(self->file, modes[i].mode));
		for (j = 0; j < 2; j++) {
			self->gid = GROUP + j;
			self->want_open = modes[i].open[j];
			self->want_use = modes[i].use[j];
			EXPECT_EQ(0, task_run(task_of_group, self))
				TH_LOG("mode %o, group %u", modes[i].mode,
				       self->gid);
		}
	}
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, self->qp.qp_num, 1));
}

/* ----------------------------------------------------------------- name spaces -- */

static int map_root(uid_t uid, gid_t gid)
{
	char text[64];
	int fd, n, i;

	for (i = 0; i < 3; i++) {
		fd = open(i == 0 ? "/proc/self/setgroups" :
			  i == 1 ? "/proc/self/uid_map" : "/proc/self/gid_map",
			  O_WRONLY | O_CLOEXEC);
		if (fd < 0)
			return -errno;
		n = i == 0 ? snprintf(text, sizeof(text), "deny") :
			     snprintf(text, sizeof(text), "0 %u 1", i == 1 ? uid : gid);
		n = write(fd, text, n) == n ? 0 : -errno;
		close(fd);
		if (n)
			return n;
	}
	return 0;
}

/* Root there, with all capabilities, is nobody here. */
static int task_userns(void *arg)
{
	const struct rlimit locked = { LOCKED, LOCKED };
	static const struct ib_xrc_policy zero;
	const struct xrc_xrcd_opts opts = { .policy = &zero };
	privilege_t *self = arg;
	struct xrc_mr mr;
	struct xrc x;
	__u32 xrcd;
	void *mem;
	int ret, fd;

	close(self->x.fd);
	if (setrlimit(RLIMIT_MEMLOCK, &locked))
		return UNEXPECTED(31, errno);
	ret = task_drop_privileges(NOBODY);
	/* Else /proc/self belongs to root. */
	if (!ret && prctl(PR_SET_DUMPABLE, 1, 0, 0, 0))
		ret = -errno;
	if (ret)
		return UNEXPECTED(32, ret);
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
		return errno == EPERM || errno == ENOSPC ? -EOPNOTSUPP : UNEXPECTED(33, errno);
	ret = map_root(NOBODY, NOBODY);
	if (ret || getuid())
		return UNEXPECTED(34, ret);
	/* In shared mode a device is of all net namespaces. */
	ret = visit(self);
	if (ret)
		return ret;
	ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (ret)
		return UNEXPECTED(35, ret);
	/* CAP_IPC_LOCK of that name space locks nothing here. */
	mem = mmap(NULL, 2 * LOCKED, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ret = xrc_mr_reg(&x, xrcd, mem, LOCKED + 1, IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret != -ENOMEM)
		return UNEXPECTED(36, ret);
	ret = xrc_mr_reg(&x, xrcd, mem, LOCKED, IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret)
		return UNEXPECTED(37, ret);
	/* CAP_FOWNER of it makes no owner of what is another's. */
	fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	ret = xrc_xrcd_open(&x, fd, O_CREAT, &xrcd);
	if (ret != -EACCES)
		return UNEXPECTED(38, ret);
	ret = xrc_xrcd_open_with(&x, fd, O_CREAT, &opts, &xrcd);
	return ret == -EACCES ? 0 : UNEXPECTED(39, ret);
}

TEST_F_TIMEOUT(privilege, user_namespace, TIMEOUT)
{
	int ret;

	self->want_open = -EACCES;
	ret = task_run(task_userns, self);
	if (ret == -EOPNOTSUPP)
		SKIP(return, "no user namespaces for everybody");
	EXPECT_EQ(0, ret);
}

/* Processes are known by what they are called where one is, or not at all. */
static int task_pidns(void *arg)
{
	privilege_t *self = arg;
	const struct xrc_qp num = {
		.by_num = true, .handle = self->xrcd, .qp_num = self->qp.qp_num,
	};
	struct ib_xrc_holder_info holder[2];
	struct xrc_qp qp;
	__u32 count;
	int ret;

	ret = xrc_tgt_open(&self->x, self->xrcd, self->qp.qp_num, &qp);
	if (!ret)
		ret = xrc_list_holders(&self->x, &num, 0, holder, 2, &count);
	if (ret || count != 2)
		return UNEXPECTED(41, ret);
	/* Its parent's is not shown; it is the first there. */
	if (holder[0].pid || holder[1].pid != 1)
		return UNEXPECTED(42, holder[0].pid);
	return 0;
}

static int task_new_pidns(void *arg)
{
	if (unshare(CLONE_NEWPID))
		return UNEXPECTED(43, errno);
	return task_run(task_pidns, arg);
}

TEST_F_TIMEOUT(privilege, pid_namespace, TIMEOUT)
{
	EXPECT_EQ(0, task_run(task_new_pidns, self));
}

/* -------------------------------------------------------------------- seccomp -- */

static int filter(struct sock_filter *code, unsigned short len)
{
	struct sock_fprog prog = { .len = len, .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		return -errno;
	return 0;
}

#define LOAD(field) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define RETURN(what) BPF_STMT(BPF_RET | BPF_K, what)
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)

static int task_no_ioctl(void *arg)
{
	struct sock_filter code[] = {
		LOAD(nr),
		IF(SYS_ioctl, 0, 1),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	privilege_t *self = arg;
	struct xrc x;
	int ret;

	ret = filter(code, ARRAY_SIZE(code));
	if (ret)
		return UNEXPECTED(51, ret);
	/* A file can be had, and is good for nothing. */
	ret = xrc_open_node(&x);
	if (ret)
		return UNEXPECTED(52, ret);
	ret = xrc_bind(&x, xrc_device());
	if (ret != -EPERM)
		return UNEXPECTED(53, ret);
	ret = xrc_tgt_close(&self->x, &self->qp);
	if (ret != -EPERM)
		return UNEXPECTED(54, ret);
	xrc_close(&x);
	return 0;
}

/* Nothing of the module is reached by another call: one number of ioctl(2) will do. */
static int task_only_ours(void *arg)
{
	struct sock_filter code[] = {
		LOAD(nr),
		IF(SYS_ioctl, 0, 3),
		LOAD(args[1]),
		IF((__u32)RDMA_VERBS_IOCTL, 1, 0),
		RETURN(SECCOMP_RET_ERRNO | EPERM),
		RETURN(SECCOMP_RET_ALLOW),
	};
	privilege_t *self = arg;
	int ret;

	close(self->x.fd);
	ret = filter(code, ARRAY_SIZE(code));
	return ret ? UNEXPECTED(55, ret) : work();
}

TEST_F_TIMEOUT(privilege, seccomp, TIMEOUT)
{
	EXPECT_EQ(0, task_run(task_no_ioctl, self));
	EXPECT_EQ(1, xrc_tgt_refs(&self->x, self->xrcd, self->qp.qp_num));
	EXPECT_EQ(0, task_run(task_only_ours, self));
}

/* -------------------------------------------------------------------- pinning -- */

/* In kB, of this process. */
static long status_kb(const char *field)
{
	char line[128];
	long kb = -1;
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, field, strlen(field)))
			kb = atol(line + strlen(field) + 1);
	if (f)
		fclose(f);
	return kb;
}

static int task_memlock(void *arg)
{
	const struct rlimit locked = { LOCKED, LOCKED };
	privilege_t *self = arg;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_mr mr;
	struct xrc x;
	__u32 xrcd;
	void *mem;
	int ret;

	close(self->x.fd);
	mem = mmap(NULL, 2 * LOCKED, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (setrlimit(RLIMIT_MEMLOCK, &locked))
		return UNEXPECTED(61, errno);
	/* Who may lock as he likes does. */
	ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (!ret)
		ret = xrc_mr_reg(&x, xrcd, mem, 2 * LOCKED, IBV_ACCESS_LOCAL_WRITE,
				 &mr);
	if (ret || status_kb("VmPin:") != 2 * LOCKED / 1024)
		return UNEXPECTED(62, ret);
	ret = xrc_mr_dereg(&x, &mr);
	if (ret || status_kb("VmPin:"))
		return UNEXPECTED(63, ret);
	/* Who may not does not, by a file that he has from before either. */
	ret = task_drop_privileges(NOBODY);
	if (ret)
		return UNEXPECTED(64, ret);
	ret = xrc_mr_reg(&x, xrcd, mem, 2 * LOCKED, IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret != -ENOMEM || status_kb("VmPin:"))
		return UNEXPECTED(65, ret);
	/* Rings are memory of the kernel, which its cgroup pays for. */
	ret = xrc_cq_create(&x, 65536, 0, XRC_NO_FD, &cq);
	if (!ret)
		ret = xrc_srq_create(&x, xrcd, &cq, 4096, 1, 0, &srq);
	if (ret || status_kb("VmPin:") || status_kb("VmLck:"))
		return UNEXPECTED(66, ret);
	ret = xrc_mr_reg(&x, xrcd, mem, LOCKED, IBV_ACCESS_LOCAL_WRITE, &mr);
	if (ret || status_kb("VmPin:") != LOCKED / 1024)
		return UNEXPECTED(67, ret);
	return 0;
}

TEST_F_TIMEOUT(privilege, memlock, TIMEOUT)
{
	EXPECT_EQ(0, task_run(task_memlock, self));
}

/* -------------------------------------------------- descriptors that are passed -- */

static int task_given(void *arg)
{
	privilege_t *self = arg;
	int channel, event_file, fd, ret;
	struct ib_xrc_event event;
	struct xrc_report report;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc x;
	__u32 xrcd;
	__u64 handle;
	void *ring;

	close(self->x.fd);
	close(self->channel);
	close(self->event_file);
	ret = task_drop_privileges(NOBODY);
	fd = task_recv_fd(self->sock);
	channel = task_recv_fd(self->sock);
	event_file = task_recv_fd(self->sock);
	if (!ret)
		ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, XRC_NO_FD, 0, &xrcd);
	if (ret || fd < 0 || channel < 0 || event_file < 0)
		return UNEXPECTED(71, ret);
	/* What is another context's takes no events of this one. */
	report.fd = event_file;
	ret = xrc_cq_create(&x, 1, 0, channel, &cq);
	if (ret != -EBADF)
		return UNEXPECTED(72, ret);
	ret = xrc_tgt_create_report(&x, xrcd, &report, &qp);
	if (ret != -EBADF)
		return UNEXPECTED(73, ret);
	/* It can be read: that is what it was given for. */
	fcntl(channel, F_SETFL, O_NONBLOCK);
	fcntl(event_file, F_SETFL, O_NONBLOCK);
	ret = xrc_channel_read(channel, &handle);
	if (ret != -EAGAIN)
		return UNEXPECTED(74, ret);
	ret = xrc_event_read(event_file, &event, 1);
	if (ret != 1 || event.type != IB_XRC_EVENT_TGT_QP_CREATED)
		return UNEXPECTED(75, ret);
	/* Who posts to an SRQ has memory written to of the process that made it. */
	ring = mmap(NULL, self->srq_ring.mmap_length, PROT_READ | PROT_WRITE,
		    MAP_SHARED, fd, self->srq_ring.mmap_offset);
	if (ring != MAP_FAILED || errno != EACCES)
		return UNEXPECTED(76, errno);
	ring = mmap(NULL, self->srq_ring.mmap_length, PROT_READ, MAP_SHARED, fd,
		    self->srq_ring.mmap_offset);
	return ring == MAP_FAILED && errno == EACCES ? 0 : UNEXPECTED(77, errno);
}

TEST_F_TIMEOUT(privilege, passed, TIMEOUT)
{
	struct xrc_report report;
	const struct xrc_xrcd_opts opts = { .report = &report };
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	__u32 xrcd;
	int sock[2];

	ASSERT_EQ(0, xrc_channel_create(&self->x, &self->channel));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, 4, &self->event_file));
	report.fd = self->event_file;
	report.user_handle = 0;
	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, XRC_NO_FD, 0, &opts, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, self->channel, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &srq));
	self->srq_ring = srq.info;
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	self->sock = sock[0];
	ASSERT_EQ(0, task_send_fd(sock[1], self->x.fd));
	ASSERT_EQ(0, task_send_fd(sock[1], self->channel));
	ASSERT_EQ(0, task_send_fd(sock[1], self->event_file));
	EXPECT_EQ(0, task_run(task_given, self));
	close(self->channel);
	close(self->event_file);
	close(sock[0]);
	close(sock[1]);
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

/* ------------------------------------------------------------------ the device -- */

/* Where the device is not, there is nothing to be seen of it, whoever one is. */
static int task_elsewhere(void *arg)
{
	struct ib_xrc_device_info info;
	union xrc_cmd cmd;
	struct xrc x;
	__u32 count, index = *(__u32 *)arg;
	int ret;

	if (unshare(CLONE_NEWNET))
		return UNEXPECTED(81, errno);
	ret = xrc_open(&x);
	if (ret != -ENODEV)
		return UNEXPECTED(82, ret);
	ret = xrc_open_node(&x);
	if (ret)
		return UNEXPECTED(83, ret);
	xrc_cmd_for(&x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_ABI_VERSION, IB_XRC_ABI_VERSION);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, index);
	xrc_out(&cmd, IB_XRC_ATTR_BIND_RESP_DEVICE, &info, sizeof(info));
	ret = xrc_ioctl(x.fd, &cmd);
	if (ret != -ENODEV)
		return UNEXPECTED(84, ret);
	xrc_cmd_for(&x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &count, sizeof(count));
	ret = xrc_ioctl(x.fd, &cmd);
	return ret || count ? UNEXPECTED(85, ret) : 0;
}

static int set_netns_mode(const char *mode)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	char cmd[80];

	snprintf(cmd, sizeof(cmd), "rdma system set netns %s 2>/dev/null", mode);
	/* A namespace goes some time after its last process, and until then it is EBUSY. */
	while (system(cmd)) {
		if (xrc_now() > end)
			return -EBUSY;
		usleep(50000);
	}
	return 0;
}

TEST_F_TIMEOUT(privilege, other_net_namespace, TIMEOUT)
{
	__u32 index = self->x.dev.index;

	if (system("rdma system | grep -q 'netns shared'"))
		SKIP(return, "the system is not in shared mode");
	ASSERT_EQ(0, set_netns_mode("exclusive"));
	EXPECT_EQ(0, task_run(task_elsewhere, &index));
	EXPECT_EQ(0, set_netns_mode("shared"));
}

TEST_HARNESS_MAIN
