// SPDX-License-Identifier: GPL-2.0
/*
 * Who is there: the lists of the SRQs of a domain and of the holders of a TGT QP.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define SIZE 64
#define N 5

FIXTURE(lists)
{
	int objects;
	int file;
	struct xrc x;
	struct xrc y;
	__u32 xrcd;
	__u32 y_xrcd;
	struct xrc_cq cq;
	struct xrc_srq srq[N];
	unsigned int srqs;
};

FIXTURE_SETUP(lists)
{
	static const struct ib_xrc_policy policy = {
		.type = IB_XRC_POLICY_DOMAIN,
	};
	const struct xrc_xrcd_opts opts = { .policy = &policy };

	self->objects = xrc_kernel_objects();
	self->file = memfd_create("lists", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, self->file, O_CREAT, &opts,
					&self->xrcd));
	ASSERT_EQ(0, xrc_xrcd_open(&self->y, self->file, 0, &self->y_xrcd));
	ASSERT_EQ(0, xrc_cq_create(&self->x, 64, 0, XRC_NO_FD, &self->cq));
}

FIXTURE_TEARDOWN(lists)
{
	unsigned int i;

	for (i = 0; i < self->srqs; i++)
		if (self->srq[i].ring) {
			EXPECT_EQ(0, xrc_srq_destroy(&self->x, &self->srq[i]));
		}
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &self->cq));
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->file);
	EXPECT_EQ(0, xrc_wait_kernel_objects(self->objects));
}

typedef FIXTURE_DATA(lists) lists_t;

static int make_srqs(lists_t *self, unsigned int n)
{
	int ret = 0;

	for (; self->srqs < n && !ret; self->srqs++)
		ret = xrc_srq_create(&self->x, self->xrcd, &self->cq, 8, 1, 0,
				     &self->srq[self->srqs]);
	return ret;
}

/* Run it in a process of its own; what it returns, or -1 if it died. */
static int in_child(int (*run)(lists_t *self, int arg), lists_t *self, int arg)
{
	int *ret, status, result = -1;
	pid_t pid;

	ret = mmap(NULL, sizeof(*ret), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret == MAP_FAILED)
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		*ret = run(self, arg);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && !status)
		result = *ret;
	munmap(ret, sizeof(*ret));
	return result;
}

/* ------------------------------------------------------------------------ SRQs -- */

TEST_F_TIMEOUT(lists, srqs, TIMEOUT)
{
	struct ib_xrc_srq_info list[8];
	__u32 count, other, i, j;
	struct xrc_srq elsewhere;

	EXPECT_EQ(0, xrc_list_srqs(&self->y, self->y_xrcd, 0, list, 8, &count));
	EXPECT_EQ(0, count);
	ASSERT_EQ(0, make_srqs(self, N));
	/* One of another domain is not among them. */
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, XRC_NO_FD, 0, &other));
	ASSERT_EQ(0, xrc_srq_create(&self->x, other, &self->cq, 8, 1, 0,
				    &elsewhere));
	memset(list, 0xff, sizeof(list));
	EXPECT_EQ(0, xrc_list_srqs(&self->y, self->y_xrcd, 0, list, 8, &count));
	ASSERT_EQ(N, count);
	for (i = 0; i < N; i++) {
		if (i) {
			EXPECT_LT(list[i - 1].srq_num, list[i].srq_num);
		}
		for (j = 0; j < N && self->srq[j].srq_num != list[i].srq_num; j++)
			;
		EXPECT_GT(N, j);
		EXPECT_EQ(0, list[i].flags);
		EXPECT_EQ(getpid(), list[i].pid);
		EXPECT_EQ(0, list[i].waiting_msgs);
		EXPECT_EQ(0, list[i].recv_msgs);
	}
	EXPECT_EQ(0, xrc_list_srqs(&self->x, other, 0, list, 8, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(elsewhere.srq_num, list[0].srq_num);
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &elsewhere));
	EXPECT_EQ(0, xrc_list_srqs(&self->x, other, 0, list, 8, &count));
	EXPECT_EQ(0, count);
}

