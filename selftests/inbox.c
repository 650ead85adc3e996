// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "inbox.h"

int inbox_open(struct xrc *x, __u32 xrcd, struct xrc_cq *cq, __u32 max_wr,
	       size_t size, int event_file, struct inbox *in)
{
	int ret;

	memset(in, 0, sizeof(*in));
	in->x = x;
	in->cq = cq;
	in->size = size;
	ret = xrc_srq_create_report(x, xrcd, cq, max_wr, 1, (uintptr_t)in,
				    event_file, &in->srq);
	if (ret)
		return ret;
	in->buf = mmap(NULL, size * in->srq.info.entries, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return in->buf == MAP_FAILED ? -errno : 0;
}

int inbox_close(struct inbox *in)
{
	int ret = xrc_srq_destroy(in->x, &in->srq);

	if (!ret)
		munmap(in->buf, in->size * in->srq.info.entries);
	return ret;
}

__u8 *inbox_buf(const struct inbox *in, __u64 wr_id)
{
	return in->buf + wr_id % in->srq.info.entries * in->size;
}

int inbox_post(struct inbox *in, __u32 n)
{
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_srq_post(in->x, &in->srq, in->posted,
				   inbox_buf(in, in->posted), in->size);
		if (!ret)
			in->posted++;
	}
	return ret;
}

int inbox_wait(struct inbox *in, struct ib_xrc_cqe *cqe)
{
	return xrc_cq_wait(in->cq, cqe, XRC_TIMEOUT_MS);
}

bool inbox_idle(struct inbox *in)
{
	struct ib_xrc_cqe cqe;

	return xrc_cq_wait(in->cq, &cqe, 200) == -ETIME;
}

static int wait_word(const __u32 *word, __u32 mask, __u32 value)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;

	while ((__atomic_load_n(word, __ATOMIC_ACQUIRE) & mask) != value) {
		if (xrc_now() > end)
			return -ETIME;
		usleep(200);
	}
	return 0;
}

int inbox_wait_taken(const struct inbox *in, __u32 n)
{
	return wait_word(&in->srq.ring->consumer, ~0U, n);
}

int inbox_wait_error(const struct inbox *in)
{
	return wait_word(&in->srq.ring->flags, IB_XRC_SRQ_RING_ERROR,
			 IB_XRC_SRQ_RING_ERROR);
}

int inbox_wait_waiting(const struct inbox *in, __u32 xrcd, __u32 n)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	struct ib_xrc_srq_info info;
	__u32 count;
	int ret;

	for (;;) {
		ret = xrc_list_srqs(in->x, xrcd, in->srq.srq_num - 1, &info, 1,
				    &count);
		if (ret)
			return ret;
		if (info.srq_num == in->srq.srq_num && info.waiting_msgs == n)
			return 0;
		if (xrc_now() > end)
			return -ETIME;
		usleep(1000);
	}
}

bool inbox_has(const struct inbox *in, const struct ib_xrc_cqe *cqe,
	       size_t length, unsigned int seed)
{
	return cqe->status == IBV_WC_SUCCESS && cqe->opcode == IB_XRC_WC_RECV &&
	       cqe->srq_num == in->srq.srq_num && cqe->byte_len == length &&
	       xrc_check(inbox_buf(in, cqe->wr_id), length, seed);
}

int peer_open(struct xrc *x, __u32 xrcd, unsigned int depth, size_t size,
	      struct peer *p)
{
	int ret;

	memset(p, 0, sizeof(*p));
	ret = xrc_tgt_create(x, xrcd, &p->qp);
	if (!ret)
		ret = xrc_ini_open(&p->ini, depth, size);
	return ret ? ret : xrc_ini_pair(&p->ini, x, &p->qp);
}

void peer_close(struct xrc *x, struct peer *p)
{
	xrc_tgt_close(x, &p->qp);
	xrc_ini_close(&p->ini);
}

int peer_wait_sent(struct peer *p, unsigned int n)
{
	struct ibv_wc wc;
	int ret = 0;

	while (n-- && !ret) {
		ret = xrc_ini_wait(&p->ini, &wc, XRC_TIMEOUT_MS);
		if (!ret && wc.status)
			ret = -EIO;
	}
	return ret;
}

int peer_send(struct peer *p, const struct inbox *to, size_t offset,
	      __u32 length, unsigned int seed)
{
	const struct xrc_send send = {
		.srq_num = to->srq.srq_num,
		.offset = offset,
		.length = length,
	};

	xrc_fill(p->ini.buf + offset, length, seed);
	return xrc_ini_send(&p->ini, &send);
}

int peer_send_part(struct peer *p, const struct inbox *to, __u32 flags,
		   __u32 length)
{
	return xrc_ini_send_raw(&p->ini, IBV_WR_SEND_WITH_IMM,
				to->srq.srq_num << IB_XRC_WIRE_SRQ_NUM_SHIFT |
				flags, 0, length);
}
