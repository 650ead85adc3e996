// SPDX-License-Identifier: GPL-2.0
/*
 * A process of a storm: does one thing after another with TGT QPs and SRQs that it
 * shares with the others, until it is killed. Each call is to work or to fail with an
 * errno that is documented for it; each message that arrives is to be one that
 * was sent, and in order.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "storm.h"
#include "xrc_util.h"

#define BUFFERS 32
#define SIZE 256
#define DEPTH 32
#define LONGEST 8192
#define REGISTRATIONS 8
#define LISTED 128

#define MAGIC 0x53544f52

/* What events are of. */
#define OF_XRCD 1
#define OF_TGT_QP 2
#define OF_SRQ 3

const char *const storm_call_name[STORM_CALLS] = {
	[STORM_BIND] = "bind",
	[STORM_XRCD_OPEN] = "open XRCD",
	[STORM_XRCD_CLOSE] = "close XRCD",
	[STORM_EVENT_FILE] = "create event file",
	[STORM_CHANNEL] = "create channel",
	[STORM_CQ_CREATE] = "create CQ",
	[STORM_CQ_DESTROY] = "destroy CQ",
	[STORM_SRQ_CREATE] = "create SRQ",
	[STORM_SRQ_DESTROY] = "destroy SRQ",
	[STORM_SRQ_MODIFY] = "modify SRQ",
	[STORM_SRQ_POST] = "post",
	[STORM_TGT_CREATE] = "create TGT QP",
	[STORM_TGT_OPEN] = "open TGT QP",
	[STORM_TGT_CLOSE] = "close TGT QP",
	[STORM_TGT_MODIFY] = "modify",
	[STORM_TGT_CONNECT] = "connect",
	[STORM_TGT_DISCONNECT] = "disconnect",
	[STORM_TGT_RELEASE] = "disconnect and release",
	[STORM_TGT_QUERY] = "query",
	[STORM_LIST_TGT_QPS] = "list TGT QPs",
	[STORM_LIST_SRQS] = "list SRQs",
	[STORM_LIST_HOLDERS] = "list holders",
	[STORM_EVENT_READ] = "read events",
	[STORM_INI_OPEN] = "open INI QP",
	[STORM_INI_RESET] = "reset INI QP",
	[STORM_INI_CONNECT] = "connect INI QP",
	[STORM_INI_SEND] = "send",
	[STORM_INI_WAIT] = "wait for send",
};

/* The errnos that the ABI has for a call that others may get in the way of. */
static const int allowed[STORM_CALLS][6] = {
	[STORM_SRQ_CREATE] = { EDQUOT },
	[STORM_TGT_CREATE] = { EDQUOT },
	[STORM_TGT_OPEN] = { EINVAL, EACCES },
	[STORM_TGT_MODIFY] = { EINVAL, ESTALE, EACCES },
	[STORM_TGT_CONNECT] = { EINVAL, ESTALE, EACCES, ETIMEDOUT },
	[STORM_TGT_DISCONNECT] = { EINVAL, ESTALE, EACCES },
	[STORM_TGT_RELEASE] = { EINVAL, ESTALE },
	[STORM_TGT_QUERY] = { EINVAL, ESTALE },
	[STORM_LIST_HOLDERS] = { EINVAL, ESTALE },
	[STORM_EVENT_READ] = { EAGAIN },
	/* rxe: a QP that has an error while it is being reset is in ERR afterwards. */
	[STORM_INI_RESET] = { EINVAL },
	[STORM_INI_WAIT] = { ETIME },
};

/* The policies of the domains. With DOMAIN alone they fill up, so there are limits. */
static const struct ib_xrc_policy policies[STORM_DOMAINS] = {
	{ .type = IB_XRC_POLICY_REFS },
	{ .type = IB_XRC_POLICY_REFS,
	  .flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED },
	{ .type = IB_XRC_POLICY_REFS, .max_tgt_qps = 6, .max_srqs = 3 },
	{ .type = IB_XRC_POLICY_DOMAIN, .max_tgt_qps = 24 },
	{ .type = IB_XRC_POLICY_DOMAIN, .linger_ms = 50 },
	{ .type = IB_XRC_POLICY_DOMAIN,
	  .flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ, .max_tgt_qps = 24 },
	{ .type = IB_XRC_POLICY_DOMAIN,
	  .flags = IB_XRC_DOMAIN_RECLAIM_REFERENCED, .max_bytes = 4 << 20 },
	{ .type = IB_XRC_POLICY_DOMAIN, .linger_ms = 20,
	  .flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ |
		   IB_XRC_DOMAIN_RECLAIM_REFERENCED },
};

