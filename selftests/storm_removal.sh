#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The device goes and comes back, over and over, under processes that use it as they
# can and are killed at random moments. From the environment: STORM=full, STORM_SEED.

. "$(dirname "$0")/storm_lib.sh"

CYCLES=$(form 5 500 2)
BOUND=$(($(form 300 10800) * SCALE))
# An object that is not given back holds up the deletion for 50 s and more.
DEL_BOUND_MS=$((40000 * SCALE))

netdev=$(netdev_of "$XRC_DEVICE")
if [[ ! $netdev ]]; then
	ktap_print_header
	ktap_skip_all "$XRC_DEVICE is no Soft-RoCE device"
	exit "$KSFT_SKIP"
fi

# Whatever happens, others find the device again.
cleanup()
{
	rdma link show "$XRC_DEVICE/1" >/dev/null 2>&1 ||
		add_link "$XRC_DEVICE" "$netdev"
}
trap cleanup EXIT

# read_clock: milliseconds, in $clock. Starts no process: under this load that takes long.
read_clock()
{
	local us=${EPOCHREALTIME//[.,]/}
	clock=$((us / 1000))
}

slowest=0 sum=0 flow=0 cycles=0

# One time. Messages flow before the device goes, but for every third time, when most
# have just begun to open it.
cycle()
{
	local start ms
	read_clock
	start=$clock
	if ((RANDOM % 3)); then
		tell_helper $((RANDOM % 10 + 1))
		expect_line flowing || return
		read_clock
		flow=$((flow + clock - start))
	fi
	sleep "0.$((RANDOM % 4))$((RANDOM % 10))"
	read_clock
	start=$clock
	rdma link del "$XRC_DEVICE" || return
	read_clock
	ms=$((clock - start))
	((ms <= slowest)) || slowest=$ms
	sum=$((sum + ms))
	((ms < DEL_BOUND_MS)) || {
		msg "the deletion took $ms ms: something was not given back"
		return 1
	}
	add_link "$XRC_DEVICE" "$netdev"
}

# cycle_under_load N: N times, and messages flow again at the end.
cycle_under_load()
{
	local rc=0
	RANDOM=$STORM_SEED
	cycles=0
	start_coproc storm_load -r -s "$STORM_SEED" -t "$BOUND" ||
		{ kill_helper; return 1; }
	while ((cycles < $1 && !rc)); do
		if ((SECONDS - begin > BOUND)); then
			msg "$BOUND s have passed"
			rc=1
		elif cycle; then
			cycles=$((cycles + 1))
		else
			rc=1
		fi
	done
	if ((!rc)); then
		tell_helper 50
		expect_line flowing || rc=1
	fi
	stop_helper || rc=1
	return "$rc"
}

storm()
{
	local rc=0 begin=$SECONDS
	cycle_under_load "$CYCLES" || rc=1
	msg "$cycles of $CYCLES cycles in $((SECONDS - begin)) s; deletion took" \
		"$((cycles ? sum / cycles : 0)) ms, at most $slowest ms;" \
		"messages flowed after $((cycles ? flow / cycles : 0)) ms"
	return "$rc"
}

# Who makes the device come and go must get a turn; the load does not inherit this.
renice -n -10 $$ >/dev/null
ktap_print_header
ktap_set_plan 4
begin=$SECONDS
cycle_under_load 1 >/dev/null
objects=$(all_objects)
remember_memory
slowest=0 sum=0 flow=0
ktap_test_result "the device goes and comes $CYCLES times within $BOUND s" storm
ktap_test_result "nothing is left on the device" nothing_is_left "$objects"
ktap_test_result "memory is back" same_memory
ktap_test_result "the module unloads and loads" reload_module
ktap_finished
