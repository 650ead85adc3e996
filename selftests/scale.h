/* SPDX-License-Identifier: GPL-2.0 */
/*
 * How much slower than the stock kernel the kernel under test is: XRC_TIME_SCALE in the
 * environment, else 1. It multiplies how long a test waits before it gives up, and
 * nothing that a test does.
 */
#ifndef XRC_SCALE_H
#define XRC_SCALE_H

#include <stdlib.h>

static inline int xrc_scale_of(const char *name)
{
	const char *text = getenv(name);
	int scale = text ? atoi(text) : 1;

	return scale > 0 ? scale : 1;
}

static inline int xrc_scale(void)
{
	return xrc_scale_of("XRC_TIME_SCALE");
}

/* How much more memory it takes for the same: multiplies bounds from above. */
static inline int xrc_memory_scale(void)
{
	return xrc_scale_of("XRC_MEMORY_SCALE");
}

#endif
