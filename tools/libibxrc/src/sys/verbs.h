/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
#include <infiniband/verbs.h>
#include <infiniband/xrc.h>
#include <infiniband/xrc_ofed.h>
