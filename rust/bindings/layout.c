// SPDX-License-Identifier: GPL-2.0
/*
 * Never linked: its assembly tells Kbuild the layout of C types, against which
 * mod.rs checks what bindgen made of them.
 */

#define COMPILE_OFFSETS

#include <linux/kbuild.h>
#include <linux/stddef.h>
#include <rdma/ib_user_xrc.h>
#include <rdma/ib_verbs.h>

#define SIZE(type) \
	asm volatile("\n.ascii \"->" #type " %0 size\"" : : "i" (sizeof(struct type)))
#define AT(type, field) \
	asm volatile("\n.ascii \"->" #type "__dot__" #field " %0 offset\"" \
		     : : "i" (offsetof(struct type, field)))

int main(void)
{
	/* --------------------------------------------------- rdma, uapi -- */

	SIZE(ib_client);
	SIZE(ib_cq);
	SIZE(ib_cqe);
	SIZE(ib_device);
	AT(ib_device, attrs);
	AT(ib_device, index);
	AT(ib_device, node_guid);
	AT(ib_device, phys_port_cnt);
	SIZE(ib_device_attr);
	SIZE(ib_event);
	AT(ib_event, element);
	AT(ib_event, event);
	SIZE(ib_event_handler);
	SIZE(ib_mr);
	AT(ib_mr, rkey);
	SIZE(ib_pd);
	AT(ib_pd, local_dma_lkey);
	SIZE(ib_qp);
	AT(ib_qp, qp_num);
	SIZE(ib_qp_attr);
	AT(ib_qp_attr, ah_attr);
	AT(ib_qp_attr, rate_limit);
	SIZE(ib_qp_init_attr);
	AT(ib_qp_init_attr, cap);
	AT(ib_qp_init_attr, qp_type);
	SIZE(ib_recv_wr);
	AT(ib_recv_wr, num_sge);
	SIZE(ib_sge);
	SIZE(ib_wc);
	AT(ib_wc, byte_len);
	AT(ib_wc, ex);
	AT(ib_wc, wc_flags);
	SIZE(rdma_ah_attr);

	SIZE(ib_uverbs_attr);
	SIZE(ib_uverbs_comp_event_desc);
	SIZE(ib_uverbs_ioctl_hdr);
	SIZE(ib_uverbs_qp_attr);
	SIZE(ib_xrc_cq_ring);
	SIZE(ib_xrc_cqe);
	SIZE(ib_xrc_device_info);
	SIZE(ib_xrc_disconnect_info);
	SIZE(ib_xrc_event);
	SIZE(ib_xrc_holder_info);
	SIZE(ib_xrc_limits);
	SIZE(ib_xrc_policy);
	SIZE(ib_xrc_recv_wqe);
	SIZE(ib_xrc_ring_info);
	SIZE(ib_xrc_srq_attr);
	SIZE(ib_xrc_srq_info);
	SIZE(ib_xrc_srq_ring);
	SIZE(ib_xrc_tgt_qp_info);
	SIZE(ib_xrc_wire_hdr);
	SIZE(ib_xrc_xrcd_info);

	/* ------------------------------------------------ linux, uverbs -- */

	return 0;
}
