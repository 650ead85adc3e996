#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Unmodified programs under "ibxrc run", on one host and between two: those that use XRC
# work on a device without it, and the others as if it was not there. What each is
# expected to do, and why, stands in Documentation/compat-programs.rst. COMPAT=full:
# all of that, otherwise some of it.

. "$(dirname "$0")/xrc_lib.sh"

# Seconds that a program may take.
BOUND=${BOUND:-$((60 * SCALE))}
# Seconds for those that are to run for some time.
DURATION=10
# Of the two sides, 0 is the server: name space (none: ours), device, and address.
NS=('' '')
DEV=("$XRC_DEVICE" "$XRC_DEVICE")
ADDRESS=()
HOSTS=(xrccompat0 xrccompat1)
# What programs are run under.
RUN=(ibxrc run --)
PORT=19000
TRACE=/sys/kernel/tracing

TMP=$(mktemp -d) || exit
server=

cleanup()
{
	[[ ! $server ]] || kill -KILL "$server"
	stop_counting
	take_down
	rm -rf "$TMP"
} 2>/dev/null
trap cleanup EXIT

# on SIDE CMD...
on()
{
	local ns=${NS[$1]}
	shift
	${ns:+ip netns exec "$ns"} "$@"
}

# become SIDE CMD...: be this program, which may take $BOUND seconds.
become()
{
	local ns=${NS[$1]}
	shift
	exec ${ns:+ip netns exec "$ns"} timeout --kill-after=5 "$BOUND" "${RUN[@]}" "$@"
}

# address_of SIDE: of the device's network interface.
address_of()
{
	on "$1" ip -4 -o address show dev "$(on "$1" rdma link show "${DEV[$1]}/1" |
		sed -n 's/.* netdev \([^ ]*\).*/\1/p')" |
		sed -n 's/.* inet \([0-9.]*\).*/\1/p'
}

# gid_of SIDE: the index of a RoCE v2 GID of an IPv4 address.
gid_of()
{
	# shellcheck disable=SC2016 # for the other shell
	on "$1" sh -c 'cd /sys/class/infiniband/'"${DEV[$1]}"'/ports/1 &&
		for i in $(ls gids | sort -n); do
			case $(cat gids/$i) in
			0000:0000:0000:0000:0000:ffff:*) ;;
			*) continue ;;
			esac
			[ "$(cat gid_attrs/types/$i)" = "RoCE v2" ] && echo $i && break
		done 2>/dev/null'
}

# places: find out where the two sides are.
places()
{
	local i
	for i in 0 1; do
		ADDRESS[i]=$(address_of "$i") && GID[i]=$(gid_of "$i")
		if [[ ! ${ADDRESS[i]} || ! ${GID[i]} ]]; then
			msg "${DEV[i]} has no address or no GID"
			return 1
		fi
	done
}

one_host()
{
	count_tgt && places
}

# Two name spaces with a device each.
set_up()
{
	local i
	ip netns add "${HOSTS[0]}" && ip netns add "${HOSTS[1]}" || return
	ip link add "${HOSTS[0]}" netns "${HOSTS[0]}" type veth \
		peer name "${HOSTS[1]}" netns "${HOSTS[1]}" || return
	NS=("${HOSTS[@]}") DEV=("${HOSTS[@]}")
	for i in 0 1; do
		ip -n "${NS[i]}" address add "192.0.2.$((i + 1))/24" dev "${DEV[i]}" &&
			ip -n "${NS[i]}" link set lo up &&
			ip -n "${NS[i]}" link set "${DEV[i]}" up || return
		on "$i" rdma link add "${DEV[i]}" type rxe netdev "${DEV[i]}" || return
		# In exclusive mode it is in ours at first.
		[[ ! $1 ]] || rdma dev set "${DEV[i]}" netns "${NS[i]}" || return
	done
	wait_until 20 places || places
}

take_down()
{
	local i
	for i in "${HOSTS[@]}"; do
		ip netns exec "$i" rdma link del "$i"
		ip netns del "$i"
	done
	wait_until 20 rdma system set netns shared
} 2>/dev/null

# Neither sees the device of the other, nor ours.
two_hosts()
{
	local i
	rdma system set netns exclusive && set_up exclusive || return
	for i in 0 1; do
		[[ $(on "$i" ibxrc dev show | grep -c .) == 1 ]] || return
	done
}

