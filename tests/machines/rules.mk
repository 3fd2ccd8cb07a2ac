# tests/machines: programs on several machines, which are made of namespaces of this one.
#
#   make check-machines   all of it

MACHINES_START = $(BUILD)/machines/start
MACHINES_TEST_OBJECTS = $(filter-out %/start.o,$(call objects_of,tests/machines)) \
                        $(BUILD)/tests/join/run.o $(BUILD)/tests/join/expected.o $(BUILD)/tools/port.o

$(MACHINES_START): tests/machines/start.c tests/machines/parts/inside.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) -o $@ $^

# Who means no good, with the agent's own libraries: none where there is no agent.
MACHINES_HOSTILE = $(if $(AGENT_LIBS),$(BUILD)/machines/hostile)
$(BUILD)/machines/hostile: private TOOL_LIBS = $(AGENT_LIBS)
$(BUILD)/machines/hostile: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/machines/parts/hostile*.c)) \
                           $(BUILD)/tools/agent/keys.o $(CORE_OBJECTS)
	$(link_tool)

$(BUILD)/check/machines: $(MACHINES_TEST_OBJECTS) | $(MACHINES_START) $(MACHINES_HOSTILE)
	$(link_test)

.PHONY: check-machines
check-machines: all loopback programs $(MACHINES_START) $(MACHINES_HOSTILE) $(BUILD)/check/machines
	@tests/run --with $(CHECK_ENVIRONMENT) TEST_JOBS=2 -- $(BUILD)/check/machines
