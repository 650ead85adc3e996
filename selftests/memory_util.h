/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory whose page faults wait for a process: userfaultfd(2), and files on FUSE.
 *
 * Functions return 0 (or what their comment says) or a negative errno.
 */
#ifndef MEMORY_UTIL_H
#define MEMORY_UTIL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

/* A userfaultfd for the memory (UFFDIO_REGISTER_MODE_*), which nobody reads. */
int memory_uffd(void *addr, size_t length, __u64 mode);
/* Give up waiting for the pages. */
int memory_uffd_forget(int uffd, void *addr, size_t length);

#define MEMORY_FUSE_SIZE (64 * 1024)

/*
 * A file on FUSE of MEMORY_FUSE_SIZE bytes. What is to be read from it is never
 * answered, nor what is written back to it.
 */
struct memory_fuse {
	int fd;
	/* The same file: before it is mapped, what was written is to be written back. */
	int direct;
	int dev;
	int stop[2];
	unsigned int opened;
	/* Somebody waits for an answer that will not come. */
	volatile bool waited_for;
	pthread_t server;
};

int memory_fuse_open(struct memory_fuse *fuse);
/*
 * Leave the files to a child. Who serves a file that he has open himself and is killed
 * would otherwise wait for himself: it is flushed before the last file is let go.
 */
void memory_fuse_leave_files(struct memory_fuse *fuse);
/* Who waits for it gets an error. */
void memory_fuse_close(struct memory_fuse *fuse);

#endif /* MEMORY_UTIL_H */
