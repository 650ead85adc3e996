// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "xrc_util.h"

#define PORT 1

/* ------------------------------------------------------------- framing -- */

void xrc_cmd_init(union xrc_cmd *cmd, __u16 object, __u16 method, __u32 driver)
{
	memset(cmd, 0, sizeof(*cmd));
	cmd->hdr.length = sizeof(cmd->hdr);
	cmd->hdr.object_id = object;
	cmd->hdr.method_id = method;
	cmd->hdr.driver_id = driver;
}

static struct ib_uverbs_attr *attrs_of(union xrc_cmd *cmd)
{
	return (struct ib_uverbs_attr *)(cmd->bytes + sizeof(cmd->hdr));
}

struct ib_uverbs_attr *xrc_attr(union xrc_cmd *cmd, __u16 id)
{
	struct ib_uverbs_attr *attr;

	if (cmd->hdr.num_attrs == XRC_MAX_ATTRS)
		abort();
	attr = attrs_of(cmd) + cmd->hdr.num_attrs++;
	cmd->hdr.length += sizeof(*attr);
	memset(attr, 0, sizeof(*attr));
	attr->attr_id = id;
	attr->flags = UVERBS_ATTR_F_MANDATORY;
	return attr;
}

struct ib_uverbs_attr *xrc_find(union xrc_cmd *cmd, __u16 id)
{
	struct ib_uverbs_attr *attr = attrs_of(cmd);
	unsigned int i;

	for (i = 0; i < cmd->hdr.num_attrs; i++)
		if (attr[i].attr_id == id)
			return attr + i;
	abort();
}

void xrc_drop(union xrc_cmd *cmd, __u16 id)
{
	struct ib_uverbs_attr *attr = xrc_find(cmd, id);
	struct ib_uverbs_attr *end = attrs_of(cmd) + --cmd->hdr.num_attrs;

	memmove(attr, attr + 1, (end - attr) * sizeof(*attr));
	cmd->hdr.length -= sizeof(*attr);
}

struct ib_uverbs_attr *xrc_in(union xrc_cmd *cmd, __u16 id, const void *data,
			      size_t len)
{
	struct ib_uverbs_attr *attr = xrc_attr(cmd, id);

	attr->len = len;
	if (len <= sizeof(attr->data))
		memcpy(&attr->data, data, len);
	else
		attr->data = (uintptr_t)data;
	return attr;
}

struct ib_uverbs_attr *xrc_in_u32(union xrc_cmd *cmd, __u16 id, __u32 value)
{
	return xrc_in(cmd, id, &value, sizeof(value));
}

struct ib_uverbs_attr *xrc_in_u64(union xrc_cmd *cmd, __u16 id, __u64 value)
{
	return xrc_in(cmd, id, &value, sizeof(value));
}

struct ib_uverbs_attr *xrc_out(union xrc_cmd *cmd, __u16 id, void *data,
			       size_t len)
{
	struct ib_uverbs_attr *attr = xrc_attr(cmd, id);

	attr->len = len;
	attr->data = (uintptr_t)data;
	return attr;
}

struct ib_uverbs_attr *xrc_handle(union xrc_cmd *cmd, __u16 id, __u64 handle)
{
	struct ib_uverbs_attr *attr = xrc_attr(cmd, id);

	attr->data = handle;
	return attr;
}

struct ib_uverbs_attr *xrc_raw_fd(union xrc_cmd *cmd, __u16 id, __s64 fd)
{
	struct ib_uverbs_attr *attr = xrc_attr(cmd, id);

	attr->data_s64 = fd;
	return attr;
}

int xrc_ioctl(int fd, union xrc_cmd *cmd)
{
	return ioctl(fd, RDMA_VERBS_IOCTL, cmd) ? -errno : 0;
}

/* ------------------------------------------------------------- context -- */

const char *xrc_device(void)
{
	const char *name = getenv("XRC_DEVICE");

	return name ? name : "rxe0";
}

int xrc_open_node(struct xrc *x)
{
	memset(x, 0, sizeof(*x));
	x->dev.driver_id = XRC_DRIVER_UNKNOWN;
	x->fd = open(XRC_NODE, O_RDWR | O_CLOEXEC);
	return x->fd < 0 ? -errno : 0;
}

void xrc_cmd_for(const struct xrc *x, union xrc_cmd *cmd, __u16 object,
		 __u16 method)
{
	xrc_cmd_init(cmd, object, method, x->dev.driver_id);
}

int xrc_bind(struct xrc *x, const char *name)
{
	struct ib_xrc_device_info info;
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_ABI_VERSION, IB_XRC_ABI_VERSION);
	xrc_in(&cmd, IB_XRC_ATTR_BIND_NAME, name, strlen(name));
	xrc_out(&cmd, IB_XRC_ATTR_BIND_RESP_DEVICE, &info, sizeof(info));
	ret = xrc_ioctl(x->fd, &cmd);
	if (!ret)
		x->dev = info;
	return ret;
}

int xrc_open(struct xrc *x)
{
	int ret = xrc_open_node(x);

	if (ret)
		return ret;
	ret = xrc_bind(x, xrc_device());
	if (ret)
		xrc_close(x);
	return ret;
}

void xrc_close(struct xrc *x)
{
	if (x->fd >= 0)
		close(x->fd);
	x->fd = -1;
}

int xrc_limits(struct xrc *x, struct ib_xrc_limits *limits)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_QUERY_CONTEXT);
	xrc_out(&cmd, IB_XRC_ATTR_QUERY_CONTEXT_RESP_LIMITS, limits,
		sizeof(*limits));
	return xrc_ioctl(x->fd, &cmd);
}

/* ------------------------------------------------ domains and TGT QPs -- */

