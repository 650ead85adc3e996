/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_xrc.h>

/* bindgen does not evaluate macros that use sizeof. */
enum {
	IBXRC_VERBS_IOCTL = RDMA_VERBS_IOCTL,
};
