// SPDX-License-Identifier: GPL-2.0
/*
 * Opening and closing domains: the errnos of ib_uverbs_open_xrcd() and
 * ib_uverbs_dealloc_xrcd() in drivers/infiniband/core/uverbs_cmd.c, that the inode
 * decides which domain it is, and who keeps it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kselftest_harness.h"
#include "xrc_util.h"

FIXTURE(xrcd)
{
	struct xrc x;
	struct xrc y;
	char dir[32];
	char path[64];
	char other[64];
	int fd;
	int fd2;
};

FIXTURE_SETUP(xrcd)
{
	strcpy(self->dir, "/tmp/xrcd-XXXXXX");
	ASSERT_TRUE(mkdtemp(self->dir));
	sprintf(self->path, "%s/a", self->dir);
	sprintf(self->other, "%s/b", self->dir);
	self->fd = open(self->path, O_RDWR | O_CREAT | O_EXCL, 0600);
	ASSERT_LE(0, self->fd);
	self->fd2 = open(self->other, O_RDWR | O_CREAT | O_EXCL, 0600);
	ASSERT_LE(0, self->fd2);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_open(&self->y));
}

FIXTURE_TEARDOWN(xrcd)
{
	xrc_close(&self->x);
	xrc_close(&self->y);
	close(self->fd);
	close(self->fd2);
	unlink(self->path);
	unlink(self->other);
	EXPECT_EQ(0, rmdir(self->dir));
}

typedef FIXTURE_DATA(xrcd) xrcd_t;

/* How many handles the domain of fd has; 0 if there is no domain. */
static int handles(const xrcd_t *self, int fd)
{
	struct ib_xrc_xrcd_info info;
	struct xrc probe;
	__u32 xrcd;
	int ret;

	if (xrc_open(&probe))
		return -1;
	ret = xrc_xrcd_open(&probe, fd, 0, &xrcd);
	if (!ret)
		ret = xrc_xrcd_query(&probe, xrcd, &info);
	xrc_close(&probe);
	if (ret)
		return ret == -EAGAIN ? 0 : -1;
	return info.handles - 1;
}

/* ------------------------------------------------------------------ open -- */

TEST_F(xrcd, fd_not_open)
{
	int fd = dup(self->fd);
	__u32 xrcd;

	close(fd);
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, fd, O_CREAT, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, fd, 0, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, fd, O_CREAT | O_EXCL, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, INT_MAX, O_CREAT, &xrcd));
	/* Only -1 means none. */
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, -2, O_CREAT, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, INT_MIN, O_CREAT, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, AT_FDCWD, O_CREAT, &xrcd));
}

TEST_F(xrcd, fd_is_no_int)
{
	static const __s64 wrong[] = {
		(__s64)INT_MAX + 1, (__s64)INT_MIN - 1, LLONG_MAX, LLONG_MIN,
		1LL << 32, (1LL << 32) - 1,
	};
	union xrc_cmd cmd;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wrong); i++) {
		xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD,
			    IB_XRC_METHOD_XRCD_OPEN);
		xrc_attr(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
		xrc_raw_fd(&cmd, IB_XRC_ATTR_XRCD_OPEN_FD, wrong[i]);
		xrc_in_u32(&cmd, IB_XRC_ATTR_XRCD_OPEN_OFLAGS, O_CREAT);
		EXPECT_EQ(-EINVAL, xrc_ioctl(self->x.fd, &cmd));
	}
}

TEST_F(xrcd, fd_is_a_path)
{
	int fd = open(self->path, O_PATH);
	__u32 xrcd;

	ASSERT_LE(0, fd);
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, fd, O_CREAT, &xrcd));
	/* Neither if the domain exists. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &xrcd));
	EXPECT_EQ(-EBADF, xrc_xrcd_open(&self->x, fd, O_CREAT, &xrcd));
	close(fd);
}

TEST_F(xrcd, not_there_without_creat)
{
	__u32 xrcd;

	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->fd, 0, &xrcd));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->fd, O_EXCL, &xrcd));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->fd, ~O_CREAT, &xrcd));
	EXPECT_EQ(0, handles(self, self->fd));
}

TEST_F(xrcd, oflags_not_given)
{
	union xrc_cmd cmd;

	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_attr(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
	xrc_raw_fd(&cmd, IB_XRC_ATTR_XRCD_OPEN_FD, self->fd);
	EXPECT_EQ(-EAGAIN, xrc_ioctl(self->x.fd, &cmd));
}

TEST_F(xrcd, exclusive)
{
	__u32 a, b;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT | O_EXCL, &a));
	EXPECT_EQ(1, handles(self, self->fd));
	EXPECT_EQ(-EINVAL, xrc_xrcd_open(&self->x, self->fd, O_CREAT | O_EXCL,
					 &b));
	EXPECT_EQ(-EINVAL, xrc_xrcd_open(&self->y, self->fd, O_CREAT | O_EXCL,
					 &b));
	EXPECT_EQ(-EINVAL, xrc_xrcd_open(&self->y, self->fd, O_EXCL, &b));
	EXPECT_EQ(1, handles(self, self->fd));
	/* Once it is gone it can be made again. */
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, O_CREAT | O_EXCL, &b));
}

