// SPDX-License-Identifier: GPL-2.0
/*
 * Who waits for whom: each resource that a message needs, used up, and who goes on
 * meanwhile. See Documentation/flow-control.rst.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "inbox.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define PART IB_XRC_WIRE_PART_SIZE
#define PEERS 3
#define DEPTH 1024
#define INI_SIZE (1024 * 1024)
#define SMALL 16

FIXTURE(backlog)
{
	struct xrc x;
	__u32 xrcd;
	struct peer peer[PEERS];
	/* Two SRQs, with a CQ each. */
	struct xrc_cq cq[2];
	struct inbox slow, fast;
	struct ib_xrc_limits limits;
	/* Parts that may wait at an SRQ, and buffers of a TGT QP. */
	__u32 places, buffers;
};

FIXTURE_SETUP(backlog)
{
	int i;

	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_limits(&self->x, &self->limits));
	self->buffers = self->limits.tgt_qp_recv_wr;
	self->places = self->limits.srq_bytes /
		       (self->limits.tgt_qp_bytes / self->buffers);
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	for (i = 0; i < PEERS; i++)
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE,
				       &self->peer[i]));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, xrc_cq_create(&self->x, 1024, 0, XRC_NO_FD,
					   &self->cq[i]));
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq[0], 512,
				64 * PART, XRC_NO_FD, &self->slow));
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq[1], 512,
				64 * PART, XRC_NO_FD, &self->fast));
}

FIXTURE_TEARDOWN(backlog)
{
	int i;

	for (i = 0; i < PEERS; i++)
		xrc_ini_close(&self->peer[i].ini);
	xrc_close(&self->x);
}

typedef FIXTURE_DATA(backlog) backlog_t;

/* Small messages with the seeds from first on. */
static int send_small(struct peer *p, const struct inbox *to, __u32 n,
		      unsigned int first)
{
	int ret = 0;
	__u32 i;

	for (i = 0; i < n && !ret; i++)
		ret = peer_send(p, to, (first + i) % DEPTH * SMALL, SMALL,
				first + i);
	return ret;
}

/* The next n completions are those of small messages, from this peer, in order. */
static int receive_small(struct inbox *in, const struct peer *from, __u32 n,
			 unsigned int first)
{
	struct ib_xrc_cqe cqe;
	__u32 i;
	int ret;

	for (i = 0; i < n; i++) {
		ret = inbox_wait(in, &cqe);
		if (ret)
			return ret;
		if (cqe.qp_num != from->qp.qp_num ||
		    !inbox_has(in, &cqe, SMALL, first + i))
			return -EBADMSG;
	}
	return 0;
}

/* Nothing more is acknowledged for a while. */
static bool is_held(struct peer *p)
{
	struct ibv_wc wc;

	return xrc_ini_wait(&p->ini, &wc, 200) == -ETIME;
}

/* Let messages of a TGT QP wait at the slow SRQ, until one more finds no place. */
static int fill_places(backlog_t *self, struct peer *p)
{
	int ret = send_small(p, &self->slow, self->places, 0);

	return ret ? ret : peer_wait_sent(p, self->places);
}

/*
 * Places of an SRQ are used up, then the buffers of a TGT QP: its sender is held, for
 * all SRQs; other TGT QPs are not. A buffer that is posted lets one message go.
 */
