# Programs made at random, run on the loopback; README.md in this folder says how.
#
#   make check-programs [PROGRAMS=2000] [PROGRAM_KIND=c|python|optimised|alike|no_arguments|cpp|ways|training|one_line|passes] [SEED=N] [PROGRAM_MACHINES=N]
#     SEED: that one alone; PROGRAM_MACHINES: the ranks are spread over so many, which have an agent and a /dev/shm each

GENERATED_PARTS = $(addprefix $(BUILD)/tests/generated/,runner.o job.o rank.o)
GENERATED_LIBRARY = $(BUILD)/generated/librank.so
$(GENERATED_PARTS): private tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE)

# For Python.
$(GENERATED_LIBRARY): $(filter-out %/runner.o,$(GENERATED_PARTS)) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(SANFLAGS) -o $@ $^ -Wl,-rpath-link,$(BUILD)/loopback -lm

# PROGRAMS is also the list of programs of tests/programs.
GENERATED_COUNT = $(if $(filter command line,$(origin PROGRAMS)),$(PROGRAMS),2000)
GENERATED_INCLUDES = NCCL_INCLUDE=$(NCCL_INCLUDE) CUDA_INCLUDE=$(CUDA$(PROGRAM_CUDA)_INCLUDE)

.PHONY: check-programs generated-parts check-generated
generated-parts: all loopback $(GENERATED_PARTS) $(GENERATED_LIBRARY)
check-programs: generated-parts
	$(Q)$(GENERATED_INCLUDES) python3 tests/generated/programs.py $(BUILD) --programs $(GENERATED_COUNT) \
	  $(if $(PROGRAM_KIND),--kind $(PROGRAM_KIND)) $(if $(SEED),--seed $(SEED)) $(if $(PROGRAM_MACHINES),--machines $(PROGRAM_MACHINES))

$(BUILD)/check/generated: $(BUILD)/tests/generated/test_generated.o | generated-parts
	$(link_test)

# The fixed part alone, as `make check` has it. GENERATED_EXPECT=shall: all that expected.py asks for, not what holds today.
GENERATED_EXPECT ?= shall
export GENERATED_EXPECT
check-generated: $(BUILD)/check/generated
	@tests/run --with $(CHECK_ENVIRONMENT) -- $<

# In `make check`: GENERATED_IN_CHECK=yes.
GENERATED_IN_CHECK ?= yes
ifneq ($(and $(GENERATED_IN_CHECK),$(if $(SAN),,here)),)
CHECKS += generated
check-build: $(BUILD)/check/generated
endif
