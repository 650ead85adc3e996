// SPDX-License-Identifier: GPL-2.0
/*
 * RDMA READ, RDMA WRITE and atomics from an ordinary RC QP, by a TGT QP, on memory
 * that is registered in the domain.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "memory_util.h"
#include "xrc_util.h"
#include "scale.h"

#define TIMEOUT (120 * xrc_scale())

#define DEPTH 64
#define MIB (1024 * 1024)
/* For payloads, and behind them for what an atomic brings. */
#define BUF_SIZE (MIB + 64)
#define OLD_VALUE MIB
/* Never the identity of anybody privileged. */
#define NOBODY 65534

#define READ_ONLY IBV_ACCESS_REMOTE_READ
#define WRITE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define ATOMIC (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC)
#define ALL (READ_ONLY | WRITE | ATOMIC)

FIXTURE(mr)
{
	struct xrc x;
	int file;
	int events;
	__u32 xrcd;
	struct xrc_qp qp;
	struct xrc_ini ini;
	size_t page;
	/* A MiB in the middle of more. */
	__u8 *mem;
};

typedef FIXTURE_DATA(mr) mr_t;

static void *map(size_t length, int prot)
{
	return mmap(NULL, length, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static int connect_with(mr_t *self, __u32 access)
{
	struct ib_uverbs_qp_attr attr;
	int ret;

	xrc_ini_tgt_attr(&self->ini, &attr);
	attr.qp_access_flags = access;
	ret = xrc_tgt_connect(&self->x, &self->qp, &attr, NULL);
	return ret ? ret : xrc_ini_connect(&self->ini, self->qp.qp_num);
}

/* Anew, with nothing outstanding. */
static int reconnect_with(mr_t *self, __u32 access)
{
	const struct ib_uverbs_qp_attr reset = {
		.qp_attr_mask = IBV_QP_STATE, .qp_state = IBV_QPS_RESET,
	};
	int ret = xrc_tgt_modify(&self->x, &self->qp, &reset);

	if (!ret)
		ret = xrc_ini_reset(&self->ini);
	return ret ? ret : connect_with(self, access);
}

FIXTURE_SETUP(mr)
{
	struct xrc_report to = { .user_handle = 0x77 };

	self->page = sysconf(_SC_PAGESIZE);
	self->file = memfd_create("mr", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, xrc_open(&self->x));
	ASSERT_EQ(0, xrc_event_file_create(&self->x, -1, &self->events));
	to.fd = self->events;
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, self->file, O_CREAT, &self->xrcd));
	ASSERT_EQ(0, xrc_tgt_create_report(&self->x, self->xrcd, &to, &self->qp));
	ASSERT_EQ(0, xrc_ini_open(&self->ini, DEPTH, BUF_SIZE));
	ASSERT_EQ(0, connect_with(self, ALL));
	self->mem = map(MIB + 4 * self->page, PROT_READ | PROT_WRITE);
	ASSERT_NE(MAP_FAILED, self->mem);
	self->mem += 2 * self->page;
}

FIXTURE_TEARDOWN(mr)
{
	xrc_ini_close(&self->ini);
	xrc_close(&self->x);
	close(self->events);
	close(self->file);
	munmap(self->mem - 2 * self->page, MIB + 4 * self->page);
}

/* The status with which it completes, or a negative errno. */
static int rdma(struct xrc_ini *ini, const struct xrc_rdma *op)
{
	struct ibv_wc wc;
	int ret = xrc_ini_rdma(ini, op);

	if (!ret)
		ret = xrc_ini_wait(ini, &wc, XRC_TIMEOUT_MS);
	return ret ? ret : (int)wc.status;
}

static struct xrc_rdma on(const struct xrc_mr *mr, enum ibv_wr_opcode opcode,
			  const void *addr, __u32 length)
{
	return (struct xrc_rdma){
		.opcode = opcode,
		.addr = (uintptr_t)addr,
		.rkey = mr->rkey,
		.length = length,
	};
}

static int rdma_on(struct xrc_ini *ini, const struct xrc_mr *mr,
		   enum ibv_wr_opcode opcode, const void *addr, __u32 length)
{
	const struct xrc_rdma op = on(mr, opcode, addr, length);

	return rdma(ini, &op);
}

/* The value that was there before; the operation must succeed. */
static __u64 atomic(struct __test_metadata *_metadata, mr_t *self,
		    const struct xrc_mr *mr, enum ibv_wr_opcode opcode,
		    const void *addr, __u64 compare_add, __u64 swap)
{
	struct xrc_rdma op = on(mr, opcode, addr, sizeof(__u64));
	__u64 old;

	op.offset = OLD_VALUE;
	op.compare_add = compare_add;
	op.swap = swap;
	memset(self->ini.buf + OLD_VALUE, 0xee, sizeof(old));
	ASSERT_EQ(IBV_WC_SUCCESS, rdma(&self->ini, &op));
	memcpy(&old, self->ini.buf + OLD_VALUE, sizeof(old));
	return old;
}

/*
 * The operation fails at the sender with this status, the TGT QP is in error, which
 * is reported as this, and works again when it was reset.
 */
static void refused(struct __test_metadata *_metadata, mr_t *self,
		    const struct xrc_rdma *op, int status, __u32 error,
		    const char *what)
{
	struct ib_xrc_event event = {};

	EXPECT_EQ(status, rdma(&self->ini, op))
		TH_LOG("%s", what);
	EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR))
		TH_LOG("%s", what);
	EXPECT_EQ(0, xrc_event_wait(self->events, &event, XRC_TIMEOUT_MS))
		TH_LOG("%s", what);
	EXPECT_EQ(IB_XRC_EVENT_TGT_QP_ERROR, event.type);
	EXPECT_EQ(self->qp.qp_num, event.number);
	EXPECT_EQ(error, event.value)
		TH_LOG("%s", what);
	EXPECT_EQ(0x77, event.user_handle);
	EXPECT_EQ(-EAGAIN, xrc_event_read(self->events, &event, 1));
	ASSERT_EQ(0, reconnect_with(self, ALL));
}

