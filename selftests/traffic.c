// SPDX-License-Identifier: GPL-2.0
/*
 * Messages from an ordinary RC QP by a TGT QP to the SRQs they are addressed to.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define DEPTH 2048
#define BUF_SIZE (1024 * 1024)

/* An SRQ, its CQ and memory for what it receives. */
struct receiver {
	struct xrc_cq cq;
	struct xrc_srq srq;
	int channel;
	__u8 *buf;
	__u32 buf_size;
	__u32 posted;
};

FIXTURE(traffic)
{
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_ini ini;
	struct ib_xrc_limits limits;
};

FIXTURE_SETUP(traffic)
{
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_limits(&self->x, &self->limits));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
	ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, BUF_SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
}

FIXTURE_TEARDOWN(traffic)
{
	xrc_ini_close(&self->ini);
	xrc_close(&self->x);
}

typedef FIXTURE_DATA(traffic) traffic_t;

#define SRQ_WR 1024

static int receiver_open(struct xrc *x, __u32 xrcd, __u32 cqe, __u32 buf_size,
			 struct receiver *r)
{
	int ret;

	memset(r, 0, sizeof(*r));
	r->buf_size = buf_size;
	r->buf = mmap(NULL, (size_t)buf_size * SRQ_WR, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r->buf == MAP_FAILED)
		return -errno;
	ret = xrc_channel_create(x, &r->channel);
	if (!ret)
		ret = xrc_cq_create(x, cqe, 0xc0, r->channel, &r->cq);
	if (!ret)
		ret = xrc_srq_create(x, xrcd, &r->cq, SRQ_WR, 1, 0x5190 + cqe,
				     &r->srq);
	return ret;
}

static __u8 *receiver_buf(const struct receiver *r, __u64 wr_id)
{
	return r->buf + wr_id % SRQ_WR * r->buf_size;
}

static int receiver_post(struct xrc *x, struct receiver *r, __u32 n)
{
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_srq_post(x, &r->srq, r->posted,
				   receiver_buf(r, r->posted), r->buf_size);
		if (!ret)
			r->posted++;
	}
	return ret;
}

static int receiver_wait(struct receiver *r, struct ib_xrc_cqe *cqe)
{
	return xrc_cq_wait(&r->cq, cqe, XRC_TIMEOUT_MS);
}

/* Wait until the SRQ ring has these flags: nothing announces them. */
static int wait_flags(const struct receiver *r, __u32 flags)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (__atomic_load_n(&r->srq.ring->flags, __ATOMIC_ACQUIRE) != flags) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(100);
	}
	return 0;
}

/* The numbered message of a stream: its length and contents follow from it. */
static int send_numbered(struct xrc_ini *ini, __u32 srq_num, __u32 i, __u32 max)
{
	struct xrc_send send = {
		.srq_num = srq_num,
		.length = i * 37 % (max + 1),
		.with_imm = i % 3 == 1,
		.imm = i ^ 0xdeadbeef,
	};

	/* Each has its place in the buffer while it is under way. */
	send.offset = i % (BUF_SIZE / (max + 1)) * max;
	xrc_fill(ini->buf + send.offset, send.length, i);
	return xrc_ini_send(ini, &send);
}

static bool check_numbered(const struct receiver *r,
			   const struct ib_xrc_cqe *cqe, __u32 i, __u32 max)
{
	__u32 length = i * 37 % (max + 1);

	return cqe->status == IBV_WC_SUCCESS && cqe->byte_len == length &&
	       xrc_check(receiver_buf(r, cqe->wr_id), length, i) &&
	       cqe->wc_flags == (i % 3 == 1 ? IB_XRC_WC_WITH_IMM : 0) &&
	       (i % 3 != 1 || ntohl(cqe->imm_data) == (i ^ 0xdeadbeef));
}

static int wait_sent(struct xrc_ini *ini, unsigned int n)
{
	struct ibv_wc wc;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS);
		if (!ret && wc.status)
			ret = -EIO;
	}
	return ret;
}

/* --------------------------------------------------------- what arrives -- */

TEST_F_TIMEOUT(traffic, completion, TIMEOUT)
{
	struct ib_xrc_tgt_qp_info info;
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = { .length = 100, .offset = 3 };
	unsigned int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 4096, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 8));
	send.srq_num = r.srq.srq_num;
	for (i = 0; i < 8; i++) {
		send.with_imm = i & 1;
		send.imm = 0x01020304;
		send.solicited = i & 2;
		xrc_fill(self->ini.buf + send.offset, send.length, i);
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, wait_sent(&self->ini, 1));
		memset(&cqe, 0xff, sizeof(cqe));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(0x5190 + 64, cqe.srq_user_handle);
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_EQ(IB_XRC_WC_RECV, cqe.opcode);
		EXPECT_EQ(100, cqe.byte_len);
		EXPECT_EQ((i & 1 ? IB_XRC_WC_WITH_IMM : 0) |
			  (i & 2 ? IB_XRC_WC_SOLICITED : 0), cqe.wc_flags);
		EXPECT_EQ(i & 1 ? htonl(0x01020304) : 0, cqe.imm_data);
		EXPECT_EQ(r.srq.srq_num, cqe.srq_num);
		EXPECT_EQ(self->qp.qp_num, cqe.qp_num);
		EXPECT_EQ(self->ini.qp->qp_num, cqe.src_qp);
		EXPECT_EQ(0, cqe.reserved[0] | cqe.reserved[1] | cqe.reserved[2] |
			  cqe.reserved[3]);
		EXPECT_TRUE(xrc_check(receiver_buf(&r, i), 100, i));
		/* Not a byte more. */
		EXPECT_EQ(0, receiver_buf(&r, i)[100]);
		EXPECT_EQ(i + 1, r.srq.ring->consumer);
	}
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
	EXPECT_EQ(8, info.recv_msgs);
	EXPECT_EQ(800, info.recv_bytes);
	EXPECT_EQ(0, info.refused_msgs);
	EXPECT_EQ(IBV_QPS_RTS, info.state);
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
}

