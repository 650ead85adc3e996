/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Processes with fewer rights than the test, and cgroups for them.
 *
 * Functions return 0 (or what their comment says) or a negative errno.
 */
#ifndef TASK_UTIL_H
#define TASK_UTIL_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/types.h>

#define NOBODY 65534

/* Which call did not return what it should, and what it returned. */
#define UNEXPECTED(call, ret) ((call) * 1000 + abs((int)(ret)))

/* Run it in a process of its own; what it returns, or -1 if it died. */
int task_run(int (*run)(void *arg), void *arg);
/* Become a user without privileges, in this group and no other. */
int task_drop_privileges(gid_t gid);
int task_send_fd(int sock, int fd);
/* The descriptor. */
int task_recv_fd(int sock);

/* ------------------------------------------------------------- cgroups -- */

struct cgroup {
	char path[96];
	bool enabled;	/* the controller, by us */
	char controller[16];
};

/* A new one below the root, with this controller. -ENOENT: the kernel has it not. */
int cgroup_make(struct cgroup *cg, const char *controller);
/* Its processes must have ended. */
int cgroup_remove(struct cgroup *cg);
int cgroup_write(const struct cgroup *cg, const char *file, const char *value);
/* The calling process enters it. */
int cgroup_enter(const struct cgroup *cg);
/*
 * The number after this word in the file, "" if the file has nothing but a number; or a
 * negative errno.
 */
long long cgroup_read(const struct cgroup *cg, const char *file, const char *word);

#endif /* TASK_UTIL_H */