#define ACCESS_ERR(op, what) \
	refused(_metadata, self, op, IBV_WC_REM_ACCESS_ERR, \
		IBV_EVENT_QP_ACCESS_ERR, what)

static bool is_all(const void *mem, size_t length, __u8 byte)
{
	const __u8 *p = mem;

	while (length--)
		if (*p++ != byte)
			return false;
	return true;
}

static __u64 domain_bytes(struct xrc *x, __u32 xrcd)
{
	struct ib_xrc_xrcd_info info;

	return xrc_xrcd_query(x, xrcd, &info) ? ~0ULL : info.bytes;
}

/* Bytes that this process has pinned, or -1. */
static long long pinned(void)
{
	long long kib = -1;
	char line[128];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmPin: %lld kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib < 0 ? -1 : kib * 1024;
}

/* -------------------------------------------------------------- what works -- */

TEST_F_TIMEOUT(mr, read_and_write, TIMEOUT)
{
	const size_t p = self->page;
	const struct {
		size_t offset, length;
	} at[] = {
		{ 0, 0 }, { 0, 1 }, { 5, 1 }, { 1, 7 }, { 0, 8 }, { 0, 1023 },
		{ 3, 1024 }, { 0, 1025 }, { 0, p - 1 }, { 0, p }, { 0, p + 1 },
		{ 1, p }, { p - 1, 1 }, { p - 1, 2 }, { p - 3, p + 6 },
		{ p, p }, { 7, 3 * p + 1 }, { 0, 65536 }, { MIB - 1, 1 },
		{ MIB - p - 1, p + 1 }, { 1, MIB - 1 }, { 0, MIB },
	};
	struct xrc_mr mr;
	unsigned int i;
	__u8 *mem;

	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, MIB, ALL, &mr));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		const __u32 length = at[i].length;

		mem = self->mem + at[i].offset;
		memset(self->mem - p, 0x5a, MIB + 2 * p);
		xrc_fill(self->ini.buf, length, i);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE,
						  mem, length))
			TH_LOG("%u bytes at %zu", length, at[i].offset);
		EXPECT_TRUE(xrc_check(mem, length, i))
			TH_LOG("%u bytes at %zu", length, at[i].offset);
		/* And nothing else. */
		EXPECT_TRUE(is_all(self->mem - p, at[i].offset + p, 0x5a));
		EXPECT_TRUE(is_all(mem + length, MIB + p - at[i].offset - length,
				   0x5a));
		xrc_fill(mem, length, i + 100);
		memset(self->ini.buf, 0xa5, MIB);
		ASSERT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_READ,
						  mem, length))
			TH_LOG("%u bytes at %zu", length, at[i].offset);
		EXPECT_TRUE(xrc_check(self->ini.buf, length, i + 100))
			TH_LOG("%u bytes at %zu", length, at[i].offset);
		EXPECT_TRUE(is_all(self->ini.buf + length, MIB - length, 0xa5));
	}
	EXPECT_EQ(IBV_QPS_RTS, xrc_tgt_state(&self->x, &self->qp));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
}

TEST_F_TIMEOUT(mr, atomics, TIMEOUT)
{
	const enum ibv_wr_opcode cas = IBV_WR_ATOMIC_CMP_AND_SWP;
	const enum ibv_wr_opcode add = IBV_WR_ATOMIC_FETCH_AND_ADD;
	/* At both ends of pages, and of the MR. */
	const size_t at[] = {
		0, 8, self->page - 8, self->page, 5 * self->page - 8, MIB - 8
	};
	struct xrc_mr mr;
	unsigned int i;
	__u64 *word;

	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, MIB, ATOMIC,
				&mr));
	for (i = 0; i < ARRAY_SIZE(at); i++) {
		word = (__u64 *)(self->mem + at[i]);
		word[-1] = word[1] = 0x1111;
		*word = 0x123456789abcdef0;
		EXPECT_EQ(0x123456789abcdef0,
			  atomic(_metadata, self, &mr, cas, word,
				 0x123456789abcdef0, 42));
		EXPECT_EQ(42, *word);
		/* Another value than expected stays. */
		EXPECT_EQ(42, atomic(_metadata, self, &mr, cas, word, 41, 7));
		EXPECT_EQ(42, *word);
		EXPECT_EQ(42, atomic(_metadata, self, &mr, add, word, 100, 0));
		EXPECT_EQ(142, atomic(_metadata, self, &mr, add, word, 0, 0));
		EXPECT_EQ(142, *word);
		*word = ~0ULL - 1;
		EXPECT_EQ(~0ULL - 1,
			  atomic(_metadata, self, &mr, add, word, 5, 0));
		EXPECT_EQ(3, *word);
		EXPECT_EQ(0x1111, word[-1]);
		EXPECT_EQ(0x1111, word[1]);
	}
}

