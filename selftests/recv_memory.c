// SPDX-License-Identifier: GPL-2.0
/*
 * Receive buffers in memory of all kinds, also of kinds that cannot be written to,
 * that go away, and whose pages never come.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <linux/userfaultfd.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "memory_util.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define PART IB_XRC_WIRE_PART_SIZE
#define HUGE (2UL * 1024 * 1024)
#define DEPTH 1024
#define INI_SIZE (1024 * 1024)
#define SRQ_WR 16

/* Three parts, whose borders are those of no page. */
#define LENGTH (2 * PART + 1234)
/* Where in its memory a message is put: six pages are touched, the last one too. */
#define SKEW (PART - 77)
#define AREA (6 * PART)

/* A TGT QP and who sends to it. */
struct peer {
	struct xrc_qp qp;
	struct xrc_ini ini;
};

struct receiver {
	struct xrc_cq cq;
	struct xrc_srq srq;
};

FIXTURE(recv_memory)
{
	struct xrc x;
	__u32 xrcd;
	/* The first one is that of the memory; the other one always gets on. */
	struct peer peer[2];
	struct receiver r;
	struct receiver other;
	__u8 other_buf[64];
};

typedef FIXTURE_DATA(recv_memory) recv_memory_t;

static int receiver_open(struct xrc *x, __u32 xrcd, struct receiver *r)
{
	int ret = xrc_cq_create(x, 2 * SRQ_WR, 0, XRC_NO_FD, &r->cq);

	return ret ? ret : xrc_srq_create(x, xrcd, &r->cq, SRQ_WR, 2, 0, &r->srq);
}

FIXTURE_SETUP(recv_memory)
{
	int i;

	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, -1, 0, &self->xrcd));
	for (i = 0; i < 2; i++) {
		struct peer *p = &self->peer[i];

		ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &p->qp));
		ASSERT_EQ(0, xrc_ini_open(&p->ini, DEPTH, INI_SIZE));
		ASSERT_EQ(0, xrc_ini_pair(&p->ini, &self->x, &p->qp));
	}
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, &self->r));
	ASSERT_EQ(0, receiver_open(&self->x, self->xrcd, &self->other));
}

FIXTURE_TEARDOWN(recv_memory)
{
	xrc_ini_close(&self->peer[0].ini);
	xrc_ini_close(&self->peer[1].ini);
	xrc_close(&self->x);
}

/* A message of these bytes. */
static int send_to(struct xrc_ini *ini, __u32 srq_num, __u32 length, int seed)
{
	struct xrc_send send = { .srq_num = srq_num, .length = length };

	xrc_fill(ini->buf, length, seed);
	return xrc_ini_send(ini, &send);
}

/* The part number i, from 0 on, of a message of LENGTH bytes that is in the buffer. */
static int send_part(struct xrc_ini *ini, __u32 srq_num, int i)
{
	const __u32 flags = (i ? IB_XRC_WIRE_CONT : 0) |
			    ((i + 1) * PART < LENGTH ? IB_XRC_WIRE_MORE : 0);
	const __u32 left = LENGTH - i * PART;

	return xrc_ini_send_raw(ini, IBV_WR_SEND_WITH_IMM,
				srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT | flags,
				i * PART, left < PART ? left : PART);
}

/* The other peer and the other SRQ, of the same domain, notice nothing. */
static void others_go_on(struct __test_metadata *_metadata, recv_memory_t *self,
			 const char *what)
{
	struct xrc_ini *ini = &self->peer[1].ini;
	struct ib_xrc_cqe cqe = {};
	struct ibv_wc wc;

	memset(self->other_buf, 0, sizeof(self->other_buf));
	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->other.srq, 7, self->other_buf,
				  sizeof(self->other_buf)));
	ASSERT_EQ(0, send_to(ini, self->other.srq.srq_num, 64, 3));
	ASSERT_EQ(0, xrc_cq_wait(&self->other.cq, &cqe, XRC_TIMEOUT_MS))
		TH_LOG("%s", what);
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status);
	EXPECT_TRUE(xrc_check(self->other_buf, 64, 3));
	ASSERT_EQ(0, xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->peer[1].qp));
}

/* The first peer is connected anew, with nothing outstanding. */
static void reconnect(struct __test_metadata *_metadata, recv_memory_t *self)
{
	const struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	struct peer *p = &self->peer[0];

	ASSERT_EQ(0, xrc_tgt_modify(&self->x, &p->qp, &reset));
	ASSERT_EQ(0, xrc_ini_reset(&p->ini));
	ASSERT_EQ(0, xrc_ini_pair(&p->ini, &self->x, &p->qp));
}

/* The message that was sent completes and is where it should be. */
static void arrives(struct __test_metadata *_metadata, recv_memory_t *self,
		    const void *at, __u32 length, int seed, const char *what)
{
	struct ib_xrc_cqe cqe = {};
	struct ibv_wc wc;

	ASSERT_EQ(0, xrc_cq_wait(&self->r.cq, &cqe, XRC_TIMEOUT_MS))
		TH_LOG("%s", what);
	while (xrc_ini_poll(&self->peer[0].ini, &wc) > 0)
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_WC_SUCCESS, cqe.status)
		TH_LOG("%s", what);
	EXPECT_EQ(length, cqe.byte_len);
	EXPECT_EQ(seed, cqe.wr_id);
	if (at) {
		EXPECT_TRUE(xrc_check(at, length, seed))
			TH_LOG("%s", what);
	}
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->peer[0].qp));
}