/* The domain that jobs share, each with a key of its own. */
#define DOMAIN_OF_JOBS 4

/* What a message carries; bytes that depend on all of it follow. */
struct head {
	__u32 magic;
	__u32 sender;
	__u32 life;
	__u32 connection;
	__u32 number;
	__u32 seed;
};

struct worker {
	struct storm *storm;
	struct storm_slot *slot;
	unsigned int index;
	__u32 life;
	__u64 random;

	struct xrc x;
	bool gone;		/* the device */
	int events;
	int channel;
	unsigned int domain;
	__u64 key;		/* 0 if there is none */
	__u32 xrcd;
	bool has_xrcd;
	struct xrc_qp qp[REGISTRATIONS];
	unsigned int qps;
	struct xrc_cq cq;
	struct xrc_srq srq;
	__u8 buf[BUFFERS][SIZE];
	/* The last message of each sender. */
	struct head last[STORM_WORKERS];

	struct xrc_ini ini;
	bool connected;
	unsigned int outstanding;
	__u32 connection;
	__u32 number;
};

void storm_fail(struct storm *storm, const char *format, ...)
{
	va_list args;

	if (__atomic_exchange_n(&storm->failed, 1, __ATOMIC_ACQ_REL))
		return;
	va_start(args, format);
	vsnprintf(storm->failure, sizeof(storm->failure), format, args);
	va_end(args);
}

static unsigned int pick(struct worker *w, unsigned int n)
{
	return (storm_random(&w->random) >> 33) % n;
}

static bool is_closing(enum storm_call what)
{
	return what == STORM_XRCD_CLOSE || what == STORM_CQ_DESTROY ||
	       what == STORM_SRQ_DESTROY || what == STORM_TGT_CLOSE;
}

/* Count a call; returns what it returned. */
static int call(struct worker *w, enum storm_call what, int ret)
{
	unsigned int i;

	__atomic_fetch_add(&w->slot->calls, 1, __ATOMIC_RELAXED);
	if (ret >= 0) {
		storm_count(&w->storm->done[what]);
		return ret;
	}
	storm_count(&w->storm->error[what][-ret < STORM_ERRNOS ? -ret : 0]);
	/* Closing works even if the device is gone. */
	if (w->storm->removal && !is_closing(what)) {
		if (ret == -EIO || (what == STORM_BIND && ret == -ENODEV))
			w->gone = true;
		/* What libibverbs says of a device that goes is its own. */
		if (w->gone || what >= STORM_INI_OPEN)
			return ret;
	}
	for (i = 0; i < sizeof(allowed[0]) / sizeof(allowed[0][0]); i++)
		if (allowed[what][i] && ret == -allowed[what][i])
			return ret;
	storm_fail(w->storm, "worker %u: %s: %s (domain %u)", w->index,
		   storm_call_name[what], strerror(-ret), w->domain);
	_exit(1);
}

/* What is wrong with what a call that worked has told. */
static void wrong(struct worker *w, const char *what, __u64 value)
{
	storm_fail(w->storm, "worker %u: %s: %#llx (domain %u)", w->index, what,
		   (unsigned long long)value, w->domain);
	_exit(1);
}

/* ------------------------------------------------------------- messages -- */

static void post(struct worker *w, __u64 id)
{
	call(w, STORM_SRQ_POST,
	     xrc_srq_post(&w->x, &w->srq, id, w->buf[id], SIZE));
}

static void check_message(struct worker *w, const struct ib_xrc_cqe *cqe)
{
	const __u8 *buf = w->buf[cqe->wr_id];
	struct head head, *last;

	memcpy(&head, buf, sizeof(head));
	if (cqe->byte_len != SIZE || cqe->srq_user_handle != OF_SRQ)
		wrong(w, "length of a message", cqe->byte_len);
	if (head.magic != MAGIC || head.sender >= STORM_WORKERS ||
	    !xrc_check(buf + sizeof(head), SIZE - sizeof(head), head.seed))
		wrong(w, "contents of a message", head.magic);
	last = &w->last[head.sender];
	if (last->life == head.life && last->connection == head.connection &&
	    last->number >= head.number)
		wrong(w, "order of messages", head.number);
	*last = head;
	storm_count(&w->storm->received);
}