# Soft-RoCE moved to a name space has no GSI QP, which rdma_cm needs.
two_hosts_for_cm()
{
	take_down && set_up ''
}

# alive PID: it has not ended.
alive()
{
	[[ -e /proc/$1/net ]] && ! grep -q '^State:.*Z' "/proc/$1/status"
}

# ready TEST...: the server has come so far, or has ended.
ready()
{
	! alive "$server" || "$@"
}

# A program of TCP listens on the port.
listens()
{
	local hex
	printf -v hex ':%04X' "$PORT"
	grep -qE "^ *[0-9]+: [0-9A-F]+$hex [0-9A-F:]+ 0A" "/proc/$server/net/"tcp{,6}
}

# One of librdmacm does.
cm_listens()
{
	on 0 rdma resource show cm_id | grep -q 'state LISTEN'
}

# count_tgt: from now on the kernel counts the TGT QPs that the module makes. To look for
# them while they are there would miss some.
count_tgt()
{
	# shellcheck disable=SC2016 # the kernel's
	echo 'p:xrccompat ib_create_qp_kernel caller=+0($arg3):string' \
		>"$TRACE/kprobe_events" && echo 1 >"$TRACE/events/kprobes/xrccompat/enable"
}

stop_counting()
{
	echo 0 >"$TRACE/events/kprobes/xrccompat/enable"
	echo '-:xrccompat' >"$TRACE/kprobe_events"
}

# both LISTENS CLIENTS SERVER CLIENT: the server, once it listens the clients, until all
# have ended. Commands are words with blanks. Sets "rc" to the sum of what they
# return, and "tgts" to how many TGT QPs were made.
both()
{
	local listens=$1 clients=$2 i pids=() status
	rm -f "$TMP"/*
	rc=0
	: >"$TRACE/trace"
	# shellcheck disable=SC2086 # several words
	(become 0 $3) >"$TMP/server" 2>&1 </dev/null &
	server=$!
	wait_until 30 ready "$listens" || msg "the server does not listen"
	for ((i = 1; i <= clients; i++)); do
		# shellcheck disable=SC2086
		(become 1 $4) >"$TMP/client$i" 2>&1 </dev/null &
		pids+=($!)
	done
	meanwhile "${pids[0]}"
	for i in "${pids[@]}" "$server"; do
		wait "$i"
		status=$?
		rc=$((rc + status))
	done
	server=
	tgts=$(grep -cF 'caller="ib_xrc"' "$TRACE/trace")
}

# What is done to the first client while it runs.
meanwhile()
{
	:
}

# fail WHAT: say it, and what the programs said.
fail()
{
	local i
	msg "$1"
	for i in "$TMP"/server "$TMP"/client*; do
		tail -n 25 "$i" | sed "s|^|# ${i##*/}: |"
	done
	return 1
}

# by_xrc N: both ended well, and did it with so many TGT QPs.
by_xrc()
{
	((rc == 0)) || fail "status $rc" || return
	((tgts == $1)) || fail "$tgts TGT QPs and not $1"
}

