// SPDX-License-Identifier: GPL-2.0
/*
 * A process with everything open while its device goes.
 *
 * Says "ready" when messages flow, readers of a completion channel and of an event
 * file wait, and so do a disconnect and the registration of an MR. The device is then to be removed, which all of
 * them hear. It checks that every call says so, that everything can be closed, and says
 * "removed". When it reads a line the device must be back under the same name: old
 * files stay as they are, new ones work. Says "done".
 *
 * With "idle" as argument no messages flow; with "leave" it does not close anything
 * by itself. Exits with 0 if all was as it should be, else says what was not.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/userfaultfd.h>

#include "memory_util.h"
#include "xrc_util.h"

#define BUFFERS 64
#define SIZE 256

#define MR_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
		   IBV_ACCESS_REMOTE_READ)

/* Longer than anybody waits. */
#define LONG_MS 600000

static int failures;

#define CHECK(expected, value) check(__LINE__, #value, expected, value)

static void check(int line, const char *what, long expected, long value)
{
	if (expected == value)
		return;
	printf("# removal_helper.c:%d: %s is %ld, expected %ld\n", line, what,
	       value, expected);
	failures++;
}

/* Something that must work before the removal. */
static void need(const char *what, int ret)
{
	if (!ret)
		return;
	printf("# %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* All that a file may have. */
struct all {
	struct xrc x;
	int file;
	__u32 xrcd;
	__u32 anonymous;
	struct xrc_qp qp;
	struct xrc_qp by_num;
	int channel;
	struct xrc_cq cq;
	struct xrc_srq srq;
	int idle_channel;
	struct xrc_cq idle_cq;
	int events;		/* of all of the above; full when things go on */
	int idle_events;
	bool told;		/* of the removal, by events */
	struct xrc_qp held;	/* whose messages find no buffers */
	struct xrc_srq held_srq;
	struct xrc_mr mr;	/* of the domain; and of the anonymous one */
	struct xrc_mr anonymous_mr;
	__u8 buf[BUFFERS][SIZE];
	__u8 written[SIZE];	/* by RDMA, if messages flow */
};

static void open_all(struct all *a, int file)
{
	struct xrc_report report = { .user_handle = 4 };
	const struct xrc_xrcd_opts opts = { .report = &report };
	int i;

	a->file = file;
	need("open", xrc_open(&a->x));
	need("create event file", xrc_event_file_create(&a->x, 16, &a->events));
	need("create event file", xrc_event_file_create(&a->x, -1,
							&a->idle_events));
	report.fd = a->events;
	need("open XRCD", xrc_xrcd_open_with(&a->x, file, O_CREAT, &opts,
					     &a->xrcd));
	need("open anonymous XRCD", xrc_xrcd_open(&a->x, -1, 0, &a->anonymous));
	need("create TGT QP", xrc_tgt_create_report(&a->x, a->xrcd, &report,
						    &a->qp));
	a->by_num = (struct xrc_qp) {
		.by_num = true, .handle = a->xrcd, .qp_num = a->qp.qp_num,
	};
	need("create channel", xrc_channel_create(&a->x, &a->channel));
	need("create CQ", xrc_cq_create(&a->x, 4 * BUFFERS, 1, a->channel, &a->cq));
	need("create SRQ", xrc_srq_create_report(&a->x, a->xrcd, &a->cq, BUFFERS, 1,
						 2, a->events, &a->srq));
	need("create TGT QP", xrc_tgt_create(&a->x, a->xrcd, &a->held));
	need("create SRQ", xrc_srq_create(&a->x, a->xrcd, &a->cq, 1, 1, 5,
					  &a->held_srq));
	need("register MR", xrc_mr_reg(&a->x, a->xrcd, a->written, SIZE,
				       MR_ACCESS, &a->mr));
	need("register MR", xrc_mr_reg(&a->x, a->anonymous, a->buf,
				       sizeof(a->buf), MR_ACCESS,
				       &a->anonymous_mr));
	need("create channel", xrc_channel_create(&a->x, &a->idle_channel));
	need("create CQ", xrc_cq_create(&a->x, 1, 3, a->idle_channel, &a->idle_cq));
	for (i = 0; i < BUFFERS; i++)
		need("post", xrc_srq_post(&a->x, &a->srq, i, a->buf[i], SIZE));
}

static void use_new_file(void)
{
	struct xrc_send send = { .length = SIZE };
	struct all *a = calloc(1, sizeof(*a));
	struct ib_xrc_cqe cqe;
	struct xrc_ini ini;
	int i;

	open_all(a, memfd_create("new", MFD_CLOEXEC));
	need("open INI QP", xrc_ini_open(&ini, BUFFERS, SIZE));
	need("connect", xrc_ini_pair(&ini, &a->x, &a->qp));
	send.srq_num = a->srq.srq_num;
	xrc_fill(ini.buf, SIZE, 1);
	for (i = 0; i < 50; i++) {
		need("send", xrc_ini_send(&ini, &send));
		need("receive", xrc_cq_wait(&a->cq, &cqe, XRC_TIMEOUT_MS));
		CHECK(0, cqe.status);
		CHECK(1, xrc_check(a->buf[cqe.wr_id], SIZE, 1));
	}
	xrc_ini_close(&ini);
	xrc_close(&a->x);
	close(a->channel);
	close(a->idle_channel);
	close(a->events);
	close(a->idle_events);
	close(a->file);
}

/*
 * Sends to the SRQ, for ever, and writes to the MR between messages, or until n
 * messages have arrived, which it says. What becomes of it when the device goes is
 * uverbs'.
 */
static pid_t start_sender(struct all *a, const struct xrc_qp *qp, __u32 srq_num,
			  int n)
{
	struct xrc_send send = { .srq_num = srq_num, .length = SIZE };
	int go[2], up[2];
	struct ib_uverbs_qp_attr attr;
	struct xrc_ini ini;
	struct ibv_wc wc;
	int left, ret;
	pid_t pid;
	char c;

	if (pipe(go) || pipe(up))
		exit(1);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(go[1]);
		need("open INI QP", xrc_ini_open(&ini, BUFFERS, SIZE));
		xrc_fill(ini.buf, SIZE, 1);
		xrc_ini_tgt_attr(&ini, &attr);
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
		if (write(up[1], &attr, sizeof(attr)) != sizeof(attr) ||
		    read(go[0], &c, 1) != 1)
			_exit(1);
		need("connect", xrc_ini_connect(&ini, qp->qp_num));
		left = n ? n : BUFFERS / 2;
		for (;;) {
			for (; left; left--) {
				if (!n && ini.posted % 2)
					ret = xrc_ini_rdma_write(&ini,
						(uintptr_t)a->written,
						a->mr.rkey, 0, SIZE);
				else
					ret = xrc_ini_send(&ini, &send);
				if (ret)
					_exit(0);
			}
			if (xrc_ini_wait(&ini, &wc, XRC_TIMEOUT_MS) || wc.status)
				_exit(0);
			if (!n)
				left = 1;
			else if (!--n)
				break;
		}
		if (write(up[1], "", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(up[1]);
	if (pid < 0 || read(up[0], &attr, sizeof(attr)) != sizeof(attr))
		exit(1);
	need("connect TGT QP", xrc_tgt_connect(&a->x, qp, &attr, NULL));
	if (write(go[1], "", 1) != 1)
		exit(1);
	if (n && read(up[0], &c, 1) != 1)
		exit(1);
	close(up[0]);
	close(go[0]);
	close(go[1]);
	return pid;
}

static volatile bool flowing;

/* Takes messages until there will be no more. */
static void *receiver(void *arg)
{
	struct all *a = arg;
	struct ib_xrc_cqe cqe;
	int ret, n = 0;

	for (;;) {
		ret = xrc_cq_wait(&a->cq, &cqe, 3 * XRC_TIMEOUT_MS);
		if (ret)
			break;
		/* Flushed or whole, nothing between. */
		if (!cqe.status)
			CHECK(1, xrc_check(a->buf[cqe.wr_id], SIZE, 1));
		ret = xrc_srq_post(&a->x, &a->srq, cqe.wr_id, a->buf[cqe.wr_id],
				   SIZE);
		if (ret)
			break;
		if (++n == 100)
			flowing = true;
	}
	return (void *)(long)ret;
}

struct reader {
	int channel;
	volatile pid_t tid;
	__u64 handle;
};

static void *blocked_reader(void *arg)
{
	struct reader *r = arg;

	r->tid = gettid();
	return (void *)(long)xrc_channel_read(r->channel, &r->handle);
}

static void *blocked_event_reader(void *arg)
{
	struct reader *r = arg;
	struct ib_xrc_event event = {};

	r->tid = gettid();
	/* The port may be said to be down before. */
	do {
		if (read(r->channel, &event, sizeof(event)) != sizeof(event))
			return (void *)(long)-errno;
	} while (event.type == IB_XRC_EVENT_PORT_DOWN);
	return (void *)(long)event.type;
}

static volatile pid_t disconnector_tid;

/* Waits for messages that find no buffers, without being registered. */
static void *disconnector(void *arg)
{
	struct all *a = arg;
	struct xrc_qp qp = {
		.by_num = true, .handle = a->xrcd, .qp_num = a->held.qp_num,
	};

	disconnector_tid = gettid();
	return (void *)(long)xrc_tgt_disconnect(&a->x, &qp, LONG_MS, NULL);
}

static volatile bool polling;

static void *poller(void *arg)
{
	struct pollfd pfd = { .fd = *(int *)arg, .events = POLLIN };

	polling = true;
	if (poll(&pfd, 1, 3 * XRC_TIMEOUT_MS) != 1)
		return (void *)-1L;
	return (void *)(long)pfd.revents;
}

/* A process that registers memory, while its address space is locked. */
struct registrant {
	pid_t pid;
	int go[2];
	struct memory_fuse fuse;
};

static void *map_stuck(void *arg)
{
	const struct memory_fuse *fuse = arg;

	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE,
		    fuse->direct, 0);
}

static void start_registrant(struct registrant *r)
{
	static char mem[4096];
	long long end;

	need("FUSE", memory_fuse_open(&r->fuse));
	if (pipe(r->go))
		exit(1);
	r->pid = fork();
	if (!r->pid) {
		pthread_t thread;
		struct xrc_mr mr;
		struct xrc x;
		__u32 xrcd;
		char c;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* Only the parent answers. */
		close(r->fuse.dev);
		need("open", xrc_open(&x));
		need("open XRCD", xrc_xrcd_open(&x, -1, 0, &xrcd));
		if (read(r->go[0], &c, 1) != 1 ||
		    pwrite(r->fuse.fd, mem, sizeof(mem), 0) != sizeof(mem) ||
		    pthread_create(&thread, NULL, map_stuck, &r->fuse) ||
		    read(r->go[0], &c, 1) != 1)
			_exit(1);
		_exit(xrc_mr_reg(&x, xrcd, mem, sizeof(mem), MR_ACCESS, &mr) !=
		      -EIO);
	}
	memory_fuse_leave_files(&r->fuse);
	if (write(r->go[1], "", 1) != 1)
		exit(1);
	end = xrc_now() + XRC_TIMEOUT_MS;
	while (!r->fuse.waited_for) {
		need("wait for FUSE", xrc_now() > end ? -ETIME : 0);
		usleep(1000);
	}
	if (write(r->go[1], "", 1) != 1)
		exit(1);
	need("block in registration", xrc_wait_in_syscall(r->pid, SYS_ioctl));
}

/* Once the device is gone it hears so, as soon as it can be told. */
static void end_registrant(struct registrant *r)
{
	int status = -1;

	CHECK(0, waitpid(r->pid, NULL, WNOHANG));
	memory_fuse_close(&r->fuse);
	waitpid(r->pid, &status, 0);
	CHECK(0, status);
	close(r->go[0]);
	close(r->go[1]);
}

/* Calls while the device goes: each works or says that it is gone. */
static void *caller(void *arg)
{
	/* Pages that another process is to bring, and does not. */
	void *absent = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int uffd = memory_uffd(absent, 4096, UFFDIO_REGISTER_MODE_MISSING);
	struct all *a = arg;
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_mr mr;
	__u32 xrcd;
	int ret;

	CHECK(1, uffd >= 0);
	for (;;) {
		ret = xrc_tgt_create(&a->x, a->xrcd, &qp);
		if (!ret)
			CHECK(0, xrc_tgt_close(&a->x, &qp));
		if (!ret)
			ret = xrc_tgt_query(&a->x, &a->qp, NULL, &info);
		if (!ret)
			ret = xrc_xrcd_open(&a->x, -1, 0, &xrcd);
		if (!ret)
			CHECK(0, xrc_xrcd_close(&a->x, xrcd));
		if (!ret)
			ret = xrc_mr_reg(&a->x, a->xrcd, a->buf, sizeof(a->buf),
					 MR_ACCESS, &mr);
		if (!ret)
			CHECK(0, xrc_mr_dereg(&a->x, &mr));
		if (!ret) {
			ret = xrc_mr_reg(&a->x, a->xrcd, absent, 4096, MR_ACCESS,
					 &mr);
			CHECK(1, ret == -EOPNOTSUPP || ret == -EIO);
			if (ret == -EOPNOTSUPP)
				ret = 0;
		}
		if (!ret) {
			ret = xrc_cq_create(&a->x, 4, 0, -1, &cq);
			if (!ret) {
				ret = xrc_srq_create(&a->x, a->xrcd, &cq, 4, 1,
						     0, &srq);
				if (!ret)
					CHECK(0, xrc_srq_destroy(&a->x, &srq));
				CHECK(0, xrc_cq_destroy(&a->x, &cq));
			}
		}
		if (ret)
			break;
	}
	close(uffd);
	return (void *)(long)ret;
}

/* What was reported before is there, and that the device went is the end of it. */
static void check_events(struct all *a, int fd)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	struct ib_xrc_event event;
	int ret;

	for (;;) {
		ret = xrc_event_read(fd, &event, 1);
		if (ret != 1)
			break;
		CHECK(0, a->told);
		a->told = event.type == IB_XRC_EVENT_DEVICE_REMOVED;
	}
	CHECK(-EIO, ret);
	CHECK(1, a->told);
	CHECK(1, poll(&pfd, 1, 0));
	CHECK(POLLERR, pfd.revents);
}

/* Every call that is not closing. */
static void check_gone(struct all *a)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	struct pollfd pfd = { .fd = a->channel, .events = POLLIN };
	struct ib_xrc_tgt_qp_info info;
	struct ib_xrc_holder_info holder;
	struct ib_xrc_xrcd_info domain;
	struct ib_xrc_policy policy;
	struct ib_xrc_srq_info srq_info;
	struct ib_xrc_device_info dev;
	struct ib_xrc_limits limits;
	union xrc_cmd cmd;
	struct xrc_qp qp;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_mr mr;
	__u32 n;
	int fd;

	CHECK(-EIO, xrc_limits(&a->x, &limits));
	CHECK(-EIO, xrc_bind(&a->x, xrc_device()));
	xrc_cmd_for(&a->x, &cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_LIST_DEVICES);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, &dev, sizeof(dev));
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &n, sizeof(n));
	CHECK(-EIO, xrc_ioctl(a->x.fd, &cmd));
	CHECK(-EIO, xrc_xrcd_open(&a->x, -1, O_CREAT, &n));
	CHECK(-EIO, xrc_xrcd_open(&a->x, a->file, 0, &n));
	CHECK(-EIO, xrc_xrcd_query(&a->x, a->xrcd, &domain));
	CHECK(-EIO, xrc_list_tgt_qps(&a->x, a->xrcd, &info, 1, &n));
	CHECK(-EIO, xrc_tgt_create(&a->x, a->xrcd, &qp));
	CHECK(-EIO, xrc_tgt_open(&a->x, a->xrcd, a->qp.qp_num, &qp));
	CHECK(-EIO, xrc_tgt_modify(&a->x, &a->qp, &attr));
	CHECK(-EIO, xrc_tgt_modify(&a->x, &a->by_num, &attr));
	CHECK(-EIO, xrc_tgt_query(&a->x, &a->qp, &attr, &info));
	CHECK(-EIO, xrc_tgt_query(&a->x, &a->by_num, NULL, &info));
	attr.qp_state = IBV_QPS_INIT;
	CHECK(-EIO, xrc_tgt_connect(&a->x, &a->qp, &attr, NULL));
	CHECK(-EIO, xrc_tgt_connect_timeout(&a->x, &a->qp, &attr, LONG_MS, NULL));
	CHECK(-EIO, xrc_tgt_disconnect(&a->x, &a->qp, LONG_MS, NULL));
	CHECK(-EIO, xrc_tgt_disconnect(&a->x, &a->by_num, 0, NULL));
	CHECK(-EIO, xrc_tgt_disconnect_release(&a->x, &a->qp, 0, NULL));
	CHECK(-EIO, xrc_list_holders(&a->x, &a->qp, 0, &holder, 1, &n));
	CHECK(-EIO, xrc_list_srqs(&a->x, a->xrcd, 0, &srq_info, 1, &n));
	CHECK(-EIO, xrc_xrcd_policy(&a->x, a->xrcd, &policy));
	CHECK(-EIO, xrc_srq_limit(&a->x, &a->srq, 1));
	CHECK(-EIO, xrc_event_file_create(&a->x, -1, &fd));
	CHECK(-EIO, xrc_channel_create(&a->x, &fd));
	CHECK(-EIO, xrc_cq_create(&a->x, 1, 0, -1, &cq));
	CHECK(-EIO, xrc_srq_create(&a->x, a->xrcd, &a->cq, 1, 1, 0, &srq));
	CHECK(-EIO, xrc_srq_kick(&a->x, &a->srq));
	CHECK(-EIO, xrc_mr_reg(&a->x, a->xrcd, a->buf, sizeof(a->buf),
			       MR_ACCESS, &mr));
	CHECK(1, xrc_ring_map(&a->x, &a->cq.info) == MAP_FAILED);
	CHECK(EIO, errno);

	/* Events that were there may be read, then it is said. */
	do {
		__u64 handle;

		n = xrc_channel_read(a->channel, &handle);
	} while (!n);
	CHECK(-EIO, (int)n);
	CHECK(1, poll(&pfd, 1, 0));
	CHECK(POLLERR, pfd.revents & (POLLERR | POLLIN));
	check_events(a, a->events);
}

