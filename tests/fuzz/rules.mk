# tests/fuzz/: targets for libFuzzer.
#
#   make fuzz                 each target for FUZZ_SECONDS, on the corpus in this folder and what earlier runs have added to
#                             build-fuzz/corpus/; stops at the first input that crashes, and keeps it in build-fuzz/
#   make fuzz-<target>        one of them
#   build/check/fuzz          the corpus through the same targets without libFuzzer; part of `make check`
FUZZ_TARGETS = settings records segment mirror machines meeting
FUZZ_SECONDS = 60
FUZZ_CC = clang
FUZZ_BUILD = build-fuzz
FUZZ_CFLAGS = -std=c17 -D_GNU_SOURCE $(WARNINGS) -Wno-missing-prototypes -O1 -g -fno-omit-frame-pointer -pthread -I. -MMD -MP \
              -DNCCL_JOIN_VERSION='"$(VERSION)"' -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
# The agent but for its links, which are the target's.
FUZZ_AGENT = $(addprefix tools/agent/,meeting.c communicators.c reasons.c descriptors.c)
FUZZ_SOURCES = $(CORE_SOURCES) $(FUZZ_AGENT) tools/terminal.c $(addprefix tools/report/,tracks.c job_ranks.c launches.c timeline.c) $(filter-out %/libfuzzer.c %/test_corpus.c,$(wildcard tests/fuzz/*.c))

# The timeline is a program; here it is a function.
FUZZ_TIMELINE = tests/fuzz/timeline.o
$(BUILD)/$(FUZZ_TIMELINE): tools/report/timeline_main.c
	@mkdir -p $(@D)
	$(call say,CC,'$< (as a function)')
	$(Q)$(CC) $(ALL_CFLAGS) -Wno-missing-prototypes -Dmain=timeline_main -c -o $@ $<
$(FUZZ_BUILD)/$(FUZZ_TIMELINE): tools/report/timeline_main.c
	@mkdir -p $(@D)
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -Dmain=timeline_main -c -o $@ $<

FUZZ_TEST_OBJECTS = $(filter-out %/libfuzzer.o,$(call objects_of,tests/fuzz)) $(BUILD)/$(FUZZ_TIMELINE) \
                    $(addprefix $(BUILD)/tools/,$(addprefix report/,tracks.o job_ranks.o launches.o timeline.o) terminal.o) $(FUZZ_AGENT:%.c=$(BUILD)/%.o)
$(BUILD)/check/fuzz: $(FUZZ_TEST_OBJECTS) $(CORE_OBJECTS)
	$(link_test)

$(FUZZ_BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,'$< (fuzzing)')
	$(Q)$(FUZZ_CC) $(FUZZ_CFLAGS) -c -o $@ $<

FUZZ_PROGRAMS = $(FUZZ_TARGETS:%=$(FUZZ_BUILD)/%)
$(FUZZ_PROGRAMS): $(FUZZ_BUILD)/%: $(FUZZ_SOURCES:%.c=$(FUZZ_BUILD)/%.o) $(FUZZ_BUILD)/$(FUZZ_TIMELINE) tests/fuzz/libfuzzer.c
	$(call say,LINK,$@)
	$(Q)$(FUZZ_CC) $(filter-out -MMD -MP,$(FUZZ_CFLAGS)) -DFUZZ_TARGET=fuzz_$* -fsanitize=fuzzer -o $@ \
	  tests/fuzz/libfuzzer.c $(filter %.o,$^)

.PHONY: fuzz fuzz-deps $(FUZZ_TARGETS:%=fuzz-%)
fuzz: $(FUZZ_TARGETS:%=fuzz-%)
fuzz-deps:
	@tools/deps --fuzz
$(FUZZ_PROGRAMS): | fuzz-deps

# -close_fd_mask=2: what the code under test logs is not shown, libFuzzer's own output is.
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%: $(FUZZ_BUILD)/%
	@mkdir -p $(FUZZ_BUILD)/corpus/$*
	$(FUZZ_BUILD)/$* -max_total_time=$(FUZZ_SECONDS) -timeout=60 -rss_limit_mb=1024 -close_fd_mask=2 -print_final_stats=1 \
	  -artifact_prefix=$(FUZZ_BUILD)/$*- $(if $(wildcard tests/fuzz/$*.dict),-dict=tests/fuzz/$*.dict) \
	  $(FUZZ_BUILD)/corpus/$* tests/fuzz/corpus/$*

-include $(shell find $(FUZZ_BUILD) -name '*.d' 2>/dev/null)
