#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Two devices in two network name spaces, joined by a virtual wire that loses
# packets, repeats them and changes their order: netem, in both directions. That it
# does, and that the devices made up for it, their counters tell.

. "$(dirname "$0")/xrc_lib.sh"

# Of the name spaces, interfaces and devices: 0 receives, 1 sends.
NS=(xrcloss0.$$ xrcloss1.$$)
DEV=(xrcloss0 xrcloss1)
ADDRESS=(192.0.2.1 192.0.2.2)
# Operations of a run, and seconds that it may take.
COUNT=1200
BOUND=$((90 * SCALE))
# Seconds of the soak.
SOAK=10
# So that a part of a message is one packet (see loss_peer.c).
MTU=4200

in_ns()
{
	local ns=${NS[$1]}
	shift
	ip netns exec "$ns" "$@"
}

cleanup()
{
	local i
	for i in 0 1; do
		rdma link del "${DEV[$i]}"
		ip netns del "${NS[$i]}"
	done 2>/dev/null
}
trap cleanup EXIT

mac_of()
{
	in_ns "$1" cat "/sys/class/net/${DEV[$1]}/address"
}

setup()
{
	local i
	ip netns add "${NS[0]}" && ip netns add "${NS[1]}" || return
	ip link add "${DEV[0]}" mtu "$MTU" netns "${NS[0]}" type veth \
		peer name "${DEV[1]}" mtu "$MTU" netns "${NS[1]}" || return
	for i in 0 1; do
		ip -n "${NS[$i]}" address add "${ADDRESS[$i]}/24" dev "${DEV[$i]}" &&
			ip -n "${NS[$i]}" link set lo up &&
			ip -n "${NS[$i]}" link set "${DEV[$i]}" up || return
	done
	for i in 0 1; do
		# Lost ARP packets are not what this is about.
		ip -n "${NS[$i]}" neighbour replace "${ADDRESS[1 - i]}" \
			lladdr "$(mac_of $((1 - i)))" dev "${DEV[$i]}" \
			nud permanent || return
		in_ns "$i" rdma link add "${DEV[$i]}" type rxe netdev "${DEV[$i]}" &&
			wait_until 20 has_gid "${DEV[$i]}" || return
	done
}

# netem ARG...: what the wire does, both ways, from now on.
netem()
{
	local i
	for i in 0 1; do
		# A full queue would be an error of the driver's, not a lost packet.
		tc -n "${NS[$i]}" qdisc replace dev "${DEV[$i]}" root netem \
			limit 100000 "$@" || return
	done
}

# counter SIDE NAME: of the RDMA device.
counter()
{
	cat "/sys/class/infiniband/${DEV[$1]}/ports/1/hw_counters/$2"
}