/* Two senders, by two TGT QPs of the domain, add to one word: nothing is lost. */
TEST_F_TIMEOUT(mr, atomics_of_two, TIMEOUT)
{
	const unsigned int rounds = 300;
	struct ib_uverbs_qp_attr attr;
	struct xrc_ini ini[2];
	struct xrc_rdma op;
	struct ibv_wc wc;
	struct xrc_qp qp;
	struct xrc_mr mr;
	__u64 *word = (__u64 *)self->mem, old, last[2] = {};
	unsigned int i, k;

	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, 8, ATOMIC, &mr));
	ini[0] = self->ini;
	ASSERT_EQ(0, xrc_tgt_create(&self->x, self->xrcd, &qp));
	ASSERT_EQ(0, xrc_ini_open(&ini[1], DEPTH, BUF_SIZE));
	xrc_ini_tgt_attr(&ini[1], &attr);
	attr.qp_access_flags = ALL;
	ASSERT_EQ(0, xrc_tgt_connect(&self->x, &qp, &attr, NULL));
	ASSERT_EQ(0, xrc_ini_connect(&ini[1], qp.qp_num));
	op = on(&mr, IBV_WR_ATOMIC_FETCH_AND_ADD, word, 8);
	op.compare_add = 1;
	for (i = 0; i < rounds; i++) {
		for (k = 0; k < 2; k++) {
			ASSERT_EQ(0, xrc_ini_rdma(&ini[k], &op));
		}
		for (k = 0; k < 2; k++) {
			ASSERT_EQ(0, xrc_ini_wait(&ini[k], &wc, XRC_TIMEOUT_MS));
			ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
			memcpy(&old, ini[k].buf, 8);
			/* What one sees grows. */
			if (i) {
				ASSERT_LT(last[k], old);
			}
			last[k] = old;
		}
		ASSERT_NE(last[0], last[1]);
	}
	EXPECT_EQ(2 * rounds, *word);
	self->ini.posted = ini[0].posted;
	xrc_ini_close(&ini[1]);
	EXPECT_EQ(0, xrc_tgt_close(&self->x, &qp));
}

TEST_F_TIMEOUT(mr, iova, TIMEOUT)
{
	const __u64 iova = 0xffff800000000000 + 123;
	struct xrc_rdma op;
	struct xrc_mr mr;

	ASSERT_EQ(0, xrc_mr_reg_iova(&self->x, self->xrcd, self->mem + 123, 5000,
				     &iova, ALL, &mr));
	op = on(&mr, IBV_WR_RDMA_WRITE, NULL, 5000);
	op.addr = iova;
	xrc_fill(self->ini.buf, 5000, 1);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma(&self->ini, &op));
	EXPECT_TRUE(xrc_check(self->mem + 123, 5000, 1));
	/* The address itself is no name of it. */
	op.addr = (uintptr_t)self->mem + 123;
	ACCESS_ERR(&op, "by address");
	op.addr = iova - 1;
	op.length = 1;
	ACCESS_ERR(&op, "before the start");
	EXPECT_TRUE(xrc_check(self->mem + 123, 5000, 1));
}

/* Jobs are kept apart by SRQ; memory is the domain's. */
TEST_F_TIMEOUT(mr, of_another_job, TIMEOUT)
{
	const __u64 key = 0x6a0b;
	const struct xrc_xrcd_opts opts = { .job_key = &key };
	struct xrc_mr mr;
	struct xrc y;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_open(&y));
	ASSERT_EQ(0, xrc_xrcd_open_with(&y, self->file, 0, &opts, &xrcd));
	ASSERT_EQ(0, xrc_mr_reg(&y, xrcd, self->mem, 100, ALL, &mr));
	xrc_fill(self->ini.buf, 100, 9);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE,
					  self->mem, 100));
	EXPECT_TRUE(xrc_check(self->mem, 100, 9));
	xrc_close(&y);
}

/* -------------------------------------------------------- what is refused -- */

TEST_F_TIMEOUT(mr, access, TIMEOUT)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		__u32 without;
		const char *what;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, "WRITE" },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, "READ" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC, "CAS" },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC, "ADD" },
	};
	struct xrc_rdma op;
	struct xrc_mr mr;
	unsigned int i;

	memset(self->mem, 0, 8);
	memset(self->ini.buf, 0xff, 8);
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem,
					self->page, ALL & ~ops[i].without, &mr));
		op = on(&mr, ops[i].opcode, self->mem, 8);
		op.compare_add = 0;
		op.swap = ~0ULL;
		ACCESS_ERR(&op, ops[i].what);
		EXPECT_TRUE(is_all(self->mem, 8, 0));
		/* With the access it works. */
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem,
					self->page, ops[i].without |
					IBV_ACCESS_LOCAL_WRITE, &mr));
		op.rkey = mr.rkey;
		EXPECT_EQ(IBV_WC_SUCCESS, rdma(&self->ini, &op))
			TH_LOG("%s", ops[i].what);
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		memset(self->mem, 0, 8);
	}
}

TEST_F_TIMEOUT(mr, bounds, TIMEOUT)
{
	const __u32 length = 2 * self->page;
	const struct {
		long long offset;
		__u32 length;
	} out[] = {
		{ -1, 1 }, { -1, length }, { 0, length + 1 }, { 1, length },
		{ length, 1 }, { length - 1, 2 }, { 1LL << 40, 8 },
		{ -(1LL << 40), 8 },
	};
	static const enum ibv_wr_opcode opcodes[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ
	};
	struct xrc_rdma op;
	struct xrc_mr mr;
	unsigned int i, k;

	memset(self->mem - self->page, 0x5a, 4 * self->page);
	memset(self->ini.buf, 0xa5, length + 1);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, length, ALL,
				&mr));
	for (k = 0; k < 2; k++) {
		for (i = 0; i < ARRAY_SIZE(out); i++) {
			char what[64];

			snprintf(what, sizeof(what), "operation %u, %u bytes at %lld",
				 opcodes[k], out[i].length, out[i].offset);
			op = on(&mr, opcodes[k], NULL, out[i].length);
			op.addr = (uintptr_t)self->mem + out[i].offset;
			ACCESS_ERR(&op, what);
		}
	}
	op = on(&mr, IBV_WR_ATOMIC_FETCH_AND_ADD, self->mem + length, 8);
	ACCESS_ERR(&op, "atomic");
	EXPECT_TRUE(is_all(self->mem - self->page, 4 * self->page, 0x5a));
	EXPECT_TRUE(is_all(self->ini.buf, length + 1, 0xa5));
}

