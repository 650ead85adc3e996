// SPDX-License-Identifier: GPL-2.0
/*
 * Completions: what is in them, in what order they come, what becomes of them when the
 * CQ is full, and when they wake whom.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "inbox.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define PART IB_XRC_WIRE_PART_SIZE
#define DEPTH 1024
#define INI_SIZE (256 * 1024)

FIXTURE(completion)
{
	struct xrc x;
	__u32 xrcd;
	int ef;
	int channel;
	struct xrc_cq cq;
	struct peer peer;
};

FIXTURE_SETUP(completion)
{
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->ef));
	ASSERT_EQ(0, xrc_channel_create(&self->x, &self->channel));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1024, 0xc9, self->channel,
				   &self->cq));
	ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, INI_SIZE,
			       &self->peer));
}

FIXTURE_TEARDOWN(completion)
{
	xrc_ini_close(&self->peer.ini);
	close(self->channel);
	close(self->ef);
	xrc_close(&self->x);
}

/* ---------------------------------------------------------------- fields -- */

enum what { SEND, SEND_WITH_IMM, WRITE_WITH_IMM, OPERATIONS };

/* Every byte of the completion of what succeeds. */
TEST_F_TIMEOUT(completion, fields, TIMEOUT)
{
	const __u32 length[] = { 0, 1, 100, PART, PART + 1, 5 * PART - 3 };
	struct peer *p = &self->peer;
	struct ib_xrc_cqe cqe, want;
	struct xrc_send send = {};
	struct inbox in;
	unsigned int i;
	__u32 n = 0;
	int what;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, 5 * PART,
				XRC_NO_FD, &in));
	send.srq_num = in.srq.srq_num;
	for (what = 0; what < OPERATIONS; what++) {
		for (i = 0; i < 2 * ARRAY_SIZE(length); i++, n++) {
			send.length = length[i / 2];
			send.solicited = i & 1;
			send.with_imm = what != SEND;
			send.imm = 0x80402010 + n;
			memset(&want, 0, sizeof(want));
			want.wr_id = n;
			want.srq_user_handle = (uintptr_t)&in;
			want.status = IBV_WC_SUCCESS;
			want.opcode = what == WRITE_WITH_IMM ?
				      (__u32)IBV_WC_RECV_RDMA_WITH_IMM :
				      (__u32)IBV_WC_RECV;
			want.byte_len = send.length;
			if (send.solicited)
				want.wc_flags |= IB_XRC_WC_SOLICITED;
			if (send.with_imm) {
				want.wc_flags |= IB_XRC_WC_WITH_IMM;
				want.imm_data = htonl(send.imm);
			}
			want.srq_num = in.srq.srq_num;
			want.qp_num = p->qp.qp_num;
			want.src_qp = p->ini.qp->qp_num;

			ASSERT_EQ(0, inbox_post(&in, 1));
			ASSERT_EQ(0, what == WRITE_WITH_IMM ?
				  xrc_ini_write_note(&p->ini, &send) :
				  xrc_ini_send(&p->ini, &send));
			memset(&cqe, 0xff, sizeof(cqe));
			ASSERT_EQ(0, inbox_wait(&in, &cqe));
			EXPECT_EQ(0, memcmp(&want, &cqe, sizeof(want)))
				TH_LOG("operation %d, %u bytes, solicited %d",
				       what, send.length, send.solicited);
			ASSERT_EQ(0, peer_wait_sent(p, 1));
		}
	}
	EXPECT_EQ(0, xrc_cq_poll(&self->cq, &cqe));
}