/*
 * The message that was sent does not find memory: that is told to the receiver, and
 * the TGT QP is in error. The SRQ is as good as before, and nobody else notices.
 */
static void refused(struct __test_metadata *_metadata, recv_memory_t *self,
		    int seed, const char *what)
{
	struct ib_xrc_tgt_qp_info info = {};
	struct ib_xrc_cqe cqe = {};
	__u8 buf[64];

	ASSERT_EQ(0, xrc_cq_wait(&self->r.cq, &cqe, XRC_TIMEOUT_MS))
		TH_LOG("%s", what);
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status)
		TH_LOG("%s", what);
	EXPECT_EQ(seed, cqe.wr_id);
	EXPECT_EQ(0, cqe.byte_len);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->peer[0].qp, IBV_QPS_ERR))
		TH_LOG("%s", what);
	EXPECT_EQ(0, xrc_tgt_query(&self->x, &self->peer[0].qp, NULL, &info));
	EXPECT_LE(1, info.refused_msgs);
	EXPECT_EQ(0, self->r.srq.ring->flags & IB_XRC_SRQ_RING_ERROR);
	others_go_on(_metadata, self, what);
	reconnect(_metadata, self);

	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 200, buf, sizeof(buf)));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, 64, 200));
	arrives(_metadata, self, buf, 64, 200, what);
}

static void *map(size_t length)
{
	return mmap(NULL, length, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static bool is_all(const void *mem, size_t length, __u8 byte)
{
	const __u8 *p = mem;

	while (length--)
		if (*p++ != byte)
			return false;
	return true;
}

/* A file of AREA bytes, all of them 0x55. */
static int fill_file(int fd)
{
	static __u8 bytes[AREA];

	memset(bytes, 0x55, sizeof(bytes));
	return pwrite(fd, bytes, sizeof(bytes), 0) == sizeof(bytes) ? fd : -1;
}

static int new_file(const char *dir)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "%s/xrc-XXXXXX", dir);
	fd = mkstemp(path);
	unlink(path);
	return fd < 0 ? fd : fill_file(fd);
}

/*
 * An empty FAT file system on a block device that is a file: mounted there, or a
 * negative errno. Mounted for as long as it is in use.
 */
static int disk_mount(const char *dir)
{
	static const __u8 boot[] = {
		0xeb, 0x3c, 0x90, 'x', 'r', 'c', ' ', ' ', ' ', ' ', ' ',
		/* sectors of 512 bytes; clusters of 4; 1 before the FAT, 1 FAT */
		0x00, 0x02, 4, 1, 0, 1,
		/* 64 entries in the root; 4096 sectors; medium; 4 for the FAT */
		64, 0, 0x00, 0x10, 0xf8, 4, 0, 32, 0, 64, 0,
	};
	char path[] = "/tmp/xrc-disk-XXXXXX", cmd[128];
	int fd = mkstemp(path), ret = 0;

	if (fd < 0 || ftruncate(fd, HUGE) ||
	    pwrite(fd, boot, sizeof(boot), 0) != sizeof(boot) ||
	    pwrite(fd, "\x55\xaa", 2, 510) != 2 ||
	    pwrite(fd, "\xf8\xff\xff", 3, 512) != 3)
		return -EIO;
	snprintf(cmd, sizeof(cmd), "modprobe -q loop; mount -t msdos -o loop %s %s",
		 path, dir);
	if (system(cmd))
		ret = -ENODEV;
	close(fd);
	unlink(path);
	return ret;
}

