// SPDX-License-Identifier: GPL-2.0
/*
 * The ioctl framing: whatever is wrong with a call has the errno that uverbs gives
 * it (drivers/infiniband/core/uverbs_ioctl.c, rdma_core.c), and no effect.
 *
 * Most tests go through a table of all methods and their attributes, build the
 * call that would work, spoil one thing of it, and compare what there is before
 * and after.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

/* Never the number of anything. */
#define UNKNOWN 0x1fff

enum kind {
	END,
	NEW_HANDLE,
	NEW_FD,
	HANDLE,
	RAW_FD,
	IN,
	OUT,
	OUT_ARRAY,
};

struct attr_spec {
	__u16 id;
	enum kind kind;
	bool mandatory;
	/* Do not give it in the call that works. */
	bool left_out;
	/* HANDLE: the object; IN: where the fixture has the value. */
	__u16 from;
	__u16 size;
};

struct method_spec {
	const char *name;
	__u16 object;
	__u16 method;
	/* The call is for a file that is not bound. */
	bool unbound;
	struct attr_spec attrs[10];
};

/* What the calls of the table take as input. */
struct inputs {
	__u32 abi_version;
	char name[8];
	__u32 index;
	__u32 oflags;
	__u32 qp_num;
	__u32 after;
	__u32 entries;
	__u32 ms;
	__u64 user_handle;
	__u64 after_id;
	__u64 addr;
	__u64 length;
	__u32 access;
	struct ib_uverbs_qp_attr attr;
	struct ib_xrc_policy policy;
};

