// SPDX-License-Identifier: GPL-2.0
/*
 * Event files: how they are read, what when they are full, and when objects or files are
 * closed.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

FIXTURE(events)
{
	struct xrc x;
	int file;	/* of the domain */
	int ef;		/* an event file; does not block */
	struct xrc_ini ini;
};

FIXTURE_SETUP(events)
{
	self->file = memfd_create("events", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	fcntl(self->ef, F_SETFL, O_NONBLOCK);
}

FIXTURE_TEARDOWN(events)
{
	xrc_ini_close(&self->ini);
	close(self->ef);
	xrc_close(&self->x);
	close(self->file);
}

typedef FIXTURE_DATA(events) events_t;

/* ----------------------------------------------------------------- files -- */

TEST_F(events, depth)
{
	static const __s64 good[] = {
		-1, 1, 2, 3, 255, IB_XRC_EVENT_FILE_DEPTH,
		IB_XRC_EVENT_FILE_MAX_DEPTH,
	};
	static const __s64 bad[] = {
		0, IB_XRC_EVENT_FILE_MAX_DEPTH + 1, 0x7fffffff, 0x80000000,
		0xffffffff,
	};
	unsigned int i;
	int fd;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, good[i], &fd));
		EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
		/* It blocks until it is told not to. */
		EXPECT_EQ(0, fcntl(fd, F_GETFL) & O_NONBLOCK);
		EXPECT_NO_EVENT(fd);
		close(fd);
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, xrc_event_file_create(&self->x, bad[i], &fd));
	}
}

/* It holds so many events, not one less and not one more. */
TEST_F_TIMEOUT(events, depth_is_exact, TIMEOUT)
{
	static const __s64 depth[] = { 1, 2, 5, -1, IB_XRC_EVENT_FILE_MAX_DEPTH };
	struct ev_source s;
	__u32 xrcd, next, n;
	unsigned int i;
	int fd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, XRC_NO_FD, 0, &xrcd));
	for (i = 0; i < ARRAY_SIZE(depth); i++) {
		n = depth[i] < 0 ? IB_XRC_EVENT_FILE_DEPTH : depth[i];
		ASSERT_EQ(0, xrc_event_file_create(&self->x, depth[i], &fd));
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, EV_NUMBERS, 3, fd, &s));
		ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, n));
		next = 1;
		EXPECT_EQ((int)n, ev_take_numbers(fd, &s, &next, EV_NUMBERS));
		EXPECT_EQ(n + 1, next);
		ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, n + 3));
		next = 1;
		EXPECT_EQ((int)n, ev_take_numbers(fd, &s, &next, n));
		EXPECT_EQ(n + 1, next);
		EXPECT_EVENT(fd, IB_XRC_EVENT_OVERFLOW, 0, 3, 0);
		EXPECT_NO_EVENT(fd);
		EXPECT_EQ(0, ev_source_close(&self->x, &s));
		close(fd);
	}
}

/* Each object reports to the file that it was given, and to no other. */
TEST_F_TIMEOUT(events, several_files, TIMEOUT)
{
	enum { N = 20 };
	struct ev_source s[N];
	int ef[N], i;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, XRC_NO_FD, 0, &xrcd));
	for (i = 0; i < N; i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, 4, &ef[i]));
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 4, 100 + i, ef[i], &s[i]));
	}
	for (i = N - 1; i >= 0; i--) {
		EXPECT_EQ(0, xrc_srq_limit(&self->x, &s[i].srq, 1 + i % 4));
	}
	for (i = 0; i < N; i++) {
		EXPECT_EVENT(ef[i], IB_XRC_EVENT_SRQ_LIMIT, s[i].srq.srq_num,
			     1 + i % 4, 100 + i);
		EXPECT_NO_EVENT(ef[i]);
		EXPECT_EQ(0, ev_source_close(&self->x, &s[i]));
		close(ef[i]);
	}
	EXPECT_NO_EVENT(self->ef);
}

