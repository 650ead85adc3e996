// SPDX-License-Identifier: GPL-2.0
/*
 * What XRC objects do not have, objects of other contexts, memory, contexts that are closed
 * with objects left, several devices and threads. Run under "ibxrc run".
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "kselftest_harness.h"
#include "compat_util.h"
#include "scale.h"

#define TIMEOUT (180 * xrc_scale())

FIXTURE(misc)
{
	struct rig rig;
	/* The XRC QPs. */
	struct ibv_qp *qps[2];
};

FIXTURE_SETUP(misc)
{
	ASSERT_EQ(0, rig_open(&self->rig));
	self->qps[0] = self->rig.ini;
	self->qps[1] = self->rig.tgt;
	ASSERT_EQ(0, rig_connect(&self->rig));
}

FIXTURE_TEARDOWN(misc)
{
	rig_close(&self->rig);
}

TEST_F_TIMEOUT(misc, multicast_is_for_ud, TIMEOUT)
{
	int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(EINVAL, ibv_attach_mcast(self->qps[i], &self->rig.gid, 0));
		EXPECT_EQ(EINVAL, ibv_detach_mcast(self->qps[i], &self->rig.gid, 0));
	}
	EXPECT_EQ(NULL, rig_exchange(&self->rig, 64));
}

TEST_F_TIMEOUT(misc, no_connection_options, TIMEOUT)
{
	struct ibv_ece ece = { .vendor_id = 1 };
	int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(EOPNOTSUPP, ibv_query_ece(self->qps[i], &ece));
		EXPECT_EQ(EOPNOTSUPP, ibv_set_ece(self->qps[i], &ece));
		EXPECT_EQ(0, ibv_query_qp_data_in_order(self->qps[i], IBV_WR_SEND, 0));
	}
	EXPECT_EQ(EOPNOTSUPP, ibv_modify_qp_rate_limit(self->rig.ini,
						       &(struct ibv_qp_rate_limit_attr){}));
	EXPECT_EQ(EINVAL, ibv_modify_qp_rate_limit(self->rig.tgt,
						   &(struct ibv_qp_rate_limit_attr){}));
	EXPECT_EQ(NULL, rig_exchange(&self->rig, 64));
}

TEST_F_TIMEOUT(misc, no_memory_windows, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_mw_bind bind = {
		.bind_info = {
			.mr = rig->mr,
			.addr = (uintptr_t)rig->buf,
			.length = 4096,
			.mw_access_flags = IBV_ACCESS_REMOTE_READ,
		},
	};
	struct ibv_send_wr *bad = NULL, wr = { .opcode = IBV_WR_BIND_MW };
	struct ibv_mw *mw;

	mw = ibv_alloc_mw(rig->pd, IBV_MW_TYPE_1);
	ASSERT_NE(NULL, mw);
	EXPECT_EQ(EOPNOTSUPP, ibv_bind_mw(rig->ini, mw, &bind));
	EXPECT_EQ(EOPNOTSUPP, ibv_bind_mw(rig->tgt, mw, &bind));
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = bind.bind_info;
	EXPECT_EQ(EOPNOTSUPP, ibv_post_send(rig->ini, &wr, &bad));
	EXPECT_EQ(&wr, bad);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	EXPECT_EQ(NULL, rig_exchange(rig, 64));
}

TEST_F_TIMEOUT(misc, no_flows, TIMEOUT)
{
	struct ibv_flow_attr attr = {
		.type = IBV_FLOW_ATTR_NORMAL,
		.size = sizeof(attr),
		.port = RIG_PORT,
	};
	int i;

	for (i = 0; i < 2; i++) {
		errno = 0;
		EXPECT_EQ(NULL, ibv_create_flow(self->qps[i], &attr));
		EXPECT_EQ(EINVAL, errno);
	}
}

TEST_F_TIMEOUT(misc, no_tags, TIMEOUT)
{
	struct ibv_ops_wr *bad = NULL, op = { .opcode = IBV_WR_TAG_SYNC };

	EXPECT_EQ(EINVAL, ibv_post_srq_ops(self->rig.srq, &op, &bad));
	EXPECT_EQ(&op, bad);
}