TEST_F_TIMEOUT(traffic, sizes, TIMEOUT)
{
	const __u32 max = XRC_PART_MAX;
	const __u32 size[] = {
		0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 64, 255, 256, 1000, 1023, 1024,
		1025, 2047, 2048, 2049, max / 2, max - 9, max - 8, max - 7,
		max - 1, max,
	};
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = {};
	unsigned int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, max, &r));
	send.srq_num = r.srq.srq_num;
	for (i = 0; i < 2 * ARRAY_SIZE(size); i++) {
		send.length = size[i / 2];
		send.with_imm = i & 1;
		send.imm = i;
		if (send.length > max)
			continue;
		xrc_fill(self->ini.buf, send.length, i);
		ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, receiver_wait(&r, &cqe))
			TH_LOG("%u bytes%s", send.length,
			       i & 1 ? " with immediate" : "");
		ASSERT_EQ(0, wait_sent(&self->ini, 1));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_EQ(send.length, cqe.byte_len);
		EXPECT_EQ(i & 1 ? htonl(i) : 0, cqe.imm_data);
		EXPECT_TRUE(xrc_check(receiver_buf(&r, cqe.wr_id), send.length,
				      i))
			TH_LOG("%u bytes%s", send.length,
			       i & 1 ? " with immediate" : "");
	}
}

/* A receive buffer that is exactly as long as the message, at any alignment. */
TEST_F_TIMEOUT(traffic, exact_buffers, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = {};
	const size_t page = sysconf(_SC_PAGESIZE);
	__u8 *guard = xrc_guard_page();
	__u32 length;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 1, &r));
	send.srq_num = r.srq.srq_num;
	for (length = 0; length < 300; length += length < 20 ? 1 : 23) {
		send.length = length;
		xrc_fill(self->ini.buf, length, length);
		memset(guard - page, 0, page);
		/* Up to the last byte of the page. */
		ASSERT_EQ(0, xrc_srq_post(&self->x, &r.srq, length,
					  guard - length, length));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_EQ(length, cqe.byte_len);
		EXPECT_EQ(length, cqe.wr_id);
		EXPECT_TRUE(xrc_check(guard - length, length, length));
		EXPECT_EQ(0, guard[-(long)length - 1]);
	}
}

/* Memory that is not there yet, or shared after fork, is faulted in. */
TEST_F_TIMEOUT(traffic, untouched_buffers, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = { .length = 1500 };
	const size_t page = sysconf(_SC_PAGESIZE);
	int fd = memfd_create("untouched", 0), i;
	__u8 *at[4];

	ASSERT_EQ(0, ftruncate(fd, 4 * page));
	at[0] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	at[1] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	at[2] = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	at[3] = mmap(NULL, 4 * page, PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 1, &r));
	send.srq_num = r.srq.srq_num;
	for (i = 0; i < 4; i++) {
		ASSERT_NE(MAP_FAILED, at[i]);
		xrc_fill(self->ini.buf, send.length, i);
		/* Across the border of two pages. */
		ASSERT_EQ(0, xrc_srq_post(&self->x, &r.srq, i, at[i] + page - 700,
					  send.length));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_TRUE(xrc_check(at[i] + page - 700, send.length, i));
		munmap(at[i], 4 * page);
	}
	close(fd);
}

/* A child has a copy of the memory: what comes is the parent's. */
TEST_F_TIMEOUT(traffic, buffers_after_fork, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = { .length = 1000 };
	int pipes[2], status;
	pid_t pid;
	char c;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 4096, &r));
	memset(r.buf, 0x77, 4096);
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	ASSERT_EQ(0, pipe(pipes));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		close(pipes[1]);
		/* Until the parent has received. */
		if (read(pipes[0], &c, 1) != 1)
			_exit(2);
		_exit(r.buf[0] != 0x77 || r.buf[999] != 0x77);
	}
	send.srq_num = r.srq.srq_num;
	xrc_fill(self->ini.buf, send.length, 1);
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_TRUE(xrc_check(r.buf, send.length, 1));
	EXPECT_EQ(1, write(pipes[1], "", 1));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(pipes[0]);
	close(pipes[1]);
}

