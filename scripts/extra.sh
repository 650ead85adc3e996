# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0
#
# If EXTRA_PACKAGES is set, make IBXRC_ROOT a copy of the root that has these
# Debian packages too. Sourced, after env.sh.

if [[ ${EXTRA_PACKAGES:-} ]]; then
	# shellcheck disable=SC2086 # a list, in no order
	EXTRA_PACKAGES=$(printf '%s\n' $EXTRA_PACKAGES | sort -u | xargs)
	export EXTRA_PACKAGES
	k=$(key "$IBXRC_ROOT" "$TOP/scripts/make-extra" "$EXTRA_PACKAGES")
	entry extra "$k" "Debian root with $EXTRA_PACKAGES" "$TOP/scripts/make-extra"
	export IBXRC_ROOT=$ENTRY
fi