static void receive(struct worker *w)
{
	struct ib_xrc_cqe cqe;
	int ret;

	if (!w->srq.ring)
		return;
	ret = xrc_cq_wait(&w->cq, &cqe, pick(w, 30));
	for (; !ret; ret = xrc_cq_poll(&w->cq, &cqe) ? 0 : -ETIME) {
		if (cqe.wr_id >= BUFFERS)
			wrong(w, "wr_id", cqe.wr_id);
		switch (cqe.status) {
		case IBV_WC_SUCCESS:
			check_message(w, &cqe);
			break;
		case IBV_WC_LOC_LEN_ERR:
		case IBV_WC_WR_FLUSH_ERR:
			storm_count(&w->storm->refused);
			break;
		default:
			wrong(w, "status of a completion", cqe.status);
		}
		post(w, cqe.wr_id);
	}
	if (ret == -EIO && w->storm->removal)
		w->gone = true;
	else if (ret != -ETIME && ret != -EAGAIN)
		wrong(w, "waiting for a completion", -ret);
}

/* Take what became of the messages that were sent. */
static void reap(struct worker *w, unsigned int keep, int timeout_ms)
{
	struct ibv_wc wc;

	while (w->connected && w->outstanding > keep) {
		if (call(w, STORM_INI_WAIT,
			 xrc_ini_wait(&w->ini, &wc, timeout_ms))) {
			w->connected = false;
			return;
		}
		w->outstanding--;
		if (wc.status == IBV_WC_SUCCESS) {
			storm_count(&w->storm->sent);
		} else {
			storm_count(&w->storm->unsent);
			w->connected = false;
		}
	}
}

/* An SRQ of the same domain; 0 if there is none. */
static __u32 pick_srq(struct worker *w)
{
	unsigned int i, from = pick(w, STORM_WORKERS);
	const struct storm_slot *slot;

	for (i = 0; i < STORM_WORKERS; i++) {
		slot = &w->storm->slot[(from + i) % STORM_WORKERS];
		if (slot->srq_num && slot->domain == w->domain &&
		    slot->key == w->key)
			return slot->srq_num;
	}
	return 0;
}

static void send_some(struct worker *w)
{
	struct xrc_send send = { .length = SIZE };
	unsigned int n = 1 + pick(w, DEPTH / 2);
	struct head head = {
		.magic = MAGIC,
		.sender = w->index,
		.life = w->life,
		.connection = w->connection,
	};
	__u8 *buf;

	for (; n && w->connected && !w->gone; n--) {
		send.srq_num = pick_srq(w);
		if (!send.srq_num)
			return;
		send.offset = w->number % DEPTH * SIZE;
		send.solicited = pick(w, 2);
		buf = w->ini.buf + send.offset;
		head.number = ++w->number;
		head.seed = storm_random(&w->random);
		memcpy(buf, &head, sizeof(head));
		xrc_fill(buf + sizeof(head), SIZE - sizeof(head), head.seed);
		if (call(w, STORM_INI_SEND, xrc_ini_send(&w->ini, &send)))
			w->connected = false;
		else
			w->outstanding++;
		reap(w, DEPTH / 2, 200);
	}
	reap(w, pick(w, DEPTH / 2), 200);
}

/* What puts a TGT QP in error. */
static void provoke(struct worker *w)
{
	struct xrc_send send = { .srq_num = pick_srq(w), .length = SIZE };
	int ret;

	if (!w->connected)
		return;
	reap(w, 0, 200);
	if (!w->connected)
		return;
	switch (pick(w, 5)) {
	case 0:
		send.srq_num = IB_XRC_WIRE_SRQ_NUM_MAX - pick(w, 256);
		ret = xrc_ini_send(&w->ini, &send);
		break;
	case 1:
		send.length = 2 * SIZE;
		ret = xrc_ini_send(&w->ini, &send);
		break;
	case 2:
		send.length = LONGEST;
		ret = xrc_ini_send(&w->ini, &send);
		break;
	case 3:
		ret = xrc_ini_send_raw(&w->ini, IBV_WR_SEND, 0, 0, SIZE);
		break;
	default:
		ret = xrc_ini_rdma_write(&w->ini, 4096, 0xdead, 0, SIZE);
	}
	if (!call(w, STORM_INI_SEND, ret)) {
		w->outstanding++;
		storm_count(&w->storm->provoked);
	}
	reap(w, 0, 100);
	w->connected = false;
}

/* -------------------------------------------------------------- TGT QPs -- */

static struct xrc_report report_of(const struct worker *w, __u64 what)
{
	return (struct xrc_report) { .fd = w->events, .user_handle = what };
}