TEST_F_TIMEOUT(traffic, scatter, TIMEOUT)
{
	const __u32 max_sge = self->limits.max_srq_sge;
	struct ib_uverbs_sge sge[64];
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u8 buf[64 * 100];
	struct xrc_send send = {};
	__u32 n, i, at, length;
	int channel;

	ASSERT_GE(64, max_sge);
	ASSERT_EQ(0, xrc_channel_create(&self->x, &channel));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 64, 0, channel, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq, 64, max_sge, 0,
				    &srq));
	send.srq_num = srq.srq_num;
	for (n = 1; n <= max_sge; n++) {
		/* Of different length, some empty, in no order in memory. */
		for (i = length = 0; i < n; i++) {
			sge[i].addr = (uintptr_t)(buf + (n - 1 - i) * 100);
			sge[i].length = i % 4 == 2 ? 0 : 10 + i * 5;
			sge[i].lkey = 0xffffffff;
			length += sge[i].length;
		}
		memset(buf, 0, sizeof(buf));
		/* Full, then not full, then so that only the first is used. */
		send.length = n % 3 == 0 ? length : n % 3 == 1 ? length - 3 : 5;
		xrc_fill(self->ini.buf, send.length, n);
		ASSERT_EQ(0, xrc_srq_postv(&self->x, &srq, n, sge, n));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_EQ(send.length, cqe.byte_len);
		/* Gather what was scattered. */
		for (i = at = 0; i < n; i++) {
			__u32 now = send.length - at;

			if (now > sge[i].length)
				now = sge[i].length;
			EXPECT_EQ(0, memcmp(buf + (n - 1 - i) * 100,
					    self->ini.buf + at, now))
				TH_LOG("%u entries, entry %u", n, i);
			EXPECT_EQ(0, buf[(n - 1 - i) * 100 + now]);
			at += now;
		}
		EXPECT_EQ(send.length, at);
	}
	/* No entry at all is enough for an empty message. */
	send.length = 0;
	ASSERT_EQ(0, xrc_srq_postv(&self->x, &srq, 99, NULL, 0));
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	EXPECT_EQ(0, cqe.byte_len);
	close(channel);
}

/* ---------------------------------------------------------------- order -- */

TEST_F_TIMEOUT(traffic, many, TIMEOUT)
{
	const __u32 n = 3000, max = 1500;
	struct ib_xrc_tgt_qp_info info;
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 sent = 0, i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, SRQ_WR, max, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 100));
	for (i = 0; i < n; i++) {
		for (; sent < n && sent < i + 90; sent++) {
			ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num,
						   sent, max));
		}
		ASSERT_EQ(0, receiver_wait(&r, &cqe))
			TH_LOG("message %u of %u", i, n);
		ASSERT_EQ(i, cqe.wr_id);
		ASSERT_TRUE(check_numbered(&r, &cqe, i, max))
			TH_LOG("message %u of %u", i, n);
		ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
		ASSERT_EQ(0, wait_sent(&self->ini, 1));
	}
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
	EXPECT_EQ(n, info.recv_msgs);
	EXPECT_EQ(IBV_QPS_RTS, info.state);
}

TEST_F_TIMEOUT(traffic, two_srqs_interleaved, TIMEOUT)
{
	const __u32 n = 600, max = 300;
	struct ib_xrc_cqe cqe;
	struct receiver r[2];
	__u32 next[2] = {}, i, k;

	for (k = 0; k < 2; k++) {
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, SRQ_WR, max,
					   &r[k]));
		ASSERT_EQ(0, receiver_post(&self->x, &r[k], n));
	}
	/* In runs of one, two and three. */
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini,
					   r[i * i / 3 % 2].srq.srq_num, i, max));
	}
	for (i = 0; i < n; i++) {
		k = i * i / 3 % 2;
		ASSERT_EQ(0, receiver_wait(&r[k], &cqe));
		/* Each SRQ has its own messages, in the order of the sender. */
		EXPECT_EQ(next[k]++, cqe.wr_id);
		EXPECT_EQ(r[k].srq.srq_num, cqe.srq_num);
		ASSERT_TRUE(check_numbered(&r[k], &cqe, i, max))
			TH_LOG("message %u", i);
	}
	EXPECT_EQ(0, xrc_cq_poll(&r[0].cq, &cqe));
	EXPECT_EQ(0, xrc_cq_poll(&r[1].cq, &cqe));
	EXPECT_EQ(0, wait_sent(&self->ini, n));
}

/* Several TGT QPs and one SRQ: in order for each QP. */
TEST_F_TIMEOUT(traffic, two_senders_one_srq, TIMEOUT)
{
	const __u32 n = 400, max = 200;
	struct ib_xrc_cqe cqe;
	struct xrc_ini second;
	struct receiver r;
	struct xrc_qp qp;
	__u32 next[2] = {}, i, k;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&second, DEPTH, BUF_SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&second, &self->x, &qp));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, SRQ_WR, max, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 2 * n));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, i, max));
		ASSERT_EQ(0, send_numbered(&second, r.srq.srq_num, i, max));
	}
	for (i = 0; i < 2 * n; i++) {
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		k = cqe.qp_num == qp.qp_num;
		EXPECT_EQ(k ? second.qp->qp_num : self->ini.qp->qp_num,
			  cqe.src_qp);
		ASSERT_TRUE(check_numbered(&r, &cqe, next[k], max));
		next[k]++;
	}
	EXPECT_EQ(n, next[0]);
	EXPECT_EQ(n, next[1]);
	xrc_ini_close(&second);
}

