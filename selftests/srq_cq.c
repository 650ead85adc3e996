// SPDX-License-Identifier: GPL-2.0
/*
 * SRQs and CQs without much traffic: limits, rings and how they are mapped, and
 * completion channels.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

/* A domain and an INI QP connected to a TGT QP of it. */
FIXTURE(srq_cq)
{
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_ini ini;
	struct ib_xrc_limits limits;
	int channel;
	__u8 buf[4096];
};

FIXTURE_SETUP(srq_cq)
{
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_limits(&self->x, &self->limits));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
	ASSERT_EQ(0, xrc_ini_open(&self->ini, 64, 4096));
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
	ASSERT_EQ(0, xrc_channel_create(&self->x, &self->channel));
}

FIXTURE_TEARDOWN(srq_cq)
{
	xrc_ini_close(&self->ini);
	close(self->channel);
	xrc_close(&self->x);
}

typedef FIXTURE_DATA(srq_cq) srq_cq_t;

/* Send one message and wait until the INI side knows that it has arrived. */
static int send_one(srq_cq_t *self, __u32 srq_num, bool solicited)
{
	struct xrc_send send = {
		.srq_num = srq_num, .length = 8, .solicited = solicited,
	};
	struct ibv_wc wc;
	int ret;

	ret = xrc_ini_send(&self->ini, &send);
	if (!ret)
		ret = xrc_ini_wait(&self->ini, &wc, XRC_TIMEOUT_MS);
	return ret ? ret : wc.status ? -EIO : 0;
}

/* A CQ and an SRQ with one buffer posted that many times. */
static int make(srq_cq_t *self, __u32 cqe, __u64 handle, int channel,
		__u32 posted, struct xrc_cq *cq, struct xrc_srq *srq)
{
	__u32 i;
	int ret;

	ret = xrc_cq_create(&self->x, cqe, handle, channel, cq);
	if (!ret)
		ret = xrc_srq_create(&self->x, self->xrcd, cq, 64, 1, ~handle,
				     srq);
	for (i = 0; i < posted && !ret; i++)
		ret = xrc_srq_post(&self->x, srq, i, self->buf,
				   sizeof(self->buf));
	return ret;
}

static void nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* ---------------------------------------------------------------- limits -- */

static __u32 power_of_two(__u32 n)
{
	__u32 p = 1;

	while (p < n)
		p *= 2;
	return p;
}

static void check_ring(struct __test_metadata *_metadata,
		       const struct ib_xrc_ring_info *info, __u32 wanted,
		       __u32 stride)
{
	const size_t page = sysconf(_SC_PAGESIZE);

	EXPECT_EQ(power_of_two(wanted), info->entries);
	EXPECT_EQ(stride, info->stride);
	EXPECT_EQ(0, info->mmap_length % page);
	EXPECT_EQ(0, info->mmap_offset % page);
	EXPECT_LE(IB_XRC_RING_ENTRIES_OFFSET + (__u64)info->entries * stride,
		  info->mmap_length);
	EXPECT_GT(IB_XRC_RING_ENTRIES_OFFSET + (__u64)info->entries * stride +
		  page, info->mmap_length);
}

TEST_F(srq_cq, cq_sizes)
{
	const __u32 good[] = {
		1, 2, 3, 63, 64, 65, 1000, self->limits.max_cqe,
	};
	const __u32 bad[] = {
		0, self->limits.max_cqe + 1, 0x7fffffff, 0x80000000, 0xffffffff,
	};
	struct xrc_cq cq;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(good); i++) {
		ASSERT_EQ(0, xrc_cq_create(&self->x, good[i], 0, XRC_NO_FD, &cq));
		check_ring(_metadata, &cq.info, good[i],
			   sizeof(struct ib_xrc_cqe));
		EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, xrc_cq_create(&self->x, bad[i], 0, XRC_NO_FD,
						 &cq));
	}
}