/* EVENT_FILE and USER_HANDLE, which all objects that report have. */
static void report_to(union xrc_cmd *cmd, const struct xrc_report *report,
		      __u16 event_file, __u16 user_handle)
{
	if (!report)
		return;
	xrc_raw_fd(cmd, event_file, report->fd);
	xrc_in_u64(cmd, user_handle, report->user_handle);
}

int xrc_xrcd_open_with(struct xrc *x, int fd, int oflags,
		       const struct xrc_xrcd_opts *opts, __u32 *handle)
{
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE, 0);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_XRCD_OPEN_FD, fd);
	xrc_in_u32(&cmd, IB_XRC_ATTR_XRCD_OPEN_OFLAGS, oflags);
	if (opts->policy)
		xrc_in(&cmd, IB_XRC_ATTR_XRCD_OPEN_POLICY, opts->policy,
		       sizeof(*opts->policy));
	if (opts->job_key)
		xrc_in_u64(&cmd, IB_XRC_ATTR_XRCD_OPEN_JOB_KEY, *opts->job_key);
	report_to(&cmd, opts->report, IB_XRC_ATTR_XRCD_OPEN_EVENT_FILE,
		  IB_XRC_ATTR_XRCD_OPEN_USER_HANDLE);
	ret = xrc_ioctl(x->fd, &cmd);
	*handle = xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;
	return ret;
}

int xrc_xrcd_open(struct xrc *x, int fd, int oflags, __u32 *handle)
{
	static const struct xrc_xrcd_opts none;

	return xrc_xrcd_open_with(x, fd, oflags, &none, handle);
}

int xrc_xrcd_close(struct xrc *x, __u32 handle)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_CLOSE);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_CLOSE_HANDLE, handle);
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_xrcd_query(struct xrc *x, __u32 handle, struct ib_xrc_xrcd_info *info)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_QUERY);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_QUERY_HANDLE, handle);
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_QUERY_RESP_INFO, info, sizeof(*info));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_xrcd_policy(struct xrc *x, __u32 handle, struct ib_xrc_policy *policy)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_QUERY);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_QUERY_HANDLE, handle);
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_QUERY_RESP_POLICY, policy,
		sizeof(*policy));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_list_tgt_qps(struct xrc *x, __u32 xrcd, struct ib_xrc_tgt_qp_info *info,
		     unsigned int n, __u32 *count)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_LIST_TGT_QPS);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_HANDLE, xrcd);
	if (info)
		xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_TGT_QPS, info,
			n * sizeof(*info));
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_TGT_QPS_RESP_COUNT, count,
		sizeof(*count));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_list_srqs(struct xrc *x, __u32 xrcd, __u32 after,
		  struct ib_xrc_srq_info *info, unsigned int n, __u32 *count)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_LIST_SRQS);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE, xrcd);
	if (info)
		xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS, info,
			n * sizeof(*info));
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT, count,
		sizeof(*count));
	if (after)
		xrc_in_u32(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_AFTER, after);
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_tgt_create_report(struct xrc *x, __u32 xrcd,
			  const struct xrc_report *report, struct xrc_qp *qp)
{
	union xrc_cmd cmd;
	int ret;

	memset(qp, 0, sizeof(*qp));
	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_CREATE);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE, 0);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_XRCD, xrcd);
	xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_RESP_QP_NUM, &qp->qp_num,
		sizeof(qp->qp_num));
	report_to(&cmd, report, IB_XRC_ATTR_TGT_QP_CREATE_EVENT_FILE,
		  IB_XRC_ATTR_TGT_QP_CREATE_USER_HANDLE);
	ret = xrc_ioctl(x->fd, &cmd);
	qp->handle = xrc_find(&cmd, IB_XRC_ATTR_TGT_QP_CREATE_HANDLE)->data;
	return ret;
}

int xrc_tgt_create(struct xrc *x, __u32 xrcd, struct xrc_qp *qp)
{
	return xrc_tgt_create_report(x, xrcd, NULL, qp);
}

int xrc_tgt_open_report(struct xrc *x, __u32 xrcd, __u32 qp_num,
			const struct xrc_report *report, struct xrc_qp *qp)
{
	union xrc_cmd cmd;
	int ret;

	memset(qp, 0, sizeof(*qp));
	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_OPEN);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_HANDLE, 0);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_XRCD, xrcd);
	xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_QP_NUM, qp_num);
	report_to(&cmd, report, IB_XRC_ATTR_TGT_QP_OPEN_EVENT_FILE,
		  IB_XRC_ATTR_TGT_QP_OPEN_USER_HANDLE);
	ret = xrc_ioctl(x->fd, &cmd);
	qp->handle = xrc_find(&cmd, IB_XRC_ATTR_TGT_QP_OPEN_HANDLE)->data;
	qp->qp_num = qp_num;
	return ret;
}

int xrc_tgt_open(struct xrc *x, __u32 xrcd, __u32 qp_num, struct xrc_qp *qp)
{
	return xrc_tgt_open_report(x, xrcd, qp_num, NULL, qp);
}

int xrc_tgt_close(struct xrc *x, const struct xrc_qp *qp)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_CLOSE);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_CLOSE_HANDLE, qp->handle);
	return xrc_ioctl(x->fd, &cmd);
}

static void name_qp(union xrc_cmd *cmd, const struct xrc_qp *qp, __u16 handle,
		    __u16 xrcd, __u16 qp_num)
{
	if (qp->by_num) {
		xrc_handle(cmd, xrcd, qp->handle);
		xrc_in_u32(cmd, qp_num, qp->qp_num);
	} else {
		xrc_handle(cmd, handle, qp->handle);
	}
}