/* Many of both, in no order but that of each pair. */
TEST_F_TIMEOUT(traffic, many_to_many, 300)
{
	enum { SENDERS = 6, SRQS = 5, N = 300, MAX = 200 };
	__u32 next[SENDERS][SRQS] = {}, sent[SENDERS][SRQS] = {};
	struct xrc_ini ini[SENDERS];
	struct xrc_qp qp[SENDERS];
	struct receiver r[SRQS];
	struct ib_xrc_cqe cqe;
	int i, k, n, s;

	for (k = 0; k < SRQS; k++) {
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024, MAX, &r[k]));
		ASSERT_EQ(0, receiver_post(&self->x, &r[k], 200));
	}
	for (s = 0; s < SENDERS; s++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp[s]));
		ASSERT_EQ(0, xrc_ini_open(&ini[s], DEPTH, BUF_SIZE));
		ASSERT_EQ(0, xrc_ini_pair(&ini[s], &self->x, &qp[s]));
	}
	srand(3);
	for (i = 0; i < N; i++) {
		for (s = 0; s < SENDERS; s++) {
			k = rand() % SRQS;
			/* Its own place for each SRQ: see send_numbered(). */
			ASSERT_EQ(0, send_numbered(&ini[s], r[k].srq.srq_num,
						   sent[s][k] * SRQS + k, MAX));
			sent[s][k]++;
		}
	}
	for (n = 0; n < SENDERS * N; ) {
		for (k = 0; k < SRQS; k++) {
			while (xrc_cq_poll(&r[k].cq, &cqe)) {
				for (s = 0; s < SENDERS; s++)
					if (cqe.qp_num == qp[s].qp_num)
						break;
				ASSERT_GT(SENDERS, s);
				ASSERT_TRUE(check_numbered(&r[k], &cqe,
					next[s][k] * SRQS + k, MAX));
				next[s][k]++;
				ASSERT_EQ(0, receiver_post(&self->x, &r[k], 1));
				n++;
			}
		}
	}
	EXPECT_EQ(0, memcmp(next, sent, sizeof(sent)));
	for (s = 0; s < SENDERS; s++) {
		EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &qp[s]));
		xrc_ini_close(&ini[s]);
	}
}

/* Two SRQs that complete into one CQ. */
TEST_F_TIMEOUT(traffic, one_cq, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq second;
	struct receiver r;
	struct xrc_send send = { .length = 4 };
	__u8 buf[64];
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 8));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &r.cq, 8, 1, 2, &second));
	for (i = 0; i < 8; i++) {
		ASSERT_EQ(0, xrc_srq_post(&self->x, &second, 100 + i, buf, 64));
	}
	for (i = 0; i < 16; i++) {
		send.srq_num = i % 2 ? second.srq_num : r.srq.srq_num;
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(send.srq_num, cqe.srq_num);
		EXPECT_EQ(i % 2 ? 2 : 0x5190 + 64, cqe.srq_user_handle);
		EXPECT_EQ(i / 2 + (i % 2 ? 100 : 0), cqe.wr_id);
	}
}

/* Rings go round many times, and their indices past 2^32 if they start there. */
TEST_F_TIMEOUT(traffic, small_rings, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_send send = { .length = 4 };
	__u8 buf[4];
	int i;

	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq, 1, 1, 0, &srq));
	send.srq_num = srq.srq_num;
	for (i = 0; i < 500; i++) {
		memcpy(self->ini.buf, &i, 4);
		ASSERT_EQ(0, xrc_srq_post(&self->x, &srq, i, buf, 4));
		ASSERT_EQ(-ENOMEM, xrc_srq_post(&self->x, &srq, i, buf, 4));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
		ASSERT_EQ(i, cqe.wr_id);
		ASSERT_EQ(0, memcmp(buf, &i, 4));
		ASSERT_EQ(0, wait_sent(&self->ini, 1));
	}
}

/* --------------------------------------------------------- back pressure -- */

TEST_F_TIMEOUT(traffic, waits_for_buffer, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 512, &r));
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, i, 512));
	}
	/* The sender is done with it. */
	ASSERT_EQ(0, wait_sent(&self->ini, 4));
	EXPECT_EQ(0, wait_flags(&r, IB_XRC_SRQ_RING_NEED_KICK));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));

	/* One at a time, then all. */
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, receiver_post(&self->x, &r, i < 2 ? 1 : 8));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(i, cqe.wr_id);
		ASSERT_TRUE(check_numbered(&r, &cqe, i, 512));
		if (i < 2) {
			EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
		}
	}
	/* The flag goes when nothing waits any more. */
	ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, 4, 512));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	ASSERT_TRUE(check_numbered(&r, &cqe, 4, 512));
	EXPECT_EQ(0, wait_flags(&r, 0));
}

/* Kicking without need, often, does nothing. */
TEST_F_TIMEOUT(traffic, kick, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 512, &r));
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(0, xrc_srq_kick(&self->x, &r.srq));
	}
	ASSERT_EQ(0, receiver_post(&self->x, &r, 2));
	for (i = 0; i < 100; i++) {
		EXPECT_EQ(0, xrc_srq_kick(&self->x, &r.srq));
	}
	EXPECT_EQ(0, r.srq.ring->consumer);
	ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, 0, 512));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
}