TEST_F(srq_cq, srq_sizes)
{
	const struct {
		__u32 wr, sge;
	} good[] = {
		{ 1, 1 }, { 3, 1 }, { 64, 2 }, { 100, 3 },
		{ self->limits.max_srq_wr, 1 },
		{ 1, self->limits.max_srq_sge },
		{ self->limits.max_srq_wr, self->limits.max_srq_sge },
	}, bad[] = {
		{ 0, 1 }, { 1, 0 }, { 0, 0 },
		{ self->limits.max_srq_wr + 1, 1 },
		{ 1, self->limits.max_srq_sge + 1 },
		{ 0xffffffff, 1 }, { 1, 0xffffffff }, { 0x80000000, 0x80000000 },
	};
	struct ib_xrc_xrcd_info info;
	struct xrc_srq srq;
	struct xrc_cq cq;
	unsigned int i;

	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq,
					    good[i].wr, good[i].sge, 0, &srq));
		check_ring(_metadata, &srq.info, good[i].wr,
			   16 + 16 * good[i].sge);
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, xrc_srq_create(&self->x, self->xrcd, &cq,
						  bad[i].wr, bad[i].sge, 0,
						  &srq));
	}
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &info));
	EXPECT_EQ(0, info.srqs);
}

TEST_F(srq_cq, new_rings_are_empty)
{
	struct ib_xrc_cq_ring cq_ring = {};
	struct ib_xrc_srq_ring srq_ring = {};
	struct xrc_srq srq;
	struct xrc_cq cq;
	const char *p;
	size_t i;

	ASSERT_EQ(0, make(self, 64, 0, XRC_NO_FD, 0, &cq, &srq));
	EXPECT_EQ(0, memcmp(cq.ring, &cq_ring, sizeof(cq_ring)));
	EXPECT_EQ(0, memcmp(srq.ring, &srq_ring, sizeof(srq_ring)));
	/* Nor is anything of the kernel's left in the rest. */
	p = (const char *)cq.ring;
	for (i = 0; i < cq.info.mmap_length && !p[i]; i++)
		;
	EXPECT_EQ(cq.info.mmap_length, i);
	p = (const char *)srq.ring;
	for (i = 0; i < srq.info.mmap_length && !p[i]; i++)
		;
	EXPECT_EQ(srq.info.mmap_length, i);
}

TEST_F(srq_cq, many)
{
	struct xrc_cq cq[50];
	struct xrc_srq srq[50];
	int i, j;

	/* Their rings do not overlap. */
	for (i = 0; i < 50; i++) {
		ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 0, &cq[i], &srq[i]));
		cq[i].ring->reserved2[0] = i;
		srq[i].ring->reserved2[0] = 1000 + i;
	}
	for (i = 0; i < 50; i++) {
		EXPECT_EQ(i, cq[i].ring->reserved2[0]);
		EXPECT_EQ(1000 + i, srq[i].ring->reserved2[0]);
		for (j = 0; j < i; j++) {
			EXPECT_NE(cq[i].info.mmap_offset, cq[j].info.mmap_offset);
		}
	}
	for (i = 0; i < 50; i++) {
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq[i]));
		EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq[i]));
	}
}

TEST_F(srq_cq, cq_busy_with_srq)
{
	struct xrc_srq srq, second;
	struct xrc_cq cq;

	ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 0, &cq, &srq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq, 1, 1, 0, &second));
	EXPECT_EQ(-EBUSY, xrc_cq_destroy(&self->x, &cq));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(-EBUSY, xrc_cq_destroy(&self->x, &cq));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &second));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

/* ---------------------------------------------------------------- mapping -- */

static void *map(const struct xrc *x, __u64 length, int prot, int flags,
		 __u64 offset)
{
	return mmap(NULL, length, prot, flags, x->fd, offset);
}