TEST_F_TIMEOUT(misc, nothing_to_post_to, TIMEOUT)
{
	struct ibv_recv_wr *bad_recv = NULL, recv = { .wr_id = 1 };
	struct ibv_send_wr *bad_send = NULL, send = { .wr_id = 1 };
	int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(EINVAL, ibv_post_recv(self->qps[i], &recv, &bad_recv));
		EXPECT_EQ(&recv, bad_recv);
	}
	EXPECT_EQ(EINVAL, ibv_post_send(self->rig.tgt, &send, &bad_send));
	EXPECT_EQ(&send, bad_send);
}

/* An XRC SRQ is not for RC QPs; others have their own as ever. */
TEST_F_TIMEOUT(misc, srq_of_an_rc_qp, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_init_attr attr = {
		.send_cq = rig->send_cq,
		.recv_cq = rig->recv_cq,
		.srq = rig->srq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp_init_attr_ex ex = {
		.send_cq = rig->send_cq,
		.recv_cq = rig->recv_cq,
		.srq = rig->srq,
		.cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
		.pd = rig->pd,
	};
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	errno = 0;
	EXPECT_EQ(NULL, ibv_create_qp(rig->pd, &attr));
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	EXPECT_EQ(NULL, ibv_create_qp_ex(rig->context, &ex));
	EXPECT_EQ(EINVAL, errno);

	srq = ibv_create_srq(rig->pd, &srq_attr);
	ASSERT_NE(NULL, srq);
	attr.srq = srq;
	qp = ibv_create_qp(rig->pd, &attr);
	ASSERT_NE(NULL, qp);
	EXPECT_EQ(0, ibv_destroy_qp(qp));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
}

/* What belongs to another context of the device is refused, and stays usable there. */
TEST_F_TIMEOUT(misc, objects_of_another_context, TIMEOUT)
{
	struct rig other, mixed;

	ASSERT_EQ(0, rig_open(&other));
	ASSERT_EQ(0, rig_connect(&other));

	mixed = self->rig;
	mixed.pd = other.pd;
	errno = 0;
	EXPECT_EQ(NULL, rig_create_srq(&mixed, mixed.recv_cq, 8));
	EXPECT_EQ(EINVAL, errno);
	/* With neither bit set the PD says which context it is. */
	errno = 0;
	EXPECT_EQ(NULL, rig_create_ini(&mixed, mixed.send_cq, IBV_QP_EX_WITH_SEND));
	EXPECT_EQ(EINVAL, errno);

	mixed = self->rig;
	mixed.xrcd = other.xrcd;
	errno = 0;
	EXPECT_EQ(NULL, rig_create_srq(&mixed, mixed.recv_cq, 8));
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	EXPECT_EQ(NULL, rig_create_tgt(&mixed));
	EXPECT_EQ(EINVAL, errno);

	mixed = self->rig;
	errno = 0;
	EXPECT_EQ(NULL, rig_create_srq(&mixed, other.recv_cq, 8));
	EXPECT_EQ(EINVAL, errno);
	errno = 0;
	EXPECT_EQ(NULL, rig_create_ini(&mixed, other.send_cq, 0));
	EXPECT_EQ(EINVAL, errno);

	EXPECT_EQ(NULL, rig_exchange(&self->rig, 64));
	EXPECT_EQ(NULL, rig_exchange(&other, 64));
	rig_close(&other);
}

/* The key is that of the XRC domain as long as the PD has to do with one. */
TEST_F_TIMEOUT(misc, keys_of_memory, TIMEOUT)
{
	struct rig *rig = &self->rig;
	char *there = rig_recv_buf(rig);
	struct ibv_mr *early = rig->mr, *late, *apart, *local;
	struct ibv_pd *pd;
	__u32 key;

	EXPECT_EQ(NULL, rig_write(rig, early, there));
	late = ibv_reg_mr(rig->pd, there, 4096, RIG_ACCESS);
	ASSERT_NE(NULL, late);
	EXPECT_EQ(NULL, rig_write(rig, late, there));

	/* Not all providers can change memory; then it is as before. */
	key = late->rkey;
	if (ibv_rereg_mr(late, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIG_ACCESS))
		EXPECT_EQ(key, late->rkey);
	EXPECT_EQ(NULL, rig_write(rig, late, there));
	EXPECT_EQ(0, ibv_dereg_mr(late));
	EXPECT_NE(NULL, rig_write(rig, &(struct ibv_mr){ .rkey = key }, there));

	/* Memory of other PDs, and what is for nobody else, is left alone. */
	pd = ibv_alloc_pd(rig->context);
	ASSERT_NE(NULL, pd);
	apart = ibv_reg_mr(pd, there, 4096, RIG_ACCESS);
	local = ibv_reg_mr(rig->pd, there, 4096, IBV_ACCESS_LOCAL_WRITE);
	ASSERT_NE(NULL, apart);
	ASSERT_NE(NULL, local);
	EXPECT_EQ(apart->lkey, apart->rkey);
	EXPECT_NE(early->lkey, early->rkey);
	EXPECT_EQ(0, ibv_dereg_mr(local));
	EXPECT_EQ(0, ibv_dereg_mr(apart));
	EXPECT_EQ(0, ibv_dealloc_pd(pd));

	ibv_destroy_qp(rig->ini);
	ibv_destroy_qp(rig->tgt);
	ibv_destroy_srq(rig->srq);
	EXPECT_EQ(0, ibv_close_xrcd(rig->xrcd));
	EXPECT_EQ(early->lkey, early->rkey);
	rig->ini = NULL;
	rig->tgt = NULL;
	rig->srq = NULL;
	rig->xrcd = NULL;
}

/* A PD with SRQs of two domains: the second one takes over when the first is closed. */
TEST_F_TIMEOUT(misc, memory_of_two_domains, TIMEOUT)
{
	struct rig *rig = &self->rig;
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	char *there = rig_recv_buf(rig);
	struct rig second = *rig;

	second.xrcd = ibv_open_xrcd(rig->context, &attr);
	ASSERT_NE(NULL, second.xrcd);
	second.srq = rig_create_srq(&second, second.recv_cq, 8);
	second.tgt = rig_create_tgt(&second);
	second.ini = rig_create_ini(&second, second.send_cq, 0);
	ASSERT_NE(NULL, second.srq);
	ASSERT_NE(NULL, second.tgt);
	ASSERT_NE(NULL, second.ini);
	ASSERT_EQ(0, ibv_get_srq_num(second.srq, &second.srq_num));
	ASSERT_EQ(0, rig_connect(&second));
	EXPECT_EQ(NULL, rig_exchange(&second, 64));
	EXPECT_EQ(NULL, rig_write(rig, rig->mr, there));

	ibv_destroy_qp(rig->ini);
	ibv_destroy_qp(rig->tgt);
	ibv_destroy_srq(rig->srq);
	EXPECT_EQ(0, ibv_close_xrcd(rig->xrcd));
	EXPECT_NE(rig->mr->lkey, rig->mr->rkey);
	EXPECT_EQ(NULL, rig_write(&second, rig->mr, there));
	EXPECT_EQ(NULL, rig_exchange(&second, 64));
	/* It is what is to be closed. */
	*rig = second;
}

/* How many entries a directory has whose link says so; all of them if it is NULL. */
static int count(const char *path, const char *link)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	char target[128];
	ssize_t n;
	int found = 0;

	if (!dir)
		return -1;
	while ((entry = readdir(dir))) {
		if (*entry->d_name == '.')
			continue;
		n = link ? readlinkat(dirfd(dir), entry->d_name, target,
				      sizeof(target) - 1) : 0;
		if (n < 0)
			continue;
		target[n] = 0;
		found += !link || !strcmp(link, target);
	}
	closedir(dir);
	return found;
}

