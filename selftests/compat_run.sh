#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# "ibxrc run" itself: what it says when something is missing, and how it ends.

. "$(dirname "$0")/xrc_lib.sh"

IBXRC_KO=${IBXRC_KO:-/src/build/module/ib_xrc.ko}

netdev=$(netdev_of "$XRC_DEVICE")
dir=$(mktemp -d)
chmod 755 "$dir"

cleanup()
{
	[[ -e /sys/module/ib_xrc ]] || insmod "$IBXRC_KO"
	chmod 666 /dev/infiniband/xrc
	rdma link show "$XRC_DEVICE/1" >/dev/null 2>&1 || add_link "$XRC_DEVICE" "$netdev"
	rm -rf "$dir"
}
trap cleanup EXIT

as_nobody()
{
	setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
}

# run STATUS CMD...: under "ibxrc run"; its exit status must be that. What it says on
# standard error is in $said.
run()
{
	local wanted=$1 rc
	shift
	"$@" >"$dir/out" 2>"$dir/said"
	rc=$?
	said=$(<"$dir/said")
	((rc == wanted)) && return
	msg "$*: exit status $rc in place of $wanted: $said"
	return 1
}

# says TIMES TEXT: that is how many lines with this were said.
says()
{
	local times
	times=$(grep -cF -e "$2" "$dir/said")
	((times == $1)) && return
	msg "$times lines with \"$2\" in place of $1: $said"
	return 1
}

devinfo=(ibv_devinfo -v -d "$XRC_DEVICE")

status()
{
	run 0 ibxrc run true && says 0 ibxrc || return 1
	run 7 ibxrc run -- sh -c 'exit 7' || return 1
	# The program's own options are its own.
	run 0 ibxrc run sh -c 'test "$1" = -v' sh -v || return 1
	run 2 ibxrc run || return 1
	# Its own are before the program.
	run 2 ibxrc run -x true && says 1 "unexpected argument '-x'" || return 1
	run 2 ibxrc run --no-such -- true || return 1
	run 127 ibxrc run -- xrc-no-such-program &&
		says 1 'xrc-no-such-program: No such file' || return 1
	: >"$dir/data"
	run 126 ibxrc run -- "$dir/data" && says 1 'Permission denied' || return 1
}

verbose()
{
	run 0 ibxrc run -v -- "${devinfo[@]}" &&
		says 1 "$XRC_DEVICE gets XRC from the kernel module" || return 1
	run 0 ibxrc run -- "${devinfo[@]}" && says 0 ibxrc || return 1
	grep -q '\bXRC\b' "$dir/out" && return
	msg "$(grep -A 20 device_cap_flags "$dir/out")"
	return 1
}

# Without the module a program runs as it always does. It is said once by each process.
no_module()
{
	rmmod ib_xrc || return 1
	run 0 ibxrc run -- "${devinfo[@]}" &&
		says 1 "$XRC_DEVICE stays without XRC: the kernel module ib_xrc is not loaded" &&
		says 1 ibxrc
	local rc=$?
	grep -q '\bXRC\b' "$dir/out" && rc=1
	insmod "$IBXRC_KO" || return 1
	wait_until 10 test -c /dev/infiniband/xrc || return 1
	chmod 666 /dev/infiniband/xrc
	return $rc
}

no_permission()
{
	chmod 600 /dev/infiniband/xrc
	run 0 as_nobody ibxrc run -- "${devinfo[@]}" &&
		says 1 'no permission to open /dev/infiniband/xrc' && says 1 ibxrc
	local rc=$?
	chmod 666 /dev/infiniband/xrc
	return $rc
}

no_device()
{
	rdma link del "$XRC_DEVICE"
	run 255 ibxrc run -- ibv_devinfo && says 1 'there is no RDMA device'
	local rc=$?
	add_link "$XRC_DEVICE" "$netdev" || return 1
	return $rc
}

# Programs that nothing can be preloaded into run, and it is said why they have no XRC.
not_preloaded()
{
	local busybox
	busybox=$(type -P busybox) || return 1
	run 0 ibxrc run -- "$busybox" true && says 1 'linked statically' || return 1
	install -m 4755 "$(type -P true)" "$dir/suid" || return 1
	run 0 as_nobody ibxrc run -- "$dir/suid" && says 1 'the rights of another user' ||
		return 1
	# For root it has no more rights than others.
	run 0 ibxrc run -- "$dir/suid" && says 0 ibxrc
}

# What was preloaded stays, and programs that the program starts have XRC, too.
inherited()
{
	# shellcheck disable=SC2016
	run 0 ibxrc run -v -- sh -c '"$@" >/dev/null && "$@"' sh "${devinfo[@]}" &&
		says 2 "$XRC_DEVICE gets XRC" || return 1
	# shellcheck disable=SC2016
	run 0 env LD_PRELOAD=libm.so.6 ibxrc run -- sh -c 'echo "$LD_PRELOAD"' || return 1
	grep -q '/libibxrc_interpose.so:libm.so.6$' "$dir/out"
}

ktap_print_header
ktap_set_plan 7
ktap_test_result "exit status is that of the program" status
ktap_test_result "-v says which devices get XRC" verbose
ktap_test_result "without the module" no_module
ktap_test_result "without permission" no_permission
ktap_test_result "without a device" no_device
ktap_test_result "programs into which nothing is preloaded" not_preloaded
ktap_test_result "children have it, too" inherited
ktap_finished
