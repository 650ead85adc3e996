# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the shell tests share. They are started by "run" in the directory of the
# programs, with the module loaded and $XRC_DEVICE there.

HERE=$(dirname "$(realpath "${BASH_SOURCE[0]}")")
# shellcheck disable=SC1091 # comes from the kernel tree
. "$HERE/ktap_helpers.sh"
PATH=$HERE:$PATH

XRC_DEVICE=${XRC_DEVICE:-rxe0}
export XRC_DEVICE

# Where a test's complaints go; TAP is on stdout.
msg()
{
	echo "# $*"
}

# How much slower than the stock kernel this one is: a factor of all bounds.
SCALE=${XRC_TIME_SCALE:-1}

# netdev_of DEVICE: the network interface of a Soft-RoCE device.
netdev_of()
{
	rdma link show "$1/1" | sed -n 's/.* netdev \([^ ]*\).*/\1/p'
}

# wait_until SECONDS CMD...: until it succeeds.
wait_until()
{
	local end=$((SECONDS + $1 * SCALE))
	shift
	until "$@" >/dev/null 2>&1; do
		((SECONDS < end)) || return 1
		sleep 0.05
	done
}

# has_gid DEVICE: it has a RoCE v2 GID of an IPv4 address. Starts no process: under load
# that takes long.
has_gid()
{
	local port=/sys/class/infiniband/$1/ports/1 i state gid type
	{ read -r state <"$port/state"; } 2>/dev/null
	[[ $state == *ACTIVE ]] || return
	for ((i = 0; i < 64; i++)); do
		{ read -r gid <"$port/gids/$i" || return; } 2>/dev/null
		[[ $gid == 0000:0000:0000:0000:0000:ffff:* ]] || continue
		{ read -r type <"$port/gid_attrs/types/$i"; } 2>/dev/null
		[[ $type == 'RoCE v2' ]] && return
	done
	return 1
}

# add_link DEVICE NETDEV: make a Soft-RoCE device, and wait until it is usable.
add_link()
{
	rdma link add "$1" type rxe netdev "$2" || return
	# GIDs are added by a work item.
	wait_until 20 has_gid "$1" && return
	msg "$1 got no GID: $(rdma link show "$1/1" 2>&1)"
	return 1
}

# start_coproc CMD...: start it with pipes to it, and wait until it says "ready".
start_coproc()
{
	coproc HELPER { exec "$@"; }
	# The shell forgets both when the process ends.
	# shellcheck disable=SC2153 # coproc sets it
	helper_pid=$HELPER_PID
	exec {helper_out}<&"${HELPER[0]}"- {helper_in}>&"${HELPER[1]}"-
	expect_line ready
}

# expect_line TEXT: the next line that the started program says; other lines are
# shown.
expect_line()
{
	local line
	while read -r -t 90 -u "$helper_out" line; do
		[[ $line == "$1" ]] && return 0
		msg "helper: ${line#\# }"
	done
	msg "the helper did not say \"$1\""
	return 1
}

# tell_helper [TEXT]: let it go on.
tell_helper()
{
	echo "${1:-go}" >&"$helper_in"
}

# stop_helper: let its input end; returns its exit status.
stop_helper()
{
	local rc=0
	exec {helper_in}>&-
	wait "$helper_pid" || rc=$?
	cat <&"$helper_out" | sed 's/^/# helper: /'
	exec {helper_out}<&-
	return "$rc"
}

# kill_helper: when it is not needed any more, or does not do what it should.
kill_helper()
{
	kill -KILL "$helper_pid" 2>/dev/null
	stop_helper >/dev/null 2>&1
	return 0
}

# kernel_objects: how many objects of ib_xrc the RDMA devices have.
kernel_objects()
{
	local kind
	for kind in pd cq qp mr srq; do
		rdma resource show "$kind" 2>/dev/null
	done | grep -cF '[ib_xrc]'
	return 0
}