/* A thread that was joined is there for another moment. */
static int threads_left(void)
{
	int i;

	for (i = 0; i < 100 && count("/proc/self/task", NULL) != 1; i++)
		usleep(20 * 1000);
	return count("/proc/self/task", NULL) - 1;
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

/* Nothing of ib_xrc outlives a context that is closed with everything still there. */
TEST_F_TIMEOUT(alone, closed_with_objects_left, TIMEOUT)
{
	struct rig rig;
	int i;

	for (i = 0; i < 5; i++) {
		ASSERT_EQ(0, rig_open(&rig));
		ASSERT_EQ(0, rig_connect(&rig));
		EXPECT_EQ(NULL, rig_exchange(&rig, 65536));
		/* Of this there is more than the RC QP takes at a time. */
		ASSERT_EQ(0, rig_post_recv(&rig, rig.srq, 1, 0, RIG_BUF_SIZE));
		ASSERT_EQ(0, rig_post_send(&rig, rig.ini, 2, rig.srq_num, 0, RIG_BUF_SIZE,
					   0));
		EXPECT_LT(0, count("/proc/self/fd", "/dev/infiniband/xrc"));
		EXPECT_LT(1, count("/proc/self/task", NULL));
		EXPECT_EQ(0, ibv_close_device(rig.context));
		EXPECT_EQ(0, count("/proc/self/fd", "/dev/infiniband/xrc"));
		EXPECT_EQ(0, threads_left());
	}
	/* Closing them is no longer possible, but others work. */
	ASSERT_EQ(0, rig_open(&rig));
	ASSERT_EQ(0, rig_connect(&rig));
	EXPECT_EQ(NULL, rig_exchange(&rig, 65536));
	rig_close(&rig);
}

/* Several contexts of a device at a time, opened and closed by threads. */
static void *use_device(void *rounds)
{
	struct rig rig;
	const char *wrong = NULL;
	int i;

	for (i = 0; i < *(int *)rounds && !wrong; i++) {
		if (rig_open(&rig))
			return "rig_open";
		wrong = rig_connect(&rig) ? "rig_connect" : rig_exchange(&rig, 4096);
		rig_close(&rig);
	}
	return (void *)wrong;
}

#define THREADS 4

TEST_F_TIMEOUT(alone, contexts_of_threads, TIMEOUT)
{
	pthread_t threads[THREADS];
	int i, rounds = 4;
	void *wrong;

	for (i = 0; i < THREADS; i++)
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, use_device, &rounds));
	for (i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &wrong));
		EXPECT_EQ(NULL, wrong) {
			TH_LOG("thread %d: %s", i, (char *)wrong);
		}
	}
}