/* As many as fit, and in pieces, each going on where the one before ended. */
TEST_F_TIMEOUT(lists, srqs_in_pieces, TIMEOUT)
{
	struct ib_xrc_srq_info list[8], part[8];
	__u32 count, after, room, n, i;
	struct ib_uverbs_attr *attr;
	union xrc_cmd cmd;

	ASSERT_EQ(0, make_srqs(self, N));
	ASSERT_EQ(0, xrc_list_srqs(&self->x, self->xrcd, 0, list, 8, &count));
	ASSERT_EQ(N, count);
	for (room = 1; room <= N + 1; room++) {
		for (n = after = 0; n <= N; n += room) {
			EXPECT_EQ(0, xrc_list_srqs(&self->y, self->y_xrcd, after,
						   part, room, &count));
			EXPECT_EQ(N - n, count);
			if (!count)
				break;
			i = count < room ? count : room;
			EXPECT_EQ(0, memcmp(part, list + n, i * sizeof(part[0])));
			after = part[i - 1].srq_num;
		}
	}
	/* Nothing is written beyond what is whole. */
	memset(part, 0xa5, sizeof(part));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD,
		    IB_XRC_METHOD_XRCD_LIST_SRQS);
	xrc_handle(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_HANDLE, self->xrcd);
	attr = xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_SRQS, part,
		       3 * sizeof(part[0]) - 1);
	xrc_out(&cmd, IB_XRC_ATTR_XRCD_LIST_SRQS_RESP_COUNT, &count,
		sizeof(count));
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(N, count);
	EXPECT_EQ(0, memcmp(part, list, 2 * sizeof(part[0])));
	EXPECT_NE(0, memcmp(&part[2], &list[2], sizeof(part[0])));
	EXPECT_EQ(0xa5, ((__u8 *)part)[attr->len]);
	/* A number that is nobody's, and the greatest there is. */
	EXPECT_EQ(0, xrc_list_srqs(&self->x, self->xrcd, list[N - 1].srq_num + 1,
				   NULL, 0, &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(0, xrc_list_srqs(&self->x, self->xrcd, 0xffffffff, NULL, 0,
				   &count));
	EXPECT_EQ(0, count);
}

static int info_of(lists_t *self, __u32 srq_num, struct ib_xrc_srq_info *info)
{
	__u32 count;
	int ret = xrc_list_srqs(&self->y, self->y_xrcd, srq_num - 1, info, 1,
				&count);

	return ret ? ret : count && info->srq_num == srq_num ? 0 : -ENOENT;
}

/* Nothing announces what waits, so look again and again. */
static int wait_msgs(lists_t *self, __u32 srq_num, __u32 waiting, __u64 received)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	struct ib_xrc_srq_info info;
	int ret;

	do {
		ret = info_of(self, srq_num, &info);
		if (ret)
			return ret;
		if (info.waiting_msgs == waiting && info.recv_msgs == received)
			return 0;
		usleep(1000);
	} while (xrc_now() < end);
	return -ETIME;
}

TEST_F_TIMEOUT(lists, messages_of_srq, TIMEOUT)
{
	struct ib_uverbs_sge sge[2] = {};
	struct xrc_send send = { .length = SIZE };
	struct ib_xrc_srq_info info;
	struct ib_xrc_cqe cqe;
	struct xrc_ini ini;
	struct xrc_qp qp;
	__u8 buf[4][SIZE];
	long long end;
	__u32 i;

	ASSERT_EQ(0, make_srqs(self, 2));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&ini, 8, SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &qp));
	send.srq_num = self->srq[0].srq_num;
	for (i = 1; i <= 3; i++) {
		ASSERT_EQ(0, xrc_ini_send(&ini, &send));
		EXPECT_EQ(0, wait_msgs(self, send.srq_num, i, 0));
	}
	EXPECT_EQ(0, info_of(self, send.srq_num, &info));
	EXPECT_EQ(IB_XRC_SRQ_RING_NEED_KICK, info.flags);
	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->srq[0], i, buf[i],
					  SIZE));
		if (i == 3) {
			ASSERT_EQ(0, xrc_ini_send(&ini, &send));
		}
		ASSERT_EQ(0, xrc_cq_wait(&self->cq, &cqe, XRC_TIMEOUT_MS));
		EXPECT_EQ(0, wait_msgs(self, send.srq_num, i < 2 ? 2 - i : 0,
				       i + 1));
	}
	/* The other one has had no part in it. */
	EXPECT_EQ(0, info_of(self, self->srq[1].srq_num, &info));
	EXPECT_EQ(0, info.recv_msgs);
	EXPECT_EQ(0, info.flags);

	/* More entries than it has: it takes no more. */
	xrc_srq_write(&self->srq[1], 0, sge, 2);
	send.srq_num = self->srq[1].srq_num;
	ASSERT_EQ(0, xrc_ini_send(&ini, &send));
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &qp, IBV_QPS_ERR));
	/* The TGT QP comes first. */
	end = xrc_now() + XRC_TIMEOUT_MS;
	do {
		EXPECT_EQ(0, info_of(self, self->srq[1].srq_num, &info));
	} while (!info.flags && xrc_now() < end);
	EXPECT_EQ(IB_XRC_SRQ_RING_ERROR, info.flags);
	EXPECT_EQ(0, info.recv_msgs);
	xrc_ini_close(&ini);
}