TEST_F(xrcd, other_oflags_are_ignored)
{
	int flags = ~(O_CREAT | O_EXCL);
	__u32 a, b, c;

	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->fd, flags, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, flags | O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, flags | O_CREAT, &b));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, flags, &c));
	EXPECT_EQ(3, handles(self, self->fd));
}

TEST_F(xrcd, anonymous)
{
	struct ib_xrc_xrcd_info info;
	union xrc_cmd cmd;
	struct xrc_qp qp;
	__u32 xrcd[4];
	unsigned int i;

	/* Each one is new, whatever the flags. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &xrcd[0]));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, O_CREAT, &xrcd[1]));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, O_CREAT | O_EXCL, &xrcd[2]));
	xrc_cmd_for(&self->x, &cmd, IB_XRC_OBJECT_XRCD, IB_XRC_METHOD_XRCD_OPEN);
	xrc_attr(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE);
	EXPECT_EQ(0, xrc_ioctl(self->x.fd, &cmd));
	xrcd[3] = xrc_find(&cmd, IB_XRC_ATTR_XRCD_OPEN_HANDLE)->data;

	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd[0], &qp));
	for (i = 0; i < 4; i++) {
		memset(&info, 0xff, sizeof(info));
		EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd[i], &info));
		EXPECT_EQ(0, info.inode);
		EXPECT_EQ(0, info.dev);
		EXPECT_EQ(IB_XRC_POLICY_REFS, info.policy);
		EXPECT_EQ(1, info.handles);
		EXPECT_EQ(!i, info.tgt_qps);
		EXPECT_EQ(0, info.srqs);
		EXPECT_EQ(0, info.reserved);
	}
	/* Descriptor 0, of which one could take that it means none, does not. */
	if (fcntl(0, F_GETFD) >= 0) {
		EXPECT_EQ(0, xrc_xrcd_open(&self->x, 0, O_CREAT, &xrcd[1]));
		EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd[1], &info));
		EXPECT_NE(0, info.inode);
	}
}

TEST_F(xrcd, any_kind_of_file)
{
	int pipes[2], sock[2], fds[6], pipe_rw;
	unsigned int i, j;
	__u32 xrcd, again;
	char path[32];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	fds[0] = pipes[0];
	fds[1] = sock[0];
	fds[2] = open(self->dir, O_RDONLY | O_DIRECTORY);
	fds[3] = open("/dev/null", O_RDWR);
	fds[4] = open(self->path, O_RDONLY);
	fds[5] = dup(self->x.fd);
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		ASSERT_LE(0, fds[i]);
		EXPECT_EQ(0, xrc_xrcd_open(&self->x, fds[i], O_CREAT | O_EXCL,
					   &xrcd));
		for (j = 0; j < i; j++) {
			EXPECT_EQ(1, handles(self, fds[j]));
		}
	}
	/* The ends of a pipe have one inode, but the other one is not for reading. */
	EXPECT_EQ(-EACCES, xrc_xrcd_open(&self->y, pipes[1], 0, &again));
	sprintf(path, "/proc/self/fd/%d", pipes[1]);
	pipe_rw = open(path, O_RDWR | O_NONBLOCK);
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, pipe_rw, 0, &again));
	close(pipe_rw);
	/* Those of a socket pair have two. */
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, sock[1], 0, &again));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->y.fd, 0, &again));
	for (i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	close(pipes[1]);
	close(sock[1]);
}

/* A domain whose file is the very file of the device that holds it goes, too. */
TEST_F(xrcd, domain_of_its_own_file)
{
	__u32 xrcd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->x.fd, O_CREAT, &xrcd));
	EXPECT_EQ(1, handles(self, self->x.fd));
	xrc_close(&self->x);
	EXPECT_EQ(0, handles(self, self->y.fd));
	self->x.fd = -1;
}

/* --------------------------------------------------- which domain it is -- */