TEST_F_TIMEOUT(events, not_an_event_file, TIMEOUT)
{
	struct ib_xrc_xrcd_info info;
	struct xrc_xrcd_opts opts = {};
	struct xrc_report report = {};
	struct xrc other;
	struct xrc_qp qp, got;
	struct xrc_srq srq;
	struct xrc_cq cq;
	union xrc_cmd cmd;
	int channel, theirs, closed, pipes[2], ret, i;
	__u32 xrcd, handle;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, xrc_open(&other));
	ASSERT_EQ(0, xrc_event_file_create(&other, -1, &theirs));
	ASSERT_EQ(0, xrc_channel_create(&self->x, &channel));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &closed));
	close(closed);
	ASSERT_EQ(0, pipe(pipes));
	{
		const __s64 bad[] = {
			theirs, closed, channel, self->file, self->x.fd,
			pipes[0], -1, INT_MAX, INT_MIN, 1LL << 32 | self->ef,
			LLONG_MAX, LLONG_MIN,
		};

		opts.report = &report;
		for (i = 0; i < (int)ARRAY_SIZE(bad); i++) {
			/* What is no int is not even looked at, as by uverbs. */
			ret = bad[i] == (int)bad[i] ? -EBADF : -EINVAL;
			if (ret == -EBADF) {
				report.fd = bad[i];
				EXPECT_EQ(ret, xrc_xrcd_open_with(&self->x,
					  self->file, O_CREAT, &opts, &handle))
					TH_LOG("case %d", i);
				EXPECT_EQ(ret, xrc_xrcd_open_with(&self->x, -1,
					  0, &opts, &handle));
				EXPECT_EQ(ret, xrc_tgt_create_report(&self->x,
					  xrcd, &report, &got));
				EXPECT_EQ(ret, xrc_tgt_open_report(&self->x,
					  xrcd, qp.qp_num, &report, &got));
			}
			xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
				    IB_XRC_METHOD_TGT_QP_OPEN);
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_HANDLE, 0);
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_XRCD, xrcd);
			xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM,
				   qp.qp_num);
			xrc_raw_fd(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE,
				   bad[i]);
			EXPECT_EQ(ret, xrc_ioctl(self->x.fd, &cmd))
				TH_LOG("case %d", i);
			xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ,
				    IB_XRC_METHOD_SRQ_CREATE);
			xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE, 0);
			xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_XRCD, xrcd);
			xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_CQ, cq.handle);
			xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_WR, 4);
			xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, 1);
			xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM,
				&srq.srq_num, sizeof(srq.srq_num));
			xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_RING,
				&srq.info, sizeof(srq.info));
			xrc_raw_fd(&cmd, IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE,
				   bad[i]);
			EXPECT_EQ(ret, xrc_ioctl(self->x.fd, &cmd))
				TH_LOG("case %d", i);
		}
	}
	/* Nothing came of all that. */
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(1U, info.handles);
	EXPECT_EQ(1U, info.tgt_qps);
	EXPECT_EQ(0U, info.srqs);
	EXPECT_NO_EVENT(theirs);
	EXPECT_NO_EVENT(self->ef);
	close(pipes[0]);
	close(pipes[1]);
	close(channel);
	close(theirs);
	xrc_close(&other);
}

/* Who gives no USER_HANDLE gets 0. */
TEST_F(events, user_handle_not_given)
{
	union xrc_cmd cmd;
	struct xrc_qp qp;
	__u32 xrcd;

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE, 0);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE, self->ef);
	ASSERT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	xrcd = xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 0);

	/* One alone says nothing. */
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE, 0);
	xrc_in_u64(&cmd, IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE, 7);
	ASSERT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	xrcd = xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_NO_EVENT(self->ef);
}

/* --------------------------------------------------------- poll and read -- */

/* An SRQ in an anonymous domain that reports to self->ef. */
static int numbers(events_t *self, struct ev_source *s)
{
	__u32 xrcd;
	int ret = ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd);

	return ret ? ret : ev_source_open(&self->x, xrcd, EV_NUMBERS, 5, self->ef, s);
}