static void create(struct worker *w)
{
	struct xrc_report report = report_of(w, OF_TGT_QP);

	if (w->qps == REGISTRATIONS)
		return;
	if (!call(w, STORM_TGT_CREATE,
		  xrc_tgt_create_report(&w->x, w->xrcd, pick(w, 2) ? &report : NULL,
					&w->qp[w->qps])))
		w->qps++;
}

/* Look who is there, and register with one. */
static void share(struct worker *w)
{
	struct ib_xrc_tgt_qp_info list[LISTED];
	struct xrc_report report = report_of(w, OF_TGT_QP);
	__u32 count, i;

	if (call(w, STORM_LIST_TGT_QPS,
		 xrc_list_tgt_qps(&w->x, w->xrcd, list, LISTED, &count)))
		return;
	for (i = 1; i < count && i < LISTED; i++)
		if (list[i].qp_num <= list[i - 1].qp_num)
			wrong(w, "order of a list", list[i].qp_num);
	if (!count || w->qps == REGISTRATIONS)
		return;
	i = pick(w, count < LISTED ? count : LISTED);
	if (!call(w, STORM_TGT_OPEN,
		  xrc_tgt_open_report(&w->x, w->xrcd, list[i].qp_num,
				      pick(w, 2) ? &report : NULL,
				      &w->qp[w->qps])))
		w->qps++;
}

/* How to name a QP that this one is registered with. */
static struct xrc_qp name(struct worker *w, unsigned int i)
{
	struct xrc_qp qp = w->qp[i];

	if (pick(w, 2)) {
		qp.by_num = true;
		qp.handle = w->xrcd;
	}
	return qp;
}

static void forget(struct worker *w, unsigned int i)
{
	w->qp[i] = w->qp[--w->qps];
}

static void unregister(struct worker *w)
{
	unsigned int i;

	if (!w->qps)
		return;
	i = pick(w, w->qps);
	call(w, STORM_TGT_CLOSE, xrc_tgt_close(&w->x, &w->qp[i]));
	forget(w, i);
}

static void modify(struct worker *w)
{
	struct ib_uverbs_qp_attr attr = { .qp_attr_mask = IBV_QP_STATE };
	struct xrc_qp qp;

	if (!w->qps)
		return;
	qp = name(w, pick(w, w->qps));
	attr.qp_state = pick(w, 2) ? IBV_QPS_RESET : IBV_QPS_ERR;
	call(w, STORM_TGT_MODIFY, xrc_tgt_modify(&w->x, &qp, &attr));
}

static int open_ini(struct worker *w)
{
	int ret;

	if (w->ini.qp)
		return 0;
	ret = xrc_ini_open(&w->ini, DEPTH, LONGEST);
	return call(w, STORM_INI_OPEN, ret);
}

/*
 * By ERR: resetting a QP that is sending makes rxe spin until it has sent, which
 * takes the time of all others.
 */
static int reset_ini(struct worker *w)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct ibv_wc wc;
	int ret;

	if (w->outstanding && !ibv_modify_qp(w->ini.qp, &attr, IBV_QP_STATE))
		while (w->outstanding && !xrc_ini_wait(&w->ini, &wc, 200)) {
			storm_count(&w->storm->unsent);
			w->outstanding--;
		}
	w->outstanding = 0;
	w->connection++;
	ret = call(w, STORM_INI_RESET, xrc_ini_reset(&w->ini));
	if (ret)
		xrc_ini_close(&w->ini);
	return ret;
}

/* Have a TGT QP face the INI QP, whoever has it now. */
static void connect_to(struct worker *w)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp;
	__u32 state;
	int ret;

	if (w->connected || !w->qps || open_ini(w))
		return;
	qp = name(w, pick(w, w->qps));
	if (call(w, STORM_TGT_QUERY, xrc_tgt_query(&w->x, &qp, NULL, &info)))
		return;
	if (info.state == IBV_QPS_RTS && pick(w, 4))
		return;
	if (info.state != IBV_QPS_RESET &&
	    call(w, STORM_TGT_MODIFY, xrc_tgt_modify(&w->x, &qp, &attr)))
		return;
	if (reset_ini(w))
		return;
	xrc_ini_tgt_attr(&w->ini, &attr);
	if (pick(w, 2))
		ret = xrc_tgt_connect(&w->x, &qp, &attr, &state);
	else
		ret = xrc_tgt_connect_timeout(&w->x, &qp, &attr, pick(w, 2000),
					      &state);
	if (call(w, STORM_TGT_CONNECT, ret))
		return;
	if (!call(w, STORM_INI_CONNECT, xrc_ini_connect(&w->ini, qp.qp_num)))
		w->connected = true;
}