TEST_F(xrcd, same_inode)
{
	struct ib_xrc_xrcd_info info;
	char link_path[64], indirect[64], sym[64];
	__u32 xrcd, more;
	struct xrc_qp qp, via;
	int fds[6];
	unsigned int i;

	sprintf(link_path, "%s/link", self->dir);
	sprintf(indirect, "%s/../%s/a", self->dir, self->dir + 5);
	sprintf(sym, "%s/sym", self->dir);
	ASSERT_EQ(0, link(self->path, link_path));
	ASSERT_EQ(0, symlink("a", sym));

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	fds[0] = dup(self->fd);
	fds[1] = open(self->path, O_RDONLY);
	fds[2] = open(self->path, O_RDWR | O_APPEND);
	fds[3] = open(link_path, O_RDWR);
	fds[4] = open(indirect, O_RDWR);
	fds[5] = open(sym, O_RDWR);
	for (i = 0; i < ARRAY_SIZE(fds); i++) {
		ASSERT_LE(0, fds[i]);
		EXPECT_EQ(0, xrc_xrcd_open(&self->y, fds[i], 0, &more));
		EXPECT_EQ(0, xrc_xrcd_query(&self->y, more, &info));
		EXPECT_EQ(i + 2, info.handles);
		EXPECT_EQ(0, xrc_tgt_open(&self->y, more, qp.qp_num, &via));
		close(fds[i]);
	}
	unlink(link_path);
	unlink(sym);
}

TEST_F(xrcd, same_inode_by_another_mount)
{
	char mnt[64], file[80];
	__u32 a, b;
	int fd;

	sprintf(mnt, "%s-mnt", self->dir);
	ASSERT_EQ(0, mkdir(mnt, 0700));
	if (mount(self->dir, mnt, NULL, MS_BIND, NULL)) {
		rmdir(mnt);
		SKIP(return, "cannot bind mount");
	}
	sprintf(file, "%s/a", mnt);
	fd = open(file, O_RDWR);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, fd, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, b));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, a));
	close(fd);
	EXPECT_EQ(0, umount(mnt));
	rmdir(mnt);
}

/* A domain keeps its inode, and with it the file system. */
TEST_F(xrcd, umount)
{
	char mnt[64], file[80];
	__u32 xrcd, again;
	int fd;

	sprintf(mnt, "%s-mnt", self->dir);
	ASSERT_EQ(0, mkdir(mnt, 0700));
	if (mount("none", mnt, "tmpfs", 0, NULL)) {
		rmdir(mnt);
		SKIP(return, "cannot mount");
	}
	sprintf(file, "%s/a", mnt);
	fd = open(file, O_RDWR | O_CREAT, 0600);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, fd, O_CREAT, &xrcd));
	close(fd);
	EXPECT_EQ(-1, umount(mnt));
	EXPECT_EQ(EBUSY, errno);
	fd = open(file, O_RDWR);
	EXPECT_LE(0, fd);
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, fd, 0, &again));
	close(fd);
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(-1, umount(mnt));
	EXPECT_EQ(EBUSY, errno);
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, again));
	EXPECT_EQ(0, umount(mnt));
	rmdir(mnt);
}

TEST_F(xrcd, different_files)
{
	struct xrc_qp qp, via;
	__u32 a, b;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->x, self->fd2, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd2, O_CREAT | O_EXCL, &b));
	EXPECT_EQ(1, handles(self, self->fd));
	EXPECT_EQ(1, handles(self, self->fd2));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, a, &qp));
	EXPECT_EQ(-EINVAL, xrc_tgt_open(&self->x, b, qp.qp_num, &via));
}

TEST_F(xrcd, unlinked_file)
{
	__u32 a, b;
	int fd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, unlink(self->path));
	/* Who has it open finds the domain. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, b));
	/* The name is another file's now. */
	fd = open(self->path, O_RDWR | O_CREAT | O_EXCL, 0600);
	EXPECT_LE(0, fd);
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, fd, 0, &b));
	close(fd);
}

/* The domain keeps the inode, so that no other file can become it. */
TEST_F(xrcd, inode_is_not_reused)
{
	__u32 a, b;
	int i, fd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	close(self->fd);
	EXPECT_EQ(0, unlink(self->path));
	for (i = 0; i < 200; i++) {
		fd = open(self->path, O_RDWR | O_CREAT | O_EXCL, 0600);
		ASSERT_LE(0, fd);
		ASSERT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, fd, 0, &b));
		close(fd);
		unlink(self->path);
	}
	self->fd = open(self->path, O_RDWR | O_CREAT, 0600);
}