# ibv_xsrq_pingpong. Clients are as many as the server's option -c says.
xsrq()
{
	local clients=1 i options=''
	PORT=$((PORT + 1))
	for ((i = 1; i <= $#; i++)); do
		# The number of clients is the server's matter.
		if [[ ${!i} == -c ]]; then
			i=$((i + 1))
			clients=${!i}
		else
			options+=" ${!i}"
		fi
	done
	both listens "$clients" \
		"ibv_xsrq_pingpong -d ${DEV[0]} -g ${GID[0]} -p $PORT -c $clients $options" \
		"ibv_xsrq_pingpong -d ${DEV[1]} -g ${GID[1]} -p $PORT $options ${ADDRESS[0]}"
	by_xrc $((2 * clients)) || return
	for i in "$TMP"/server "$TMP"/client*; do
		grep -qx success "$i" || fail "no success" || return
	done
}

# perf PROGRAM OPTION...: a program of perftest.
perf()
{
	local program=$1
	shift
	PORT=$((PORT + 1))
	[[ " $* " != *' -R '* ]] || local listens=cm_listens
	both "${listens:-listens}" 1 "$program -F -d ${DEV[0]} -x ${GID[0]} -p $PORT $*" \
		"$program -F -d ${DEV[1]} -x ${GID[1]} -p $PORT $* ${ADDRESS[0]}"
}

# sizes: those in the client's table, each with a number of iterations and a result. Small
# messages are rounded to 0 in the column of bytes, large ones in that of messages. If
# perftest did not find out how fast the CPU is, all is 0.
sizes()
{
	awk '/^Correlation coefficient/ { unknown = 1 }
	     /#bytes/ { table = 1; next }
	     table && $1 ~ /^[0-9]+$/ && $2 > 0 && ($(NF - 1) > 0 || $NF > 0 || unknown) {
		printf "%s ", $1
	     }' "$TMP/client1"
}

# qps PROGRAM OPTION...: how many TGT QPs it makes at both ends.
qps()
{
	local all=" $* " n=1
	[[ $all != *' -q '* ]] || n=${all##* -q }
	n=${n%% *}
	[[ $all != *' -b '* && $all != *_lat* ]] || n=$((2 * n))
	echo "$n"
}

# measured PROGRAM OPTION...: with XRC, each size is measured once.
measured()
{
	local expected=65536 i found all=" $* "
	[[ $all != *' -a '* ]] || local BOUND=$((BOUND * 10))
	perf "$@" -c XRC
	by_xrc "$(qps "$@")" || return
	case $all in
	*" ib_atomic"*) expected=8 ;;
	*" -a "*) expected=$(for ((i = 2; i <= 1 << 23; i *= 2)); do echo "$i"; done) ;;
	*" -s "*)
		expected=${all##* -s }
		expected=${expected%% *}
		;;
	*_lat*) expected=2 ;;
	esac
	found=$(sizes)
	[[ $(echo $found) == $(echo $expected) ]] ||
		fail "results for the sizes: $found" || return
	grep -q 'Connection type *: XRC' "$TMP/client1" || fail "not XRC"
}

# same FILE: what a program says with and without us, that is all but numbers, and that
# perftest did not find out how fast the CPU is.
same()
{
	sed -E -e '/^Correlation coefficient/d' -e 's/0x[0-9a-fA-F]+|[0-9]+(\.[0-9]+)?/N/g' -e 's/[ \t]+/ /g' -e 's/ $//' "$TMP/$1"
}

# alike FUNCTION ARG...: it does the same under "ibxrc run" and without.
alike()
{
	local run=("${RUN[@]}") i with=()
	"$@"
	((rc == 0)) || fail "status $rc" || return
	((tgts == 0)) || fail "$tgts TGT QPs" || return
	for i in server client1; do
		with+=("$(same "$i")")
	done
	RUN=()
	"$@"
	RUN=("${run[@]}")
	((rc == 0)) || fail "status $rc without ibxrc run" || return
	[[ ${with[0]} == "$(same server)" && ${with[1]} == "$(same client1)" ]] && return
	msg "with ibxrc run:"
	printf '%s\n' "${with[@]}" | sed 's/^/# /'
	fail "without:"
}

# refused PROGRAM OPTION...: perftest says that it does not have that.
refused()
{
	perf "$@" -c XRC
	((rc != 0)) || fail "it was not refused" || return
	((tgts == 0)) || fail "$tgts TGT QPs" || return
	grep -qE "$(why "$@")" "$TMP/server" && grep -qE "$(why "$@")" "$TMP/client1" ||
		fail "refused for another reason"
}

# why PROGRAM OPTION...: what it says.
why()
{
	case "$*" in
	*" -R"*) echo 'XRC does not support RDMA_CM' ;;
	*write*" -e"*) echo 'Events feature not available on WRITE verb' ;;
	*atomic*" -a"*) echo 'Message size cannot be changed for Atomic tests' ;;
	*lat*" -q"*) echo 'Multiple QPs only available on bw tests' ;;
	*lat*" -b"*) echo 'Bidirectional is only available in BW test' ;;
	*lat*" --run_infinitely"*) echo 'run_infinitely exists only in BW tests' ;;
	esac
}