TEST_F(srq_cq, mmap_refused)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const int rw = PROT_READ | PROT_WRITE;
	struct ib_xrc_ring_info info;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc other;

	ASSERT_EQ(0, make(self, 1000, 0, XRC_NO_FD, 0, &cq, &srq));
	info = cq.info;
	/* No ring is there. */
	EXPECT_EQ(MAP_FAILED, map(&self->x, page, rw, MAP_SHARED, 1ULL << 40));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, map(&self->x, page, rw, MAP_SHARED, 1ULL << 62));
	EXPECT_EQ(EINVAL, errno);
	/* Too long. */
	EXPECT_EQ(MAP_FAILED, map(&self->x, info.mmap_length + page, rw,
				  MAP_SHARED, info.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, map(&self->x, 1ULL << 40, rw, MAP_SHARED,
				  info.mmap_offset));
	/* A copy would be of no use. */
	EXPECT_EQ(MAP_FAILED, map(&self->x, info.mmap_length, rw, MAP_PRIVATE,
				  info.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(MAP_FAILED, map(&self->x, info.mmap_length, PROT_READ,
				  MAP_PRIVATE, info.mmap_offset));
	/* What both sides write is not to be run. */
	EXPECT_EQ(MAP_FAILED, map(&self->x, info.mmap_length, rw | PROT_EXEC,
				  MAP_SHARED, info.mmap_offset));
	/* A ring is of one file. */
	ASSERT_EQ(0, xrc_open(&other));
	EXPECT_EQ(MAP_FAILED, map(&other, info.mmap_length, rw, MAP_SHARED,
				  info.mmap_offset));
	EXPECT_EQ(EINVAL, errno);
	xrc_close(&other);
}

TEST_F(srq_cq, mapping_does_not_change)
{
	struct xrc_srq srq;
	struct xrc_cq cq;

	ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 0, &cq, &srq));
	EXPECT_EQ(-1, mprotect(cq.ring, cq.info.mmap_length,
			       PROT_READ | PROT_EXEC));
	EXPECT_EQ(MAP_FAILED, mremap(cq.ring, cq.info.mmap_length,
				     4 * cq.info.mmap_length, MREMAP_MAYMOVE));
	/* It still is what it was. */
	EXPECT_EQ(0, cq.ring->producer);
}

TEST_F(srq_cq, mapped_twice)
{
	struct ib_xrc_srq_ring *again;
	struct xrc_srq srq;
	struct xrc_cq cq;

	ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 0, &cq, &srq));
	again = xrc_ring_map(&self->x, &srq.info);
	ASSERT_NE(MAP_FAILED, again);
	srq.ring->producer = 7;
	EXPECT_EQ(7, again->producer);
	munmap(srq.ring, srq.info.mmap_length);
	EXPECT_EQ(7, again->producer);
	srq.ring = again;
}

TEST_F(srq_cq, mapping_outlives_ring)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	void *ring[2];
	size_t len[2];
	char *p;
	size_t j;
	int i;

	ASSERT_EQ(0, make(self, 1000, 0, XRC_NO_FD, 4, &cq, &srq));
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	ring[0] = cq.ring;
	len[0] = cq.info.mmap_length;
	ring[1] = srq.ring;
	len[1] = srq.info.mmap_length;
	cq.ring = NULL;
	srq.ring = NULL;
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
	/* Memory that is nobody's but ours: it can be written and read. */
	for (i = 0; i < 2; i++)
		memset(ring[i], 0x5a + i, len[i]);
	/* New rings do not get it. */
	ASSERT_EQ(0, make(self, 1000, 0, XRC_NO_FD, 4, &cq, &srq));
	EXPECT_EQ(0, cq.ring->producer);
	for (i = 0; i < 2; i++) {
		p = ring[i];
		for (j = 0; j < len[i] && p[j] == 0x5a + i; j++)
			;
		EXPECT_EQ(len[i], j);
		EXPECT_EQ(0, munmap(ring[i], len[i]));
	}
	/* A ring that is gone is not mapped again. */
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
	EXPECT_EQ(MAP_FAILED, xrc_ring_map(&self->x, &cq.info));
	EXPECT_EQ(EINVAL, errno);
}

/* With the mapping the file stays, and with the file all that it holds. */
TEST_F_TIMEOUT(srq_cq, mapping_keeps_file, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;

	ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 2, &cq, &srq));
	EXPECT_EQ(0, close(self->x.fd));
	self->x.fd = -1;
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	munmap(cq.ring, cq.info.mmap_length);
	munmap(srq.ring, srq.info.mmap_length);
}

