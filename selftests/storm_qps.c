// SPDX-License-Identifier: GPL-2.0
/*
 * A lot of TGT QPs at a time.
 *
 *   storm_qps COUNT WAY [SECONDS]
 *
 * One process makes a domain and COUNT TGT QPs, some of them with their receive
 * buffers; another one lists the QPs and registers with all; a third one looks on. Then
 * they go, in one of these ways:
 *
 *   close      REFS: the last registration is closed
 *   exit       REFS: both processes exit
 *   kill       REFS: both are killed at the same time
 *   last-srq   DOMAIN: the last SRQ is destroyed
 *   linger     DOMAIN: their time without registrations is over
 *   domain     DOMAIN: the last handle of the domain is closed
 *   removal    the device goes; says "ready", and reads a line when it is gone
 *
 * Exits with 0 if all was as it should be, and says how long it took. Fails when SECONDS
 * have passed.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "xrc_util.h"

/*
 * QPs of a page of the list: not a divisor of the count. The length of an attribute
 * has 16 bits, so a page has 1365 at most.
 */
#define PAGE 270
/* One in so many QPs is taken to INIT, where it has all its receive buffers. */
#define FEW 16
#define LINGER_MS 3000

/* How far it came, for all of the processes. */
struct progress {
	const char *phase;
	unsigned int n;
};

static struct progress *progress;
static unsigned int count;
static int file;

static void begin(const char *phase)
{
	progress->phase = phase;
	progress->n = 0;
}

#define NEED(expected, value) need(__LINE__, #value, expected, value)

static void need(int line, const char *what, long expected, long value)
{
	if (expected == value)
		return;
	printf("# line %d: %s is %ld (%s), expected %ld; %s: %u of %u\n",
	       line, what, value, value < 0 ? strerror(-value) : "", expected,
	       progress->phase, progress->n, count);
	exit(1);
}

static void too_late(int sig)
{
	char line[120];
	int n;

	n = snprintf(line, sizeof(line), "# too slow: %s: %u of %u\n",
		     progress->phase, progress->n, count);
	if (write(STDOUT_FILENO, line, n) < 0)
		_exit(2);
	_exit(1);
}

/* Of the whole machine, kB. */
static long memory_available(void)
{
	char line[128];
	long kb = -1;
	FILE *f = fopen("/proc/meminfo", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "MemAvailable: %ld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb;
}

/* ------------------------------------------------------------ the domain -- */

/* A file that has the domain open. */
struct view {
	struct xrc x;
	__u32 xrcd;
};

static void open_view(struct view *v, const struct ib_xrc_policy *policy)
{
	const struct xrc_xrcd_opts opts = { .policy = policy };

	NEED(0, xrc_open(&v->x));
	NEED(0, xrc_xrcd_open_with(&v->x, file, O_CREAT, &opts, &v->xrcd));
}

/* A page of the list of TGT QPs. */
static int list_page(struct view *v, __u32 after, struct ib_xrc_tgt_qp_info *info,
		     unsigned int n, __u32 *left)
{
	union xrc_cmd cmd;

	xrc_cmd_for(&v->x, &cmd, IB_XRC_OBJECT_XRCD,
		    IB_XRC_METHOD_XRCD_LIST_TGT_QPS);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, v->xrcd);
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS, info,
		n * sizeof(*info));
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, left,
		sizeof(*left));
	if (after)
		xrc_in_u32(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_AFTER, after);
	return xrc_ioctl(v->x.fd, &cmd);
}

/* The whole list, page by page: it has count entries. */
static struct ib_xrc_tgt_qp_info *list_pages(struct view *v)
{
	struct ib_xrc_tgt_qp_info *info = calloc(count + PAGE, sizeof(*info));
	__u32 left, after = 0;
	unsigned int n;

	if (!info)
		exit(1);
	for (n = 0; n < count; n += PAGE) {
		NEED(0, list_page(v, after, info + n, PAGE, &left));
		NEED(count - n, left);
		after = info[(n + PAGE < count ? n + PAGE : count) - 1].qp_num;
	}
	NEED(0, list_page(v, after, info + count, PAGE, &left));
	NEED(0, left);
	return info;
}