static int disk_file(void)
{
	char dir[] = "/tmp/xrc-mnt-XXXXXX", path[64];
	int fd;

	if (!mkdtemp(dir) || disk_mount(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	umount2(dir, MNT_DETACH);
	rmdir(dir);
	return fd < 0 ? fd : fill_file(fd);
}

/* ---------------------------------------------------------- all kinds -- */

enum kind {
	ANONYMOUS,
	ANONYMOUS_SHARED,
	LOCKED,
	DEV_ZERO,
	MEMFD,
	MEMFD_PRIVATE,
	TMPFS,
	TMPFS_PRIVATE,
	DISK,
	DISK_PRIVATE,
	PROGRAM_PRIVATE,
	RING,
	KINDS,
};

static const char *const kind_name[] = {
	"anonymous", "anonymous, shared", "locked", "/dev/zero", "memfd",
	"memfd, private", "tmpfs", "tmpfs, private", "disk", "disk, private",
	"the program itself, private", "a ring",
};

/* *fd is the file whose start is mapped, or -1. */
static __u8 *map_kind(recv_memory_t *self, enum kind kind, int *fd)
{
	const bool private = kind == MEMFD_PRIVATE || kind == TMPFS_PRIVATE ||
			     kind == DISK_PRIVATE || kind == PROGRAM_PRIVATE;
	__u8 *mem;

	*fd = -1;
	switch (kind) {
	case ANONYMOUS:
		return map(AREA);
	case ANONYMOUS_SHARED:
		return mmap(NULL, AREA, PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	case LOCKED:
		mem = map(AREA);
		return mlock(mem, AREA) ? MAP_FAILED : mem;
	case DEV_ZERO:
		*fd = open("/dev/zero", O_RDWR);
		mem = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_PRIVATE, *fd, 0);
		close(*fd);
		*fd = -1;
		return mem;
	case RING:
		/* What is after the entries that are used, and nobody reads. */
		return (__u8 *)self->other.srq.ring +
		       self->other.srq.info.mmap_length - AREA;
	case MEMFD:
	case MEMFD_PRIVATE:
		*fd = fill_file(memfd_create("memory", MFD_CLOEXEC));
		break;
	case TMPFS:
	case TMPFS_PRIVATE:
		*fd = new_file("/dev/shm");
		break;
	case DISK:
	case DISK_PRIVATE:
		*fd = disk_file();
		break;
	case PROGRAM_PRIVATE:
		*fd = open("/proc/self/exe", O_RDONLY);
		break;
	case KINDS:
		return MAP_FAILED;
	}
	return mmap(NULL, AREA, PROT_READ | PROT_WRITE,
		    private ? MAP_PRIVATE : MAP_SHARED, *fd, 0);
}

/* What a file holds, without what is mapped of it. */
static bool file_is(int fd, size_t offset, const void *bytes, size_t length)
{
	__u8 buf[AREA];

	/* What was written is on its way to the disk, and read from there. */
	return !fsync(fd) && !posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) &&
	       pread(fd, buf, length, offset) == (ssize_t)length &&
	       !memcmp(buf, bytes, length);
}

TEST_F_TIMEOUT(recv_memory, kinds, TIMEOUT)
{
	__u8 before[AREA], *mem;
	enum kind kind;
	int fd;

	/* The ring is of the second SRQ. */
	ASSERT_EQ(0, xrc_srq_destroy(&self->x, &self->other.srq));
	ASSERT_EQ(0, xrc_srq_create(&self->x, self->xrcd, &self->other.cq, 2048, 2,
				    0, &self->other.srq));
	for (kind = 0; kind < KINDS; kind++) {
		mem = map_kind(self, kind, &fd);
		ASSERT_NE(MAP_FAILED, mem)
			TH_LOG("%s", kind_name[kind]);
		if (fd >= 0) {
			ASSERT_EQ(AREA, pread(fd, before, AREA, 0));
		} else {
			memset(before, 0, AREA);
		}

		/* Nothing of it has been touched. */
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, kind, mem + SKEW,
					  LENGTH));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     LENGTH, kind));
		arrives(_metadata, self, mem + SKEW, LENGTH, kind,
			kind_name[kind]);
		EXPECT_EQ(0, memcmp(mem, before, SKEW));
		EXPECT_EQ(0, memcmp(mem + SKEW + LENGTH, before + SKEW + LENGTH,
				    AREA - SKEW - LENGTH))
			TH_LOG("%s", kind_name[kind]);
		if (kind == RING) {
			/* The rings go on. */
			others_go_on(_metadata, self, "ring");
			continue;
		}
		if (kind == MEMFD || kind == TMPFS || kind == DISK) {
			munmap(mem, AREA);
			EXPECT_TRUE(file_is(fd, SKEW, self->peer[0].ini.buf,
					    LENGTH))
				TH_LOG("%s", kind_name[kind]);
			EXPECT_TRUE(file_is(fd, 0, before, SKEW));
		} else {
			if (fd >= 0) {
				EXPECT_TRUE(file_is(fd, 0, before, AREA))
					TH_LOG("%s", kind_name[kind]);
			}
			munmap(mem, AREA);
		}
		if (fd >= 0)
			close(fd);
	}
}

TEST_F_TIMEOUT(recv_memory, shared_with_another, TIMEOUT)
{
	static const char *const name[] = { "memfd", "anonymous, shared", "private" };
	int status, up[2], i;
	__u8 *mem[3];
	pid_t pid;
	char c;
	int fd = memfd_create("memory", MFD_CLOEXEC);

	ASSERT_EQ(0, ftruncate(fd, AREA));
	mem[0] = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	mem[1] = mmap(NULL, AREA, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	mem[2] = map(AREA);
	for (i = 0; i < 3; i++)
		ASSERT_NE(MAP_FAILED, mem[i]);
	ASSERT_EQ(0, pipe(up));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (read(up[0], &c, 1) != 1)
			_exit(9);
		for (i = 0; i < 2; i++)
			if (!xrc_check(mem[i] + SKEW, LENGTH, i))
				_exit(i + 1);
		_exit(is_all(mem[2], AREA, 0) ? 0 : 3);
	}
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i, mem[i] + SKEW,
					  LENGTH));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     LENGTH, i));
		arrives(_metadata, self, mem[i] + SKEW, LENGTH, i, name[i]);
	}
	ASSERT_EQ(1, write(up[1], "", 1));
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	close(up[0]);
	close(up[1]);
	close(fd);
}