#define M .mandatory = true
#define ATTR(name, ...) { .id = IB_XRC_ATTR_##name, __VA_ARGS__ }
#define NEW(name) ATTR(name, .kind = NEW_HANDLE, M)
#define OBJ(name, object, ...) \
	ATTR(name, .kind = HANDLE, .from = IB_XRC_OBJECT_##object, __VA_ARGS__)
#define IN(name, field, ...) \
	ATTR(name, .kind = IN, .from = offsetof(struct inputs, field), \
	     .size = sizeof(((struct inputs *)0)->field), __VA_ARGS__)
#define OUT(name, type, ...) \
	ATTR(name, .kind = OUT, .size = sizeof(type), __VA_ARGS__)
#define LEFT_OUT .left_out = true
#define METHOD(object_, method_) \
	.name = #method_, .object = IB_XRC_OBJECT_##object_, \
	.method = IB_XRC_METHOD_##method_

static const struct method_spec methods[] = {
	{ METHOD(CONTEXT, BIND), .unbound = true, .attrs = {
		IN(BIND_ABI_VERSION, abi_version, M),
		IN(BIND_NAME, name),
		IN(BIND_INDEX, index, LEFT_OUT),
		OUT(BIND_RESP_DEVICE, struct ib_xrc_device_info, M),
	} },
	{ METHOD(CONTEXT, LIST_DEVICES), .unbound = true, .attrs = {
		ATTR(LIST_DEVICES_RESP_DEVICES, .kind = OUT_ARRAY,
		     .size = sizeof(struct ib_xrc_device_info)),
		OUT(LIST_DEVICES_RESP_COUNT, __u32, M),
	} },
	{ METHOD(CONTEXT, LIST_DEVICES), .attrs = {
		ATTR(LIST_DEVICES_RESP_DEVICES, .kind = OUT_ARRAY,
		     .size = sizeof(struct ib_xrc_device_info)),
		OUT(LIST_DEVICES_RESP_COUNT, __u32, M),
	} },
	{ METHOD(CONTEXT, QUERY_CONTEXT), .attrs = {
		OUT(QUERY_CONTEXT_RESP_DEVICE, struct ib_xrc_device_info),
		OUT(QUERY_CONTEXT_RESP_LIMITS, struct ib_xrc_limits),
	} },
	{ METHOD(XRCD, XRCD_OPEN), .attrs = {
		NEW(XRCD_OPEN_HANDLE),
		ATTR(XRCD_OPEN_FD, .kind = RAW_FD),
		IN(XRCD_OPEN_OFLAGS, oflags),
		IN(XRCD_OPEN_POLICY, policy),
		IN(XRCD_OPEN_JOB_KEY, user_handle),
		ATTR(XRCD_OPEN_EVENT_FILE, .kind = RAW_FD, LEFT_OUT),
		IN(XRCD_OPEN_USER_HANDLE, user_handle),
	} },
	{ METHOD(XRCD, XRCD_CLOSE), .attrs = {
		OBJ(XRCD_CLOSE_HANDLE, XRCD, M),
	} },
	{ METHOD(XRCD, XRCD_QUERY), .attrs = {
		OBJ(XRCD_QUERY_HANDLE, XRCD, M),
		OUT(XRCD_QUERY_RESP_INFO, struct ib_xrc_xrcd_info),
		OUT(XRCD_QUERY_RESP_POLICY, struct ib_xrc_policy),
	} },
	{ METHOD(XRCD, XRCD_LIST_TGT_QPS), .attrs = {
		OBJ(XRCD_LIST_TGT_QPS_HANDLE, XRCD, M),
		ATTR(XRCD_LIST_TGT_QPS_RESP_TGT_QPS, .kind = OUT_ARRAY,
		     .size = sizeof(struct ib_xrc_tgt_qp_info)),
		OUT(XRCD_LIST_TGT_QPS_RESP_COUNT, __u32, M),
		IN(XRCD_LIST_TGT_QPS_AFTER, after),
	} },
	{ METHOD(XRCD, XRCD_LIST_SRQS), .attrs = {
		OBJ(XRCD_LIST_SRQS_HANDLE, XRCD, M),
		ATTR(XRCD_LIST_SRQS_RESP_SRQS, .kind = OUT_ARRAY,
		     .size = sizeof(struct ib_xrc_srq_info)),
		OUT(XRCD_LIST_SRQS_RESP_COUNT, __u32, M),
		IN(XRCD_LIST_SRQS_AFTER, after),
	} },
	{ METHOD(TGT_QP, TGT_QP_CREATE), .attrs = {
		NEW(TGT_QP_CREATE_HANDLE),
		OBJ(TGT_QP_CREATE_XRCD, XRCD, M),
		OUT(TGT_QP_CREATE_RESP_QP_NUM, __u32, M),
		ATTR(TGT_QP_CREATE_EVENT_FILE, .kind = RAW_FD, LEFT_OUT),
		IN(TGT_QP_CREATE_USER_HANDLE, user_handle),
	} },
	{ METHOD(TGT_QP, TGT_QP_OPEN), .attrs = {
		NEW(TGT_QP_OPEN_HANDLE),
		OBJ(TGT_QP_OPEN_XRCD, XRCD, M),
		IN(TGT_QP_OPEN_QP_NUM, qp_num, M),
		ATTR(TGT_QP_OPEN_EVENT_FILE, .kind = RAW_FD, LEFT_OUT),
		IN(TGT_QP_OPEN_USER_HANDLE, user_handle),
	} },
	{ METHOD(TGT_QP, TGT_QP_MODIFY), .attrs = {
		OBJ(TGT_QP_MODIFY_HANDLE, TGT_QP, M),
		IN(TGT_QP_MODIFY_ATTR, attr, M),
	} },
	{ METHOD(TGT_QP, TGT_QP_MODIFY), .attrs = {
		OBJ(TGT_QP_MODIFY_XRCD, XRCD, M),
		IN(TGT_QP_MODIFY_QP_NUM, qp_num, M),
		IN(TGT_QP_MODIFY_ATTR, attr, M),
	} },
	{ METHOD(TGT_QP, TGT_QP_QUERY), .attrs = {
		OBJ(TGT_QP_QUERY_HANDLE, TGT_QP, M),
		OUT(TGT_QP_QUERY_RESP_ATTR, struct ib_uverbs_qp_attr),
		OUT(TGT_QP_QUERY_RESP_INFO, struct ib_xrc_tgt_qp_info),
	} },
	{ METHOD(TGT_QP, TGT_QP_QUERY), .attrs = {
		OBJ(TGT_QP_QUERY_XRCD, XRCD, M),
		IN(TGT_QP_QUERY_QP_NUM, qp_num, M),
		OUT(TGT_QP_QUERY_RESP_ATTR, struct ib_uverbs_qp_attr),
		OUT(TGT_QP_QUERY_RESP_INFO, struct ib_xrc_tgt_qp_info),
	} },
	{ METHOD(TGT_QP, TGT_QP_CONNECT), .attrs = {
		OBJ(TGT_QP_CONNECT_HANDLE, TGT_QP, M),
		IN(TGT_QP_CONNECT_ATTR, attr, M),
		/* Left out because the transitions stand when it cannot be written. */
		OUT(TGT_QP_CONNECT_RESP_STATE, __u32, LEFT_OUT),
		IN(TGT_QP_CONNECT_TIMEOUT_MS, ms),
	} },
	{ METHOD(TGT_QP, TGT_QP_LIST_HOLDERS), .attrs = {
		OBJ(TGT_QP_LIST_HOLDERS_HANDLE, TGT_QP, M),
		ATTR(TGT_QP_LIST_HOLDERS_RESP_HOLDERS, .kind = OUT_ARRAY,
		     .size = sizeof(struct ib_xrc_holder_info)),
		OUT(TGT_QP_LIST_HOLDERS_RESP_COUNT, __u32, M),
		IN(TGT_QP_LIST_HOLDERS_AFTER, after_id),
	} },
	{ METHOD(TGT_QP, TGT_QP_LIST_HOLDERS), .attrs = {
		OBJ(TGT_QP_LIST_HOLDERS_XRCD, XRCD, M),
		IN(TGT_QP_LIST_HOLDERS_QP_NUM, qp_num, M),
		OUT(TGT_QP_LIST_HOLDERS_RESP_COUNT, __u32, M),
	} },
	{ METHOD(TGT_QP, TGT_QP_DISCONNECT), .attrs = {
		OBJ(TGT_QP_DISCONNECT_HANDLE, TGT_QP, M),
		IN(TGT_QP_DISCONNECT_TIMEOUT_MS, ms, M),
		/* As that of a connect. */
		OUT(TGT_QP_DISCONNECT_RESP_INFO, struct ib_xrc_disconnect_info,
		    LEFT_OUT),
	} },
	{ METHOD(TGT_QP, TGT_QP_CLOSE), .attrs = {
		OBJ(TGT_QP_CLOSE_HANDLE, TGT_QP, M),
	} },
	{ METHOD(COMP_CHANNEL, COMP_CHANNEL_CREATE), .attrs = {
		ATTR(COMP_CHANNEL_CREATE_FD, .kind = NEW_FD, M),
	} },
	{ METHOD(CQ, CQ_CREATE), .attrs = {
		NEW(CQ_CREATE_HANDLE),
		IN(CQ_CREATE_CQE, entries, M),
		IN(CQ_CREATE_USER_HANDLE, user_handle),
		ATTR(CQ_CREATE_COMP_CHANNEL, .kind = RAW_FD, LEFT_OUT),
		OUT(CQ_CREATE_RESP_RING, struct ib_xrc_ring_info, M),
	} },
	{ METHOD(CQ, CQ_DESTROY), .attrs = {
		OBJ(CQ_DESTROY_HANDLE, CQ, M),
	} },
	{ METHOD(SRQ, SRQ_CREATE), .attrs = {
		NEW(SRQ_CREATE_HANDLE),
		OBJ(SRQ_CREATE_XRCD, XRCD, M),
		OBJ(SRQ_CREATE_CQ, CQ, M),
		IN(SRQ_CREATE_MAX_WR, entries, M),
		IN(SRQ_CREATE_MAX_SGE, entries, M),
		IN(SRQ_CREATE_USER_HANDLE, user_handle),
		OUT(SRQ_CREATE_RESP_SRQ_NUM, __u32, M),
		OUT(SRQ_CREATE_RESP_RING, struct ib_xrc_ring_info, M),
		ATTR(SRQ_CREATE_EVENT_FILE, .kind = RAW_FD, LEFT_OUT),
	} },
	{ METHOD(SRQ, SRQ_KICK), .attrs = {
		OBJ(SRQ_KICK_HANDLE, SRQ, M),
	} },
	{ METHOD(SRQ, SRQ_DESTROY), .attrs = {
		OBJ(SRQ_DESTROY_HANDLE, SRQ, M),
	} },
	{ METHOD(SRQ, SRQ_MODIFY), .attrs = {
		OBJ(SRQ_MODIFY_HANDLE, SRQ, M),
		IN(SRQ_MODIFY_LIMIT, entries, M),
	} },
	{ METHOD(EVENT_FILE, EVENT_FILE_CREATE), .attrs = {
		ATTR(EVENT_FILE_CREATE_FD, .kind = NEW_FD, M),
		IN(EVENT_FILE_CREATE_DEPTH, entries),
	} },
	{ METHOD(MR, MR_REG), .attrs = {
		NEW(MR_REG_HANDLE),
		OBJ(MR_REG_XRCD, XRCD, M),
		IN(MR_REG_ADDR, addr, M),
		IN(MR_REG_LENGTH, length, M),
		IN(MR_REG_IOVA, addr),
		IN(MR_REG_ACCESS_FLAGS, access, M),
		OUT(MR_REG_RESP_RKEY, __u32, M),
	} },
	{ METHOD(MR, MR_DEREG), .attrs = {
		OBJ(MR_DEREG_HANDLE, MR, M),
	} },
};

#define FOR_EACH_METHOD(m) \
	for (m = methods; m < methods + ARRAY_SIZE(methods); m++)
#define FOR_EACH_ATTR(m, a) \
	for (a = (m)->attrs; a->kind != END; a++)

/*
 * A domain named by a file, with a TGT QP, a CQ and an SRQ, and a second file that
 * is not bound.
 */
FIXTURE(framing)
{
	struct xrc x;
	struct xrc node;
	int file;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_cq cq;
	struct xrc_srq srq;
	struct xrc_mr mr;
	struct inputs in;
	/* Room for an output; a page that faults, and one before it. */
	__u8 out[1024];
	__u8 *guard;
};

FIXTURE_SETUP(framing)
{
	self->file = memfd_create("framing", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open_node(&self->node));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, O_CREAT, &self->xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &self->qp));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &self->cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &self->cq, 4, 1, 0,
				    &self->srq));
	self->guard = xrc_guard_page();
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->out,
				sizeof(self->out), 0, &self->mr));

	self->in.abi_version = IB_XRC_ABI_VERSION;
	ASSERT_LE(strlen(xrc_device()), sizeof(self->in.name));
	memcpy(self->in.name, xrc_device(), strlen(xrc_device()));
	self->in.index = self->x.dev.index;
	self->in.oflags = O_CREAT;
	self->in.qp_num = self->qp.qp_num;
	self->in.entries = 2;
	self->in.addr = (uintptr_t)self->out;
	self->in.length = sizeof(self->out);
	self->in.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	self->in.attr.qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				     IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	self->in.attr.qp_state = IBV_QPS_INIT;
	self->in.attr.port_num = 1;
}

FIXTURE_TEARDOWN(framing)
{
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &self->mr));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &self->srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &self->cq));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &self->qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, self->xrcd));
	xrc_close(&self->x);
	xrc_close(&self->node);
	close(self->file);
}

typedef FIXTURE_DATA(framing) framing_t;

static __u32 handle_of(const framing_t *self, __u16 object)
{
	switch (object) {
	case IB_XRC_OBJECT_XRCD:
		return self->xrcd;
	case IB_XRC_OBJECT_TGT_QP:
		return self->qp.handle;
	case IB_XRC_OBJECT_CQ:
		return self->cq.handle;
	case IB_XRC_OBJECT_MR:
		return self->mr.handle;
	default:
		return self->srq.handle;
	}
}