/* Below the bound, a slow SRQ does not stop the others of its TGT QP. */
TEST_F_TIMEOUT(traffic, slow_srq_same_qp, TIMEOUT)
{
	const __u32 waiting = self->limits.tgt_qp_recv_wr + 8, max = 64;
	struct ib_xrc_cqe cqe;
	struct receiver slow, fast;
	__u32 i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024, max, &slow));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024, max, &fast));
	ASSERT_EQ(0, receiver_post(&self->x, &fast, 200));
	for (i = 0; i < waiting; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, slow.srq.srq_num, i, max));
	}
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, fast.srq.srq_num, i, max));
	}
	for (i = 0; i < 200; i++) {
		ASSERT_EQ(0, receiver_wait(&fast, &cqe));
		ASSERT_TRUE(check_numbered(&fast, &cqe, i, max));
	}
	EXPECT_EQ(0, xrc_cq_poll(&slow.cq, &cqe));
	ASSERT_EQ(0, receiver_post(&self->x, &slow, waiting));
	for (i = 0; i < waiting; i++) {
		ASSERT_EQ(0, receiver_wait(&slow, &cqe));
		ASSERT_TRUE(check_numbered(&slow, &cqe, i, max));
	}
}

/*
 * An SRQ that never gets buffers: its sender is held, the sender to another TGT QP
 * is not, and nothing is lost once there are buffers.
 */
TEST_F_TIMEOUT(traffic, held_by_rnr, 300)
{
	const __u32 n = 1500, max = 200;
	struct receiver slow, fast;
	struct ib_xrc_cqe cqe;
	struct xrc_ini second;
	struct xrc_qp qp;
	struct ibv_wc wc;
	__u32 i, done = 0;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&second, DEPTH, BUF_SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&second, &self->x, &qp));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 2048, max, &slow));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 2048, max, &fast));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, slow.srq.srq_num, i, max));
	}
	ASSERT_EQ(0, receiver_post(&self->x, &fast, 100));
	for (i = 0; i < 1000; i++) {
		ASSERT_EQ(0, send_numbered(&second, fast.srq.srq_num, i, max));
		ASSERT_EQ(0, receiver_wait(&fast, &cqe));
		ASSERT_TRUE(check_numbered(&fast, &cqe, i, max));
		ASSERT_EQ(0, receiver_post(&self->x, &fast, 1));
		ASSERT_EQ(0, wait_sent(&second, 1));
	}
	/* What the kernel buffers is bounded, so it cannot have been all. */
	while (xrc_ini_poll(&self->ini, &wc) > 0) {
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		done++;
	}
	EXPECT_LE(self->limits.tgt_qp_recv_wr, done);
	EXPECT_GT(n, done);
	EXPECT_EQ(0, xrc_cq_poll(&slow.cq, &cqe));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp));

	ASSERT_EQ(0, receiver_post(&self->x, &slow, 500));
	for (i = 0; i < n; i++) {
		ASSERT_EQ(0, receiver_wait(&slow, &cqe))
			TH_LOG("message %u of %u", i, n);
		ASSERT_EQ(i, cqe.wr_id);
		ASSERT_TRUE(check_numbered(&slow, &cqe, i, max))
			TH_LOG("message %u of %u", i, n);
		if (slow.posted < n) {
			ASSERT_EQ(0, receiver_post(&self->x, &slow, 1));
		}
	}
	EXPECT_EQ(0, wait_sent(&self->ini, n - done));
	xrc_ini_close(&second);
}

/* What waits goes with its SRQ, and the sender can go on. */
TEST_F_TIMEOUT(traffic, srq_destroyed_with_messages, TIMEOUT)
{
	const __u32 max = 100;
	struct receiver slow, fast;
	struct ib_xrc_cqe cqe;
	__u32 i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, max, &slow));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024, max, &fast));
	ASSERT_EQ(0, receiver_post(&self->x, &fast, 501));
	for (i = 0; i < self->limits.tgt_qp_recv_wr; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, slow.srq.srq_num, i, max));
	}
	/* One more, to know that the kernel has got at those before it. */
	ASSERT_EQ(0, send_numbered(&self->ini, fast.srq.srq_num, 0, max));
	ASSERT_EQ(0, receiver_wait(&fast, &cqe));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &slow.srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &slow.cq));
	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, fast.srq.srq_num, i, max));
	}
	for (i = 0; i < 500; i++) {
		ASSERT_EQ(0, receiver_wait(&fast, &cqe));
		ASSERT_TRUE(check_numbered(&fast, &cqe, i, max));
	}
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp));
}

/* ---------------------------------------------------------------- errors -- */

/* What was sent is refused, and the TGT QP is in error. */
#define EXPECT_REFUSED() do {							\
	struct ib_xrc_tgt_qp_info info_;					\
										\
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));	\
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info_));		\
	EXPECT_EQ(1, info_.refused_msgs);					\
} while (0)