static void disconnect(struct worker *w)
{
	/* One that is long is for being killed, or for the device to go. */
	__u32 timeout_ms = pick(w, 16) ? pick(w, 40) : (__u32)XRC_TIMEOUT_MS;
	struct ib_xrc_disconnect_info info;
	struct xrc_qp qp;
	unsigned int i;

	if (!w->qps)
		return;
	i = pick(w, w->qps);
	if (pick(w, 2)) {
		qp = name(w, i);
		call(w, STORM_TGT_DISCONNECT,
		     xrc_tgt_disconnect(&w->x, &qp, timeout_ms, &info));
	} else if (!call(w, STORM_TGT_RELEASE,
			 xrc_tgt_disconnect_release(&w->x, &w->qp[i],
						    timeout_ms, &info))) {
		forget(w, i);
	}
}

/* ------------------------------------------------------- looking around -- */

static void check_event(struct worker *w, const struct ib_xrc_event *event)
{
	__u64 of = event->user_handle;
	bool ok;

	switch (event->type) {
	case IB_XRC_EVENT_TGT_QP_CREATED:
		ok = of == OF_XRCD;
		break;
	case IB_XRC_EVENT_TGT_QP_ERROR:
		ok = of == OF_TGT_QP;
		break;
	case IB_XRC_EVENT_TGT_QP_RECLAIMED:
		ok = of == OF_XRCD || of == OF_TGT_QP;
		break;
	case IB_XRC_EVENT_SRQ_LIMIT:
	case IB_XRC_EVENT_SRQ_BACKLOG:
		ok = of == OF_SRQ;
		break;
	case IB_XRC_EVENT_OVERFLOW:
		ok = of == 0 && event->value;
		break;
	case IB_XRC_EVENT_PORT_ACTIVE:
	case IB_XRC_EVENT_PORT_DOWN:
	case IB_XRC_EVENT_DEVICE_REMOVED:
		ok = of == 0 && w->storm->removal;
		break;
	default:
		ok = false;
	}
	if (!ok)
		wrong(w, "event", (__u64)event->type << 32 | of);
	storm_count(&w->storm->events);
}

static void look(struct worker *w)
{
	struct ib_xrc_holder_info holders[LISTED];
	struct ib_xrc_srq_info srqs[LISTED];
	struct ib_xrc_event events[16];
	struct ib_uverbs_qp_attr attr;
	struct ib_xrc_tgt_qp_info info;
	struct xrc_qp qp;
	__u32 count;
	int i, n;

	n = call(w, STORM_EVENT_READ, xrc_event_read(w->events, events, 16));
	for (i = 0; i < n; i++)
		check_event(w, &events[i]);
	if (w->gone)
		return;
	call(w, STORM_LIST_SRQS,
	     xrc_list_srqs(&w->x, w->xrcd, pick(w, 2) ? w->srq.srq_num : 0, srqs,
			   LISTED, &count));
	if (!w->qps)
		return;
	qp = name(w, pick(w, w->qps));
	call(w, STORM_LIST_HOLDERS,
	     xrc_list_holders(&w->x, &qp, 0, holders, LISTED, &count));
	call(w, STORM_TGT_QUERY, xrc_tgt_query(&w->x, &qp, &attr, &info));
}

/* -------------------------------------------------------------- the file -- */

static void make_srq(struct worker *w)
{
	int ret;
	__u64 i;

	if (w->srq.ring)
		return;
	if (!w->cq.ring &&
	    call(w, STORM_CQ_CREATE,
		 xrc_cq_create(&w->x, 2 * BUFFERS, 1, w->channel, &w->cq)))
		return;
	ret = xrc_srq_create_report(&w->x, w->xrcd, &w->cq, BUFFERS, 1, OF_SRQ,
				    w->events, &w->srq);
	if (call(w, STORM_SRQ_CREATE, ret))
		return;
	for (i = 0; i < BUFFERS && !w->gone; i++)
		post(w, i);
	call(w, STORM_SRQ_MODIFY, xrc_srq_limit(&w->x, &w->srq, BUFFERS / 2));
	w->slot->key = w->key;
	w->slot->domain = w->domain;
	__atomic_store_n(&w->slot->srq_num, w->srq.srq_num, __ATOMIC_RELEASE);
}