static int fd_of(const framing_t *self, const struct method_spec *m)
{
	return m->unbound ? self->node.fd : self->x.fd;
}

static void add(framing_t *self, union xrc_cmd *cmd, const struct attr_spec *a)
{
	const char *in = (const char *)&self->in + a->from;

	switch (a->kind) {
	case NEW_HANDLE:
	case NEW_FD:
		xrc_attr(cmd, a->id);
		break;
	case HANDLE:
		xrc_handle(cmd, a->id, handle_of(self, a->from));
		break;
	case RAW_FD:
		xrc_raw_fd(cmd, a->id, self->file);
		break;
	case IN:
		xrc_in(cmd, a->id, in, in == self->in.name ?
		       strnlen(in, sizeof(self->in.name)) : a->size);
		break;
	case OUT:
	case OUT_ARRAY:
		xrc_out(cmd, a->id, self->out, a->size);
		break;
	case END:
		break;
	}
}

/* The call as it would work. */
static void build(framing_t *self, const struct method_spec *m,
		  union xrc_cmd *cmd)
{
	const struct attr_spec *a;

	xrc_cmd_for(m->unbound ? &self->node : &self->x, cmd, m->object,
		    m->method);
	FOR_EACH_ATTR(m, a)
		if (!a->left_out)
			add(self, cmd, a);
}

static int count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	return n;
}

/* SRQ_KICK harms nothing, and tells by its errno what a handle is. */
static int probe(const framing_t *self, __u64 handle)
{
	union xrc_cmd cmd;

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_KICK);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_KICK_HANDLE, handle);
	return xrc_ioctl(self->x.fd, &cmd);
}

/* All that a call could change. */
struct state {
	struct ib_xrc_xrcd_info domain;
	struct ib_xrc_tgt_qp_info qp;
	struct ib_uverbs_qp_attr attr;
	int fds;
	int handles;
	int unbound;
};

static int query_context(const struct xrc *x)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_QUERY_CONTEXT);
	return xrc_ioctl(x->fd, &cmd);
}

static void get_state(struct __test_metadata *_metadata, framing_t *self,
		      struct state *s)
{
	__u32 handle;

	memset(s, 0, sizeof(*s));
	ASSERT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &s->domain));
	ASSERT_EQ(0, xrc_tgt_query(&self->x, &self->qp, &s->attr, &s->qp));
	s->fds = count_fds();
	for (handle = 0; handle < 32; handle++)
		s->handles += probe(self, handle) != -ENOENT;
	s->unbound = query_context(&self->node);
}

static void check_state(struct __test_metadata *_metadata, framing_t *self,
			const struct state *before, const char *what)
{
	struct state after;

	get_state(_metadata, self, &after);
	EXPECT_EQ(0, memcmp(before, &after, sizeof(after))) {
		TH_LOG("%s had an effect: handles %u/%u, TGT QPs %u/%u, SRQs %u/%u, refs %u/%u, state %u/%u, file handles %d/%d, fds %d/%d, unbound %d/%d",
		       what, before->domain.handles, after.domain.handles,
		       before->domain.tgt_qps, after.domain.tgt_qps,
		       before->domain.srqs, after.domain.srqs, before->qp.refs,
		       after.qp.refs, before->qp.state, after.qp.state,
		       before->handles, after.handles, before->fds, after.fds,
		       before->unbound, after.unbound);
	}
}

/* Make a call that must fail with err and change nothing. */
#define REFUSED(err, fd, cmd, fmt, ...) do {					\
	char what_[160];							\
	struct state before_;							\
	int ret_;								\
										\
	snprintf(what_, sizeof(what_), fmt, ##__VA_ARGS__);			\
	get_state(_metadata, self, &before_);					\
	ret_ = xrc_ioctl(fd, cmd);						\
	EXPECT_EQ(-(err), ret_)							\
		TH_LOG("%s", what_);						\
	check_state(_metadata, self, &before_, what_);				\
} while (0)

/* ----------------------------------------------------------- the header -- */

/* A call without attributes, which works and changes nothing. */
static void init_query(const framing_t *self, union xrc_cmd *cmd)
{
	xrc_cmd_for(&self->x, cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_QUERY_CONTEXT);
}

/* A call which leaves a trace. */
static void init_open(const framing_t *self, union xrc_cmd *cmd)
{
	xrc_cmd_for(&self->x, cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_attr(cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
	xrc_raw_fd(cmd, IB_XRC_ATTR_XRCD_OPEN_FD, self->file);
}

TEST_F_TIMEOUT(framing, valid, TIMEOUT)
{
	struct ib_xrc_xrcd_info info;
	union xrc_cmd cmd;

	init_query(self, &cmd);
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));

	/* The trace which the other tests look for. */
	init_open(self, &cmd);
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &info));
	EXPECT_EQ(2, info.handles);
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrc_find(&cmd,
		IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data));
}

TEST_F_TIMEOUT(framing, length, TIMEOUT)
{
	static const int wrong[] = { -1, 1, -8, 8, -16, 16, -24, 24 };
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		init_open(self, &cmd);
		cmd.hdr.length += wrong[i];
		REFUSED(EINVAL, self->x.fd, &cmd, "length %+d", wrong[i]);
	}
	init_open(self, &cmd);
	cmd.hdr.length = 0;
	REFUSED(EINVAL, self->x.fd, &cmd, "length 0");
	cmd.hdr.length = 0xffff;
	REFUSED(EINVAL, self->x.fd, &cmd, "length 0xffff");
	init_query(self, &cmd);
	cmd.hdr.length = sizeof(cmd.hdr) - 1;
	REFUSED(EINVAL, self->x.fd, &cmd, "shorter than a header");
}

TEST_F_TIMEOUT(framing, num_attrs, TIMEOUT)
{
	union xrc_cmd cmd;

	init_open(self, &cmd);
	cmd.hdr.num_attrs--;
	REFUSED(EINVAL, self->x.fd, &cmd, "one attribute less");
	cmd.hdr.num_attrs += 2;
	REFUSED(EINVAL, self->x.fd, &cmd, "one attribute more");
	cmd.hdr.num_attrs = 0;
	REFUSED(EINVAL, self->x.fd, &cmd, "no attribute");
	cmd.hdr.num_attrs = 0xffff;
	REFUSED(EINVAL, self->x.fd, &cmd, "num_attrs 0xffff");
	/* Length and number agree modulo 2^16 only. */
	cmd.hdr.num_attrs = 4096 + 2;
	REFUSED(EINVAL, self->x.fd, &cmd, "num_attrs 4098");
}

/* As long as uverbs allows: one page, whatever the page size here is. */
TEST_F_TIMEOUT(framing, longest, TIMEOUT)
{
	size_t page = sysconf(_SC_PAGESIZE);
	struct ib_uverbs_ioctl_hdr *hdr = calloc(2, page);
	size_t most = (page - sizeof(*hdr)) / sizeof(hdr->attrs[0]);
	union xrc_cmd *cmd = (union xrc_cmd *)hdr;
	size_t i;

	ASSERT_TRUE(hdr);
	init_query(self, cmd);
	for (i = 0; i <= most; i++)
		hdr->attrs[i].attr_id = UNKNOWN;
	hdr->num_attrs = most;
	hdr->length = sizeof(*hdr) + most * sizeof(hdr->attrs[0]);
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, cmd));
	hdr->num_attrs++;
	hdr->length += sizeof(hdr->attrs[0]);
	REFUSED(EINVAL, self->x.fd, cmd, "longer than a page");
	free(hdr);
}

TEST_F_TIMEOUT(framing, reserved, TIMEOUT)
{
	union xrc_cmd cmd;
	int bit;

	for (bit = 0; bit < 64; bit += 7) {
		init_open(self, &cmd);
		cmd.hdr.reserved1 = 1ULL << bit;
		REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd, "reserved1 bit %d",
			bit);
	}
	for (bit = 0; bit < 32; bit += 7) {
		init_open(self, &cmd);
		cmd.hdr.reserved2 = 1U << bit;
		REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd, "reserved2 bit %d",
			bit);
	}
}