/* It works again once it was connected anew. */
#define EXPECT_RECONNECT(r) do {						\
	struct ib_uverbs_qp_attr reset_ = {					\
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,	\
	};									\
	struct ib_xrc_cqe cqe_;							\
										\
	xrc_ini_close(&self->ini);						\
	EXPECT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &reset_));		\
	ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, BUF_SIZE));		\
	ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));		\
	ASSERT_EQ(0, receiver_post(&self->x, r, 1));				\
	ASSERT_EQ(0, send_numbered(&self->ini, (r)->srq.srq_num, 7, 64));	\
	ASSERT_EQ(0, receiver_wait(r, &cqe_));					\
	EXPECT_TRUE(check_numbered(r, &cqe_, 7, 64));				\
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp));		\
} while (0)

TEST_F_TIMEOUT(traffic, wrong_srq_number, TIMEOUT)
{
	struct xrc_send send = { .length = 8 };
	struct ib_uverbs_qp_attr got;
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	send.srq_num = (r.srq.srq_num + 1) & IB_XRC_WIRE_SRQ_NUM_MAX;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	EXPECT_REFUSED();
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &got, NULL));
	EXPECT_EQ(IBV_QPS_ERR, got.qp_state);
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_EQ(0, r.srq.ring->consumer);
	EXPECT_RECONNECT(&r);
}

TEST_F_TIMEOUT(traffic, srq_of_another_domain, TIMEOUT)
{
	struct xrc_send send = { .length = 8 };
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 other;

	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &other));
	ASSERT_EQ(0, receiver_open(&self->x, other, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	send.srq_num = r.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	EXPECT_REFUSED();
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
}

TEST_F_TIMEOUT(traffic, srq_destroyed_before, TIMEOUT)
{
	struct xrc_send send = { .length = 8 };
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	send.srq_num = r.srq.srq_num;
	ASSERT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	EXPECT_REFUSED();
}

/* Other TGT QPs of the domain have nothing to do with it. */
TEST_F_TIMEOUT(traffic, error_is_of_one_qp, TIMEOUT)
{
	struct xrc_send send = { .length = 8 };
	struct ib_xrc_cqe cqe;
	struct xrc_ini second;
	struct receiver r;
	struct xrc_qp qp;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&second, DEPTH, BUF_SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&second, &self->x, &qp));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	send.srq_num = IB_XRC_WIRE_SRQ_NUM_MAX;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	EXPECT_REFUSED();
	ASSERT_EQ(0, send_numbered(&second, r.srq.srq_num, 1, 64));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_TRUE(check_numbered(&r, &cqe, 1, 64));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &qp));
	xrc_ini_close(&second);
}

/* A sender that goes on after the error hears of it. */
TEST_F_TIMEOUT(traffic, sender_notices, TIMEOUT)
{
	struct xrc_send send = {
		.length = 8, .srq_num = IB_XRC_WIRE_SRQ_NUM_MAX,
	};
	struct ibv_wc wc;
	int i;

	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	EXPECT_REFUSED();
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, xrc_ini_wait(&self->ini, &wc, 3 * XRC_TIMEOUT_MS));
	}
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
}

TEST_F_TIMEOUT(traffic, longer_than_buffer, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = { .length = 65 };

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	send.srq_num = r.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
	EXPECT_EQ(0, cqe.wr_id);
	EXPECT_EQ(self->qp.qp_num, cqe.qp_num);
	EXPECT_EQ(r.srq.srq_num, cqe.srq_num);
	EXPECT_REFUSED();
	/* The SRQ is as good as before. */
	EXPECT_EQ(0, r.srq.ring->flags & IB_XRC_SRQ_RING_ERROR);
	EXPECT_RECONNECT(&r);
}

TEST_F_TIMEOUT(traffic, longer_than_scatter_list, TIMEOUT)
{
	struct ib_uverbs_sge sge[2];
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_send send = { .length = 65 };
	__u8 buf[64];

	ASSERT_EQ(0, xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq, 4, 2, 0, &srq));
	sge[0] = (struct ib_uverbs_sge){ (uintptr_t)buf, 32, 0 };
	sge[1] = (struct ib_uverbs_sge){ (uintptr_t)buf + 32, 32, 0 };
	ASSERT_EQ(0, xrc_srq_postv(&self->x, &srq, 5, sge, 2));
	send.srq_num = srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
	EXPECT_REFUSED();
}

enum bad_memory {
	UNMAPPED,
	READ_ONLY,
	NO_ACCESS,
	HALF_ACCESS,
	KERNEL,
	NOT_CANONICAL,
	WRAPS,
	NULL_POINTER,
	READ_ONLY_FILE,
	BAD_MEMORY_COUNT,
};

