// SPDX-License-Identifier: GPL-2.0
/*
 * Who keeps a TGT QP alive, and that nothing is left when everybody has gone, in
 * whichever way and at whichever moment.
 *
 * The story has four parties, each a process of its own: A opens a domain, creates a
 * TGT QP and connects it to sender S; B and C register with it and receive what S
 * addresses to their SRQs. This process tells them what to do, one step after the
 * other.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

#define MESSAGES 400
#define SIZE 256
#define BUFFERS 64

/* What the last message to an SRQ carries instead of its number. */
#define END_MARK 0xffffffff

/* --------------------------------------------------------------- parties -- */

enum what {
	OPEN,		/* the device, and the domain of the file */
	CREATE,		/* a TGT QP */
	CONNECT,	/* it, to attr */
	REGISTER,	/* with TGT QP num */
	UNREGISTER,
	RESET,		/* TGT QP num, without being registered */
	MAKE_SRQ,	/* and post to it */
	RECEIVE,	/* until END_MARK; replies after the first few, and at the end */
	OPEN_INI,	/* the sender's QP */
	CONNECT_INI,	/* it, to TGT QP num */
	SEND,		/* n messages each to num and num2 (if not 0), then END_MARK */
	READ_CHANNEL,	/* block for ever */
	EXIT,
};

struct msg {
	enum what what;
	int ret;
	__u32 num;
	__u32 num2;
	__u32 n;
	struct ib_uverbs_qp_attr attr;
};

/* One process, as this one sees it. */
struct party {
	pid_t pid;
	int sock;
};

/* The same as it sees itself. */
struct self {
	int sock;
	int file;
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc_srq srq;
	int channel;
	__u32 posted;
	struct xrc_ini ini;
	__u8 buf[BUFFERS][SIZE];
};

static int post_buffer(struct self *s)
{
	__u32 id = s->posted % BUFFERS;
	int ret = xrc_srq_post(&s->x, &s->srq, id, s->buf[id], SIZE);

	if (!ret)
		s->posted++;
	return ret;
}

static int make_srq(struct self *s)
{
	int ret, i;

	ret = xrc_channel_create(&s->x, &s->channel);
	if (!ret)
		ret = xrc_cq_create(&s->x, 2 * BUFFERS, 1, s->channel, &s->cq);
	if (!ret)
		ret = xrc_srq_create(&s->x, s->xrcd, &s->cq, BUFFERS, 1, 2,
				     &s->srq);
	for (i = 0; i < BUFFERS && !ret; i++)
		ret = post_buffer(s);
	return ret;
}

/* A message is its number, then bytes that depend on it. */
static int receive(struct self *s, struct msg *m)
{
	struct ib_xrc_cqe cqe;
	__u32 next = 0, number;
	const __u8 *buf;
	int ret;

	for (m->n = 0;; m->n++) {
		ret = xrc_cq_wait(&s->cq, &cqe, 3 * XRC_TIMEOUT_MS);
		if (ret)
			return ret;
		if (cqe.status)
			return -1000 - (int)cqe.status;
		if (cqe.byte_len != SIZE || cqe.srq_num != s->srq.srq_num)
			return -EBADMSG;
		buf = s->buf[cqe.wr_id];
		memcpy(&number, buf, sizeof(number));
		if (!xrc_check(buf + 4, SIZE - 4, number))
			return -EBADMSG;
		if (number == END_MARK)
			return 0;
		/* A new sender begins anew. */
		if (number != next && number)
			return -EILSEQ;
		next = number + 1;
		ret = post_buffer(s);
		if (ret)
			return ret;
		if (m->n == 20 && send(s->sock, m, sizeof(*m), 0) < 0)
			return -errno;
	}
}

static int send_number(struct self *s, __u32 srq_num, __u32 number)
{
	struct xrc_send send = {
		.srq_num = srq_num,
		.offset = s->ini.posted % s->ini.depth * SIZE,
		.length = SIZE,
	};
	__u8 *buf = s->ini.buf + send.offset;

	memcpy(buf, &number, 4);
	xrc_fill(buf + 4, SIZE - 4, number);
	return xrc_ini_send(&s->ini, &send);
}

static int send_all(struct self *s, const struct msg *m)
{
	__u32 n = m->n * (m->num2 ? 2 : 1), end = m->num2 ? 2 : 1;
	__u32 posted, done = 0, srq_num, number;
	struct ibv_wc wc;
	int ret;

	for (posted = 0; done < n + end; done++) {
		for (; posted < n + end && posted < done + s->ini.depth / 2;
		     posted++) {
			srq_num = posted % 2 && m->num2 ? m->num2 : m->num;
			number = m->num2 ? posted / 2 : posted;
			if (posted >= n)
				number = END_MARK;
			ret = send_number(s, srq_num, number);
			if (ret)
				return ret;
		}
		ret = xrc_ini_wait(&s->ini, &wc, 3 * XRC_TIMEOUT_MS);
		if (ret)
			return ret;
		if (wc.status)
			return -2000 - (int)wc.status;
	}
	return 0;
}

