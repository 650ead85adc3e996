// SPDX-License-Identifier: GPL-2.0
/*
 * Programs that fork while they use XRC, and go on. Run under "ibxrc run".
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (240 * xrc_scale())

FIXTURE(forking)
{
	struct rig rig;
	int first_fd;
};

FIXTURE_VARIANT(forking)
{
	bool init;
};

FIXTURE_VARIANT_ADD(forking, plain)
{
	.init = false,
};

FIXTURE_VARIANT_ADD(forking, fork_init)
{
	.init = true,
};

FIXTURE_SETUP(forking)
{
	self->first_fd = dup(0);
	close(self->first_fd);
	if (variant->init)
		ASSERT_EQ(0, ibv_fork_init());
	ASSERT_EQ(0, rig_open(&self->rig));
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(forking)
{
	rig_close(&self->rig);
}

/* A message and an RDMA WRITE go through. Returns what is wrong, or NULL. */
static const char *traffic(struct rig *rig, __u32 length)
{
	const char *wrong = rig_exchange(rig, length);

	return wrong ? wrong : rig_write(rig, rig->mr, rig_recv_buf(rig));
}

/* What a child that does this ends with: 0, unless it hangs. */
static int ends(pid_t child)
{
	int status = -1;

	return child > 0 && waitpid(child, &status, 0) == child ? status : -1;
}

TEST_F_TIMEOUT(forking, child_exits, TIMEOUT)
{
	pid_t child;

	EXPECT_EQ(NULL, traffic(&self->rig, 4096));
	fflush(NULL);
	child = fork();
	if (!child) {
		alarm(60);
		exit(0);
	}
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
	EXPECT_EQ(0, ends(child));
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
}

/* It has written to all memory that it may, while its parent goes on. */
TEST_F_TIMEOUT(forking, child_stays, TIMEOUT)
{
	int go[2];
	pid_t child;
	char c;

	ASSERT_EQ(0, pipe(go));
	child = fork();
	if (!child) {
		alarm(60);
		close(go[1]);
		if (!variant->init)
			memset(self->rig.buf, 0, 2 * RIG_BUF_SIZE);
		_exit(read(go[0], &c, 1));
	}
	close(go[0]);
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
	close(go[1]);
	EXPECT_EQ(0, ends(child));
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
}

/* It inherits nothing. */
TEST_F_TIMEOUT(forking, child_executes, TIMEOUT)
{
	int fd, flags, open = 0;

	for (fd = self->first_fd; fd < self->first_fd + 64; fd++) {
		flags = fcntl(fd, F_GETFD);
		if (flags < 0)
			continue;
		open++;
		EXPECT_TRUE(flags & FD_CLOEXEC) {
			TH_LOG("descriptor %d", fd);
		}
	}
	EXPECT_LT(2, open);
	EXPECT_EQ(0, system("true"));
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
}

/* It closes what it has of the device; its parent's is another's. */
TEST_F_TIMEOUT(forking, child_closes, TIMEOUT)
{
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		alarm(60);
		exit(ibv_close_device(self->rig.context));
	}
	EXPECT_EQ(0, ends(child));
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
}

/* What it opens after that has nothing to do with what it closed, wherever it is. */
TEST_F_TIMEOUT(forking, child_closes_and_opens, TIMEOUT)
{
	struct ibv_device *device = self->rig.context->device;
	struct ibv_context *own;
	pid_t child;
	int i;

	fflush(NULL);
	child = fork();
	if (!child) {
		alarm(60);
		if (ibv_close_device(self->rig.context))
			_exit(1);
		for (i = 0; i < 8; i++) {
			own = ibv_open_device(device);
			if (!own || ibv_close_device(own))
				_exit(2);
		}
		_exit(0);
	}
	EXPECT_EQ(0, ends(child));
	EXPECT_EQ(NULL, traffic(&self->rig, RIG_BUF_SIZE));
}

TEST_F_TIMEOUT(forking, child_opens_its_own, TIMEOUT)
{
	struct rig own;
	pid_t child;

	child = fork();
	if (!child) {
		alarm(120);
		if (rig_open(&own))
			_exit(1);
		if (rig_connect(&own) || traffic(&own, 65536))
			_exit(2);
		rig_close(&own);
		_exit(0);
	}
	EXPECT_EQ(NULL, traffic(&self->rig, 65536));
	EXPECT_EQ(0, ends(child));
	EXPECT_EQ(NULL, traffic(&self->rig, 65536));
}

static bool stop;

static void *make_objects(void *arg)
{
	struct rig *rig = arg;
	struct ibv_srq *srq;
	struct ibv_cq *cq;

	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		cq = ibv_create_cq(rig->context, 16, NULL, rig->channel, 0);
		srq = cq ? rig_create_srq(rig, cq, 16) : NULL;
		if (!srq || ibv_destroy_srq(srq) || ibv_destroy_cq(cq))
			return "an object could not be made or destroyed";
	}
	return NULL;
}

/* Whatever a thread does meanwhile, the child is not held up by it. */
TEST_F_TIMEOUT(forking, among_threads, TIMEOUT)
{
	struct ibv_context *own;
	pthread_t thread;
	pid_t child;
	void *wrong;
	int i;

	ASSERT_EQ(0, pthread_create(&thread, NULL, make_objects, &self->rig));
	for (i = 0; i < 20; i++) {
		child = fork();
		if (!child) {
			alarm(60);
			own = ibv_open_device(self->rig.context->device);
			_exit(!own || ibv_close_device(own));
		}
		EXPECT_EQ(0, ends(child));
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, &wrong));
	EXPECT_EQ(NULL, wrong);
	EXPECT_EQ(NULL, traffic(&self->rig, 4096));
}

FIXTURE(alone)
{
};

FIXTURE_SETUP(alone)
{
}

FIXTURE_TEARDOWN(alone)
{
}

/* A daemon: the device is opened by who goes on. */
TEST_F_TIMEOUT(alone, daemon, TIMEOUT)
{
	struct ibv_context *before = rig_open_device();
	struct rig rig;
	pid_t child;

	ASSERT_NE(NULL, before);
	child = fork();
	if (!child) {
		alarm(120);
		setsid();
		if (ibv_close_device(before) || rig_open(&rig))
			_exit(1);
		if (rig_connect(&rig) || traffic(&rig, 65536))
			_exit(2);
		rig_close(&rig);
		_exit(0);
	}
	EXPECT_EQ(0, ibv_close_device(before));
	EXPECT_EQ(0, ends(child));
}

TEST_HARNESS_MAIN