TEST_F_TIMEOUT(mr, wrong_key, TIMEOUT)
{
	struct xrc_mr mr, other_mr, old;
	__u32 other, i;
	struct xrc_rdma op;
	struct ibv_mr *uverbs;

	memset(self->mem, 0x5a, self->page);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, self->page, ALL,
				&mr));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, XRC_NO_FD, 0, &other));
	ASSERT_EQ(0, xrc_mr_reg(&self->x, other, self->mem, self->page, ALL,
				&other_mr));
	EXPECT_NE(mr.rkey, other_mr.rkey);
	uverbs = ibv_reg_mr(self->ini.pd, self->mem, self->page, ALL);
	ASSERT_NE(NULL, uverbs);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, self->page, ALL,
				&old));
	ASSERT_EQ(0, xrc_mr_dereg(&self->x, &old));
	{
		const struct {
			__u32 rkey;
			const char *what;
		} keys[] = {
			{ mr.rkey ^ 0x80, "another key of the MR" },
			{ mr.rkey + 0x77700, "no MR" },
			{ 0, "zero" },
			{ other_mr.rkey, "an MR of another domain" },
			{ uverbs->rkey, "an MR of uverbs" },
			{ old.rkey, "an MR that was deregistered" },
		};

		for (i = 0; i < ARRAY_SIZE(keys); i++) {
			op = on(&mr, IBV_WR_RDMA_WRITE, self->mem, 8);
			op.rkey = keys[i].rkey;
			ACCESS_ERR(&op, keys[i].what);
			op.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
			ACCESS_ERR(&op, keys[i].what);
		}
	}
	EXPECT_TRUE(is_all(self->mem, self->page, 0x5a));
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE,
					  self->mem, 8));
	EXPECT_EQ(0, ibv_dereg_mr(uverbs));
}

/*
 * What the TGT QP does not take, whatever the MR allows, is an invalid request.
 * Soft-RoCE raises no event for it, so that it is reported as a failure.
 */
TEST_F_TIMEOUT(mr, qp_access_flags, TIMEOUT)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		__u32 without;
		const char *what;
	} ops[] = {
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE, "WRITE" },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ, "READ" },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, IBV_ACCESS_REMOTE_ATOMIC, "CAS" },
	};
	struct xrc_rdma op;
	struct xrc_mr mr;
	unsigned int i;

	memset(self->mem, 0x5a, self->page);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, self->page, ALL,
				&mr));
	for (i = 0; i < ARRAY_SIZE(ops); i++) {
		ASSERT_EQ(0, reconnect_with(self, ALL & ~ops[i].without));
		op = on(&mr, ops[i].opcode, self->mem, 8);
		refused(_metadata, self, &op, IBV_WC_REM_INV_REQ_ERR,
			IBV_EVENT_QP_FATAL, ops[i].what);
	}
	EXPECT_TRUE(is_all(self->mem, self->page, 0x5a));
}

/* -------------------------------------------------- deregistered in use -- */

static int dereg_in_use(struct __test_metadata *_metadata, mr_t *self,
			enum ibv_wr_opcode opcode, int delay_us)
{
	const __u32 length = MIB / 4;
	struct xrc_rdma op;
	struct ib_xrc_event event;
	int i, status = 0, done = 0;
	struct ibv_wc wc;
	struct xrc_mr mr;

	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, length, ALL,
				&mr));
	op = on(&mr, opcode, self->mem, length);
	for (i = 0; i < 16; i++) {
		ASSERT_EQ(0, xrc_ini_rdma(&self->ini, &op));
	}
	/* The device sends by itself. */
	usleep(delay_us);
	ASSERT_EQ(0, xrc_mr_dereg(&self->x, &mr));
	/* From now on it is ours alone. */
	memset(self->mem, 0x3c, length);
	for (i = 0; i < 16; i++) {
		ASSERT_EQ(0, xrc_ini_wait(&self->ini, &wc, XRC_TIMEOUT_MS));
		if (status) {
			EXPECT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
		} else if (wc.status) {
			status = wc.status;
		} else {
			done++;
		}
	}
	EXPECT_TRUE(is_all(self->mem, length, 0x3c));
	EXPECT_TRUE(opcode != IBV_WR_RDMA_READ ||
		    !memchr(self->ini.buf, 0x3c, length));
	if (done < 16) {
		EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, status);
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
		EXPECT_EQ(0, xrc_event_wait(self->events, &event, XRC_TIMEOUT_MS));
		EXPECT_EQ(IB_XRC_EVENT_TGT_QP_ERROR, event.type);
		/* Soft-RoCE is silent if it was in the middle of a READ. */
		EXPECT_TRUE(event.value == IBV_EVENT_QP_ACCESS_ERR ||
			    (opcode == IBV_WR_RDMA_READ &&
			     event.value == IBV_EVENT_QP_FATAL))
			TH_LOG("event %u", event.value);
		ASSERT_EQ(0, reconnect_with(self, ALL));
	}
	return done;
}

TEST_F_TIMEOUT(mr, dereg_while_written, TIMEOUT)
{
	int i, delay = 100, hits = 0, done;

	memset(self->ini.buf, 0xc3, MIB / 4);
	for (i = 0; i < 12; i++) {
		done = dereg_in_use(_metadata, self, IBV_WR_RDMA_WRITE, delay);
		hits += done < 16;
		/* Earlier or later, to meet the middle. */
		delay = done < 16 ? delay * 2 : delay / 4;
	}
	EXPECT_LT(2, hits);
}

