// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes on two devices, whose network loses packets, repeats them and changes
 * their order:
 *
 *   loss_peer receive ADDRESS COUNT all|some
 *   loss_peer send ADDRESS COUNT all|some
 *
 * They find each other by TCP at the receiver's ADDRESS. The sender does COUNT
 * operations of all kinds. Each must have its effect once, whole and in order. Both
 * exit with 0 if that is so, else say what was not.
 *
 * "some" leaves out what Soft-RoCE, as a sender, gets wrong where packets are lost or
 * overtaken:
 *
 * - An acknowledgement that comes between the packets of the answer to an RDMA READ it
 *   takes for the end of that answer.
 * - A work request of several packets which is acknowledged while they are sent again,
 *   and then to be sent again once more, it sends as an empty message, with the sequence
 *   number of the next one.
 * - An acknowledgement for an atomic it takes for the answer to it, which is not there.
 *
 * So each work request is of one packet, and what atomics return is not looked at, only
 * what they did.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "xrc_util.h"

#define PORT 18515
#define SRQS 2
#define BUFFERS 64
/* Three parts. */
#define SIZE 9000
#define SLOT 9216
#define WINDOW 32
/* As long as a part is. */
#define PACKET 4096
/* Parts of all messages that are under way. */
#define DEPTH (4 * WINDOW)

#define ACCESS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC)

/*
 * 67 ms, and with 7 for ever on Soft-RoCE: lost packets shall cost little time, but
 * never make the sender give up.
 */
#define TIMEOUT 14
#define RETRIES 7

/* What the sides tell each other. */
struct hello {
	union ibv_gid gid;
	__u32 qp_num;
	__u32 psn;
	__u32 mtu;
	__u32 srq_num[SRQS];
	__u32 rkey;
	__u64 addr;
};

/* At the start of the MR; slots for what is written follow. */
struct words {
	__u64 counter;
	__u64 swapped;
};

static unsigned int count;
static bool all;
static int failures;

#define CHECK(expected, value, i) check(__LINE__, #value, expected, value, i)

static void check(int line, const char *what, long long expected,
		  long long value, unsigned int i)
{
	if (expected == value)
		return;
	printf("# loss_peer.c:%d: %s is %lld, expected %lld (operation %u)\n", line,
	       what, value, expected, i);
	failures++;
}

static void need(const char *what, int ret)
{
	if (!ret)
		return;
	printf("# %s: %s\n", what, strerror(-ret));
	exit(1);
}

/* ------------------------------------------------------- the operations -- */

/* From the number of an operation follows all that it is. */
enum what { SEND, WRITE, READ, ADD, SWAP };

#define PLAN 8
#define PLAN_WRITE 2
#define PLAN_READ 6

static enum what what(unsigned int i)
{
	static const enum what plan[PLAN] = {
		SEND, SEND, WRITE, SEND, ADD, SEND, READ, SWAP
	};

	return plan[i % PLAN];
}

static unsigned int length(unsigned int i)
{
	unsigned int len = i * 7919 % (SIZE + 1);

	if (what(i) == SEND)
		return len;
	if (!all && len > PACKET)
		return PACKET;
	/* Without a byte it would show nothing. */
	return len ? len : 1;
}

/* What a READ reads was written shortly before. */
static unsigned int written(unsigned int i)
{
	return i - PLAN_READ + PLAN_WRITE;
}

static bool with_imm(unsigned int i)
{
	return what(i) == WRITE || i % 3 == 0;
}

static unsigned int srq_of(unsigned int i)
{
	return i % 5 % SRQS;
}

static bool is_received(unsigned int i)
{
	return what(i) == SEND || what(i) == WRITE;
}

/* Where in the MR an operation writes: each to a place of its own. */
static size_t place(unsigned int i)
{
	return sizeof(struct words) + (size_t)(i / PLAN) * SLOT;
}

static size_t mr_size(void)
{
	return place(count) + SLOT;
}

static void *memory(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need("mmap", p == MAP_FAILED ? -errno : 0);
	return p;
}

/* ------------------------------------------------------------------ TCP -- */

