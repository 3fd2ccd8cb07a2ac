# tools/check/: nccl-join check. A machine with a GPU may lack libelf; there it is not built, and the launcher does without.
ifneq ($(ELF_LIBS),)
CHECK_TOOL = $(BUILD)/tools/nccl-join-check
all: $(CHECK_TOOL)

$(CHECK_TOOL): $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/check/*.c))
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(ELF_LIBS)
endif