TEST_F_TIMEOUT(backlog, slow_srq, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	const __u32 all = self->places + self->buffers;

	ASSERT_EQ(0, inbox_post(&self->fast, 20));
	ASSERT_EQ(0, fill_places(self, a));
	/* The SRQ has no place left: each takes a buffer of the QP. */
	ASSERT_EQ(0, send_small(a, &self->slow, self->buffers - 1, self->places));
	ASSERT_EQ(0, peer_wait_sent(a, self->buffers - 1));
	/* With the last buffer other SRQs are still reached. */
	ASSERT_EQ(0, send_small(a, &self->fast, 5, 900));
	ASSERT_EQ(0, receive_small(&self->fast, a, 5, 900));
	ASSERT_EQ(0, peer_wait_sent(a, 5));
	ASSERT_EQ(0, send_small(a, &self->slow, 1, all - 1));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	ASSERT_EQ(0, inbox_wait_waiting(&self->slow, self->xrcd, all));

	/* Now they are not. */
	ASSERT_EQ(0, send_small(a, &self->fast, 1, 905));
	EXPECT_TRUE(is_held(a));
	EXPECT_TRUE(inbox_idle(&self->fast));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &a->qp));
	/* By another TGT QP they are, both. */
	ASSERT_EQ(0, send_small(b, &self->fast, 5, 100));
	ASSERT_EQ(0, receive_small(&self->fast, b, 5, 100));
	ASSERT_EQ(0, peer_wait_sent(b, 5));
	ASSERT_EQ(0, send_small(b, &self->slow, self->buffers, 200));
	ASSERT_EQ(0, peer_wait_sent(b, self->buffers));
	ASSERT_EQ(0, inbox_wait_waiting(&self->slow, self->xrcd,
					all + self->buffers));
	ASSERT_EQ(0, send_small(b, &self->fast, 1, 105));
	EXPECT_TRUE(is_held(b));

	/*
	 * The first ones give places back, which are for who comes next; the QP
	 * waits for one of those that have its buffers.
	 */
	ASSERT_EQ(0, inbox_post(&self->slow, self->places));
	ASSERT_EQ(0, receive_small(&self->slow, a, self->places, 0));
	EXPECT_TRUE(is_held(a));
	ASSERT_EQ(0, inbox_post(&self->slow, 1));
	ASSERT_EQ(0, receive_small(&self->slow, a, 1, self->places));
	ASSERT_EQ(0, receive_small(&self->fast, a, 1, 905));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	EXPECT_TRUE(is_held(b));
	/* The rest: nothing is lost. */
	ASSERT_EQ(0, inbox_post(&self->slow, 2 * self->buffers - 1));
	ASSERT_EQ(0, receive_small(&self->slow, a, self->buffers - 1,
				   self->places + 1));
	ASSERT_EQ(0, receive_small(&self->slow, b, self->buffers, 200));
	ASSERT_EQ(0, receive_small(&self->fast, b, 1, 105));
	ASSERT_EQ(0, peer_wait_sent(b, 1));
	EXPECT_EQ(0, inbox_wait_waiting(&self->slow, self->xrcd, 0));
}

/* An SRQ that is destroyed lets go of what waits for it. */
TEST_F_TIMEOUT(backlog, slow_srq_goes, TIMEOUT)
{
	struct peer *a = &self->peer[0];

	ASSERT_EQ(0, inbox_post(&self->fast, 1));
	ASSERT_EQ(0, fill_places(self, a));
	ASSERT_EQ(0, send_small(a, &self->slow, self->buffers, self->places));
	ASSERT_EQ(0, peer_wait_sent(a, self->buffers));
	ASSERT_EQ(0, send_small(a, &self->fast, 1, 9));
	EXPECT_TRUE(is_held(a));
	ASSERT_EQ(0, inbox_close(&self->slow));
	ASSERT_EQ(0, receive_small(&self->fast, a, 1, 9));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &a->qp));
}

/* A TGT QP that is disconnected gives its places back: others go on. */
TEST_F_TIMEOUT(backlog, slow_peer_goes, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct ib_xrc_disconnect_info info;

	ASSERT_EQ(0, inbox_post(&self->fast, 1));
	ASSERT_EQ(0, fill_places(self, a));
	/* What is acknowledged may not be there yet, and b would be faster. */
	ASSERT_EQ(0, inbox_wait_waiting(&self->slow, self->xrcd, self->places));
	ASSERT_EQ(0, send_small(b, &self->slow, self->buffers, 0));
	ASSERT_EQ(0, peer_wait_sent(b, self->buffers));
	ASSERT_EQ(0, send_small(b, &self->fast, 1, 9));
	EXPECT_TRUE(is_held(b));
	ASSERT_EQ(0, xrc_tgt_disconnect(&self->x, &a->qp, 0, &info));
	EXPECT_EQ(self->places, info.flushed_msgs);
	/* What has buffers of b keeps them, until it is delivered. */
	EXPECT_TRUE(is_held(b));
	ASSERT_EQ(0, inbox_post(&self->slow, 1));
	ASSERT_EQ(0, receive_small(&self->slow, b, 1, 0));
	ASSERT_EQ(0, receive_small(&self->fast, b, 1, 9));
	ASSERT_EQ(0, peer_wait_sent(b, 1));
	ASSERT_EQ(0, inbox_post(&self->slow, self->buffers - 1));
	ASSERT_EQ(0, receive_small(&self->slow, b, self->buffers - 1, 1));
}

