# tools/status/: nccl-join status. Without Jansson it is not built.
ifneq ($(JSON_LIBS),)
STATUS_TOOL = $(BUILD)/tools/nccl-join-status
product: $(STATUS_TOOL)

$(STATUS_TOOL): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/status/*.c)) $(TEXT_OBJECTS) $(CORE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(JSON_LIBS)
endif
