# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# What the storms share: how large they are, and whether the machine is afterwards as
# it was before. STORM=full asks for the full form.

# shellcheck source-path=SCRIPTDIR
. "$(dirname "$0")/xrc_lib.sh"

IBXRC_KO=${IBXRC_KO:-/src/build/module/ib_xrc.ko}
STORM_SEED=${STORM_SEED:-$((RANDOM << 15 | RANDOM))}

# form SHORT FULL [SMALL]: which of these counts.
form()
{
	case ${STORM:-} in
	full) echo "$2" ;;
	small) echo "${3:-$1}" ;;
	*) echo "$1" ;;
	esac
}

# all_objects: how many objects of anybody the devices have.
all_objects()
{
	local kind
	for kind in pd cq qp mr srq ctx; do
		rdma resource show "$kind" 2>/dev/null
	done | wc -l
}

# memory: what the kernel has for itself, in kB: slab, vmalloc, percpu.
memory()
{
	local shrink
	echo 3 >/proc/sys/vm/drop_caches
	# KASAN keeps what has been freed from being used again, until a cache is shrunk.
	for shrink in /sys/kernel/slab/*/shrink; do
		echo 1 >"$shrink"
	done
	awk '$1 == "SUnreclaim:" { s = $2 }
		$1 == "VmallocUsed:" { v = $2 }
		$1 == "Percpu:" { p = $2 }
		END { print s, v, p }' /proc/meminfo
}

# details FILE: slab caches by bytes, and vmalloc by caller.
details()
{
	awk 'NR > 2 { print "slab " $1, int($3 * $4 / 1024) }' /proc/slabinfo >"$1"
	awk '{ for (i = 3; i <= NF; i++) if ($i ~ /\+0x/) { n["vmalloc " $i] += $2; break } }
		END { for (c in n) print c, int(n[c] / 1024) }' \
		/proc/vmallocinfo 2>/dev/null | sed 's/+0x[^ ]*//' >>"$1"
}

# remember_memory: what there is before.
remember_memory()
{
	memory_details=$(mktemp)
	# Freeing waits for grace periods here and there.
	sleep 2
	read -r -a memory_before <<<"$(memory)"
	details "$memory_details"
}

# By how many kB slab, vmalloc and percpu memory may be more than before. After 2,100
# TGT QPs and after 70,000 the slab was 0.9 MB larger: partly used slabs of all caches
# of the kernel, which the processes that look on leave as well; vmalloc was 16 to
# 64 kB larger, stacks that are kept for the next process. The tolerance is about
# twice that. A TGT QP has 34 kB: 60 that are left are too many, and in the full
# forms so is 1 kB for each kill, or 0.2 kB for each TGT QP.
TOLERANCE=(2048 256 128)

# same_memory: is there no more than before? What is freed after a grace period, or by
# a work item, gets some time.
same_memory()
{
	local -a now grown
	local i end=$((SECONDS + 30 * SCALE)) after rc
	while :; do
		rc=0
		read -r -a now <<<"$(memory)"
		for i in 0 1 2; do
			grown[i]=$((now[i] - memory_before[i]))
			((grown[i] <= TOLERANCE[i])) || rc=1
		done
		((rc == 0 || SECONDS > end)) && break
		sleep 1
	done
	msg "memory in kB, before, growth and tolerance:" \
		"slab ${memory_before[0]} + ${grown[0]} (${TOLERANCE[0]})," \
		"vmalloc ${memory_before[1]} + ${grown[1]} (${TOLERANCE[1]})," \
		"percpu ${memory_before[2]} + ${grown[2]} (${TOLERANCE[2]})"
	if ((!rc)); then
		rm -f "$memory_details"
		return 0
	fi
	msg "what has grown most, in kB:"
	after=$(mktemp)
	details "$after"
	awk 'NR == FNR { old[$1 " " $2] += $3; next } { new[$1 " " $2] += $3 }
		END { for (i in new) if (new[i] > old[i]) print new[i] - old[i], i }' \
		"$memory_details" "$after" | sort -rn | head -n 12 | sed 's/^/#   /'
	rm -f "$memory_details" "$after"
	return 1
}

nothing_is_left()
{
	# What processes had goes when they have ended.
	wait_until 30 test_objects "$1" && return
	msg "$(all_objects) objects are left, there were $1:"
	rdma resource show qp | sed 's/^/#   /' | head -n 20
	return 1
}

test_objects()
{
	[[ $(all_objects) == "$1" ]]
}

reload_module()
{
	wait_until 10 grep -qx 0 /sys/module/ib_xrc/refcnt || {
		msg "use count $(</sys/module/ib_xrc/refcnt)"
		return 1
	}
	rmmod ib_xrc || return
	insmod "$IBXRC_KO" || return
	xrc_probe use "$XRC_DEVICE"
}
