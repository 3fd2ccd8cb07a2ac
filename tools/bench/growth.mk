# How the agreement grows with the number of ranks (growth.c), and the chart of that.
BENCHMARKS += $(BUILD)/bench/growth

# core/ once more, with its atomics counted.
COUNTED_OBJECTS = $(CORE_SOURCES:%.c=$(BUILD)/counted/%.o)
$(BUILD)/counted/%.o: %.c tools/bench/counted.h
	@mkdir -p $(@D)
	$(call say,CC,'$< (counted)')
	$(Q)$(CC) $(ALL_CFLAGS) -include tools/bench/counted.h -c -o $@ $<

GROWTH_PARTS = $(addprefix tools/bench/,growth.o traffic.o)
$(BUILD)/bench/growth: $(addprefix $(BUILD)/counted/,$(GROWTH_PARTS)) $(COUNTED_OBJECTS) $(ROWS_OBJECT)
	$(link_tool)

GROWTH_CHART = $(BUILD)/bench/chart
$(GROWTH_CHART): $(BUILD)/tools/bench/chart.o $(BUILD)/tools/bench/json.o
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -o $@ $^ $(JSON_LIBS) -lm

# make growth: docs/growth.json, and docs/growth.svg from it.
.PHONY: growth
growth: $(BUILD)/bench/growth $(BENCH_REPORT) $(GROWTH_CHART)
	$(Q)$< >$(BUILD)/growth.rows
	$(Q)$(BENCH_REPORT) --revision "$$(git describe --always --dirty)" docs/growth.json <$(BUILD)/growth.rows
	$(Q)$(GROWTH_CHART) docs/growth.json >docs/growth.svg

$(BUILD)/check/tools: $(BUILD)/tools/bench/traffic.o $(BUILD)/core/transport/plane_memory.o | $(GROWTH_CHART) $(BUILD)/bench/growth
