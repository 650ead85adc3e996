// SPDX-License-Identifier: GPL-2.0
/*
 * A program that is not linked with libibverbs, but loads it. Run under "ibxrc run".
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
#include <infiniband/verbs.h>

#include "kselftest_harness.h"

FIXTURE(loaded)
{
	void *library;
};

FIXTURE_SETUP(loaded)
{
	/* Not for others: a search of all that is loaded does not find it. */
	self->library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
	ASSERT_NE(NULL, self->library);
}

FIXTURE_TEARDOWN(loaded)
{
	dlclose(self->library);
}

/* The file that an address belongs to. */
static const char *file_of(void *address)
{
	Dl_info info;

	return address && dladdr(address, &info) ? info.dli_fname : "nowhere";
}

static bool is_of_libibverbs(void *address)
{
	return strstr(file_of(address), "/libibverbs.so");
}

/* The device has XRC, as for a program that is linked with the library. */
TEST_F(loaded, device_has_xrc)
{
	struct ibv_device **(*get_device_list)(int *n);
	const char *(*get_device_name)(struct ibv_device *device);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
	int (*close_device)(struct ibv_context *context);
	void (*free_device_list)(struct ibv_device **list);
	const char *wanted = getenv("XRC_DEVICE");
	struct ibv_context *context = NULL;
	struct ibv_device_attr attr = {};
	struct ibv_device **list;
	int i;

	get_device_list = dlsym(self->library, "ibv_get_device_list");
	get_device_name = dlsym(self->library, "ibv_get_device_name");
	open_device = dlvsym(self->library, "ibv_open_device", "IBVERBS_1.1");
	query_device = dlsym(self->library, "ibv_query_device");
	close_device = dlsym(self->library, "ibv_close_device");
	free_device_list = dlsym(self->library, "ibv_free_device_list");
	list = get_device_list(NULL);
	ASSERT_NE(NULL, list);
	for (i = 0; list[i] && !context; i++)
		if (!wanted || !strcmp(get_device_name(list[i]), wanted))
			context = open_device(list[i]);
	free_device_list(list);
	ASSERT_NE(NULL, context);
	ASSERT_EQ(0, query_device(context, &attr));
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_XRC);
	EXPECT_EQ(0, close_device(context));
}

/* What has another meaning than that of today is not ours, and so is what is not replaced. */
TEST_F(loaded, what_is_replaced)
{
	void *today = dlvsym(self->library, "ibv_open_device", "IBVERBS_1.1");
	void *old = dlvsym(self->library, "ibv_open_device", "IBVERBS_1.0");

	EXPECT_NE(NULL, today);
	EXPECT_FALSE(is_of_libibverbs(today)) {
		TH_LOG("%s", file_of(today));
	}
	EXPECT_EQ(today, dlsym(self->library, "ibv_open_device"));
	EXPECT_TRUE(is_of_libibverbs(old));
	EXPECT_TRUE(is_of_libibverbs(dlsym(self->library, "ibv_rate_to_mbps")));
	/* It has no such version. */
	EXPECT_EQ(NULL, dlvsym(self->library, "ibv_open_device", "IBVERBS_0.9"));
}

/* What depends on who asks is told to us, and not to somebody between. */
TEST_F(loaded, next_and_default)
{
	void *program = dlopen(NULL, RTLD_NOW);
	void *ours = dlsym(self->library, "ibv_open_device");

	ASSERT_NE(NULL, program);
	/* The first one after the program is that which was preloaded. */
	EXPECT_EQ(ours, dlsym(RTLD_NEXT, "ibv_open_device"));
	EXPECT_EQ(ours, dlsym(RTLD_DEFAULT, "ibv_open_device"));
	EXPECT_EQ(ours, dlsym(program, "ibv_open_device"));
	EXPECT_EQ(ours, dlvsym(RTLD_DEFAULT, "ibv_open_device", "IBVERBS_1.1"));
	EXPECT_EQ(NULL, dlsym(RTLD_DEFAULT, "ibv_rate_to_mbps"));
	EXPECT_EQ((void *)getpid, dlsym(RTLD_NEXT, "getpid"));
	EXPECT_EQ((void *)getpid, dlsym(program, "getpid"));
	dlclose(program);
}

TEST_F(loaded, errors)
{
	dlerror();
	EXPECT_NE(NULL, dlsym(self->library, "ibv_open_device"));
	EXPECT_EQ(NULL, dlerror());
	EXPECT_EQ(NULL, dlsym(self->library, "ibv_there_is_no_such_function"));
	EXPECT_NE(NULL, dlerror());
	EXPECT_EQ(NULL, dlsym(RTLD_NEXT, "there_is_no_such_function"));
	EXPECT_NE(NULL, dlerror());
	EXPECT_EQ(NULL, dlerror());
}

TEST_HARNESS_MAIN