/* Says how many huge pages there are; the previous number, or -1. */
static int huge_pages(int n)
{
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "r+");
	int before = -1;

	if (!f)
		return -1;
	if (fscanf(f, "%d", &before) != 1)
		before = -1;
	rewind(f);
	fprintf(f, "%d\n", n);
	fclose(f);
	return before;
}

/* The kibibytes that a field of smaps has for the mapping at this address. */
static long smaps_kib(const void *at, const char *field)
{
	FILE *f = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	bool found = false;
	char line[256];
	long kib = -1;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
			found = (unsigned long)at >= start &&
				(unsigned long)at < end;
		else if (found && !strncmp(line, field, strlen(field)))
			kib = strtol(line + strlen(field), NULL, 10);
	}
	if (f)
		fclose(f);
	return kib;
}

TEST_F_TIMEOUT(recv_memory, huge_pages, TIMEOUT)
{
	const int before = huge_pages(4);
	__u8 *mem, *at;
	int fd = -1, i;

	ASSERT_LE(0, before);
	for (i = 0; i < 3; i++) {
		if (i == 1)
			fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
		ASSERT_EQ(0, fd < 0 ? 0 : ftruncate(fd, 2 * HUGE));
		mem = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE,
			   i == 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB :
			   i == 1 ? MAP_SHARED : MAP_PRIVATE, fd, 0);
		ASSERT_NE(MAP_FAILED, mem)
			TH_LOG("case %d", i);
		/* Across the border of two of them, and the start. */
		at = mem + HUGE - SKEW;
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i, at, LENGTH));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     LENGTH, i));
		arrives(_metadata, self, at, LENGTH, i, "hugetlb");
		EXPECT_EQ(0, at[-1]);
		EXPECT_EQ(0, at[LENGTH]);
		EXPECT_EQ(0, munmap(mem, 2 * HUGE));
	}
	close(fd);

	/* There are none left: the page fault fails. */
	huge_pages(0);
	mem = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE |
		   MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 9, mem, LENGTH));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, LENGTH, 9));
	refused(_metadata, self, 9, "no huge pages");
	munmap(mem, HUGE);
	huge_pages(before);
}

TEST_F_TIMEOUT(recv_memory, transparent_huge_pages, TIMEOUT)
{
	__u8 *mem = map(4 * HUGE), *at;
	int i;

	ASSERT_NE(MAP_FAILED, mem);
	mem = (__u8 *)(((uintptr_t)mem + HUGE - 1) & ~(HUGE - 1));
	ASSERT_EQ(0, madvise(mem, 3 * HUGE, MADV_HUGEPAGE));
	/* The first is there, the message makes the second. */
	memset(mem, 0, HUGE);
	if (smaps_kib(mem, "AnonHugePages:") != (long)(HUGE / 1024))
		SKIP(return, "no transparent huge pages");
	at = mem + HUGE - SKEW;
	for (i = 0; i < 2; i++) {
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i, at, LENGTH));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     LENGTH, i));
		arrives(_metadata, self, at, LENGTH, i, "transparent");
		EXPECT_TRUE(is_all(mem, HUGE - SKEW, 0));
		EXPECT_EQ(0, at[LENGTH]);
		/* Once more with a hole in it, so that it is in small pages. */
		ASSERT_EQ(0, madvise(mem + HUGE - 4 * PART, PART, MADV_DONTNEED));
	}
}

/* One buffer in several mappings side by side. */
TEST_F_TIMEOUT(recv_memory, across_mappings, TIMEOUT)
{
	const int rw = PROT_READ | PROT_WRITE;
	int memfd = fill_file(memfd_create("memory", MFD_CLOEXEC));
	int file = new_file("/tmp");
	__u8 *mem = map(AREA);

	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(mem + PART, mmap(mem + PART, PART, rw, MAP_SHARED | MAP_FIXED,
				   memfd, 0));
	ASSERT_EQ(mem + 2 * PART, mmap(mem + 2 * PART, PART, rw,
				       MAP_PRIVATE | MAP_FIXED, file, 0));
	ASSERT_EQ(mem + 3 * PART, mmap(mem + 3 * PART, PART, rw,
				       MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1,
				       0));
	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 1, mem + SKEW, LENGTH));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, LENGTH, 1));
	arrives(_metadata, self, mem + SKEW, LENGTH, 1, "across");
	EXPECT_EQ(0, mem[SKEW - 1]);
	EXPECT_EQ(0, mem[SKEW + LENGTH]);
	EXPECT_TRUE(file_is(memfd, 0, self->peer[0].ini.buf + 77, PART));
	close(memfd);
	close(file);
}

/* --------------------------------------------------- cannot be written -- */

enum bad {
	BEHIND_THE_FILE,
	GUARD,
	SECRET,
	VDSO,
	VSYSCALL,
	END_OF_USER_SPACE,
	OVER_THE_END,
	WRAPS_BETWEEN_PARTS,
	USERFAULTFD,
	USERFAULTFD_WP,
	FUSE,
	FUSE_PRIVATE,
	BAD,
};

static const char *const bad_name[] = {
	"behind the end of the file", "guard region", "secret memory", "vDSO",
	"vsyscall", "end of user space", "over the end of user space",
	"wraps between parts", "userfaultfd, missing",
	"userfaultfd, write-protected", "FUSE", "FUSE, private",
};

