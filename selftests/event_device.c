// SPDX-License-Identifier: GPL-2.0
/*
 * What a device reports to all its event files: that a port comes or goes, and that it
 * is removed.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

/* ------------------------------------------------------- ports and removal -- */

#define OWN_NETDEV "xrcevents"
#define OWN_DEVICE "xrcevents0"

/* A device that may go, so that the others do not notice. */
FIXTURE(own_device)
{
	char other[IB_XRC_DEVICE_NAME_MAX];
	struct xrc x;
	int ef;
	__u32 xrcd;
	struct ev_source s;
};

/* The exit status of a shell command. */
static int sh(const char *command)
{
	int status = system(command);

	return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Wait until senders can use the device: its GIDs are added by a work item. */
static int wait_usable(void)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	struct xrc_ini ini;
	int ret;

	do {
		ret = xrc_ini_open(&ini, 1, EV_SIZE);
		if (!ret) {
			xrc_ini_close(&ini);
			break;
		}
		usleep(10000);
	} while (xrc_now() < end);
	return ret;
}

static void remove_own_device(void)
{
	sh("rdma link del " OWN_DEVICE " 2>/dev/null");
	sh("ip link del " OWN_NETDEV " 2>/dev/null");
}

FIXTURE_SETUP(own_device)
{
	snprintf(self->other, sizeof(self->other), "%s", xrc_device());
	if (sh("modprobe -q dummy || test -e /sys/module/dummy"))
		SKIP(return, "no dummy network interfaces");
	/* One may be left of a test that did not end. */
	remove_own_device();
	ASSERT_EQ(0, sh("ip link add " OWN_NETDEV " type dummy"));
	ASSERT_EQ(0, sh("ip addr add 192.0.2.17/28 dev " OWN_NETDEV));
	ASSERT_EQ(0, sh("ip link set " OWN_NETDEV " up"));
	ASSERT_EQ(0, sh("rdma link add " OWN_DEVICE " type rxe netdev " OWN_NETDEV));
	setenv("XRC_DEVICE", OWN_DEVICE, 1);
	ASSERT_EQ(0, wait_usable());
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, XRC_NO_FD, 0, &self->xrcd));
	ASSERT_EQ(0, ev_source_open(&self->x, self->xrcd, 64, 8, self->ef, &self->s));
}

FIXTURE_TEARDOWN(own_device)
{
	close(self->ef);
	xrc_close(&self->x);
	remove_own_device();
}

#define EXPECT_END(fd_) do {						\
	struct pollfd pfd_ = { .fd = fd_, .events = POLLIN };		\
	struct ib_xrc_event event_;					\
									\
	EXPECT_EQ(1, poll(&pfd_, 1, 0));				\
	EXPECT_EQ(POLLERR, pfd_.revents);				\
	EXPECT_EQ(-EIO, xrc_event_read(fd_, &event_, 1));		\
	EXPECT_EQ(-EIO, xrc_event_read(fd_, &event_, 1));		\
} while (0)

/* Ports report to all files of their device, whatever reports there besides. */
TEST_F_TIMEOUT(own_device, port, TIMEOUT)
{
	struct xrc elsewhere, second;
	int ef[3], other, i, round;

	ASSERT_EQ(0, xrc_open_node(&elsewhere));
	ASSERT_EQ(0, xrc_bind(&elsewhere, self->other));
	ASSERT_EQ(0, xrc_event_file_create(&elsewhere, -1, &other));
	ASSERT_EQ(0, xrc_open(&second));
	ef[0] = self->ef;
	ASSERT_EQ(0, xrc_event_file_create(&self->x, 2, &ef[1]));
	ASSERT_EQ(0, xrc_event_file_create(&second, 2, &ef[2]));
	for (round = 0; round < 3; round++) {
		ASSERT_EQ(0, sh("ip link set " OWN_NETDEV " down"));
		for (i = 0; i < 3; i++) {
			EXPECT_EVENT(ef[i], IB_XRC_EVENT_PORT_DOWN, 1, 0, 0);
		}
		ASSERT_EQ(0, sh("ip link set " OWN_NETDEV " up"));
		for (i = 0; i < 3; i++) {
			EXPECT_EVENT(ef[i], IB_XRC_EVENT_PORT_ACTIVE, 1, 0, 0);
			EXPECT_NO_EVENT(ef[i]);
		}
	}
	EXPECT_NO_EVENT(other);
	for (i = 1; i < 3; i++)
		close(ef[i]);
	close(other);
	xrc_close(&second);
	xrc_close(&elsewhere);
}