/* What waited is not of this SRQ any more, and no SRQ is there. */
TEST_F_TIMEOUT(lists, srq_destroyed_with_messages, TIMEOUT)
{
	struct xrc_send send = { .length = SIZE };
	struct xrc_ini ini;
	struct xrc_qp qp;
	__u32 count;

	ASSERT_EQ(0, make_srqs(self, 1));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&ini, 8, SIZE));
	ASSERT_EQ(0, xrc_ini_pair(&ini, &self->x, &qp));
	send.srq_num = self->srq[0].srq_num;
	ASSERT_EQ(0, xrc_ini_send(&ini, &send));
	EXPECT_EQ(0, wait_msgs(self, send.srq_num, 1, 0));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &self->srq[0]));
	EXPECT_EQ(0, xrc_list_srqs(&self->y, self->y_xrcd, 0, NULL, 0, &count));
	EXPECT_EQ(0, count);
	xrc_ini_close(&ini);
}

/* --------------------------------------------------------------------- holders -- */

static struct xrc_qp by_num(lists_t *self, __u32 qp_num)
{
	return (struct xrc_qp) {
		.by_num = true, .handle = self->y_xrcd, .qp_num = qp_num,
	};
}

TEST_F_TIMEOUT(lists, holders, TIMEOUT)
{
	struct ib_xrc_holder_info list[4];
	struct xrc_qp qp, again, other, num;
	__u32 count;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	num = by_num(self, qp.qp_num);
	memset(list, 0xff, sizeof(list));
	EXPECT_EQ(0, xrc_list_holders(&self->y, &num, 0, list, 4, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(1, list[0].id);
	EXPECT_EQ(getpid(), list[0].pid);
	EXPECT_EQ(0, list[0].reserved);

	ASSERT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, qp.qp_num, &other));
	ASSERT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, qp.qp_num, &again));
	EXPECT_EQ(0, xrc_list_holders(&self->x, &qp, 0, list, 4, &count));
	EXPECT_EQ(3, count);
	EXPECT_EQ(1, list[0].id);
	EXPECT_EQ(2, list[1].id);
	EXPECT_EQ(3, list[2].id);
	EXPECT_EQ(getpid(), list[2].pid);

	/* From the middle; an id is not used again. */
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &other));
	ASSERT_EQ(0, xrc_tgt_open(&self->y, self->y_xrcd, qp.qp_num, &other));
	EXPECT_EQ(0, xrc_list_holders(&self->y, &other, 0, list, 4, &count));
	EXPECT_EQ(3, count);
	EXPECT_EQ(1, list[0].id);
	EXPECT_EQ(3, list[1].id);
	EXPECT_EQ(4, list[2].id);

	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &again));
	xrc_close(&self->y);
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, qp.qp_num, 0));
	num.handle = self->xrcd;
	EXPECT_EQ(0, xrc_list_holders(&self->x, &num, 0, list, 4, &count));
	EXPECT_EQ(0, count);
	/* A TGT QP without holders is not a new one. */
	ASSERT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, qp.qp_num, &again));
	EXPECT_EQ(0, xrc_list_holders(&self->x, &again, 0, list, 4, &count));
	EXPECT_EQ(1, count);
	EXPECT_EQ(5, list[0].id);
}