/*
 * Everything that has a page fault which fails, and which would wait for a process
 * that does not answer. That others get on then also says that nothing waits.
 */
TEST_F_TIMEOUT(recv_memory, cannot_be_written, TIMEOUT)
{
	const int rw = PROT_READ | PROT_WRITE;
	int secret = syscall(SYS_memfd_secret, O_CLOEXEC);
	int memfd = memfd_create("memory", MFD_CLOEXEC);
	int uffd, uffd_wp;
	struct memory_fuse fuse;
	__u64 at[BAD] = {};
	__u8 *mem;
	int i;

	ASSERT_EQ(0, memory_fuse_open(&fuse));
	ASSERT_EQ(0, ftruncate(memfd, PART));
	mem = mmap(NULL, AREA, rw, MAP_SHARED, memfd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	/* One page of it is there. */
	at[BEHIND_THE_FILE] = (uintptr_t)mem + 10;

	mem = map(AREA);
	if (!madvise(mem + 2 * PART, PART, MADV_GUARD_INSTALL))
		at[GUARD] = (uintptr_t)mem + SKEW;

	if (secret >= 0 && !ftruncate(secret, AREA)) {
		mem = mmap(NULL, AREA, rw, MAP_SHARED, secret, 0);
		ASSERT_NE(MAP_FAILED, mem);
		memset(mem, 1, AREA);
		at[SECRET] = (uintptr_t)mem;
	}

	at[VDSO] = getauxval(AT_SYSINFO_EHDR);
	at[VSYSCALL] = 0xffffffffff600000;
	at[END_OF_USER_SPACE] = 0x7ffffffff000;
	mem = mmap((void *)0x7fffffffd000, 2 * PART, rw, MAP_PRIVATE |
		   MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (mem == (void *)0x7fffffffd000)
		at[OVER_THE_END] = (uintptr_t)mem + 10;
	at[WRAPS_BETWEEN_PARTS] = (__u64)-PART;

	mem = map(AREA);
	uffd = memory_uffd(mem, AREA, UFFDIO_REGISTER_MODE_MISSING);
	ASSERT_LE(0, uffd);
	at[USERFAULTFD] = (uintptr_t)mem + 10;

	mem = map(AREA);
	memset(mem, 1, AREA);
	uffd_wp = memory_uffd(mem, AREA, UFFDIO_REGISTER_MODE_WP);
	ASSERT_LE(0, uffd_wp);
	{
		struct uffdio_writeprotect wp = {
			.range = { (uintptr_t)mem, AREA },
			.mode = UFFDIO_WRITEPROTECT_MODE_WP,
		};

		ASSERT_EQ(0, ioctl(uffd_wp, UFFDIO_WRITEPROTECT, &wp));
	}
	at[USERFAULTFD_WP] = (uintptr_t)mem + 10;

	mem = mmap(NULL, AREA, rw, MAP_SHARED, fuse.fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	at[FUSE] = (uintptr_t)mem + 10;
	mem = mmap(NULL, AREA, rw, MAP_PRIVATE, fuse.fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	at[FUSE_PRIVATE] = (uintptr_t)mem + 10;

	for (i = 0; i < BAD; i++) {
		if (!at[i]) {
			TH_LOG("not here: %s", bad_name[i]);
			continue;
		}
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i,
					  (void *)at[i], 3 * PART));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     LENGTH, i));
		refused(_metadata, self, i, bad_name[i]);
	}
	EXPECT_FALSE(fuse.waited_for);

	/* What is there can be written, whoever else looks after the mapping. */
	mem = (__u8 *)(uintptr_t)at[USERFAULTFD] - 10;
	for (i = 0; i < AREA; i += PART) {
		struct uffdio_zeropage zero = {
			.range = { (uintptr_t)mem + i, PART },
		};

		ASSERT_EQ(0, ioctl(uffd, UFFDIO_ZEROPAGE, &zero));
	}
	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 99, mem + SKEW, LENGTH));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, LENGTH, 99));
	arrives(_metadata, self, mem + SKEW, LENGTH, 99, "userfaultfd, served");

	close(uffd);
	close(uffd_wp);
	close(memfd);
	close(secret);
	memory_fuse_close(&fuse);
}

/* -------------------------------------------------------- what changes -- */

enum change {
	UNMAP,
	READ_ONLY,
	NO_ACCESS,
	TRUNCATE,
	MOVE,
	/* From here on there is memory to be written. */
	DROP,
	REPLACE,
	GROW,
	CHANGES,
};

static const char *const change_name[] = {
	"munmap", "mprotect PROT_READ", "mprotect PROT_NONE", "ftruncate", "mremap",
	"madvise DONTNEED", "mmap MAP_FIXED", "ftruncate, and back",
};