#define SECOND "xrcmisc0"

FIXTURE(two_devices)
{
	char *first;
};

FIXTURE_SETUP(two_devices)
{
	const char *device = getenv("XRC_DEVICE");

	self->first = strdup(device ? device : "rxe0");
	system("modprobe -q dummy");
	ASSERT_EQ(0, system("ip link add xrcmisc type dummy"));
	ASSERT_EQ(0, system("ip addr add 192.0.2.10/24 dev xrcmisc"));
	ASSERT_EQ(0, system("ip link set xrcmisc up"));
	ASSERT_EQ(0, system("rdma link add " SECOND " type rxe netdev xrcmisc"));
}

FIXTURE_TEARDOWN(two_devices)
{
	setenv("XRC_DEVICE", self->first, 1);
	free(self->first);
	EXPECT_EQ(0, system("rdma link del " SECOND "; ip link del xrcmisc"));
}

TEST_F_TIMEOUT(two_devices, each_has_its_own, TIMEOUT)
{
	struct rig first, second;
	int i;

	ASSERT_EQ(0, rig_open(&first));
	setenv("XRC_DEVICE", SECOND, 1);
	/* It gets its GIDs by and by. */
	for (i = 0; i < 100 && rig_open(&second); i++)
		usleep(100 * 1000);
	ASSERT_GT(100, i);
	EXPECT_STREQ(SECOND, ibv_get_device_name(second.context->device));
	EXPECT_STREQ(self->first, ibv_get_device_name(first.context->device));
	ASSERT_EQ(0, rig_connect(&first));
	ASSERT_EQ(0, rig_connect(&second));
	EXPECT_EQ(NULL, rig_exchange(&first, 65536));
	EXPECT_EQ(NULL, rig_exchange(&second, 65536));
	rig_close(&first);
	EXPECT_EQ(NULL, rig_exchange(&second, 64));
	rig_close(&second);
}

TEST_HARNESS_MAIN
