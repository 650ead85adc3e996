/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What bindgen reads. Sorted alphabetically within each section.
 */

/*
 * First, so that no enum is used before it is defined: bindgen takes the wrong
 * type for such an enum (rust-bindgen issue 3179).
 */
#include <linux/hrtimer_types.h>

/* ----------------------------------------------------------- rdma, uapi -- */

#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_xrc.h>

/* -------------------------------------------------------- linux, uverbs -- */

#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/poll.h>
#include <linux/vmalloc.h>

/* The C functions of the module. */
#include "helpers.h"