TEST_F(xrcd, identity)
{
	struct ib_xrc_xrcd_info info;
	unsigned int maj, min;
	struct stat st;
	__u32 xrcd;

	ASSERT_EQ(0, fstat(self->fd, &st));
	maj = major(st.st_dev);
	min = minor(st.st_dev);
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &xrcd));
	memset(&info, 0xff, sizeof(info));
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, xrcd, &info));
	EXPECT_EQ(st.st_ino, info.inode);
	EXPECT_EQ((min & 0xff) | maj << 8 | (min & ~0xff) << 12, info.dev);
	EXPECT_EQ(IB_XRC_POLICY_REFS, info.policy);
	EXPECT_EQ(0, info.reserved);
}

TEST_F(xrcd, fd_may_be_closed)
{
	struct ib_xrc_xrcd_info info;
	__u32 a, b;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	close(self->fd);
	EXPECT_EQ(0, xrc_xrcd_query(&self->x, a, &info));
	self->fd = open(self->path, O_RDWR);
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
	EXPECT_EQ(2, info.handles);
}

/* ----------------------------------------------------------------- close -- */

TEST_F(xrcd, gone_after_last_close)
{
	__u32 a, b, c;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &c));
	EXPECT_NE(a, b);
	EXPECT_EQ(3, handles(self, self->fd));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(2, handles(self, self->fd));
	/* A file may go without closing its handles. */
	xrc_close(&self->x);
	EXPECT_EQ(1, handles(self, self->fd));
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, c));
	EXPECT_EQ(0, handles(self, self->fd));
	EXPECT_EQ(-EAGAIN, xrc_xrcd_open(&self->y, self->fd, 0, &c));
}

TEST_F(xrcd, busy_with_tgt_qp)
{
	struct xrc_qp qp;
	__u32 xrcd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &xrcd));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, xrcd, &qp));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(1, handles(self, self->fd));
	EXPECT_EQ(IBV_QPS_RESET, xrc_tgt_state(&self->x, &qp));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(0, handles(self, self->fd));
}

TEST_F(xrcd, busy_with_opened_tgt_qp)
{
	struct xrc_qp qp, opened;
	__u32 a, b;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, a, &qp));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_tgt_open(&self->y, b, qp.qp_num, &opened));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->y, b));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, a));
	/* The creator may go, the other registration is what counts. */
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->y, b));
	EXPECT_EQ(0, xrc_tgt_close(&self->y, &opened));
	EXPECT_EQ(0, xrc_xrcd_close(&self->y, b));
}

TEST_F(xrcd, busy_with_srq)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	__u32 xrcd;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &xrcd));
	EXPECT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	EXPECT_EQ(0, xrc_srq_create(&self->x, xrcd, &cq, 1, 1, 0, &srq));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(1, handles(self, self->fd));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	/* A CQ is not of the domain. */
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, xrcd));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

/* What another handle has is no reason, be it of this file or of another. */
TEST_F(xrcd, busy_is_per_handle)
{
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	__u32 a, b, c;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &c));
	EXPECT_EQ(0, xrc_tgt_create(&self->x, a, &qp));
	EXPECT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	EXPECT_EQ(0, xrc_srq_create(&self->x, b, &cq, 1, 1, 0, &srq));

	EXPECT_EQ(0, xrc_xrcd_close(&self->y, c));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, b));
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, b));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
	EXPECT_EQ(0, xrc_xrcd_close(&self->x, a));
	EXPECT_EQ(0, xrc_cq_destroy(&self->x, &cq));
}

TEST_F(xrcd, query_counts)
{
	struct ib_xrc_xrcd_info info;
	struct xrc_srq srq[3];
	struct xrc_qp qp[3], opened;
	struct xrc_cq cq;
	__u32 a, b;
	int i;

	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->y, self->fd, 0, &b));
	EXPECT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	for (i = 0; i < 3; i++) {
		EXPECT_EQ(0, xrc_tgt_create(&self->x, a, &qp[i]));
		EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
		EXPECT_EQ(i + 1, info.tgt_qps);
		EXPECT_EQ(0, xrc_srq_create(&self->x, a, &cq, 1, 1, 0, &srq[i]));
		EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
		EXPECT_EQ(i + 1, info.srqs);
		EXPECT_EQ(2, info.handles);
	}
	/* Another registration is not another QP. */
	EXPECT_EQ(0, xrc_tgt_open(&self->y, b, qp[0].qp_num, &opened));
	EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
	EXPECT_EQ(3, info.tgt_qps);
	EXPECT_EQ(0, xrc_srq_destroy(&self->x, &srq[1]));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[0]));
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp[2]));
	EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
	EXPECT_EQ(2, info.tgt_qps);
	EXPECT_EQ(2, info.srqs);
	/* The rest goes with the file, which mappings of its rings keep. */
	munmap(cq.ring, cq.info.mmap_length);
	munmap(srq[0].ring, srq[0].info.mmap_length);
	munmap(srq[2].ring, srq[2].info.mmap_length);
	xrc_close(&self->x);
	EXPECT_EQ(0, xrc_xrcd_query(&self->y, b, &info));
	EXPECT_EQ(1, info.handles);
	EXPECT_EQ(1, info.tgt_qps);
	EXPECT_EQ(0, info.srqs);
}