int xrc_tgt_modify(struct xrc *x, const struct xrc_qp *qp,
		   const struct ib_uverbs_qp_attr *attr)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_MODIFY);
	name_qp(&cmd, qp, IB_XRC_ATTR_TGT_QP_MODIFY_HANDLE,
		IB_XRC_ATTR_TGT_QP_MODIFY_XRCD, IB_XRC_ATTR_TGT_QP_MODIFY_QP_NUM);
	xrc_in(&cmd, IB_XRC_ATTR_TGT_QP_MODIFY_ATTR, attr, sizeof(*attr));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_tgt_query(struct xrc *x, const struct xrc_qp *qp,
		  struct ib_uverbs_qp_attr *attr,
		  struct ib_xrc_tgt_qp_info *info)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_QUERY);
	name_qp(&cmd, qp, IB_XRC_ATTR_TGT_QP_QUERY_HANDLE,
		IB_XRC_ATTR_TGT_QP_QUERY_XRCD, IB_XRC_ATTR_TGT_QP_QUERY_QP_NUM);
	if (attr)
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_QUERY_RESP_ATTR, attr,
			sizeof(*attr));
	if (info)
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_QUERY_RESP_INFO, info,
			sizeof(*info));
	return xrc_ioctl(x->fd, &cmd);
}

static int tgt_connect(struct xrc *x, const struct xrc_qp *qp,
		       const struct ib_uverbs_qp_attr *attr,
		       const __u32 *timeout_ms, __u32 *state)
{
	__u16 flags;
	union xrc_cmd cmd;
	__u32 resp = ~0U;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP, IB_XRC_METHOD_TGT_QP_CONNECT);
	name_qp(&cmd, qp, IB_XRC_ATTR_TGT_QP_CONNECT_HANDLE,
		IB_XRC_ATTR_TGT_QP_CONNECT_XRCD,
		IB_XRC_ATTR_TGT_QP_CONNECT_QP_NUM);
	xrc_in(&cmd, IB_XRC_ATTR_TGT_QP_CONNECT_ATTR, attr, sizeof(*attr));
	if (timeout_ms)
		xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_CONNECT_TIMEOUT_MS,
			   *timeout_ms);
	if (state)
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE, &resp,
			sizeof(resp));
	ret = xrc_ioctl(x->fd, &cmd);
	if (state) {
		flags = xrc_find(&cmd, IB_XRC_ATTR_TGT_QP_CONNECT_RESP_STATE)->flags;
		*state = flags & UVERBS_ATTR_F_VALID_OUTPUT ? resp : ~0U;
	}
	return ret;
}

int xrc_tgt_connect(struct xrc *x, const struct xrc_qp *qp,
		    const struct ib_uverbs_qp_attr *attr, __u32 *state)
{
	return tgt_connect(x, qp, attr, NULL, state);
}

int xrc_tgt_connect_timeout(struct xrc *x, const struct xrc_qp *qp,
			    const struct ib_uverbs_qp_attr *attr,
			    __u32 timeout_ms, __u32 *state)
{
	return tgt_connect(x, qp, attr, &timeout_ms, state);
}

static int tgt_disconnect(struct xrc *x, const struct xrc_qp *qp, __u16 handle,
			  __u32 timeout_ms, struct ib_xrc_disconnect_info *info)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_DISCONNECT);
	name_qp(&cmd, qp, handle, IB_XRC_ATTR_TGT_QP_DISCONNECT_XRCD,
		IB_XRC_ATTR_TGT_QP_DISCONNECT_QP_NUM);
	xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_TIMEOUT_MS, timeout_ms);
	if (info)
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_DISCONNECT_RESP_INFO, info,
			sizeof(*info));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_tgt_disconnect(struct xrc *x, const struct xrc_qp *qp, __u32 timeout_ms,
		       struct ib_xrc_disconnect_info *info)
{
	return tgt_disconnect(x, qp, IB_XRC_ATTR_TGT_QP_DISCONNECT_HANDLE,
			      timeout_ms, info);
}

int xrc_tgt_disconnect_release(struct xrc *x, const struct xrc_qp *qp,
			       __u32 timeout_ms,
			       struct ib_xrc_disconnect_info *info)
{
	return tgt_disconnect(x, qp, IB_XRC_ATTR_TGT_QP_DISCONNECT_RELEASE,
			      timeout_ms, info);
}

int xrc_list_holders(struct xrc *x, const struct xrc_qp *qp, __u64 after,
		     struct ib_xrc_holder_info *info, unsigned int n,
		     __u32 *count)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_LIST_HOLDERS);
	name_qp(&cmd, qp, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE,
		IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD,
		IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM);
	if (info)
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS, info,
			n * sizeof(*info));
	xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, count,
		sizeof(*count));
	if (after)
		xrc_in_u64(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_AFTER, after);
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_tgt_state(struct xrc *x, const struct xrc_qp *qp)
{
	struct ib_xrc_tgt_qp_info info;
	int ret = xrc_tgt_query(x, qp, NULL, &info);

	return ret ? ret : (int)info.state;
}

int xrc_tgt_wait_state(struct xrc *x, const struct xrc_qp *qp, int state)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	int now;

	/* Not every state is announced, so look again and again. */
	for (;;) {
		now = xrc_tgt_state(x, qp);
		if (now == state)
			return 0;
		if (now < 0)
			return now;
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
}

int xrc_tgt_refs(struct xrc *x, __u32 xrcd, __u32 qp_num)
{
	struct xrc_qp qp = { .by_num = true, .handle = xrcd, .qp_num = qp_num };
	struct ib_xrc_tgt_qp_info info;
	int ret = xrc_tgt_query(x, &qp, NULL, &info);

	return ret ? ret : (int)info.refs;
}

int xrc_tgt_wait_refs(struct xrc *x, __u32 xrcd, __u32 qp_num, int refs)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while (xrc_tgt_refs(x, xrcd, qp_num) != refs) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
	return 0;
}