TEST_F_TIMEOUT(framing, driver_id, TIMEOUT)
{
	union xrc_cmd cmd;

	init_open(self, &cmd);
	cmd.hdr.driver_id = XRC_DRIVER_UNKNOWN;
	REFUSED(EINVAL, self->x.fd, &cmd, "RDMA_DRIVER_UNKNOWN after bind");
	cmd.hdr.driver_id = self->x.dev.driver_id + 1;
	REFUSED(EINVAL, self->x.fd, &cmd, "another driver_id");
	cmd.hdr.driver_id = self->x.dev.driver_id | 1U << 31;
	REFUSED(EINVAL, self->x.fd, &cmd, "high bit of driver_id");
	/* Even for what works before bind. */
	xrc_cmd_init(&cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES,
		     XRC_DRIVER_UNKNOWN);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, self->out, 4);
	REFUSED(EINVAL, self->x.fd, &cmd, "listing with the wrong driver_id");
}

TEST_F_TIMEOUT(framing, driver_id_before_bind, TIMEOUT)
{
	const struct method_spec *m;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		if (!m->unbound)
			continue;
		build(self, m, &cmd);
		cmd.hdr.driver_id = self->x.dev.driver_id;
		REFUSED(EINVAL, self->node.fd, &cmd,
			"%s with the device's driver_id", m->name);
	}
}

/* What is looked at first decides the errno. */
TEST_F_TIMEOUT(framing, order_of_checks, TIMEOUT)
{
	union xrc_cmd cmd;

	init_open(self, &cmd);
	cmd.hdr.length++;
	cmd.hdr.reserved1 = 1;
	REFUSED(EINVAL, self->x.fd, &cmd, "length before reserved1");

	init_open(self, &cmd);
	cmd.hdr.reserved2 = 1;
	cmd.hdr.driver_id = XRC_DRIVER_UNKNOWN;
	REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd, "reserved2 before driver_id");

	init_open(self, &cmd);
	cmd.hdr.driver_id = XRC_DRIVER_UNKNOWN;
	cmd.hdr.method_id = UNKNOWN;
	REFUSED(EINVAL, self->x.fd, &cmd, "driver_id before method_id");

	/* Attributes in the order given, each by itself. */
	init_open(self, &cmd);
	xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->attr_data.reserved = 1;
	xrc_attr(&cmd, UNKNOWN);
	REFUSED(EINVAL, self->x.fd, &cmd, "first attribute first");

	/* That something is missing shows last. */
	init_open(self, &cmd);
	xrc_drop(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
	xrc_attr(&cmd, UNKNOWN);
	REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd, "unknown before missing");
}

TEST_F_TIMEOUT(framing, ioctl_number, TIMEOUT)
{
	static const unsigned int wrong[] = {
		0,
		_IOWR(RDMA_IOCTL_MAGIC, 0, struct ib_uverbs_ioctl_hdr),
		_IOWR(RDMA_IOCTL_MAGIC, 2, struct ib_uverbs_ioctl_hdr),
		_IOW(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr),
		_IOR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_ioctl_hdr),
		_IO(RDMA_IOCTL_MAGIC, 1),
		_IOWR(RDMA_IOCTL_MAGIC, 1, struct ib_uverbs_attr),
		_IOWR('x', 1, struct ib_uverbs_ioctl_hdr),
	};
	struct state before;
	union xrc_cmd cmd;
	unsigned int i;

	get_state(_metadata, self, &before);
	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		init_open(self, &cmd);
		EXPECT_EQ(-1, ioctl(self->x.fd, wrong[i], &cmd));
		EXPECT_EQ(ENOTTY, errno)
			TH_LOG("ioctl %#x", wrong[i]);
	}
	check_state(_metadata, self, &before, "an unknown ioctl");
}

TEST_F_TIMEOUT(framing, not_a_stream, TIMEOUT)
{
	char c = 0;

	EXPECT_EQ(-1, read(self->x.fd, &c, 1));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(-1, write(self->x.fd, &c, 1));
	EXPECT_EQ(EINVAL, errno);
}

/* ------------------------------------------------ objects and methods -- */

TEST_F_TIMEOUT(framing, unknown_object, TIMEOUT)
{
	/* Also those of uverbs itself. */
	static const __u16 wrong[] = {
		0, 1, 2, 17, IB_XRC_OBJECT_CONTEXT - 1, IB_XRC_OBJECT_MR + 1,
		UNKNOWN, 0x2000, 0x9000, 0xffff
	};
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		init_open(self, &cmd);
		cmd.hdr.object_id = wrong[i];
		REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd, "object %#x",
			wrong[i]);
		cmd.hdr.driver_id = XRC_DRIVER_UNKNOWN;
		REFUSED(EPROTONOSUPPORT, self->node.fd, &cmd,
			"object %#x before bind", wrong[i]);
	}
}

TEST_F_TIMEOUT(framing, unknown_method, TIMEOUT)
{
	static const struct {
		__u16 object, last;
	} objects[] = {
		{ IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES },
		{ IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_LIST_SRQS },
		{ IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_LIST_HOLDERS },
		{ IB_XRC_OBJECT_COMP_CHANNEL, IB_XRC_METHOD_COMP_CHANNEL_CREATE },
		{ IB_XRC_OBJECT_CQ, IB_XRC_METHOD_CQ_DESTROY },
		{ IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_QUERY },
		{ IB_XRC_OBJECT_EVENT_FILE, IB_XRC_METHOD_EVENT_FILE_CREATE },
		{ IB_XRC_OBJECT_MR, IB_XRC_METHOD_MR_DEREG },
	};
	union xrc_cmd cmd;
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(objects); i++) {
		const __u16 wrong[] = {
			0, 0xfff, objects[i].last + 1, UNKNOWN, 0x2000, 0xffff
		};

		for (j = 0; j < ARRAY_SIZE(wrong); j++) {
			init_open(self, &cmd);
			cmd.hdr.object_id = objects[i].object;
			cmd.hdr.method_id = wrong[j];
			REFUSED(EPROTONOSUPPORT, self->x.fd, &cmd,
				"object %#x, method %#x", objects[i].object,
				wrong[j]);
		}
	}
}

/* ------------------------------------------------------------ attributes -- */

TEST_F_TIMEOUT(framing, unknown_mandatory_attr, TIMEOUT)
{
	static const __u16 wrong[] = { 0, 0xfff, UNKNOWN, 0x100a, 0x2000, 0xffff };
	const struct method_spec *m;
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		for (i = 0; i < ARRAY_SIZE(wrong); i++) {
			build(self, m, &cmd);
			xrc_attr(&cmd, wrong[i]);
			REFUSED(EPROTONOSUPPORT, fd_of(self, m), &cmd,
				"%s, attribute %#x", m->name, wrong[i]);
		}
	}
}

/* Nothing of it is looked at. */
TEST_F_TIMEOUT(framing, unknown_optional_attr, TIMEOUT)
{
	struct ib_xrc_xrcd_info info;
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;
	int i;

	init_open(self, &cmd);
	for (i = 0; i < 3; i++) {
		attr = xrc_attr(&cmd, UNKNOWN);
		attr->flags = 0;
		attr->len = 0xffff;
		attr->attr_data.reserved = 0xffff;
		attr->data = 0xdead000000000000;
	}
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(0, attr->flags);
	EXPECT_EQ(0xdead000000000000, attr->data);
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &info));
	EXPECT_EQ(2, info.handles);
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrc_find(&cmd,
		IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data));
}

TEST_F_TIMEOUT(framing, known_attr_without_mandatory_flag, TIMEOUT)
{
	union xrc_cmd cmd;

	init_open(self, &cmd);
	xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->flags = 0;
	xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_FD)->flags = 0;
	xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_FD)->data_s64 = INT_MAX;
	/* It counts all the same. */
	REFUSED(EBADF, self->x.fd, &cmd, "a bad fd");
}

