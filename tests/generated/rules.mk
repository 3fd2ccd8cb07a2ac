# Programs made at random, run on the loopback; README.md in this folder says how.
#
#   make check-programs [PROGRAMS=2000] [PROGRAM_KIND=c|python] [SEED=N]     SEED: that one alone

GENERATED_PARTS = $(addprefix $(BUILD)/tests/generated/,runner.o job.o rank.o)
GENERATED_LIBRARY = $(BUILD)/generated/librank.so
$(GENERATED_PARTS): private tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE)

$(GENERATED_LIBRARY): $(filter-out %/runner.o,$(GENERATED_PARTS)) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(CFLAGS) $(SANFLAGS) -o $@ $^ -Wl,-rpath-link,$(BUILD)/loopback -lm

# PROGRAMS is also the list of programs of tests/programs.
GENERATED_COUNT = $(if $(filter command line,$(origin PROGRAMS)),$(PROGRAMS),2000)
GENERATED_ENVIRONMENT = NCCL_INCLUDE=$(NCCL_INCLUDE) CUDA_INCLUDE=$(CUDA$(PROGRAM_CUDA)_INCLUDE)
PYTHON ?= python3

.PHONY: check-programs generated-parts
generated-parts: all loopback $(GENERATED_PARTS) $(GENERATED_LIBRARY)
check-programs: generated-parts
	$(Q)$(GENERATED_ENVIRONMENT) $(PYTHON) tests/generated/programs.py $(BUILD) --programs $(GENERATED_COUNT) \
	  $(if $(PROGRAM_KIND),--kind $(PROGRAM_KIND)) $(if $(SEED),--seed $(SEED))
