// SPDX-License-Identifier: GPL-2.0
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "task_util.h"
#include "xrc_util.h"

int task_run(int (*run)(void *arg), void *arg)
{
	int *ret, status, result = -1;
	pid_t pid;

	ret = mmap(NULL, sizeof(*ret), PROT_READ | PROT_WRITE,
		   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (ret == MAP_FAILED)
		return -1;
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		*ret = run(arg);
		_exit(0);
	}
	if (pid > 0 && waitpid(pid, &status, 0) == pid && !status)
		result = *ret;
	munmap(ret, sizeof(*ret));
	return result;
}

int task_drop_privileges(gid_t gid)
{
	if (setgroups(0, NULL) || setresgid(gid, gid, gid) ||
	    setresuid(NOBODY, NOBODY, NOBODY))
		return -errno;
	return 0;
}

int task_send_fd(int sock, int fd)
{
	char buf[CMSG_SPACE(sizeof(int))] = {}, c = 0;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);

	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(int));
	return sendmsg(sock, &msg, 0) == 1 ? 0 : -errno;
}

int task_recv_fd(int sock)
{
	char buf[CMSG_SPACE(sizeof(int))] = {}, c;
	struct iovec iov = { &c, 1 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = buf, .msg_controllen = sizeof(buf),
	};
	struct cmsghdr *cmsg;
	int fd;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -errno;
	cmsg = CMSG_FIRSTHDR(&msg);
	if (!cmsg || cmsg->cmsg_type != SCM_RIGHTS)
		return -EPROTO;
	memcpy(&fd, CMSG_DATA(cmsg), sizeof(int));
	return fd;
}

/* ------------------------------------------------------------- cgroups -- */

#define ROOT "/sys/fs/cgroup"

static int write_file(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, value, strlen(value)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Whether the file has this word. */
static bool has_word(const char *path, const char *word)
{
	char text[256] = " ", *end;
	ssize_t n;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	n = read(fd, text + 1, sizeof(text) - 2);
	close(fd);
	text[n > 0 ? n + 1 : 1] = 0;
	for (end = strtok(text, "\n "); end; end = strtok(NULL, "\n "))
		if (!strcmp(end, word))
			return true;
	return false;
}

static int control(const char *controller, char sign)
{
	char value[32];

	snprintf(value, sizeof(value), "%c%s", sign, controller);
	return write_file(ROOT "/cgroup.subtree_control", value);
}

int cgroup_make(struct cgroup *cg, const char *controller)
{
	static unsigned int number;
	int ret;

	memset(cg, 0, sizeof(*cg));
	if (!has_word(ROOT "/cgroup.controllers", controller))
		return -ENOENT;
	snprintf(cg->controller, sizeof(cg->controller), "%s", controller);
	if (!has_word(ROOT "/cgroup.subtree_control", controller)) {
		ret = control(controller, '+');
		if (ret)
			return ret;
		cg->enabled = true;
	}
	snprintf(cg->path, sizeof(cg->path), ROOT "/xrc-test-%d-%u", getpid(),
		 number++);
	if (!mkdir(cg->path, 0755))
		return 0;
	ret = -errno;
	if (cg->enabled)
		control(controller, '-');
	return ret;
}

int cgroup_remove(struct cgroup *cg)
{
	long long end = xrc_now() + XRC_TIMEOUT_MS;
	int ret = 0;

	/* A process leaves it some time after it was waited for. */
	while (rmdir(cg->path)) {
		ret = -errno;
		if (ret != -EBUSY || xrc_now() > end)
			return ret;
		usleep(10000);
	}
	return cg->enabled ? control(cg->controller, '-') : 0;
}

int cgroup_write(const struct cgroup *cg, const char *file, const char *value)
{
	char path[160];

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	return write_file(path, value);
}

int cgroup_enter(const struct cgroup *cg)
{
	return cgroup_write(cg, "cgroup.procs", "0");
}

long long cgroup_read(const struct cgroup *cg, const char *file, const char *word)
{
	long long value = -ENODATA;
	char path[160], line[256], *at;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (value < 0 && fgets(line, sizeof(line), f)) {
		if (!*word) {
			value = atoll(line);
			break;
		}
		for (at = strtok(line, " =\n"); at; at = strtok(NULL, " =\n")) {
			if (strcmp(at, word))
				continue;
			at = strtok(NULL, " =\n");
			value = at ? atoll(at) : -ENODATA;
			break;
		}
	}
	fclose(f);
	return value;
}
