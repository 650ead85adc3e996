/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The C API from C: the header compiles on its own, everything in it is in the
 * library, and NULL gives EINVAL. Needs neither the kernel module nor a device.
 */
#include <infiniband/xrc.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

static int failed;

static void check(const char *what, long long got, long long want)
{
	if (got != want) {
		printf("%s: %lld instead of %lld\n", what, got, want);
		failed = 1;
	}
}

#define EINVALS(call) check(#call, (call), EINVAL)

#define FAILS(call, value)						\
	do {								\
		errno = 0;						\
		check(#call, (long long)(call), (long long)(value));	\
		check("errno of " #call, errno, EINVAL);		\
	} while (0)

int main(void)
{
	struct ib_xrc_xrcd_info xrcd_info;
	struct ibv_recv_wr recv_wr = { .wr_id = 1 }, *bad_recv_wr = NULL;
	struct ibv_send_wr send_wr = { .wr_id = 1 }, *bad_send_wr = NULL;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	struct ibxrc_xrcd_init_attr xrcd_attr = { .fd = -1 };
	struct ibxrc_tgt_qp_init_attr qp_attr = { 0 };
	struct ibxrc_srq_init_attr srq_attr = { .max_wr = 1, .max_sge = 1 };
	struct ibv_srq_attr srq_state;
	struct ib_xrc_disconnect_info disconnect_info;
	struct ib_xrc_policy policy;
	struct ib_xrc_event event;
	struct ibxrc_context *context;
	struct ibxrc_wc wc;
	void *cq_context;
	uint32_t count;
	int ret;

	check("first message", strlen(ibxrc_error_message()), 0);

	EINVALS(ibxrc_list_devices(NULL, 0, NULL));
	FAILS(ibxrc_open(NULL), 0);
	EINVALS(ibxrc_close(NULL));
	EINVALS(ibxrc_query(NULL, NULL, NULL));

	FAILS(ibxrc_create_event_file(NULL, IB_XRC_EVENT_FILE_DEPTH), 0);
	EINVALS(ibxrc_destroy_event_file(NULL));
	FAILS(ibxrc_event_file_fd(NULL), -1);
	FAILS(ibxrc_read_events(NULL, 1, &event), -1);

	FAILS(ibxrc_open_xrcd(NULL, -1, 0), 0);
	FAILS(ibxrc_open_xrcd_ex(NULL, &xrcd_attr), 0);
	EINVALS(ibxrc_close_xrcd(NULL));
	EINVALS(ibxrc_query_xrcd(NULL, &xrcd_info));
	EINVALS(ibxrc_query_xrcd_policy(NULL, &policy));
	EINVALS(ibxrc_list_tgt_qps(NULL, NULL, 0, &count));
	EINVALS(ibxrc_list_srqs(NULL, NULL, 0, &count));

	FAILS(ibxrc_create_tgt_qp(NULL), 0);
	FAILS(ibxrc_create_tgt_qp_ex(NULL, &qp_attr), 0);
	FAILS(ibxrc_open_tgt_qp(NULL, 1), 0);
	FAILS(ibxrc_open_tgt_qp_ex(NULL, 1, &qp_attr), 0);
	EINVALS(ibxrc_close_tgt_qp(NULL));
	check("ibxrc_tgt_qp_num(NULL)", ibxrc_tgt_qp_num(NULL), 0);
	EINVALS(ibxrc_modify_tgt_qp(NULL, &attr, IBV_QP_STATE));
	EINVALS(ibxrc_modify_tgt_qpn(NULL, 1, &attr, IBV_QP_STATE));
	EINVALS(ibxrc_query_tgt_qp(NULL, NULL, NULL));
	EINVALS(ibxrc_query_tgt_qpn(NULL, 1, NULL, NULL));
	EINVALS(ibxrc_connect_tgt_qp(NULL, &attr, IBV_QP_STATE, NULL));
	EINVALS(ibxrc_connect_tgt_qpn(NULL, 1, &attr, IBV_QP_STATE, NULL));
	EINVALS(ibxrc_connect_tgt_qp_timeout(NULL, &attr, IBV_QP_STATE, 1, NULL));
	EINVALS(ibxrc_connect_tgt_qpn_timeout(NULL, 1, &attr, IBV_QP_STATE, 1,
					      NULL));
	EINVALS(ibxrc_disconnect_tgt_qp(NULL, 0, &disconnect_info));
	EINVALS(ibxrc_disconnect_tgt_qpn(NULL, 1, 0, &disconnect_info));
	EINVALS(ibxrc_disconnect_close_tgt_qp(NULL, 0, &disconnect_info));
	EINVALS(ibxrc_list_tgt_qp_holders(NULL, NULL, 0, &count));
	EINVALS(ibxrc_list_tgt_qpn_holders(NULL, 1, NULL, 0, &count));

	FAILS(ibxrc_create_comp_channel(NULL), 0);
	EINVALS(ibxrc_destroy_comp_channel(NULL));
	FAILS(ibxrc_comp_channel_fd(NULL), -1);
	EINVALS(ibxrc_get_cq_event(NULL, &cq_context));
	FAILS(ibxrc_create_cq(NULL, 1, NULL, NULL), 0);
	EINVALS(ibxrc_destroy_cq(NULL));
	FAILS(ibxrc_poll_cq(NULL, 1, &wc), -1);
	EINVALS(ibxrc_req_notify_cq(NULL, 0));

	FAILS(ibxrc_create_srq(NULL, NULL, 1, 1, NULL), 0);
	FAILS(ibxrc_create_srq_ex(NULL, NULL, &srq_attr), 0);
	EINVALS(ibxrc_set_srq_limit(NULL, 1));
	EINVALS(ibxrc_query_srq(NULL, &srq_state));
	EINVALS(ibxrc_destroy_srq(NULL));
	check("ibxrc_get_srq_num(NULL)", ibxrc_get_srq_num(NULL), 0);
	EINVALS(ibxrc_post_srq_recv(NULL, &recv_wr, &bad_recv_wr));
	check("bad_wr", bad_recv_wr == &recv_wr, 1);

	FAILS(ibxrc_reg_mr(NULL, &attr, sizeof(attr), 0), 0);
	FAILS(ibxrc_reg_mr_iova(NULL, &attr, sizeof(attr), 0, 0), 0);
	check("ibxrc_mr_rkey(NULL)", ibxrc_mr_rkey(NULL), 0);
	EINVALS(ibxrc_dereg_mr(NULL));

	FAILS(ibxrc_create_ini_qp(NULL, NULL), 0);
	EINVALS(ibxrc_destroy_ini_qp(NULL));
	EINVALS(ibxrc_post_ini_send(NULL, &send_wr, &bad_send_wr));
	check("bad_wr", bad_send_wr == &send_wr, 1);
	FAILS(ibxrc_ini_completed(NULL, &wc.wc), -1);
	FAILS(ibxrc_ini_flushed(NULL, &wc.wc), -1);
	EINVALS(ibxrc_reset_ini_qp(NULL));

	/* Where the module is not loaded, it says what to do. */
	ret = ibxrc_list_devices(NULL, 0, &count);
	if (ret == ENOENT)
		check("modprobe in the message",
		      strstr(ibxrc_error_message(), "modprobe") != NULL, 1);
	errno = 0;
	context = ibxrc_open_index(UINT32_MAX);
	check("an impossible index", context == NULL, 1);
	check("its errno", errno == ENOENT || errno == ENODEV || errno == EACCES, 1);
	context = ibxrc_open("no such device");
	check("an impossible name", context == NULL, 1);

	puts(failed ? "capi: FAILED" : "capi: ok");
	return failed;
}
