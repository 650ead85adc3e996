// SPDX-License-Identifier: GPL-2.0
/*
 * Messages longer than a receive buffer of the kernel: they come in parts.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "inbox.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define PART IB_XRC_WIRE_PART_SIZE
#define PEERS 4
#define DEPTH 4096
#define INI_SIZE (9 * 1024 * 1024)

/* An SRQ with a CQ of its own. */
struct receiver {
	struct xrc_cq cq;
	struct inbox in;
};

#define SRQ_WR 64

FIXTURE(parts)
{
	struct xrc x;
	__u32 xrcd;
	struct peer peer[PEERS];
	struct ib_xrc_limits limits;
};

FIXTURE_SETUP(parts)
{
	int i;

	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_limits(&self->x, &self->limits));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	for (i = 0; i < PEERS; i++)
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE,
				       &self->peer[i]));
}

FIXTURE_TEARDOWN(parts)
{
	int i;

	for (i = 0; i < PEERS; i++)
		xrc_ini_close(&self->peer[i].ini);
	xrc_close(&self->x);
}

static int receiver_open(struct xrc *x, __u32 xrcd, size_t size,
			 struct receiver *r)
{
	int ret = xrc_cq_create(x, 2 * SRQ_WR, 0, XRC_NO_FD, &r->cq);

	return ret ? ret : inbox_open(x, xrcd, &r->cq, SRQ_WR, size, XRC_NO_FD,
				      &r->in);
}

/* A part as it is: flags, and a payload of the sender's buffer from offset on. */
static int send_part(struct xrc_ini *ini, __u32 srq_num, __u32 flags,
		     size_t offset, __u32 length)
{
	return xrc_ini_send_raw(ini, IBV_WR_SEND_WITH_IMM,
				srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT | flags,
				offset, length);
}

TEST_F_TIMEOUT(parts, sizes, TIMEOUT)
{
	const size_t size[] = {
		0, 1, PART - 9, PART - 8, PART - 7, PART - 1, PART, PART + 1,
		2 * PART - 9, 2 * PART - 8, 2 * PART - 7, 2 * PART - 1,
		2 * PART, 2 * PART + 1, 3 * PART - 8, 3 * PART, 65536, 100000,
		1024 * 1024,
	};
	struct peer *p = &self->peer[0];
	struct ib_xrc_tgt_qp_info info;
	struct xrc_send send = {};
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u64 bytes = 0;
	unsigned int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 1024 * 1024, &r));
	send.srq_num = r.in.srq.srq_num;
	for (i = 0; i < 2 * ARRAY_SIZE(size); i++) {
		send.length = size[i / 2];
		send.with_imm = i & 1;
		send.imm = 0xabcd0000 + i;
		send.solicited = i % 3 == 0;
		xrc_fill(p->ini.buf, send.length, i);
		ASSERT_EQ(0, inbox_post(&r.in, 1));
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe))
			TH_LOG("%u bytes, case %u", send.length, i);
		EXPECT_TRUE(inbox_has(&r.in, &cqe, send.length, i))
			TH_LOG("%u bytes, case %u: status %u, %u bytes",
			       send.length, i, cqe.status, cqe.byte_len);
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(p->qp.qp_num, cqe.qp_num);
		EXPECT_EQ(p->ini.qp->qp_num, cqe.src_qp);
		EXPECT_EQ(r.in.srq.srq_num, cqe.srq_num);
		EXPECT_EQ((send.with_imm ? IB_XRC_WC_WITH_IMM : 0) |
			  (send.solicited ? IB_XRC_WC_SOLICITED : 0),
			  cqe.wc_flags);
		if (send.with_imm)
			EXPECT_EQ(send.imm, ntohl(cqe.imm_data));
		ASSERT_EQ(0, peer_wait_sent(p, 1));
		bytes += send.length;
	}
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &p->qp, NULL, &info));
	EXPECT_EQ(i, info.recv_msgs);
	EXPECT_EQ(bytes, info.recv_bytes);
}

