#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# 16 processes that share domains and are killed at random moments, over and over.
# From the environment: STORM=full, STORM_SEED.

. "$(dirname "$0")/storm_lib.sh"

KILLS=$(form 60 2000 15)
# Seconds: many times what it takes, so that a slow machine is no failure.
BOUND=$(($(form 300 5400) * SCALE))

storm()
{
	storm_load -k "$KILLS" -s "$STORM_SEED" -t "$BOUND"
}

ktap_print_header
ktap_set_plan 4
# The first time caches and tables grow to what they need.
storm_load -k 20 -s 1 -t "$BOUND" >/dev/null
objects=$(all_objects)
remember_memory
ktap_test_result "$KILLS kills within $BOUND s" storm
ktap_test_result "nothing is left on the device" nothing_is_left "$objects"
ktap_test_result "memory is back" same_memory
ktap_test_result "the module unloads and loads" reload_module
ktap_finished
