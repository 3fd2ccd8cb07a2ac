# nccl-join: join semantics for unmodified NCCL programs.
#
#   make            the preload object, the launcher, the loopback stand-ins; make product: without the stand-ins
#   make check      everything that needs no GPU: builds, installs what is missing, tests
#   make demo       the main job, shown
#   make help       all targets
#
# Each folder describes its own targets in a rules.mk, read below. Paths of the CUDA and NCCL headers come from
# .deps/paths.mk, which tools/deps writes (and for which it installs what the machine lacks).

# A make rule cannot name a file with a space, nor can the dynamic linker in a list.
ifneq ($(words $(CURDIR)),1)
$(error this folder has a space in its path: move the checkout to one without ($(CURDIR)))
endif

CC = gcc
BUILD ?= build
PREFIX ?= /usr/local
VERSION = 0.1.0

# SAN=address,undefined or SAN=thread makes the same targets in a build folder of their own.
SAN ?=
comma := ,
ifneq ($(SAN),)
override BUILD := $(BUILD)-$(firstword $(subst $(comma), ,$(SAN)))
# gcc takes some of what it has instrumented for not initialised.
SANFLAGS = -fsanitize=$(SAN) -fno-omit-frame-pointer -fno-sanitize-recover=all -Wno-maybe-uninitialized
# ThreadSanitizer does not know fences. What they order here (core/p2p/peers.c) is atomic, so it has nothing to complain of.
SANFLAGS += $(if $(filter thread,$(SAN)),-Wno-tsan)
endif

# COVERAGE=1 likewise: build-coverage, for `make coverage`. Without optimisation, so that a branch is one of the source.
COVERAGE ?=
ifneq ($(COVERAGE),)
override BUILD := $(BUILD)-coverage
override CFLAGS := -O0 -g -DNDEBUG -DCOVERAGE
SANFLAGS = --coverage
endif

# CRITERION=1 likewise: build-criterion, whose tests are run by Criterion's own runner (tests/rules.mk).
CRITERION ?=
ifneq ($(CRITERION),)
override BUILD := $(BUILD)-criterion
endif

WARNINGS = -Wall -Wextra -Wpedantic -Werror -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
           -Wwrite-strings -Wvla
# With sanitizers compiling takes three times as long, a third of that for what debuggers know of variables. By -Og it takes
# 10 % less than by -O1, and that a third less than by -O2; the tests take as long.
CFLAGS ?= $(if $(SAN),-Og -g1,-O2 -g -DNDEBUG)
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) $(SANFLAGS) -fPIC -fvisibility=hidden \
             -ftls-model=initial-exec -pthread -I. -MMD -MP -DNCCL_JOIN_VERSION='"$(VERSION)"'

# V=1 prints whole commands; otherwise one line a file.
Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-7s %s\n' $(1) $(2))

.DEFAULT_GOAL = all
.PHONY: all product check demo lint install clean help
.SECONDARY:
.DELETE_ON_ERROR:

# What a plain `make` has built is said at its end; where other targets need it, they have more to say.
all: product
	$(if $(filter-out all,$(MAKECMDGOALS)),@:,@$(SAY_BUILT))
SAY_BUILT = printf '%s\n' 'built: $(JOIN_LIBRARY), the launcher $(BUILD)/tools/nccl-join$(STAND_INS_BUILT)' \
  'next:  make demo, make check; make install PREFIX=$(PREFIX); make help lists the rest'

# These need nothing, so they install and download nothing.
ifneq ($(or $(filter-out help clean uninstall,$(MAKECMDGOALS)),$(if $(MAKECMDGOALS),,all)),)
include .deps/paths.mk
# Quiet but for what it installs.
.deps/paths.mk: tools/deps
	@tools/deps $(if $(filter check-gpu gpu-programs,$(MAKECMDGOALS)),--gpu)
endif

# nccl_has NUMBER: whether the headers are of that release or a later one; 22800 is 2.28.
NCCL_HEADERS := $(shell sed -n 's/^\#define NCCL_VERSION_CODE *//p' $(NCCL_INCLUDE)/nccl.h 2>/dev/null)
nccl_has = $(shell test 0$(NCCL_HEADERS) -ge $(1) && echo yes)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) $($(firstword $(subst /, ,$*))_CFLAGS) -c -o $@ $<

$(BUILD)/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) -c -o $@ $<

# The loopback before what is linked to it.
include $(wildcard core/rules.mk hooks/rules.mk interpose/rules.mk) tools/loopback/rules.mk
include $(wildcard tests/rules.mk tests/*/rules.mk tools/rules.mk) $(filter-out tools/loopback/%,$(wildcard tools/*/rules.mk))

clean:
	rm -rf build build-*

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
