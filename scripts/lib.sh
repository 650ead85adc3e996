# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# What the scripts share: where things are, what is said, and the cache.
# Sourced, not run.

set -euo pipefail

# The clone.
# shellcheck disable=SC2034 # for those who source this
TOP=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
# What is made once and kept: outside the clone, one directory an entry.
CACHE=$(realpath -m "${IBXRC_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/ib_xrc}")

# Everything that is not a program's own output goes to stderr, so that the
# output of "make vm CMD=..." is the command's and nothing else.
say() { echo "==> $*" >&2; }

die()
{
	echo "error: $1" >&2
	shift
	local line
	for line; do
		echo "       $line" >&2
	done
	exit 1
}

# step WHAT DONE LOG CMD...: run CMD with its output in LOG, and say what is
# being done and how long it took. On failure show the end of the log.
step()
{
	local what=$1 done=$2 log=$3 start=$SECONDS rc=0
	shift 3

	say "$what ..."
	mkdir -p "$(dirname "$log")"
	"$@" >"$log" 2>&1 </dev/null || rc=$?
	if ((rc)); then
		tail -n 30 "$log" | sed 's/^/    /' >&2
		echo "error: $what: failed after $((SECONDS - start)) s; the whole log is $log" >&2
		return "$rc"
	fi
	say "$what: $done in $((SECONDS - start)) s"
}

# key FILE-OR-TEXT...: a short hash of the files' contents and the texts.
key()
{
	local arg
	for arg; do
		if [[ -f $arg ]]; then cat "$arg"; else echo "$arg"; fi
	done | sha256sum | cut -c1-12
}

# entry KIND KEY WHAT MAKER...: make sure that the cache has the entry
# KIND-KEY, which is made by "MAKER... DIRECTORY", and set ENTRY to its path.
#
# An entry is made under a temporary name and renamed when it is complete, so
# that what has its final name can be relied on. A lock for each kind makes a
# second run wait for the first. It goes with the last process of the maker, so
# what has a temporary name while we hold the lock was left by a run that was
# interrupted.
entry()
{
	local kind=$1 key=$2 what=$3 lock
	shift 3

	ENTRY=$CACHE/$kind-$key
	if [[ -d $ENTRY ]]; then
		[[ ${IBXRC_QUIET:-} ]] || say "$what: cached"
		touch "$ENTRY"
		return
	fi

	mkdir -p "$CACHE/log" || die "cannot create the cache $CACHE" \
		"set IBXRC_CACHE to a directory that can be written"
	exec {lock}>"$CACHE/lock-$kind"
	if ! flock --nonblock "$lock"; then
		say "$what: waiting for another run that is making it"
		flock "$lock"
	fi
	if [[ ! -d $ENTRY ]]; then
		prune "$kind"
		step "$what" made "$CACHE/log/$kind-$key.log" \
			unshare --mount --propagation private -- \
			"$@" "$ENTRY.partial" || explain "$kind" "$key"
		mv "$ENTRY.partial" "$ENTRY"
	else
		say "$what: cached"
	fi
	exec {lock}>&-
}

# prune KIND: with the lock of KIND held, remove what an interrupted run left
# and what no run has used for two weeks.
prune()
{
	local old
	for old in "$CACHE/$1"-*.partial; do
		[[ -d $old ]] && rm -rf --one-file-system "$old"
	done
	# Renamed first: what is half removed must not be taken for whole.
	find "$CACHE" -maxdepth 1 -name "$1-*" -mtime +14 |
		while read -r old; do
			mv "$old" "$old.partial" && rm -rf --one-file-system "$old.partial"
		done
}

# explain KIND KEY: after a failed step, say what to do, and end.
explain()
{
	local log=$CACHE/log/$1-$2.log

	rm -rf --one-file-system "$CACHE/$1-$2.partial"
	if grep -q 'No space left on device' "$log"; then
		die "no space left in $CACHE" \
			"about 8 GB are needed; set IBXRC_CACHE to a directory with more room"
	elif grep -qE 'Temporary failure resolving|Could not resolve|Could not connect|Connection failed|Failed to fetch|404 +Not Found|does not have a Release file|Cannot initiate the connection' "$log"; then
		die "the Debian mirror ${MIRROR:-} cannot be used" \
			"give one that has the suites trixie and trixie-backports with MIRROR=http://..., and check the proxy variables"
	elif grep -qE 'NO_PUBKEY|not signed|keyring' "$log"; then
		die "the mirror's signatures cannot be checked" \
			"install a newer debian-archive-keyring on this machine"
	elif grep -qE 'Unable to locate package|has no installation candidate' "$log"; then
		die "the mirror ${MIRROR:-} lacks a package (see above)" \
			"give a complete one with MIRROR=http://..."
	fi
	exit 1
}