/* What verbs promise of a completion in error, and whose it is. */
TEST_F_TIMEOUT(completion, fields_of_errors, TIMEOUT)
{
	const __u32 status[] = {
		IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_PROT_ERR, IBV_WC_WR_FLUSH_ERR,
	};
	struct ib_xrc_cqe cqe;
	struct inbox in;
	struct peer p;
	unsigned int i;

	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 8, PART,
				XRC_NO_FD, &in));
	for (i = 0; i < ARRAY_SIZE(status); i++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 8, 2 * PART, &p));
		if (status[i] == IBV_WC_LOC_PROT_ERR) {
			ASSERT_EQ(0, xrc_srq_post(&self->x, &in.srq, in.posted++,
						  xrc_guard_page(), PART));
		} else {
			ASSERT_EQ(0, inbox_post(&in, 1));
		}
		switch (status[i]) {
		case IBV_WC_LOC_LEN_ERR:
			ASSERT_EQ(0, peer_send(&p, &in, 0, PART + 1, 1));
			break;
		case IBV_WC_LOC_PROT_ERR:
			ASSERT_EQ(0, peer_send(&p, &in, 0, 1, 1));
			break;
		default:
			ASSERT_EQ(0, peer_send_part(&p, &in, IB_XRC_WIRE_MORE,
						    PART));
			ASSERT_EQ(0, inbox_wait_taken(&in, in.posted));
			ASSERT_EQ(0, ev_set_state(&self->x, &p.qp, IBV_QPS_ERR));
		}
		memset(&cqe, 0xff, sizeof(cqe));
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_EQ(status[i], cqe.status);
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_EQ((uintptr_t)&in, cqe.srq_user_handle);
		EXPECT_EQ(in.srq.srq_num, cqe.srq_num);
		EXPECT_EQ(p.qp.qp_num, cqe.qp_num);
		EXPECT_EQ(p.ini.qp->qp_num, cqe.src_qp);
		EXPECT_EQ(0, cqe.byte_len);
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p.qp, IBV_QPS_ERR));
		peer_close(&self->x, &p);
	}
}

/* ----------------------------------------------------------------- order -- */

/* Several SRQs, several TGT QPs, one CQ: in order for each of the pairs. */
TEST_F_TIMEOUT(completion, one_cq_of_many, TIMEOUT)
{
	enum { PEERS = 3, INBOXES = 3, EACH = 40, SIZE = 2 * PART };
	__u32 sent[PEERS][INBOXES] = {}, next[PEERS][INBOXES] = {};
	struct ib_xrc_cqe cqe;
	struct inbox in[INBOXES];
	struct peer p[PEERS];
	__u32 length;
	int i, j, k;

	for (k = 0; k < INBOXES; k++) {
		ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 16,
					SIZE, XRC_NO_FD, &in[k]));
		ASSERT_EQ(0, inbox_post(&in[k], 3 + k));
	}
	for (i = 0; i < PEERS; i++)
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, DEPTH, EACH * SIZE,
				       &p[i]));
	srand(17);
	for (j = 0; j < EACH; j++) {
		for (i = 0; i < PEERS; i++) {
			k = rand() % INBOXES;
			/* Some in parts, some not. */
			length = (sent[i][k] * 997 + i) % SIZE;
			ASSERT_EQ(0, peer_send(&p[i], &in[k], j * SIZE, length,
					       sent[i][k] * 64 + i * 8 + k));
			sent[i][k]++;
		}
	}
	for (j = 0; j < EACH * PEERS; j++) {
		ASSERT_EQ(0, xrc_cq_wait(&self->cq, &cqe, XRC_TIMEOUT_MS))
			TH_LOG("completion %d", j);
		for (k = 0; k < INBOXES; k++)
			if (cqe.srq_num == in[k].srq.srq_num)
				break;
		for (i = 0; i < PEERS; i++)
			if (cqe.qp_num == p[i].qp.qp_num)
				break;
		ASSERT_LT(k, INBOXES);
		ASSERT_LT(i, PEERS);
		EXPECT_EQ((uintptr_t)&in[k], cqe.srq_user_handle);
		length = (next[i][k] * 997 + i) % SIZE;
		ASSERT_TRUE(inbox_has(&in[k], &cqe, length,
				      next[i][k] * 64 + i * 8 + k))
			TH_LOG("message %u of sender %d to SRQ %d",
			       next[i][k], i, k);
		next[i][k]++;
		ASSERT_EQ(0, inbox_post(&in[k], 1));
	}
	EXPECT_EQ(0, memcmp(sent, next, sizeof(sent)));
	for (i = 0; i < PEERS; i++)
		peer_close(&self->x, &p[i]);
}