/* Two TGT QPs with half a message each, and one buffer: who has it goes on. */
TEST_F_TIMEOUT(backlog, two_halves, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct inbox *in = &self->slow;
	struct ib_xrc_cqe cqe;

	ASSERT_EQ(0, inbox_post(in, 1));
	ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_MORE, PART));
	ASSERT_EQ(0, inbox_wait_taken(in, 1));
	ASSERT_EQ(0, peer_send_part(b, in, IB_XRC_WIRE_MORE, PART));
	ASSERT_EQ(0, inbox_wait_waiting(in, self->xrcd, 2));
	/* b is complete first, but has no buffer. */
	ASSERT_EQ(0, peer_send_part(b, in, IB_XRC_WIRE_CONT, 1));
	ASSERT_EQ(0, peer_wait_sent(b, 2));
	EXPECT_TRUE(inbox_idle(in));
	ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_CONT, 2));
	ASSERT_EQ(0, inbox_wait(in, &cqe));
	EXPECT_EQ(a->qp.qp_num, cqe.qp_num);
	EXPECT_EQ(PART + 2U, cqe.byte_len);
	EXPECT_TRUE(inbox_idle(in));
	ASSERT_EQ(0, inbox_post(in, 1));
	ASSERT_EQ(0, inbox_wait(in, &cqe));
	EXPECT_EQ(b->qp.qp_num, cqe.qp_num);
	EXPECT_EQ(PART + 1U, cqe.byte_len);
}

/*
 * The SRQ has no place left and posts nothing before it gets a buffer back, which a
 * message of another TGT QP has: the rest of that passes all who wait.
 */
TEST_F_TIMEOUT(backlog, rest_passes_a_full_backlog, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct inbox *in = &self->slow;
	struct ib_xrc_cqe cqe;
	__u32 i;

	ASSERT_EQ(0, inbox_post(in, 1));
	ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_MORE, PART));
	ASSERT_EQ(0, inbox_wait_taken(in, 1));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	ASSERT_EQ(0, fill_places(self, b));
	ASSERT_EQ(0, send_small(b, in, self->buffers, self->places));
	ASSERT_EQ(0, peer_wait_sent(b, self->buffers));
	for (i = 1; i < 60; i++)
		ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_MORE |
					    IB_XRC_WIRE_CONT, PART));
	ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_CONT, 7));
	ASSERT_EQ(0, inbox_wait(in, &cqe));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	EXPECT_EQ(a->qp.qp_num, cqe.qp_num);
	EXPECT_EQ(60U * PART + 7, cqe.byte_len);
	ASSERT_EQ(0, peer_wait_sent(a, 60));
	EXPECT_TRUE(inbox_idle(in));
	/* Those who waited follow. */
	ASSERT_EQ(0, inbox_post(in, self->places + self->buffers));
	ASSERT_EQ(0, receive_small(in, b, self->places + self->buffers, 0));
}

/* One buffer of the TGT QP is left, all others are at a slow SRQ: it is enough. */
TEST_F_TIMEOUT(backlog, long_message_by_the_last_buffer, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	const __u32 length = 50 * PART + 3, at = DEPTH * SMALL;
	struct ib_xrc_cqe cqe;

	ASSERT_EQ(0, inbox_post(&self->fast, 1));
	ASSERT_EQ(0, fill_places(self, b));
	ASSERT_EQ(0, send_small(a, &self->slow, self->buffers - 1, 0));
	ASSERT_EQ(0, peer_wait_sent(a, self->buffers - 1));
	ASSERT_EQ(0, peer_send(a, &self->fast, at, length, 4));
	ASSERT_EQ(0, inbox_wait(&self->fast, &cqe));
	EXPECT_TRUE(inbox_has(&self->fast, &cqe, length, 4));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	EXPECT_EQ(0, xrc_cq_poll(&self->cq[0], &cqe));
}

/*
 * The same, and that SRQ has neither a buffer nor a place: the message has the last
 * buffer of its TGT QP, and goes on once its turn has come.
 */
