#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Calls of all kinds, right and wrong, from several processes, while one of two devices
# comes and goes. From the environment: FUZZ_SECONDS, FUZZ_SEED, FUZZ_CORPUS (a file of
# what has covered something, where the kernel has kcov).

. "$(dirname "$0")/xrc_lib.sh"

seconds=${FUZZ_SECONDS:-10}

fuzz()
{
	(
		set -o pipefail
		ibxrc-fuzz --seconds "$seconds" ${FUZZ_SEED:+--seed "$FUZZ_SEED"} \
			${FUZZ_CORPUS:+--corpus "$FUZZ_CORPUS"} 2>&1 | sed -u 's/^/# /'
	)
}

ktap_print_header
ktap_set_plan 1
ktap_test_result "$seconds s of calls, and nothing is wrong or left" fuzz
ktap_finished
