// SPDX-License-Identifier: GPL-2.0
/*
 * Rings that are written to at random, by several threads, while messages come: it
 * harms the SRQ and the CQ that they belong to, and nobody else.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "event_util.h"
#include "inbox.h"
#include "scale.h"

#define TIMEOUT (300 * xrc_scale())

#define PART IB_XRC_WIRE_PART_SIZE
#define WRITERS 2
#define ENTRIES 16
#define SGES 3

/*
 * Where the messages may go. Whatever address is made of two words that do not belong
 * together, it is in here or nowhere: nothing else of the process is in these 4 GiB.
 */
#define ARENA 0x2000000000ULL
#define ARENA_LEN (64 * 1024)

/* What the writers write. */
enum garbage {
	/* Words that mean something at many places, and others. */
	ANY,
	/* Entries that look right, though they change; indices that move on. */
	PLAUSIBLE,
};

struct attack {
	struct xrc *x;
	struct xrc_cq cq;
	struct xrc_srq srq;
	enum garbage garbage;
	unsigned int seed;
	bool stop;
};

FIXTURE(hostile_rings)
{
	struct xrc x;
	__u32 xrcd, other_xrcd;
	int ef;
	__u8 *arena;
	/* Who is not to notice: in this domain, and in another one. */
	struct xrc_cq cq;
	struct inbox neighbour[2];
	struct peer peer[2];
	int kmsg;
};

FIXTURE_SETUP(hostile_rings)
{
	__u32 xrcd;
	int i;

	self->arena = mmap((void *)ARENA, ARENA_LEN, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
			   0);
	ASSERT_EQ((void *)ARENA, self->arena);
	self->kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	ASSERT_LE(0, self->kmsg);
	lseek(self->kmsg, 0, SEEK_END);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, 4096, &self->ef));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->other_xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 64, 0, XRC_NO_FD, &self->cq));
	for (i = 0; i < 2; i++) {
		xrcd = i ? self->other_xrcd : self->xrcd;
		ASSERT_EQ(0, peer_open(&self->x, xrcd, 64, 3 * PART,
				       &self->peer[i]));
		ASSERT_EQ(0, inbox_open(&self->x, xrcd, &self->cq, 16, 3 * PART,
					XRC_NO_FD, &self->neighbour[i]));
	}
}

FIXTURE_TEARDOWN(hostile_rings)
{
	int i;

	for (i = 0; i < 2; i++)
		xrc_ini_close(&self->peer[i].ini);
	close(self->kmsg);
	close(self->ef);
	xrc_close(&self->x);
	munmap(self->arena, ARENA_LEN);
}

typedef FIXTURE_DATA(hostile_rings) hostile_t;

/* Any word, but never the upper half of an address of this process that is not ARENA. */
static __u32 random_word(unsigned int *seed)
{
	const __u32 words[] = {
		0, 1, 2, SGES, SGES + 1, ENTRIES - 1, ENTRIES, ENTRIES + 1, 64,
		ARENA >> 32, ARENA >> 32, ARENA >> 32, (ARENA >> 32) + 1,
		PART, ARENA_LEN, 0x7fffffff, 0x80000000, 0xffff8880, 0xffffffff,
	};
	__u32 r = rand_r(seed);

	if (r & 1)
		return words[(r >> 1) % ARRAY_SIZE(words)];
	return rand_r(seed) | 0x80000000;
}

static void put(__u32 *p, __u32 value)
{
	__atomic_store_n(p, value, __ATOMIC_RELAXED);
}

/* A word of a ring of which the beginning is written to more often than the rest. */
static __u32 *random_place(void *ring, size_t length, unsigned int *seed)
{
	__u32 r = rand_r(seed);

	if (r & 1)
		length = IB_XRC_RING_ENTRIES_OFFSET;
	return (__u32 *)ring + rand_r(seed) % (length / 4);
}

static void write_any(struct attack *a, unsigned int *seed)
{
	if (rand_r(seed) & 1)
		put(random_place(a->srq.ring, a->srq.info.mmap_length, seed),
		    random_word(seed));
	else
		put(random_place(a->cq.ring, a->cq.info.mmap_length, seed),
		    random_word(seed));
}