TEST_F_TIMEOUT(backlog, long_message_to_a_full_srq, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	const __u32 length = 50 * PART + 3, at = DEPTH * SMALL;
	struct ib_xrc_cqe cqe;

	ASSERT_EQ(0, fill_places(self, b));
	ASSERT_EQ(0, send_small(b, &self->fast, self->places, 0));
	ASSERT_EQ(0, peer_wait_sent(b, self->places));
	ASSERT_EQ(0, send_small(a, &self->slow, self->buffers - 1, 0));
	ASSERT_EQ(0, peer_wait_sent(a, self->buffers - 1));
	ASSERT_EQ(0, peer_send(a, &self->fast, at, length, 4));
	EXPECT_TRUE(is_held(a));
	ASSERT_EQ(0, inbox_post(&self->fast, self->places));
	ASSERT_EQ(0, receive_small(&self->fast, b, self->places, 0));
	EXPECT_TRUE(inbox_idle(&self->fast));
	ASSERT_EQ(0, inbox_post(&self->fast, 1));
	ASSERT_EQ(0, inbox_wait(&self->fast, &cqe));
	EXPECT_TRUE(inbox_has(&self->fast, &cqe, length, 4));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	/* The slow one still is, and nobody minds. */
	EXPECT_EQ(0, xrc_cq_poll(&self->cq[0], &cqe));
}

/* A message that is longer than what may wait holds those behind it. */
TEST_F_TIMEOUT(backlog, long_message_without_buffer, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	const __u32 length = (self->places + self->buffers + 9) * PART;
	struct ib_xrc_cqe cqe;
	struct inbox in;

	ASSERT_GE(INI_SIZE - DEPTH * SMALL, length);
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq[0], 2, length,
				XRC_NO_FD, &in));
	ASSERT_EQ(0, inbox_post(&self->fast, 4));
	ASSERT_EQ(0, peer_send(a, &in, DEPTH * SMALL, length, 8));
	ASSERT_EQ(0, send_small(a, &self->fast, 1, 1));
	EXPECT_TRUE(is_held(a));
	EXPECT_TRUE(inbox_idle(&self->fast));
	ASSERT_EQ(0, send_small(b, &self->fast, 3, 5));
	ASSERT_EQ(0, receive_small(&self->fast, b, 3, 5));
	ASSERT_EQ(0, inbox_post(&in, 1));
	ASSERT_EQ(0, inbox_wait(&in, &cqe));
	EXPECT_TRUE(inbox_has(&in, &cqe, length, 8));
	ASSERT_EQ(0, receive_small(&self->fast, a, 1, 1));
	ASSERT_EQ(0, peer_wait_sent(a, 2));
}

/*
 * A sender that is gone in the middle of a message: its buffer stays with it until the
 * TGT QP is disconnected, as on a device. Others use the other buffers.
 */
TEST_F_TIMEOUT(backlog, dead_sender, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct ib_xrc_disconnect_info info;
	struct inbox *in = &self->slow;
	struct ib_xrc_cqe cqe;

	ASSERT_EQ(0, inbox_post(in, 3));
	ASSERT_EQ(0, peer_send_part(a, in, IB_XRC_WIRE_MORE, PART));
	ASSERT_EQ(0, inbox_wait_taken(in, 1));
	xrc_ini_close(&a->ini);
	ASSERT_EQ(0, send_small(b, in, 3, 0));
	ASSERT_EQ(0, receive_small(in, b, 2, 0));
	EXPECT_TRUE(inbox_idle(in));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &a->qp));
	ASSERT_EQ(0, xrc_tgt_disconnect(&self->x, &a->qp, 0, &info));
	EXPECT_EQ(0, info.flushed_msgs);
	ASSERT_EQ(0, inbox_wait(in, &cqe));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, cqe.status);
	EXPECT_EQ(0, cqe.wr_id);
	ASSERT_EQ(0, inbox_post(in, 1));
	ASSERT_EQ(0, receive_small(in, b, 1, 2));
}

/* ---------------------------------------------------------- memory cgroup -- */

#define CGROUP "/sys/fs/cgroup/ib_xrc_backlog"
/* Enough that what the kernel charges in advance does not matter. */
#define SRQS 8

static int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Bytes of kernel memory that are charged to the cgroup, or a negative errno. */
static long long charged(void)
{
	FILE *f = fopen(CGROUP "/memory.stat", "r");
	long long bytes = -ENOENT, n;
	char name[64];

	if (!f)
		return -errno;
	while (fscanf(f, "%63s %lld", name, &n) == 2)
		if (!strcmp(name, "kernel"))
			bytes = n;
	fclose(f);
	return bytes;
}