/* What a child does with its copy of fd and mappings does not harm the parent. */
TEST_F_TIMEOUT(srq_cq, fork, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	int status;
	pid_t pid;

	ASSERT_EQ(0, make(self, 4, 0, self->channel, 2, &cq, &srq));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(self->channel);
		munmap(cq.ring, cq.info.mmap_length);
		munmap(srq.ring, srq.info.mmap_length);
		xrc_close(&self->x);
		_exit(0);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);

	/* The child may call and map, too, and sees what the parent has. */
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct ib_xrc_cq_ring *ring = xrc_ring_map(&self->x, &cq.info);

		_exit(ring == MAP_FAILED || ring->producer != 1 ||
		      xrc_srq_kick(&self->x, &srq));
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

/* Whether a whole mapping is there: mincore(2) fails where nothing is. */
static bool is_mapped(void *addr, size_t length)
{
	unsigned char pages[1024];

	return !mincore(addr, length, pages);
}

/*
 * What a process that was given the file finds: the posting ring would let it have the
 * memory of the one which made the SRQ written to. 0, or which check failed.
 */
static int try_rings(const struct xrc *x, const struct xrc_cq *cq,
		     const struct xrc_srq *srq)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct ib_xrc_cq_ring *ring;

	errno = 0;
	if (xrc_ring_map(x, &srq->info) != MAP_FAILED || errno != EACCES)
		return 1;
	/* Nor a part of it, nor for reading. */
	if (map(x, page, PROT_READ, MAP_SHARED, srq->info.mmap_offset) !=
	    MAP_FAILED || errno != EACCES)
		return 2;
	ring = xrc_ring_map(x, &cq->info);
	if (ring == MAP_FAILED)
		return 3;
	if (ring->producer != 1)
		return 4;
	munmap(ring, cq->info.mmap_length);
	return 0;
}

static int try_inherited(const struct xrc *x, const struct xrc_cq *cq,
			 const struct xrc_srq *srq)
{
	int ret;

	if (is_mapped(srq->ring, srq->info.mmap_length))
		return 11;
	if (is_mapped(cq->ring, cq->info.mmap_length))
		return 12;
	ret = try_rings(x, cq, srq);
	if (ret)
		return ret;
	/* Another user is no better. */
	if (setresuid(65534, 65534, 65534))
		return 13;
	ret = try_rings(x, cq, srq);
	return ret ? 20 + ret : 0;
}

/* The rings stay with who made them, even if that one would have it otherwise. */
TEST_F_TIMEOUT(srq_cq, rings_after_fork, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	int status;
	pid_t pid;

	ASSERT_EQ(0, make(self, 1000, 0, self->channel, 2, &cq, &srq));
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_TRUE(is_mapped(srq.ring, srq.info.mmap_length));
	EXPECT_TRUE(is_mapped(cq.ring, cq.info.mmap_length));
	EXPECT_EQ(-1, madvise(srq.ring, srq.info.mmap_length, MADV_DOFORK));
	EXPECT_EQ(-1, madvise(cq.ring, cq.info.mmap_length, MADV_DOFORK));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid)
		_exit(try_inherited(&self->x, &cq, &srq));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status)
		TH_LOG("check %d", WEXITSTATUS(status));

	/* The parent is none the worse for it. */
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	munmap(srq.ring, srq.info.mmap_length);
	srq.ring = xrc_ring_map(&self->x, &srq.info);
	ASSERT_NE(MAP_FAILED, srq.ring);
	EXPECT_EQ(2, srq.ring->consumer);
}