TEST_F_TIMEOUT(mr, dereg_while_read, TIMEOUT)
{
	int i, delay = 100, hits = 0, done;

	for (i = 0; i < 12; i++) {
		memset(self->mem, 0xc3, MIB / 4);
		memset(self->ini.buf, 0, MIB / 4);
		done = dereg_in_use(_metadata, self, IBV_WR_RDMA_READ, delay);
		hits += done < 16;
		delay = done < 16 ? delay * 2 : delay / 4;
	}
	EXPECT_LT(2, hits);
}

/* Whoever registered it is killed while a peer writes: the peer is told, no more. */
TEST_F_TIMEOUT(mr, owner_killed, TIMEOUT)
{
	struct xrc_rdma op;
	struct xrc_mr mr, mine;
	int pipes[2], status, ret, n = 0, i;
	struct xrc y;
	__u32 xrcd;
	pid_t pid;

	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, pipe(pipes));
		pid = fork();
		ASSERT_LE(0, pid);
		if (!pid) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			if (xrc_open(&y) ||
			    xrc_xrcd_open(&y, self->file, 0, &xrcd) ||
			    xrc_mr_reg(&y, xrcd, self->mem, MIB, ALL, &mr) ||
			    write(pipes[1], &mr, sizeof(mr)) != sizeof(mr))
				_exit(1);
			for (;;)
				pause();
		}
		ASSERT_EQ(sizeof(mr), read(pipes[0], &mr, sizeof(mr)));
		op = on(&mr, IBV_WR_RDMA_WRITE, self->mem, 65536);
		/* It works, and then it does not any more. */
		ASSERT_EQ(IBV_WC_SUCCESS, rdma(&self->ini, &op));
		for (n = 0; n < 8; n++) {
			ASSERT_EQ(0, xrc_ini_rdma(&self->ini, &op));
		}
		usleep(i * 3000);
		ASSERT_EQ(0, kill(pid, SIGKILL));
		ASSERT_EQ(pid, waitpid(pid, &status, 0));
		do {
			struct ibv_wc wc;

			ret = xrc_ini_wait(&self->ini, &wc, XRC_TIMEOUT_MS);
			ASSERT_EQ(0, ret);
			if (!wc.status) {
				ASSERT_EQ(0, xrc_ini_rdma(&self->ini, &op));
			} else {
				EXPECT_EQ(IBV_WC_REM_ACCESS_ERR, wc.status);
			}
			ret = wc.status;
		} while (!ret);
		EXPECT_EQ(0, xrc_tgt_wait_state(&self->x, &self->qp, IBV_QPS_ERR));
		/* What others have is as it was. */
		ASSERT_EQ(0, reconnect_with(self, ALL));
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, 100, ALL,
					&mine));
		EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mine,
						  IBV_WR_RDMA_WRITE, self->mem,
						  100));
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mine));
		close(pipes[0]);
		close(pipes[1]);
	}
}

/* ----------------------------------------------------------- the memory -- */

TEST_F_TIMEOUT(mr, kinds_of_memory, TIMEOUT)
{
	const size_t p = self->page;
	const int rw = PROT_READ | PROT_WRITE;
	__u8 *ro = map(2 * p, PROT_READ), *none = map(2 * p, PROT_NONE);
	__u8 *hole = map(3 * p, rw), *shared, *private;
	int fd = memfd_create("memory", MFD_CLOEXEC), i;
	struct xrc_mr mr;

	ASSERT_EQ(0, munmap(hole + p, p));
	ASSERT_EQ(0, ftruncate(fd, 2 * p));
	shared = mmap(NULL, 4 * p, rw, MAP_SHARED, fd, 0);
	private = mmap(NULL, 2 * p, rw, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_NE(MAP_FAILED, private);

	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, ro, p, ALL, &mr));
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, none, p, READ_ONLY,
				      &mr));
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, hole, 3 * p, ALL,
				      &mr));
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, hole + p, 1, READ_ONLY,
				      &mr));
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, NULL, p, ALL, &mr));
	/* Kernel memory. */
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd,
				      (void *)0xffffffff81000000, p, READ_ONLY,
				      &mr));
	/* Beyond the end of the file. */
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, self->xrcd, shared, 4 * p, ALL,
				      &mr));

	/* Memory that may not be written can be read. */
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, ro, 2 * p, READ_ONLY, &mr));
	memset(self->ini.buf, 1, 2 * p);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_READ, ro,
					  2 * p));
	EXPECT_TRUE(is_all(self->ini.buf, 2 * p, 0));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));

	for (i = 0; i < 2; i++) {
		__u8 *mem = i ? private : shared;

		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, mem, 2 * p, ALL,
					&mr));
		xrc_fill(self->ini.buf, 2 * p, i + 3);
		EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr,
						  IBV_WR_RDMA_WRITE, mem, 2 * p));
		EXPECT_TRUE(xrc_check(mem, 2 * p, i + 3));
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
	}
	/* The copy was written, not the file. */
	EXPECT_TRUE(xrc_check(shared, 2 * p, 3));
	close(fd);
}

/* The pages are the peer's as long as the MR is there. */
TEST_F_TIMEOUT(mr, unmapped_later, TIMEOUT)
{
	const size_t p = self->page;
	int fd = memfd_create("memory", MFD_CLOEXEC);
	struct xrc_mr mr, anonymous_mr;
	__u8 *mem, *anonymous = map(p, PROT_READ | PROT_WRITE);
	__u8 *copy = malloc(2 * p);

	ASSERT_EQ(0, ftruncate(fd, 2 * p));
	mem = mmap(NULL, 2 * p, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, mem);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, mem, 2 * p, ALL, &mr));
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, anonymous, p, ALL,
				&anonymous_mr));
	ASSERT_EQ(0, munmap(mem, 2 * p));
	ASSERT_EQ(0, munmap(anonymous, p));

	xrc_fill(self->ini.buf, 2 * p, 5);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE, mem,
					  2 * p));
	ASSERT_EQ(2 * p, pread(fd, copy, 2 * p, 0));
	EXPECT_TRUE(xrc_check(copy, 2 * p, 5));

	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &anonymous_mr,
					  IBV_WR_RDMA_WRITE, anonymous, p));
	memset(self->ini.buf, 0, p);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &anonymous_mr,
					  IBV_WR_RDMA_READ, anonymous, p));
	EXPECT_TRUE(xrc_check(self->ini.buf, p, 5));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &anonymous_mr));
	free(copy);
	close(fd);
}