static int act(struct self *s, struct msg *m)
{
	struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	struct xrc_qp by_num = {
		.by_num = true, .handle = s->xrcd, .qp_num = m->num,
	};
	int ret;

	switch (m->what) {
	case OPEN:
		ret = xrc_open(&s->x);
		return ret ? ret : xrc_xrcd_open(&s->x, s->file, O_CREAT,
						 &s->xrcd);
	case CREATE:
		ret = xrc_tgt_create(&s->x, s->xrcd, &s->qp);
		m->num = s->qp.qp_num;
		return ret;
	case CONNECT:
		return xrc_tgt_connect(&s->x, &by_num, &m->attr, NULL);
	case REGISTER:
		return xrc_tgt_open(&s->x, s->xrcd, m->num, &s->qp);
	case UNREGISTER:
		return xrc_tgt_close(&s->x, &s->qp);
	case RESET:
		return xrc_tgt_modify(&s->x, &by_num, &reset);
	case MAKE_SRQ:
		ret = make_srq(s);
		m->num = s->srq.srq_num;
		return ret;
	case RECEIVE:
		return receive(s, m);
	case OPEN_INI:
		ret = xrc_ini_open(&s->ini, 2 * BUFFERS, 2 * BUFFERS * SIZE);
		if (!ret)
			xrc_ini_tgt_attr(&s->ini, &m->attr);
		return ret;
	case CONNECT_INI:
		return xrc_ini_connect(&s->ini, m->num);
	case SEND:
		return send_all(s, m);
	case READ_CHANNEL: {
		__u64 handle;

		/* The reply comes first: there is none after it. */
		send(s->sock, m, sizeof(*m), 0);
		return xrc_channel_read(s->channel, &handle);
	}
	case EXIT:
		_exit(0);
	}
	return -EINVAL;
}

static void party_main(int sock, int file)
{
	struct self *s = calloc(1, sizeof(*s));
	struct msg m;

	s->sock = sock;
	s->file = file;
	while (recv(sock, &m, sizeof(m), 0) == sizeof(m)) {
		m.ret = act(s, &m);
		send(sock, &m, sizeof(m), MSG_NOSIGNAL);
	}
	_exit(0);
}

static int start(struct party *p, int file)
{
	int sock[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock))
		return -errno;
	p->sock = sock[0];
	p->pid = fork();
	if (p->pid < 0)
		return -errno;
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock[0]);
		party_main(sock[1], file);
	}
	close(sock[1]);
	return 0;
}

static int tell(struct party *p, const struct msg *m)
{
	return send(p->sock, m, sizeof(*m), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static int hear(struct party *p, struct msg *m)
{
	struct pollfd pfd = { .fd = p->sock, .events = POLLIN };

	if (poll(&pfd, 1, 4 * XRC_TIMEOUT_MS) <= 0)
		return -ETIME;
	return recv(p->sock, m, sizeof(*m), 0) == sizeof(*m) ? m->ret : -EPIPE;
}

static int do_msg(struct party *p, struct msg *m)
{
	int ret = tell(p, m);

	return ret ? ret : hear(p, m);
}

static int do_num(struct party *p, enum what action, __u32 num)
{
	struct msg m = { .what = action, .num = num };

	return do_msg(p, &m);
}

static int do_it(struct party *p, enum what action)
{
	return do_num(p, action, 0);
}

/* In one way or the other. */
static void end(struct party *p, bool kill_it)
{
	struct msg m = { .what = EXIT };

	if (!p->pid)
		return;
	if (kill_it)
		kill(p->pid, SIGKILL);
	else
		tell(p, &m);
	waitpid(p->pid, NULL, 0);
	close(p->sock);
	p->pid = 0;
}

/* ------------------------------------------------------------------- story -- */

enum { A, B, C, S, S2, PARTIES };

enum step {
	OPENED,
	CREATED,
	CONNECTED,
	REGISTERED,
	SRQS_MADE,
	MID_TRAFFIC,
	BEFORE_EXIT,
};

FIXTURE(lifetime)
{
	int file;
	int objects;
	struct party p[PARTIES];
	__u32 qp_num;
	__u32 srq_num[PARTIES];
	struct xrc watch;
	__u32 watch_xrcd;
};

FIXTURE_VARIANT(lifetime)
{
	int victim;
	enum step step;
};

typedef FIXTURE_DATA(lifetime) lifetime_t;

static int setup(lifetime_t *self)
{
	int ret, i;

	self->objects = xrc_kernel_objects();
	self->file = memfd_create("lifetime", MFD_CLOEXEC);
	if (self->file < 0)
		return -errno;
	for (i = A; i <= S; i++) {
		ret = start(&self->p[i], self->file);
		if (ret)
			return ret;
	}
	return 0;
}

/* Nobody is there any more: nor is anything of what they had. */
static void check_nothing_left(struct __test_metadata *_metadata,
			       lifetime_t *self)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	struct xrc x;
	__u32 xrcd;
	int ret;

	if (self->watch.fd > 0)
		xrc_close(&self->watch);
	ASSERT_EQ(0, xrc_open(&x));
	do {
		ret = xrc_xrcd_open(&x, self->file, 0, &xrcd);
		if (!ret)
			xrc_xrcd_close(&x, xrcd);
	} while (!ret && xrc_now() < end); {
	EXPECT_EQ(-EAGAIN, ret);
	}
	xrc_close(&x);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects))
		TH_LOG("%d kernel objects more than before",
		       xrc_kernel_objects() - self->objects);
}

/* From here on this process sees the domain, too. */
static void watch(struct __test_metadata *_metadata, lifetime_t *self)
{
	ASSERT_EQ(0, xrc_open(&self->watch));
	ASSERT_EQ(0, xrc_xrcd_open(&self->watch, self->file, 0,
				   &self->watch_xrcd));
}

/* References of the TGT QP; 0 if it does not exist. */
static int refs(lifetime_t *self)
{
	struct ib_xrc_tgt_qp_info info;
	__u32 count;

	if (xrc_list_tgt_qps(&self->watch, self->watch_xrcd, &info, 1, &count))
		return -1;
	return count ? (int)info.refs : 0;
}

static int wait_refs(lifetime_t *self, int n)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (refs(self) != n) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
	return 0;
}

static bool alive(const lifetime_t *self, int i)
{
	return self->p[i].pid != 0;
}