/* -------------------------------------------------------------- overflow -- */

static void nonblock(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* A CQ that is full says so, in every way there is, and loses nothing else. */
TEST_F_TIMEOUT(completion, overflow, TIMEOUT)
{
	const __u32 entries = 4;
	struct ib_xrc_tgt_qp_info info;
	struct inbox in[2], other;
	struct ib_xrc_cqe cqe;
	struct peer p[2];
	struct xrc_cq cq;
	__u64 handle;
	__u32 i;

	nonblock(self->channel);
	ASSERT_EQ(0, xrc_cq_create(&self->x, entries, 0xf011, self->channel, &cq));
	/* Polled without the channel, which has events to show. */
	cq.channel = XRC_NO_FD;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 64, 1024, &p[i]));
		ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &cq, 16, 64,
					self->ef, &in[i]));
		ASSERT_EQ(0, inbox_post(&in[i], 16));
	}
	self->cq.channel = XRC_NO_FD;
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 16, 64, self->ef,
				&other));
	ASSERT_EQ(0, inbox_post(&other, 2));

	/* None of these is solicited; but that one is lost is an error. */
	xrc_cq_arm(&cq, IB_XRC_CQ_ARM_SOLICITED);
	for (i = 0; i < entries; i++)
		ASSERT_EQ(0, peer_send(&p[0], &in[0], 64 * i, 64, i));
	ASSERT_EQ(0, inbox_wait_taken(&in[0], entries));
	EXPECT_EQ(0, cq.ring->flags);
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	ASSERT_EQ(0, peer_send(&p[0], &in[0], 64 * i, 64, i));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(0xf011, handle);
	EXPECT_EQ(IB_XRC_CQ_RING_OVERFLOW,
		  __atomic_load_n(&cq.ring->flags, __ATOMIC_ACQUIRE));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_ERROR, in[0].srq.srq_num,
		     IB_XRC_SRQ_ERROR_CQ, (uintptr_t)&in[0]);
	EXPECT_EQ(0, inbox_wait_error(&in[0]));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p[0].qp, IBV_QPS_ERR));
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &p[0].qp, NULL, &info));
	/* That it was copied counts, its sender hears the contrary. */
	EXPECT_EQ(1, info.refused_msgs);

	/* Another SRQ with this CQ finds out when it has something to say. */
	EXPECT_EQ(0, in[1].srq.ring->flags & IB_XRC_SRQ_RING_ERROR);
	ASSERT_EQ(0, peer_send(&p[1], &in[1], 0, 64, 77));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_ERROR, in[1].srq.srq_num,
		     IB_XRC_SRQ_ERROR_CQ, (uintptr_t)&in[1]);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &p[1].qp, IBV_QPS_ERR));

	/* What found room is there, whole, and the room that is made is not used. */
	for (i = 0; i < entries; i++) {
		ASSERT_EQ(1, xrc_cq_poll(&cq, &cqe));
		EXPECT_EQ(i, cqe.wr_id);
		EXPECT_TRUE(inbox_has(&in[0], &cqe, 64, i));
	}
	EXPECT_EQ(0, xrc_cq_poll(&cq, &cqe));
	EXPECT_EQ(0, inbox_close(&in[0]));
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &cq, 16, 64, self->ef,
				&in[0]));
	ASSERT_EQ(0, inbox_post(&in[0], 1));
	peer_close(&self->x, &p[0]);
	ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 64, 1024, &p[0]));
	ASSERT_EQ(0, peer_send(&p[0], &in[0], 0, 64, 1));
	EXPECT_EVENT(self->ef, IB_XRC_EVENT_SRQ_ERROR, in[0].srq.srq_num,
		     IB_XRC_SRQ_ERROR_CQ, (uintptr_t)&in[0]);
	EXPECT_EQ(0, xrc_cq_poll(&cq, &cqe));
	EXPECT_EQ(IB_XRC_CQ_RING_OVERFLOW, cq.ring->flags);

	/* Who completes elsewhere did not notice. */
	ASSERT_EQ(0, peer_send(&self->peer, &other, 0, 64, 5));
	ASSERT_EQ(0, inbox_wait(&other, &cqe));
	EXPECT_TRUE(inbox_has(&other, &cqe, 64, 5));
	EXPECT_EQ(0, other.srq.ring->flags);
	EXPECT_NO_EVENT(self->ef);
	for (i = 0; i < 2; i++)
		peer_close(&self->x, &p[i]);
}