/* Many times what the kernel has buffers for. */
TEST_F_TIMEOUT(parts, long_one, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct xrc_send send = { .length = 8 * 1024 * 1024 };
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_GE(self->limits.max_msg_size, send.length);
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, send.length, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	send.srq_num = r.in.srq.srq_num;
	xrc_fill(p->ini.buf, send.length, 5);
	ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_TRUE(inbox_has(&r.in, &cqe, send.length, 5));
	ASSERT_EQ(0, peer_wait_sent(p, 1));
}

/* The pieces of a scatter list and the parts have nothing to do with each other. */
TEST_F_TIMEOUT(parts, scatter_list, TIMEOUT)
{
	const __u32 piece[] = { 1, PART, 2 * PART - 3, PART + 100 };
	struct peer *p = &self->peer[0];
	struct ib_uverbs_sge sge[4];
	struct xrc_send send = {};
	struct ib_xrc_cqe cqe;
	struct receiver r;
	__u32 at = 0;
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 16 * PART, &r));
	/* An inbox has one scatter entry for each work request. */
	ASSERT_EQ(0, xrc_srq_destroy(&self->x, &r.in.srq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &r.cq, SRQ_WR, 4, 0x77,
				    &r.in.srq));
	for (i = 0; i < 4; i++) {
		sge[i].addr = (uintptr_t)(r.in.buf + at);
		sge[i].length = piece[i];
		sge[i].lkey = 0;
		at += piece[i];
	}
	send.srq_num = r.in.srq.srq_num;
	send.length = at;
	for (i = 0; i < 2; i++) {
		xrc_fill(p->ini.buf, at, i + 1);
		ASSERT_EQ(0, xrc_srq_postv(&self->x, &r.in.srq, 0, sge, 4));
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
		EXPECT_TRUE(inbox_has(&r.in, &cqe, at, i + 1));
		ASSERT_EQ(0, peer_wait_sent(p, 1));
	}
}

/* Fewer buffers than senders: whoever has one goes on until it is full. */
TEST_F_TIMEOUT(parts, interleaved, TIMEOUT)
{
	const __u32 length = 50 * PART + 17;
	const int each = 8;
	struct ib_xrc_cqe cqe;
	int next[PEERS] = {};
	struct receiver r;
	int i, n;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, length, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 2));
	for (n = 0; n < each; n++) {
		for (i = 0; i < PEERS; i++) {
			struct xrc_send send = {
				.srq_num = r.in.srq.srq_num,
				.length = length,
				.offset = (size_t)n * length,
				.with_imm = true,
				.imm = n,
			};

			xrc_fill(self->peer[i].ini.buf + send.offset, length,
				 n * PEERS + i);
			ASSERT_EQ(0, xrc_ini_send(&self->peer[i].ini, &send));
		}
	}
	for (n = 0; n < each * PEERS; n++) {
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe))
			TH_LOG("message %d", n);
		for (i = 0; i < PEERS; i++)
			if (self->peer[i].qp.qp_num == cqe.qp_num)
				break;
		ASSERT_LT(i, PEERS);
		EXPECT_EQ(next[i], (int)ntohl(cqe.imm_data));
		EXPECT_TRUE(inbox_has(&r.in, &cqe, length, next[i] * PEERS + i));
		next[i]++;
		ASSERT_EQ(0, inbox_post(&r.in, 1));
	}
}