TEST_F_TIMEOUT(framing, duplicate_attr, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out)
				continue;
			build(self, m, &cmd);
			add(self, &cmd, a);
			REFUSED(EINVAL, fd_of(self, m), &cmd,
				"%s, attribute %#x twice", m->name, a->id);
			/* Not even if it is marked as optional. */
			build(self, m, &cmd);
			add(self, &cmd, a);
			cmd.hdr.attrs[cmd.hdr.num_attrs - 1].flags = 0;
			REFUSED(EINVAL, fd_of(self, m), &cmd,
				"%s, attribute %#x twice, optional", m->name,
				a->id);
		}
	}
}

TEST_F_TIMEOUT(framing, missing_attr, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (!a->mandatory)
				continue;
			build(self, m, &cmd);
			xrc_drop(&cmd, a->id);
			REFUSED(EINVAL, fd_of(self, m), &cmd,
				"%s without attribute %#x", m->name, a->id);
		}
	}
}

TEST_F_TIMEOUT(framing, reserved_in_attr, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out)
				continue;
			build(self, m, &cmd);
			xrc_find(&cmd, a->id)->attr_data.reserved = 1;
			REFUSED(EINVAL, fd_of(self, m), &cmd,
				"%s, attribute %#x, reserved 1", m->name, a->id);
			build(self, m, &cmd);
			xrc_find(&cmd, a->id)->attr_data.reserved = 0x8000;
			REFUSED(EINVAL, fd_of(self, m), &cmd,
				"%s, attribute %#x, reserved 0x8000", m->name,
				a->id);
		}
	}
}

TEST_F_TIMEOUT(framing, length_of_handle, TIMEOUT)
{
	static const __u16 wrong[] = { 1, 4, 8, 16, 0xffff };
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out || a->kind > RAW_FD)
				continue;
			for (i = 0; i < ARRAY_SIZE(wrong); i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->len = wrong[i];
				REFUSED(EINVAL, fd_of(self, m), &cmd,
					"%s, attribute %#x, length %u", m->name,
					a->id, wrong[i]);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, short_attr, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	__u16 len;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out || (a->kind != IN && a->kind != OUT) ||
			    a->id == IB_XRC_ATTR_BIND_NAME)
				continue;
			for (len = 0; len < a->size; len += a->size > 8 ? 7 : 1) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->len = len;
				REFUSED(EINVAL, fd_of(self, m), &cmd,
					"%s, attribute %#x, length %u", m->name,
					a->id, len);
			}
		}
	}
}

/* A structure of the future: what this kernel does not know must be zero. */
TEST_F_TIMEOUT(framing, long_input, TIMEOUT)
{
	struct {
		struct ib_uverbs_qp_attr attr;
		__u8 tail[64];
	} in = { .attr = self->in.attr };
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < sizeof(in.tail); i += 9) {
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
			    IB_XRC_METHOD_TGT_QP_MODIFY);
		xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE,
			   self->qp.handle);
		attr = xrc_in(&cmd, IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, &in,
			      sizeof(in));
		in.tail[i] = 1;
		REFUSED(EOPNOTSUPP, self->x.fd, &cmd, "byte %u of the tail", i);
		/* Bytes beyond the given length do not count. */
		if (i) {
			attr->len = sizeof(in.attr) + i;
			EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
		}
		in.tail[i] = 0;
	}
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(IBV_QPS_INIT, xrc_tgt_state(&self->x, &self->qp));
}

/* A number is as long as it is (UVERBS_ATTR_TYPE()), whatever follows. */
TEST_F_TIMEOUT(framing, long_number, TIMEOUT)
{
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;
	__u16 len;

	for (len = 5; len <= 16; len++) {
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
			    IB_XRC_METHOD_TGT_QP_OPEN);
		xrc_attr(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_HANDLE);
		xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_XRCD, self->xrcd);
		attr = xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM,
				  self->qp.qp_num);
		attr->len = len;
		REFUSED(EINVAL, self->x.fd, &cmd, "a u32 of %u bytes", len);
		if (len > 8)
			continue;
		attr->data |= 1ULL << (8 * len - 1);
		REFUSED(EINVAL, self->x.fd, &cmd, "a u32 with a tail, %u bytes",
			len);
	}
}