/* ------------------------------------------------------------ CQs, SRQs -- */

int xrc_channel_create(struct xrc *x, int *fd)
{
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_COMP_CHANNEL,
		    IB_XRC_METHOD_COMP_CHANNEL_CREATE);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD, 0);
	ret = xrc_ioctl(x->fd, &cmd);
	*fd = ret ? -1 : (int)xrc_find(&cmd, IB_XRC_ATTR_COMP_CHANNEL_CREATE_FD)->data_s64;
	return ret;
}

void *xrc_ring_map(const struct xrc *x, const struct ib_xrc_ring_info *info)
{
	return mmap(NULL, info->mmap_length, PROT_READ | PROT_WRITE, MAP_SHARED,
		    x->fd, info->mmap_offset);
}

int xrc_cq_create(struct xrc *x, __u32 cqe, __u64 user_handle, int channel,
		  struct xrc_cq *cq)
{
	union xrc_cmd cmd;
	int ret;

	memset(cq, 0, sizeof(*cq));
	cq->channel = channel;
	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CQ, IB_XRC_METHOD_CQ_CREATE);
	xrc_handle(&cmd, IB_XRC_ATTR_CQ_CREATE_HANDLE, 0);
	xrc_in_u32(&cmd, IB_XRC_ATTR_CQ_CREATE_CQE, cqe);
	xrc_in_u64(&cmd, IB_XRC_ATTR_CQ_CREATE_USER_HANDLE, user_handle);
	if (channel >= 0)
		xrc_raw_fd(&cmd, IB_XRC_ATTR_CQ_CREATE_COMP_CHANNEL, channel);
	xrc_out(&cmd, IB_XRC_ATTR_CQ_CREATE_RESP_RING, &cq->info,
		sizeof(cq->info));
	ret = xrc_ioctl(x->fd, &cmd);
	if (ret)
		return ret;
	cq->handle = xrc_find(&cmd, IB_XRC_ATTR_CQ_CREATE_HANDLE)->data;
	cq->ring = xrc_ring_map(x, &cq->info);
	if (cq->ring == MAP_FAILED) {
		ret = -errno;
		cq->ring = NULL;
		xrc_cq_destroy(x, cq);
	}
	return ret;
}

int xrc_cq_destroy(struct xrc *x, struct xrc_cq *cq)
{
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_CQ, IB_XRC_METHOD_CQ_DESTROY);
	xrc_handle(&cmd, IB_XRC_ATTR_CQ_DESTROY_HANDLE, cq->handle);
	ret = xrc_ioctl(x->fd, &cmd);
	if (!ret && cq->ring) {
		munmap(cq->ring, cq->info.mmap_length);
		cq->ring = NULL;
	}
	return ret;
}

int xrc_cq_poll(struct xrc_cq *cq, struct ib_xrc_cqe *cqe)
{
	__u32 i = cq->ring->consumer;
	const void *entry;

	if (i == __atomic_load_n(&cq->ring->producer, __ATOMIC_ACQUIRE))
		return 0;
	entry = (const char *)cq->ring + IB_XRC_RING_ENTRIES_OFFSET +
		(size_t)(i & (cq->info.entries - 1)) * cq->info.stride;
	memcpy(cqe, entry, sizeof(*cqe));
	__atomic_store_n(&cq->ring->consumer, i + 1, __ATOMIC_RELEASE);
	return 1;
}

void xrc_cq_arm(struct xrc_cq *cq, __u32 how)
{
	__atomic_store_n(&cq->ring->arm, how, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

int xrc_channel_wait(int channel, int timeout_ms)
{
	struct pollfd pfd = { .fd = channel, .events = POLLIN };
	int n;

	do {
		n = poll(&pfd, 1, timeout_ms);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (!n)
		return -ETIME;
	return pfd.revents & POLLIN ? 0 : -EIO;
}

int xrc_channel_read(int channel, __u64 *user_handle)
{
	struct ib_uverbs_comp_event_desc event;
	ssize_t n;

	n = read(channel, &event, sizeof(event));
	if (n < 0)
		return -errno;
	if (n != sizeof(event))
		return -EPROTO;
	*user_handle = event.cq_handle;
	return 0;
}

int xrc_cq_wait(struct xrc_cq *cq, struct ib_xrc_cqe *cqe, int timeout_ms)
{
	long long end = xrc_now() + timeout_ms;
	long long left;
	__u64 handle;
	int ret;

	for (;;) {
		if (xrc_cq_poll(cq, cqe))
			return 0;
		left = end - xrc_now();
		if (left <= 0)
			return -ETIME;
		if (cq->channel < 0) {
			sched_yield();
			continue;
		}
		xrc_cq_arm(cq, IB_XRC_CQ_ARM_NEXT);
		if (xrc_cq_poll(cq, cqe))
			return 0;
		ret = xrc_channel_wait(cq->channel, left);
		if (ret) {
			/* A completion without its event is an error, too. */
			return ret;
		}
		ret = xrc_channel_read(cq->channel, &handle);
		if (ret)
			return ret;
	}
}

int xrc_srq_create_report(struct xrc *x, __u32 xrcd, const struct xrc_cq *cq,
			  __u32 max_wr, __u32 max_sge, __u64 user_handle,
			  int event_file, struct xrc_srq *srq)
{
	union xrc_cmd cmd;
	int ret;

	memset(srq, 0, sizeof(*srq));
	srq->max_sge = max_sge;
	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_CREATE);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE, 0);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_XRCD, xrcd);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_CREATE_CQ, cq->handle);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_WR, max_wr);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_CREATE_MAX_SGE, max_sge);
	xrc_in_u64(&cmd, IB_XRC_ATTR_SRQ_CREATE_USER_HANDLE, user_handle);
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_SRQ_NUM, &srq->srq_num,
		sizeof(srq->srq_num));
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_CREATE_RESP_RING, &srq->info,
		sizeof(srq->info));
	if (event_file != XRC_NO_FD)
		xrc_raw_fd(&cmd, IB_XRC_ATTR_SRQ_CREATE_EVENT_FILE, event_file);
	ret = xrc_ioctl(x->fd, &cmd);
	if (ret)
		return ret;
	srq->handle = xrc_find(&cmd, IB_XRC_ATTR_SRQ_CREATE_HANDLE)->data;
	srq->ring = xrc_ring_map(x, &srq->info);
	if (srq->ring == MAP_FAILED) {
		ret = -errno;
		srq->ring = NULL;
		xrc_srq_destroy(x, srq);
	}
	return ret;
}