/* The rest of a message needs no buffer, though others wait for one. */
TEST_F_TIMEOUT(parts, rest_passes_who_waits, TIMEOUT)
{
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct xrc_send send = { .length = 3 * PART };
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	xrc_fill(a->ini.buf, 3 * PART, 1);
	xrc_fill(b->ini.buf, 3 * PART, 2);
	ASSERT_EQ(0, send_part(&a->ini, r.in.srq.srq_num, IB_XRC_WIRE_MORE, 0, PART));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
	ASSERT_EQ(0, inbox_wait_taken(&r.in, 1));
	send.srq_num = r.in.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&b->ini, &send));
	EXPECT_TRUE(inbox_idle(&r.in));
	ASSERT_EQ(0, send_part(&a->ini, r.in.srq.srq_num,
			       IB_XRC_WIRE_MORE | IB_XRC_WIRE_CONT, PART, PART));
	ASSERT_EQ(0, send_part(&a->ini, r.in.srq.srq_num, IB_XRC_WIRE_CONT,
			       2 * PART, PART));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_EQ(a->qp.qp_num, cqe.qp_num);
	EXPECT_TRUE(inbox_has(&r.in, &cqe, 3 * PART, 1));
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_EQ(b->qp.qp_num, cqe.qp_num);
	EXPECT_TRUE(inbox_has(&r.in, &cqe, 3 * PART, 2));
}

/* From one TGT QP to several SRQs, some of which have no buffer yet. */
TEST_F_TIMEOUT(parts, several_srqs, TIMEOUT)
{
	const __u32 length = 2 * PART + 5;
	struct peer *p = &self->peer[0];
	struct receiver r[3];
	struct ib_xrc_cqe cqe;
	int i;

	for (i = 0; i < 3; i++)
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, length, &r[i]));
	ASSERT_EQ(0, inbox_post(&r[2].in, 3));
	for (i = 0; i < 9; i++) {
		struct xrc_send send = {
			.srq_num = r[i % 3].in.srq.srq_num,
			.length = length,
			.offset = (size_t)i * length,
		};

		xrc_fill(p->ini.buf + send.offset, length, i);
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	}
	for (i = 2; i < 9; i += 3) {
		ASSERT_EQ(0, inbox_wait(&r[2].in, &cqe));
		EXPECT_TRUE(inbox_has(&r[2].in, &cqe, length, i));
	}
	for (i = 0; i < 9; i++) {
		if (i % 3 == 2)
			continue;
		ASSERT_EQ(0, inbox_post(&r[i % 3].in, 1));
		ASSERT_EQ(0, inbox_wait(&r[i % 3].in, &cqe));
		EXPECT_TRUE(inbox_has(&r[i % 3].in, &cqe, length, i));
	}
}

/* More than what may wait: the sender is held back, and nobody else. */
TEST_F_TIMEOUT(parts, longer_than_the_backlog, TIMEOUT)
{
	const __u32 length = self->limits.srq_bytes + self->limits.tgt_qp_bytes +
			     16 * PART;
	struct peer *a = &self->peer[0], *b = &self->peer[1];
	struct receiver full, other;
	struct xrc_send send = {};
	struct ib_xrc_cqe cqe;
	struct ibv_wc wc;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, length, &full));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, length, &other));
	ASSERT_EQ(0, inbox_post(&other.in, 1));
	xrc_fill(a->ini.buf, length, 3);
	xrc_fill(b->ini.buf, length, 4);
	send.length = length;
	send.srq_num = full.in.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&a->ini, &send));
	EXPECT_EQ(-ETIME, xrc_ini_wait(&a->ini, &wc, 300));
	send.srq_num = other.in.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&b->ini, &send));
	ASSERT_EQ(0, inbox_wait(&other.in, &cqe));
	EXPECT_TRUE(inbox_has(&other.in, &cqe, length, 4));
	EXPECT_TRUE(inbox_idle(&full.in));
	ASSERT_EQ(0, inbox_post(&full.in, 1));
	ASSERT_EQ(0, inbox_wait(&full.in, &cqe));
	EXPECT_TRUE(inbox_has(&full.in, &cqe, length, 3));
	ASSERT_EQ(0, peer_wait_sent(a, 1));
}