TEST_F(xrcd, srq_numbers)
{
	struct xrc_srq srq[8];
	struct xrc_cq cq;
	__u32 a, b;
	int i, j;

	/* No two SRQs have the same, not even of two domains. */
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, self->fd, O_CREAT, &a));
	EXPECT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &b));
	EXPECT_EQ(0, xrc_cq_create(&self->x, 1, 0, XRC_NO_FD, &cq));
	for (i = 0; i < 8; i++) {
		EXPECT_EQ(0, xrc_srq_create(&self->x, i % 2 ? a : b, &cq, 1, 1,
					    0, &srq[i]));
		EXPECT_GE(IB_XRC_WIRE_SRQ_NUM_MAX, srq[i].srq_num);
		for (j = 0; j < i; j++) {
			EXPECT_NE(srq[j].srq_num, srq[i].srq_num);
		}
	}
}

/* ----------------------------------------------------------------- races -- */

struct opener {
	pthread_barrier_t *barrier;
	struct xrc x;
	int fd, oflags, ret;
	__u32 xrcd;
};

static void *open_thread(void *arg)
{
	struct opener *o = arg;

	pthread_barrier_wait(o->barrier);
	o->ret = xrc_xrcd_open(&o->x, o->fd, o->oflags, &o->xrcd);
	return NULL;
}

static void race(struct __test_metadata *_metadata, xrcd_t *self, int oflags,
		 int done_expected)
{
	struct ib_xrc_xrcd_info info;
	struct opener o[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	int round, i, done;

	pthread_barrier_init(&barrier, NULL, 4);
	for (i = 0; i < 4; i++) {
		o[i].barrier = &barrier;
		o[i].fd = self->fd;
		o[i].oflags = oflags;
		ASSERT_EQ(0, xrc_open(&o[i].x));
	}
	for (round = 0; round < 100; round++) {
		for (i = 0; i < 4; i++) {
			ASSERT_EQ(0, pthread_create(&thread[i], NULL,
						    open_thread, &o[i]));
		}
		for (i = done = 0; i < 4; i++) {
			pthread_join(thread[i], NULL);
			done += !o[i].ret;
			EXPECT_TRUE(!o[i].ret || o[i].ret == -EINVAL);
		}
		EXPECT_EQ(done_expected, done);
		for (i = 0; i < 4; i++) {
			if (o[i].ret)
				continue;
			EXPECT_EQ(0, xrc_xrcd_query(&o[i].x, o[i].xrcd, &info));
			EXPECT_EQ(done--, info.handles);
			EXPECT_EQ(0, xrc_xrcd_close(&o[i].x, o[i].xrcd));
		}
	}
	for (i = 0; i < 4; i++)
		xrc_close(&o[i].x);
	pthread_barrier_destroy(&barrier);
}

TEST_F(xrcd, race_of_creators)
{
	race(_metadata, self, O_CREAT, 4);
}

TEST_F(xrcd, race_of_exclusive_creators)
{
	race(_metadata, self, O_CREAT | O_EXCL, 1);
}

static void *open_close_thread(void *arg)
{
	struct opener *o = arg;
	int i;

	pthread_barrier_wait(o->barrier);
	for (i = o->ret = 0; i < 300 && !o->ret; i++) {
		o->ret = xrc_xrcd_open(&o->x, o->fd, O_CREAT, &o->xrcd);
		if (!o->ret)
			o->ret = xrc_xrcd_close(&o->x, o->xrcd);
	}
	return NULL;
}

/* The last close of one against the open of another. */
TEST_F(xrcd, race_of_open_and_close)
{
	struct opener o[4];
	pthread_t thread[4];
	pthread_barrier_t barrier;
	int i;

	pthread_barrier_init(&barrier, NULL, 4);
	for (i = 0; i < 4; i++) {
		o[i].barrier = &barrier;
		o[i].fd = self->fd;
		ASSERT_EQ(0, xrc_open(&o[i].x));
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, open_close_thread,
					    &o[i]));
	}
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_EQ(0, o[i].ret);
		xrc_close(&o[i].x);
	}
	EXPECT_EQ(0, handles(self, self->fd));
	pthread_barrier_destroy(&barrier);
}

TEST_HARNESS_MAIN