int xrc_srq_create(struct xrc *x, __u32 xrcd, const struct xrc_cq *cq,
		   __u32 max_wr, __u32 max_sge, __u64 user_handle,
		   struct xrc_srq *srq)
{
	return xrc_srq_create_report(x, xrcd, cq, max_wr, max_sge, user_handle,
				     XRC_NO_FD, srq);
}

int xrc_srq_limit(struct xrc *x, const struct xrc_srq *srq, __u32 limit)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_MODIFY);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_MODIFY_HANDLE, srq->handle);
	xrc_in_u32(&cmd, IB_XRC_ATTR_SRQ_MODIFY_LIMIT, limit);
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_srq_query(struct xrc *x, const struct xrc_srq *srq,
		  struct ib_xrc_srq_attr *attr)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_QUERY);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_QUERY_HANDLE, srq->handle);
	xrc_out(&cmd, IB_XRC_ATTR_SRQ_QUERY_RESP_ATTR, attr, sizeof(*attr));
	return xrc_ioctl(x->fd, &cmd);
}

int xrc_srq_destroy(struct xrc *x, struct xrc_srq *srq)
{
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_DESTROY);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_DESTROY_HANDLE, srq->handle);
	ret = xrc_ioctl(x->fd, &cmd);
	if (!ret && srq->ring) {
		munmap(srq->ring, srq->info.mmap_length);
		srq->ring = NULL;
	}
	return ret;
}

int xrc_srq_kick(struct xrc *x, const struct xrc_srq *srq)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_SRQ, IB_XRC_METHOD_SRQ_KICK);
	xrc_handle(&cmd, IB_XRC_ATTR_SRQ_KICK_HANDLE, srq->handle);
	return xrc_ioctl(x->fd, &cmd);
}

void xrc_srq_write(struct xrc_srq *srq, __u64 wr_id,
		   const struct ib_uverbs_sge *sge, __u32 num_sge)
{
	__u32 i = srq->ring->producer;
	struct ib_xrc_recv_wqe *wqe;

	wqe = (void *)((char *)srq->ring + IB_XRC_RING_ENTRIES_OFFSET +
		       (size_t)(i & (srq->info.entries - 1)) * srq->info.stride);
	wqe->wr_id = wr_id;
	wqe->num_sge = num_sge;
	wqe->reserved = 0;
	if (num_sge > srq->max_sge)
		num_sge = srq->max_sge;
	if (num_sge)
		memcpy(wqe->sge, sge, num_sge * sizeof(*sge));
	__atomic_store_n(&srq->ring->producer, i + 1, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

int xrc_srq_postv(struct xrc *x, struct xrc_srq *srq, __u64 wr_id,
		  const struct ib_uverbs_sge *sge, __u32 num_sge)
{
	__u32 consumer = __atomic_load_n(&srq->ring->consumer, __ATOMIC_ACQUIRE);

	if (srq->ring->producer - consumer >= srq->info.entries)
		return -ENOMEM;
	xrc_srq_write(srq, wr_id, sge, num_sge);
	if (__atomic_load_n(&srq->ring->flags, __ATOMIC_RELAXED) &
	    IB_XRC_SRQ_RING_NEED_KICK)
		return xrc_srq_kick(x, srq);
	return 0;
}

int xrc_srq_post(struct xrc *x, struct xrc_srq *srq, __u64 wr_id, void *addr,
		 __u32 length)
{
	struct ib_uverbs_sge sge = {
		.addr = (uintptr_t)addr,
		.length = length,
	};

	return xrc_srq_postv(x, srq, wr_id, &sge, 1);
}

/* ------------------------------------------------------------------ MRs -- */

int xrc_mr_reg_iova(struct xrc *x, __u32 xrcd, const void *addr, __u64 length,
		    const __u64 *iova, __u32 access, struct xrc_mr *mr)
{
	union xrc_cmd cmd;
	int ret;

	memset(mr, 0, sizeof(*mr));
	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_MR, IB_XRC_METHOD_MR_REG);
	xrc_handle(&cmd, IB_XRC_ATTR_MR_REG_HANDLE, 0);
	xrc_handle(&cmd, IB_XRC_ATTR_MR_REG_XRCD, xrcd);
	xrc_in_u64(&cmd, IB_XRC_ATTR_MR_REG_ADDR, (uintptr_t)addr);
	xrc_in_u64(&cmd, IB_XRC_ATTR_MR_REG_LENGTH, length);
	if (iova)
		xrc_in_u64(&cmd, IB_XRC_ATTR_MR_REG_IOVA, *iova);
	xrc_in_u32(&cmd, IB_XRC_ATTR_MR_REG_ACCESS_FLAGS, access);
	xrc_out(&cmd, IB_XRC_ATTR_MR_REG_RESP_RKEY, &mr->rkey, sizeof(mr->rkey));
	ret = xrc_ioctl(x->fd, &cmd);
	mr->handle = xrc_find(&cmd, IB_XRC_ATTR_MR_REG_HANDLE)->data;
	return ret;
}

int xrc_mr_reg(struct xrc *x, __u32 xrcd, const void *addr, __u64 length,
	       __u32 access, struct xrc_mr *mr)
{
	return xrc_mr_reg_iova(x, xrcd, addr, length, NULL, access, mr);
}

int xrc_mr_dereg(struct xrc *x, const struct xrc_mr *mr)
{
	union xrc_cmd cmd;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_MR, IB_XRC_METHOD_MR_DEREG);
	xrc_handle(&cmd, IB_XRC_ATTR_MR_DEREG_HANDLE, mr->handle);
	return xrc_ioctl(x->fd, &cmd);
}