static int tcp(const char *address, struct sockaddr_in *sin)
{
	int one = 1, fd;

	memset(sin, 0, sizeof(*sin));
	sin->sin_family = AF_INET;
	sin->sin_port = htons(PORT);
	if (inet_pton(AF_INET, address, &sin->sin_addr) != 1)
		need("address", -EINVAL);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	need("socket", fd < 0 ? -errno : 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	return fd;
}

static int tcp_accept(const char *address)
{
	struct sockaddr_in sin;
	int listening = tcp(address, &sin), fd;

	if (bind(listening, (void *)&sin, sizeof(sin)) || listen(listening, 1))
		need("listen", -errno);
	fd = accept(listening, NULL, NULL);
	need("accept", fd < 0 ? -errno : 0);
	close(listening);
	return fd;
}

static int tcp_connect(const char *address)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	struct sockaddr_in sin;
	int fd = tcp(address, &sin);

	while (connect(fd, (void *)&sin, sizeof(sin))) {
		/* The receiver is still on its way. */
		need("connect", errno == ECONNREFUSED && xrc_now() < end ? 0 :
				-errno);
		close(fd);
		usleep(50000);
		fd = tcp(address, &sin);
	}
	return fd;
}

static void tell(int fd, const void *data, size_t len)
{
	need("write", write(fd, data, len) == (ssize_t)len ? 0 : -EPIPE);
}

static void hear(int fd, void *data, size_t len)
{
	need("the other side", recv(fd, data, len, MSG_WAITALL) == (ssize_t)len ?
			       0 : -ECONNRESET);
}

/* ------------------------------------------------------------- receiver -- */

struct receiver {
	struct xrc x;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc_srq srq[SRQS];
	struct xrc_mr mr;
	__u8 *written;
	__u8 *buf;
	int channel;
	/* The number of the operation whose message an SRQ gets next. */
	unsigned int next[SRQS];
};

static __u8 *buf_of(const struct receiver *r, unsigned int srq, __u64 wr_id)
{
	return r->buf + (srq * BUFFERS + wr_id) * SLOT;
}

static void post(struct receiver *r, unsigned int srq, __u64 wr_id)
{
	need("post", xrc_srq_post(&r->x, &r->srq[srq], wr_id,
				  buf_of(r, srq, wr_id), SIZE));
}

static void open_receiver(struct receiver *r)
{
	unsigned int s, i;

	r->written = memory(mr_size());
	r->buf = memory(SRQS * BUFFERS * SLOT);
	need("open", xrc_open(&r->x));
	need("open XRCD", xrc_xrcd_open(&r->x, XRC_NO_FD, 0, &r->xrcd));
	need("create TGT QP", xrc_tgt_create(&r->x, r->xrcd, &r->qp));
	need("register MR", xrc_mr_reg(&r->x, r->xrcd, r->written, mr_size(),
				       IBV_ACCESS_LOCAL_WRITE | ACCESS, &r->mr));
	need("create channel", xrc_channel_create(&r->x, &r->channel));
	need("create CQ", xrc_cq_create(&r->x, SRQS * BUFFERS, 0, r->channel,
					&r->cq));
	for (s = 0; s < SRQS; s++) {
		need("create SRQ", xrc_srq_create(&r->x, r->xrcd, &r->cq, BUFFERS,
						  1, s, &r->srq[s]));
		for (i = 0; i < BUFFERS; i++)
			post(r, s, i);
	}
}