TEST_F_TIMEOUT(events, read, TIMEOUT)
{
	const ssize_t size = sizeof(struct ib_xrc_event);
	char *guard = xrc_guard_page();
	struct ib_xrc_event event[8];
	struct iovec iov[2];
	struct ev_source s;
	int i;

	ASSERT_EQ(0, numbers(self, &s));
	/* Too short for one, whether there is one or not. */
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-1, read(self->ef, event, 0));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, read(self->ef, event, 1));
		EXPECT_EQ(EINVAL, errno);
		EXPECT_EQ(-1, read(self->ef, event, size - 1));
		EXPECT_EQ(EINVAL, errno);
		if (!i) {
			EXPECT_EQ(-1, read(self->ef, event, size));
			EXPECT_EQ(EAGAIN, errno);
			EXPECT_EQ(-1, read(self->ef, event, sizeof(event)));
			EXPECT_EQ(EAGAIN, errno);
			ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 9));
		}
	}
	/* As many as fit, and what does not is left alone. */
	memset(event, 0xee, sizeof(event));
	EXPECT_EQ(2 * size, read(self->ef, event, 3 * size - 1));
	EXPECT_EQ(1U, event[0].value);
	EXPECT_EQ(2U, event[1].value);
	EXPECT_EQ(0xeeeeeeeeU, event[2].value);
	EXPECT_EQ(0xeeeeeeeeU, event[2].type);
	/* Into pieces. */
	iov[0] = (struct iovec){ event, 10 };
	iov[1] = (struct iovec){ (char *)event + 10, 2 * size - 10 };
	EXPECT_EQ(2 * size, readv(self->ef, iov, 2));
	EXPECT_EQ(3U, event[0].value);
	EXPECT_EQ(4U, event[1].value);
	EXPECT_EQ(5U, event[1].user_handle);
	/* What could not be written is still there. */
	EXPECT_EQ(-1, read(self->ef, guard, size));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, read(self->ef, guard - size / 2, size));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-1, read(self->ef, guard + size, size));
	EXPECT_EQ(EFAULT, errno);
	/* So is what comes after what could be written. */
	EXPECT_EQ(size, read(self->ef, guard - size, 3 * size));
	memcpy(event, guard - size, size);
	EXPECT_EQ(5U, event[0].value);
	EXPECT_EQ(size, read(self->ef, guard - size - size / 2, 3 * size));
	memcpy(event, guard - size - size / 2, size);
	EXPECT_EQ(6U, event[0].value);
	/* It does not wait for more than one. */
	fcntl(self->ef, F_SETFL, 0);
	EXPECT_EQ(3 * size, read(self->ef, event, sizeof(event)));
	EXPECT_EQ(7U, event[0].value);
	EXPECT_EQ(9U, event[2].value);
	EXPECT_NO_EVENT(self->ef);
	/* Nobody else writes to it. */
	EXPECT_EQ(-1, write(self->ef, event, size));
}

TEST_F_TIMEOUT(events, poll, TIMEOUT)
{
	struct pollfd pfd = {
		.fd = self->ef, .events = POLLIN | POLLOUT | POLLPRI,
	};
	struct ib_xrc_event event;
	struct ev_source s;

	ASSERT_EQ(0, numbers(self, &s));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 2));
	EXPECT_EQ(1, poll(&pfd, 1, XRC_TIMEOUT_MS));
	EXPECT_EQ(POLLIN, pfd.revents);
	EXPECT_EQ(1, xrc_event_read(self->ef, &event, 1));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(1, xrc_event_read(self->ef, &event, 1));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
}

TEST_F_TIMEOUT(events, epoll, TIMEOUT)
{
	struct epoll_event level = { .events = EPOLLIN };
	struct epoll_event edge = { .events = EPOLLIN | EPOLLET };
	struct ib_xrc_event event;
	struct epoll_event got;
	struct ev_source s;
	int lp, ep, i;

	ASSERT_EQ(0, numbers(self, &s));
	lp = epoll_create1(EPOLL_CLOEXEC);
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, lp);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(lp, EPOLL_CTL_ADD, self->ef, &level));
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->ef, &edge));
	EXPECT_EQ(0, epoll_wait(lp, &got, 1, 0));
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, 0));
	/* Each event is an edge, though those before have not been read. */
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, i, i));
		EXPECT_EQ(1, epoll_wait(ep, &got, 1, XRC_TIMEOUT_MS));
		EXPECT_EQ((__u32)EPOLLIN, got.events);
		EXPECT_EQ(0, epoll_wait(ep, &got, 1, 0));
	}
	for (i = 1; i <= 3; i++) {
		EXPECT_EQ(1, epoll_wait(lp, &got, 1, 0));
		EXPECT_EQ((__u32)EPOLLIN, got.events);
		EXPECT_EQ(1, xrc_event_read(self->ef, &event, 1));
	}
	EXPECT_EQ(0, epoll_wait(lp, &got, 1, 0));
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, 0));
	/* Closed while it is watched. */
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 4, 4));
	close(self->ef);
	EXPECT_EQ(0, epoll_wait(lp, &got, 1, 0));
	EXPECT_EQ(0, epoll_wait(ep, &got, 1, 0));
	close(lp);
	close(ep);
	self->ef = -1;
}