/* The pages from the second on change. */
static int apply(enum change change, int fd, __u8 *mem, void **moved)
{
	const size_t length = AREA - PART;

	switch (change) {
	case UNMAP:
		return munmap(mem + PART, length);
	case READ_ONLY:
		return mprotect(mem + PART, length, PROT_READ);
	case NO_ACCESS:
		return mprotect(mem + PART, length, PROT_NONE);
	case TRUNCATE:
		return ftruncate(fd, PART);
	case MOVE:
		*moved = mremap(mem + PART, length, length, MREMAP_MAYMOVE |
				MREMAP_FIXED, map(length));
		return *moved == MAP_FAILED;
	case DROP:
		return madvise(mem + PART, length, MADV_DONTNEED);
	case REPLACE:
		return mmap(mem + PART, length, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
		       mem + PART;
	case GROW:
		return ftruncate(fd, PART) || ftruncate(fd, AREA);
	case CHANGES:
		break;
	}
	return -1;
}

/*
 * The address space is looked at when a part is copied: what counts is what is mapped
 * then. Once before the message, and once while it arrives.
 */
TEST_F_TIMEOUT(recv_memory, changes, TIMEOUT)
{
	struct xrc_ini *ini = &self->peer[0].ini;
	const __u32 num = self->r.srq.srq_num;
	enum change change;
	void *moved;
	__u8 *mem;
	int fd, i;

	for (i = 0; i < 2 * CHANGES; i++) {
		const bool midway = i % 2;

		change = i / 2;
		fd = fill_file(memfd_create("memory", MFD_CLOEXEC));
		mem = mmap(NULL, AREA, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, mem);
		memset(mem, 0x66, AREA);
		moved = NULL;
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i, mem + PART,
					  LENGTH));
		xrc_fill(ini->buf, LENGTH, i);
		if (midway) {
			struct ibv_wc wc;
			long long end = xrc_now() + XRC_TIMEOUT_MS;

			ASSERT_EQ(0, send_part(ini, num, 0));
			ASSERT_EQ(0, xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS));
			/* Until it is copied. */
			while (!xrc_check(mem + PART, PART, i)) {
				ASSERT_LT(xrc_now(), end);
				usleep(100);
			}
		}
		ASSERT_EQ(0, apply(change, fd, mem, &moved))
			TH_LOG("%s: %d", change_name[change], errno);
		if (midway) {
			ASSERT_EQ(0, send_part(ini, num, 1));
			ASSERT_EQ(0, send_part(ini, num, 2));
		} else {
			ASSERT_EQ(0, xrc_ini_send(ini, &(struct xrc_send){
				.srq_num = num, .length = LENGTH,
			}));
		}
		if (change >= DROP) {
			arrives(_metadata, self,
				midway && change != DROP ? NULL : mem + PART,
				LENGTH, i, change_name[change]);
			/* The first part is not where it was. */
			EXPECT_EQ(0, memcmp(mem + 2 * PART, ini->buf + PART,
					    LENGTH - PART))
				TH_LOG("%s %d", change_name[change], midway);
		} else {
			refused(_metadata, self, i, change_name[change]);
		}
		if (moved) {
			/* It is not followed. */
			EXPECT_TRUE(is_all(moved + PART, AREA - 2 * PART, 0x66));
			munmap(moved, AREA - PART);
		}
		munmap(mem, AREA);
		close(fd);
	}
}

/* Parts come while the mapping comes and goes: each is whole, or refused. */
TEST_F_TIMEOUT(recv_memory, unmapped_under_traffic, TIMEOUT)
{
	const __u32 length = 200 * PART;
	struct ib_xrc_cqe cqe;
	int good = 0, bad = 0;
	__u8 *mem;
	int i;

	for (i = 0; i < 20; i++) {
		mem = map(length);
		ASSERT_NE(MAP_FAILED, mem);
		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, i, mem, length));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num,
				     length, i));
		if (i % 4)
			usleep(i * 500);
		if (i)
			munmap(mem + length / 2, length / 2);
		ASSERT_EQ(0, xrc_cq_wait(&self->r.cq, &cqe, XRC_TIMEOUT_MS));
		EXPECT_EQ(i, cqe.wr_id);
		if (cqe.status == IBV_WC_SUCCESS) {
			good++;
			EXPECT_TRUE(xrc_check(mem, i ? length / 2 : length, i));
		} else {
			bad++;
			EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status);
			EXPECT_EQ(0, xrc_tgt_wait_state(&self->x,
							&self->peer[0].qp,
							IBV_QPS_ERR));
			reconnect(_metadata, self);
		}
		others_go_on(_metadata, self, "unmapped");
		munmap(mem, length);
	}
	TH_LOG("%d whole, %d refused", good, bad);
	EXPECT_LE(1, good);
	EXPECT_LE(1, bad);
}

/* ------------------------------------------------------ whose memory it is -- */

/* What a process of its own does, with an SRQ of its own on the file of the parent. */
struct child {
	pid_t pid;
	int up[2];
	int down[2];
	struct xrc_srq srq;
	__u8 *mem;
};

#define NEED(what) do { if (!(what)) _exit(__LINE__ & 0xff ?: 1); } while (0)

/* In the child: let the parent go on, or wait for it. */
static void child_say(struct child *c)
{
	NEED(write(c->up[1], &c->srq, sizeof(c->srq)) == sizeof(c->srq));
}

static void child_wait(struct child *c)
{
	char byte;

	NEED(read(c->down[0], &byte, 1) == 1);
}

