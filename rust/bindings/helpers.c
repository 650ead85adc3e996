// SPDX-License-Identifier: GPL-2.0

#include "helpers.h"

/* ----------------------------------------------------------------- rdma -- */

#include <linux/cgroup_rdma.h>
#include <linux/nsproxy.h>
#include <linux/sched.h>
#include <rdma/opa_addr.h>
#include <rdma/uverbs_ioctl.h>

void ib_xrc_helper_get_device(struct ib_device *device)
{
	get_device(&device->dev);
}

void ib_xrc_helper_put_device(struct ib_device *device)
{
	put_device(&device->dev);
}

/* A task that is exiting has left its name spaces. */
bool ib_xrc_helper_rdma_dev_access_current_netns(const struct ib_device *device)
{
	return current->nsproxy && rdma_dev_access_netns(device, current->nsproxy->net_ns);
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

void ib_xrc_helper_init_ib_event_handler(struct ib_event_handler *event_handler,
					 struct ib_device *device,
					 void (*handler)(struct ib_event_handler *event_handler,
							 struct ib_event *event))
{
	INIT_IB_EVENT_HANDLER(event_handler, device, handler);
}

/* As uverbs does for a modify of a QP. */
void ib_xrc_helper_ah_attr_from_uapi(struct ib_device *device, struct rdma_ah_attr *dst,
				     const struct ib_uverbs_ah_attr *src)
{
	dst->type = rdma_ah_find_type(device, src->port_num);
	if (src->is_global) {
		rdma_ah_set_grh(dst, NULL, src->grh.flow_label, src->grh.sgid_index,
				src->grh.hop_limit, src->grh.traffic_class);
		rdma_ah_set_dgid_raw(dst, (void *)src->grh.dgid);
	} else {
		rdma_ah_set_ah_flags(dst, 0);
	}
	rdma_ah_set_dlid(dst, src->dlid);
	rdma_ah_set_sl(dst, src->sl);
	rdma_ah_set_path_bits(dst, src->src_path_bits);
	rdma_ah_set_static_rate(dst, src->static_rate);
	rdma_ah_set_port_num(dst, src->port_num);
	rdma_ah_set_make_grd(dst, false);
}

/*
 * As ib_copy_ah_attr_to_user(), which is in ib_uverbs.ko, but that LIDs longer than 16
 * bits (OPA) are cut off.
 */
void ib_xrc_helper_ah_attr_to_uapi(struct ib_uverbs_ah_attr *dst, const struct rdma_ah_attr *src)
{
	memset(dst, 0, sizeof(*dst));
	dst->dlid = rdma_ah_get_dlid(src);
	dst->sl = rdma_ah_get_sl(src);
	dst->src_path_bits = rdma_ah_get_path_bits(src);
	dst->static_rate = rdma_ah_get_static_rate(src);
	dst->port_num = rdma_ah_get_port_num(src);
	if (rdma_ah_get_ah_flags(src) & IB_AH_GRH) {
		const struct ib_global_route *grh = rdma_ah_read_grh(src);

		dst->is_global = 1;
		memcpy(dst->grh.dgid, grh->dgid.raw, sizeof(dst->grh.dgid));
		dst->grh.flow_label = grh->flow_label;
		dst->grh.sgid_index = grh->sgid_index;
		dst->grh.hop_limit = grh->hop_limit;
		dst->grh.traffic_class = grh->traffic_class;
	}
}

struct ib_pd *ib_xrc_helper_ib_alloc_pd(struct ib_device *device, unsigned int flags)
{
	return ib_alloc_pd(device, flags);
}

void ib_xrc_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

struct ib_cq *ib_xrc_helper_ib_alloc_cq_any(struct ib_device *device, void *private, int nr_cqe,
					    enum ib_poll_context poll_ctx)
{
	return ib_alloc_cq_any(device, private, nr_cqe, poll_ctx);
}

struct ib_qp *ib_xrc_helper_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr)
{
	return ib_create_qp(pd, attr);
}

int ib_xrc_helper_ib_destroy_qp(struct ib_qp *qp)
{
	return ib_destroy_qp(qp);
}