static void check_rings(struct all *a)
{
	struct ib_xrc_cqe cqe;
	__u32 n = 0;

	CHECK(IB_XRC_CQ_RING_DEAD,
	      a->cq.ring->flags & IB_XRC_CQ_RING_DEAD);
	CHECK(IB_XRC_CQ_RING_DEAD,
	      a->idle_cq.ring->flags & IB_XRC_CQ_RING_DEAD);
	CHECK(IB_XRC_SRQ_RING_ERROR,
	      a->srq.ring->flags & IB_XRC_SRQ_RING_ERROR);
	/* What came last can still be read. */
	while (xrc_cq_poll(&a->cq, &cqe)) {
		if (!cqe.status)
			CHECK(1, xrc_check(a->buf[cqe.wr_id], SIZE, 1));
		n++;
	}
	CHECK(1, n <= a->cq.info.entries);
	xrc_cq_arm(&a->cq, IB_XRC_CQ_ARM_NEXT);
}

static void close_all(struct all *a)
{
	CHECK(-EBUSY, xrc_cq_destroy(&a->x, &a->cq));
	CHECK(-EBUSY, xrc_xrcd_close(&a->x, a->xrcd));
	CHECK(-EBUSY, xrc_xrcd_close(&a->x, a->anonymous));
	CHECK(0, xrc_mr_dereg(&a->x, &a->mr));
	CHECK(0, xrc_mr_dereg(&a->x, &a->anonymous_mr));
	CHECK(-ENOENT, xrc_mr_dereg(&a->x, &a->mr));
	CHECK(0, xrc_srq_destroy(&a->x, &a->srq));
	CHECK(0, xrc_srq_destroy(&a->x, &a->held_srq));
	CHECK(0, xrc_cq_destroy(&a->x, &a->cq));
	CHECK(0, xrc_cq_destroy(&a->x, &a->idle_cq));
	CHECK(0, xrc_tgt_close(&a->x, &a->qp));
	CHECK(0, xrc_tgt_close(&a->x, &a->held));
	CHECK(0, xrc_xrcd_close(&a->x, a->xrcd));
	CHECK(0, xrc_xrcd_close(&a->x, a->anonymous));
	CHECK(-ENOENT, xrc_xrcd_close(&a->x, a->xrcd));
}