# infinite PROGRAM: until it is interrupted.
infinite()
{
	meanwhile()
	{
		sleep $((DURATION + 5))
		# It may be below "timeout".
		pkill -INT -P "$1" || kill -INT "$1"
	}
	perf "$1" -c XRC -s "$([[ $1 == *atomic* ]] && echo 8 || echo 4096)" --run_infinitely -D 2
	meanwhile() { :; }
	by_xrc 1 || return
	(($(sizes | wc -w) >= 3)) || fail "fewer results than expected" || return
	grep -q 'User stopped traffic' "$TMP/client1" || fail "it was not stopped"
}

# endless PROGRAM: its server does not end when the client does.
endless()
{
	local lived=
	meanwhile()
	{
		sleep $((DURATION + 5))
		alive "$server" && alive "$1" && lived=1
		pkill -INT -P "$1" || kill -INT "$1"
		pkill -INT -P "$server" || kill -INT "$server"
	}
	perf "$1" -c XRC -s 4096 --run_infinitely -D 2
	meanwhile() { :; }
	[[ $lived ]] || fail "it ended" || return
	((tgts == 1)) || fail "$tgts TGT QPs and not 1" || return
	(($(sizes | wc -w) >= 3)) || fail "fewer results than expected"
}

# pingpong PROGRAM OPTION...: another one of libibverbs.
pingpong()
{
	local program=$1
	shift
	PORT=$((PORT + 1))
	both listens 1 "$program -d ${DEV[0]} -g ${GID[0]} -p $PORT $*" \
		"$program -d ${DEV[1]} -g ${GID[1]} -p $PORT $* ${ADDRESS[0]}"
}

# cm SERVER CLIENT: programs of librdmacm; ADDRESS is the server's.
cm()
{
	both cm_listens 1 "${1//ADDRESS/${ADDRESS[0]}}" "${2//ADDRESS/${ADDRESS[0]}}"
}

rping()
{
	cm "rping -s -a ADDRESS -C 20 -v" "rping -c -a ADDRESS -C 20 -v"
}

# The server may wait for ever that its last message is acknowledged, by a client that has
# gone: Soft-RoCE takes the 7 retries that librdmacm asks for as no limit.
rdma_cs()
{
	local BOUND=$((30 * SCALE)) i
	for i in 1 2 3; do
		PORT=$((PORT + 1))
		cm "rdma_server -p $PORT" "rdma_client -s ADDRESS -p $PORT"
		((rc == 124)) && grep -q 'end 0' "$TMP/client1" || return
	done
}

udaddy()
{
	cm "udaddy -b ADDRESS" "udaddy -s ADDRESS"
}

# xcs r|x: over RC or XRC.
xcs()
{
	PORT=$((PORT + 1))
	cm "rdma_xserver -p $PORT -c $1" "rdma_xclient -s ADDRESS -p $PORT -c $1"
}

# by_cm FUNCTION ARG...: it works, over rdma_cm, with one TGT QP.
by_cm()
{
	"$@"
	by_xrc 1
}

