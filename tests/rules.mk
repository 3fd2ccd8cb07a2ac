# Tests: one program per folder, of Criterion's tests, run by `make check` (tests/runner.c).
#   tests/unit        core and pure parts of hooks and interpose, no process needed
#   tests/fuzz        the corpus of the fuzz targets
#   tests/simulation  random programs through the core, in memory; `make sim` runs as many as wanted
#   tests/hooks       shadows against recording doubles and the loopback
#   tests/interpose   export list, ways to come to NCCL, resolver, exit paths, the real libnccl without a GPU
#   tests/python      the places of calls in Python programs, by every Python of the machine
#   tests/tools       the launcher
#   tests/added       nccl-join with one collective more, for a test of tests/tools
#   tests/join        ordinary NCCL programs with and without the preload, on the loopback
#   tests/faults      the same, with ranks killed, stopped, out of memory and so on
#   tests/loopback    the stand-ins themselves (tools/loopback)
#   tests/generated   random programs in C, C++ and Python; a fixed part, `make check-programs` makes as many as wanted
# and outside of it
#   tests/versions    the headers and libraries of NCCL's releases, run by `make check-versions`
#   tests/nccl        NVIDIA's libnccl with its kernels emulated, and the join tests in front of it, run by `make check-nccl`
#   tests/clients     real clients of NCCL, and launchers; run by `make check-clients`
#   tests/packages    the wheel and the Debian package; run by `make check-packages`
#   tests/machines    programs on several machines, which are namespaces of this one; run by `make check-machines`
#   tests/pytorch     PyTorch's CUDA wheel on the loopback; run by `make check-pytorch`


tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE) -Wno-missing-prototypes -Wno-overlength-strings -Wno-write-strings

# Tests call what they test and compare: optimised they take two thirds longer to compile, and run as long. Not so random programs
# (tests/simulation, tests/fuzz), and those that stand for a user's (tests/programs), where what the optimiser does is part of the test.
# Without optimisation gcc knows less of how long texts are.
COMPARING = unit/test_ hooks/ interpose/ tools/ join/ faults/ loopback/ machines/
$(foreach tests,$(COMPARING),$(BUILD)/tests/$(tests)%.o): private tests_CFLAGS += -O0 -g1 -Wno-format-truncation

-include tests/programs/programs.mk

objects_of = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c))

UNIT_OBJECTS = $(call objects_of,tests/unit)
SIMULATION_OBJECTS = $(filter-out %/sim.o %/many.o,$(call objects_of,tests/simulation))
HOOKS_TEST_OBJECTS = $(call objects_of,tests/hooks)
INTERPOSE_TEST_OBJECTS = $(call objects_of,tests/interpose)
TOOLS_TEST_OBJECTS = $(call objects_of,tests/tools)
JOIN_TEST_OBJECTS = $(call objects_of,tests/join)

define link_test
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(TEST_LIBS) $(RUNNER_LIBS) -lm
endef

# What many tests use, and what runs them: Criterion starts a program anew for each test, with all that its library needs, which costs
# more than most tests (20 ms, with sanitizers more), and does not look at how it ends: whether it has lost memory. It does not start
# under ThreadSanitizer at all. CRITERION=1, in a build folder of its own, has its runner.
RUNNER = $(BUILD)/tests/text_file.o $(if $(CRITERION),,$(BUILD)/tests/runner.o)
RUNNER_LIBS = $(if $(CRITERION),-lcriterion)
TEST_PROGRAMS = $(addprefix $(BUILD)/check/,unit simulation fuzz hooks interpose python tools join faults generated machines clients)
$(TEST_PROGRAMS): $(RUNNER)

# Calls that fail when a test wants them to (tests/unit/failing.h).
UNIT_WRAPPED = malloc calloc realloc aligned_alloc fcntl open fstat ftruncate getcwd gethostname mmap posix_fallocate pread access \
               sched_getaffinity write