/*
 * The core resolves a RoCE destination of a modify for user QPs only, which a driver
 * tells by the udata, so none may be made up. For an AH it does so for kernel QPs too.
 */
static int resolve_destination(struct ib_pd *pd, struct rdma_ah_attr *attr)
{
	struct ib_ah *ah;

	ah = rdma_create_user_ah(pd, attr, NULL);
	if (IS_ERR(ah))
		return PTR_ERR(ah);

	rdma_destroy_ah(ah, RDMA_DESTROY_AH_SLEEPABLE);
	return 0;
}

int ib_xrc_helper_ib_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask)
{
	int ret;

	if ((mask & IB_QP_AV) && attr->ah_attr.type == RDMA_AH_ATTR_TYPE_ROCE) {
		ret = resolve_destination(qp->pd, &attr->ah_attr);
		if (ret)
			return ret;
	}

	return ib_modify_qp(qp, attr, mask);
}

int ib_xrc_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			       const struct ib_recv_wr **bad_wr)
{
	return ib_post_recv(qp, wr, bad_wr);
}

/* What uverbs counts by ib_rdmacg_try_charge(), whose header is the core's own. */
#ifdef CONFIG_CGROUP_RDMA
static enum rdmacg_resource_type resource(bool handle)
{
	return handle ? RDMACG_RESOURCE_HCA_HANDLE : RDMACG_RESOURCE_HCA_OBJECT;
}

int ib_xrc_helper_rdmacg_try_charge(struct ib_device *device, bool handle, struct rdma_cgroup **cg)
{
	return rdmacg_try_charge(cg, &device->cg_device, resource(handle));
}

void ib_xrc_helper_rdmacg_uncharge(struct ib_device *device, bool handle, struct rdma_cgroup *cg)
{
	rdmacg_uncharge(cg, &device->cg_device, resource(handle));
}
#else
int ib_xrc_helper_rdmacg_try_charge(struct ib_device *device, bool handle, struct rdma_cgroup **cg)
{
	return 0;
}

void ib_xrc_helper_rdmacg_uncharge(struct ib_device *device, bool handle, struct rdma_cgroup *cg)
{
}
#endif

int ib_xrc_helper_ib_check_mr_access(struct ib_device *device, unsigned int flags)
{
	return ib_check_mr_access(device, flags);
}

bool ib_xrc_helper_ib_access_writable(int access_flags)
{
	return ib_access_writable(access_flags);
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

#include <linux/capability.h>
#include <linux/highmem.h>
#include <linux/kdev_t.h>
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/uaccess.h>
#include <linux/userfaultfd_k.h>

bool ib_xrc_helper_fatal_signal_pending(void)
{
	return fatal_signal_pending(current);
}

bool ib_xrc_helper_file_owner_or_capable(struct file *file)
{
	return file_owner_or_capable(file);
}

u32 ib_xrc_helper_new_encode_dev(dev_t dev)
{
	return new_encode_dev(dev);
}

void ib_xrc_helper_memcpy_to_page(struct page *page, size_t offset, const char *from, size_t len)
{
	memcpy_to_page(page, offset, from, len);
}

unsigned long ib_xrc_helper_untagged_addr_remote(struct mm_struct *mm, unsigned long addr)
{
	return untagged_addr_remote(mm, addr);
}

bool ib_xrc_helper_userfaultfd_armed(struct vm_area_struct *vma)
{
	return userfaultfd_armed(vma);
}

/* As ib_umem_get() has it. */
bool ib_xrc_helper_may_pin(struct mm_struct *mm, unsigned long pages)
{
	unsigned long limit = rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT;
	unsigned long pinned = atomic64_read(&mm->pinned_vm);

	return (pinned <= limit && pages <= limit - pinned) || capable(CAP_IPC_LOCK);
}

struct mem_cgroup *ib_xrc_helper_get_mem_cgroup_from_mm(struct mm_struct *mm)
{
	return get_mem_cgroup_from_mm(mm);
}

void ib_xrc_helper_mem_cgroup_put(struct mem_cgroup *memcg)
{
	mem_cgroup_put(memcg);
}

struct mem_cgroup *ib_xrc_helper_set_active_memcg(struct mem_cgroup *memcg)
{
	return set_active_memcg(memcg);
}
