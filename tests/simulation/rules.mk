# The simulation outside of `make check`: as many random programs as wanted, on all processors.
#
#   make sim [SIM_PROGRAMS=1000000] [SIM_FIRST=0] [SIM_JOBS=number of processors]
#   $(BUILD)/check/sim --seed N      one program, and what every rank of it does

SIM_PROGRAMS ?= 1000000
SIM_FIRST ?= 0
SIM_JOBS ?= 0

.PHONY: sim
sim: $(BUILD)/check/sim
	$(Q)$(BUILD)/check/sim --programs $(SIM_PROGRAMS) --first $(SIM_FIRST) --jobs $(SIM_JOBS)

$(BUILD)/check/sim: $(foreach o,$(call objects_of,tests/simulation),$(if $(findstring /test_,$o),,$o)) $(CORE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^)
