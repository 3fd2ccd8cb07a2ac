# tools/check/: nccl-join check. A machine with a GPU may lack libelf or Jansson; there it is not built, and the launcher does without.
ifneq ($(and $(ELF_LIBS),$(JSON_LIBS)),)
CHECK_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/check_main.c,$(wildcard tools/check/*.c)))
CHECK_TOOL = $(BUILD)/tools/nccl-join-check
# The program's own Python runs this folder.
CHECK_READER = $(patsubst tools/check/imports/%,$(BUILD)/tools/nccl-join-imports/%,$(wildcard tools/check/imports/*.py))
product: $(CHECK_TOOL) $(CHECK_READER)

$(CHECK_READER): $(BUILD)/tools/nccl-join-imports/%: tools/check/imports/%
	@mkdir -p $(@D)
	$(Q)install -m 644 $< $@

$(CHECK_TOOL): $(BUILD)/tools/check/check_main.o $(CHECK_OBJECTS) $(TEXT_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(ELF_LIBS) $(JSON_LIBS)
endif
