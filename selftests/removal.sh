#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The device goes with everything open and messages flowing, and comes back.

. "$(dirname "$0")/xrc_lib.sh"

# An object that is not given back holds up the deletion for 50 s and more.
BOUND_MS=$((10000 * SCALE))
ROUNDS=3

netdev=$(netdev_of "$XRC_DEVICE")
if [[ ! $netdev ]]; then
	ktap_print_header
	ktap_skip_all "$XRC_DEVICE is no Soft-RoCE device"
	exit "$KSFT_SKIP"
fi

# Whatever happens, others find the device again.
cleanup()
{
	ip link del xrcdummy 2>/dev/null
	rdma link show "$XRC_DEVICE/1" >/dev/null 2>&1 ||
		add_link "$XRC_DEVICE" "$netdev"
}
trap cleanup EXIT

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

# timed CMD...: run it within the bound.
timed()
{
	local start ms rc=0
	start=$(now_ms)
	"$@" || rc=$?
	ms=$(($(now_ms) - start))
	msg "$* took $ms ms"
	((rc == 0)) || return "$rc"
	((ms < BOUND_MS)) && return
	msg "that is too long: something was not given back"
	return 1
}

del()
{
	timed rdma link del "$XRC_DEVICE"
}

# removal [ARG]: the helper's story with one device.
removal()
{
	local rc=0
	start_coproc removal_helper "$@" || { kill_helper; return 1; }
	del || rc=1
	expect_line removed || { kill_helper; rc=1; }
	add_link "$XRC_DEVICE" "$netdev" || { kill_helper; return 1; }
	((rc)) && return 1
	tell_helper
	expect_line "done" || rc=1
	stop_helper || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

# The process is killed while the device goes.
removal_and_kill()
{
	local rc=0 del_pid
	start_coproc removal_helper || { kill_helper; return 1; }
	del &
	del_pid=$!
	kill_helper
	wait "$del_pid" || rc=1
	add_link "$XRC_DEVICE" "$netdev" || return 1
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

# Two processes.
removal_of_two()
{
	local rc=0 pid1 out1 in1
	start_coproc removal_helper || { kill_helper; return 1; }
	pid1=$helper_pid out1=$helper_out in1=$helper_in
	start_coproc removal_helper idle 2>/dev/null || rc=1
	del || rc=1
	expect_line removed || rc=1
	add_link "$XRC_DEVICE" "$netdev" || rc=1
	tell_helper
	expect_line "done" || rc=1
	((rc == 0)) || kill -KILL "$helper_pid" "$pid1" 2>/dev/null
	stop_helper || rc=1
	helper_pid=$pid1 helper_out=$out1 helper_in=$in1
	expect_line removed || rc=1
	tell_helper
	expect_line "done" || rc=1
	stop_helper || rc=1
	return "$rc"
}

# The file is closed only when the device is back.
removal_and_late_close()
{
	local rc=0 objects
	objects=$(kernel_objects)
	start_coproc xrc_probe hold all || { kill_helper; return 1; }
	del || rc=1
	add_link "$XRC_DEVICE" "$netdev" || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	stop_helper || rc=1
	[[ $(kernel_objects) == "$objects" ]] || {
		msg "$(kernel_objects) kernel objects, there were $objects"
		rc=1
	}
	return "$rc"
}

# With nothing but an unbound file, and with nothing.
removal_unused()
{
	local rc=0
	start_coproc xrc_probe hold node || { kill_helper; return 1; }
	del || rc=1
	if xrc_probe bind "$XRC_DEVICE" 2>/dev/null; then
		msg "$XRC_DEVICE can be bound though it is gone"
		rc=1
	fi
	if xrc_probe list | grep -qx "$XRC_DEVICE"; then
		msg "$XRC_DEVICE is listed though it is gone"
		rc=1
	fi
	add_link "$XRC_DEVICE" "$netdev" || rc=1
	xrc_probe list | grep -qx "$XRC_DEVICE" || rc=1
	stop_helper || rc=1
	return "$rc"
}

# An index is not used again.
index_is_new()
{
	local old
	old=$(xrc_probe index "$XRC_DEVICE") || return
	del || return
	add_link "$XRC_DEVICE" "$netdev" || return
	[[ $(xrc_probe index "$XRC_DEVICE") != "$old" ]] || return
	! xrc_probe bind-index "$old" 2>/dev/null
}

# The network interface goes, and takes the device with it.
netdev_goes()
{
	local rc=0
	(
		export XRC_DEVICE=xrcdummy0
		ip link add xrcdummy type dummy &&
			ip addr add 192.0.2.1/24 dev xrcdummy &&
			ip link set xrcdummy up &&
			add_link "$XRC_DEVICE" xrcdummy || exit 1
		start_coproc removal_helper || { kill_helper; exit 1; }
		timed ip link del xrcdummy || rc=1
		expect_line removed || { kill_helper; exit 1; }
		# The rest of the story needs a device of that name.
		ip link add xrcdummy type dummy &&
			ip addr add 192.0.2.1/24 dev xrcdummy &&
			ip link set xrcdummy up &&
			add_link "$XRC_DEVICE" xrcdummy || rc=1
		tell_helper
		expect_line "done" || rc=1
		stop_helper || rc=1
		ip link del xrcdummy
		exit "$rc"
	) || rc=1
	# The other device did not notice.
	xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

ktap_print_header
ktap_set_plan $((ROUNDS + 8))
for ((round = 1; round <= ROUNDS; round++)); do
	ktap_test_result "link deleted under traffic, round $round" removal
done
ktap_test_result "link deleted, no traffic" removal idle
ktap_test_result "link deleted, files closed by exit" removal leave
ktap_test_result "link deleted while the process is killed" removal_and_kill
ktap_test_result "link deleted with two processes" removal_of_two
ktap_test_result "file closed after the device came back" removal_and_late_close
ktap_test_result "link deleted with unbound file" removal_unused
ktap_test_result "device index is not reused" index_is_new
if modprobe -q dummy; then
	ktap_test_result "network interface deleted under traffic" netdev_goes
else
	ktap_test_skip "network interface deleted under traffic: no dummy"
fi
ktap_finished
