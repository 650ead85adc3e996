# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# Make sure that the Debian root and the prepared kernel tree are there, and
# export where: IBXRC_ROOT, IBXRC_TREE. Sourced, after lib.sh.
#
# IBXRC_KERNEL in the environment chooses the kernel: none is the stock kernel; debug
# and kcsan are built by make-debug-tree. IBXRC_MODULE is where in build/ the module for
# it goes.

if [[ ! ${IBXRC_ROOT:-} ]]; then
	. "$TOP/scripts/host.sh"
	check_host
	s=$TOP/scripts

	# The last "make update".
	updated=${IBXRC_UPDATE:-$(cat "$CACHE/updated" 2>/dev/null || true)}
	k=$(key "$s/make-root" "$s/root.packages" "$updated")
	entry root "$k" "Debian root (trixie)" "$s/make-root"
	export IBXRC_ROOT=$ENTRY

	case ${IBXRC_KERNEL:=} in
	'')
		k=$(key "$k" "$s/make-tree" "$s/unpack-source")
		entry tree "$k" "Kernel tree ($(<"$IBXRC_ROOT/kernel-release"))" \
			"$s/make-tree"
		;;
	debug | kcsan)
		config=${IBXRC_KERNEL/debug/kasan}
		k=$(key "$k" "$s/make-debug-tree" "$s/unpack-source" \
			"$s"/debug/{guest,common,"$config"}.config "$TOP/selftests/config")
		entry "$config" "$k" "Kernel with ${config^^}" \
			"$s/make-debug-tree" "$config"
		;;
	*)
		die "IBXRC_KERNEL=$IBXRC_KERNEL: there are debug and kcsan"
		;;
	esac
	export IBXRC_TREE=$ENTRY IBXRC_KERNEL
	export IBXRC_MODULE=module${IBXRC_KERNEL:+-$IBXRC_KERNEL}
fi