/* Connect sender i; who says it is registered or not. */
static void connect_sender(struct __test_metadata *_metadata, lifetime_t *self,
			   int i, int who)
{
	struct msg m = { .what = OPEN_INI };

	ASSERT_EQ(0, do_msg(&self->p[i], &m));
	m.what = CONNECT;
	m.num = self->qp_num;
	ASSERT_EQ(0, do_msg(&self->p[who], &m));
	ASSERT_EQ(0, do_num(&self->p[i], CONNECT_INI, self->qp_num));
}

static void do_step(struct __test_metadata *_metadata, lifetime_t *self,
		    enum step step)
{
	struct msg m = {};
	int i;

	switch (step) {
	case OPENED:
		for (i = A; i <= C; i++) {
			ASSERT_EQ(0, do_it(&self->p[i], OPEN));
		}
		break;
	case CREATED:
		m.what = CREATE;
		ASSERT_EQ(0, do_msg(&self->p[A], &m));
		self->qp_num = m.num;
		break;
	case CONNECTED:
		connect_sender(_metadata, self, S, A);
		break;
	case REGISTERED:
		for (i = B; i <= C; i++)
			if (alive(self, i)) {
				ASSERT_EQ(0, do_num(&self->p[i], REGISTER,
						    self->qp_num));
			}
		break;
	case SRQS_MADE:
		for (i = B; i <= C; i++) {
			if (!alive(self, i))
				continue;
			m.what = MAKE_SRQ;
			ASSERT_EQ(0, do_msg(&self->p[i], &m));
			self->srq_num[i] = m.num;
		}
		break;
	case MID_TRAFFIC:
		for (i = B; i <= C; i++) {
			if (!alive(self, i))
				continue;
			m.what = RECEIVE;
			ASSERT_EQ(0, tell(&self->p[i], &m));
		}
		m.what = SEND;
		m.num = alive(self, B) ? self->srq_num[B] : self->srq_num[C];
		m.num2 = alive(self, B) && alive(self, C) ? self->srq_num[C] : 0;
		m.n = MESSAGES;
		ASSERT_EQ(0, tell(&self->p[alive(self, S) ? S : S2], &m));
		/* Until some have come. */
		for (i = B; i <= C; i++)
			if (alive(self, i)) {
				ASSERT_EQ(0, hear(&self->p[i], &m));
			}
		break;
	case BEFORE_EXIT:
		for (i = B; i <= C; i++) {
			if (!alive(self, i))
				continue;
			ASSERT_EQ(0, hear(&self->p[i], &m))
				TH_LOG("receiver %c: %d", 'A' + i, m.ret);
			EXPECT_EQ(MESSAGES, m.n);
		}
		ASSERT_EQ(0, hear(&self->p[alive(self, S) ? S : S2], &m));
		break;
	}
}

FIXTURE_SETUP(lifetime)
{
	ASSERT_EQ(0, setup(self));
}

FIXTURE_TEARDOWN(lifetime)
{
	int i;

	for (i = A; i < PARTIES; i++)
		end(&self->p[i], true);
	close(self->file);
}

#define KILL(victim_, step_)						\
	FIXTURE_VARIANT_ADD(lifetime, victim_##_##step_) {		\
		.victim = victim_, .step = step_,			\
	}
#define KILL_AT_EACH_STEP(victim)					\
	KILL(victim, OPENED);						\
	KILL(victim, CREATED);						\
	KILL(victim, CONNECTED);					\
	KILL(victim, REGISTERED);					\
	KILL(victim, SRQS_MADE);					\
	KILL(victim, MID_TRAFFIC);					\
	KILL(victim, BEFORE_EXIT)

KILL_AT_EACH_STEP(A);
KILL_AT_EACH_STEP(B);
KILL_AT_EACH_STEP(C);
KILL_AT_EACH_STEP(S);

/* kill -9 of one party after one step; the others go on as far as they can. */
TEST_F_TIMEOUT(lifetime, kill, TIMEOUT)
{
	const int victim = variant->victim;
	struct msg m;
	int i, step;

	for (step = OPENED; step <= (int)variant->step; step++)
		do_step(_metadata, self, step);
	watch(_metadata, self);
	end(&self->p[victim], true);

	switch (victim) {
	case A:
		if (variant->step >= REGISTERED) {
			/* The QP is of those who registered. */
			EXPECT_EQ(0, wait_refs(self, 2));
			break;
		}
		/* It had it alone. */
		EXPECT_EQ(0, wait_refs(self, 0));
		if (variant->step >= CREATED) {
			EXPECT_EQ(-EINVAL, do_num(&self->p[B], REGISTER,
						  self->qp_num));
		}
		goto out;
	case B:
	case C:
		if (variant->step == MID_TRAFFIC) {
			/*
			 * What S goes on to send to an SRQ that is gone puts the
			 * QP in error, so that anything may happen to the rest.
			 */
			EXPECT_EQ(0, wait_refs(self, 2));
			for (i = A; i <= S; i++)
				end(&self->p[i], true);
			goto out;
		}
		if (variant->step >= REGISTERED) {
			EXPECT_EQ(0, wait_refs(self, 2));
		}
		break;
	case S:
		/* The QP does not care, and takes another sender. */
		EXPECT_EQ(variant->step >= REGISTERED ? 3 :
			  variant->step >= CREATED ? 1 : 0, refs(self));
		ASSERT_EQ(0, start(&self->p[S2], self->file));
		if (variant->step < CREATED)
			do_step(_metadata, self, CREATED);
		ASSERT_EQ(0, do_num(&self->p[A], RESET, self->qp_num));
		connect_sender(_metadata, self, S2, A);
		if (variant->step == MID_TRAFFIC) {
			/* The receivers wait for its messages. */
			m = (struct msg) {
				.what = SEND,
				.num = self->srq_num[B],
				.num2 = self->srq_num[C],
				.n = MESSAGES,
			};
			ASSERT_EQ(0, do_msg(&self->p[S2], &m));
			for (i = B; i <= C; i++) {
				ASSERT_EQ(0, hear(&self->p[i], &m));
				EXPECT_LE(MESSAGES, m.n);
			}
			goto out;
		}
		break;
	}
	for (step = variant->step + 1; step <= BEFORE_EXIT; step++)
		if (victim != S || (step != CREATED && step != CONNECTED))
			do_step(_metadata, self, step);
out:
	/* The rest leave quietly, and with the last one all is gone. */
	for (i = PARTIES - 1; i >= A; i--)
		end(&self->p[i], false);
	EXPECT_EQ(0, refs(self));
	check_nothing_left(_metadata, self);
}