TEST_F_TIMEOUT(events, blocking_read, TIMEOUT)
{
	struct ev_reader r[2];
	struct ev_source s;
	int i;

	ASSERT_EQ(0, numbers(self, &s));
	fcntl(self->ef, F_SETFL, 0);
	ASSERT_EQ(0, ev_reader_start(&r[0], self->ef));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 1));
	pthread_join(r[0].thread, NULL);
	EXPECT_EQ((int)sizeof(r[0].event), r[0].ret);
	EXPECT_EQ(1U, r[0].event.value);

	/* One event for each of two. */
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ev_reader_start(&r[i], self->ef));
	}
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 2));
	for (i = 0; i < 2; i++) {
		pthread_join(r[i].thread, NULL);
		EXPECT_EQ((int)sizeof(r[i].event), r[i].ret);
	}
	EXPECT_EQ(3U, r[0].event.value + r[1].event.value);
	EXPECT_NO_EVENT(self->ef);
}

/* The event that woke the reader is purged by then: it goes on waiting. */
TEST_F_TIMEOUT(events, blocking_read_of_purged_event, TIMEOUT)
{
	struct ev_source s, other;
	struct ev_reader r;
	int i;

	ASSERT_EQ(0, numbers(self, &other));
	fcntl(self->ef, F_SETFL, 0);
	for (i = 0; i < 20; i++) {
		ASSERT_EQ(0, numbers(self, &s));
		ASSERT_EQ(0, ev_reader_start(&r, self->ef));
		ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 1));
		ASSERT_EQ(0, ev_source_close(&self->x, &s));
		/* If it was not fast enough it gets this one. */
		ASSERT_EQ(0, ev_raise_numbers(&self->x, &other, 2, 2));
		pthread_join(r.thread, NULL);
		EXPECT_EQ((int)sizeof(r.event), r.ret);
		if (r.event.value == 1) {
			EXPECT_EQ(s.srq.srq_num, r.event.number);
			EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT,
				     other.srq.srq_num, 2, 5);
		} else {
			EXPECT_EQ(2U, r.event.value);
		}
		EXPECT_NO_EVENT(self->ef);
	}
}

static void on_signal(int sig)
{
	(void)sig;
}

TEST_F_TIMEOUT(events, interrupted_read, TIMEOUT)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct ev_reader r;

	sigaction(SIGUSR1, &sa, NULL);
	fcntl(self->ef, F_SETFL, 0);
	ASSERT_EQ(0, ev_reader_start(&r, self->ef));
	pthread_kill(r.thread, SIGUSR1);
	pthread_join(r.thread, NULL);
	EXPECT_EQ(-EINTR, r.ret);
}

/* A process that waits for an event can be killed, and the file is closed with it. */
TEST_F_TIMEOUT(events, killed_reader, TIMEOUT)
{
	struct ib_xrc_event event;
	int status;
	pid_t pid;

	fcntl(self->ef, F_SETFL, 0);
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		xrc_close(&self->x);
		_exit(read(self->ef, &event, sizeof(event)) < 0 ? 1 : 2);
	}
	EXPECT_EQ(0, xrc_wait_in_syscall(pid, SYS_read));
	kill(pid, SIGKILL);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFSIGNALED(status));
}

/* --------------------------------------------------------------- overflow -- */