static void say(const char *what)
{
	puts(what);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	const bool idle = argc > 1 && !strcmp(argv[1], "idle");
	const bool leave = argc > 1 && !strcmp(argv[1], "leave");
	struct all *a = calloc(2, sizeof(*a)), *b = a + 1;
	pthread_t threads[6];
	struct reader reader = {}, event_reader = {};
	struct registrant registrant;
	struct ib_xrc_limits limits;
	struct xrc late, node;
	struct xrc_qp held;
	void *ret;
	pid_t sender = 0, held_sender;
	char line[80];

	setvbuf(stdout, NULL, _IOLBF, 0);
	open_all(a, memfd_create("a", MFD_CLOEXEC));
	/* The second file is only there, and shares the domain of the first. */
	open_all(b, a->file);
	need("open", xrc_open(&late));
	need("open", xrc_open_node(&node));
	if (!idle)
		sender = start_sender(a, &a->qp, a->srq.srq_num, 0);
	held_sender = start_sender(b, &b->held, b->held_srq.srq_num, 3);
	/* Last, so that nobody else has a part in its FUSE. */
	start_registrant(&registrant);
	reader.channel = a->idle_channel;
	event_reader.channel = a->idle_events;
	if (pthread_create(&threads[0], NULL, receiver, a) ||
	    pthread_create(&threads[1], NULL, blocked_reader, &reader) ||
	    pthread_create(&threads[2], NULL, poller, &b->channel) ||
	    pthread_create(&threads[3], NULL, blocked_event_reader,
			   &event_reader) ||
	    pthread_create(&threads[4], NULL, disconnector, b) ||
	    (!idle && pthread_create(&threads[5], NULL, caller, a)))
		exit(1);
	while (!reader.tid || !event_reader.tid || !disconnector_tid ||
	       !polling || (!idle && !flowing))
		usleep(1000);
	need("block in read", xrc_wait_blocked(reader.tid));
	need("block in read", xrc_wait_blocked(event_reader.tid));
	held = (struct xrc_qp) {
		.by_num = true, .handle = b->xrcd, .qp_num = b->held.qp_num,
	};
	need("disconnect", xrc_tgt_wait_state(&b->x, &held, IBV_QPS_ERR));
	need("block in disconnect",
	     xrc_wait_in_syscall(disconnector_tid, SYS_ioctl));
	say("ready");

	pthread_join(threads[1], &ret);
	CHECK(-EIO, (long)ret);
	pthread_join(threads[2], &ret);
	CHECK(POLLERR, (long)ret & (POLLERR | POLLIN));
	pthread_join(threads[0], &ret);
	CHECK(-EIO, (long)ret);
	pthread_join(threads[3], &ret);
	CHECK(IB_XRC_EVENT_DEVICE_REMOVED, (long)ret);
	pthread_join(threads[4], &ret);
	CHECK(-EIO, (long)ret);
	if (!idle) {
		pthread_join(threads[5], &ret);
		CHECK(-EIO, (long)ret);
	}
	end_registrant(&registrant);
	CHECK(1, idle || xrc_check(a->written, SIZE, 1));
	check_gone(a);
	check_gone(b);
	check_rings(a);
	check_rings(b);
	CHECK(-EIO, xrc_limits(&late, &limits));
	if (!leave)
		close_all(a);
	kill(held_sender, SIGKILL);
	waitpid(held_sender, NULL, 0);
	if (sender) {
		kill(sender, SIGKILL);
		waitpid(sender, NULL, 0);
	}
	say("removed");

	/* The device is back, but not for who had it before. */
	if (!fgets(line, sizeof(line), stdin))
		exit(1);
	CHECK(-EIO, xrc_limits(&a->x, &limits));
	CHECK(-EIO, xrc_limits(&late, &limits));
	check_gone(b);
	/* A file that was not bound yet may be. */
	CHECK(0, xrc_bind(&node, xrc_device()));
	CHECK(0, xrc_limits(&node, &limits));
	/* The old domain is of the old device. */
	{
		__u32 xrcd;

		CHECK(-EAGAIN, xrc_xrcd_open(&node, a->file, 0, &xrcd));
		CHECK(0, xrc_xrcd_open(&node, a->file, O_CREAT, &xrcd));
	}
	use_new_file();
	if (!leave)
		close_all(b);
	say("done");
	return failures != 0;
}
