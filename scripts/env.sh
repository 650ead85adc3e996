# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Make sure that the Debian root and the prepared kernel tree are there, and
# export where: IBXRC_ROOT, IBXRC_TREE. Sourced, after lib.sh.

if [[ ! ${IBXRC_ROOT:-} ]]; then
	. "$TOP/scripts/host.sh"
	check_host
	s=$TOP/scripts

	# The last "make update".
	updated=${IBXRC_UPDATE:-$(cat "$CACHE/updated" 2>/dev/null || true)}
	k=$(key "$s/make-root" "$s/root.packages" "$updated")
	entry root "$k" "Debian root (trixie)" "$s/make-root"
	export IBXRC_ROOT=$ENTRY

	k=$(key "$k" "$s/make-tree")
	entry tree "$k" "Kernel tree ($(<"$IBXRC_ROOT/kernel-release"))" "$s/make-tree"
	export IBXRC_TREE=$ENTRY
fi
