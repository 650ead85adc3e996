#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Who may use a device: processes of its network name space, privileged or not.

. "$(dirname "$0")/xrc_lib.sh"

NS=xrcns$$

cleanup()
{
	ip netns del "$NS" 2>/dev/null
	rdma system set netns shared 2>/dev/null
}
trap cleanup EXIT

in_ns()
{
	ip netns exec "$NS" "$@"
}

shared()
{
	local rc=0
	ip netns add "$NS" || return 1
	in_ns xrc_probe list | grep -qx "$XRC_DEVICE" || rc=1
	in_ns xrc_probe bind "$XRC_DEVICE" || rc=1
	in_ns xrc_probe bind-index "$(xrc_probe index "$XRC_DEVICE")" || rc=1
	ip netns del "$NS"
	return "$rc"
}

exclusive()
{
	local rc=0 index
	index=$(xrc_probe index "$XRC_DEVICE") || return 1
	# Only while there is no other name space.
	rdma system set netns exclusive || return 1
	ip netns add "$NS" || return 1
	# Here it is as ever.
	xrc_probe list | grep -qx "$XRC_DEVICE" || rc=1
	xrc_probe use "$XRC_DEVICE" || rc=1
	# There it does not exist.
	if in_ns xrc_probe list | grep -qx "$XRC_DEVICE"; then
		msg "the device is listed in another name space"
		rc=1
	fi
	in_ns xrc_probe bind "$XRC_DEVICE" 2>&1 | grep -q 'No such device' || {
		msg "binding by name in another name space"
		rc=1
	}
	in_ns xrc_probe bind-index "$index" 2>&1 | grep -q 'No such device' || {
		msg "binding by index in another name space"
		rc=1
	}
	ip netns del "$NS"
	wait_until 20 rdma system set netns shared || rc=1
	return "$rc"
}

# A device that changes its name space goes from the one and comes in the other.
moved()
{
	local rc=0
	rdma system set netns exclusive || return 1
	ip netns add "$NS" || return 1
	ip link add xrcveth type dummy && ip addr add 192.0.2.9/24 dev xrcveth &&
		ip link set xrcveth up && add_link xrcns0 xrcveth || rc=1
	xrc_probe list | grep -qx xrcns0 || rc=1
	if rdma dev set xrcns0 netns "$NS" 2>/dev/null; then
		xrc_probe list | grep -qx xrcns0 && rc=1
		in_ns xrc_probe list | grep -qx xrcns0 || rc=1
		in_ns xrc_probe bind xrcns0 || rc=1
		in_ns rdma link del xrcns0
	else
		msg "this device cannot be moved"
		rdma link del xrcns0
	fi
	ip link del xrcveth
	ip netns del "$NS"
	wait_until 20 rdma system set netns shared || rc=1
	return "$rc"
}

unprivileged()
{
	local rc=0
	[[ $(stat -c %a /dev/infiniband/xrc) == 666 ]] || {
		msg "mode $(stat -c %a /dev/infiniband/xrc)"
		rc=1
	}
	setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all \
		--inh-caps=-all --no-new-privs \
		env PATH="$PATH" xrc_probe use "$XRC_DEVICE" || rc=1
	return "$rc"
}

ktap_print_header
ktap_set_plan 4
ktap_test_result "node can be used by everybody" unprivileged
if [[ $(rdma system) != *netns\ shared* ]]; then
	for t in shared exclusive moved; do
		ktap_test_skip "$t: the system is not in shared mode"
	done
	ktap_finished
fi
ktap_test_result "device is seen in all name spaces in shared mode" shared
ktap_test_result "device is of one name space in exclusive mode" exclusive
modprobe -q dummy
ktap_test_result "device that changes its name space" moved
ktap_finished
