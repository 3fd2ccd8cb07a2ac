# Faults on running programs. Part of `make check` in a short form.
#
#   make faults    the long form; FAULTS_SEED=N repeats one

# Objects that stand between nccl-join and NCCL, or the program and libc.
FAULTS_PRELOADS = mark_calls few_files clock_jumps
FAULTS_PRELOAD_FILES = $(FAULTS_PRELOADS:%=$(BUILD)/faults/%.so)
FAULTS_TEST_OBJECTS = $(filter-out $(FAULTS_PRELOADS:%=$(BUILD)/tests/faults/%.o),$(call objects_of,tests/faults)) \
                      $(BUILD)/tests/join/run.o $(BUILD)/tests/join/expected.o $(BUILD)/tools/port.o

$(BUILD)/check/faults: $(FAULTS_TEST_OBJECTS) $(CORE_OBJECTS) | $(FAULTS_PRELOAD_FILES)
	$(link_test)

check-build-sanitized: $(FAULTS_PRELOAD_FILES)

# Without a sanitizer: the program they come into has one of its own.
$(BUILD)/faults/%.so: tests/faults/%.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out $(SANFLAGS),$(ALL_CFLAGS)) $(tests_CFLAGS) -shared -o $@ $<

.PHONY: faults
faults: check-build
	@tests/run --with $(CHECK_ENVIRONMENT) FAULTS_LONG=1 TEST_JOBS=1 -- $(BUILD)/check/faults