/* What does not fit is found with the part that does not. */
TEST_F_TIMEOUT(parts, longer_than_the_buffer, TIMEOUT)
{
	struct xrc_send send = { .length = 5 * PART };
	struct peer *p = &self->peer[0], *q = &self->peer[1];
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART + 1, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 2));
	send.srq_num = r.in.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
	EXPECT_EQ(0, cqe.wr_id);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
	EXPECT_TRUE(inbox_idle(&r.in));
	/* The SRQ is as good as before. */
	send.length = 3 * PART;
	xrc_fill(q->ini.buf, send.length, 9);
	ASSERT_EQ(0, xrc_ini_send(&q->ini, &send));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_TRUE(inbox_has(&r.in, &cqe, send.length, 9));
}

TEST_F_TIMEOUT(parts, bad_buffer, TIMEOUT)
{
	struct xrc_send send = { .length = 2 * PART };
	struct peer *p = &self->peer[0];
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, PART, &r));
	/* The first part can be written, the second cannot. */
	ASSERT_EQ(0, xrc_srq_post(&self->x, &r.in.srq, 1,
				  (__u8 *)xrc_guard_page() - PART, 2 * PART));
	send.srq_num = r.in.srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
}

/* How a connection ends while a message is under way. */
enum ending { DISCONNECT, RESET, TO_ERR, CLOSE, PEER_ERROR, ENDINGS };

static int end_it(struct xrc *x, struct peer *p, enum ending how)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE,
		.qp_state = how == RESET ? IBV_QPS_RESET : IBV_QPS_ERR,
	};
	struct ib_xrc_disconnect_info info = { .flushed_msgs = 77 };
	int ret;

	switch (how) {
	case DISCONNECT:
		ret = xrc_tgt_disconnect(x, &p->qp, 0, &info);
		/* It had not arrived. */
		return ret ? ret : info.flushed_msgs ? -EBADMSG : 0;
	case CLOSE:
		return xrc_tgt_close(x, &p->qp);
	case PEER_ERROR:
		return xrc_ini_rdma_write(&p->ini, 0x1000, 0xbad, 0, 8);
	default:
		return xrc_tgt_modify(x, &p->qp, &attr);
	}
}

/* The work request that it had taken comes back. */
TEST_F_TIMEOUT(parts, cut_off, TIMEOUT)
{
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct peer p;
	int how;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 4 * PART, &r));
	for (how = 0; how < ENDINGS; how++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE, &p));
		ASSERT_EQ(0, inbox_post(&r.in, 1));
		ASSERT_EQ(0, send_part(&p.ini, r.in.srq.srq_num, IB_XRC_WIRE_MORE,
				       0, PART));
		ASSERT_EQ(0, peer_wait_sent(&p, 1));
		ASSERT_EQ(0, inbox_wait_taken(&r.in, r.in.posted));
		EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
		EXPECT_EQ(0, end_it(&self->x, &p, how))
			TH_LOG("ending %d", how);
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe))
			TH_LOG("ending %d", how);
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, cqe.status);
		EXPECT_EQ(r.in.posted - 1, cqe.wr_id);
		EXPECT_EQ(p.qp.qp_num, cqe.qp_num);
		if (how != CLOSE)
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &p.qp));
		xrc_ini_close(&p.ini);
	}
}

/* Its completion finds the CQ full: it is over all the same. */
TEST_F_TIMEOUT(parts, cut_off_with_cq_full, TIMEOUT)
{
	struct peer *p = &self->peer[0], *q = &self->peer[1];
	struct ib_xrc_disconnect_info info;
	struct xrc_send send = { .length = 8 };
	static __u8 buf[2][PART];
	struct xrc_srq srq;
	struct xrc_cq cq;
	int i;

	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &cq, 2, 1, 0, &srq));
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, xrc_srq_post(&self->x, &srq, i, buf[i], PART));
	send.srq_num = srq.srq_num;
	ASSERT_EQ(0, xrc_ini_send(&q->ini, &send));
	while (!__atomic_load_n(&cq.ring->producer, __ATOMIC_ACQUIRE))
		usleep(100);
	ASSERT_EQ(0, send_part(&p->ini, srq.srq_num, IB_XRC_WIRE_MORE, 0, PART));
	while (__atomic_load_n(&srq.ring->consumer, __ATOMIC_ACQUIRE) != 2)
		usleep(100);
	EXPECT_EQ(0, xrc_tgt_disconnect(&self->x, &p->qp, 0, &info));
	EXPECT_EQ(IB_XRC_CQ_RING_OVERFLOW,
		  __atomic_load_n(&cq.ring->flags, __ATOMIC_ACQUIRE));
}