/* What is passed to another process, which is there already, is the file alone. */
TEST_F_TIMEOUT(srq_cq, rings_after_scm_rights, TIMEOUT)
{
	struct {
		struct xrc_cq cq;
		struct xrc_srq srq;
	} *shared;
	char buf[CMSG_SPACE(sizeof(int))] = {}, c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
	struct ib_xrc_cqe cqe;
	int sock[2], status;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		struct xrc x = self->x;

		xrc_close(&self->x);
		if (recvmsg(sock[0], &msg, MSG_CMSG_CLOEXEC) != 1)
			_exit(31);
		cmsg = CMSG_FIRSTHDR(&msg);
		if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
			_exit(32);
		memcpy(&x.fd, CMSG_DATA(cmsg), sizeof(int));
		_exit(try_rings(&x, &shared->cq, &shared->srq));
	}
	ASSERT_EQ(0, make(self, 1000, 0, self->channel, 2, &shared->cq,
			  &shared->srq));
	EXPECT_EQ(0, send_one(self, shared->srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&shared->cq, &cqe, XRC_TIMEOUT_MS));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &self->x.fd, sizeof(int));
	EXPECT_EQ(1, sendmsg(sock[1], &msg, 0));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status)
		TH_LOG("check %d", WEXITSTATUS(status));
	close(sock[0]);
	close(sock[1]);
}

/* Whatever userspace writes into a ring harms only itself. */
TEST_F_TIMEOUT(srq_cq, garbage_in_rings, TIMEOUT)
{
	struct xrc_cq cq, good_cq;
	struct xrc_srq srq, good;
	struct ib_xrc_cqe cqe;
	struct xrc_qp qp;
	struct xrc_ini ini;
	struct xrc_send send = { .length = 8 };
	__u32 *p;
	size_t i;
	int round;

	ASSERT_EQ(0, make(self, 4, 0, XRC_NO_FD, 1, &good_cq, &good));
	srand(1);
	for (round = 0; round < 20; round++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
		ASSERT_EQ(0, xrc_ini_open(&ini, 64, 64));
		ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &qp));
		ASSERT_EQ(0, make(self, 4, 0, self->channel, 1, &cq, &srq));
		for (i = 0, p = (__u32 *)cq.ring; i < cq.info.mmap_length / 4; i++)
			p[i] = rand() * 2654435761U;
		for (i = 0, p = (__u32 *)srq.ring; i < srq.info.mmap_length / 4; i++)
			p[i] = rand() * 2654435761U;
		/* Indices that look right now and then, so that more is used. */
		if (round % 2) {
			srq.ring->producer = srq.info.entries;
			cq.ring->consumer = round % 4;
		}
		if (round % 3) {
			for (i = 0; i < srq.info.entries; i++)
				p[IB_XRC_RING_ENTRIES_OFFSET / 4 +
				  i * srq.info.stride / 4 + 2] = 1;
		}
		send.srq_num = srq.srq_num;
		for (i = 0; i < 8; i++) {
			EXPECT_EQ(0, xrc_ini_send(&ini, &send));
		}
		EXPECT_EQ(0, xrc_srq_kick(&self->x, &srq));
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
		EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
		xrc_ini_close(&ini);
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	}
	/* The neighbour did not notice. */
	EXPECT_EQ(0, send_one(self, good.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&good_cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
}

/* ---------------------------------------------------- completion channels -- */

TEST_F(srq_cq, channel_descriptor)
{
	struct ib_uverbs_comp_event_desc event;

	EXPECT_EQ(FD_CLOEXEC, fcntl(self->channel, F_GETFD));
	EXPECT_EQ(0, fcntl(self->channel, F_GETFL) & O_NONBLOCK);
	EXPECT_EQ(-1, write(self->channel, &event, sizeof(event)));
	EXPECT_TRUE(errno == EBADF || errno == EINVAL);
}

TEST_F(srq_cq, channel_of_cq)
{
	int closed = dup(self->channel), pipes[2];
	struct xrc_cq cq;
	struct xrc other;
	int channel;

	close(closed);
	EXPECT_EQ(-EBADF, xrc_cq_create(&self->x, 1, 0, closed, &cq));
	/* Not a channel. */
	ASSERT_EQ(0, pipe(pipes));
	EXPECT_EQ(-EBADF, xrc_cq_create(&self->x, 1, 0, pipes[0], &cq));
	EXPECT_EQ(-EBADF, xrc_cq_create(&self->x, 1, 0, self->x.fd, &cq));
	EXPECT_EQ(-EBADF, xrc_cq_create(&self->x, 1, 0,
					 self->ini.channel->fd, &cq));
	/* Another file's: lookup_get_fd_uobject() says the same of it. */
	ASSERT_EQ(0, xrc_open(&other));
	ASSERT_EQ(0, xrc_channel_create(&other, &channel));
	EXPECT_EQ(-EBADF, xrc_cq_create(&self->x, 1, 0, channel, &cq));
	close(channel);
	xrc_close(&other);
	/* Another descriptor of the same channel is as good. */
	channel = dup(self->channel);
	EXPECT_EQ(0, xrc_cq_create(&self->x, 1, 0, channel, &cq));
	close(channel);
	close(pipes[0]);
	close(pipes[1]);
}

TEST_F(srq_cq, channel_without_event)
{
	struct pollfd pfd = { .fd = self->channel, .events = POLLIN };
	__u64 handle;

	nonblock(self->channel);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(0, poll(&pfd, 1, 0));
}

TEST_F_TIMEOUT(srq_cq, event, TIMEOUT)
{
	const __u64 user_handle = 0xfedcba9876543210;
	struct pollfd pfd = { .fd = self->channel, .events = POLLIN };
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u64 handle, buf[3] = {};

	ASSERT_EQ(0, make(self, 8, user_handle, self->channel, 8, &cq, &srq));
	nonblock(self->channel);

	/* Not armed: no event. The next message would bring it too late. */
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&(struct xrc_cq){ .channel = -1, .info = cq.info,
		.ring = cq.ring }, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));

	/* Arming does not look back. */
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(1, poll(&pfd, 1, 0));
	EXPECT_EQ(POLLIN, pfd.revents);
	EXPECT_EQ(IB_XRC_CQ_ARM_NONE, cq.ring->arm);
	EXPECT_EQ(1, xrc_cq_poll(&cq, &cqe));

	/* A buffer too short for it leaves it there. */
	EXPECT_EQ(-1, read(self->channel, &handle, 7));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, read(self->channel, &handle, 0));
	EXPECT_EQ(EINVAL, errno);
	/* One at a time. */
	EXPECT_EQ(8, read(self->channel, buf, sizeof(buf)));
	EXPECT_EQ(user_handle, buf[0]);
	EXPECT_EQ(0, buf[1]);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));

	/* A bad pointer loses it, as ib_uverbs_event_read() does, but no more. */
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(1, xrc_cq_poll(&cq, &cqe));
	EXPECT_EQ(-1, read(self->channel, xrc_guard_page(), 8));
	EXPECT_EQ(EFAULT, errno);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(1, xrc_cq_poll(&cq, &cqe));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(user_handle, handle);

	/* Armed once, it is raised once. */
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	cq.channel = -1;
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
}