# Plug-ins that are part of the test (tests/hooks/test_plugins.c).
HOOKS_WRAPPED = dlopen dlsym dlclose
$(BUILD)/check/unit: private SANFLAGS += $(UNIT_WRAPPED:%=-Wl,--wrap=%)
$(BUILD)/check/unit: $(UNIT_OBJECTS) $(CORE_OBJECTS) $(addprefix $(BUILD)/hooks/,contribution.o divisor.o number.o) $(FLOW_OBJECTS)
	$(link_test)
$(BUILD)/check/simulation: $(SIMULATION_OBJECTS) $(CORE_OBJECTS)
	$(link_test)
$(BUILD)/check/hooks: private SANFLAGS += $(HOOKS_WRAPPED:%=-Wl,--wrap=%)
$(BUILD)/check/hooks: $(HOOKS_TEST_OBJECTS) $(CORE_OBJECTS) $(HOOKS_OBJECTS)
	$(link_test)
# What tests/interpose/parts/built links.
ifeq ($(SAN),)
$(BUILD)/check/interpose: | $(patsubst %,$(BUILD)/%.o,$(basename $(wildcard $(filter-out tests/%,$(shell cat tests/interpose/parts/double.sources)))))
endif
$(BUILD)/check/interpose: $(INTERPOSE_TEST_OBJECTS) $(NATIVE_CODE_OBJECTS)
	$(link_test)
$(BUILD)/check/tools: private TEST_LIBS = $(ELF_LIBS) $(JSON_LIBS) $(DECODER_LIBS)
$(BUILD)/check/tools: $(TOOLS_TEST_OBJECTS) $(addprefix $(BUILD)/tools/bench/,rows.o steps.o) \
		$(filter-out %/check_main.o,$(call objects_of,tools/check)) $(addprefix $(BUILD)/tools/,terminal.o json_text.o port.o)
	$(link_test)
$(BUILD)/check/join: $(JOIN_TEST_OBJECTS) $(BUILD)/tools/port.o
	$(link_test)

# ---- make check -------------------------------------------------------------------------------------------------

# For nccl-join run --loopback. The stand-in has the functions and structures of NCCL 2.28.7, so it cannot be built with older
# headers; and a GPU machine may lack those of one release of CUDA.
ifneq ($(and $(CUDA12_INCLUDE),$(call nccl_has,22807)),)
all: loopback
STAND_INS_BUILT = , the stand-ins in $(LOOPBACK)
endif

UNIT_CHECK = $(BUILD)/check/unit
CHECKS = unit simulation fuzz interpose python tools join faults
# These call the stand-ins themselves.
LOOPBACK_CHECKS = $(BUILD)/check/hooks $(BUILD)/tests/loopback-cuda $(BUILD)/tests/loopback-nccl
CHECK_PROGRAMS = $(CHECKS:%=$(BUILD)/check/%)
CHECK_ENVIRONMENT = JOIN_TEST_BUILD=$(BUILD) NCCL_LIBRARY=$(NCCL_LIBRARY) NCCL_INCLUDE=$(NCCL_INCLUDE) \
                    CUDA_INCLUDE=$(CUDA13_INCLUDE) JOIN_TEST_BENCHMARKS='$(if $(SAN),,$(BENCHMARKS))'

# Those of attachments and of the agreement run over each transport (tests/unit/planes.h). Random programs take the same paths more often: a quarter
# of them is run again over the other transport. With sanitizers the tests themselves take a quarter.
UNIT_OVER_SHM = UNIT_TRANSPORT=shm 'TEST_FILTER=@(@(attachment|foresight|looks|marks|overlap*|peers|place*|team*)/*|peers_random/programs_0)'

.PHONY: check check-here check-build
check-build: all loopback programs gpu-programs $(CHECK_PROGRAMS) $(LOOPBACK_CHECKS) $(BUILD)/bench/report

# Sanitizers would only measure themselves. tests/tools is run without.
ifeq ($(SAN),)
check-build: bench-build bench-machines-build added $(BUILD)/check/machines
endif

