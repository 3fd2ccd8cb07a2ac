# tools/doctor/: nccl-join doctor. Like nccl-join check, it is not built where libelf or Jansson is missing.
ifneq ($(and $(ELF_LIBS),$(JSON_LIBS)),)
DOCTOR_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/doctor/*.c))
DOCTOR_TOOL = $(BUILD)/tools/nccl-join-doctor
product: $(DOCTOR_TOOL)

$(DOCTOR_TOOL): $(DOCTOR_OBJECTS) $(CHECK_OBJECTS) $(TEXT_OBJECTS) $(CORE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(ELF_LIBS) $(JSON_LIBS) -lm
endif