/* The same: each is as it was made, and has so many references. */
static struct ib_xrc_tgt_qp_info *list_all(struct view *v, __u32 refs)
{
	struct ib_xrc_tgt_qp_info *info = list_pages(v);
	unsigned int i, in_init = 0;

	for (i = 0; i < count; i++) {
		progress->n = i;
		if (i)
			NEED(1, info[i].qp_num > info[i - 1].qp_num);
		NEED(refs, info[i].refs);
		if (info[i].state == IBV_QPS_INIT)
			in_init++;
		else
			NEED(IBV_QPS_RESET, info[i].state);
	}
	NEED((count + FEW - 1) / FEW, in_init);
	return info;
}

static unsigned int how_many(struct view *v)
{
	__u32 n;

	NEED(0, xrc_list_tgt_qps(&v->x, v->xrcd, NULL, 0, &n));
	return n;
}

/* What a process had goes when it has ended, which takes a moment. */
static void wait_for_refs(struct view *v, __u32 refs)
{
	struct ib_xrc_tgt_qp_info *info;
	unsigned int i;

	do {
		info = list_pages(v);
		for (i = 0; i < count && info[i].refs == refs; i++)
			progress->n = i;
		free(info);
		usleep(2000);
	} while (i < count);
}

static void wait_for_none(struct view *v)
{
	struct ib_xrc_xrcd_info info;
	unsigned int n;

	do {
		n = how_many(v);
		progress->n = count - n;
		NEED(0, xrc_xrcd_query(&v->x, v->xrcd, &info));
		usleep(2000);
	} while (n || info.tgt_qps || info.bytes);
}

/* ------------------------------------------------------------ the others -- */

/* A process that makes the QPs or registers with them. */
struct party {
	pid_t pid;
	int sock;
};

enum order {
	CREATE,		/* all QPs */
	FILL,		/* take some of them to INIT */
	SHARE,		/* list them, and register with all */
	CLOSE,		/* all registrations */
	CHECK_GONE,	/* all calls fail but closing */
	EXIT,
};

static void create_all(struct view *v, struct xrc_qp *qp)
{
	for (progress->n = 0; progress->n < count; progress->n++)
		NEED(0, xrc_tgt_create(&v->x, v->xrcd, &qp[progress->n]));
}

static void fill(struct view *v, struct xrc_qp *qp)
{
	struct ib_uverbs_qp_attr attr = {
		.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				IBV_QP_ACCESS_FLAGS,
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
	};

	for (progress->n = 0; progress->n < count; progress->n += FEW)
		NEED(0, xrc_tgt_modify(&v->x, &qp[progress->n], &attr));
}

static void share_all(struct view *v, struct xrc_qp *qp)
{
	struct ib_xrc_tgt_qp_info *info = list_all(v, 1);

	for (progress->n = 0; progress->n < count; progress->n++)
		NEED(0, xrc_tgt_open(&v->x, v->xrcd, info[progress->n].qp_num,
				     &qp[progress->n]));
	free(info);
}

static void close_all(struct view *v, struct xrc_qp *qp)
{
	for (progress->n = 0; progress->n < count; progress->n++)
		NEED(0, xrc_tgt_close(&v->x, &qp[progress->n]));
}

static void check_gone(struct view *v, struct xrc_qp *qp)
{
	struct ib_xrc_tgt_qp_info info;
	__u32 n;

	NEED(-EIO, xrc_list_tgt_qps(&v->x, v->xrcd, NULL, 0, &n));
	for (progress->n = 0; progress->n < count; progress->n++)
		NEED(-EIO, xrc_tgt_query(&v->x, &qp[progress->n], NULL, &info));
	close_all(v, qp);
	NEED(0, xrc_xrcd_close(&v->x, v->xrcd));
}

static void obey(int sock, const struct ib_xrc_policy *policy)
{
	struct xrc_qp *qp = calloc(count, sizeof(*qp));
	struct view v;
	char order;

	if (!qp)
		exit(1);
	open_view(&v, policy);
	while (read(sock, &order, 1) == 1) {
		switch (order) {
		case CREATE:
			create_all(&v, qp);
			break;
		case FILL:
			fill(&v, qp);
			break;
		case SHARE:
			share_all(&v, qp);
			break;
		case CLOSE:
			close_all(&v, qp);
			break;
		case CHECK_GONE:
			check_gone(&v, qp);
			break;
		case EXIT:
			exit(0);
		}
		if (write(sock, &order, 1) != 1)
			break;
	}
	exit(1);
}