/* All receive buffers are used up by what comes after the bad part. */
TEST_F_TIMEOUT(parts, cut_off_by_a_flood, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct ib_xrc_cqe cqe;
	struct receiver r;
	unsigned int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	ASSERT_EQ(0, send_part(&p->ini, r.in.srq.srq_num, IB_XRC_WIRE_MORE, 0, PART));
	ASSERT_EQ(0, inbox_wait_taken(&r.in, 1));
	for (i = 0; i < 2 * self->limits.tgt_qp_recv_wr; i++)
		ASSERT_EQ(0, send_part(&p->ini, r.in.srq.srq_num,
				       IB_XRC_WIRE_MORE, 0, PART));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, cqe.status);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
}

/* It had not taken one: nothing comes, and what others post is theirs. */
TEST_F_TIMEOUT(parts, cut_off_without_buffer, TIMEOUT)
{
	struct peer *other = &self->peer[0];
	struct xrc_send send = { .length = 2 * PART };
	struct ib_xrc_srq_info info;
	struct ib_xrc_cqe cqe;
	struct receiver r;
	struct peer p;
	__u32 count;
	int how;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 4 * PART, &r));
	send.srq_num = r.in.srq.srq_num;
	for (how = 0; how < ENDINGS; how++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE, &p));
		ASSERT_EQ(0, send_part(&p.ini, r.in.srq.srq_num, IB_XRC_WIRE_MORE,
				       0, PART));
		ASSERT_EQ(0, send_part(&p.ini, r.in.srq.srq_num,
			IB_XRC_WIRE_MORE | IB_XRC_WIRE_CONT, 0, PART));
		ASSERT_EQ(0, peer_wait_sent(&p, 1));
		ASSERT_EQ(0, peer_wait_sent(&p, 1));
		EXPECT_EQ(0, end_it(&self->x, &p, how))
			TH_LOG("ending %d", how);
		if (how != CLOSE) {
			if (how != RESET)
				EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p.qp,
								IBV_QPS_ERR));
			EXPECT_EQ(0, xrc_tgt_close(&self->x, &p.qp));
		}
		xrc_fill(other->ini.buf, send.length, how);
		ASSERT_EQ(0, xrc_ini_send(&other->ini, &send));
		ASSERT_EQ(0, inbox_post(&r.in, 1));
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe))
			TH_LOG("ending %d", how);
		EXPECT_TRUE(inbox_has(&r.in, &cqe, send.length, how));
		EXPECT_EQ(r.in.posted - 1, cqe.wr_id);
		ASSERT_EQ(0, peer_wait_sent(other, 1));
		xrc_ini_close(&p.ini);
	}
	EXPECT_EQ(0, xrc_list_srqs(&self->x, self->xrcd, 0, &info, 1, &count));
	EXPECT_EQ(0, info.waiting_msgs);
	EXPECT_EQ(ENDINGS, info.recv_msgs);
}