static void connect_receiver(struct receiver *r, int fd)
{
	struct ib_uverbs_qp_attr attr;
	struct hello hello = {};
	struct xrc_ini ini;
	unsigned int s;

	/* It tells the GID and the MTU of this side, and is not connected. */
	need("open QP", xrc_ini_open(&ini, 1, 1));
	hello.gid = ini.gid;
	hello.mtu = ini.mtu;
	hello.qp_num = r->qp.qp_num;
	hello.rkey = r->mr.rkey;
	hello.addr = (uintptr_t)r->written;
	for (s = 0; s < SRQS; s++)
		hello.srq_num[s] = r->srq[s].srq_num;
	tell(fd, &hello, sizeof(hello));
	hear(fd, &hello, sizeof(hello));

	CHECK(IBV_MTU_4096, ini.mtu, 0);
	CHECK(IBV_MTU_4096, hello.mtu, 0);
	xrc_ini_tgt_attr(&ini, &attr);
	attr.qp_access_flags = ACCESS;
	attr.dest_qp_num = hello.qp_num;
	attr.rq_psn = hello.psn;
	memcpy(attr.ah_attr.grh.dgid, hello.gid.raw, sizeof(hello.gid.raw));
	xrc_ini_close(&ini);
	need("connect TGT QP", xrc_tgt_connect(&r->x, &r->qp, &attr, NULL));
	tell(fd, "", 1);
}

static void check_message(struct receiver *r, const struct ib_xrc_cqe *cqe)
{
	unsigned int srq = cqe->srq_user_handle, i;
	bool note;

	need("number of an SRQ", srq < SRQS ? 0 : -EINVAL);
	i = r->next[srq];
	while (!is_received(i) || srq_of(i) != srq)
		i++;
	r->next[srq] = i + 1;
	note = what(i) == WRITE;

	CHECK(IBV_WC_SUCCESS, cqe->status, i);
	CHECK(note ? IB_XRC_WC_RECV_RDMA_WITH_IMM : IB_XRC_WC_RECV, cqe->opcode, i);
	CHECK(length(i), cqe->byte_len, i);
	CHECK(with_imm(i) ? IB_XRC_WC_WITH_IMM : 0, cqe->wc_flags, i);
	if (with_imm(i))
		CHECK(i, ntohl(cqe->imm_data), i);
	CHECK(r->srq[srq].srq_num, cqe->srq_num, i);
	CHECK(r->qp.qp_num, cqe->qp_num, i);
	CHECK(1, xrc_check(note ? r->written + place(i) :
			   buf_of(r, srq, cqe->wr_id), length(i), i), i);
	post(r, srq, cqe->wr_id);
}

static void receive(const char *address)
{
	struct receiver *r = calloc(1, sizeof(*r));
	unsigned int i, atomics = 0;
	struct ib_xrc_cqe cqe;
	struct words *words;
	int fd;
	char c;

	need("calloc", r ? 0 : -ENOMEM);
	open_receiver(r);
	fd = tcp_accept(address);
	connect_receiver(r, fd);
	for (i = 0; i < count; i++) {
		atomics += what(i) == ADD;
		if (!is_received(i))
			continue;
		need("receive", xrc_cq_wait(&r->cq, &cqe, XRC_TIMEOUT_MS));
		check_message(r, &cqe);
	}
	hear(fd, &c, 1);
	/* Nothing came twice. */
	CHECK(0, xrc_cq_poll(&r->cq, &cqe), count);
	words = (void *)r->written;
	CHECK(atomics, words->counter, count);
	CHECK(count / PLAN, words->swapped, count);
	tell(fd, "", 1);
	close(fd);
	close(r->channel);
	xrc_close(&r->x);
}

/* --------------------------------------------------------------- sender -- */

struct sender {
	struct xrc_ini ini;
	struct hello peer;
	/* The operations that have still to complete, in order. */
	unsigned int queue[WINDOW];
	unsigned int head;
	unsigned int tail;
	__u64 adds;
	__u64 swaps;
};

static size_t offset_of(unsigned int i)
{
	return (size_t)(i % WINDOW) * SLOT;
}

static void push(struct sender *s, unsigned int i)
{
	s->queue[s->tail++ % WINDOW] = i;
}

static void post_rdma(struct sender *s, unsigned int i, enum ibv_wr_opcode opcode,
		      size_t at, unsigned int len)
{
	struct xrc_rdma rdma = {
		.opcode = opcode,
		.addr = s->peer.addr + at,
		.rkey = s->peer.rkey,
		.offset = offset_of(i),
		.length = len,
		.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 1 : i / PLAN,
		.swap = i / PLAN + 1,
	};

	need("post", xrc_ini_rdma(&s->ini, &rdma));
	push(s, i);
}