/* In whatever order events come and are read: it is said which are missing. */
TEST_F_TIMEOUT(events, overflow_in_between, TIMEOUT)
{
	static const __s64 depth[] = { 1, 2, 3, 7, 32 };
	__u32 xrcd, next, raised, n;
	struct ev_source s;
	unsigned int i;
	int fd, ret;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	srand(11);
	for (i = 0; i < ARRAY_SIZE(depth); i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, depth[i], &fd));
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, EV_NUMBERS, 3, fd, &s));
		for (next = 1, raised = 0; raised < 2000; raised += n) {
			n = rand() % (2 * depth[i] + 1);
			ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, raised + 1,
						      raised + n));
			ret = ev_take_numbers(fd, &s, &next,
					      rand() % (2 * depth[i] + 1));
			ASSERT_LE(0, ret)
				TH_LOG("depth %lld: error %d, next is %u",
				       depth[i], ret, next);
		}
		ASSERT_LE(0, ev_take_numbers(fd, &s, &next, EV_NUMBERS));
		EXPECT_EQ(raised + 1, next);
		EXPECT_NO_EVENT(fd);
		EXPECT_EQ(0, ev_source_close(&self->x, &s));
		close(fd);
	}
}

/* In one read, with poll, and then it goes on as before. */
TEST_F_TIMEOUT(events, overflow_of_depth_one, TIMEOUT)
{
	struct ib_xrc_event event[4];
	struct pollfd pfd;
	struct ev_source s;
	__u32 xrcd;
	int fd;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, 1, &fd));
	pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 64, 3, fd, &s));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 11));
	ASSERT_EQ(2, xrc_event_read(fd, event, 4));
	EXPECT_EQ((__u32)IB_XRC_EVENT_SRQ_LIMIT, event[0].type);
	EXPECT_EQ(1U, event[0].value);
	EXPECT_EQ((__u32)IB_XRC_EVENT_OVERFLOW, event[1].type);
	EXPECT_EQ(10U, event[1].value);
	EXPECT_EQ(0U, event[1].number);
	EXPECT_EQ(0U, event[1].user_handle);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	/* The overflow alone is an event, too. */
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 2));
	EXPECT_EQ(1, xrc_event_read(fd, event, 1));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EVENT(fd, IB_XRC_EVENT_OVERFLOW, 0, 1, 0);
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 5, 5));
	EXPECT_EVENT(fd, IB_XRC_EVENT_SRQ_LIMIT, s.srq.srq_num, 5, 3);
	EXPECT_NO_EVENT(fd);
	close(fd);
}

/* ------------------------------------------------------------------ purge -- */

/* What is closed takes its events with it, and no others. */
TEST_F_TIMEOUT(events, purged_with_xrcd, TIMEOUT)
{
	struct xrc_qp qp[3];
	__u32 first, second;
	int i;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &first));
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 2,
				    &second));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, first, &qp[i]));
	}
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, second));
	for (i = 0; i < 3; i++) {
		EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp[i].qp_num,
			     0, 1);
	}
	EXPECT_NO_EVENT(self->ef);
	/* It hears no more of it. */
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[0]));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_RECLAIMED, qp[0].qp_num,
		     IB_XRC_RECLAIM_LAST_REF, 1);
	EXPECT_NO_EVENT(self->ef);
}

TEST_F_TIMEOUT(events, purged_with_tgt_qp, TIMEOUT)
{
	struct pollfd pfd = { .fd = self->ef, .events = POLLIN };
	struct xrc_qp qp, second;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 1, &qp));
	ASSERT_EQ(0, ev_open_qp(&self->x, xrcd, qp.qp_num, self->ef, 2, &second));
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EQ(1, poll(&pfd, 1, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, second.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 2);
	EXPECT_NO_EVENT(self->ef);
	/* One that nobody has read, and the last registration. */
	ASSERT_EQ(0, ev_open_qp(&self->x, xrcd, second.qp_num, self->ef, 3, &qp));
	EXPECT_EQ(1, poll(&pfd, 1, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	EXPECT_NO_EVENT(self->ef);
}

TEST_F_TIMEOUT(events, purged_with_srq, TIMEOUT)
{
	struct ev_source s[3];
	__u32 xrcd, i;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 64, i, self->ef, &s[i]));
	}
	/* Mixed, and of the second one the last. */
	for (i = 0; i < 30; i++) {
		ASSERT_EQ(0, xrc_srq_limit(&self->x, &s[i * 7 / 3 % 3].srq, i + 1));
	}
	ASSERT_EQ(0, xrc_srq_limit(&self->x, &s[1].srq, 31));
	EXPECT_EQ(0, ev_source_close(&self->x, &s[1]));
	for (i = 0; i < 30; i++)
		if (i * 7 / 3 % 3 != 1) {
			EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT,
				     s[i * 7 / 3 % 3].srq.srq_num, i + 1,
				     i * 7 / 3 % 3);
		}
	EXPECT_NO_EVENT(self->ef);
}