TEST_F_TIMEOUT(traffic, unwritable_buffer, TIMEOUT)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct xrc_send send = { .length = 64 };
	__u64 addr[BAD_MEMORY_COUNT];
	char *p;
	int i, fd;

	p = mmap(NULL, 6 * page, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	mprotect(p + page, page, PROT_READ);
	mprotect(p + 2 * page, page, PROT_NONE);
	mprotect(p + 4 * page, page, PROT_NONE);
	fd = open("/proc/self/exe", O_RDONLY);
	/* Nothing is put there unless one asks for it. */
	addr[UNMAPPED] = 0x10000;
	addr[READ_ONLY] = (uintptr_t)p + page;
	addr[NO_ACCESS] = (uintptr_t)p + 2 * page;
	addr[HALF_ACCESS] = (uintptr_t)p + 4 * page - 8;
	addr[KERNEL] = 0xffff888000000000;
	addr[NOT_CANONICAL] = 0x8000000000000000;
	addr[WRAPS] = (__u64)-32;
	addr[NULL_POINTER] = 0;
	addr[READ_ONLY_FILE] = (uintptr_t)mmap(NULL, page, PROT_READ, MAP_SHARED,
					       fd, 0);

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	send.srq_num = r.srq.srq_num;
	for (i = 0; i < BAD_MEMORY_COUNT; i++) {
		ASSERT_EQ(0, xrc_srq_post(&self->x, &r.srq, i, (void *)addr[i],
					  64));
		ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status)
			TH_LOG("case %d", i);
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp,
						IBV_QPS_ERR));
		xrc_ini_close(&self->ini);
		ASSERT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &reset));
		ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, BUF_SIZE));
		ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
	}
	close(fd);
}

/* A part longer than what the kernel receives: the sender is told. */
TEST_F_TIMEOUT(traffic, longer_than_a_part, TIMEOUT)
{
	const __u32 length = 2 * IB_XRC_WIRE_PART_SIZE;
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct ibv_wc wc;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, length, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	ASSERT_EQ(0, xrc_ini_send_raw(&self->ini, IBV_WR_SEND_WITH_IMM,
		r.srq.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT, 0, length));
	ASSERT_EQ(0, xrc_ini_wait(&self->ini, &wc, XRC_TIMEOUT_MS));
	/* Devices differ in how they say it. */
	EXPECT_TRUE(wc.status == IBV_WC_REM_INV_REQ_ERR ||
		    wc.status == IBV_WC_REM_OP_ERR)
		TH_LOG("status %d", wc.status);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_RECONNECT(&r);
}

/* The wire format, for what a sender gets wrong: always refused. */
TEST_F_TIMEOUT(traffic, malformed, TIMEOUT)
{
	struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	const struct {
		enum ibv_wr_opcode opcode;
		__u32 flags, length;
		__u8 reserved;
	} bad[] = {
		/* No immediate, so no SRQ number. */
		{ IBV_WR_SEND, 0, 8, 0 },
		{ IBV_WR_SEND, 0, 0, 0 },
		/* Flags that do not exist. */
		{ IBV_WR_SEND_WITH_IMM, 1 << 5, 8, 0 },
		{ IBV_WR_SEND_WITH_IMM, 1 << 7, 8, 0 },
		{ IBV_WR_SEND_WITH_IMM, 0xff, 64, 0 },
		/* A header that is not there, or not all. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_HDR, 0, 0 },
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_HDR, 7, 0 },
		/* A header with a length, though it is no RDMA WRITE. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_HDR, 8, 1 },
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_HDR, 64, 0x80 },
		/* The rest of a message that has not begun. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_CONT, 8, 0 },
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_CONT | IB_XRC_WIRE_MORE,
		  IB_XRC_WIRE_PART_SIZE, 0 },
		/* A part that is not full, though more are to follow. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_MORE, 8, 0 },
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_MORE, 0, 0 },
		/* Flags that exclude each other. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_MORE | IB_XRC_WIRE_SOLICITED,
		  IB_XRC_WIRE_PART_SIZE, 0 },
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_WRITE, 8, 0 },
		/* A note about an RDMA WRITE with something after it. */
		{ IBV_WR_SEND_WITH_IMM, IB_XRC_WIRE_WRITE | IB_XRC_WIRE_HDR, 9, 0 },
	};
	struct ib_xrc_tgt_qp_info info;
	struct ib_xrc_cqe cqe;
	struct receiver r;
	unsigned int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 4));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		memset(self->ini.buf, 0, 64);
		self->ini.buf[7] = bad[i].reserved;
		ASSERT_EQ(0, xrc_ini_send_raw(&self->ini, bad[i].opcode,
			r.srq.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT | bad[i].flags,
			0, bad[i].length));
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR))
			TH_LOG("case %u", i);
		EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->qp, NULL, &info));
		EXPECT_EQ(i + 1, info.refused_msgs);
		EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
		xrc_ini_close(&self->ini);
		ASSERT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &reset));
		ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, BUF_SIZE));
		ASSERT_EQ(0, xrc_ini_pair(&self->ini, &self->x, &self->qp));
	}
	EXPECT_RECONNECT(&r);
}

/* Not of this format, though it takes a receive buffer as a SEND does. */
TEST_F_TIMEOUT(traffic, rdma_write_with_imm, TIMEOUT)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS,
		.qp_state = IBV_QPS_RTS,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 1));
	ASSERT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &attr));
	ASSERT_EQ(0, xrc_ini_send_raw(&self->ini, IBV_WR_RDMA_WRITE_WITH_IMM,
		r.srq.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT, 0, 0));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_RECONNECT(&r);
}