static int delete_link(void)
{
	return sh("rdma link del " OWN_DEVICE);
}

/* Two readers wait: one gets the last event, the other hears that it was. */
TEST_F_TIMEOUT(own_device, removal_wakes_readers, TIMEOUT)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	struct ev_reader r[2];
	int i, ep, n = 0;

	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->ef, &ev));
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, ev_reader_start(&r[i], self->ef));
	}
	ASSERT_EQ(0, delete_link());
	for (i = 0; i < 2; i++) {
		pthread_join(r[i].thread, NULL);
		if (r[i].ret == -EIO)
			continue;
		EXPECT_EQ((int)sizeof(r[i].event), r[i].ret);
		EXPECT_EQ((__u32)IB_XRC_EVENT_DEVICE_REMOVED, r[i].event.type);
		EXPECT_EQ(0U, r[i].event.number | r[i].event.value |
			  r[i].event.reserved);
		EXPECT_EQ(0U, r[i].event.user_handle);
		n++;
	}
	EXPECT_EQ(1, n);
	EXPECT_EQ(1, epoll_wait(ep, &ev, 1, 0));
	EXPECT_EQ((__u32)EPOLLERR, ev.events);
	EXPECT_END(self->ef);
	close(ep);
}

/* A full queue loses nothing of what it has, and the removal comes after all. */
TEST_F_TIMEOUT(own_device, removal_with_full_queue, TIMEOUT)
{
	struct ib_xrc_event event[8];
	struct pollfd pfd;
	struct ev_source s;
	int fd;

	ASSERT_EQ(0, xrc_event_file_create(&self->x, 2, &fd));
	ASSERT_EQ(0, ev_source_open(&self->x, self->xrcd, 64, 8, fd, &s));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &s, 1, 5));
	ASSERT_EQ(0, delete_link());
	pfd = (struct pollfd){ .fd = fd, .events = POLLIN };
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLIN | POLLERR, pfd.revents);
	ASSERT_EQ(4, xrc_event_read(fd, event, 8));
	EXPECT_EQ((__u32)IB_XRC_EVENT_SRQ_LIMIT, event[0].type);
	EXPECT_EQ(1U, event[0].value);
	EXPECT_EQ(2U, event[1].value);
	EXPECT_EQ((__u32)IB_XRC_EVENT_OVERFLOW, event[2].type);
	EXPECT_EQ(3U, event[2].value);
	EXPECT_EQ((__u32)IB_XRC_EVENT_DEVICE_REMOVED, event[3].type);
	EXPECT_END(fd);
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_DEVICE_REMOVED, 0, 0, 0);
	EXPECT_END(self->ef);
	close(fd);
}