/* All of it has arrived, and nobody takes it. */
TEST_F_TIMEOUT(parts, flushed, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct xrc_send send = { .length = 3 * PART };
	struct peer *p = &self->peer[0];
	struct ib_xrc_cqe cqe;
	struct receiver r;
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART, &r));
	send.srq_num = r.in.srq.srq_num;
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
		ASSERT_EQ(0, peer_wait_sent(p, 1));
	}
	ASSERT_EQ(0, xrc_tgt_disconnect(&self->x, &p->qp, 50, &info));
	EXPECT_EQ(3, info.flushed_msgs);
	EXPECT_EQ(0, info.delivered_msgs);
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	EXPECT_TRUE(inbox_idle(&r.in));
	EXPECT_EQ(0, xrc_cq_poll(&r.cq, &cqe));
}

/* Those that arrived before are delivered, and counted as messages. */
TEST_F_TIMEOUT(parts, delivered_before_disconnect, TIMEOUT)
{
	struct ib_xrc_disconnect_info info;
	struct xrc_send send = { .length = 7 * PART };
	struct peer *p = &self->peer[0];
	struct ib_xrc_cqe cqe;
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 7 * PART, &r));
	send.srq_num = r.in.srq.srq_num;
	xrc_fill(p->ini.buf, send.length, 1);
	ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	ASSERT_EQ(0, peer_wait_sent(p, 1));
	ASSERT_EQ(0, peer_wait_sent(p, 1));
	/* The kernel need not be told: it is to look by itself. */
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	ASSERT_EQ(0, xrc_tgt_disconnect(&self->x, &p->qp, 3000, &info));
	ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
	EXPECT_TRUE(inbox_has(&r.in, &cqe, send.length, 1));
	EXPECT_EQ(1, info.flushed_msgs);
}

TEST_F_TIMEOUT(parts, srq_destroyed_in_the_middle, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct receiver r;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 1));
	ASSERT_EQ(0, send_part(&p->ini, r.in.srq.srq_num, IB_XRC_WIRE_MORE, 0, PART));
	/* Acknowledged is not delivered: it might find no SRQ. */
	ASSERT_EQ(0, inbox_wait_taken(&r.in, 1));
	ASSERT_EQ(0, xrc_srq_destroy(&self->x, &r.in.srq));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &p->qp));
	ASSERT_EQ(0, send_part(&p->ini, r.in.srq.srq_num, IB_XRC_WIRE_CONT, 0, PART));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
}

/* Parts that do not follow each other: the first message ends there, too. */
TEST_F_TIMEOUT(parts, out_of_order, TIMEOUT)
{
	const struct {
		int srq;
		__u32 flags;
	} bad[] = {
		/* Another message begins. */
		{ 0, 0 },
		{ 0, IB_XRC_WIRE_MORE },
		{ 1, 0 },
		/* To another SRQ. */
		{ 1, IB_XRC_WIRE_CONT },
		{ 1, IB_XRC_WIRE_CONT | IB_XRC_WIRE_MORE },
	};
	struct receiver r[2];
	struct ib_xrc_cqe cqe;
	unsigned int i;
	struct peer p;

	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, 3 * PART, &r[i]));
		ASSERT_EQ(0, inbox_post(&r[i].in, 8));
	}
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE, &p));
		ASSERT_EQ(0, send_part(&p.ini, r[0].in.srq.srq_num,
				       IB_XRC_WIRE_MORE, 0, PART));
		ASSERT_EQ(0, inbox_wait_taken(&r[0].in, i + 1));
		ASSERT_EQ(0, send_part(&p.ini, r[bad[i].srq].in.srq.srq_num,
				       bad[i].flags, 0, PART));
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p.qp, IBV_QPS_ERR))
			TH_LOG("case %u", i);
		ASSERT_EQ(0, inbox_wait(&r[0].in, &cqe));
		EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, cqe.status);
		EXPECT_EQ(0, xrc_cq_poll(&r[1].cq, &cqe));
		EXPECT_EQ(0, xrc_tgt_close(&self->x, &p.qp));
		xrc_ini_close(&p.ini);
	}
}