TEST_F_TIMEOUT(framing, long_output, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;
	__u16 more;
	int i;

	FOR_EACH_METHOD(m) {
		/* Queries only: they may be called as often as one likes. */
		if (m->method != IB_XRC_METHOD_QUERY_CONTEXT &&
		    m->method != IB_XRC_METHOD_LIST_DEVICES &&
		    m->method != IB_XRC_METHOD_XRCD_QUERY &&
		    m->method != IB_XRC_METHOD_TGT_QP_QUERY)
			continue;
		FOR_EACH_ATTR(m, a) {
			if (a->kind != OUT)
				continue;
			for (more = 1; more < 200; more += 66) {
				xrc_cmd_for(m->unbound ? &self->node : &self->x,
					    &cmd, m->object, m->method);
				build(self, m, &cmd);
				attr = xrc_find(&cmd, a->id);
				attr->len = a->size + more;
				/* Up to the last byte before the guard. */
				attr->data = (uintptr_t)self->guard - attr->len;
				memset(self->guard - 1024, 0xa5, 1024);
				EXPECT_EQ(0, xrc_ioctl(fd_of(self, m), &cmd))
					TH_LOG("%s, attribute %#x, %u more",
					       m->name, a->id, more);
				EXPECT_EQ(0xa5, self->guard[-attr->len - 1]);
				for (i = 1; i <= more; i++)
					if (self->guard[-i])
						break;
				EXPECT_EQ(more + 1, i)
					TH_LOG("%s, attribute %#x is not zero after its end",
					       m->name, a->id);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, valid_output_flag, TIMEOUT)
{
	const __u16 valid = UVERBS_ATTR_F_MANDATORY | UVERBS_ATTR_F_VALID_OUTPUT;
	const struct method_spec *m;
	const struct attr_spec *a;
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		switch (m->method | m->object << 16) {
		case IB_XRC_METHOD_XRCD_CLOSE | IB_XRC_OBJECT_XRCD << 16:
		case IB_XRC_METHOD_TGT_QP_CLOSE | IB_XRC_OBJECT_TGT_QP << 16:
		case IB_XRC_METHOD_CQ_DESTROY | IB_XRC_OBJECT_CQ << 16:
		case IB_XRC_METHOD_SRQ_DESTROY | IB_XRC_OBJECT_SRQ << 16:
		case IB_XRC_METHOD_MR_DEREG | IB_XRC_OBJECT_MR << 16:
		case IB_XRC_METHOD_TGT_QP_CONNECT | IB_XRC_OBJECT_TGT_QP << 16:
			continue;
		}
		build(self, m, &cmd);
		EXPECT_EQ(0, xrc_ioctl(fd_of(self, m), &cmd))
			TH_LOG("%s", m->name);
		if (m->unbound) {
			/* Unbound again for the next one. */
			xrc_close(&self->node);
			ASSERT_EQ(0, xrc_open_node(&self->node));
		}
		FOR_EACH_ATTR(m, a) {
			if (a->left_out)
				continue;
			attr = xrc_find(&cmd, a->id);
			if (a->kind == OUT || a->kind == OUT_ARRAY) {
				EXPECT_EQ(valid, attr->flags)
					TH_LOG("%s, attribute %#x", m->name,
					       a->id);
			}
			if (a->kind == IN || a->kind == RAW_FD ||
			    a->kind == HANDLE) {
				EXPECT_EQ(UVERBS_ATTR_F_MANDATORY, attr->flags)
					TH_LOG("%s, attribute %#x", m->name,
					       a->id);
			}
			if (a->kind == NEW_FD)
				close(attr->data_s64);
			if (a->kind != NEW_HANDLE)
				continue;
			/* Take it back. */
			switch (m->object) {
			case IB_XRC_OBJECT_XRCD:
				EXPECT_EQ(0, xrc_xrcd_close(&self->x,
							    attr->data));
				break;
			case IB_XRC_OBJECT_TGT_QP:
				EXPECT_EQ(0, xrc_tgt_close(&self->x,
					&(struct xrc_qp){ .handle = attr->data }));
				break;
			case IB_XRC_OBJECT_CQ:
				EXPECT_EQ(0, xrc_cq_destroy(&self->x,
					&(struct xrc_cq){ .handle = attr->data }));
				break;
			case IB_XRC_OBJECT_SRQ:
				EXPECT_EQ(0, xrc_srq_destroy(&self->x,
					&(struct xrc_srq){ .handle = attr->data }));
				break;
			case IB_XRC_OBJECT_MR:
				EXPECT_EQ(0, xrc_mr_dereg(&self->x,
					&(struct xrc_mr){ .handle = attr->data }));
				break;
			}
		}
	}
}

TEST_F_TIMEOUT(framing, name_inline_or_pointer, TIMEOUT)
{
	char name[IB_XRC_DEVICE_NAME_MAX + 2] = "";
	struct ib_uverbs_attr *attr;
	const struct method_spec *m = &methods[0];
	size_t len = strlen(xrc_device());
	union xrc_cmd cmd;
	struct xrc node;

	strcpy(name, xrc_device());

	/* Without and with its NUL; inline for a short one. */
	build(self, m, &cmd);
	attr = xrc_find(&cmd, IB_XRC_ATTR_BIND_NAME);
	attr->len = len;
	ASSERT_EQ(0, xrc_open_node(&node));
	EXPECT_EQ(0, xrc_ioctl(node.fd, &cmd));
	xrc_close(&node);

	attr->len = len + 1;
	attr->data = 0;
	memcpy(&attr->data, name, len);
	ASSERT_EQ(0, xrc_open_node(&node));
	EXPECT_EQ(0, xrc_ioctl(node.fd, &cmd));
	xrc_close(&node);

	/* A pointer instead of the inline value is no name: it has two NULs. */
	attr->len = 8;
	attr->data = (uintptr_t)name;
	REFUSED(EINVAL, self->node.fd, &cmd, "a pointer for 8 bytes");

	attr->len = 9;
	attr->data = (uintptr_t)self->guard;
	REFUSED(EFAULT, self->node.fd, &cmd, "9 bytes at a bad pointer");
	attr->data = (uintptr_t)self->guard - 8;
	REFUSED(EFAULT, self->node.fd, &cmd, "9 bytes of which one faults");

	memset(name, 'x', sizeof(name));
	attr->data = (uintptr_t)name;
	attr->len = IB_XRC_DEVICE_NAME_MAX;
	REFUSED(ENODEV, self->node.fd, &cmd, "64 bytes");
	attr->len = IB_XRC_DEVICE_NAME_MAX + 1;
	EXPECT_NE(0, xrc_ioctl(self->node.fd, &cmd));
	attr->len = 0;
	REFUSED(EINVAL, self->node.fd, &cmd, "an empty name");
}

/* ---------------------------------------------------------- bad pointers -- */

TEST_F_TIMEOUT(framing, bad_header_pointer, TIMEOUT)
{
	void *bad[] = {
		NULL, self->guard, self->guard - 1,
		self->guard - sizeof(struct ib_uverbs_ioctl_hdr) + 1,
		/* Beyond user space, not canonical, in the kernel. */
		(void *)0x00007ffffffff000, (void *)0x8000000000000000,
		(void *)0xffff888000000000, (void *)-1, (void *)-24,
	};
	struct state before;
	unsigned int i;

	get_state(_metadata, self, &before);
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-1, ioctl(self->x.fd, RDMA_VERBS_IOCTL, bad[i]));
		EXPECT_EQ(EFAULT, errno)
			TH_LOG("header at %p", bad[i]);
	}
	check_state(_metadata, self, &before, "a bad header pointer");
}

TEST_F_TIMEOUT(framing, bad_attrs_pointer, TIMEOUT)
{
	union xrc_cmd cmd;
	__u8 *at;
	size_t missing;

	init_open(self, &cmd);
	for (missing = 1; missing <= cmd.hdr.length - sizeof(cmd.hdr);
	     missing += 5) {
		at = self->guard - cmd.hdr.length + missing;
		memcpy(at, &cmd, cmd.hdr.length - missing);
		REFUSED(EFAULT, self->x.fd, (union xrc_cmd *)at,
			"%zu bytes of the attributes missing", missing);
	}
}

/* The kernel cannot write handle and flags back. */
TEST_F_TIMEOUT(framing, read_only_call, TIMEOUT)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	const struct method_spec *m;
	const struct attr_spec *a;
	bool writes;
	void *p;

	FOR_EACH_METHOD(m) {
		writes = false;
		FOR_EACH_ATTR(m, a)
			writes |= a->kind == NEW_HANDLE || a->kind == NEW_FD ||
				  (a->kind == OUT && a->mandatory);
		if (!writes)
			continue;
		p = mmap(NULL, page, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, p);
		build(self, m, p);
		ASSERT_EQ(0, mprotect(p, page, PROT_READ));
		REFUSED(EFAULT, fd_of(self, m), p, "%s in read-only memory",
			m->name);
		munmap(p, page);
	}
}

TEST_F_TIMEOUT(framing, bad_input_pointer, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	__u64 bad[] = {
		0, (uintptr_t)self->guard, (uintptr_t)self->guard - 8,
		0x00007ffffffff000, 0x8000000000000000, 0xffff888000000000,
		(__u64)-1, (__u64)-8,
	};
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->kind != IN || a->size <= 8)
				continue;
			for (i = 0; i < ARRAY_SIZE(bad); i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data = bad[i];
				REFUSED(EFAULT, fd_of(self, m), &cmd,
					"%s, attribute %#x at %#llx", m->name,
					a->id, bad[i]);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, bad_output_pointer, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	__u64 bad[] = {
		0, (uintptr_t)self->guard, (uintptr_t)self->guard - 2,
		0x00007ffffffff000, 0x8000000000000000, 0xffff888000000000,
		(__u64)-1, (__u64)-2,
	};
	union xrc_cmd cmd;
	unsigned int i;

	/* One is between two pages of which the kernel may write only the first. */
	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out ||
			    (a->kind != OUT && a->kind != OUT_ARRAY))
				continue;
			for (i = 0; i < ARRAY_SIZE(bad); i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data = bad[i];
				REFUSED(EFAULT, fd_of(self, m), &cmd,
					"%s, attribute %#x at %#llx", m->name,
					a->id, bad[i]);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, read_only_output, TIMEOUT)
{
	const size_t page = sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;

	ASSERT_NE(MAP_FAILED, p);
	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->left_out ||
			    (a->kind != OUT && a->kind != OUT_ARRAY))
				continue;
			build(self, m, &cmd);
			xrc_find(&cmd, a->id)->data = (uintptr_t)p;
			REFUSED(EFAULT, fd_of(self, m), &cmd,
				"%s, attribute %#x in read-only memory", m->name,
				a->id);
		}
	}
	munmap(p, page);
}

/* No descriptor is free. */
TEST_F_TIMEOUT(framing, no_descriptor, TIMEOUT)
{
	struct rlimit old, none = {};
	union xrc_cmd cmd;
	int objects = xrc_kernel_objects();
	int fd;

	ASSERT_EQ(0, getrlimit(RLIMIT_NOFILE, &old));
	none.rlim_max = old.rlim_max;
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_COMP_CHANNEL,
		    IB_XRC_METHOD_COMP_CHANNEL_CREATE);
	xrc_attr(&cmd, IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD);
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &none));
	EXPECT_EQ(-EMFILE, xrc_ioctl(self->x.fd, &cmd));
	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &old));
	EXPECT_EQ(0, xrc_channel_create(&self->x, &fd));
	close(fd);
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects));
}

