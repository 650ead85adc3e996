// SPDX-License-Identifier: GPL-2.0

#include "helpers.h"

/* ----------------------------------------------------------------- rdma -- */

#include <linux/nsproxy.h>
#include <linux/sched.h>

const char *ib_xrc_helper_dev_name(const struct ib_device *device)
{
	return dev_name(&device->dev);
}

bool ib_xrc_helper_rdma_dev_access_current_netns(const struct ib_device *device)
{
	return rdma_dev_access_netns(device, current->nsproxy->net_ns);
}

bool ib_xrc_helper_rdma_is_port_valid(const struct ib_device *device, unsigned int port)
{
	return rdma_is_port_valid(device, port);
}

enum rdma_ah_attr_type ib_xrc_helper_rdma_ah_find_type(struct ib_device *device, u32 port)
{
	return rdma_ah_find_type(device, port);
}

/*
 * RC as the InfiniBand architecture and RoCE have it, with verbs for the kernel:
 * iWARP's QPs are of type RC too, but are set up by a connection manager.
 */
bool ib_xrc_helper_can_do_rc(struct ib_device *device)
{
	u32 port;

	if (!device->kverbs_provider)
		return false;
	rdma_for_each_port(device, port)
		if (rdma_protocol_ib(device, port) || rdma_protocol_roce(device, port))
			return true;
	return false;
}

struct ib_pd *ib_xrc_helper_ib_alloc_pd(struct ib_device *device, unsigned int flags)
{
	return ib_alloc_pd(device, flags);
}

void ib_xrc_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

struct ib_cq *ib_xrc_helper_ib_alloc_cq(struct ib_device *device, void *private, int nr_cqe,
					int comp_vector, enum ib_poll_context poll_ctx)
{
	return ib_alloc_cq(device, private, nr_cqe, comp_vector, poll_ctx);
}

struct ib_qp *ib_xrc_helper_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	return ib_create_qp(pd, attr);
}

int ib_xrc_helper_ib_destroy_qp(struct ib_qp *qp)
{
	return ib_destroy_qp(qp);
}

/* With a udata, though an empty one, the core resolves a RoCE destination. */
int ib_xrc_helper_ib_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	struct ib_udata udata = {};

	return ib_modify_qp_with_udata(qp, attr, mask, &udata);
}

int ib_xrc_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			       const struct ib_recv_wr **bad_wr)
{
	return ib_post_recv(qp, wr, bad_wr);
}

u64 ib_xrc_helper_ib_dma_map_single(struct ib_device *device, void *addr, size_t size,
				    enum dma_data_direction direction)
{
	return ib_dma_map_single(device, addr, size, direction);
}

int ib_xrc_helper_ib_dma_mapping_error(struct ib_device *device, u64 dma_addr)
{
	return ib_dma_mapping_error(device, dma_addr);
}

void ib_xrc_helper_ib_dma_unmap_single(struct ib_device *device, u64 dma_addr, size_t size,
				       enum dma_data_direction direction)
{
	ib_dma_unmap_single(device, dma_addr, size, direction);
}

/* -------------------------------------------------------- linux, uverbs -- */