/* After fork the memory is the parent's; a child may register its own. */
TEST_F_TIMEOUT(mr, fork, TIMEOUT)
{
	struct xrc_mr mr, child_mr;
	int up[2], down[2], status;
	pid_t pid;
	char c;

	memset(self->mem, 0x77, self->page);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, self->page, ALL,
				&mr));
	ASSERT_EQ(0, pipe(up));
	ASSERT_EQ(0, pipe(down));
	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* With the file of the parent. */
		if (xrc_mr_reg(&self->x, self->xrcd, self->mem + self->page, 100,
			       ALL, &child_mr) ||
		    write(up[1], &child_mr, sizeof(child_mr)) != sizeof(child_mr) ||
		    read(down[0], &c, 1) != 1)
			_exit(1);
		if (!is_all(self->mem, self->page, 0x77))
			_exit(2);
		_exit(xrc_check(self->mem + self->page, 100, 2) ? 0 : 3);
	}
	ASSERT_EQ(sizeof(child_mr), read(up[0], &child_mr, sizeof(child_mr)));
	xrc_fill(self->ini.buf, self->page, 1);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE,
					  self->mem, self->page));
	EXPECT_TRUE(xrc_check(self->mem, self->page, 1));
	xrc_fill(self->ini.buf, 100, 2);
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &child_mr, IBV_WR_RDMA_WRITE,
					  self->mem + self->page, 100));
	EXPECT_TRUE(is_all(self->mem + self->page, 100, 0));
	EXPECT_EQ(1, write(down[1], "", 1));
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);

	/* It is of the file, which is still open. */
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &child_mr, IBV_WR_RDMA_WRITE,
					  self->mem + self->page, 100));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &child_mr));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
	close(up[0]);
	close(up[1]);
	close(down[0]);
	close(down[1]);
}

/* ------------------------------------ memory that waits for a process -- */

/*
 * Memory is refused whose page faults are for another process to answer, even if the
 * pages are there now: nobody waits for that process.
 */
TEST_F_TIMEOUT(mr, userfaultfd, TIMEOUT)
{
	static const struct {
		bool shared;
		__u64 mode;
		const char *what;
	} kinds[] = {
		{ false, UFFDIO_REGISTER_MODE_MISSING, "anonymous" },
		{ false, UFFDIO_REGISTER_MODE_WP, "anonymous, write-protected" },
		{ true, UFFDIO_REGISTER_MODE_MISSING, "memfd" },
		{ true, UFFDIO_REGISTER_MODE_MINOR, "memfd, minor" },
	};
	const size_t p = self->page;
	struct xrc_mr mr;
	unsigned int i;
	int fd, uffd;
	__u8 *mem;

	for (i = 0; i < 2 * ARRAY_SIZE(kinds); i++) {
		const char *what = kinds[i / 2].what;

		fd = kinds[i / 2].shared ? memfd_create("memory", MFD_CLOEXEC) : -1;
		if (fd >= 0)
			ASSERT_EQ(0, ftruncate(fd, 4 * p));
		mem = mmap(NULL, 4 * p, PROT_READ | PROT_WRITE, fd < 0 ?
			   MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
		ASSERT_NE(MAP_FAILED, mem);
		if (i % 2)
			memset(mem, 1, 4 * p);
		uffd = memory_uffd(mem + p, p, kinds[i / 2].mode);
		ASSERT_LE(0, uffd)
			TH_LOG("%s", what);
		EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, mem + p, p,
						  ALL, &mr))
			TH_LOG("%s", what);
		EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, mem + p, 1,
						  READ_ONLY, &mr));
		EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, mem + 1,
						  4 * p - 1, ALL, &mr));
		/* It has the pages only that it asked for. */
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, mem, p, ALL, &mr));
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, mem + 2 * p, 2 * p,
					ALL, &mr));
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		/* And all, when the other one has nothing to say any more. */
		ASSERT_EQ(0, memory_uffd_forget(uffd, mem + p, p));
		ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, mem, 4 * p, ALL,
					&mr))
			TH_LOG("%s", what);
		EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		close(uffd);
		close(fd);
		munmap(mem, 4 * p);
	}
}

TEST_F_TIMEOUT(mr, fuse, TIMEOUT)
{
	const int rw = PROT_READ | PROT_WRITE;
	const size_t p = self->page;
	struct memory_fuse fuse;
	__u8 *shared, *private;
	struct xrc_mr mr;

	ASSERT_EQ(0, memory_fuse_open(&fuse));
	shared = mmap(NULL, 2 * p, rw, MAP_SHARED, fuse.fd, 0);
	private = mmap(NULL, 2 * p, rw, MAP_PRIVATE, fuse.fd, 0);
	ASSERT_NE(MAP_FAILED, shared);
	ASSERT_NE(MAP_FAILED, private);
	EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, shared, p,
					  READ_ONLY, &mr));
	EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, shared, p, ALL,
					  &mr));
	EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, private, p,
					  READ_ONLY, &mr));
	EXPECT_EQ(-EOPNOTSUPP, xrc_mr_reg(&self->x, self->xrcd, private + p, p,
					  ALL, &mr));
	EXPECT_FALSE(fuse.waited_for);
	memory_fuse_close(&fuse);
}