/* There is room again, and what was dropped before was dropped. */
TEST_F_TIMEOUT(events, purged_when_full, TIMEOUT)
{
	struct ev_source s[2];
	__u32 xrcd;
	int fd, i;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, 4, &fd));
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &xrcd));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 64, i, fd, &s[i]));
	}
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s[0], 1, 2));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s[1], 1, 2));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s[0], 3, 7));
	EXPECT_EQ(0, ev_source_close(&self->x, &s[1]));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s[0], 8, 9));
	for (i = 1; i <= 2; i++) {
		EXPECT_EVENT(fd, IB_XRC_EVENT_SRQ_LIMIT, s[0].srq.srq_num, i, 0);
	}
	EXPECT_EVENT(fd, IB_XRC_EVENT_OVERFLOW, 0, 5, 0);
	for (i = 8; i <= 9; i++) {
		EXPECT_EVENT(fd, IB_XRC_EVENT_SRQ_LIMIT, s[0].srq.srq_num, i, 0);
	}
	EXPECT_NO_EVENT(fd);
	close(fd);
}

/* Everything closed at once, with the file that has it. */
TEST_F_TIMEOUT(events, context_closed_first, TIMEOUT)
{
	struct pollfd pfd = { .fd = self->ef, .events = POLLIN };
	struct xrc_qp qp;
	struct ev_source s;
	__u32 xrcd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 2, &qp));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 4, 3, self->ef, &s));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 2));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	munmap(s.srq.ring, s.srq.info.mmap_length);
	munmap(s.cq.ring, s.cq.info.mmap_length);
	xrc_close(&self->x);
	EXPECT_EQ(0, poll(&pfd, 1, 0));
	EXPECT_NO_EVENT(self->ef);
}

/* The event file goes first: the objects do not mind. */
TEST_F_TIMEOUT(events, event_file_closed_first, TIMEOUT)
{
	struct xrc_qp qp, second;
	struct ev_source s;
	__u32 xrcd;
	int fd;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 1, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 2, &qp));
	ASSERT_EQ(0, ev_source_open(&self->x, xrcd, 8, 3, self->ef, &s));
	ASSERT_EQ(0, ev_connect_ini(&self->x, &self->ini, &qp));
	fd = self->ef;
	close(fd);
	/* A new one under the old number is not theirs. */
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	EXPECT_EQ(fd, self->ef);
	EXPECT_EQ(0, xrc_srq_limit(&self->x, &s.srq, 8));
	ASSERT_EQ(0, ev_source_post(&self->x, &s, 1));
	ASSERT_EQ(0, ev_send_to(&self->ini, s.srq.srq_num, 1));
	ASSERT_EQ(0, ev_wait_received(&s, 1));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &second));
	ASSERT_EQ(0, ev_send_bad(&self->ini));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, ev_source_close(&self->x, &s));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_NO_EVENT(self->ef);
}

/* --------------------------------------------------------------- passed on -- */

/* The file is another process's from now on; what is reported to it stays so. */
TEST_F_TIMEOUT(events, passed_to_another_process, TIMEOUT)
{
	char cmsgs[CMSG_SPACE(sizeof(int))] = {}, c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = cmsgs, .msg_controllen = sizeof(cmsgs),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct ib_xrc_event event;
	int sock[2], fd, status;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		/* What was inherited is not what is meant. */
		close(self->ef);
		close(sock[0]);
		if (recvmsg(sock[1], &msg, MSG_CMSG_CLOEXEC) != 1)
			_exit(1);
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));
		if (xrc_event_wait(fd, &event, XRC_TIMEOUT_MS))
			_exit(2);
		/* It is no file of a context that this process makes. */
		if (xrc_open(&x) ||
		    ev_open_domain(&x, -1, NULL, fd, 0, &xrcd) != -EBADF)
			_exit(3);
		if (send(sock[1], &event, sizeof(event), 0) < 0)
			_exit(4);
		_exit(0);
	}
	close(sock[1]);
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, self->ef, 77, &xrcd));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &self->ef, sizeof(int));
	ASSERT_EQ(1, sendmsg(sock[0], &msg, 0));
	close(self->ef);
	self->ef = -1;
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	ASSERT_EQ((ssize_t)sizeof(event), recv(sock[0], &event, sizeof(event), 0));
	EXPECT_EQ((__u32)IB_XRC_EVENT_TGT_QP_CREATED, event.type);
	EXPECT_EQ(qp.qp_num, event.number);
	EXPECT_EQ(77U, event.user_handle);
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(sock[0]);
}