/* ------------------------------------------------------------ other endings -- */

FIXTURE(story)
{
	lifetime_t l;
};

FIXTURE_SETUP(story)
{
	ASSERT_EQ(0, setup(&self->l));
}

FIXTURE_TEARDOWN(story)
{
	int i;

	for (i = A; i < PARTIES; i++)
		end(&self->l.p[i], true);
	close(self->l.file);
}

static void until(struct __test_metadata *_metadata, lifetime_t *l,
		  enum step last)
{
	int step;

	for (step = OPENED; step <= (int)last; step++)
		do_step(_metadata, l, step);
}

/* Let the parties go in an order; the QP goes with the last of A, B and C. */
static void leave(struct __test_metadata *_metadata, lifetime_t *l,
		  const int order[3])
{
	int i;

	for (i = 0; i < 3; i++) {
		EXPECT_EQ(3 - i, refs(l));
		end(&l->p[order[i]], false);
		EXPECT_EQ(0, wait_refs(l, 2 - i));
	}
	end(&l->p[S], false);
	check_nothing_left(_metadata, l);
}

TEST_F_TIMEOUT(story, creator_exits_first, TIMEOUT)
{
	lifetime_t *l = &self->l;

	until(_metadata, l, REGISTERED);
	watch(_metadata, l);
	end(&l->p[A], false);
	EXPECT_EQ(0, wait_refs(l, 2));
	do_step(_metadata, l, SRQS_MADE);
	do_step(_metadata, l, MID_TRAFFIC);
	do_step(_metadata, l, BEFORE_EXIT);
	end(&l->p[B], false);
	EXPECT_EQ(0, wait_refs(l, 1));
	end(&l->p[C], false);
	EXPECT_EQ(0, wait_refs(l, 0));
	end(&l->p[S], false);
	check_nothing_left(_metadata, l);
}

TEST_F_TIMEOUT(story, creator_exits_in_the_middle, TIMEOUT)
{
	until(_metadata, &self->l, BEFORE_EXIT);
	watch(_metadata, &self->l);
	leave(_metadata, &self->l, (const int[]){ B, A, C });
}

TEST_F_TIMEOUT(story, creator_exits_last, TIMEOUT)
{
	until(_metadata, &self->l, BEFORE_EXIT);
	watch(_metadata, &self->l);
	leave(_metadata, &self->l, (const int[]){ C, B, A });
}

/* Closing the registration is as good as exiting. */
TEST_F_TIMEOUT(story, unregister, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int i;

	until(_metadata, l, BEFORE_EXIT);
	watch(_metadata, l);
	for (i = A; i <= C; i++) {
		EXPECT_EQ(0, do_it(&l->p[i], UNREGISTER));
		EXPECT_EQ(C - i, refs(l));
		EXPECT_EQ(-ENOENT, do_it(&l->p[i], UNREGISTER));
	}
	/* SRQs alone do not keep it, and do not mind. */
	EXPECT_EQ(-EINVAL, do_num(&l->p[A], REGISTER, l->qp_num));
	for (i = A; i <= S; i++)
		end(&l->p[i], false);
	check_nothing_left(_metadata, l);
}

/* All at once, with traffic. */
TEST_F_TIMEOUT(story, all_killed, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int i;

	until(_metadata, l, MID_TRAFFIC);
	for (i = A; i <= S; i++)
		kill(l->p[i].pid, SIGKILL);
	for (i = A; i <= S; i++)
		end(&l->p[i], true);
	check_nothing_left(_metadata, l);
}

TEST_F_TIMEOUT(story, killed_in_read, TIMEOUT)
{
	lifetime_t *l = &self->l;

	until(_metadata, l, SRQS_MADE);
	EXPECT_EQ(0, do_it(&l->p[B], READ_CHANNEL));
	end(&l->p[B], true);
	watch(_metadata, l);
	EXPECT_EQ(0, wait_refs(l, 2));
	end(&l->p[A], true);
	end(&l->p[C], true);
	EXPECT_EQ(0, wait_refs(l, 0));
	end(&l->p[S], true);
	check_nothing_left(_metadata, l);
}

/* Messages wait at an SRQ whose owner is killed. */
TEST_F_TIMEOUT(story, killed_with_messages_waiting, TIMEOUT)
{
	lifetime_t *l = &self->l;
	struct msg m;

	until(_metadata, l, SRQS_MADE);
	/* More than it has buffers for; it does not receive any. */
	m = (struct msg) { .what = SEND, .num = l->srq_num[B], .n = BUFFERS + 20 };
	EXPECT_EQ(0, do_msg(&l->p[S], &m));
	end(&l->p[B], true);
	/* The QP is fine: nothing was sent to an SRQ that is not there. */
	m = (struct msg) { .what = RECEIVE };
	EXPECT_EQ(0, tell(&l->p[C], &m));
	m = (struct msg) { .what = SEND, .num = l->srq_num[C], .n = MESSAGES };
	EXPECT_EQ(0, do_msg(&l->p[S], &m));
	EXPECT_EQ(0, hear(&l->p[C], &m));
	EXPECT_EQ(0, hear(&l->p[C], &m));
	EXPECT_EQ(MESSAGES, m.n);
	end(&l->p[A], true);
	end(&l->p[C], true);
	end(&l->p[S], true);
	check_nothing_left(_metadata, l);
}