/* ------------------------------------------------- errnos, as of uverbs -- */

TEST_F_TIMEOUT(mr, errnos_of_uverbs, TIMEOUT)
{
	const __u64 a = (uintptr_t)self->mem, p = self->page;
	const struct {
		__u64 addr, length, iova;
		__u32 access;
	} calls[] = {
		{ a, p, a, 0 },
		{ a, p, a, ALL },
		{ a, p, a, IBV_ACCESS_LOCAL_WRITE },
		{ a, p, a, IBV_ACCESS_REMOTE_WRITE },
		{ a, p, a, IBV_ACCESS_REMOTE_ATOMIC },
		{ a, p, a, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ },
		{ a, p, a, 1U << 10 },
		{ a, p, a, 1U << 19 },
		{ a, p, a, 1U << 31 },
		{ a, p, a + p, ALL },
		{ a, p, a + 1, ALL },
		{ a + 1, 1, 0, ALL },
		{ a + 1, 1, 1, ALL },
		{ a, 0, a, ALL },
		{ a + 1, 0, a + 1, ALL },
		{ a, ~0ULL, a, ALL },
		{ a, -a, a, ALL },
		{ a, -a - 1, a, ALL },
		{ a, -a - p, a, ALL },
		{ a, 1ULL << 47, a, ALL },
		{ a, 1ULL << 60, a, ALL },
		{ 0, p, 0, ALL },
		{ ~0ULL, 1, ~0ULL, ALL },
		{ -p, p, -p, ALL },
		{ 1ULL << 47, p, 1ULL << 47, ALL },
	};
	struct ibv_mr *theirs;
	struct xrc_mr mr;
	unsigned int i;
	int ret, want;

	for (i = 0; i < ARRAY_SIZE(calls); i++) {
		errno = 0;
		theirs = ibv_reg_mr_iova2(self->ini.pd, (void *)calls[i].addr,
					  calls[i].length, calls[i].iova,
					  calls[i].access);
		want = theirs ? 0 : -errno;
		if (theirs) {
			ASSERT_EQ(0, ibv_dereg_mr(theirs));
		}
		ret = xrc_mr_reg_iova(&self->x, self->xrcd,
				      (void *)calls[i].addr, calls[i].length,
				      &calls[i].iova, calls[i].access, &mr);
		EXPECT_EQ(want, ret)
			TH_LOG("call %u: %#llx + %#llx as %#llx, access %#x", i,
			       calls[i].addr, calls[i].length, calls[i].iova,
			       calls[i].access);
		if (!ret) {
			EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
		}
	}
}

TEST_F_TIMEOUT(mr, flags, TIMEOUT)
{
	static const __u32 not_taken[] = {
		IB_UVERBS_ACCESS_MW_BIND, IB_UVERBS_ACCESS_ZERO_BASED,
		IB_UVERBS_ACCESS_ON_DEMAND, IB_UVERBS_ACCESS_HUGETLB,
		IB_UVERBS_ACCESS_FLUSH_GLOBAL, IB_UVERBS_ACCESS_FLUSH_PERSISTENT,
	};
	struct xrc_mr mr;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(not_taken); i++) {
		EXPECT_EQ(-EOPNOTSUPP,
			  xrc_mr_reg(&self->x, self->xrcd, self->mem, 1,
				     ALL | not_taken[i], &mr))
			TH_LOG("%#x", not_taken[i]);
	}
	/* Those are for the driver to take or leave. */
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, 1,
				ALL | IB_UVERBS_ACCESS_OPTIONAL_RANGE, &mr));
	EXPECT_EQ(IBV_WC_SUCCESS, rdma_on(&self->ini, &mr, IBV_WR_RDMA_WRITE,
					  self->mem, 1));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
}

TEST_F_TIMEOUT(mr, handles, TIMEOUT)
{
	const int before = xrc_kernel_objects();
	struct ib_xrc_ring_info ring;
	struct xrc_mr mr[3];
	__u32 xrcd, i;
	struct xrc y;

	ASSERT_EQ(0, xrc_open(&y));
	ASSERT_EQ(0, xrc_xrcd_open(&y, self->file, 0, &xrcd));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_mr_reg(&y, xrcd, self->mem, 100, ALL, &mr[i]));
	}
	EXPECT_NE(mr[0].rkey, mr[1].rkey);
	EXPECT_EQ(before + 3, xrc_kernel_objects());
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&y, xrcd));
	EXPECT_EQ(0, xrc_mr_dereg(&y, &mr[0]));
	EXPECT_EQ(-ENOENT, xrc_mr_dereg(&y, &mr[0]));
	EXPECT_EQ(-ENOENT, xrc_mr_dereg(&self->x, &(struct xrc_mr){ .handle = 99 }));
	/* There is nothing to map. */
	ring.mmap_offset = (__u64)mr[1].handle << 12;
	ring.mmap_length = self->page;
	errno = 0;
	EXPECT_EQ(MAP_FAILED, xrc_ring_map(&y, &ring));
	EXPECT_EQ(EINVAL, errno);
	EXPECT_EQ(0, xrc_mr_dereg(&y, &mr[1]));
	EXPECT_EQ(-EBUSY, xrc_xrcd_close(&y, xrcd));
	EXPECT_EQ(0, xrc_mr_dereg(&y, &mr[2]));
	EXPECT_EQ(0, xrc_xrcd_close(&y, xrcd));
	EXPECT_EQ(before, xrc_kernel_objects());

	/* They go with the file. */
	ASSERT_EQ(0, xrc_xrcd_open(&y, self->file, 0, &xrcd));
	for (i = 0; i < 3; i++) {
		ASSERT_EQ(0, xrc_mr_reg(&y, xrcd, self->mem, 100, ALL, &mr[i]));
	}
	xrc_close(&y);
	EXPECT_EQ(0, xrc_wait_kernel_objects(before));
}