/* Events which nobody has read yet count as one, for each CQ. */
TEST_F_TIMEOUT(srq_cq, events_coalesce, TIMEOUT)
{
	struct xrc_srq srq[2];
	struct xrc_cq cq[2];
	struct ib_xrc_cqe cqe;
	__u64 handle, seen = 0;
	int i, j;

	nonblock(self->channel);
	ASSERT_EQ(0, make(self, 8, 1, self->channel, 8, &cq[0], &srq[0]));
	ASSERT_EQ(0, make(self, 8, 2, self->channel, 8, &cq[1], &srq[1]));
	cq[0].channel = -1;
	cq[1].channel = -1;
	for (j = 0; j < 3; j++) {
		for (i = 0; i < 2; i++) {
			xrc_cq_arm(&cq[i], IB_XRC_CQ_ARM_NEXT);
			EXPECT_EQ(0, send_one(self, srq[i].srq_num, false));
			EXPECT_EQ(0, xrc_cq_wait(&cq[i], &cqe, XRC_TIMEOUT_MS));
			/* The event comes after the completion, arm tells when. */
			while (__atomic_load_n(&cq[i].ring->arm, __ATOMIC_ACQUIRE))
				usleep(100);
		}
	}
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	for (i = 0; i < 2; i++) {
		EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
		EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
		seen += handle;
	}
	EXPECT_EQ(3, seen);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
}