/* A sender is held by RNR for an SRQ whose owner is killed. */
TEST_F_TIMEOUT(story, killed_with_sender_held, TIMEOUT)
{
	lifetime_t *l = &self->l;
	struct msg m;

	until(_metadata, l, SRQS_MADE);
	m = (struct msg) { .what = SEND, .num = l->srq_num[B], .n = 3000 };
	EXPECT_EQ(0, tell(&l->p[S], &m));
	m = (struct msg) { .what = RECEIVE };
	EXPECT_EQ(0, tell(&l->p[C], &m));
	end(&l->p[B], true);
	/* What comes now is for an SRQ that does not exist: the sender hears it. */
	EXPECT_GT(-2000, hear(&l->p[S], &m));
	end(&l->p[C], true);
	end(&l->p[A], true);
	end(&l->p[S], true);
	check_nothing_left(_metadata, l);
}

/* -------------------------------------------------- files that are passed on -- */

FIXTURE(passed)
{
	lifetime_t l;
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
};

FIXTURE_SETUP(passed)
{
	lifetime_t *l = &self->l;

	l->objects = xrc_kernel_objects();
	l->file = memfd_create("passed", MFD_CLOEXEC);
	ASSERT_LE(0, l->file);
}

FIXTURE_TEARDOWN(passed)
{
	close(self->l.file);
}

typedef FIXTURE_DATA(passed) passed_t;

static int make_qp(passed_t *self)
{
	int ret = xrc_open(&self->x);

	if (!ret)
		ret = xrc_xrcd_open(&self->x, self->l.file, O_CREAT, &self->xrcd);
	if (!ret)
		ret = xrc_tgt_create(&self->x, self->xrcd, &self->qp);
	self->l.qp_num = self->qp.qp_num;
	return ret;
}

/* Wait for a child that does its part; -1 or its exit code. */
static int join(pid_t pid)
{
	int status;

	if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return -1;
	return WEXITSTATUS(status);
}

/* Receive a message into own memory, on a file that was made by another process. */
static int use(passed_t *self)
{
	struct xrc_send send = { .length = 100 };
	struct xrc_ini ini;
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u8 buf[128];
	int ret;

	ret = xrc_ini_open(&ini, 8, 128);
	if (!ret)
		ret = xrc_ini_pair(&ini, &self->x, &self->qp);
	if (!ret)
		ret = xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &cq);
	if (!ret)
		ret = xrc_srq_create(&self->x, self->xrcd, &cq, 4, 1, 0, &srq);
	if (!ret)
		ret = xrc_srq_post(&self->x, &srq, 0, buf, sizeof(buf));
	if (ret)
		return ret;
	send.srq_num = srq.srq_num;
	xrc_fill(ini.buf, 100, 5);
	ret = xrc_ini_send(&ini, &send);
	if (!ret)
		ret = xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS);
	if (!ret && (cqe.status || !xrc_check(buf, 100, 5)))
		ret = -EBADMSG;
	xrc_ini_close(&ini);
	if (!ret)
		ret = xrc_srq_destroy(&self->x, &srq);
	if (!ret)
		ret = xrc_cq_destroy(&self->x, &cq);
	return ret;
}

static void wait_go(int fd)
{
	char c;

	while (read(fd, &c, 1) < 0 && errno == EINTR)
		;
}

/* The parent makes the QP and goes, the child has the file by fork. */
TEST_F_TIMEOUT(passed, fork, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int ready[2], go[2], quit[2], result[2], ret = -1;
	pid_t parent;

	ASSERT_EQ(0, pipe(ready) | pipe(go) | pipe(quit) | pipe(result));
	/* Who would wait for the grandchild is this process. */
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	parent = fork();
	ASSERT_LE(0, parent);
	if (!parent) {
		if (make_qp(self))
			_exit(1);
		if (!fork()) {
			close(go[1]);
			close(quit[1]);
			wait_go(go[0]);
			ret = use(self);
			if (write(result[1], &ret, sizeof(ret)) < 0)
				_exit(1);
			wait_go(quit[0]);
			_exit(0);
		}
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		_exit(0);
	}
	wait_go(ready[0]);
	EXPECT_EQ(0, join(parent));
	watch(_metadata, l);
	EXPECT_EQ(1, refs(l));
	close(go[0]);
	close(go[1]);
	EXPECT_EQ(sizeof(ret), read(result[0], &ret, sizeof(ret)));
	EXPECT_EQ(0, ret);
	EXPECT_EQ(1, refs(l));
	close(quit[0]);
	close(quit[1]);
	EXPECT_LT(0, wait(NULL));
	EXPECT_EQ(0, wait_refs(l, 0));
	check_nothing_left(_metadata, l);
}