static void start(struct party *p, const struct ib_xrc_policy *policy)
{
	int sock[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sock))
		exit(1);
	fflush(stdout);
	p->pid = fork();
	if (!p->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(sock[0]);
		obey(sock[1], policy);
	}
	close(sock[1]);
	p->sock = sock[0];
	NEED(1, p->pid > 0);
}

static void tell(struct party *p, enum order what)
{
	char order = what;

	NEED(1, write(p->sock, &order, 1));
	NEED(1, read(p->sock, &order, 1));
}

static void let_exit(struct party *p)
{
	char order = EXIT;
	int status;

	NEED(1, write(p->sock, &order, 1));
	NEED(p->pid, waitpid(p->pid, &status, 0));
	NEED(0, status);
}

static void wait_for_death(struct party *p)
{
	int status;

	NEED(p->pid, waitpid(p->pid, &status, 0));
	NEED(SIGKILL, status);
}

/* -------------------------------------------------------------- the ways -- */

/* All that is there when the QPs are to go. */
struct stage {
	struct view v;
	struct party creator;
	struct party sharer;
	struct xrc_cq cq;
	struct xrc_srq srq;
	bool v_is_closed;
};

static void still_there(struct stage *s, __u32 refs)
{
	wait_for_refs(&s->v, refs);
	free(list_all(&s->v, refs));
}

static void way_close(struct stage *s)
{
	tell(&s->sharer, CLOSE);
	still_there(s, 1);
	tell(&s->creator, CLOSE);
	NEED(0, how_many(&s->v));
	let_exit(&s->sharer);
	let_exit(&s->creator);
}

static void way_exit(struct stage *s)
{
	let_exit(&s->creator);
	still_there(s, 1);
	let_exit(&s->sharer);
}

static void way_kill(struct stage *s)
{
	kill(s->creator.pid, SIGKILL);
	kill(s->sharer.pid, SIGKILL);
	wait_for_death(&s->creator);
	wait_for_death(&s->sharer);
}

static void way_last_srq(struct stage *s)
{
	let_exit(&s->creator);
	kill(s->sharer.pid, SIGKILL);
	wait_for_death(&s->sharer);
	still_there(s, 0);
	NEED(0, xrc_srq_destroy(&s->v.x, &s->srq));
	NEED(0, how_many(&s->v));
	NEED(0, xrc_cq_destroy(&s->v.x, &s->cq));
}

static void way_linger(struct stage *s)
{
	long long first;
	unsigned int n;

	let_exit(&s->sharer);
	still_there(s, 1);
	first = xrc_now() + LINGER_MS;
	let_exit(&s->creator);
	do {
		n = how_many(&s->v);
		/* None goes before its time. */
		if (xrc_now() < first)
			NEED(count, n);
		usleep(20000);
	} while (n == count);
}

static void way_domain(struct stage *s)
{
	let_exit(&s->creator);
	tell(&s->sharer, CLOSE);
	still_there(s, 0);
	let_exit(&s->sharer);
	still_there(s, 0);
	NEED(0, xrc_xrcd_close(&s->v.x, s->v.xrcd));
	s->v_is_closed = true;
}

static void way_removal(struct stage *s)
{
	char line[16];

	puts("ready");
	NEED(1, !!fgets(line, sizeof(line), stdin));
	tell(&s->creator, CHECK_GONE);
	tell(&s->sharer, CHECK_GONE);
	let_exit(&s->creator);
	let_exit(&s->sharer);
	NEED(0, xrc_xrcd_close(&s->v.x, s->v.xrcd));
	s->v_is_closed = true;
}

