// SPDX-License-Identifier: GPL-2.0
/*
 * What the shell tests need of a program.
 *
 *   xrc_probe list              names of the devices there are
 *   xrc_probe bind NAME         is NAME there?
 *   xrc_probe bind-index INDEX  the same by index
 *   xrc_probe index NAME        its index
 *   xrc_probe use NAME          receive a message on it
 *   xrc_probe hold WHAT         have something open until stdin ends: node, file,
 *                               domain, channel, mapping or all
 *
 * Exits with 0, or says what failed and exits with 1.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "xrc_util.h"

static int report(const char *what, int ret)
{
	if (!ret)
		return 0;
	fprintf(stderr, "xrc_probe: %s: %s\n", what, strerror(-ret));
	exit(1);
}

static int list(void)
{
	struct ib_xrc_device_info info[64];
	union xrc_cmd cmd;
	struct xrc x;
	__u32 count, i;

	report("open", xrc_open_node(&x));
	xrc_cmd_for(&x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_LIST_DEVICES);
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_DEVICES, info, sizeof(info));
	xrc_out(&cmd, IB_XRC_ATTR_LIST_DEVICES_RESP_COUNT, &count, sizeof(count));
	report("list", xrc_ioctl(x.fd, &cmd));
	for (i = 0; i < count && i < 64; i++)
		puts((const char *)info[i].name);
	return 0;
}

static int bind_index(__u32 index)
{
	struct ib_xrc_device_info info;
	union xrc_cmd cmd;
	struct xrc x;

	report("open", xrc_open_node(&x));
	xrc_cmd_for(&x, &cmd, IB_XRC_OBJECT_CONTEXT, IB_XRC_METHOD_BIND);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_ABI_VERSION, IB_XRC_ABI_VERSION);
	xrc_in_u32(&cmd, IB_XRC_ATTR_BIND_INDEX, index);
	xrc_out(&cmd, IB_XRC_ATTR_BIND_RESP_DEVICE, &info, sizeof(info));
	return report("bind", xrc_ioctl(x.fd, &cmd));
}

static int use(void)
{
	struct xrc_send send = { .length = 1000, .with_imm = true, .imm = 42 };
	int file = memfd_create("xrc_probe", MFD_CLOEXEC), channel;
	static __u8 buf[1024];
	struct ib_xrc_cqe cqe;
	struct xrc_ini ini;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;

	report("open", xrc_open(&x));
	report("open XRCD", xrc_xrcd_open(&x, file, O_CREAT, &xrcd));
	report("create TGT QP", xrc_tgt_create(&x, xrcd, &qp));
	report("create channel", xrc_channel_create(&x, &channel));
	report("create CQ", xrc_cq_create(&x, 16, 1, channel, &cq));
	report("create SRQ", xrc_srq_create(&x, xrcd, &cq, 16, 1, 1, &srq));
	report("open INI QP", xrc_ini_open(&ini, 16, 1024));
	report("connect", xrc_ini_pair(&ini, &x, &qp));
	report("post", xrc_srq_post(&x, &srq, 1, buf, sizeof(buf)));
	xrc_fill(ini.buf, send.length, 99);
	send.srq_num = srq.srq_num;
	report("send", xrc_ini_send(&ini, &send));
	report("receive", xrc_cq_wait(&cq, &cqe, XRC_TIMEOUT_MS));
	report("completion", -(int)cqe.status);
	if (cqe.byte_len != send.length || !xrc_check(buf, send.length, 99))
		report("contents", -EBADMSG);
	xrc_ini_close(&ini);
	report("destroy SRQ", xrc_srq_destroy(&x, &srq));
	report("destroy CQ", xrc_cq_destroy(&x, &cq));
	report("close TGT QP", xrc_tgt_close(&x, &qp));
	return report("close XRCD", xrc_xrcd_close(&x, xrcd));
}

static int hold(const char *what)
{
	int channel, events, keep_file = 1;
	struct xrc_srq srq;
	struct xrc_cq cq;
	struct xrc_qp qp;
	struct xrc x;
	__u32 xrcd;
	char c;

	if (!strcmp(what, "node")) {
		report("open", xrc_open_node(&x));
	} else {
		report("open", xrc_open(&x));
		if (!strcmp(what, "domain") || !strcmp(what, "all")) {
			report("open XRCD", xrc_xrcd_open(&x, -1, 0, &xrcd));
			report("create TGT QP", xrc_tgt_create(&x, xrcd, &qp));
		}
		if (!strcmp(what, "channel")) {
			report("create channel", xrc_channel_create(&x, &channel));
			keep_file = 0;
		}
		if (!strcmp(what, "events") || !strcmp(what, "all"))
			report("create event file",
			       xrc_event_file_create(&x, -1, &events));
		if (!strcmp(what, "events"))
			keep_file = 0;
		if (!strcmp(what, "mapping")) {
			report("create CQ", xrc_cq_create(&x, 1, 0, -1, &cq));
			keep_file = 0;
		}
		if (!strcmp(what, "all")) {
			report("create channel", xrc_channel_create(&x, &channel));
			report("create CQ", xrc_cq_create(&x, 16, 1, channel, &cq));
			report("create SRQ",
			       xrc_srq_create_report(&x, xrcd, &cq, 16, 1, 1,
						     events, &srq));
			report("set limit", xrc_srq_limit(&x, &srq, 1));
		}
	}
	if (!keep_file)
		xrc_close(&x);
	puts("ready");
	fflush(stdout);
	while (read(0, &c, 1) > 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	struct xrc x;

	if (!strcmp(what, "list"))
		return list();
	if (argc != 3) {
		fprintf(stderr, "usage: xrc_probe list|bind|bind-index|index|use|hold [ARG]\n");
		return 2;
	}
	if (!strcmp(what, "bind-index"))
		return bind_index(strtoul(argv[2], NULL, 0));
	if (!strcmp(what, "hold"))
		return hold(argv[2]);
	setenv("XRC_DEVICE", argv[2], 1);
	if (!strcmp(what, "use"))
		return use();
	report("bind", xrc_open(&x));
	if (!strcmp(what, "index"))
		printf("%u\n", x.dev.index);
	return 0;
}
