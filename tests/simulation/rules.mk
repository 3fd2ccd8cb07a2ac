# The simulation outside of `make check`: as many random programs as wanted, on all processors.
#
#   make sim [SIM_PROGRAMS=1000000] [SIM_FIRST=0] [SIM_JOBS=number of processors] [SIM_TABLE=file]
#   $(BUILD)/check/sim --seed N --trace            one program, and what every rank of it does
#   $(BUILD)/check/sim --seed N --shrink wrong     the same, as small as it still shows that
#   $(BUILD)/check/sim --only 'log lines, varying' rows whose names have this in them
# SIM_TABLE gets all that was counted, a line a row: two cores compare by the same programs.

SIM_PROGRAMS ?= 1000000
SIM_FIRST ?= 0
SIM_JOBS ?= 0
SIM_TABLE ?=

.PHONY: sim
sim: $(BUILD)/check/sim
	$(Q)$(BUILD)/check/sim --programs $(SIM_PROGRAMS) --first $(SIM_FIRST) --jobs $(SIM_JOBS) $(SIM_TABLE:%=--table %)

SIM_TESTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/simulation/test_*.c))
$(BUILD)/check/sim: $(filter-out $(SIM_TESTS),$(call objects_of,tests/simulation)) $(CORE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^)