TEST_F_TIMEOUT(lists, holders_in_pieces, TIMEOUT)
{
	struct ib_xrc_holder_info list[8], part[8];
	struct xrc_qp qp, more[N - 1], num;
	__u32 count, room, n, i;
	union xrc_cmd cmd;
	__u64 after;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	num = by_num(self, qp.qp_num);
	for (i = 0; i < N - 1; i++) {
		ASSERT_EQ(0, xrc_tgt_open(&self->x, self->xrcd, qp.qp_num,
					  &more[i]));
	}
	ASSERT_EQ(0, xrc_list_holders(&self->x, &qp, 0, list, 8, &count));
	ASSERT_EQ(N, count);
	for (room = 1; room <= N + 1; room++) {
		for (n = after = 0; n <= N; n += room) {
			EXPECT_EQ(0, xrc_list_holders(&self->y, &num, after, part,
						      room, &count));
			EXPECT_EQ(N - n, count);
			if (!count)
				break;
			i = count < room ? count : room;
			EXPECT_EQ(0, memcmp(part, list + n, i * sizeof(part[0])));
			after = part[i - 1].id;
		}
	}
	/* An id has 64 bits. */
	EXPECT_EQ(0, xrc_list_holders(&self->x, &qp, 1ULL << 32, NULL, 0,
				      &count));
	EXPECT_EQ(0, count);
	EXPECT_EQ(0, xrc_list_holders(&self->x, &qp, ~0ULL, NULL, 0, &count));
	EXPECT_EQ(0, count);
	/* Nothing is written beyond what is whole. */
	memset(part, 0xa5, sizeof(part));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
		    IB_XRC_METHOD_TGT_QP_LIST_HOLDERS);
	xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE, qp.handle);
	i = 3 * sizeof(part[0]) - 1;
	xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_HOLDERS, part, i);
	xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, &count,
		sizeof(count));
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	EXPECT_EQ(N, count);
	EXPECT_EQ(0, memcmp(part, list, 2 * sizeof(part[0])));
	EXPECT_NE(0, memcmp(&part[2], &list[2], sizeof(part[0])));
	EXPECT_EQ(0xa5, ((__u8 *)part)[i]);
}

/* Of which TGT QP: by handle, or by domain and number. */
TEST_F_TIMEOUT(lists, holders_of_nothing, TIMEOUT)
{
	struct xrc_qp qp, num;
	union xrc_cmd cmd;
	unsigned int how;
	__u32 count;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	for (how = 0; how < 8; how++) {
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_TGT_QP,
			    IB_XRC_METHOD_TGT_QP_LIST_HOLDERS);
		if (how & 1)
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_HANDLE,
				   qp.handle);
		if (how & 2)
			xrc_handle(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_XRCD,
				   self->xrcd);
		if (how & 4)
			xrc_in_u32(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_QP_NUM,
				   qp.qp_num);
		xrc_out(&cmd, IB_XRC_ATTR_TGT_QP_LIST_HOLDERS_RESP_COUNT, &count,
			sizeof(count));
		EXPECT_EQ(how == 1 || how == 6 ? 0 : -EINVAL,
			  xrc_ioctl(self->x.fd, &cmd))
			TH_LOG("attributes %#x", how);
	}
	num = by_num(self, qp.qp_num + 1);
	EXPECT_EQ(-EINVAL, xrc_list_holders(&self->y, &num, 0, NULL, 0, &count));
	num = by_num(self, qp.qp_num | 1 << 24);
	EXPECT_EQ(-EINVAL, xrc_list_holders(&self->y, &num, 0, NULL, 0, &count));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(-ENOENT, xrc_list_holders(&self->x, &qp, 0, NULL, 0, &count));
}

/* ------------------------------------------------------------------- processes -- */

/* A process that registers and has an SRQ, until its input ends. */
static void member(lists_t *self, __u32 qp_num, int ready, int quit)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;
	char c;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(self->x.fd);
	close(self->y.fd);
	if (xrc_open(&x) || xrc_xrcd_open(&x, self->file, 0, &xrcd) ||
	    xrc_tgt_open(&x, xrcd, qp_num, &qp) ||
	    xrc_cq_create(&x, 4, 0, XRC_NO_FD, &cq) ||
	    xrc_srq_create(&x, xrcd, &cq, 4, 1, 0, &srq) ||
	    write(ready, "", 1) != 1)
		_exit(1);
	if (read(quit, &c, 1) < 0)
		_exit(1);
	_exit(0);
}

