# Tests: one Criterion program per folder, run by `make check`.
#   tests/unit        core and pure parts of hooks, no process needed
#   tests/simulation  random programs through the core, in memory
#   tests/hooks       shadows against recording doubles and the loopback
#   tests/interpose   export list, resolver, exit paths, the real libnccl without a GPU
#   tests/tools       the launcher
#   tests/join        ordinary NCCL programs with and without the preload, on the loopback
#   tests/loopback    the stand-ins themselves


tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE) -Wno-missing-prototypes -Wno-overlength-strings -Wno-write-strings
CRITERION_LIBS ?= -lcriterion

-include tests/programs/programs.mk

objects_of = $(patsubst %.c,$(BUILD)/%.o,$(wildcard $(1)/*.c))

UNIT_OBJECTS = $(call objects_of,tests/unit)
SIMULATION_OBJECTS = $(call objects_of,tests/simulation)
HOOKS_TEST_OBJECTS = $(call objects_of,tests/hooks)
INTERPOSE_TEST_OBJECTS = $(call objects_of,tests/interpose)
TOOLS_TEST_OBJECTS = $(call objects_of,tests/tools)
JOIN_TEST_OBJECTS = $(call objects_of,tests/join)

define link_test
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(CRITERION_LIBS)
endef

$(BUILD)/check/unit: $(UNIT_OBJECTS) $(CORE_OBJECTS) $(BUILD)/hooks/contribution.o
	$(link_test)
$(BUILD)/check/simulation: $(SIMULATION_OBJECTS) $(CORE_OBJECTS)
	$(link_test)
$(BUILD)/check/hooks: $(HOOKS_TEST_OBJECTS) $(CORE_OBJECTS) $(HOOKS_OBJECTS)
	$(link_test)
$(BUILD)/check/interpose: $(INTERPOSE_TEST_OBJECTS)
	$(link_test)
$(BUILD)/check/tools: $(TOOLS_TEST_OBJECTS)
	$(link_test)
$(BUILD)/check/join: $(JOIN_TEST_OBJECTS)
	$(link_test)