/* Addresses are those of the process that made the SRQ, also when it is gone. */
TEST_F_TIMEOUT(passed, memory_of_the_dead, TIMEOUT)
{
	lifetime_t *l = &self->l;
	struct shared {
		struct xrc_srq srq;
		struct xrc_cq cq;
		int ret;
	} *shared;
	struct xrc_send send = { .length = 100 };
	struct xrc_ini ini;
	struct ib_xrc_cqe cqe;
	struct xrc_cq cq;
	__u8 *buf;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	buf = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_NE(MAP_FAILED, buf);
	ASSERT_EQ(0, make_qp(self));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		shared->ret = xrc_cq_create(&self->x, 4, 0, XRC_NO_FD,
					    &shared->cq);
		if (!shared->ret)
			shared->ret = xrc_srq_create(&self->x, self->xrcd,
						     &shared->cq, 4, 1, 0,
						     &shared->srq);
		if (!shared->ret)
			shared->ret = xrc_srq_post(&self->x, &shared->srq, 9,
						   buf, 100);
		_exit(0);
	}
	ASSERT_EQ(0, join(pid));
	ASSERT_EQ(0, shared->ret);
	cq = shared->cq;
	cq.ring = xrc_ring_map(&self->x, &cq.info);
	ASSERT_NE(MAP_FAILED, cq.ring);
	ASSERT_EQ(0, xrc_ini_open(&ini, 8, 128));
	ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &self->qp));
	send.srq_num = shared->srq.srq_num;
	memset(ini.buf, 0x33, 100);
	ASSERT_EQ(0, xrc_ini_send(&ini, &send));
	ASSERT_EQ(0, xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status);
	EXPECT_EQ(9, cqe.wr_id);
	/* The same address in this process is left alone. */
	EXPECT_EQ(0, buf[0] | buf[99]);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
	munmap(cq.ring, cq.info.mmap_length);
	xrc_ini_close(&ini);
	xrc_close(&self->x);
	check_nothing_left(_metadata, l);
}

static int send_fd(int sock, int fd)
{
	char buf[CMSG_SPACE(sizeof(int))] = {}, c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -errno;
}

static int recv_fd(int sock)
{
	char buf[CMSG_SPACE(sizeof(int))] = {}, c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *cmsg;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));
	return fd;
}

/* By a UNIX socket; between sending and receiving nobody has it open. */
TEST_F_TIMEOUT(passed, unix_socket, TIMEOUT)
{
	lifetime_t *l = &self->l;
	struct shared {
		struct xrc x;
		__u32 xrcd;
		struct xrc_qp qp;
	} *shared;
	int sock[2], fd;
	pid_t pid;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		if (make_qp(self) || send_fd(sock[0], self->x.fd))
			_exit(1);
		shared->x = self->x;
		shared->xrcd = self->xrcd;
		shared->qp = self->qp;
		_exit(0);
	}
	ASSERT_EQ(0, join(pid));
	close(sock[0]);
	watch(_metadata, l);
	EXPECT_EQ(1, refs(l));

	/* Handles go with the file. */
	fd = recv_fd(sock[1]);
	ASSERT_LE(0, fd);
	self->x = shared->x;
	self->x.fd = fd;
	self->xrcd = shared->xrcd;
	self->qp = shared->qp;
	EXPECT_EQ(0, use(self));
	EXPECT_EQ(1, refs(l));
	close(fd);
	EXPECT_EQ(0, wait_refs(l, 0));
	close(sock[1]);
	check_nothing_left(_metadata, l);
}

/* Nobody ever takes it out of the socket. */
TEST_F_TIMEOUT(passed, unix_socket_closed, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int sock[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	ASSERT_EQ(0, make_qp(self));
	ASSERT_EQ(0, send_fd(sock[0], self->x.fd));
	xrc_close(&self->x);
	watch(_metadata, l);
	EXPECT_EQ(1, refs(l));
	close(sock[0]);
	EXPECT_EQ(1, refs(l));
	close(sock[1]);
	EXPECT_EQ(0, wait_refs(l, 0));
	check_nothing_left(_metadata, l);
}

/* A file that waits in a socket which waits in itself: the garbage collector's. */
TEST_F_TIMEOUT(passed, unix_socket_cycle, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int sock[2];

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	ASSERT_EQ(0, make_qp(self));
	ASSERT_EQ(0, send_fd(sock[0], self->x.fd));
	ASSERT_EQ(0, send_fd(sock[0], sock[0]));
	ASSERT_EQ(0, send_fd(sock[0], sock[1]));
	xrc_close(&self->x);
	watch(_metadata, l);
	EXPECT_EQ(1, refs(l));
	close(sock[0]);
	close(sock[1]);
	/* It looks when the next socket is closed. */
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	close(sock[0]);
	close(sock[1]);
	EXPECT_EQ(0, wait_refs(l, 0));
	check_nothing_left(_metadata, l);
}

TEST_F_TIMEOUT(passed, dup, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int fd;

	ASSERT_EQ(0, make_qp(self));
	watch(_metadata, l);
	fd = dup(self->x.fd);
	close(self->x.fd);
	EXPECT_EQ(1, refs(l));
	self->x.fd = fd;
	EXPECT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &self->qp));
	xrc_close(&self->x);
	EXPECT_EQ(0, wait_refs(l, 0));
	check_nothing_left(_metadata, l);
}

/* With close-on-exec, as xrc_open() does, a program does not inherit it. */
TEST_F_TIMEOUT(passed, exec, TIMEOUT)
{
	int in[2], execd[2];
	pid_t pid;
	char c;

	ASSERT_EQ(0, pipe2(in, O_CLOEXEC));
	ASSERT_EQ(0, pipe2(execd, O_CLOEXEC));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		dup2(in[0], 0);
		if (make_qp(self))
			_exit(1);
		execlp("cat", "cat", NULL);
		_exit(1);
	}
	/* Its end is reached when cat runs, which then waits for its input. */
	close(execd[1]);
	EXPECT_EQ(0, read(execd[0], &c, 1));
	check_nothing_left(_metadata, &self->l);
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	close(in[0]);
	close(in[1]);
	EXPECT_EQ(0, join(pid));
	close(execd[0]);
}