# counters SIDE: what has been counted until now, by the RDMA device and by the queue
# at the wire, goes to the array "now".
counters()
{
	local name line
	for name in sent_pkts out_of_seq_request duplicate_request \
		completer_retry_err; do
		now[$1$name]=$(counter "$1" "$name") || return
	done
	line=$(tc -n "${NS[$1]}" -s qdisc show dev "${DEV[$1]}")
	[[ $line =~ \ ([0-9]+)\ pkt\ \(dropped\ ([0-9]+), ]] || return
	now[${1}wire]=${BASH_REMATCH[1]}
	now[${1}dropped]=${BASH_REMATCH[2]}
}

# peer SIDE CMD...: one of the two processes.
peer()
{
	local ns=${NS[$1]}
	export XRC_DEVICE=${DEV[$1]}
	shift
	exec ip netns exec "$ns" timeout "$BOUND" "$@"
}

# run RECEIVER SENDER: both, each a command in one word, and what has been counted
# meanwhile in "grown".
run()
{
	local i rc=0 start=$SECONDS receiver
	declare -A now=() before
	counters 0 && counters 1 || return
	for i in "${!now[@]}"; do
		before[$i]=${now[$i]}
	done
	# shellcheck disable=SC2086 # several words
	(peer 0 $1 2>&1 | sed -u 's/^#* */# /'; exit "${PIPESTATUS[0]}") &
	receiver=$!
	# shellcheck disable=SC2086
	(peer 1 $2 2>&1 | sed -u 's/^#* */# /'; exit "${PIPESTATUS[0]}") || rc=1
	wait "$receiver" || rc=1
	msg "it took $((SECONDS - start)) s"
	counters 0 && counters 1 || return
	for i in "${!now[@]}"; do
		grown[$i]=$((now[$i] - before[$i]))
	done
	return "$rc"
}

# peers all|some: operations of loss_peer.
peers()
{
	run "loss_peer receive ${ADDRESS[0]} $COUNT $1" \
		"loss_peer send ${ADDRESS[0]} $COUNT $1"
}

# expect SIDE NAME TEST N: that it has grown so.
expect()
{
	msg "${DEV[$1]}: $2 grew by ${grown[$1$2]}"
	test "${grown[$1$2]}" "$3" "$4" && return
	msg "that is not $3 $4"
	return 1
}

# All that a device sends to the other one is to be on the wire, and not to take a
# way of its own.
whole()
{
	local rc=0 i
	netem && peers all || return
	for i in 0 1; do
		expect "$i" wire -ge "${grown[${i}sent_pkts]}" || rc=1
		expect "$i" sent_pkts -ge $((COUNT / 4)) || rc=1
		expect "$i" dropped -eq 0 || rc=1
	done
	return "$rc"
}

lost()
{
	local rc=0
	netem loss 2% && peers some || return
	expect 0 dropped -gt 0 || rc=1
	expect 1 dropped -gt 0 || rc=1
	expect 1 completer_retry_err -gt 0 || rc=1
	return "$rc"
}

overtaken()
{
	local rc=0
	netem delay 1ms reorder 3% && peers some || return
	expect 0 dropped -eq 0 || rc=1
	expect 1 dropped -eq 0 || rc=1
	# The receiver saw a gap, and the sender sent again.
	expect 0 out_of_seq_request -gt 0 || rc=1
	expect 1 completer_retry_err -gt 0 || rc=1
	return "$rc"
}

repeated()
{
	local rc=0
	netem duplicate 5% && peers all || return
	expect 0 dropped -eq 0 || rc=1
	expect 1 dropped -eq 0 || rc=1
	expect 0 duplicate_request -gt 0 || rc=1
	return "$rc"
}

# beyond SIDE NAME N: the counter is.
beyond()
{
	(($(counter "$1" "$2") > $3))
}

# Until the sender has sent again without an answer, some times.
interrupt()
{
	wait_until 20 beyond 1 sent_pkts $(($1 + 500)) && netem loss 100% || return
	wait_until 20 beyond 1 completer_retry_err \
		$(($(counter 1 completer_retry_err) + 9)) ||
		msg "the sender does not try again"
	netem delay 1ms
}

interrupted()
{
	local rc=0 pid
	# So that it is not over before it is interrupted.
	netem delay 10ms || return
	interrupt "$(counter 1 sent_pkts)" &
	pid=$!
	peers some || rc=1
	wait "$pid" || rc=1
	expect 1 dropped -gt 9 || rc=1
	return "$rc"
}

everything()
{
	local rc=0
	netem delay 1ms loss 1% duplicate 1% reorder 2% && peers some || return
	expect 0 dropped -gt 0 || rc=1
	expect 1 dropped -gt 0 || rc=1
	expect 0 out_of_seq_request -gt 0 || rc=1
	expect 0 duplicate_request -gt 0 || rc=1
	expect 1 completer_retry_err -gt 0 || rc=1
	return "$rc"
}

# Everything at random, as far as Soft-RoCE goes with it.
soak()
{
	local rc=0 at=${ADDRESS[0]}:18516
	netem delay 1ms loss 0.5% duplicate 0.5% reorder 1% || return
	run "ibxrc-soak receive --listen $at" \
		"ibxrc-soak send --connect $at --lossy --seconds $SOAK" || return
	expect 0 dropped -gt 0 || rc=1
	expect 1 dropped -gt 0 || rc=1
	expect 0 out_of_seq_request -gt 0 || rc=1
	expect 0 duplicate_request -gt 0 || rc=1
	expect 1 completer_retry_err -gt 0 || rc=1
	return "$rc"
}

declare -A grown

ktap_print_header
if ! modprobe -q -a veth sch_netem; then
	ktap_skip_all "no veth or netem"
	exit "$KSFT_SKIP"
fi
if [[ $(rdma system) != *netns\ shared* ]]; then
	ktap_skip_all "the system is not in shared mode"
	exit "$KSFT_SKIP"
fi
ktap_set_plan 8
ktap_test_result "two name spaces and a wire" setup
ktap_test_result "all packets come" whole
ktap_test_result "packets are lost" lost
ktap_test_result "packets are overtaken" overtaken
ktap_test_result "packets come twice" repeated
ktap_test_result "nothing comes for a while" interrupted
ktap_test_result "all of that" everything
ktap_test_result "all of that in a soak" soak
ktap_finished