/* --------------------------------------------------------- notifications -- */

/* A thread that sends, a bit irregularly, at most WINDOW at a time. */
struct sender {
	struct peer *p;
	__u32 srq_num;
	unsigned int seed;
	int n;
	/* One of so many is solicited; 0: none is. */
	int one_of;
	int solicited;
	int ret;
};

#define WINDOW 24

static void *send_all(void *arg)
{
	struct sender *s = arg;
	struct xrc_send send = { .srq_num = s->srq_num, .length = 8 };
	int i, under_way = 0;

	for (i = 0; i < s->n && !s->ret; i++) {
		/* The last one is, so that a receiver may wait for it. */
		send.solicited = s->one_of && (i == s->n - 1 ||
					       rand_r(&s->seed) % s->one_of == 0);
		if (under_way == WINDOW) {
			s->ret = peer_wait_sent(s->p, 1);
			under_way--;
		}
		if (!s->ret)
			s->ret = xrc_ini_send(&s->p->ini, &send);
		if (send.solicited)
			s->solicited++;
		under_way++;
		xrc_spin(rand_r(&s->seed) % 30000);
	}
	if (!s->ret)
		s->ret = peer_wait_sent(s->p, under_way);
	return NULL;
}

/* Receive until all, or all but those after the last event, are there. */
static int receive_all(struct __test_metadata *_metadata, struct inbox *in,
		       int channel, const struct sender *s, __u32 arm,
		       int *solicited, int *events)
{
	unsigned int seed = s->seed ^ 0x5a5a;
	struct ib_xrc_cqe cqe;
	__u64 handle;
	int ret, n = 0;

	for (;;) {
		xrc_spin(rand_r(&seed) % 20000);
		xrc_cq_arm(in->cq, arm);
		/* Now that it is armed: what is not there yet wakes this. */
		while (xrc_cq_poll(in->cq, &cqe)) {
			EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
			*solicited += !!(cqe.wc_flags & IB_XRC_WC_SOLICITED);
			n++;
			ret = inbox_post(in, 1);
			if (ret)
				return ret;
		}
		if (n == s->n) {
			/* The last one may have raised an event that is not needed. */
			while (!xrc_channel_read(channel, &handle))
				;
			return 0;
		}
		ret = xrc_channel_wait(channel, XRC_TIMEOUT_MS);
		if (!ret)
			ret = xrc_channel_read(channel, &handle);
		if (ret) {
			TH_LOG("%d of %d received, %d solicited, seed %u", n,
			       s->n, *solicited, s->seed);
			return ret;
		}
		(*events)++;
	}
}

static const unsigned int seeds[] = { 1, 0xbeef, 77 };

