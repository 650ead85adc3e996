/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* The C API at work: memory of a domain. */
#include "capi_util.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
	     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* Posts the first bytes of the buffer and says with what status that completes. */
static int rdma(struct sender *s, enum ibv_wr_opcode opcode, uint64_t addr,
		uint32_t rkey, uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)s->buffer, length, s->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	struct ibv_wc wc;

	if (ibxrc_post_ini_send(s->ini, &wr, &bad) || !poll_sender(s, &wc))
		return -1;
	return wc.status;
}

void test_mr(struct ibxrc_context *context, const char *device)
{
	long page = sysconf(_SC_PAGESIZE);
	struct sender s = { 0 };
	struct ibxrc_xrcd *xrcd = ibxrc_open_xrcd(context, -1, 0);
	struct ibxrc_mr *mr, *other;
	struct ibxrc_tgt_qp *tgt;
	struct ibv_qp_attr attr;
	char *memory = NULL;

	need(xrcd && !posix_memalign((void **)&memory, page, page),
	     "a domain and memory");
	memset(memory, 0, page);
	need(open_sender(&s, device), "a sender's QP");
	tgt = ibxrc_create_tgt_qp(xrcd);
	need(tgt != NULL, "a TGT QP");
	attr = rtr_attr(&s, s.qp->qp_num, SEND_PSN);
	attr.qp_access_flags = ALL;
	need(!ibxrc_connect_tgt_qp(tgt, &attr, INIT_MASK | RTR_MASK, NULL) &&
	     connect_sender(&s, ibxrc_tgt_qp_num(tgt)), "they are connected");

	errno = 0;
	report(!ibxrc_reg_mr(xrcd, memory, page, IBV_ACCESS_REMOTE_WRITE) &&
	       errno == EINVAL, "no remote writes without local writes");
	errno = 0;
	report(!ibxrc_reg_mr(xrcd, memory, page, ALL | IBV_ACCESS_ON_DEMAND) &&
	       errno == EOPNOTSUPP, "nothing is paged on demand");
	errno = 0;
	report(!ibxrc_reg_mr(xrcd, NULL, page, ALL) && errno == EFAULT,
	       "no memory where there is none");
	errno = 0;
	report(!ibxrc_reg_mr_iova(xrcd, memory, page, 1, ALL) && errno == EINVAL,
	       "no address of another offset");
	mr = ibxrc_reg_mr(xrcd, memory, page, ALL);
	need(mr && ibxrc_mr_rkey(mr), "memory is registered");
	other = ibxrc_reg_mr_iova(xrcd, memory, page, 16 * page,
				  IBV_ACCESS_REMOTE_READ);
	need(other && ibxrc_mr_rkey(other) != ibxrc_mr_rkey(mr),
	     "and once more, by another address");
	report(ibxrc_close_xrcd(xrcd) == EBUSY, "the domain does not close");

	strcpy(s.buffer, "written");
	report(!rdma(&s, IBV_WR_RDMA_WRITE, (uintptr_t)memory + 5,
		     ibxrc_mr_rkey(mr), 8) && !strcmp(memory + 5, "written"),
	       "the sender writes to it");
	strcpy(memory, "read");
	report(!rdma(&s, IBV_WR_RDMA_READ, 16 * page, ibxrc_mr_rkey(other), 5) &&
	       !strcmp(s.buffer, "read"), "the sender reads it");
	report(rdma(&s, IBV_WR_RDMA_WRITE, 16 * page, ibxrc_mr_rkey(other), 5) ==
	       IBV_WC_REM_ACCESS_ERR, "but writes not what it may only read");

	report(!ibxrc_dereg_mr(mr) && !ibxrc_dereg_mr(other),
	       "it is deregistered");
	close_sender(&s);
	report(!ibxrc_close_tgt_qp(tgt) && !ibxrc_close_xrcd(xrcd),
	       "the domain closes");
	free(memory);
}