/* Wait until no more than this is charged: memory is freed after its last user. */
static int wait_charged(long long bytes)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (charged() > bytes) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(10000);
	}
	return 0;
}

/* What the owner of SRQs does, in its cgroup: makes them when told, and leaves. */
static void own(int xrcd_file, int in, int out)
{
	__u32 xrcd, num[SRQS];
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc x;
	char c;
	int i;

	if (read(in, &c, 1) != 1 || xrc_open(&x) ||
	    xrc_xrcd_open(&x, xrcd_file, 0, &xrcd) ||
	    xrc_cq_create(&x, 1, 0, XRC_NO_FD, &cq))
		_exit(1);
	for (i = 0; i < SRQS; i++) {
		if (xrc_srq_create(&x, xrcd, &cq, 1, 1, 0, &srq))
			_exit(2);
		num[i] = srq.srq_num;
	}
	if (write(out, num, sizeof(num)) != sizeof(num) || read(in, &c, 1) != 1)
		_exit(3);
	_exit(0);
}

/* What waits is charged to who made the SRQ, all of it from the start. */
TEST_F_TIMEOUT(backlog, charged_to_the_owner, TIMEOUT)
{
	const long long bytes = (long long)SRQS * self->limits.srq_bytes;
	struct xrc_send send = { .length = SMALL };
	long long before, made, full;
	int to[2], from[2], file, status, i;
	char text[16], c = 0;
	__u32 xrcd, num[SRQS], j;
	struct peer *a, p;
	pid_t pid;

	file = memfd_create("backlog", MFD_CLOEXEC);
	ASSERT_LE(0, file);
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, file, O_CREAT, &xrcd));
	ASSERT_EQ(0, peer_open(&self->x, xrcd, 2048, SMALL, &p));
	a = &p;
	if (write_file("/sys/fs/cgroup/cgroup.subtree_control", "+memory") ||
	    (mkdir(CGROUP, 0755) && errno != EEXIST) ||
	    access(CGROUP "/memory.stat", R_OK))
		SKIP(goto out, "no memory controller of cgroup2");
	ASSERT_EQ(0, pipe2(to, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(from, O_CLOEXEC));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		xrc_close(&self->x);
		own(file, to[0], from[1]);
	}
	snprintf(text, sizeof(text), "%d", pid);
	ASSERT_EQ(0, write_file(CGROUP "/cgroup.procs", text));
	before = charged();
	ASSERT_LE(0, before);
	ASSERT_EQ(1, write(to[1], &c, 1));
	ASSERT_EQ((ssize_t)sizeof(num), read(from[0], num, sizeof(num)));
	made = charged();
	/* The statistics may lag a bit. */
	EXPECT_LE(bytes - bytes / 8, made - before)
		TH_LOG("%lld bytes of %lld", made - before, bytes);
	EXPECT_GE((bytes + bytes / 2) * xrc_memory_scale(), made - before)
		TH_LOG("%lld bytes of %lld", made - before, bytes);

	/* Messages that come, until the sender is held, change nothing. */
	for (i = 0; i < SRQS; i++) {
		send.srq_num = num[i];
		for (j = 0; j < self->places; j++)
			ASSERT_EQ(0, xrc_ini_send(&a->ini, &send));
		ASSERT_EQ(0, peer_wait_sent(a, self->places));
	}
	send.srq_num = num[0];
	for (j = 0; j <= self->buffers; j++)
		ASSERT_EQ(0, xrc_ini_send(&a->ini, &send));
	ASSERT_EQ(0, peer_wait_sent(a, self->buffers));
	EXPECT_TRUE(is_held(a));
	full = charged();
	EXPECT_GE(made + bytes / 8, full)
		TH_LOG("%lld bytes more", full - made);

	/* It goes with the owner, but for buffers that the TGT QP has exchanged. */
	ASSERT_EQ(1, write(to[1], &c, 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(to[0]);
	close(to[1]);
	close(from[0]);
	close(from[1]);
	EXPECT_EQ(0, wait_charged(before + self->limits.tgt_qp_bytes + bytes / 8))
		TH_LOG("%lld bytes are left", charged() - before);
out:
	peer_close(&self->x, a);
	close(file);
	rmdir(CGROUP);
}

TEST_HARNESS_MAIN