# The tests in this build folder.
check-here: check-build
	@tests/run --with $(CHECK_ENVIRONMENT) -- $(CHECK_PROGRAMS) --with $(UNIT_OVER_SHM) -- $(UNIT_CHECK) \
	  --with UNIT_TRANSPORT= TEST_FILTER= LD_LIBRARY_PATH=$(BUILD)/loopback -- $(LOOPBACK_CHECKS)

# Everything, and what needs memory and processes once more with the address and undefined behaviour sanitizers.
SANITIZED_BUILD = build-address
SANITIZED_LAUNCHER = $(SANITIZED_BUILD)/launcher
SANITIZED_CHECKS = unit fuzz python
# Ranks have sanitizers; what starts them and reads what they say has none, nor, but for a few suites, has the launcher: three processes more a run.
SANITIZED_LAUNCHES = @(sums|endings|lossy|alike)/*
# Of the others the least that take all but 1 in 1,000 of the ways that all of them take (`make choose-sanitized`). Without sanitizers, and by
# check-address, all are run.
SANITIZED_PART = @($(shell paste -sd'|' tests/join/sanitized))
# Random programs take the same paths more often.
SANITIZED_UNITS = !(peers_random/programs_[!0])
SANITIZED_LOOPBACK = ASAN_OPTIONS=handle_segv=0:handle_abort=0:detect_leaks=0
SANITIZED_LOOPBACK_CHECKS = $(LOOPBACK_CHECKS:$(BUILD)/%=$(SANITIZED_BUILD)/%)
# Of the stand-ins: the same with more ranks, and every number that can be rounded.
LOOPBACK_LONG = @(nccl_collectives/of_eight_ranks|nccl_datatype/@(every_rounding_decision_*|random_floats_*))
SANITIZED_SETTINGS = LD_LIBRARY_PATH= JOIN_TEST_BUILD=$(SANITIZED_BUILD) ASAN_OPTIONS=verify_asan_link_order=0 \
                     LSAN_OPTIONS=suppressions=$(CURDIR)/tests/leaks.suppressions:print_suppressions=0

# In the build folder of the sanitizers.
.PHONY: check-build-sanitized
check-build-sanitized: all loopback programs $(SANITIZED_CHECKS:%=$(BUILD)/check/%) $(LOOPBACK_CHECKS) $(BUILD)/bench/ddp-train

# Built on all processors, unless make was given a number of jobs.
BUILD_JOBS = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$(shell nproc))
check:
	@tools/deps --check
	@$(MAKE) --no-print-directory $(BUILD_JOBS) check-build
	@$(MAKE) --no-print-directory $(BUILD_JOBS) SAN=address,undefined check-build-sanitized
	@tests/join/launcher $(BUILD) $(SANITIZED_BUILD) $(SANITIZED_LAUNCHER)
	@$(MAKE) --no-print-directory nccl-small
	@$(MAKE) --no-print-directory pytorch-small
	@tests/run --with $(CHECK_ENVIRONMENT) -- $(CHECK_PROGRAMS) --with $(UNIT_OVER_SHM) -- $(UNIT_CHECK) \
	  --with UNIT_TRANSPORT= TEST_FILTER= LD_LIBRARY_PATH=$(BUILD)/loopback -- $(LOOPBACK_CHECKS) \
	  --with $(SANITIZED_SETTINGS) -- $(SANITIZED_BUILD)/check/fuzz $(SANITIZED_BUILD)/check/python $(BUILD)/check/faults \
	  --with 'TEST_FILTER=$(SANITIZED_UNITS)' -- $(SANITIZED_BUILD)/check/unit \
	  --with 'TEST_FILTER=$(SANITIZED_LAUNCHES)' -- $(BUILD)/check/join \
	  --with 'TEST_FILTER=$(SANITIZED_PART)' JOIN_TEST_LAUNCHER=$(SANITIZED_LAUNCHER) -- $(BUILD)/check/join \
	  --with 'TEST_FILTER=!($(LOOPBACK_LONG))' LD_LIBRARY_PATH=$(SANITIZED_BUILD)/loopback $(SANITIZED_LOOPBACK) -- $(SANITIZED_LOOPBACK_CHECKS) \
	  --with TEST_FILTER= JOIN_TEST_LAUNCHER= LD_LIBRARY_PATH= JOIN_TEST_BUILD=$(BUILD) $(MACHINES_SMALL_RUN) \
	  --with TEST_FILTER= JOIN_TEST_MACHINES= NCCL_JOIN_MACHINES= -- $(NCCL_SMALL_RUN)

# A build with COVERAGE=1 says which ways tests take: minutes, after many new ones.
.PHONY: choose-sanitized
choose-sanitized: check-build
	@$(MAKE) --no-print-directory COVERAGE=1 $(BUILD_JOBS) all loopback programs build-coverage/bench/ddp-train
	$(Q)$(CHECK_ENVIRONMENT) tests/join/choose.py build-coverage \
	  $$($(BUILD)/check/join --list --filter '$(SANITIZED_LAUNCHES)') >$(BUILD)/sanitized
	$(Q)mv $(BUILD)/sanitized tests/join/sanitized

# ---- make check-address, make check-thread, make check-valgrind --------------------------------------------------

# All of what make check runs a part of with these sanitizers.
.PHONY: check-address
check-address:
	@tools/deps --check
	@$(MAKE) --no-print-directory $(BUILD_JOBS) all $(BUILD)/check/join $(BUILD)/data/digits.csv
	@$(MAKE) --no-print-directory $(BUILD_JOBS) SAN=address,undefined check-build-sanitized
	@tests/run --with $(CHECK_ENVIRONMENT) TEST_LIMIT=3600 \
	  --with $(SANITIZED_SETTINGS) -- $(BUILD)/check/join \
	  --with LD_LIBRARY_PATH=$(SANITIZED_BUILD)/loopback $(SANITIZED_LOOPBACK) -- $(SANITIZED_LOOPBACK_CHECKS)

# The runner is the ordinary one, and what it runs is of build-thread: programs, launcher, stand-ins and preload object. A race
# ends its rank with status 66.
THREAD_LOOPBACK_CHECKS = build-thread/tests/loopback-cuda build-thread/tests/loopback-nccl
.PHONY: check-thread check-valgrind
check-thread:
	@tools/deps --check
	@$(MAKE) --no-print-directory $(BUILD)/check/join $(BUILD)/data/digits.csv
	@$(MAKE) --no-print-directory SAN=thread all loopback programs build-thread/bench/ddp-train $(THREAD_LOOPBACK_CHECKS)
	@tests/run --with $(CHECK_ENVIRONMENT) TSAN_OPTIONS=halt_on_error=1:exitcode=66 JOIN_TEST_BUILD=build-thread \
	  JOIN_TEST_SLOWNESS=4 TEST_LIMIT=3600 -- $(BUILD)/check/join \
	  --with LD_LIBRARY_PATH=build-thread/loopback TSAN_OPTIONS=handle_segv=0:handle_abort=0:atexit_sleep_ms=10 -- $(THREAD_LOOPBACK_CHECKS)
	@echo 'not under ThreadSanitizer: tests/faults, which kills and stops ranks at given times'

# Errors and lost memory, in core's tests and in the ranks of programs. Suites that compare times, or where ranks are killed, are left
# out, and so are those that only repeat the same paths more often.
# What valgrind says goes to files, which must stay empty.
VALGRIND_LOGS = $(BUILD)/valgrind
VALGRIND = valgrind --quiet --vgdb=no --log-file=$(CURDIR)/$(VALGRIND_LOGS)/%p --error-exitcode=99 --leak-check=full \
           --show-leak-kinds=definite --errors-for-leak-kinds=definite
VALGRIND_SUITES = @(endings|groups|lossy|reductions)/*
VALGRIND_UNITS = @(contribution|log|places|plane_shm|segment*|settings|settle|team*|trace|unit*)/*
check-valgrind:
	@tools/deps --check
	@$(MAKE) --no-print-directory all loopback programs $(BUILD)/check/unit $(BUILD)/check/join
	@rm -rf $(VALGRIND_LOGS) && mkdir -p $(VALGRIND_LOGS)
	@tests/run \
	  --with $(CHECK_ENVIRONMENT) TEST_LIMIT=3600 'TEST_UNDER=$(VALGRIND) --trace-children=yes' 'TEST_FILTER=$(VALGRIND_UNITS)' -- $(BUILD)/check/unit \
	  --with TEST_UNDER= 'TEST_FILTER=$(VALGRIND_SUITES)' 'JOIN_TEST_UNDER=$(VALGRIND)' JOIN_TEST_SLOWNESS=10 -- \
	  $(BUILD)/check/join
	@find $(VALGRIND_LOGS) -type f -size +0 -exec cat {} +
	@test -z "$$(find $(VALGRIND_LOGS) -type f -size +0)"
	@echo 'under valgrind: $(VALGRIND_UNITS) of tests/unit, $(VALGRIND_SUITES) of tests/join'

# ---- make coverage ----------------------------------------------------------------------------------------------

# Branches of core/ that the tests without processes take. Of the simulation a part: the rest takes no other branch, for four times as
# long. Excluded is only what the compiler adds: branches on lines without code.
COVERAGE_LEAST = 95
.PHONY: coverage
coverage:
	@tools/deps --coverage
	@$(MAKE) --no-print-directory COVERAGE=1 build-coverage/check/unit build-coverage/check/fuzz build-coverage/check/simulation
	@find build-coverage -name '*.gcda' -delete
	@tests/run build-coverage/check/unit build-coverage/check/fuzz \
	  --with 'TEST_FILTER=simulation/places_@(visible|hidden)' -- build-coverage/check/simulation
	@gcovr --root . --object-directory build-coverage --filter core/ --branches --exclude-unreachable-branches \
	  --print-summary --fail-under-branch $(COVERAGE_LEAST)

# ---- make lint --------------------------------------------------------------------------------------------------

C_FILES = $(shell git ls-files '*.c' '*.h')
SHELL_FILES = $(shell git grep -lE '^\#!/bin/(sh|bash)|^\#!/usr/bin/env bash')
TIDY_FLAGS = -std=c17 -D_GNU_SOURCE -I. -Ihooks/include -iquote $(BUILD) -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE) -DNCCL_JOIN_VERSION='"$(VERSION)"' -DFUZZ_TARGET=fuzz_settings
# The loopback has NCCL's and CUDA's declarations, which are not ours to write better.
lint:
	@tools/deps --lint
	@$(MAKE) --no-print-directory $(BUILD)/tools/report/page.h $(if $(PROTOBUF_LIBS),$(BUILD)/tools/report/perfetto.pb-c.h)
	$(call say,FORMAT,'$(words $(C_FILES)) files')
	$(Q)clang-format --dry-run -Werror $(C_FILES)
	$(call say,LAYOUT,docs/architecture.md)
	$(Q)tools/lint-layout
	$(call say,DOCS,'links and paths')
	$(Q)tools/lint-docs
	$(call say,SHELL,'$(SHELL_FILES)')
	$(Q)shellcheck $(SHELL_FILES)
	$(call say,CPPCHECK,)
	$(Q)cppcheck -j2 --quiet --error-exitcode=1 --std=c11 --inline-suppr --enable=warning,performance,portability \
	  --suppress=missingIncludeSystem -D_GNU_SOURCE -DNCCL_VERSION_CODE=22809 -I. core hooks interpose tools tests/fuzz
	$(call say,TIDY,)
	$(Q)printf '%s\n' $(filter-out tools/loopback/%,$(filter core/%.c hooks/%.c interpose/%.c tools/%.c tests/fuzz/%.c,$(C_FILES))) | \
	  xargs -P2 -I{} clang-tidy --quiet {} -- $(TIDY_FLAGS) 2>/dev/null

# Targets, and what they do in lines of 80 columns.
HELP = awk '{ at = match($$0, /  +|$$/); text = substr($$0, at + RLENGTH); line = sprintf("%-22s", substr($$0, 1, at - 1)); \
  n = split(text, word, / +/); \
  for (i = 1; i <= n; i++) { \
    if (length(line " " word[i]) > 80) { print line; line = sprintf("%22s", "") } \
    line = line " " word[i] } \
  sub(/ +$$/, "", line); print line }'
help:
	@{ sed -n '3,6s/^#  *//p' Makefile; \
	  echo 'make lint         formatting, who may call whom (docs/architecture.md), links and paths of pages, shellcheck, cppcheck, clang-tidy'; \
	  echo 'make install      to PREFIX=$(PREFIX); make uninstall takes it away again'; \
	  echo 'make wheel        a package for pip, and make deb one for Debian, for glibc 2.28 and later; make check-packages uses both, and make check-packages-aarch64 those for aarch64'; \
  echo 'make check-gpu    test programs, PyTorch scripts and measurements on real NCCL, where there is a GPU (docs/gpu.md)'; \
	  echo 'make check-gpu-cases  its cases without a GPU: on the stand-ins, and on the CPU where there is PyTorch'; \
	  echo 'make check-versions  the headers and libraries of NCCL 2.18 to the newest on PyPI; writes docs/versions.md'; \
	  echo 'make check-nccl   NVIDIA'\''s own libnccl with its kernels emulated, 2.22 to the newest, and the join tests in front of it'; \
	  echo 'make check-clients   PyTorch, CuPy, nccl4py, vLLM, torchrun, mpirun without a GPU; downloads 3 GB once'; \
	  echo 'make check-pytorch   PyTorch, unmodified, on the stand-ins: its scripts and its own tests; PYTORCH_PARTS=scripts'; \
	  echo 'make check-nccl-torch'; \
	  echo '                     the same in front of the NCCL that its wheel comes with, with its kernels emulated'; \
	  echo 'make check-machines  programs on several machines, which are namespaces of this one'; \
  echo 'make machine-faults  random faults there, MACHINES_FAULTS=$(MACHINES_FAULTS)'; \
	  echo 'make bench-pytorch   what an iteration costs there, with nccl-join and with its own Join'; \
	  echo 'make mutants      MUTANTS=300 one-line changes of the product, which tests must find'; \
	  echo 'make choose-sanitized'; \
	  echo '                     which program tests make check runs with sanitizers'; \
	  echo 'make check-address   all program tests with ASan and UBSan, not a part of them'; \
	  echo 'make check-thread    the program tests with ThreadSanitizer'; \
	  echo 'make check-valgrind  core and the most telling program tests under valgrind'; \
	  echo 'make fuzz         libFuzzer on settings, records, the shared segment and what agents read, FUZZ_SECONDS=$(FUZZ_SECONDS) each'; \
	  echo 'make faults       ranks killed and stopped, no memory, no descriptors, garbage in shared memory, clocks that jump'; \
	  echo 'make coverage     branches of core/ that tests take; fails below 95 percent'; \
	  echo 'make check-here   the tests in one build folder; SAN=address,undefined, SAN=thread or CRITERION=1 (Criterion'"'"'s own runner) makes another'; \
	  echo 'make bench-machines  what an agreement over several machines takes'; \
	  echo 'make bench        what it costs: tables, and build/bench.json; docs/speed.md says what they mean'; \
	  echo 'make growth       reads, messages and steps for 2 to 4,096 ranks; draws docs/growth.svg'; \
	  echo 'make sim          SIM_PROGRAMS=1000000 random programs through the agreement, on all processors'; \
	  echo 'make sim-machines    the agreement over SIM_MACHINES=512 machines of SIM_RANKS=8 ranks: what is sent for a claim'; \
	  echo 'make check-programs  PROGRAMS=2000 random programs in C, C++ and Python on the loopback; PROGRAM_KIND=c, SEED=N'; \
	  echo 'make model        the protocol as a model, searched by spin; make model-mutants: every rule broken must be found'; \
	  echo 'make clean'; } | $(HELP)
