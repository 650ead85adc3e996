#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unloading the module: refused while anything of it is open, clean otherwise.

. "$(dirname "$0")/xrc_lib.sh"

IBXRC_KO=${IBXRC_KO:-/src/build/module/ib_xrc.ko}
TIMES=100

netdev=$(netdev_of "$XRC_DEVICE")

# From memory and without debug information: it is read a lot of times.
if [[ -e $IBXRC_KO ]]; then
	copy=$(mktemp --suffix .ko)
	strip --strip-debug -o "$copy" "$IBXRC_KO" 2>/dev/null ||
		cp "$IBXRC_KO" "$copy"
	IBXRC_KO=$copy
fi

# Whatever happens, others find module and device.
cleanup()
{
	[[ -e /sys/module/ib_xrc ]] || insmod "$IBXRC_KO"
	rm -f "$copy"
	[[ ! $netdev ]] || rdma link show "$XRC_DEVICE/1" >/dev/null 2>&1 ||
		add_link "$XRC_DEVICE" "$netdev"
}
trap cleanup EXIT

reload()
{
	rmmod ib_xrc && insmod "$IBXRC_KO"
}

# refused WHAT: rmmod while WHAT is open, then when it is closed.
refused()
{
	local rc=0
	start_coproc xrc_probe hold "$1" || { kill_helper; return 1; }
	if rmmod ib_xrc 2>/dev/null; then
		msg "the module was unloaded with $1 open"
		insmod "$IBXRC_KO"
		kill_helper
		return 1
	fi
	[[ $(</sys/module/ib_xrc/refcnt) != 0 ]] || {
		msg "use count 0 with $1 open"
		rc=1
	}
	# Nothing has changed for who has it open, or opens it now.
	xrc_probe use "$XRC_DEVICE" || rc=1
	stop_helper || rc=1
	wait_until 10 grep -qx 0 /sys/module/ib_xrc/refcnt || {
		msg "use count $(</sys/module/ib_xrc/refcnt) with nothing open"
		rc=1
	}
	rmmod ib_xrc || return 1
	[[ ! -e /dev/infiniband/xrc ]] || {
		msg "/dev/infiniband/xrc is left"
		rc=1
	}
	insmod "$IBXRC_KO" || return 1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

# The device goes and comes while the file is open: then the module can go.
after_removal()
{
	local rc=0
	start_coproc xrc_probe hold all || { kill_helper; return 1; }
	rdma link del "$XRC_DEVICE" || rc=1
	if rmmod ib_xrc 2>/dev/null; then
		msg "the module was unloaded with a file open whose device is gone"
		rc=1
	fi
	add_link "$XRC_DEVICE" "$netdev" || rc=1
	stop_helper || rc=1
	rmmod ib_xrc || rc=1
	insmod "$IBXRC_KO" || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

many()
{
	local i objects
	objects=$(kernel_objects)
	for ((i = 1; i <= TIMES; i++)); do
		if ! rmmod ib_xrc || ! insmod "$IBXRC_KO"; then
			msg "time $i of $TIMES"
			return 1
		fi
		# Now and then something is there to be given back.
		((i % 10)) || xrc_probe use "$XRC_DEVICE" || return 1
	done
	[[ $(kernel_objects) == "$objects" ]] || {
		msg "$(kernel_objects) kernel objects, there were $objects"
		return 1
	}
}

# Opening races with unloading: each open works or fails, nothing else.
open_race()
{
	local rc=0 pid i
	(while :; do xrc_probe bind "$XRC_DEVICE" 2>/dev/null; done) &
	pid=$!
	for ((i = 0; i < 30; i++)); do
		if rmmod ib_xrc 2>/dev/null; then
			insmod "$IBXRC_KO" || rc=1
		fi
	done
	kill "$pid"
	wait "$pid" 2>/dev/null
	wait_until 10 grep -qx 0 /sys/module/ib_xrc/refcnt || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

without_device()
{
	local rc=0
	rdma link del "$XRC_DEVICE" || return 1
	xrc_probe list | grep -qx "$XRC_DEVICE" && rc=1
	reload || rc=1
	reload || rc=1
	# A device that comes later is found.
	add_link "$XRC_DEVICE" "$netdev" || return 1
	xrc_probe use "$XRC_DEVICE" || rc=1
	# One that came before the module is found, too.
	reload || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

# The device goes while the module does.
both_at_once()
{
	local rc=0 i pid
	for ((i = 0; i < 5; i++)); do
		rdma link del "$XRC_DEVICE" &
		pid=$!
		rmmod ib_xrc || rc=1
		wait "$pid" || rc=1
		insmod "$IBXRC_KO" &
		pid=$!
		add_link "$XRC_DEVICE" "$netdev" || rc=1
		wait "$pid" || rc=1
		xrc_probe use "$XRC_DEVICE" || rc=1
	done
	return "$rc"
}

ktap_print_header
if [[ ! -e $IBXRC_KO ]]; then
	ktap_skip_all "no module at $IBXRC_KO"
	exit "$KSFT_SKIP"
fi
ktap_set_plan 12
for what in node file domain channel mapping events all; do
	ktap_test_result "rmmod refused with $what open" refused "$what"
done
ktap_test_result "rmmod after the device of an open file went" after_removal
ktap_test_result "rmmod and insmod $TIMES times" many
ktap_test_result "rmmod while files are opened" open_race
ktap_test_result "rmmod and insmod without a device" without_device
ktap_test_result "rmmod while the device goes" both_at_once
ktap_finished
