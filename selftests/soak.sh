#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Four senders, eight SRQs in four processes, three domains: everything at random, and
# each byte checked. From the environment: SOAK_SECONDS, SOAK_SEED.

. "$(dirname "$0")/storm_lib.sh"

seconds=${SOAK_SECONDS:-60}

soak()
{
	(
		set -o pipefail
		ibxrc-soak --patience $((120 * SCALE)) "$@" 2>&1 | sed -u 's/^/# /'
	)
}

ktap_print_header
ktap_set_plan 3
# The first time caches and tables grow to what they need.
soak --seconds 3 --seed 1 >/dev/null
objects=$(all_objects)
remember_memory
ktap_test_result "$seconds s of everything, whole and in order" \
	soak --seconds "$seconds" ${SOAK_SEED:+--seed "$SOAK_SEED"}
ktap_test_result "nothing is left on the device" nothing_is_left "$objects"
ktap_test_result "memory is back" same_memory
ktap_finished