/* Attributes come in any order, and a call lies anywhere. */
TEST_F_TIMEOUT(framing, any_order_and_place, TIMEOUT)
{
	struct ib_uverbs_attr attr;
	struct xrc_srq srq = {};
	union xrc_cmd cmd;
	__u8 *p = self->guard;
	int rotate, place, i, n;

	for (rotate = 0; rotate < 8; rotate++) {
		for (i = 0; i < (int)ARRAY_SIZE(methods); i++)
			if (methods[i].object == IB_XRC_OBJECT_SRQ)
				break;
		build(self, &methods[i], &cmd);
		n = cmd.hdr.num_attrs;
		for (i = 0; i < rotate; i++) {
			attr = cmd.hdr.attrs[0];
			memmove(&cmd.hdr.attrs[0], &cmd.hdr.attrs[1],
				(n - 1) * sizeof(attr));
			cmd.hdr.attrs[n - 1] = attr;
		}
		/* Not aligned, and up to the last byte there is. */
		place = cmd.hdr.length + rotate;
		memcpy(p - place, &cmd, cmd.hdr.length);
		EXPECT_EQ(0, xrc_ioctl(self->x.fd, (union xrc_cmd *)(p - place)));
		memcpy(&cmd, p - place, cmd.hdr.length);
		srq.handle = xrc_find(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE)->data;
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	}
}

/* The failing call comes often: if each left something it would show. */
TEST_F_TIMEOUT(framing, failed_create_leaves_nothing, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	struct state before;
	union xrc_cmd cmd;
	int objects, i;

	get_state(_metadata, self, &before);
	objects = xrc_kernel_objects();
	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->kind != OUT || !a->mandatory)
				continue;
			for (i = 0; i < 50; i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data =
					(uintptr_t)self->guard;
				EXPECT_EQ(-EFAULT,
					  xrc_ioctl(fd_of(self, m), &cmd));
			}
		}
	}
	check_state(_metadata, self, &before, "creating without success");
	EXPECT_EQ(0, xrc_wait_kernel_objects(objects))
		TH_LOG("there are %d more objects",
		       xrc_kernel_objects() - objects);
}

/* --------------------------------------------------------------- handles -- */

TEST_F_TIMEOUT(framing, unknown_handle, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			const __u64 handle = handle_of(self, a->from);
			const __u64 wrong[] = {
				31, 0xffffff, 0x7fffffff, 0x80000000, 0xffffffff,
				/* Would be right if it was cut to 32 bits. */
				handle | 1ULL << 32, handle | 1ULL << 62,
				LLONG_MAX,
			};

			if (a->kind != HANDLE)
				continue;
			for (i = 0; i < ARRAY_SIZE(wrong); i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data = wrong[i];
				REFUSED(ENOENT, fd_of(self, m), &cmd,
					"%s, attribute %#x, handle %#llx",
					m->name, a->id, wrong[i]);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, negative_handle, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			const __s64 handle = handle_of(self, a->from);
			const __s64 wrong[] = { -1, handle | LLONG_MIN, LLONG_MIN };

			if (a->kind != HANDLE)
				continue;
			for (i = 0; i < ARRAY_SIZE(wrong); i++) {
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data_s64 = wrong[i];
				REFUSED(EINVAL, fd_of(self, m), &cmd,
					"%s, attribute %#x, handle %lld",
					m->name, a->id, wrong[i]);
			}
		}
	}
}

TEST_F_TIMEOUT(framing, handle_of_another_kind, TIMEOUT)
{
	static const __u16 kinds[] = {
		IB_XRC_OBJECT_XRCD, IB_XRC_OBJECT_TGT_QP, IB_XRC_OBJECT_CQ,
		IB_XRC_OBJECT_SRQ, IB_XRC_OBJECT_MR
	};
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	unsigned int i;

	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->kind != HANDLE)
				continue;
			for (i = 0; i < ARRAY_SIZE(kinds); i++) {
				if (kinds[i] == a->from)
					continue;
				build(self, m, &cmd);
				xrc_find(&cmd, a->id)->data =
					handle_of(self, kinds[i]);
				REFUSED(EINVAL, fd_of(self, m), &cmd,
					"%s, attribute %#x, handle of %#x",
					m->name, a->id, kinds[i]);
			}
		}
	}
}

/* Handles belong to a file. */
TEST_F_TIMEOUT(framing, handle_of_another_file, TIMEOUT)
{
	const struct method_spec *m;
	const struct attr_spec *a;
	union xrc_cmd cmd;
	struct xrc other;

	ASSERT_EQ(0, xrc_open(&other));
	FOR_EACH_METHOD(m) {
		FOR_EACH_ATTR(m, a) {
			if (a->kind != HANDLE)
				continue;
			build(self, m, &cmd);
			REFUSED(ENOENT, other.fd, &cmd, "%s in another file",
				m->name);
			break;
		}
	}
	xrc_close(&other);
}

TEST_F_TIMEOUT(framing, closed_handle, TIMEOUT)
{
	struct xrc_qp qp;
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &xrcd));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &srq));

	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(-ENOENT, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(-ENOENT, xrc_srq_kick(&self->x, &srq));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
	EXPECT_EQ(-ENOENT, xrc_cq_destroy(&self->x, &cq));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(-ENOENT, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(-ENOENT, xrc_tgt_state(&self->x, &qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(-ENOENT, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(-ENOENT, xrc_tgt_create(&self->x, xrcd, &qp));
}

/* A file has only so many, and is as good as before when it has fewer again. */
TEST_F_TIMEOUT(framing, too_many_handles, TIMEOUT)
{
	const int most = 65536;
	struct ib_xrc_xrcd_info info;
	__u32 xrcd;
	int i, ret;

	/* There is one of each kind. */
	for (i = 5; i < most; i++) {
		ret = xrc_xrcd_open(&self->x, self->file, 0, &xrcd);
		if (ret)
			break;
	}
	EXPECT_EQ(most, i);
	EXPECT_EQ(-ENOSPC, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &info));
	EXPECT_EQ(most - 4, info.handles);
	EXPECT_EQ(-ENOSPC, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD,
					 &(struct xrc_cq){}));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, self->mr.handle + 1));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
	EXPECT_EQ(-ENOSPC, xrc_xrcd_open(&self->x, self->file, 0, &xrcd));
}

struct closer {
	pthread_barrier_t *barrier;
	struct xrc *x;
	struct xrc_qp qp;
	int ret;
};

static void *close_thread(void *arg)
{
	struct closer *c = arg;

	pthread_barrier_wait(c->barrier);
	c->ret = xrc_tgt_close(c->x, &c->qp);
	return NULL;
}

/* One handle, closed by several threads: one of them does it. */
TEST_F_TIMEOUT(framing, close_race, TIMEOUT)
{
	struct closer closer[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	struct ib_xrc_xrcd_info info;
	struct xrc_qp qp;
	int round, i, done;

	pthread_barrier_init(&barrier, NULL, 4);
	for (round = 0; round < 50; round++) {
		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
		for (i = 0; i < 4; i++) {
			closer[i].barrier = &barrier;
			closer[i].x = &self->x;
			closer[i].qp = qp;
			ASSERT_EQ(0, pthread_create(&thread[i], NULL,
						    close_thread, &closer[i]));
		}
		for (i = done = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			done += !closer[i].ret;
			EXPECT_TRUE(!closer[i].ret ||
				    closer[i].ret == -ENOENT ||
				    closer[i].ret == -EBUSY)
				TH_LOG("close: %d", closer[i].ret);
		}
		EXPECT_EQ(1, done);
	}
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, self->xrcd, &info));
	EXPECT_EQ(1, info.tgt_qps);
	pthread_barrier_destroy(&barrier);
}

/* ------------------------------------------------------------------ bind -- */