TEST_F_TIMEOUT(mr, only_for_those_who_may_use, TIMEOUT)
{
	const struct ib_xrc_policy policy = {
		.flags = IB_XRC_DOMAIN_USE_NEEDS_WRITE,
	};
	const struct xrc_xrcd_opts opts = { .policy = &policy };
	char path[] = "/tmp/xrc-mr-XXXXXX";
	int fd = mkstemp(path), ro = open(path, O_RDONLY);
	__u32 xrcd, look;
	struct xrc_mr mr;

	ASSERT_EQ(0, unlink(path));
	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, fd, O_CREAT, &opts, &xrcd));
	ASSERT_EQ(0, xrc_xrcd_open(&self->x, ro, 0, &look));
	EXPECT_EQ(-EACCES, xrc_mr_reg(&self->x, look, self->mem, 1, ALL, &mr));
	EXPECT_EQ(0, xrc_mr_reg(&self->x, xrcd, self->mem, 1, ALL, &mr));
	close(fd);
	close(ro);
}

/* ---------------------------------------------------------------- limits -- */

TEST_F_TIMEOUT(mr, quota, TIMEOUT)
{
	const size_t p = self->page;
	struct ib_xrc_policy policy = { .max_bytes = 4 * p };
	const struct xrc_xrcd_opts opts = { .policy = &policy };
	struct xrc_mr mr, other;
	__u32 xrcd;

	ASSERT_EQ(0, xrc_xrcd_open_with(&self->x, XRC_NO_FD, 0, &opts, &xrcd));
	EXPECT_EQ(0, domain_bytes(&self->x, xrcd));
	/* Pages that are touched count, however little of them. */
	ASSERT_EQ(0, xrc_mr_reg(&self->x, xrcd, self->mem + p - 1, 2, ALL, &mr));
	EXPECT_EQ(2 * p, domain_bytes(&self->x, xrcd));
	EXPECT_EQ(-EDQUOT, xrc_mr_reg(&self->x, xrcd, self->mem, 2 * p + 1, ALL,
				      &other));
	EXPECT_EQ(-EDQUOT, xrc_mr_reg(&self->x, xrcd, self->mem, 1ULL << 40, ALL,
				      &other));
	/* What fails otherwise counts nothing. */
	EXPECT_EQ(-EFAULT, xrc_mr_reg(&self->x, xrcd, NULL, p, ALL, &other));
	EXPECT_EQ(2 * p, domain_bytes(&self->x, xrcd));
	ASSERT_EQ(0, xrc_mr_reg(&self->x, xrcd, self->mem, 2 * p, ALL, &other));
	EXPECT_EQ(4 * p, domain_bytes(&self->x, xrcd));
	EXPECT_EQ(-EDQUOT, xrc_mr_reg(&self->x, xrcd, self->mem, 1, ALL, &mr));
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &other));
	EXPECT_EQ(2 * p, domain_bytes(&self->x, xrcd));
	/* The default domain of the fixture has no limit. */
	EXPECT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem, MIB, ALL, &mr));
}

/* An exit status that says where it went wrong. */
#define NEED(what) do { if (!(what)) _exit(__LINE__ & 0xff ?: 1); } while (0)

TEST_F_TIMEOUT(mr, memlock, TIMEOUT)
{
	const long long p = self->page, before = pinned();
	struct rlimit limit = { 4 * p, 4 * p };
	struct xrc_mr mr, other;
	int status;
	pid_t pid;

	ASSERT_LE(0, before);
	ASSERT_EQ(0, xrc_mr_reg(&self->x, self->xrcd, self->mem + 1, 2 * p, ALL,
				&mr));
	EXPECT_EQ(before + 3 * p, pinned());
	EXPECT_EQ(0, xrc_mr_dereg(&self->x, &mr));
	EXPECT_EQ(before, pinned());

	pid = fork();
	ASSERT_LE(0, pid);
	if (!pid) {
		NEED(!setrlimit(RLIMIT_MEMLOCK, &limit));
		NEED(!setuid(NOBODY));
		NEED(!xrc_mr_reg(&self->x, self->xrcd, self->mem, 3 * p, ALL, &mr));
		NEED(xrc_mr_reg(&self->x, self->xrcd, self->mem, 2 * p, ALL,
				&other) == -ENOMEM);
		NEED(pinned() == 3 * p);
		NEED(!xrc_mr_reg(&self->x, self->xrcd, self->mem, p, ALL, &other));
		NEED(!xrc_mr_dereg(&self->x, &mr));
		NEED(pinned() == p);
		NEED(!xrc_mr_reg(&self->x, self->xrcd, self->mem, 3 * p, ALL, &mr));
		NEED(!xrc_mr_dereg(&self->x, &mr));
		NEED(!xrc_mr_dereg(&self->x, &other));
		/* A failure gives back what it took. */
		NEED(xrc_mr_reg(&self->x, self->xrcd, NULL, p, ALL, &mr) == -EFAULT);
		NEED(pinned() == 0);
		limit.rlim_cur = 0;
		NEED(!setrlimit(RLIMIT_MEMLOCK, &limit));
		NEED(xrc_mr_reg(&self->x, self->xrcd, self->mem, 1, ALL, &mr) ==
		     -EPERM);
		_exit(0);
	}
	EXPECT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_TRUE(WIFEXITED(status));
	EXPECT_EQ(0, WEXITSTATUS(status))
		TH_LOG("line %d, modulo 256", WEXITSTATUS(status));
}

TEST_HARNESS_MAIN