/* After a message that is refused comes none, as with XRC. */
TEST_F_TIMEOUT(parts, nothing_after_a_refused_message, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct ib_xrc_tgt_qp_info info;
	struct xrc_send send = { .length = 8 };
	struct receiver r;
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, PART, &r));
	ASSERT_EQ(0, inbox_post(&r.in, 20));
	send.srq_num = r.in.srq.srq_num;
	ASSERT_EQ(0, send_part(&p->ini, IB_XRC_WIRE_SRQ_NUM_MAX, 0, 0, 8));
	for (i = 0; i < 20; i++)
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
	EXPECT_TRUE(inbox_idle(&r.in));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &p->qp, NULL, &info));
	EXPECT_EQ(1, info.refused_msgs);
	EXPECT_EQ(0, info.recv_msgs);
}

/* Nor those that wait for a buffer when it is found out, at whichever SRQ. */
TEST_F_TIMEOUT(parts, nothing_behind_a_refused_message, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct ib_xrc_tgt_qp_info info;
	struct xrc_send send = {};
	struct ib_xrc_cqe cqe;
	struct receiver r[2];
	int i;

	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, PART, &r[i]));
	for (i = 0; i < 10; i++) {
		/* The first one at the second SRQ is before all others. */
		send.srq_num = r[i % 2 ? 0 : 1].in.srq.srq_num;
		send.length = i == 1 ? 9 : 8;
		ASSERT_EQ(0, xrc_ini_send(&p->ini, &send));
		ASSERT_EQ(0, peer_wait_sent(p, 1));
	}
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, inbox_wait_waiting(&r[i].in, self->xrcd, 5));
	r[0].in.size = 8;
	ASSERT_EQ(0, inbox_post(&r[0].in, 8));
	ASSERT_EQ(0, inbox_wait(&r[0].in, &cqe));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p->qp, IBV_QPS_ERR));
	ASSERT_EQ(0, inbox_post(&r[1].in, 8));
	ASSERT_EQ(0, inbox_wait(&r[1].in, &cqe));
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	EXPECT_TRUE(inbox_idle(&r[0].in));
	EXPECT_TRUE(inbox_idle(&r[1].in));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &p->qp, NULL, &info));
	EXPECT_EQ(1, info.refused_msgs);
	EXPECT_EQ(1, info.recv_msgs);
}

/* Of an RDMA_WRITE_WITH_IMM: the note takes a work request, not its buffers. */
TEST_F_TIMEOUT(parts, write_note, TIMEOUT)
{
	struct peer *p = &self->peer[0];
	struct xrc_send send = { .length = 123456 };
	struct ib_xrc_cqe cqe;
	struct receiver r;
	int i;

	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, PART, &r));
	send.srq_num = r.in.srq.srq_num;
	for (i = 0; i < 2; i++) {
		send.imm = 0xfeed0000 + i;
		send.solicited = i;
		memset(inbox_buf(&r.in, i), 0x5a, PART);
		/* A buffer that cannot be written is as good. */
		ASSERT_EQ(0, xrc_srq_post(&self->x, &r.in.srq, i,
					  i ? NULL : inbox_buf(&r.in, i), PART));
		ASSERT_EQ(0, xrc_ini_write_note(&p->ini, &send));
		ASSERT_EQ(0, inbox_wait(&r.in, &cqe));
		EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
		EXPECT_EQ(IB_XRC_WC_RECV_RDMA_WITH_IMM, cqe.opcode);
		EXPECT_EQ(123456, cqe.byte_len);
		EXPECT_EQ(send.imm, ntohl(cqe.imm_data));
		EXPECT_EQ(IB_XRC_WC_WITH_IMM | (i ? IB_XRC_WC_SOLICITED : 0),
			  cqe.wc_flags);
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ(0x5a, inbox_buf(&r.in, i)[0]);
		EXPECT_EQ(0x5a, inbox_buf(&r.in, i)[PART - 1]);
	}
}

TEST_HARNESS_MAIN