/* --------------------------------------------------------------- events -- */

int xrc_event_file_create(struct xrc *x, __s64 depth, int *fd)
{
	union xrc_cmd cmd;
	int ret;

	xrc_cmd_for(x, &cmd, IB_XRC_OBJECT_EVENT_FILE,
		    IB_XRC_METHOD_EVENT_FILE_CREATE);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_EVENT_FILE_CREATE_FD, 0);
	if (depth >= 0)
		xrc_in_u32(&cmd, IB_XRC_ATTR_EVENT_FILE_CREATE_DEPTH, depth);
	ret = xrc_ioctl(x->fd, &cmd);
	*fd = ret ? -1 : (int)xrc_find(&cmd, IB_XRC_ATTR_EVENT_FILE_CREATE_FD)->data_s64;
	return ret;
}

int xrc_event_read(int fd, struct ib_xrc_event *event, unsigned int n)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	ssize_t len;

	/* The file may be one that blocks. */
	if (!poll(&pfd, 1, 0))
		return -EAGAIN;
	len = read(fd, event, n * sizeof(*event));
	if (len < 0)
		return -errno;
	return len % sizeof(*event) ? -EPROTO : (int)(len / sizeof(*event));
}

int xrc_event_wait(int fd, struct ib_xrc_event *event, int timeout_ms)
{
	struct pollfd pfd = { .fd = fd, .events = POLLIN };
	long long end = xrc_now() + timeout_ms;
	long long left;
	int n;

	/* Another reader may have been faster. */
	do {
		left = end - xrc_now();
		n = poll(&pfd, 1, left > 0 ? left : 0);
		if (n < 0 && errno != EINTR)
			return -errno;
		n = xrc_event_read(fd, event, 1);
		if (n != -EAGAIN)
			return n == 1 ? 0 : n < 0 ? n : -EPROTO;
	} while (left > 0);
	return -ETIME;
}

/* ------------------------------------------------------------- INI side -- */

struct xrc_wire {
	struct ib_xrc_wire_hdr hdr;
};