/* ------------------------------------------------------ a receiver that is busy -- */

enum {
	HELD_MSGS = 8,
	HELD_ROUNDS = 10,
	/* How long the lock is held: without the fix 2 s of it were too many. */
	HELD_MS = 8000,
	/* Memory whose protection takes some milliseconds to change. */
	HELD_SIZE = 128 << 20,
};

/* What the processes of the test know of each other. */
struct held {
	int cpu;
	__u32 srq_num;
	volatile bool ready;
	volatile bool spinning;
	volatile bool stop;
	volatile __u32 posted;
	volatile __u32 received;
	volatile int ret;
	volatile bool done;
};

static int on_cpu(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) ? -errno : 0;
}

/* The second one there is; -1 if there is none. */
static int second_cpu(void)
{
	cpu_set_t set;
	int cpu, n = 0;

	if (sched_getaffinity(0, sizeof(set), &set))
		return -1;
	for (cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set) && ++n == 2)
			return cpu;
	return -1;
}

/*
 * Holds the lock of the address space for all but the moments between two calls, and
 * runs only when nobody else would, so that it holds it for as long as somebody else
 * does run.
 */
static void *hold_main(void *arg)
{
	const struct sched_param param = {};
	struct held *held = arg;
	long page = sysconf(_SC_PAGESIZE), i;
	volatile char *big;

	big = mmap(NULL, HELD_SIZE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (big == MAP_FAILED || on_cpu(held->cpu) ||
	    madvise((void *)big, HELD_SIZE, MADV_NOHUGEPAGE))
		_exit(1);
	/* Reading is enough for a page table, and costs no other memory. */
	for (i = 0; i < HELD_SIZE; i += page)
		(void)big[i];
	if (sched_setscheduler(0, SCHED_IDLE, &param))
		_exit(1);
	held->ready = true;
	while (!held->stop) {
		mprotect((void *)big, HELD_SIZE, PROT_READ);
		mprotect((void *)big, HELD_SIZE, PROT_READ | PROT_WRITE);
	}
	return NULL;
}

static int held_receive(struct held *held, int file)
{
	static __u8 buf[HELD_MSGS][SIZE];
	struct ib_xrc_cqe cqe;
	pthread_t thread;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc x;
	__u32 xrcd, i;
	int channel, ret;

	ret = xrc_open(&x);
	if (!ret)
		ret = xrc_xrcd_open(&x, file, 0, &xrcd);
	if (!ret)
		ret = xrc_channel_create(&x, &channel);
	if (!ret)
		ret = xrc_cq_create(&x, 2 * HELD_MSGS, 0, channel, &cq);
	if (!ret)
		ret = xrc_srq_create(&x, xrcd, &cq, HELD_MSGS, 1, 0, &srq);
	if (ret)
		return ret;
	held->srq_num = srq.srq_num;
	if (pthread_create(&thread, NULL, hold_main, held))
		return -EAGAIN;
	for (;;) {
		for (i = 0; i < HELD_MSGS; i++) {
			memset(buf[i], 0, SIZE);
			ret = xrc_srq_post(&x, &srq, i, buf[i], SIZE);
			if (ret)
				return ret;
		}
		held->posted += HELD_MSGS;
		for (i = 0; i < HELD_MSGS; i++) {
			ret = xrc_cq_wait(&cq, &cqe, HELD_MS + 2 * XRC_TIMEOUT_MS);
			if (ret)
				return ret;
			if (cqe.status)
				return -1000 - (int)cqe.status;
			if (cqe.wr_id != i || !xrc_check(buf[i], SIZE, i))
				return -EBADMSG;
			held->received++;
		}
	}
}

/* Wait until all that was sent is received, and as much posted again. */
static bool wait_received(const volatile struct held *held, __u32 n)
{
	long long end = xrc_now() + 3 * XRC_TIMEOUT_MS;

	while (held->posted != n + HELD_MSGS && !held->done && xrc_now() < end)
		usleep(1000);
	return held->received == n && !held->done;
}

static bool wait_true(const volatile bool *what)
{
	long long end = xrc_now() + 3 * XRC_TIMEOUT_MS;

	while (!*what && xrc_now() < end)
		usleep(1000);
	return *what;
}

/* What stops the thread, most probably while it holds the lock. */
static pid_t spin(struct held *held)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (on_cpu(held->cpu))
		_exit(1);
	held->spinning = true;
	while (!held->stop)
		;
	_exit(0);
}

/*
 * A receiver holds the lock of its address space for long, as a large fork(2) does.
 * Its messages wait, and nobody else suffers. When they did not wait, but were refused
 * after two seconds, the TGT QP, which others use too, was put in error.
 */