/* Arming, polling and arriving at about the same time, often: nobody sleeps on. */
TEST_F_TIMEOUT(completion, wakes_up, 600)
{
	struct sender s = { .p = &self->peer };
	pthread_t thread;
	struct inbox in;
	unsigned int i;
	int solicited, events;

	nonblock(self->channel);
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 64, 64,
				XRC_NO_FD, &in));
	ASSERT_EQ(0, inbox_post(&in, 64));
	s.srq_num = in.srq.srq_num;
	for (i = 0; i < ARRAY_SIZE(seeds); i++) {
		s.seed = seeds[i];
		s.n = 700;
		s.ret = solicited = events = 0;
		ASSERT_EQ(0, pthread_create(&thread, NULL, send_all, &s));
		EXPECT_EQ(0, receive_all(_metadata, &in, self->channel, &s,
					 IB_XRC_CQ_ARM_NEXT, &solicited, &events));
		pthread_join(thread, NULL);
		ASSERT_EQ(0, s.ret);
		EXPECT_EQ(0, solicited);
		EXPECT_LT(0, events);
	}
}

/* The same, woken by solicited messages only. */
TEST_F_TIMEOUT(completion, wakes_up_when_solicited, 600)
{
	struct sender s = { .p = &self->peer, .one_of = 4 };
	pthread_t thread;
	struct inbox in;
	unsigned int i;
	int solicited, events;

	nonblock(self->channel);
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 1024, 64,
				XRC_NO_FD, &in));
	ASSERT_EQ(0, inbox_post(&in, 1024));
	s.srq_num = in.srq.srq_num;
	for (i = 0; i < ARRAY_SIZE(seeds); i++) {
		s.seed = seeds[i];
		s.n = 700;
		s.ret = s.solicited = solicited = events = 0;
		ASSERT_EQ(0, pthread_create(&thread, NULL, send_all, &s));
		EXPECT_EQ(0, receive_all(_metadata, &in, self->channel, &s,
					 IB_XRC_CQ_ARM_SOLICITED, &solicited,
					 &events));
		pthread_join(thread, NULL);
		ASSERT_EQ(0, s.ret);
		EXPECT_EQ(s.solicited, solicited);
		/* No more than there was cause for. */
		EXPECT_GE(solicited, events);
		EXPECT_LT(0, events);
	}
}

/* However many come that are not: no event. An error brings one. */
TEST_F_TIMEOUT(completion, sleeps_on_when_not_solicited, TIMEOUT)
{
	struct sender s = { .p = &self->peer, .seed = 5, .n = 300 };
	struct ib_xrc_cqe cqe;
	struct inbox in;
	__u64 handle;
	int i;

	nonblock(self->channel);
	self->cq.channel = XRC_NO_FD;
	ASSERT_EQ(0, inbox_open(&self->x, self->xrcd, &self->cq, 512, 8,
				XRC_NO_FD, &in));
	ASSERT_EQ(0, inbox_post(&in, s.n + 1));
	s.srq_num = in.srq.srq_num;
	xrc_cq_arm(&self->cq, IB_XRC_CQ_ARM_SOLICITED);
	send_all(&s);
	ASSERT_EQ(0, s.ret);
	for (i = 0; i < s.n; i++) {
		ASSERT_EQ(0, inbox_wait(&in, &cqe));
		EXPECT_EQ(0, cqe.wc_flags);
	}
	EXPECT_EQ(-EAGAIN, xrc_channel_read(self->channel, &handle));
	EXPECT_EQ(IB_XRC_CQ_ARM_SOLICITED, self->cq.ring->arm);
	ASSERT_EQ(0, peer_send(&self->peer, &in, 0, 9, 0));
	EXPECT_EQ(0, xrc_channel_wait(self->channel, XRC_TIMEOUT_MS));
	EXPECT_EQ(0, xrc_channel_read(self->channel, &handle));
	ASSERT_EQ(0, inbox_wait(&in, &cqe));
	EXPECT_EQ(IBV_WC_LOC_LEN_ERR, cqe.status);
	EXPECT_EQ(0, cqe.wc_flags);
}

TEST_HARNESS_MAIN
