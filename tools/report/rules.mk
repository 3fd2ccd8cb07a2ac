# tools/report/: nccl-join timeline; and nccl-join report, which is not built without Jansson.
TIMELINE = $(BUILD)/tools/nccl-join-timeline
product: $(TIMELINE)

TIMELINE_PARTS = $(addprefix tools/report/,tracks.o job_ranks.o launches.o timeline.o)
$(TIMELINE): $(addprefix $(BUILD)/,$(TIMELINE_PARTS) tools/report/timeline_main.o tools/terminal.o)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^

ifneq ($(JSON_LIBS),)
REPORT_TOOL = $(BUILD)/tools/nccl-join-report
product: $(REPORT_TOOL)

# The page as a string of C.
$(BUILD)/tools/report/page.h: tools/report/page.html
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)sed -e 's/[\\"]/\\&/g' -e 's/.*/"&\\n" \\/' -e '1s/^/#define PAGE_HTML /' $< >$@ && echo '""' >>$@
$(BUILD)/tools/report/page.o: $(BUILD)/tools/report/page.h
$(BUILD)/tools/report/page.o: private tools_CFLAGS = -iquote $(BUILD) -Wno-overlength-strings

# The functions for Perfetto's format.
PERFETTO_OBJECTS = $(addprefix $(BUILD)/tools/report/,$(if $(PROTOBUF_LIBS),perfetto.o perfetto.pb-c.o,perfetto_none.o))
$(BUILD)/tools/report/perfetto.pb-c.h: tools/report/perfetto.proto
	@mkdir -p $(@D)
	$(call say,GEN,$@)
	$(Q)protoc-c --c_out=$(BUILD) $<
$(BUILD)/tools/report/perfetto.pb-c.c: $(BUILD)/tools/report/perfetto.pb-c.h ;
$(BUILD)/tools/report/perfetto.pb-c.o: $(BUILD)/tools/report/perfetto.pb-c.c
	$(call say,CC,$<)
	$(Q)$(CC) $(ALL_CFLAGS) -I$(BUILD) -c -o $@ $<
$(BUILD)/tools/report/perfetto.o: $(BUILD)/tools/report/perfetto.pb-c.h
$(BUILD)/tools/report/perfetto.o: private tools_CFLAGS = -I$(BUILD)

$(REPORT_TOOL): $(PERFETTO_OBJECTS) $(addprefix $(BUILD)/,$(TIMELINE_PARTS) $(addprefix tools/report/,summary.o advice.o text.o page.o replace.o report_main.o)) $(TEXT_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(JSON_LIBS) $(PROTOBUF_LIBS)
endif