static const struct {
	const char *name;
	void (*go)(struct stage *s);
	struct ib_xrc_policy policy;
	bool srq;
} ways[] = {
	{ "close", way_close, { .type = IB_XRC_POLICY_REFS }, false },
	{ "exit", way_exit, { .type = IB_XRC_POLICY_REFS }, false },
	{ "kill", way_kill, { .type = IB_XRC_POLICY_REFS }, false },
	{ "last-srq", way_last_srq,
	  { .type = IB_XRC_POLICY_DOMAIN,
	    .flags = IB_XRC_DOMAIN_RECLAIM_WITH_LAST_SRQ }, true },
	{ "linger", way_linger,
	  { .type = IB_XRC_POLICY_DOMAIN, .linger_ms = LINGER_MS }, false },
	{ "domain", way_domain, { .type = IB_XRC_POLICY_DOMAIN }, false },
	{ "removal", way_removal, { .type = IB_XRC_POLICY_DOMAIN }, false },
};

/* Milliseconds since the last time that this was asked. */
static long long lap(void)
{
	static long long last;
	long long now = xrc_now(), ms = now - last;

	last = now;
	return ms;
}

static void run(unsigned int way)
{
	struct ib_xrc_policy policy = ways[way].policy;
	long long created, filled, shared, listed, gone;
	struct stage s = { .v_is_closed = false };
	struct ib_xrc_xrcd_info info;
	struct ib_xrc_limits limits;
	long kb, kb_reset, kb_init;
	struct xrc_qp qp;
	int objects;

	objects = xrc_kernel_objects();
	policy.max_tgt_qps = count;
	begin("open");
	start(&s.creator, &policy);
	start(&s.sharer, &policy);
	open_view(&s.v, &policy);
	if (ways[way].srq) {
		NEED(0, xrc_cq_create(&s.v.x, 1, 0, XRC_NO_FD, &s.cq));
		NEED(0, xrc_srq_create(&s.v.x, s.v.xrcd, &s.cq, 1, 1, 0, &s.srq));
	}

	kb = memory_available();
	lap();
	begin("create");
	tell(&s.creator, CREATE);
	created = lap();
	kb_reset = kb - memory_available();
	NEED(-EDQUOT, xrc_tgt_create(&s.v.x, s.v.xrcd, &qp));
	lap();
	begin("take to INIT");
	tell(&s.creator, FILL);
	filled = lap();
	kb_init = kb - kb_reset - memory_available();
	begin("share");
	tell(&s.sharer, SHARE);
	shared = lap();
	begin("list");
	still_there(&s, 2);
	listed = lap();
	NEED(0, xrc_xrcd_query(&s.v.x, s.v.xrcd, &info));
	NEED(0, xrc_limits(&s.v.x, &limits));
	NEED(count, info.tgt_qps);
	NEED((long)count * limits.tgt_qp_bytes + (ways[way].srq ? limits.srq_bytes : 0),
	     info.bytes);

	lap();
	begin("reclaim");
	ways[way].go(&s);
	if (!s.v_is_closed)
		wait_for_none(&s.v);
	gone = lap();
	xrc_close(&s.v.x);
	NEED(0, xrc_wait_kernel_objects(objects));
	printf("# %s: %u TGT QPs created in %lld ms, %u taken to INIT in %lld ms, shared in %lld ms, listed in %lld ms, gone in %lld ms; %ld kB in RESET, %ld kB more in INIT\n",
	       ways[way].name, count, created, (count + FEW - 1) / FEW, filled,
	       shared, listed, gone, kb_reset, kb_init);
}

int main(int argc, char **argv)
{
	unsigned int way;

	setvbuf(stdout, NULL, _IOLBF, 0);
	count = argc > 2 ? atoi(argv[1]) : 0;
	for (way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
		if (count && !strcmp(argv[2], ways[way].name))
			break;
	if (way == sizeof(ways) / sizeof(ways[0])) {
		fprintf(stderr, "usage: storm_qps COUNT WAY [SECONDS]\n");
		return 2;
	}
	progress = mmap(NULL, sizeof(*progress), PROT_READ | PROT_WRITE,
			MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	file = memfd_create("storm", MFD_CLOEXEC);
	if (progress == MAP_FAILED || file < 0)
		return 1;
	begin("start");
	signal(SIGALRM, too_late);
	alarm(argc > 3 ? atoi(argv[3]) : 600);
	run(way);
	return 0;
}
