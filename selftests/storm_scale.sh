#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# A lot of TGT QPs at a time, shared, listed, and gone by each of the ways there are.
# From the environment: STORM=full.

. "$(dirname "$0")/storm_lib.sh"

COUNT=$(form 1000 10000 150)
# Seconds, for each way.
BOUND=$(($(form 200 1800) * SCALE))
WAYS=(close exit kill last-srq linger domain)

netdev=$(netdev_of "$XRC_DEVICE")

# Whatever happens, others find the device again.
cleanup()
{
	[[ ! $netdev ]] || rdma link show "$XRC_DEVICE/1" >/dev/null 2>&1 ||
		add_link "$XRC_DEVICE" "$netdev"
}
trap cleanup EXIT

now_ms()
{
	echo $(($(date +%s%N) / 1000000))
}

qps()
{
	storm_qps "$COUNT" "$1" "$BOUND"
}

# The device goes with all of them. The lines of the program come after "ready".
qps_and_removal()
{
	local rc=0 start
	start_coproc storm_qps "$COUNT" removal "$BOUND" || { kill_helper; return 1; }
	start=$(now_ms)
	rdma link del "$XRC_DEVICE" || rc=1
	msg "the deletion took $(($(now_ms) - start)) ms"
	add_link "$XRC_DEVICE" "$netdev" || rc=1
	tell_helper
	stop_helper || rc=1
	return "$rc"
}

ktap_print_header
ktap_set_plan $((${#WAYS[@]} + 4))
objects=$(all_objects)
# The first time caches and tables grow to what they need.
qps close >/dev/null
remember_memory
for way in "${WAYS[@]}"; do
	ktap_test_result "$COUNT TGT QPs, $way" qps "$way"
done
if [[ $netdev ]]; then
	ktap_test_result "$COUNT TGT QPs, removal" qps_and_removal
else
	ktap_test_skip "$COUNT TGT QPs, removal: $XRC_DEVICE is no Soft-RoCE device"
fi
ktap_test_result "nothing is left on the device" nothing_is_left "$objects"
ktap_test_result "memory is back" same_memory
ktap_test_result "the module unloads and loads" reload_module
ktap_finished