static void write_plausible(struct attack *a, unsigned int *seed)
{
	struct ib_xrc_recv_wqe *wqe = (void *)((char *)a->srq.ring +
		IB_XRC_RING_ENTRIES_OFFSET +
		rand_r(seed) % ENTRIES * a->srq.info.stride);
	struct ib_uverbs_sge *sge = &wqe->sge[rand_r(seed) % SGES];
	__u32 r = rand_r(seed);

	put(&wqe->num_sge, SGES - r % 64 % (SGES + 1));
	/* Now and then it ends outside, where nothing is. */
	__atomic_store_n(&sge->addr, ARENA + rand_r(seed) % ARENA_LEN,
			 __ATOMIC_RELAXED);
	put(&sge->length, rand_r(seed) % (2 * PART));
	if (r % 8 == 0)
		put(&a->srq.ring->producer, a->srq.ring->consumer +
		    rand_r(seed) % (ENTRIES + 1));
	put(&a->cq.ring->consumer, a->cq.ring->producer);
	put(&a->cq.ring->arm, r % 4);
}

static void *write_on(void *arg)
{
	struct attack *a = arg;
	unsigned int seed = __atomic_add_fetch(&a->seed, 1, __ATOMIC_RELAXED) *
			    2654435761U;

	while (!__atomic_load_n(&a->stop, __ATOMIC_RELAXED)) {
		if (a->garbage == ANY)
			write_any(a, &seed);
		else
			write_plausible(a, &seed);
		/* Leave the messages time to come. */
		if (rand_r(&seed) % 512 == 0)
			usleep(rand_r(&seed) % 500);
	}
	return NULL;
}

/* Calls on the SRQ while its ring is written to. */
static void *call_on(void *arg)
{
	struct attack *a = arg;
	unsigned int seed = a->seed;
	struct ib_xrc_srq_attr attr;
	intptr_t ret = 0;

	while (!ret && !__atomic_load_n(&a->stop, __ATOMIC_RELAXED)) {
		ret = xrc_srq_kick(a->x, &a->srq);
		if (!ret)
			ret = xrc_srq_limit(a->x, &a->srq,
					    rand_r(&seed) % (ENTRIES + 1));
		/* The kernel goes by what it has itself. */
		if (!ret)
			ret = xrc_srq_query(a->x, &a->srq, &attr);
		if (!ret && (attr.max_wr != ENTRIES || attr.max_sge != SGES ||
			     attr.limit > ENTRIES))
			ret = -EBADMSG;
		usleep(rand_r(&seed) % 300);
	}
	return (void *)ret;
}

/* Whole messages, of one part and of several, as ever. */
static int neighbour_receives(hostile_t *self, int i, unsigned int seed)
{
	struct inbox *in = &self->neighbour[i];
	__u32 length = seed * 613 % (3 * PART);
	struct ib_xrc_cqe cqe;
	int ret;

	ret = inbox_post(in, 1);
	if (!ret)
		ret = peer_send(&self->peer[i], in, 0, length, seed);
	if (!ret)
		ret = inbox_wait(in, &cqe);
	if (!ret)
		ret = peer_wait_sent(&self->peer[i], 1);
	if (!ret && !inbox_has(in, &cqe, length, seed))
		ret = -EBADMSG;
	return ret;
}

/* Send to the SRQ under attack, some in parts, and connect anew when that failed. */
static int send_on(hostile_t *self, struct peer *victim, __u32 srq_num,
		   unsigned int *seed)
{
	struct xrc_send send = { .srq_num = srq_num };
	struct ibv_wc wc;

	if (xrc_tgt_state(&self->x, &victim->qp) == IBV_QPS_ERR) {
		peer_close(&self->x, victim);
		return peer_open(&self->x, self->xrcd, 64, 4 * PART, victim);
	}
	send.length = rand_r(seed) % (3 * PART / 2);
	send.with_imm = rand_r(seed) & 1;
	while (xrc_ini_poll(&victim->ini, &wc) > 0)
		;
	/* There may be no room, as it is held, or the QP in error by now. */
	(void)xrc_ini_send(&victim->ini, &send);
	return 0;
}

/* Messages that an SRQ has received. */
static __u64 received(hostile_t *self, __u32 srq_num)
{
	struct ib_xrc_srq_info info;
	__u32 count;

	if (xrc_list_srqs(&self->x, self->xrcd, srq_num - 1, &info, 1, &count) ||
	    info.srq_num != srq_num)
		return 0;
	return info.recv_msgs;
}