/* The CQ goes, too: what is left in it is of buffers that are posted anew. */
static void drop_srq(struct worker *w)
{
	__atomic_store_n(&w->slot->srq_num, 0, __ATOMIC_RELEASE);
	if (w->srq.ring)
		call(w, STORM_SRQ_DESTROY, xrc_srq_destroy(&w->x, &w->srq));
	if (w->cq.ring)
		call(w, STORM_CQ_DESTROY, xrc_cq_destroy(&w->x, &w->cq));
}

static void drop_or_make_srq(struct worker *w)
{
	if (w->srq.ring && !pick(w, 4))
		drop_srq(w);
	else
		make_srq(w);
}

static int open_file(struct worker *w)
{
	struct xrc_report report;
	struct xrc_xrcd_opts opts = { .report = &report };
	int ret;

	memset(w->last, 0, sizeof(w->last));
	w->gone = false;
	w->events = -1;
	w->channel = -1;
	ret = xrc_open_node(&w->x);
	if (ret)
		wrong(w, "opening the node", -ret);
	ret = call(w, STORM_BIND, xrc_bind(&w->x, xrc_device()));
	if (!ret)
		ret = call(w, STORM_EVENT_FILE,
			   xrc_event_file_create(&w->x, -1, &w->events));
	if (!ret)
		ret = call(w, STORM_CHANNEL,
			   xrc_channel_create(&w->x, &w->channel));
	if (ret)
		return ret;

	w->domain = pick(w, STORM_DOMAINS);
	w->key = w->domain == DOMAIN_OF_JOBS ? 1 + pick(w, 2) : 0;
	report = report_of(w, OF_XRCD);
	opts.policy = &policies[w->domain];
	opts.job_key = w->key ? &w->key : NULL;
	ret = call(w, STORM_XRCD_OPEN,
		   xrc_xrcd_open_with(&w->x, w->storm->file[w->domain], O_CREAT,
				      &opts, &w->xrcd));
	w->has_xrcd = !ret;
	return ret;
}

static void close_file(struct worker *w)
{
	/* Closing works whatever has happened; without it the file cleans up. */
	if (pick(w, 2)) {
		while (w->qps)
			unregister(w);
		drop_srq(w);
		if (w->has_xrcd)
			call(w, STORM_XRCD_CLOSE,
			     xrc_xrcd_close(&w->x, w->xrcd));
	}
	__atomic_store_n(&w->slot->srq_num, 0, __ATOMIC_RELEASE);
	if (pick(w, 2))
		xrc_close(&w->x);
	if (w->srq.ring)
		munmap(w->srq.ring, w->srq.info.mmap_length);
	if (w->cq.ring)
		munmap(w->cq.ring, w->cq.info.mmap_length);
	if (w->events >= 0)
		close(w->events);
	if (w->channel >= 0)
		close(w->channel);
	xrc_close(&w->x);
	w->srq.ring = NULL;
	w->cq.ring = NULL;
	w->qps = 0;
	w->has_xrcd = false;
	if (w->ini.qp && (w->gone || pick(w, 2)))
		xrc_ini_close(&w->ini);
	w->connected = false;
}

static void use_file(struct worker *w)
{
	/* Often enough that most find somebody to talk to. */
	static void (*const step[])(struct worker *w) = {
		create, share, share, share, unregister, modify,
		connect_to, connect_to, connect_to, connect_to,
		send_some, send_some, send_some, send_some, send_some, send_some,
		receive, receive, receive, receive, receive, receive,
		drop_or_make_srq, drop_or_make_srq, look, provoke, disconnect,
	};
	unsigned int n = 20 + pick(w, 200);

	make_srq(w);
	if (!w->gone)
		create(w);
	for (; n && !w->gone; n--)
		step[pick(w, sizeof(step) / sizeof(step[0]))](w);
}

void storm_work(struct storm *storm, unsigned int index, __u32 life)
{
	static struct worker w;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w.storm = storm;
	w.slot = &storm->slot[index];
	w.index = index;
	w.life = life;
	w.random = (storm->seed + 1) * 0x9e3779b97f4a7c15ULL ^
		   ((__u64)life << 8 | index | 1ULL << 40);
	w.x.fd = -1;
	do {
		if (!open_file(&w))
			use_file(&w);
		if (w.gone) {
			storm_count(&storm->rebinds);
			usleep(20000);
		}
		close_file(&w);
	} while (pick(&w, 16));
	if (w.ini.qp)
		xrc_ini_close(&w.ini);
}