TEST_F_TIMEOUT(passed, address_space_is_locked, TIMEOUT)
{
	struct xrc_send send = { .length = SIZE };
	lifetime_t *l = &self->l;
	struct ib_xrc_srq_info info;
	pid_t receiver, spinner;
	struct held *held;
	struct xrc_ini ini;
	__u32 count, sent;
	bool held_up = false;
	struct ibv_wc wc;
	long long end;
	int i;

	held = mmap(NULL, sizeof(*held), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, held);
	held->cpu = second_cpu();
	if (held->cpu < 0)
		SKIP(return, "there is one CPU only");
	ASSERT_EQ(0, make_qp(self));
	receiver = fork();
	ASSERT_LE(0, receiver);
	if (!receiver) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(self->x.fd);
		held->ret = held_receive(held, l->file);
		held->done = true;
		pause();
	}
	ASSERT_EQ(0, xrc_ini_open(&ini, 2 * HELD_MSGS, HELD_MSGS * SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &self->qp));
	ASSERT_TRUE(wait_true(&held->ready));

	send.srq_num = held->srq_num;
	/* It may be stopped between two calls: try again then. */
	for (sent = 0; sent < HELD_ROUNDS * HELD_MSGS && !held_up;) {
		ASSERT_TRUE(wait_received(held, sent));
		spinner = spin(held);
		ASSERT_LE(0, spinner);
		ASSERT_TRUE(wait_true(&held->spinning));
		usleep(200000);
		for (i = 0; i < HELD_MSGS; i++) {
			send.offset = i * SIZE;
			xrc_fill(ini.buf + send.offset, SIZE, i);
			ASSERT_EQ(0, xrc_ini_send(&ini, &send));
		}
		for (i = 0; i < HELD_MSGS; i++) {
			ASSERT_EQ(0, xrc_ini_wait(&ini, &wc, XRC_TIMEOUT_MS));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		}
		sent += HELD_MSGS;
		for (end = xrc_now() + HELD_MS; xrc_now() < end; usleep(20000)) {
			ASSERT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp))
				TH_LOG("%lld ms before the end", end - xrc_now());
		}
		held_up = held->received < sent;
		held->spinning = false;
		kill(spinner, SIGKILL);
		waitpid(spinner, NULL, 0);
	}
	/* They were held up, or this has shown nothing. */
	EXPECT_TRUE(held_up);
	EXPECT_EQ(0, xrc_list_srqs(&self->x, self->xrcd, 0, &info, 1, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(0, info.flags & IB_XRC_SRQ_RING_ERROR);

	held->stop = true;
	EXPECT_TRUE(wait_received(held, sent));
	EXPECT_EQ(0, held->ret);
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp));
	kill(receiver, SIGKILL);
	waitpid(receiver, NULL, 0);
	xrc_ini_close(&ini);
	xrc_close(&self->x);
	check_nothing_left(_metadata, l);
	munmap(held, sizeof(*held));
}

/* ------------------------------------------------------------------- crowds -- */

/* Many processes with one QP, killed at once. */
TEST_F_TIMEOUT(passed, crowd, TIMEOUT)
{
	enum { N = 24 };
	lifetime_t *l = &self->l;
	int ready[2], i;
	pid_t pid[N];
	char c;

	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, make_qp(self));
	for (i = 0; i < N; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			struct xrc x;
			struct xrc_qp qp;
			struct xrc_cq cq;
			struct xrc_srq srq;
			__u32 xrcd;

			close(self->x.fd);
			if (xrc_open(&x) ||
			    xrc_xrcd_open(&x, l->file, 0, &xrcd) ||
			    xrc_tgt_open(&x, xrcd, l->qp_num, &qp) ||
			    xrc_cq_create(&x, 64, 0, XRC_NO_FD, &cq) ||
			    xrc_srq_create(&x, xrcd, &cq, 64, 1, 0, &srq))
				_exit(1);
			if (write(ready[1], "", 1) == 1)
				pause();
			_exit(1);
		}
	}
	for (i = 0; i < N; i++) {
		ASSERT_EQ(1, read(ready[0], &c, 1));
	}
	watch(_metadata, l);
	EXPECT_EQ(N + 1, refs(l));
	for (i = 0; i < N; i++)
		kill(pid[i], SIGKILL);
	for (i = 0; i < N; i++)
		waitpid(pid[i], NULL, 0);
	EXPECT_EQ(0, wait_refs(l, 1));
	xrc_close(&self->x);
	EXPECT_EQ(0, wait_refs(l, 0));
	check_nothing_left(_metadata, l);
}

/* All of it, over and over. */
static void whole_life(int file)
{
	struct xrc_send send = { .length = 64 };
	struct xrc_ini ini;
	struct ib_xrc_cqe cqe;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc x;
	__u8 buf[64];
	__u32 xrcd;
	int i;

	for (;;) {
		if (xrc_open(&x) || xrc_xrcd_open(&x, file, O_CREAT, &xrcd) ||
		    xrc_tgt_create(&x, xrcd, &qp) || xrc_ini_open(&ini, 64, 64) ||
		    xrc_ini_pair(&ini, &x, &qp) ||
		    xrc_cq_create(&x, 64, 0, XRC_NO_FD, &cq) ||
		    xrc_srq_create(&x, xrcd, &cq, 64, 1, 0, &srq))
			_exit(1);
		send.srq_num = srq.srq_num;
		for (i = 0; i < 20; i++)
			if (xrc_srq_post(&x, &srq, i, buf, 64) ||
			    xrc_ini_send(&ini, &send))
				_exit(1);
		for (i = 0; i < 20; i++)
			if (xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS) || cqe.status)
				_exit(1);
		munmap(cq.ring, cq.info.mmap_length);
		munmap(srq.ring, srq.info.mmap_length);
		xrc_close(&x);
		xrc_ini_close(&ini);
	}
}

/* Killed at moments nobody chose. */
TEST_F_TIMEOUT(passed, killed_at_random, TIMEOUT)
{
	lifetime_t *l = &self->l;
	int round, i, status;
	pid_t pid[2];

	srand(7);
	for (round = 0; round < 40; round++) {
		for (i = 0; i < 2; i++) {
			pid[i] = fork();
			ASSERT_LE(0, pid[i]);
			if (!pid[i])
				whole_life(l->file);
		}
		/* Not to wait for something, but to be early or late. */
		usleep(rand() % 100000);
		for (i = 0; i < 2; i++)
			kill(pid[i], SIGKILL);
		for (i = 0; i < 2; i++) {
			waitpid(pid[i], &status, 0);
			EXPECT_TRUE(WIFSIGNALED(status));
		}
	}
	check_nothing_left(_metadata, l);
}

TEST_HARNESS_MAIN
