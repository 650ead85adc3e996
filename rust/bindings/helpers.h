/* SPDX-License-Identifier: GPL-2.0 */
/*
 * C functions for what Rust cannot call: inline functions and macros. Each does
 * what the function does after which it is named, nothing more.
 */
#ifndef IB_XRC_HELPERS_H
#define IB_XRC_HELPERS_H

#include <linux/types.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/ib_verbs.h>

struct mem_cgroup;
struct mm_struct;
struct rdma_cgroup;

/* ----------------------------------------------------------------- rdma -- */

void ib_xrc_helper_get_device(struct ib_device *device);
void ib_xrc_helper_put_device(struct ib_device *device);
bool ib_xrc_helper_rdma_dev_access_current_netns(const struct ib_device *device);
bool ib_xrc_helper_rdma_is_port_valid(const struct ib_device *device, unsigned int port);
enum rdma_ah_attr_type ib_xrc_helper_rdma_ah_find_type(struct ib_device *device, u32 port);
bool ib_xrc_helper_can_do_rc(struct ib_device *device);
void ib_xrc_helper_init_ib_event_handler(struct ib_event_handler *event_handler,
					 struct ib_device *device,
					 void (*handler)(struct ib_event_handler *event_handler,
							 struct ib_event *event));
void ib_xrc_helper_ah_attr_from_uapi(struct ib_device *device, struct rdma_ah_attr *dst,
				     const struct ib_uverbs_ah_attr *src);
void ib_xrc_helper_ah_attr_to_uapi(struct ib_uverbs_ah_attr *dst, const struct rdma_ah_attr *src);

struct ib_pd *ib_xrc_helper_ib_alloc_pd(struct ib_device *device, unsigned int flags);
void ib_xrc_helper_ib_dealloc_pd(struct ib_pd *pd);

struct ib_cq *ib_xrc_helper_ib_alloc_cq_any(struct ib_device *device, void *private, int nr_cqe,
					    enum ib_poll_context poll_ctx);

struct ib_qp *ib_xrc_helper_ib_create_qp(struct ib_pd *pd, struct ib_qp_init_attr *attr);
int ib_xrc_helper_ib_destroy_qp(struct ib_qp *qp);
int ib_xrc_helper_ib_modify_qp(struct ib_qp *qp, struct ib_qp_attr *attr, int mask);
int ib_xrc_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
			       const struct ib_recv_wr **bad_wr);

int ib_xrc_helper_rdmacg_try_charge(struct ib_device *device, bool handle,
				    struct rdma_cgroup **cg);
void ib_xrc_helper_rdmacg_uncharge(struct ib_device *device, bool handle, struct rdma_cgroup *cg);

int ib_xrc_helper_ib_check_mr_access(struct ib_device *device, unsigned int flags);
bool ib_xrc_helper_ib_access_writable(int access_flags);

u64 ib_xrc_helper_ib_dma_map_single(struct ib_device *device, void *addr, size_t size,
				    enum dma_data_direction direction);
int ib_xrc_helper_ib_dma_mapping_error(struct ib_device *device, u64 dma_addr);
void ib_xrc_helper_ib_dma_unmap_single(struct ib_device *device, u64 dma_addr, size_t size,
				       enum dma_data_direction direction);

/* -------------------------------------------------------- linux, uverbs -- */

bool ib_xrc_helper_fatal_signal_pending(void);
bool ib_xrc_helper_file_owner_or_capable(struct file *file);
u32 ib_xrc_helper_new_encode_dev(dev_t dev);
void ib_xrc_helper_memcpy_to_page(struct page *page, size_t offset, const char *from, size_t len);
unsigned long ib_xrc_helper_untagged_addr_remote(struct mm_struct *mm, unsigned long addr);
bool ib_xrc_helper_userfaultfd_armed(struct vm_area_struct *vma);
bool ib_xrc_helper_may_pin(struct mm_struct *mm, unsigned long pages);
struct mem_cgroup *ib_xrc_helper_get_mem_cgroup_from_mm(struct mm_struct *mm);
void ib_xrc_helper_mem_cgroup_put(struct mem_cgroup *memcg);
struct mem_cgroup *ib_xrc_helper_set_active_memcg(struct mem_cgroup *memcg);

#endif /* IB_XRC_HELPERS_H */
