// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "memory_util.h"

int memory_uffd(void *addr, size_t length, __u64 mode)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = {
		.range = { .start = (unsigned long)addr, .len = length },
		.mode = mode,
	};
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	int ret;

	if (fd < 0)
		return -errno;
	if (!ioctl(fd, UFFDIO_API, &api) && !ioctl(fd, UFFDIO_REGISTER, &reg))
		return fd;
	ret = -errno;
	close(fd);
	return ret;
}

int memory_uffd_forget(int uffd, void *addr, size_t length)
{
	struct uffdio_range range = {
		.start = (unsigned long)addr, .len = length,
	};

	return ioctl(uffd, UFFDIO_UNREGISTER, &range) ? -errno : 0;
}

/* -------------------------------------------------------------- FUSE -- */

/* The file is all that is there, so the root of the file system is the file. */
static const struct fuse_attr attr = {
	.ino = FUSE_ROOT_ID,
	.size = MEMORY_FUSE_SIZE,
	.blocks = MEMORY_FUSE_SIZE / 512,
	.mode = S_IFREG | 0600,
	.nlink = 1,
	.blksize = 4096,
};

union answer {
	struct fuse_init_out init;
	struct fuse_attr_out attr;
	struct fuse_open_out open;
};

/* Length of the answer, or a negative errno. */
static int answer_to(struct memory_fuse *fuse, const struct fuse_in_header *in,
		     union answer *answer)
{
	memset(answer, 0, sizeof(*answer));
	switch (in->opcode) {
	case FUSE_INIT:
		answer->init.major = FUSE_KERNEL_VERSION;
		answer->init.minor = FUSE_KERNEL_MINOR_VERSION;
		answer->init.max_readahead = 4096;
		/* Until it is written back, what is written is in the page cache only. */
		answer->init.flags = FUSE_WRITEBACK_CACHE;
		answer->init.max_write = 4096;
		answer->init.max_background = 16;
		answer->init.congestion_threshold = 12;
		return sizeof(answer->init);
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		answer->attr.attr_valid = 1000;
		answer->attr.attr = attr;
		return sizeof(answer->attr);
	case FUSE_OPEN:
		/* Opened so, a mapping does not use what others have in the cache. */
		if (fuse->opened++)
			answer->open.open_flags = FOPEN_DIRECT_IO;
		return sizeof(answer->open);
	case FUSE_FLUSH:
	case FUSE_RELEASE:
	case FUSE_FSYNC:
		return 0;
	default:
		return -EOPNOTSUPP;
	}
}

static void *serve(void *arg)
{
	static char request[64 * 1024 + FUSE_MIN_READ_BUFFER];
	struct memory_fuse *fuse = arg;
	const struct fuse_in_header *in = (void *)request;
	struct pollfd pfd[2] = {
		{ .fd = fuse->dev, .events = POLLIN },
		{ .fd = fuse->stop[0], .events = POLLIN },
	};

	while (poll(pfd, 2, -1) > 0 && !pfd[1].revents) {
		struct {
			struct fuse_out_header header;
			union answer answer;
		} out = {};
		int length;

		if (read(fuse->dev, request, sizeof(request)) < (ssize_t)sizeof(*in))
			break;
		if (in->opcode == FUSE_FORGET || in->opcode == FUSE_BATCH_FORGET ||
		    in->opcode == FUSE_INTERRUPT)
			continue;
		if (in->opcode == FUSE_READ || in->opcode == FUSE_WRITE) {
			fuse->waited_for = true;
			continue;
		}
		length = answer_to(fuse, in, &out.answer);
		out.header.unique = in->unique;
		out.header.error = length < 0 ? length : 0;
		out.header.len = sizeof(out.header) + (length > 0 ? length : 0);
		if (write(fuse->dev, &out, out.header.len) < 0)
			break;
	}
	return NULL;
}

int memory_fuse_open(struct memory_fuse *fuse)
{
	char path[] = "/tmp/xrc-fuse-XXXXXX", options[80];
	int at = mkstemp(path), ret;

	memset(fuse, 0, sizeof(*fuse));
	fuse->dev = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	if (at < 0 || fuse->dev < 0 || pipe2(fuse->stop, O_CLOEXEC))
		return -errno;
	close(at);
	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=100600,user_id=0,group_id=0", fuse->dev);
	if (mount("xrc", path, "fuse", MS_NOSUID | MS_NODEV, options))
		return -errno;
	ret = -pthread_create(&fuse->server, NULL, serve, fuse);
	if (!ret) {
		fuse->fd = open(path, O_RDWR | O_CLOEXEC);
		fuse->direct = open(path, O_RDWR | O_CLOEXEC);
		if (fuse->fd < 0 || fuse->direct < 0)
			ret = -errno;
	}
	/* It stays for as long as it is in use. */
	umount2(path, MNT_DETACH);
	unlink(path);
	return ret;
}

void memory_fuse_leave_files(struct memory_fuse *fuse)
{
	close(fuse->fd);
	close(fuse->direct);
	fuse->fd = -1;
	fuse->direct = -1;
}

void memory_fuse_close(struct memory_fuse *fuse)
{
	if (write(fuse->stop[1], "", 1) == 1)
		pthread_join(fuse->server, NULL);
	close(fuse->dev);
	close(fuse->fd);
	close(fuse->direct);
	close(fuse->stop[0]);
	close(fuse->stop[1]);
}