/* The RoCE v2 GID of an IPv4 address. */
static int find_gid(struct xrc_ini *ini)
{
	static const __u8 mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ibv_gid_entry table[64];
	ssize_t i, n;

	n = ibv_query_gid_table(ini->context, table, 64, 0);
	if (n < 0)
		return n;
	for (i = 0; i < n; i++) {
		if (table[i].port_num != PORT ||
		    table[i].gid_type != IBV_GID_TYPE_ROCE_V2 ||
		    memcmp(table[i].gid.raw, mapped, sizeof(mapped)))
			continue;
		ini->gid = table[i].gid;
		ini->gid_index = table[i].gid_index;
		return 0;
	}
	return -ENOENT;
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	int i, n;

	list = ibv_get_device_list(&n);
	if (!list)
		return NULL;
	errno = ENODEV;
	for (i = 0; i < n && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	return context;
}

/* A QP in the INIT state. */
static int make_qp(struct xrc_ini *ini)
{
	struct ibv_qp_init_attr init = {
		.send_cq = ini->cq,
		.recv_cq = ini->cq,
		.cap = {
			.max_send_wr = ini->depth,
			.max_recv_wr = 1,
			.max_send_sge = 2,
			.max_recv_sge = 1,
		},
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
	};

	ini->qp = ibv_create_qp(ini->pd, &init);
	if (!ini->qp)
		return -errno;
	return -ibv_modify_qp(ini->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
			      IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int ini_open(struct xrc_ini *ini, unsigned int depth, size_t buf_size)
{
	struct ibv_port_attr port;
	size_t slots = depth * sizeof(struct xrc_wire);
	int ret;

	ini->depth = depth;
	ini->size = buf_size;
	/* As 24 bits go, but not the same for all: mistakes shall show. */
	ini->psn = (getpid() * 2654435761U) & 0xffffff;
	ini->context = open_device(xrc_device());
	if (!ini->context)
		return -errno;
	ret = find_gid(ini);
	if (ret)
		return ret;
	ret = ibv_query_port(ini->context, PORT, &port);
	if (ret)
		return -ret;
	ini->mtu = port.active_mtu;
	ini->peer = ini->gid;
	/*
	 * 0.5 s six times: a machine under load does not make it give up. Seven
	 * times would be for ever on Soft-RoCE.
	 */
	ini->timeout = 17;
	ini->retry_cnt = 6;

	ini->slots = mmap(NULL, slots + buf_size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ini->slots == MAP_FAILED) {
		ini->slots = NULL;
		return -errno;
	}
	ini->buf = (__u8 *)ini->slots + slots;

	ini->pd = ibv_alloc_pd(ini->context);
	if (!ini->pd)
		return -errno;
	ini->mr = ibv_reg_mr(ini->pd, ini->slots, slots + buf_size,
			     IBV_ACCESS_LOCAL_WRITE);
	if (!ini->mr)
		return -errno;
	ini->channel = ibv_create_comp_channel(ini->context);
	if (!ini->channel)
		return -errno;
	ini->cq = ibv_create_cq(ini->context, depth + 1, NULL, ini->channel, 0);
	if (!ini->cq)
		return -errno;
	return make_qp(ini);
}

int xrc_ini_open(struct xrc_ini *ini, unsigned int depth, size_t buf_size)
{
	int ret;

	memset(ini, 0, sizeof(*ini));
	ret = ini_open(ini, depth, buf_size);
	if (ret)
		xrc_ini_close(ini);
	return ret;
}

void xrc_ini_close(struct xrc_ini *ini)
{
	if (ini->qp)
		ibv_destroy_qp(ini->qp);
	if (ini->cq)
		ibv_destroy_cq(ini->cq);
	if (ini->channel)
		ibv_destroy_comp_channel(ini->channel);
	if (ini->mr)
		ibv_dereg_mr(ini->mr);
	if (ini->pd)
		ibv_dealloc_pd(ini->pd);
	if (ini->slots)
		munmap(ini->slots, ini->depth * sizeof(struct xrc_wire) +
		       ini->size);
	if (ini->context)
		ibv_close_device(ini->context);
	memset(ini, 0, sizeof(*ini));
}

int xrc_ini_reset(struct xrc_ini *ini)
{
	struct ibv_wc wc;

	/* Not by RESET: Soft-RoCE keeps what was outstanding, as empty requests. */
	if (ini->qp && ibv_destroy_qp(ini->qp))
		return -errno;
	ini->qp = NULL;
	while (ibv_poll_cq(ini->cq, 1, &wc) > 0)
		;
	return make_qp(ini);
}

int xrc_ini_connect(struct xrc_ini *ini, __u32 tgt_qp_num)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = ini->mtu,
		.dest_qp_num = tgt_qp_num,
		.rq_psn = ini->psn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {
			.grh = {
				.dgid = ini->peer,
				.sgid_index = ini->gid_index,
				.hop_limit = 64,
			},
			.is_global = 1,
			.port_num = PORT,
		},
	};
	int ret;

	ret = ibv_modify_qp(ini->qp, &attr, IBV_QP_STATE | IBV_QP_AV |
			    IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (ret)
		return -ret;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = ini->psn;
	attr.timeout = ini->timeout;
	attr.retry_cnt = ini->retry_cnt;
	/* For ever. */
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	return -ibv_modify_qp(ini->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT |
			      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			      IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

void xrc_ini_tgt_attr(const struct xrc_ini *ini, struct ib_uverbs_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_attr_mask = IBV_QP_STATE;
	attr->qp_state = IBV_QPS_RTS;
	attr->port_num = PORT;
	attr->path_mtu = ini->mtu;
	attr->rq_psn = ini->psn;
	attr->sq_psn = ini->psn;
	attr->dest_qp_num = ini->qp->qp_num;
	attr->max_dest_rd_atomic = 1;
	attr->min_rnr_timer = 12;
	attr->timeout = 14;
	memcpy(attr->ah_attr.grh.dgid, ini->gid.raw, 16);
	attr->ah_attr.grh.sgid_index = ini->gid_index;
	attr->ah_attr.grh.hop_limit = 64;
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = PORT;
}

int xrc_ini_pair(struct xrc_ini *ini, struct xrc *x, const struct xrc_qp *qp)
{
	struct ib_uverbs_qp_attr attr;
	int ret;

	xrc_ini_tgt_attr(ini, &attr);
	ret = xrc_tgt_connect(x, qp, &attr, NULL);
	return ret ? ret : xrc_ini_connect(ini, qp->qp_num);
}

static int post_wr(struct xrc_ini *ini, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret;

	wr->wr_id = ini->posted;
	ret = ibv_post_send(ini->qp, wr, &bad);
	if (!ret)
		ini->posted++;
	return -ret;
}

static int post(struct xrc_ini *ini, enum ibv_wr_opcode opcode, __u32 imm,
		struct ibv_sge *sge, int num_sge, bool signaled)
{
	struct ibv_send_wr wr = {
		.sg_list = sge,
		.num_sge = num_sge,
		.opcode = opcode,
		.send_flags = signaled ? IBV_SEND_SIGNALED : 0,
		.imm_data = htonl(imm),
	};

	return post_wr(ini, &wr);
}

int xrc_ini_send_raw(struct xrc_ini *ini, enum ibv_wr_opcode opcode, __u32 imm,
		     size_t offset, __u32 length)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(ini->buf + offset),
		.length = length,
		.lkey = ini->mr->lkey,
	};

	return post(ini, opcode, imm, &sge, length ? 1 : 0, true);
}

int xrc_ini_send(struct xrc_ini *ini, const struct xrc_send *send)
{
	__u32 wire = send->srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT;
	__u32 sent = 0, room, flags = 0;
	struct ibv_sge sge[2];
	int n, ret;

	do {
		struct xrc_wire *slot = ini->slots + ini->posted % ini->depth;

		n = 0;
		room = IB_XRC_WIRE_PART_SIZE;
		flags &= IB_XRC_WIRE_CONT;
		if (send->with_imm && !flags) {
			flags |= IB_XRC_WIRE_HDR;
			slot->hdr.imm_data = htonl(send->imm);
			slot->hdr.write_len = 0;
			sge[n].addr = (uintptr_t)slot;
			sge[n].length = sizeof(*slot);
			sge[n++].lkey = ini->mr->lkey;
			room -= sizeof(*slot);
		}
		if (send->length - sent > room)
			flags |= IB_XRC_WIRE_MORE;
		else
			room = send->length - sent;
		if (room) {
			sge[n].addr = (uintptr_t)(ini->buf + send->offset + sent);
			sge[n].length = room;
			sge[n++].lkey = ini->mr->lkey;
		}
		if (send->solicited && !(flags & IB_XRC_WIRE_MORE))
			flags |= IB_XRC_WIRE_SOLICITED;
		ret = post(ini, IBV_WR_SEND_WITH_IMM, wire | flags, sge, n,
			   !(flags & IB_XRC_WIRE_MORE));
		sent += room;
		flags |= IB_XRC_WIRE_CONT;
	} while (!ret && sent < send->length);
	return ret;
}

int xrc_ini_write_note(struct xrc_ini *ini, const struct xrc_send *send)
{
	struct xrc_wire *slot = ini->slots + ini->posted % ini->depth;
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot,
		.length = sizeof(*slot),
		.lkey = ini->mr->lkey,
	};
	__u32 flags = IB_XRC_WIRE_WRITE | IB_XRC_WIRE_HDR;

	if (send->solicited)
		flags |= IB_XRC_WIRE_SOLICITED;
	slot->hdr.imm_data = htonl(send->imm);
	slot->hdr.write_len = htonl(send->length);
	return post(ini, IBV_WR_SEND_WITH_IMM,
		    send->srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT | flags, &sge, 1,
		    true);
}

int xrc_ini_rdma(struct xrc_ini *ini, const struct xrc_rdma *rdma)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(ini->buf + rdma->offset),
		.length = rdma->length,
		.lkey = ini->mr->lkey,
	};
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = rdma->opcode,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (rdma->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    rdma->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = rdma->addr;
		wr.wr.atomic.rkey = rdma->rkey;
		wr.wr.atomic.compare_add = rdma->compare_add;
		wr.wr.atomic.swap = rdma->swap;
	} else {
		wr.wr.rdma.remote_addr = rdma->addr;
		wr.wr.rdma.rkey = rdma->rkey;
	}
	return post_wr(ini, &wr);
}

