# tests/machines: programs on several machines, which are made of namespaces of this one.
#
#   make check-machines   all of it, and the program tests (tests/join) over two machines; a part is in `make check`
#   make machine-faults   random faults

MACHINES_START = $(BUILD)/machines/start
# Those of the agent's own links only where there is one.
MACHINES_LINKS = $(if $(AGENT_LIBS),$(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/agent/links*.c)) $(BUILD)/tools/agent/keys.o $(CORE_OBJECTS))
MACHINES_TEST_OBJECTS = $(filter-out %/start.o $(if $(AGENT_LIBS),,%/links.o),$(call objects_of,tests/machines)) $(MACHINES_LINKS) \
                        $(BUILD)/tests/join/run.o $(BUILD)/tests/join/expected.o $(BUILD)/tools/port.o

$(MACHINES_START): tests/machines/start.c tests/machines/parts/inside.c tests/machines/parts/rest.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) -o $@ $^

MACHINES_PRELOADS = $(BUILD)/machines/jumps.so $(BUILD)/machines/late.so
MACHINES_PARTS = $(MACHINES_RELAY) $(MACHINES_PRELOADS) \
                 $(if $(AGENT_LIBS),$(BUILD)/machines/other-agent $(BUILD)/machines/hostile)
MACHINES_RELAY = $(BUILD)/machines/relay
$(MACHINES_RELAY): tests/machines/parts/relay.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) -o $@ $<

$(MACHINES_PRELOADS): $(BUILD)/machines/%.so: tests/machines/parts/%.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS) -fvisibility=hidden,$(ALL_CFLAGS)) -shared -o $@ $<

# An agent that speaks another version: of its own frames.h, which is found first.
OTHER_AGENT = $(BUILD)/machines/other
$(BUILD)/machines/other-agent: private TOOL_LIBS = $(AGENT_LIBS)
$(BUILD)/machines/other-agent: $(wildcard tools/agent/*.[ch] core/machines/*.[ch]) $(CORE_OBJECTS)
	@mkdir -p $(OTHER_AGENT)/core/machines
	$(call say,LINK,$@)
	$(Q)sed 's/define FRAMES_VERSION .*/define FRAMES_VERSION 999u/' core/machines/frames.h >$(OTHER_AGENT)/core/machines/frames.h
	$(Q)$(CC) $(filter-out -I. -MMD -MP,$(ALL_CFLAGS)) -I$(OTHER_AGENT) -I. -pthread -o $@ $(wildcard tools/agent/*.c) \
	  core/machines/frames.c $(filter-out %/frames.o,$(CORE_OBJECTS)) $(TOOL_LIBS)

# Who means no good, with the agent's own libraries: none where there is no agent.
$(BUILD)/machines/hostile: private TOOL_LIBS = $(AGENT_LIBS)
$(BUILD)/machines/hostile: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/machines/parts/hostile*.c)) \
                           $(BUILD)/tools/agent/keys.o $(CORE_OBJECTS)
	$(link_tool)

$(BUILD)/check/machines: private TEST_LIBS = $(AGENT_LIBS)
$(BUILD)/check/machines: $(MACHINES_TEST_OBJECTS) | $(MACHINES_START) $(MACHINES_PARTS)
	$(link_test)

# The program tests with their ranks on two machines: tests/join.
JOIN_OVER_MACHINES = JOIN_TEST_MACHINES=2

# Random faults (random_faults.c), of seed MACHINES_FAULTS_FIRST on. `make check-machines` has six of them.
MACHINES_FAULTS = 200
MACHINES_FAULTS_FIRST = 1
.PHONY: machine-faults
machine-faults: all loopback programs $(MACHINES_START) $(MACHINES_PARTS) $(BUILD)/check/machines
	@tests/run --with $(CHECK_ENVIRONMENT) MACHINES_FAULTS=$(MACHINES_FAULTS) MACHINES_FAULTS_FIRST=$(MACHINES_FAULTS_FIRST) \
	  TEST_LIMIT=7200 'TEST_FILTER=machines_random/*' -- $(BUILD)/check/machines

.PHONY: check-machines
check-machines: all loopback programs nccl-small bench-machines-build $(MACHINES_START) $(MACHINES_PARTS) $(BUILD)/check/machines $(BUILD)/check/join
	@tests/run --with $(CHECK_ENVIRONMENT) TEST_JOBS=2 TEST_LIMIT=1800 -- $(BUILD)/check/machines \
	  --with $(JOIN_OVER_MACHINES) -- $(BUILD)/check/join $(NCCL_OVER_MACHINES)

# In front of NVIDIA's NCCL, if it has been downloaded (tests/nccl/rules.mk): its data go over sockets between the machines.
NCCL_OVER_MACHINES = $(if $(NCCL_SMALL_THERE),--with LD_LIBRARY_PATH= JOIN_TEST_BUILD=$(EMULATION_DIR)/$(NCCL_SMALL) JOIN_TEST_ANY_ORDER=1 \
  JOIN_TEST_SLOWNESS=4 NCCL_SOCKET_IFNAME=eth0 'TEST_FILTER=@(sums|groups|operations|epochs|teams)/*' -- $(BUILD)/check/join \
  --with 'TEST_FILTER=machines/*' -- $(BUILD)/check/machines)

# What of it `make check` runs: about 20 s of processor time. Where no machines can be made, or there is no agent, the
# tests say so and are skipped.
MACHINES_SMALL_RUN = 'TEST_FILTER=@(@(bench|machines|machines_faults|machines_links)/*|machines_tree/uneven_sums_go_through_a_tree_of_depth_three)' -- $(BUILD)/check/machines \
                     --with $(JOIN_OVER_MACHINES) 'TEST_FILTER=@(@(exchange|graphs|groups)/*|epochs/that_mix*)' -- $(BUILD)/check/join
