# nccl-join-agent, beside the preload object that starts it. With libzmq and libsodium, where they are: the rest of nccl-join
# needs neither.
AGENT = $(if $(AGENT_LIBS),$(BUILD)/lib/nccl-join-agent)
product: $(AGENT)

$(BUILD)/lib/nccl-join-agent: private TOOL_LIBS = $(AGENT_LIBS)
$(BUILD)/lib/nccl-join-agent: $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/agent/*.c)) $(CORE_OBJECTS)
	$(link_tool)