/* In the child: an SRQ with one buffer, which completes into the CQ of the parent. */
static void child_posts(recv_memory_t *self, struct child *c)
{
	NEED(!xrc_srq_create(&self->x, self->xrcd, &self->r.cq, SRQ_WR, 2, 0,
			     &c->srq));
	NEED(!xrc_srq_post(&self->x, &c->srq, 50, c->mem + SKEW, LENGTH));
	child_say(c);
}

/* Fork; memory that the child has a copy of is at c->mem. Returns as fork(2) does. */
static pid_t child_fork(struct child *c)
{
	memset(c, 0, sizeof(*c));
	c->mem = map(AREA);
	if (c->mem == MAP_FAILED || pipe2(c->up, O_CLOEXEC) ||
	    pipe2(c->down, O_CLOEXEC))
		return -1;
	memset(c->mem, 0x33, AREA);
	c->pid = fork();
	if (!c->pid)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return c->pid;
}

/* In the parent: until it says something. */
static bool child_said(struct child *c)
{
	return read(c->up[0], &c->srq, sizeof(c->srq)) == sizeof(c->srq);
}

static bool child_tell(struct child *c)
{
	return write(c->down[1], "", 1) == 1;
}

/* In the parent: its exit status. */
static int child_end(struct child *c)
{
	int status = -1;

	waitpid(c->pid, &status, 0);
	close(c->up[0]);
	close(c->up[1]);
	close(c->down[0]);
	close(c->down[1]);
	munmap(c->mem, AREA);
	return status;
}

/* It is the memory of who made the SRQ, whoever has made the file, and who polls. */
TEST_F_TIMEOUT(recv_memory, of_the_child, TIMEOUT)
{
	struct child c;

	ASSERT_LE(0, child_fork(&c));
	if (!c.pid) {
		child_posts(self, &c);
		child_wait(&c);
		NEED(xrc_check(c.mem + SKEW, LENGTH, 50));
		/* The ring of the parent's SRQ is not there, and not to be had. */
		NEED(xrc_ring_map(&self->x, &self->r.srq.info) == MAP_FAILED &&
		     errno == EACCES);
		_exit(0);
	}
	ASSERT_TRUE(child_said(&c));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, c.srq.srq_num, LENGTH, 50));
	arrives(_metadata, self, NULL, LENGTH, 50, "child");
	EXPECT_TRUE(is_all(c.mem, AREA, 0x33));
	EXPECT_TRUE(child_tell(&c));
	EXPECT_EQ(0, child_end(&c));
}

enum leaving {
	EXIT,
	KILL,
	EXEC,
	LEAVINGS,
};

static const char *const leaving_name[] = { "exit", "kill", "exec" };

/*
 * The memory goes with the process, though its SRQ stays with the file, which another
 * has: before the message comes, and when a part of it has.
 */
TEST_F_TIMEOUT(recv_memory, owner_leaves, TIMEOUT)
{
	struct xrc_ini *ini = &self->peer[0].ini;
	struct ib_xrc_cqe cqe;
	struct ibv_wc wc;
	struct child c;
	int i;

	for (i = 0; i < 2 * LEAVINGS; i++) {
		const enum leaving leaving = i / 2;
		const bool midway = i % 2;

		ASSERT_LE(0, child_fork(&c));
		if (!c.pid) {
			child_posts(self, &c);
			child_wait(&c);
			if (leaving == EXEC) {
				NEED(!fcntl(self->x.fd, F_SETFD, 0));
				NEED(!fcntl(c.down[0], F_SETFD, 0));
				NEED(dup2(c.down[0], 0) == 0);
				NEED(dup2(c.up[1], 1) == 1);
				/* It says when it runs, by what takes an SRQ. */
				execlp("sh", "sh", "-c",
				       "head -c \"$0\" /dev/zero; read -r line; exit 0",
				       "32", NULL);
			}
			NEED(leaving == EXIT);
			_exit(0);
		}
		ASSERT_TRUE(child_said(&c));
		xrc_fill(ini->buf, LENGTH, 50);
		if (midway) {
			ASSERT_EQ(0, send_part(ini, c.srq.srq_num, 0));
			ASSERT_EQ(0, xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS));
			usleep(20000);
		}
		if (leaving == KILL) {
			kill(c.pid, SIGKILL);
		} else {
			ASSERT_TRUE(child_tell(&c));
		}
		if (leaving == EXEC) {
			char line[32];

			ASSERT_EQ(sizeof(line), read(c.up[0], line, sizeof(line)));
		} else {
			ASSERT_EQ(leaving == KILL ? SIGKILL : 0, child_end(&c));
		}
		if (midway) {
			ASSERT_EQ(0, send_part(ini, c.srq.srq_num, 1));
			ASSERT_EQ(0, send_part(ini, c.srq.srq_num, 2));
		} else {
			ASSERT_EQ(0, xrc_ini_send(ini, &(struct xrc_send){
				.srq_num = c.srq.srq_num, .length = LENGTH,
			}));
		}
		ASSERT_EQ(0, xrc_cq_wait(&self->r.cq, &cqe, XRC_TIMEOUT_MS))
			TH_LOG("%s %d", leaving_name[leaving], midway);
		EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status)
			TH_LOG("%s %d", leaving_name[leaving], midway);
		EXPECT_EQ(50, cqe.wr_id);
		EXPECT_EQ(c.srq.srq_num, cqe.srq_num);
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->peer[0].qp,
						IBV_QPS_ERR));
		others_go_on(_metadata, self, leaving_name[leaving]);
		reconnect(_metadata, self);
		c.srq.ring = NULL;
		EXPECT_EQ(0, xrc_srq_destroy(&self->x, &c.srq));
		if (leaving == EXEC) {
			ASSERT_EQ(1, write(c.down[1], "\n", 1));
			EXPECT_EQ(0, child_end(&c));
		}
	}
}