TEST_F_TIMEOUT(framing, before_bind, TIMEOUT)
{
	const struct method_spec *m;
	union xrc_cmd cmd;

	FOR_EACH_METHOD(m) {
		if (m->unbound || m->method == IB_XRC_METHOD_LIST_DEVICES)
			if (m->object == IB_XRC_OBJECT_CONTEXT)
				continue;
		build(self, m, &cmd);
		cmd.hdr.driver_id = XRC_DRIVER_UNKNOWN;
		REFUSED(ENODEV, self->node.fd, &cmd, "%s before bind", m->name);
	}
	EXPECT_EQ(MAP_FAILED, mmap(NULL, 4096, PROT_READ | PROT_WRITE,
				   MAP_SHARED, self->node.fd, 0));
}

static void bind_cmd(framing_t *self, union xrc_cmd *cmd)
{
	xrc_cmd_init(cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND,
		     XRC_DRIVER_UNKNOWN);
	xrc_in_u32(cmd, IB_XRC_ATTR_BIND_ABI_VERSION, IB_XRC_ABI_VERSION);
	xrc_out(cmd, IB_XRC_ATTR_BIND_RESP_DEVICE, self->out,
		sizeof(struct ib_xrc_device_info));
}

TEST_F_TIMEOUT(framing, bind_wrong_device, TIMEOUT)
{
	static const char * const names[] = {
		"nosuchdevice", "rxe", "rxe00", "RXE0", "rxe0 ", "/", "..", "%s",
	};
	__u32 indices[] = { self->x.dev.index + 1000, 0x7fffffff, 0xffffffff };
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		bind_cmd(self, &cmd);
		xrc_in(&cmd, IB_XRC_ATTR_BIND_NAME, names[i], strlen(names[i]));
		REFUSED(ENODEV, self->node.fd, &cmd, "name \"%s\"", names[i]);
	}
	for (i = 0; i < ARRAY_SIZE(indices); i++) {
		bind_cmd(self, &cmd);
		xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, indices[i]);
		REFUSED(ENODEV, self->node.fd, &cmd, "index %u", indices[i]);
	}
}

TEST_F_TIMEOUT(framing, bind_name_and_index, TIMEOUT)
{
	union xrc_cmd cmd;

	bind_cmd(self, &cmd);
	REFUSED(EINVAL, self->node.fd, &cmd, "neither name nor index");
	xrc_in(&cmd, IB_XRC_ATTR_BIND_NAME, xrc_device(), strlen(xrc_device()));
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, self->x.dev.index);
	REFUSED(EINVAL, self->node.fd, &cmd, "name and index");
}

TEST_F_TIMEOUT(framing, bind_abi_version, TIMEOUT)
{
	static const __u32 wrong[] = {
		0, IB_XRC_ABI_VERSION + 1, 0xffffffff
	};
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		bind_cmd(self, &cmd);
		xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, self->x.dev.index);
		memcpy(&xrc_find(&cmd, IB_XRC_ATTR_BIND_ABI_VERSION)->data,
		       &wrong[i], 4);
		REFUSED(EPROTO, self->node.fd, &cmd, "ABI version %u", wrong[i]);
	}
	/* It can still be bound. */
	EXPECT_EQ(0, xrc_bind(&self->node, xrc_device()));
}

TEST_F_TIMEOUT(framing, bind_by_index, TIMEOUT)
{
	union xrc_cmd cmd;

	bind_cmd(self, &cmd);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, self->x.dev.index);
	EXPECT_EQ(0, xrc_ioctl(self->node.fd, &cmd));
	EXPECT_EQ(0, memcmp(self->out, &self->x.dev, sizeof(self->x.dev)));
}

TEST_F_TIMEOUT(framing, bind_twice, TIMEOUT)
{
	union xrc_cmd cmd;

	bind_cmd(self, &cmd);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, self->x.dev.index);
	cmd.hdr.driver_id = self->x.dev.driver_id;
	REFUSED(EINVAL, self->x.fd, &cmd, "binding again");
	bind_cmd(self, &cmd);
	xrc_in(&cmd, IB_XRC_ATTR_BIND_NAME, "nosuchdevice", 12);
	cmd.hdr.driver_id = self->x.dev.driver_id;
	REFUSED(EINVAL, self->x.fd, &cmd, "binding again, to another device");
}

struct binder {
	pthread_barrier_t *barrier;
	struct xrc x;
	int ret;
};

static void *bind_thread(void *arg)
{
	struct binder *b = arg;

	pthread_barrier_wait(b->barrier);
	b->ret = xrc_bind(&b->x, xrc_device());
	return NULL;
}

TEST_F_TIMEOUT(framing, bind_race, TIMEOUT)
{
	struct binder binder[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	struct xrc x;
	int round, i, done;

	pthread_barrier_init(&barrier, NULL, 4);
	for (round = 0; round < 50; round++) {
		ASSERT_EQ(0, xrc_open_node(&x));
		for (i = 0; i < 4; i++) {
			binder[i].barrier = &barrier;
			binder[i].x = x;
			ASSERT_EQ(0, pthread_create(&thread[i], NULL,
						    bind_thread, &binder[i]));
		}
		for (i = done = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			/* Too late, the driver_id is wrong or it is bound. */
			done += !binder[i].ret;
			EXPECT_TRUE(!binder[i].ret ||
				    binder[i].ret == -EINVAL);
		}
		EXPECT_EQ(1, done);
		xrc_close(&x);
	}
	pthread_barrier_destroy(&barrier);
}

TEST_F_TIMEOUT(framing, list_devices, TIMEOUT)
{
	struct ib_xrc_device_info list[16];
	struct ib_uverbs_attr *attr;
	struct ibv_device **devices;
	union xrc_cmd cmd;
	__u32 count = 0, i;
	int n, seen = 0;

	/* Before and after bind. */
	xrc_cmd_for(&self->node, &cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_LIST_DEVICES);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &count, 4);
	EXPECT_EQ(0, xrc_ioctl(self->node.fd, &cmd));
	EXPECT_LE(1, count);
	devices = ibv_get_device_list(&n);
	ASSERT_TRUE(devices);
	ibv_free_device_list(devices);
	EXPECT_EQ(n, count);

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_LIST_DEVICES);
	memset(list, 0xa5, sizeof(list));
	attr = xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, list,
		       sizeof(list));
	count = 0;
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &count, 4);
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	ASSERT_GE(ARRAY_SIZE(list), count);
	for (i = 0; i < count; i++)
		if (!memcmp(&list[i], &self->x.dev, sizeof(list[i])))
			seen++;
	EXPECT_EQ(1, seen);

	/* Whole elements only, and the count is that of all. */
	memset(list, 0xa5, sizeof(list));
	attr->len = sizeof(list[0]) + sizeof(list[0]) - 1;
	i = count;
	count = 0;
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(i, count);
	EXPECT_NE(0xa5, list[0].name[0]);
	EXPECT_EQ(0xa5, ((__u8 *)list)[2 * sizeof(list[0]) - 1]);

	/* Not one fits. */
	memset(list, 0xa5, sizeof(list));
	attr->len = sizeof(list[0]) - 1;
	count = 0;
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(i, count);
}

TEST_F_TIMEOUT(framing, query_context, TIMEOUT)
{
	struct ib_xrc_device_info dev;
	struct ib_xrc_limits limits, again;
	union xrc_cmd cmd;

	memset(&dev, 0xa5, sizeof(dev));
	memset(&limits, 0xa5, sizeof(limits));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_CONTEXT,
		    IB_XRC_METHOD_QUERY_CONTEXT);
	xrc_out(&cmd, IB_XRC_ATTR_QUERY_CONTEXT_RESP_DEVICE, &dev, sizeof(dev));
	xrc_out(&cmd, IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, &limits,
		sizeof(limits));
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(0, memcmp(&dev, &self->x.dev, sizeof(dev)));
	EXPECT_EQ(0, xrc_limits(&self->x, &again));
	EXPECT_EQ(0, memcmp(&limits, &again, sizeof(limits)));
}

TEST_HARNESS_MAIN