TEST_F_TIMEOUT(traffic, cq_overflow, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 4, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 16));
	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, i, 64));
	}
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	EXPECT_EQ(IB_XRC_CQ_RING_OVERFLOW,
		  __atomic_load_n(&r.cq.ring->flags, __ATOMIC_ACQUIRE));
	EXPECT_EQ(0, wait_flags(&r, IB_XRC_SRQ_RING_ERROR));
	/* Those that found place are there. */
	for (i = 0; i < 4; i++) {
		EXPECT_EQ(1, xrc_cq_poll(&r.cq, &cqe));
		EXPECT_TRUE(check_numbered(&r, &cqe, i, 64));
	}
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &r.cq));
}

/* A work request that makes no sense: the SRQ takes no more. */
TEST_F_TIMEOUT(traffic, bad_work_request, TIMEOUT)
{
	struct ib_uverbs_sge sge[2] = {};
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	/* More entries than the SRQ has. */
	xrc_srq_write(&r.srq, 0, sge, 2);
	ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, 1, 64));
	EXPECT_EQ(0, wait_flags(&r, IB_XRC_SRQ_RING_ERROR));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_EQ(0, xrc_srq_kick(&self->x, &r.srq));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
}

TEST_F_TIMEOUT(traffic, bad_producer_index, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 64, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 4));
	__atomic_store_n(&r.srq.ring->producer, r.srq.info.entries + 1,
			 __ATOMIC_SEQ_CST);
	ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, 1, 64));
	EXPECT_EQ(0, wait_flags(&r, IB_XRC_SRQ_RING_ERROR));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	/* Setting it right does not help. */
	__atomic_store_n(&r.srq.ring->producer, 4, __ATOMIC_SEQ_CST);
	EXPECT_EQ(0, xrc_srq_kick(&self->x, &r.srq));
	/* A sender that goes on is refused, as with an SRQ that is not there. */
	ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, 2, 64));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
	EXPECT_EQ(IB_XRC_SRQ_RING_ERROR, r.srq.ring->flags);
}

/* To ERR by hand while messages come. */
TEST_F_TIMEOUT(traffic, error_by_modify, TIMEOUT)
{
	struct ib_uverbs_qp_attr err = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_ERR,
	};
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 i, n = 0;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024, 64, &r));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 900));
	for (i = 0; i < 800; i++) {
		ASSERT_EQ(0, send_numbered(&self->ini, r.srq.srq_num, i, 64));
	}
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	ASSERT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &err));
	EXPECT_EQ(IBV_QPS_ERR, xrc_tgt_state(&self->x, &self->qp));
	/* What has come before is whole and in order. */
	do {
		ASSERT_TRUE(check_numbered(&r, &cqe, n, 64));
		n++;
	} while (xrc_cq_poll(&r.cq, &cqe)); {
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
	}
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
}

/* The QP goes while messages come. */
TEST_F_TIMEOUT(traffic, close_under_traffic, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct xrc_ini ini;
	struct receiver r;
	struct xrc_qp qp;
	int round, i;

	for (round = 0; round < 10; round++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
		ASSERT_EQ(0, xrc_ini_open(&ini, DEPTH, BUF_SIZE));
		ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &qp));
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 2048, 64, &r));
		/* Some will wait when it goes. */
		ASSERT_EQ(0, receiver_post(&self->x, &r, 100));
		for (i = 0; i < 300; i++) {
			ASSERT_EQ(0, send_numbered(&ini, r.srq.srq_num, i, 64));
		}
		ASSERT_EQ(0, receiver_wait(&r, &cqe));
		if (round % 2) {
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
			EXPECT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
		} else {
			EXPECT_EQ(0, xrc_srq_destroy(&self->x, &r.srq));
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
		}
		EXPECT_EQ(0, xrc_cq_destroy(&self->x, &r.cq));
		close(r.channel);
		xrc_ini_close(&ini);
		munmap(r.buf, (size_t)r.buf_size * SRQ_WR);
	}
}

/* A message that waits over a RESET still says which INI QP sent it. */
TEST_F_TIMEOUT(traffic, source_after_reset, TIMEOUT)
{
	const struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	const __u32 sender = self->ini.qp->qp_num;
	struct xrc_send send = { .length = 8 };
	struct xrc_ini other;
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 4, 64, &r));
	send.srq_num = r.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&self->ini, &send));
	ASSERT_EQ(0, wait_sent(&self->ini, 1));
	ASSERT_EQ(0, wait_flags(&r, IB_XRC_SRQ_RING_NEED_KICK));
	ASSERT_EQ(0, xrc_tgt_modify(&self->x, &self->qp, &reset));
	ASSERT_EQ(0, xrc_ini_open(&other, 4, 64));
	ASSERT_EQ(0, xrc_ini_pair(&other, &self->x, &self->qp));
	ASSERT_EQ(0, xrc_ini_send(&other, &send));
	ASSERT_EQ(0, wait_sent(&other, 1));
	ASSERT_EQ(0, receiver_post(&self->x, &r, 2));
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_EQ(sender, cqe.src_qp);
	ASSERT_EQ(0, receiver_wait(&r, &cqe));
	EXPECT_EQ(other.qp->qp_num, cqe.src_qp);
	xrc_ini_close(&other);
}

TEST_HARNESS_MAIN
