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

SIM_TESTS = $(BUILD)/tests/simulation/many.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/simulation/test_*.c))
$(BUILD)/check/sim: $(filter-out $(SIM_TESTS),$(call objects_of,tests/simulation)) $(CORE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^)

# The agreement over many machines (many.c): core/ once more, with small logs.
#   make sim-machines [SIM_MACHINES=512] [SIM_RANKS=8]     so many machines of so many ranks, and fewer; 4 GB of memory
SIM_MACHINES ?= 512
SIM_RANKS ?= 8
.PHONY: sim-machines
sim-machines: $(BUILD)/check/sim-machines
	$(Q)$< $(SIM_MACHINES) $(SIM_RANKS)

$(BUILD)/many/%.o: %.c tests/simulation/many.h
	@mkdir -p $(@D)
	$(call say,CC,'$< (small logs)')
	$(Q)$(CC) $(ALL_CFLAGS) -include tests/simulation/many.h -c -o $@ $<

$(BUILD)/check/sim-machines: $(addprefix $(BUILD)/many/tests/simulation/,$(addsuffix .o,many alike device machines \
		meetings messages program plan ranks shapes simulate tree tree_places tree_run rows)) $(CORE_SOURCES:%.c=$(BUILD)/many/%.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^