static void post_message(struct sender *s, unsigned int i)
{
	const struct xrc_send send = {
		.srq_num = s->peer.srq_num[srq_of(i)],
		.offset = offset_of(i),
		.length = length(i),
		.with_imm = with_imm(i),
		.imm = i,
	};

	if (what(i) == WRITE)
		need("post", xrc_ini_write_note(&s->ini, &send));
	else
		need("post", xrc_ini_send(&s->ini, &send));
	push(s, i);
}

static void post_operation(struct sender *s, unsigned int i)
{
	switch (what(i)) {
	case SEND:
		xrc_fill(s->ini.buf + offset_of(i), length(i), i);
		post_message(s, i);
		break;
	case WRITE:
		xrc_fill(s->ini.buf + offset_of(i), length(i), i);
		post_rdma(s, i, IBV_WR_RDMA_WRITE, place(i), length(i));
		post_message(s, i);
		break;
	case READ:
		memset(s->ini.buf + offset_of(i), 0, SIZE);
		post_rdma(s, i, IBV_WR_RDMA_READ, place(i), length(written(i)));
		break;
	case ADD:
		post_rdma(s, i, IBV_WR_ATOMIC_FETCH_AND_ADD,
			  offsetof(struct words, counter), sizeof(__u64));
		break;
	case SWAP:
		post_rdma(s, i, IBV_WR_ATOMIC_CMP_AND_SWP,
			  offsetof(struct words, swapped), sizeof(__u64));
		break;
	}
}

static void complete(struct sender *s)
{
	unsigned int i = s->queue[s->head++ % WINDOW];
	struct ibv_wc wc;
	__u64 was;

	need("completion", xrc_ini_wait(&s->ini, &wc, XRC_TIMEOUT_MS));
	CHECK(IBV_WC_SUCCESS, wc.status, i);
	/* No other one will do better. */
	if (wc.status)
		exit(1);
	memcpy(&was, s->ini.buf + offset_of(i), sizeof(was));
	if (what(i) == READ)
		CHECK(1, xrc_check(s->ini.buf + offset_of(i), length(written(i)),
				   written(i)), i);
	else if (what(i) == ADD && all)
		CHECK(s->adds++, was, i);
	else if (what(i) == SWAP && all)
		CHECK(s->swaps++, was, i);
}

static void send_all(const char *address)
{
	struct sender *s = calloc(1, sizeof(*s));
	struct hello hello = {};
	unsigned int i;
	char c;
	int fd;

	need("calloc", s ? 0 : -ENOMEM);
	need("open QP", xrc_ini_open(&s->ini, DEPTH, WINDOW * SLOT));
	fd = tcp_connect(address);
	hello.gid = s->ini.gid;
	hello.mtu = s->ini.mtu;
	hello.qp_num = s->ini.qp->qp_num;
	hello.psn = s->ini.psn;
	tell(fd, &hello, sizeof(hello));
	hear(fd, &s->peer, sizeof(s->peer));
	s->ini.peer = s->peer.gid;
	s->ini.timeout = TIMEOUT;
	s->ini.retry_cnt = RETRIES;
	need("connect QP", xrc_ini_connect(&s->ini, s->peer.qp_num));
	/* The other side can receive. */
	hear(fd, &c, 1);

	for (i = 0; i < count; i++) {
		while (s->tail - s->head > WINDOW - 2)
			complete(s);
		post_operation(s, i);
	}
	while (s->tail != s->head)
		complete(s);
	tell(fd, "", 1);
	hear(fd, &c, 1);
	close(fd);
	xrc_ini_close(&s->ini);
}

int main(int argc, char **argv)
{
	setlinebuf(stdout);
	if (argc != 5)
		return 2;
	count = atoi(argv[3]) / PLAN * PLAN;
	all = !strcmp(argv[4], "all");
	if (!strcmp(argv[1], "receive"))
		receive(argv[2]);
	else
		send_all(argv[2]);
	return failures ? 1 : 0;
}
