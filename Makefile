# SPDX-License-Identifier: GPL-2.0
#
# Everything is prepared by scripts/ in a cache outside the clone, and built in
# the Debian root there; what is built goes to build/. "make help" lists what
# there is. The module itself is described by Kbuild.

export CMD SHARE EXTRA_PACKAGES SMP MEM TIMEOUT MIRROR KDIR DESTDIR STORM_SEED SHORT
# bash would take it for the time since it was started.
unexport SECONDS
export PREFIX ?= /usr/local
# Of the kernel of test-debug.
CONFIG ?= kasan

# The command belongs to the guest's shell: make expands no $ in it.
override CMD := $(value CMD)

# Recipes run one after the other; what they start is parallel by itself.
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

all: module tools

ifdef KDIR
module:
	@scripts/build-kdir
else
module:
	@scripts/build module
endif

tools selftests:
	@scripts/build $@

install: module tools
	@IBXRC_QUIET=1 scripts/install

vm: everything
	@IBXRC_QUIET=1 scripts/vm "$$CMD"

shell: everything
	@IBXRC_QUIET=1 scripts/vm

demo: everything
	@IBXRC_QUIET=1 scripts/vm /src/scripts/demo

everything:
	@scripts/build module tools selftests

test:
	@scripts/test

test-compat:
	@scripts/test compat

test-storm:
	@scripts/test storm

soak:
	@SOAK_SECONDS=$(SECONDS) SOAK_SEED=$(SEED) scripts/test soak

fuzz:
	@FUZZ_SECONDS=$(SECONDS) FUZZ_SEED=$(SEED) scripts/test fuzz

test-debug:
	@IBXRC_KERNEL=$(CONFIG:kasan=debug) scripts/test debug

test-model:
	@scripts/in-root make -C /src/tools CARGO_TARGET_DIR=/src/build/tools model \
		$(if $(PREEMPTIONS),PREEMPTIONS=$(PREEMPTIONS))

test-sanitize:
	@scripts/test sanitize

check:
	@scripts/check

# What the mirror has is not looked at again once root and kernel are in the
# cache; this makes them anew from it.
update:
	@scripts/update

clean:
	rm -rf build

help:
	@sed -n 's/^#? //p' Makefile

.PHONY: all everything module tools selftests install vm shell demo test test-compat \
	test-storm soak fuzz test-debug test-model test-sanitize check update clean help

#? make                 build the module and the tools
#? make demo            in a VM with Soft-RoCE, show processes sharing a domain
#? make test            unit tests, checks, and the selftests in a VM
#? make test-compat     programs of the distribution that know nothing of this, with all
#?                      their options: half an hour
#? make test-storm      the storms among the selftests in their full form: 20 minutes
#?                      or more; STORM_SEED=N repeats one
#? make soak            senders and receivers that do everything at random, each byte
#?                      checked; SECONDS=1800, SEED=N sends the same again
#? make fuzz            calls of all kinds, right and wrong, from several processes;
#?                      SECONDS=1800, SEED=N makes the same again
#? make test-debug       all selftests on a kernel that looks for mistakes: CONFIG=kasan
#?                      (KASAN, lockdep, kmemleak, ...) or kcsan; SHORT=1 is shorter
#? make test-model      the lifetime core under a model checker, more of it than in the
#?                      unit tests; PREEMPTIONS=4
#? make test-sanitize   unit tests under AddressSanitizer and ThreadSanitizer
#? make check           format, lints and style only
#? make vm CMD='...'    run a shell command as root in a VM with the module loaded;
#?                      SHARE=dir appears at /mnt/share, EXTRA_PACKAGES="..." are
#?                      Debian packages to add; SMP=2 MEM=2G TIMEOUT=1800
#? make shell           the same, interactive
#? make KDIR=dir        build the module against another kernel tree
#? make install         install module and tools; DESTDIR= PREFIX=/usr/local
#? make update          take the newest kernel and packages of the mirror
#? make clean           remove what was built (build/)
#?
#? What is prepared is kept in ~/.cache/ib_xrc, or where IBXRC_CACHE says. The
#? Debian mirror is this machine's, or given by MIRROR=http://...