TEST_F_TIMEOUT(srq_cq, arm_solicited, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u64 handle;

	nonblock(self->channel);
	ASSERT_EQ(0, make(self, 8, 5, self->channel, 8, &cq, &srq));
	cq.channel = -1;
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_SOLICITED);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, cqe.wc_flags);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(IB_XRC_CQ_ARM_SOLICITED, cq.ring->arm);

	EXPECT_EQ(0, send_one(self, srq.srq_num, true));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(5, handle);
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IB_XRC_WC_SOLICITED, cqe.wc_flags);
}

/* An error is as good as solicited. */
TEST_F_TIMEOUT(srq_cq, arm_solicited_error, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u64 handle;

	ASSERT_EQ(0, make(self, 8, 6, self->channel, 0, &cq, &srq));
	ASSERT_EQ(0, xrc_srq_post(&self->x, &srq, 0, self->buf, 1));
	cq.channel = -1;
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_SOLICITED);
	/* The TGT QP may be in error before it has acknowledged the message. */
	send_one(self, srq.srq_num, false);
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(6, handle);
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
}

TEST_F_TIMEOUT(srq_cq, user_handle_not_given, TIMEOUT)
{
	struct ib_xrc_ring_info info;
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq = {};
	struct xrc_cq cq = { .channel = self->channel };
	union xrc_cmd cmd;
	__u64 handle = 1;

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_CQ, IB_XRC_METHOD_CQ_CREATE);
	xrc_attr(&cmd, IB_XRC_ATTR_CQ_CREATE_HANDLE);
	xrc_in_u32(&cmd, IB_XRC_ATTR_CQ_CREATE_CQE, 4);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL, self->channel);
	xrc_out(&cmd, IB_XRC_ATTR_CQ_CREATE_RESP_RING, &cq.info, sizeof(info));
	ASSERT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	cq.handle = xrc_find(&cmd, IB_XRC_ATTR_CQ_CREATE_HANDLE)->data;
	cq.ring = xrc_ring_map(&self->x, &cq.info);
	ASSERT_NE(MAP_FAILED, cq.ring);

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_CREATE);
	xrc_attr(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_XRCD, self->xrcd);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_CQ, cq.handle);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_WR, 4);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, 1);
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, &srq.srq_num, 4);
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_RING, &srq.info, sizeof(info));
	ASSERT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	srq.handle = xrc_find(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE)->data;
	srq.max_sge = 1;
	srq.ring = xrc_ring_map(&self->x, &srq.info);
	ASSERT_NE(MAP_FAILED, srq.ring);

	EXPECT_EQ(0, xrc_srq_post(&self->x, &srq, 77, self->buf, 64));
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(0, handle);
	EXPECT_EQ(1, xrc_cq_poll(&cq, &cqe));
	EXPECT_EQ(0, cqe.srq_user_handle);
	EXPECT_EQ(77, cqe.wr_id);
}

/* A CQ takes its events with it. */
TEST_F_TIMEOUT(srq_cq, event_of_destroyed_cq, TIMEOUT)
{
	struct xrc_srq srq[2];
	struct xrc_cq cq[2];
	__u64 handle;
	int i;

	nonblock(self->channel);
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, make(self, 8, i + 1, self->channel, 8, &cq[i],
				  &srq[i]));
		xrc_cq_arm(&cq[i], IB_XRC_CQ_ARM_NEXT);
		EXPECT_EQ(0, send_one(self, srq[i].srq_num, false));
		while (__atomic_load_n(&cq[i].ring->arm, __ATOMIC_ACQUIRE))
			usleep(100);
	}
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq[0]));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq[0]));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(2, handle);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
}