# clean: every program is gone, and what it had with it.
clean()
{
	local i
	for i in 0 1; do
		((i == 0 || ${#NS[1]})) || continue
		wait_until 20 nothing "$i" && continue
		on "$i" rdma resource show qp | sed 's/^/# left: /'
		return 1
	done
}

# nothing SIDE: no QP of a user's, and no object of the module.
nothing()
{
	local kind
	for kind in pd cq qp mr srq; do
		! on "$1" rdma resource show "$kind" | grep -qE 'pid|\[ib_xrc\]' || return
	done
}

# What is tried, a line each: a function from above and its arguments.
some()
{
	cat <<-END
		xsrq
		xsrq -c 4 -e
		measured ib_send_lat -n 50
		measured ib_send_bw -n 50 -e -s 4096
		measured ib_write_bw -n 50 -s 4096
		measured ib_read_bw -n 50 -s 4096
		measured ib_atomic_bw -n 50 -q 2
		refused ib_send_bw -R
		alike pingpong ibv_rc_pingpong -e -n 100
		alike perf ib_send_bw -c RC -n 50 -s 4096
		by_cm xcs x
	END
}

some_far()
{
	cat <<-END
		xsrq -c 4 -e
		measured ib_send_bw -n 50 -b -s 4096
		measured ib_write_lat -n 50
	END
}

all_xsrq()
{
	cat <<-END
		xsrq
		xsrq -c 4
		xsrq -e
		xsrq -c 4 -e
		xsrq -s 1
		xsrq -s 65536
		xsrq -s 1000000
		xsrq -n 1000
	END
}

all_perf()
{
	local what
	for what in send write read; do
		cat <<-END
			measured ib_${what}_lat
			measured ib_${what}_lat -a -n 5
			measured ib_${what}_lat -D $DURATION
			measured ib_${what}_bw -n 100
			measured ib_${what}_bw -a -n 5
			measured ib_${what}_bw -n 100 -b -s 4096
			measured ib_${what}_bw -n 100 -q 8 -s 4096
			measured ib_${what}_bw -n 100 -b -q 8 -s 4096
			measured ib_${what}_bw -n 100 -l 10 -s 4096
			measured ib_${what}_bw -D $DURATION
		END
	done
	cat <<-END
		measured ib_atomic_lat
		measured ib_atomic_lat -D $DURATION
		measured ib_atomic_bw -n 100
		measured ib_atomic_bw -n 100 -A CMP_AND_SWAP
		measured ib_atomic_bw -n 100 -b
		measured ib_atomic_bw -n 100 -q 8
		measured ib_atomic_bw -n 100 -b -q 8
		measured ib_atomic_bw -n 100 -l 10
		measured ib_atomic_bw -D $DURATION
		infinite ib_write_bw
		infinite ib_read_bw
		infinite ib_atomic_bw
		endless ib_send_bw
	END
	for what in send read atomic; do
		cat <<-END
			measured ib_${what}_lat -e -n 100
			measured ib_${what}_bw -e -n 100
		END
	done
	for what in send_lat send_bw write_lat write_bw read_lat read_bw atomic_lat atomic_bw; do
		echo "refused ib_$what -R"
	done
	cat <<-END
		refused ib_write_lat -e
		refused ib_write_bw -e
		refused ib_atomic_bw -a
		refused ib_send_lat -q 8
		refused ib_send_lat -b
		refused ib_send_lat --run_infinitely
	END
}

all_others()
{
	cat <<-END
		alike pingpong ibv_rc_pingpong
		alike pingpong ibv_rc_pingpong -e
		alike pingpong ibv_srq_pingpong
		alike pingpong ibv_srq_pingpong -e
		alike pingpong ibv_ud_pingpong -s 1024
		alike pingpong ibv_uc_pingpong
		alike perf ib_send_bw -c RC -n 100
		alike perf ib_send_bw -c RC -n 100 -e
		alike perf ib_send_bw -c UD -n 100
		alike perf ib_write_lat -c RC -n 100
	END
}

all_cm()
{
	cat <<-END
		alike perf ib_send_bw -c RC -n 100 -R
		alike rping
		alike rdma_cs
		alike udaddy
		alike xcs r
		by_cm xcs x
	END
}

cases()
{
	echo one_host
	if [[ $COMPAT == full ]]; then
		all_xsrq
		all_perf
		all_others
		all_cm
	else
		some
	fi
	echo clean
	echo two_hosts
	if [[ $COMPAT == full ]]; then
		all_xsrq
		all_perf
		all_others
		echo clean
		echo two_hosts_for_cm
		all_cm
	else
		some_far
	fi
	echo clean
}

# wanted < CASES: those that match $CASES, and what goes before and after; with the place
# in front, and a colon between.
wanted()
{
	local one where=''
	while read -r one; do
		case $one in
		one_host | two_hosts*)
			where=$one
			echo "$where: $one"
			;;
		*)
			[[ $one == clean || "$where: $one" =~ $CASES ]] && echo "$where: $one"
			;;
		esac
	done
}

run_cases()
{
	local all one start
	mapfile -t all < <(cases | wanted)
	ktap_set_plan "${#all[@]}"
	for one in "${all[@]}"; do
		start=$SECONDS
		# shellcheck disable=SC2086 # several words
		ktap_test_result "$one" ${one#*: }
		msg "it took $((SECONDS - start)) s"
	done
}

CASES=${CASES:-}
GID=()

ktap_print_header
run_cases
ktap_finished
