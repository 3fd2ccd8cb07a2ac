# tests/machines: programs on several machines, which are made of namespaces of this one.
#
#   make check-machines   all of it

MACHINES_START = $(BUILD)/machines/start
MACHINES_TEST_OBJECTS = $(filter-out %/start.o,$(call objects_of,tests/machines)) \
                        $(BUILD)/tests/join/run.o $(BUILD)/tests/join/expected.o $(BUILD)/tools/port.o

$(MACHINES_START): tests/machines/start.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) -o $@ $<

$(BUILD)/check/machines: $(MACHINES_TEST_OBJECTS) | $(MACHINES_START)
	$(link_test)

.PHONY: check-machines
check-machines: all loopback programs $(BUILD)/check/machines
	@tests/run --with $(CHECK_ENVIRONMENT) TEST_JOBS=2 -- $(BUILD)/check/machines