/* The CQ works on without its channel. */
TEST_F_TIMEOUT(srq_cq, channel_closed_first, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	int channel;

	ASSERT_EQ(0, xrc_channel_create(&self->x, &channel));
	ASSERT_EQ(0, make(self, 8, 1, channel, 8, &cq, &srq));
	close(channel);
	cq.channel = -1;
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

static void *read_thread(void *arg)
{
	int *channel = arg;
	__u64 handle = ~0ULL;
	int ret = xrc_channel_read(*channel, &handle);

	return (void *)(long)(ret ? ret : (long)handle);
}

struct reader {
	int channel;
	volatile pid_t tid;
	long ret;
};

static void *blocked_reader(void *arg)
{
	struct reader *r = arg;

	r->tid = gettid();
	r->ret = (long)read_thread(&r->channel);
	return NULL;
}

TEST_F_TIMEOUT(srq_cq, blocking_read, TIMEOUT)
{
	struct reader r = { .channel = self->channel };
	struct xrc_srq srq;
	struct xrc_cq cq;
	pthread_t thread;

	ASSERT_EQ(0, make(self, 8, 42, self->channel, 8, &cq, &srq));
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
	ASSERT_EQ(0, pthread_create(&thread, NULL, blocked_reader, &r));
	while (!r.tid)
		sched_yield();
	xrc_wait_blocked(r.tid);
	EXPECT_EQ(0, send_one(self, srq.srq_num, false));
	pthread_join(thread, NULL);
	EXPECT_EQ(42, r.ret);
}

static void on_signal(int sig)
{
	(void)sig;
}

TEST_F_TIMEOUT(srq_cq, interrupted_read, TIMEOUT)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct reader r = { .channel = self->channel };
	pthread_t thread;

	sigaction(SIGUSR1, &sa, NULL);
	ASSERT_EQ(0, pthread_create(&thread, NULL, blocked_reader, &r));
	while (!r.tid)
		sched_yield();
	xrc_wait_blocked(r.tid);
	pthread_kill(thread, SIGUSR1);
	pthread_join(thread, NULL);
	EXPECT_EQ(-EINTR, r.ret);
}

TEST_F_TIMEOUT(srq_cq, epoll, TIMEOUT)
{
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u64 handle;
	int ep, i;

	nonblock(self->channel);
	ASSERT_EQ(0, make(self, 8, 9, self->channel, 8, &cq, &srq));
	cq.channel = -1;
	ep = epoll_create1(EPOLL_CLOEXEC);
	ASSERT_LE(0, ep);
	ASSERT_EQ(0, epoll_ctl(ep, EPOLL_CTL_ADD, self->channel, &ev));
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	for (i = 0; i < 3; i++) {
		xrc_cq_arm(&cq, IB_XRC_CQ_ARM_NEXT);
		EXPECT_EQ(0, send_one(self, srq.srq_num, false));
		EXPECT_EQ(1, epoll_wait(ep, &ev, 1, XRC_TIMEOUT_MS));
		EXPECT_EQ(EPOLLIN, ev.events);
		EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
		EXPECT_EQ(9, handle);
		EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
		EXPECT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	}
	/* Closed while it is watched. */
	close(self->channel);
	EXPECT_EQ(0, epoll_wait(ep, &ev, 1, 0));
	close(ep);
	self->channel = -1;
}

struct sender {
	srq_cq_t *self;
	__u32 srq_num;
	int n;
	int ret;
};

static void *send_many(void *arg)
{
	struct sender *s = arg;
	int i;

	for (i = 0; i < s->n && !s->ret; i++)
		s->ret = send_one(s->self, s->srq_num, false);
	return NULL;
}

/*
 * Sender and receiver do not wait for each other: if arming lost a completion the
 * receiver would wait for ever.
 */
TEST_F_TIMEOUT(srq_cq, no_lost_wakeup, 300)
{
	struct sender s = { .self = self, .n = 1000 };
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	pthread_t thread;
	int i;

	ASSERT_EQ(0, make(self, 64, 1, self->channel, 32, &cq, &srq));
	s.srq_num = srq.srq_num;
	ASSERT_EQ(0, pthread_create(&thread, NULL, send_many, &s));
	for (i = 0; i < s.n; i++) {
		ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS))
			TH_LOG("after %d of %d", i, s.n);
		ASSERT_EQ(IBV_WC_SUCCESS, cqe.status);
		ASSERT_EQ(0, xrc_srq_post(&self->x, &srq, i, self->buf,
					  sizeof(self->buf)));
	}
	pthread_join(thread, NULL);
	EXPECT_EQ(0, s.ret);
}

TEST_HARNESS_MAIN