TEST_F_TIMEOUT(lists, processes, TIMEOUT)
{
	enum { CROWD = 12 };
	struct ib_xrc_holder_info holders[CROWD + 2];
	struct ib_xrc_srq_info srqs[CROWD + 2];
	int ready[2], quit[2], i, j, status;
	struct xrc_qp qp, num;
	pid_t pid[CROWD];
	__u32 count;
	char c;

	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	num = by_num(self, qp.qp_num);
	ASSERT_EQ(0, pipe(ready));
	ASSERT_EQ(0, pipe(quit));
	for (i = 0; i < CROWD; i++) {
		pid[i] = fork();
		ASSERT_LE(0, pid[i]);
		if (!pid[i]) {
			close(quit[1]);
			member(self, qp.qp_num, ready[1], quit[0]);
		}
		/* One after the other, so that the order is known. */
		ASSERT_EQ(1, read(ready[0], &c, 1));
	}
	EXPECT_EQ(0, xrc_list_holders(&self->y, &num, 0, holders, CROWD + 2,
				      &count));
	EXPECT_EQ(CROWD + 1, count);
	EXPECT_EQ(getpid(), holders[0].pid);
	EXPECT_EQ(0, xrc_list_srqs(&self->y, self->y_xrcd, 0, srqs, CROWD + 2,
				   &count));
	EXPECT_EQ(CROWD, count);
	for (i = 0; i < CROWD; i++) {
		EXPECT_EQ(pid[i], holders[i + 1].pid);
		for (j = 0; j < CROWD && (pid_t)srqs[j].pid != pid[i]; j++)
			;
		EXPECT_GT(CROWD, j);
	}
	/* Who is killed is not in the list, and in the order there is no gap. */
	for (i = 0; i < CROWD; i += 2)
		kill(pid[i], SIGKILL);
	for (i = 0; i < CROWD; i += 2)
		waitpid(pid[i], NULL, 0);
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, qp.qp_num,
				       CROWD / 2 + 1));
	EXPECT_EQ(0, xrc_list_holders(&self->y, &num, 0, holders, CROWD + 2,
				      &count));
	EXPECT_EQ(CROWD / 2 + 1, count);
	for (i = 1; i < CROWD; i += 2) {
		EXPECT_EQ(pid[i], holders[i / 2 + 1].pid);
	}
	close(quit[0]);
	close(quit[1]);
	for (i = 1; i < CROWD; i += 2) {
		EXPECT_EQ(pid[i], waitpid(pid[i], &status, 0));
		EXPECT_EQ(0, status);
	}
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, qp.qp_num, 1));
	close(ready[0]);
	close(ready[1]);
}

/* The first process of a pid namespace does not know who is outside. */
static int look_from_inside(lists_t *self, int qp_num)
{
	struct ib_xrc_holder_info holders[3];
	struct ib_xrc_srq_info srqs[3];
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	__u32 count, i;
	int mine = 0;

	if (getpid() != 1)
		return 1;
	/* By the file that it has inherited: it is who registers that counts. */
	if (xrc_tgt_open(&self->x, self->xrcd, qp_num, &qp) ||
	    xrc_cq_create(&self->x, 4, 0, XRC_NO_FD, &cq) ||
	    xrc_srq_create(&self->x, self->xrcd, &cq, 4, 1, 0, &srq))
		return 2;
	if (xrc_list_holders(&self->x, &qp, 0, holders, 3, &count) || count != 2)
		return 3;
	if (holders[0].pid || holders[1].pid != 1)
		return 4;
	if (xrc_list_srqs(&self->x, self->xrcd, 0, srqs, 3, &count) || count != 2)
		return 5;
	for (i = 0; i < 2; i++) {
		if (srqs[i].srq_num == srq.srq_num)
			mine += srqs[i].pid == 1;
		else if (srqs[i].pid)
			return 6;
	}
	if (mine != 1)
		return 7;
	if (xrc_tgt_close(&self->x, &qp) || xrc_srq_destroy(&self->x, &srq) ||
	    xrc_cq_destroy(&self->x, &cq))
		return 8;
	return 0;
}

static int go_inside(lists_t *self, int qp_num)
{
	if (unshare(CLONE_NEWPID))
		return 100 + errno;
	return in_child(look_from_inside, self, qp_num);
}

TEST_F_TIMEOUT(lists, pid_namespace, TIMEOUT)
{
	struct xrc_qp qp;

	ASSERT_EQ(0, make_srqs(self, 1));
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	EXPECT_EQ(0, in_child(go_inside, self, qp.qp_num));
	EXPECT_EQ(0, xrc_tgt_wait_refs(&self->x, self->xrcd, qp.qp_num, 1));
}

TEST_HARNESS_MAIN