/*
 * A process keeps its address space locked, in mmap(2) of a file that another one does
 * not answer for. Its messages wait; those of others do not. It gets them in the end.
 */
static void *map_stuck(void *arg)
{
	struct memory_fuse *fuse = arg;

	return mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE, fuse->direct,
		    0);
}

/* Starts such a process, which has a buffer posted to an SRQ of its own. */
static void lock_child(struct __test_metadata *_metadata, recv_memory_t *self,
		       struct memory_fuse *fuse, struct child *c)
{
	long long end;

	ASSERT_EQ(0, memory_fuse_open(fuse));
	ASSERT_LE(0, child_fork(c));
	if (!c->pid) {
		pthread_t thread;

		/* Only the parent answers. */
		close(fuse->dev);
		child_posts(self, c);
		/* Pages of its own, which are not to be faulted in later. */
		memset(c->mem, 0x44, AREA);
		child_wait(c);
		NEED(pwrite(fuse->fd, c->mem, PART, 0) == PART);
		NEED(!pthread_create(&thread, NULL, map_stuck, fuse));
		pthread_join(thread, NULL);
		child_wait(c);
		NEED(xrc_check(c->mem + SKEW, LENGTH, 50));
		_exit(0);
	}
	ASSERT_TRUE(child_said(c));
	memory_fuse_leave_files(fuse);
	ASSERT_TRUE(child_tell(c));
	end = xrc_now() + XRC_TIMEOUT_MS;
	while (!fuse->waited_for) {
		ASSERT_LT(xrc_now(), end);
		usleep(1000);
	}
}

TEST_F_TIMEOUT(recv_memory, locked_address_space, TIMEOUT)
{
	struct memory_fuse fuse;
	struct ib_xrc_cqe cqe;
	struct child c;
	int i;

	lock_child(_metadata, self, &fuse, &c);
	ASSERT_EQ(0, send_to(&self->peer[0].ini, c.srq.srq_num, LENGTH, 50));
	for (i = 0; i < 10; i++)
		others_go_on(_metadata, self, "locked");
	EXPECT_EQ(-ETIME, xrc_cq_wait(&self->r.cq, &cqe, 500));
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->peer[0].qp));
	/* The TGT QP serves others meanwhile. */
	{
		__u8 buf[64];

		ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 51, buf, 64));
		ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, 64,
				     51));
		arrives(_metadata, self, buf, 64, 51, "the same TGT QP");
	}

	memory_fuse_close(&fuse);
	arrives(_metadata, self, NULL, LENGTH, 50, "locked");
	EXPECT_TRUE(child_tell(&c));
	EXPECT_EQ(0, child_end(&c));
}

/* What is sent after a message that is refused is not delivered, even if it was tried. */
TEST_F_TIMEOUT(recv_memory, refused_before_a_locked_one, TIMEOUT)
{
	struct memory_fuse fuse;
	struct ib_xrc_cqe cqe;
	struct child c;

	lock_child(_metadata, self, &fuse, &c);
	/* The first one waits for a buffer, the second one for the address space. */
	ASSERT_EQ(0, send_to(&self->peer[0].ini, self->r.srq.srq_num, 64, 60));
	ASSERT_EQ(0, send_to(&self->peer[0].ini, c.srq.srq_num, 64, 61));
	EXPECT_EQ(-ETIME, xrc_cq_wait(&self->r.cq, &cqe, 500));
	/* There is no memory. */
	ASSERT_EQ(0, xrc_srq_post(&self->x, &self->r.srq, 62, (void *)8, 64));
	ASSERT_EQ(0, xrc_cq_wait(&self->r.cq, &cqe, XRC_TIMEOUT_MS));
	EXPECT_EQ(IBV_WC_LOC_PROT_ERR, cqe.status);
	EXPECT_EQ(62, cqe.wr_id);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->peer[0].qp, IBV_QPS_ERR));

	memory_fuse_close(&fuse);
	EXPECT_EQ(-ETIME, xrc_cq_wait(&self->r.cq, &cqe, 500))
		TH_LOG("wr_id %llu status %u length %u", cqe.wr_id, cqe.status, cqe.byte_len);
	reconnect(_metadata, self);
	ASSERT_EQ(0, send_to(&self->peer[0].ini, c.srq.srq_num, LENGTH, 50));
	arrives(_metadata, self, NULL, LENGTH, 50, "the next connection");
	EXPECT_TRUE(child_tell(&c));
	EXPECT_EQ(0, child_end(&c));
}

TEST_HARNESS_MAIN