int xrc_ini_rdma_write(struct xrc_ini *ini, __u64 addr, __u32 rkey,
		       size_t offset, __u32 length)
{
	const struct xrc_rdma rdma = {
		.opcode = IBV_WR_RDMA_WRITE,
		.addr = addr,
		.rkey = rkey,
		.offset = offset,
		.length = length,
	};

	return xrc_ini_rdma(ini, &rdma);
}

int xrc_ini_poll(struct xrc_ini *ini, struct ibv_wc *wc)
{
	return ibv_poll_cq(ini->cq, 1, wc);
}

int xrc_ini_wait(struct xrc_ini *ini, struct ibv_wc *wc, int timeout_ms)
{
	struct pollfd pfd = { .fd = ini->channel->fd, .events = POLLIN };
	long long end = xrc_now() + timeout_ms;
	struct ibv_cq *cq;
	void *context;
	long long left;
	int n;

	for (;;) {
		n = ibv_poll_cq(ini->cq, 1, wc);
		if (n)
			return n < 0 ? -EIO : 0;
		if (ibv_req_notify_cq(ini->cq, 0))
			return -EIO;
		n = ibv_poll_cq(ini->cq, 1, wc);
		if (n)
			return n < 0 ? -EIO : 0;
		left = end - xrc_now();
		if (left <= 0)
			return -ETIME;
		n = poll(&pfd, 1, left);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n <= 0)
			continue;
		if (ibv_get_cq_event(ini->channel, &cq, &context))
			return -errno;
		ibv_ack_cq_events(ini->cq, 1);
	}
}

/* --------------------------------------------------------------- others -- */

static long long now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

long long xrc_now(void)
{
	return now_ns() / 1000000;
}

void xrc_spin(long long ns)
{
	long long end = now_ns() + ns;

	while (now_ns() < end)
		;
}

void *xrc_guard_page(void)
{
	size_t page = sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
		abort();
	return p + page;
}

static __u8 byte_of(size_t i, unsigned int seed)
{
	return seed + i * 7 + (i >> 8) * 13 + seed / 251;
}

void xrc_fill(void *buf, size_t len, unsigned int seed)
{
	__u8 *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		p[i] = byte_of(i, seed);
}

bool xrc_check(const void *buf, size_t len, unsigned int seed)
{
	const __u8 *p = buf;
	size_t i;

	for (i = 0; i < len; i++)
		if (p[i] != byte_of(i, seed))
			return false;
	return true;
}

int xrc_kernel_objects(void)
{
	char line[512];
	FILE *f;
	int n = 0;

	f = popen("for kind in pd cq qp mr srq; do rdma resource show $kind; done 2>/dev/null",
		  "r");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[ib_xrc]"))
			n++;
	pclose(f);
	return n;
}

int xrc_wait_kernel_objects(int n)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	int now;

	/* What a file held goes after its last close, which nobody announces. */
	for (;;) {
		now = xrc_kernel_objects();
		if (now < 0)
			return now;
		if (now <= n)
			return 0;
		if (xrc_now() > end)
			return -ETIME;
		usleep(20000);
	}
}

int xrc_wait_in_syscall(pid_t tid, long nr)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	char path[64], buf[128], want[24];
	ssize_t n;
	int fd;

	/* "running" if it does not sleep, else the number of the system call. */
	snprintf(want, sizeof(want), "%ld ", nr);
	snprintf(path, sizeof(path), "/proc/%d/syscall", tid);
	do {
		fd = open(path, O_RDONLY);
		if (fd < 0)
			return -errno;
		n = read(fd, buf, sizeof(buf) - 1);
		close(fd);
		if (n > 0) {
			buf[n] = '\0';
			if (!strncmp(buf, want, strlen(want)))
				return 0;
		}
		usleep(1000);
	} while (xrc_now() < end);
	return -ETIME;
}

int xrc_wait_blocked(pid_t tid)
{
	return xrc_wait_in_syscall(tid, SYS_read);
}
