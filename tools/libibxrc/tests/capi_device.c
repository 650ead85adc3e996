/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * The C API at work: one process is receiver and sender. Needs the kernel module
 * and a Soft-RoCE device; exits with 4 if there is none (TAP, as kselftest wants it).
 *
 * usage: ibxrc-capi-test [DEVICE]
 */
#include "capi_util.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : getenv("XRC_DEVICE");
	static char buffers[3][BUFFER_SIZE];
	struct ib_xrc_device_info devices[16], device;
	struct ib_xrc_limits limits;
	struct ib_xrc_xrcd_info xrcd_info;
	struct ib_xrc_tgt_qp_info info[2];
	struct ibxrc_context *context;
	struct ibxrc_xrcd *xrcd, *second;
	struct ibxrc_tgt_qp *tgt, *opened;
	struct ibxrc_comp_channel *channel;
	struct ibxrc_cq *cq;
	struct ibxrc_srq *srq;
	struct ibxrc_wc wc[3];
	struct sender s = { 0 };
	struct ibv_qp_attr attr;
	enum ibv_qp_state state = IBV_QPS_ERR;
	struct ibv_sge recv_sge[3], send_sge[2];
	struct ibv_recv_wr recv_wr[3], *bad_recv_wr = NULL;
	struct ibv_send_wr send_wr[2], *bad_send_wr = NULL;
	struct pollfd pollfd = { .events = POLLIN };
	char path[] = "/tmp/ibxrc-capi-XXXXXX";
	uint32_t count = 0, i, found = 0;
	void *cq_context = NULL;
	int fd, ret;

	if (!name)
		name = "rxe0";
	printf("TAP version 13\n");
	context = ibxrc_open(name);
	if (!context) {
		printf("1..0 # SKIP %s\n", ibxrc_error_message());
		return 4;
	}

	ret = ibxrc_list_devices(devices, 16, &count);
	for (i = 0; !ret && i < count && i < 16; i++)
		found |= !strcmp((char *)devices[i].name, name);
	report(!ret && found, "the device is listed");
	report(!ibxrc_list_devices(NULL, 0, &i) && i == count, "and counted");
	ret = ibxrc_query(context, &device, &limits);
	report(!ret && !strcmp((char *)device.name, name) && limits.max_cqe,
	       "it is described");

	fd = mkstemp(path);
	need(fd >= 0 && !unlink(path), "a temporary file");
	errno = 0;
	report(!ibxrc_open_xrcd(context, fd, 0) && errno == EAGAIN,
	       "a domain is not made without O_CREAT");
	xrcd = ibxrc_open_xrcd(context, fd, O_CREAT);
	need(xrcd != NULL, "a domain is made");
	errno = 0;
	report(!ibxrc_open_xrcd(context, fd, O_CREAT | O_EXCL) && errno == EINVAL,
	       "and not made again");
	errno = 0;
	report(!ibxrc_open_xrcd(context, 9999, O_CREAT) && errno == EBADF,
	       "a bad descriptor is told");
	second = ibxrc_open_xrcd(context, fd, 0);
	need(second != NULL, "a second handle on it");
	close(fd);
	report(!ibxrc_query_xrcd(xrcd, &xrcd_info) && xrcd_info.handles == 2,
	       "it has two handles");

	channel = ibxrc_create_comp_channel(context);
	need(channel != NULL, "a completion channel");
	cq = ibxrc_create_cq(context, 16, &cq, channel);
	need(cq != NULL, "a CQ");
	errno = 0;
	report(!ibxrc_create_cq(context, -1, NULL, NULL) && errno == EINVAL,
	       "no CQ of -1 entries");
	srq = ibxrc_create_srq(xrcd, cq, 8, 1, &srq);
	need(srq != NULL, "an SRQ");

	need(open_sender(&s, name), "the sender's QP");
	tgt = ibxrc_create_tgt_qp(xrcd);
	need(tgt != NULL, "a TGT QP");
	attr = rtr_attr(&s, s.qp->qp_num, SEND_PSN);
	need(!ibxrc_connect_tgt_qp(tgt, &attr, INIT_MASK | RTR_MASK, &state) &&
	     state == IBV_QPS_RTR, "it is connected");
	report(ibxrc_connect_tgt_qp(tgt, &attr, INIT_MASK | RTR_MASK, &state) ==
	       EINVAL && state == IBV_QPS_RTR, "but not twice");
	memset(&attr, 0, sizeof(attr));
	ret = ibxrc_query_tgt_qpn(second, ibxrc_tgt_qp_num(tgt), &attr, info);
	report(!ret && attr.qp_state == IBV_QPS_RTR && info[0].refs == 1 &&
	       attr.dest_qp_num == s.qp->qp_num && attr.rq_psn == SEND_PSN &&
	       attr.ah_attr.grh.sgid_index == s.gid_index &&
	       !memcmp(&attr.ah_attr.grh.dgid, &s.gid, sizeof(s.gid)),
	       "its attributes are those that it was given");
	opened = ibxrc_open_tgt_qp(second, ibxrc_tgt_qp_num(tgt));
	need(opened != NULL, "a second registration");
	ret = ibxrc_list_tgt_qps(second, info, 2, &count);
	report(!ret && count == 1 && info[0].refs == 2 &&
	       info[0].qp_num == ibxrc_tgt_qp_num(opened), "it is listed");
	attr.rate_limit = 1;
	report(ibxrc_modify_tgt_qp(tgt, &attr, IBV_QP_RATE_LIMIT) == EOPNOTSUPP,
	       "it has no rate limit");
	need(connect_sender(&s, ibxrc_tgt_qp_num(tgt)), "the sender is connected");

	for (i = 0; i < 3; i++) {
		recv_sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)buffers[i], .length = BUFFER_SIZE };
		recv_wr[i] = (struct ibv_recv_wr){
			.wr_id = 100 + i, .sg_list = &recv_sge[i], .num_sge = 1,
			.next = i < 2 ? &recv_wr[i + 1] : NULL };
	}
	recv_wr[2].num_sge = 2;
	report(ibxrc_post_srq_recv(srq, recv_wr, &bad_recv_wr) == EINVAL &&
	       bad_recv_wr == &recv_wr[2], "the work request that is wrong is told");

	report(!ibxrc_req_notify_cq(cq, 0), "the CQ is armed");
	pollfd.fd = ibxrc_comp_channel_fd(channel);
	fcntl(pollfd.fd, F_SETFL, O_NONBLOCK);
	report(!poll(&pollfd, 1, 0) &&
	       ibxrc_get_cq_event(channel, &cq_context) == EAGAIN,
	       "there is no event yet");

	/* A SEND, and a SEND_WITH_IMM. */
	strcpy(s.buffer, "plain");
	strcpy(s.buffer + 64, "with immediate");
	send_sge[0] = (struct ibv_sge){ (uintptr_t)s.buffer, 6, s.mr->lkey };
	send_sge[1] = (struct ibv_sge){ (uintptr_t)s.buffer + 64, 15, s.mr->lkey };
	for (i = 0; i < 2; i++)
		send_wr[i] = (struct ibv_send_wr){
			.wr_id = i, .sg_list = &send_sge[i], .num_sge = 1,
			.qp_type.xrc.remote_srqn = ibxrc_get_srq_num(srq) };
	send_wr[0].opcode = IBV_WR_SEND;
	send_wr[0].next = &send_wr[1];
	send_wr[1].opcode = IBV_WR_SEND_WITH_IMM;
	send_wr[1].imm_data = htonl(0xabcd1234);
	send_wr[1].send_flags = IBV_SEND_SOLICITED;
	report(!ibxrc_post_ini_send(s.ini, send_wr, &bad_send_wr),
	       "two messages are sent");

	report(poll(&pollfd, 1, 20000) == 1 && pollfd.revents == POLLIN &&
	       !ibxrc_get_cq_event(channel, &cq_context) && cq_context == &cq,
	       "the event comes, and carries the cq_context");
	need(poll_n(cq, 2, wc) == 2, "they arrive");
	report(wc[0].wc.wr_id == 100 && wc[0].wc.status == IBV_WC_SUCCESS &&
	       wc[0].wc.opcode == IBV_WC_RECV && wc[0].wc.byte_len == 6 &&
	       wc[0].wc.wc_flags == 0 && !wc[0].solicited &&
	       !strcmp(buffers[0], "plain"), "the plain one is right");
	report(wc[1].wc.wr_id == 101 && wc[1].wc.byte_len == 15 &&
	       wc[1].wc.wc_flags == IBV_WC_WITH_IMM &&
	       wc[1].wc.imm_data == htonl(0xabcd1234) && wc[1].solicited &&
	       !strcmp(buffers[1], "with immediate"),
	       "the one with immediate data is right");
	report(wc[0].srq_context == &srq && wc[0].srq_num == ibxrc_get_srq_num(srq) &&
	       wc[0].wc.qp_num == ibxrc_tgt_qp_num(tgt) &&
	       wc[0].wc.src_qp == s.qp->qp_num, "they say where they came from");
	report(ibxrc_poll_cq(cq, 3, wc) == 0, "that is all");

	send_wr[1].qp_type.xrc.remote_srqn = 1 << 24;
	report(ibxrc_post_ini_send(s.ini, &send_wr[1], &bad_send_wr) == EINVAL &&
	       bad_send_wr == &send_wr[1], "an SRQ number of 25 bits is refused");

	report(ibxrc_close(context) == EBUSY && ibxrc_close_xrcd(xrcd) == EBUSY &&
	       ibxrc_destroy_cq(cq) == EBUSY &&
	       ibxrc_destroy_comp_channel(channel) == EBUSY,
	       "what is in use does not close");
	report(strstr(ibxrc_error_message(), "CQ") != NULL, "and says why");

	close_sender(&s);
	report(!ibxrc_close_tgt_qp(tgt), "the first registration is closed");
	report(!ibxrc_query_tgt_qp(opened, NULL, info) && info[0].refs == 1,
	       "the TGT QP is still there");
	report(!ibxrc_close_tgt_qp(opened), "the second registration is closed");
	report(!ibxrc_list_tgt_qps(xrcd, NULL, 0, &count) && count == 0,
	       "now it is gone");
	report(!ibxrc_destroy_srq(srq) && !ibxrc_destroy_cq(cq) &&
	       !ibxrc_destroy_comp_channel(channel) && !ibxrc_close_xrcd(second) &&
	       !ibxrc_close_xrcd(xrcd), "everything closes");

	test_lifetime(context, name);
	test_send(context, name);
	test_mr(context, name);
	report(!ibxrc_close(context), "the context closes");

	printf("1..%d\n", tests);
	return failures != 0;
}