/* Lines of the kernel's log about this module since the last call. */
static int log_lines(int kmsg)
{
	char line[8192];
	int lines = 0;
	ssize_t n;

	while ((n = read(kmsg, line, sizeof(line) - 1)) > 0 || errno == EPIPE) {
		if (n <= 0)
			continue;
		line[n] = '\0';
		/* What the runner says begins with the name, too. */
		if (strstr(line, "ib_xrc:") || strstr(line, "[ib_xrc]")) {
			fputs(line, stderr);
			lines++;
		}
	}
	return lines;
}

/* Attack for some time with each of the seeds. */
static void attack(struct __test_metadata *_metadata, hostile_t *self,
		   enum garbage garbage, unsigned int seed, int rounds, int ms)
{
	struct attack a = { .x = &self->x, .garbage = garbage, .seed = seed };
	pthread_t thread[WRITERS + 1];
	unsigned int sent = 0, n = 0, turn = 0;
	__u64 taken = 0;
	struct ib_xrc_event event;
	int i, round, failed = 0;
	struct peer victim;
	long long end;
	void *ret;

	for (round = 0; round < rounds; round++) {
		ASSERT_EQ(0, peer_open(&self->x, self->xrcd, 64, 4 * PART,
				       &victim));
		ASSERT_EQ(0, xrc_cq_create(&self->x, ENTRIES, 0, XRC_NO_FD, &a.cq));
		ASSERT_EQ(0, xrc_srq_create_report(&self->x, self->xrcd, &a.cq,
						   ENTRIES, SGES, 0xbad, self->ef,
						   &a.srq));
		__atomic_store_n(&a.stop, false, __ATOMIC_RELAXED);
		for (i = 0; i < WRITERS; i++)
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, write_on,
						    &a));
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, call_on, &a));
		end = xrc_now() + ms;
		do {
			for (i = 0; i < 8; i++, sent++)
				ASSERT_EQ(0, send_on(self, &victim,
						     a.srq.srq_num, &seed));
			if (turn++ % 4)
				continue;
			ASSERT_EQ(0, neighbour_receives(self, n % 2, n))
				TH_LOG("round %d, message %u", round, n);
			n++;
		} while (xrc_now() < end);
		__atomic_store_n(&a.stop, true, __ATOMIC_RELAXED);
		for (i = 0; i < WRITERS + 1; i++) {
			ASSERT_EQ(0, pthread_join(thread[i], &ret));
			EXPECT_EQ(NULL, ret)
				TH_LOG("round %d: %ld", round, (long)ret);
		}
		/* It is told what became of it, at most once. */
		for (i = 0; xrc_event_read(self->ef, &event, 1) == 1; ) {
			EXPECT_EQ(a.srq.srq_num, event.number);
			if (event.type == IB_XRC_EVENT_SRQ_ERROR)
				i++;
			else if (event.type != IB_XRC_EVENT_SRQ_LIMIT &&
				 event.type != IB_XRC_EVENT_SRQ_BACKLOG)
				EXPECT_EQ(0U, event.type);
		}
		EXPECT_GE(1, i);
		failed += i;
		taken += received(self, a.srq.srq_num);
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &a.srq));
		EXPECT_EQ(0, xrc_cq_destroy(&self->x, &a.cq));
		peer_close(&self->x, &victim);
	}
	TH_LOG("%u messages, %llu taken, %d of %d SRQs in error, %u to neighbours",
	       sent, taken, failed, rounds, n);
	/* Something must have happened. */
	if (garbage == ANY) {
		EXPECT_LT(rounds / 2, failed);
	} else {
		EXPECT_LT(rounds, taken);
	}
	for (i = 0; i < 2; i++)
		EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x,
						     &self->peer[i].qp));
	EXPECT_EQ(0, log_lines(self->kmsg));
}

/* Most SRQs do not last long: many of them. */
TEST_F_TIMEOUT(hostile_rings, any, TIMEOUT)
{
	attack(_metadata, self, ANY, 4711, 40, 50);
}

/* These last longer, and get further into the kernel. */
TEST_F_TIMEOUT(hostile_rings, plausible, TIMEOUT)
{
	attack(_metadata, self, PLAUSIBLE, 815, 10, 300);
}

TEST_HARNESS_MAIN