/* ------------------------------------------------------------------ races -- */

struct churner {
	events_t *self;
	__u32 xrcd;
	int rounds;
	volatile bool done;
	int ret;
};

static void *create_and_close(void *arg)
{
	struct churner *c = arg;
	struct xrc_qp qp;
	int i;

	for (i = 0; i < c->rounds && !c->ret; i++) {
		c->ret = xrc_tgt_create(&c->self->x, c->xrcd, &qp);
		if (!c->ret)
			c->ret = xrc_tgt_close(&c->self->x, &qp);
	}
	c->done = true;
	return NULL;
}

/* Nothing is lost, and no end comes before its beginning. */
TEST_F_TIMEOUT(events, two_creators_one_reader, TIMEOUT)
{
	enum { ROUNDS = 150 };
	struct churner c[2] = {};
	struct ib_xrc_event event;
	pthread_t thread[2];
	__u32 alive[2] = {}, xrcd, n = 0;
	int fd, i;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, IB_XRC_EVENT_FILE_MAX_DEPTH,
					   &fd));
	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, fd, 0, &xrcd));
	for (i = 0; i < 2; i++) {
		c[i] = (struct churner){
			.self = self, .xrcd = xrcd, .rounds = ROUNDS,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, create_and_close,
					    &c[i]));
	}
	for (n = 0; n < 2 * 2 * ROUNDS; n++) {
		ASSERT_EQ(0, xrc_event_wait(fd, &event, XRC_TIMEOUT_MS))
			TH_LOG("after %u events", n);
		/* At most one of each thread is there at a time. */
		if (event.type == IB_XRC_EVENT_TGT_QP_CREATED) {
			ASSERT_TRUE(!alive[0] || !alive[1]);
			alive[alive[0] ? 1 : 0] = event.number;
			continue;
		}
		ASSERT_EQ((__u32)IB_XRC_EVENT_TGT_QP_RECLAIMED, event.type);
		ASSERT_NE(0U, event.number);
		ASSERT_TRUE(alive[0] == event.number || alive[1] == event.number);
		alive[alive[0] == event.number ? 0 : 1] = 0;
	}
	for (i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, c[i].ret);
	}
	EXPECT_NO_EVENT(fd);
	close(fd);
}

/* Who asks, and the file that it asks for, come and go under way. */
TEST_F_TIMEOUT(events, subscribers_come_and_go, TIMEOUT)
{
	struct churner c = { .self = self, .rounds = 200 };
	struct ib_xrc_event event[16];
	pthread_t thread;
	__u32 xrcd;
	int fd, i, ret;

	ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, XRC_NO_FD, 0,
				    &c.xrcd));
	ASSERT_EQ(0, pthread_create(&thread, NULL, create_and_close, &c));
	for (i = 0; !c.done; i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, 1 + i % 7, &fd));
		ASSERT_EQ(0, ev_open_domain(&self->x, self->file, NULL, fd, i, &xrcd));
		if (i % 3 == 0) {
			ret = xrc_event_wait(fd, event, 1);
			ASSERT_TRUE(!ret || ret == -ETIME);
		}
		if (i % 2) {
			close(fd);
			ASSERT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
			continue;
		}
		ASSERT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
		/* An overflow may be left, as it is of the file. */
		do {
			ret = xrc_event_read(fd, event, 1);
			if (ret == 1) {
				ASSERT_EQ((__u32)IB_XRC_EVENT_OVERFLOW,
					  event[0].type);
			}
		} while (ret == 1); {
		ASSERT_EQ(-EAGAIN, ret);
		}
		close(fd);
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(0, c.ret);
}

TEST_HARNESS_MAIN