/* What the objects reported before can be read as long as they are not closed. */
TEST_F_TIMEOUT(own_device, removal_comes_last, TIMEOUT)
{
	struct xrc_ini ini = {};
	struct xrc_qp qp, second;
	struct pollfd pfd = { .fd = self->ef, .events = POLLIN };
	__u32 xrcd;
	int fd;

	ASSERT_EQ(0, ev_open_domain(&self->x, -1, NULL, self->ef, 1, &xrcd));
	ASSERT_EQ(0, ev_create_qp(&self->x, xrcd, self->ef, 2, &qp));
	ASSERT_EQ(0, ev_connect_ini(&self->x, &ini, &qp));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, qp.qp_num, 0, 1);
	ASSERT_EQ(0, ev_send_bad(&ini));
	EXPECT_EQ(1, poll(&pfd, 1, XRC_TIMEOUT_MS));
	ASSERT_EQ(0, ev_raise_numbers(&self->x, &self->s, 3, 4));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &second));
	xrc_ini_close(&ini);
	ASSERT_EQ(0, delete_link());
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_ERROR, qp.qp_num,
		     IBV_EVENT_QP_REQ_ERR, 2);
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_LIMIT, self->s.srq.srq_num, 3, 8);
	/* Of two that are left one is closed. */
	EXPECT_EQ(0, ev_source_close(&self->x, &self->s));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_TGT_QP_CREATED, second.qp_num, 0, 1);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &second));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_DEVICE_REMOVED, 0, 0, 0);
	EXPECT_END(self->ef);
	EXPECT_EQ(-EIO, xrc_event_file_create(&self->x, -1, &fd));
}

/* To each file of the device, also to one that nothing reports to any more. */
TEST_F_TIMEOUT(own_device, removal_is_told_to_all, TIMEOUT)
{
	struct xrc elsewhere, second;
	int ef[3], other, i;

	ASSERT_EQ(0, xrc_open_node(&elsewhere));
	ASSERT_EQ(0, xrc_bind(&elsewhere, self->other));
	ASSERT_EQ(0, xrc_event_file_create(&elsewhere, -1, &other));
	ASSERT_EQ(0, xrc_open(&second));
	ef[0] = self->ef;
	ASSERT_EQ(0, xrc_event_file_create(&self->x, 1, &ef[1]));
	ASSERT_EQ(0, xrc_event_file_create(&second, 1, &ef[2]));
	xrc_close(&second);
	ASSERT_EQ(0, delete_link());
	for (i = 0; i < 3; i++) {
		EXPECT_EVENT(ef[i], IB_XRC_EVENT_DEVICE_REMOVED, 0, 0, 0);
		EXPECT_END(ef[i]);
	}
	EXPECT_NO_EVENT(other);
	for (i = 1; i < 3; i++)
		close(ef[i]);
	close(other);
	xrc_close(&elsewhere);
}

/* With the network interface; its port may be said to be down before. */
TEST_F_TIMEOUT(own_device, removal_with_netdev, TIMEOUT)
{
	struct ib_xrc_event event;

	ASSERT_EQ(0, sh("ip link del " OWN_NETDEV));
	do {
		ASSERT_EQ(0, xrc_event_wait(self->ef, &event, XRC_TIMEOUT_MS));
	} while (event.type == IB_XRC_EVENT_PORT_DOWN); {
	EXPECT_EQ((__u32)IB_XRC_EVENT_DEVICE_REMOVED, event.type);
	}
	EXPECT_END(self->ef);
}

/* The event file is closed when the device is gone, and when it is about to go. */
TEST_F_TIMEOUT(own_device, closed_around_removal, TIMEOUT)
{
	struct ev_reader r;
	int fd[8], i;
	pid_t pid;

	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, xrc_event_file_create(&self->x, 1, &fd[i]));
	}
	ASSERT_EQ(0, ev_reader_start(&r, self->ef));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		execlp("rdma", "rdma", "link", "del", OWN_DEVICE, NULL);
		_exit(1);
	}
	/* At any moment of it, as the last ones are closed after. */
	for (i = 0; i < 4; i++)
		close(fd[i]);
	pthread_join(r.thread, NULL);
	EXPECT_EQ((__u32)IB_XRC_EVENT_DEVICE_REMOVED, r.event.type);
	for (; i < 6; i++)
		close(fd[i]);
	EXPECT_EQ(pid, waitpid(pid, &i, 0));
	EXPECT_EQ(0, i);
	for (i = 6; i < 8; i++)
		close(fd[i]);
}

TEST_HARNESS_MAIN
