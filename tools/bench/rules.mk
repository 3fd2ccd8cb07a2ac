# tools/bench/: what nccl-join costs. `make bench` runs every program of BENCHMARKS, prints the tables and writes
# build/bench.json; BENCH_QUICK=1 takes the fewest samples that show that it works.
BENCHMARKS = $(BENCH_JOBS) $(BUILD)/bench/learning

BENCH_REPORT = $(BUILD)/bench/report
ROWS_OBJECT = $(BUILD)/tools/bench/rows.o

include tools/bench/ddp.mk tools/bench/growth.mk

# Programs that are the ranks of their own jobs, and what is in front of NCCL or in its place there.
BENCH_JOBS = $(addprefix $(BUILD)/bench/,host_cost python following rhythm skew settling modes memory)
# Only where there is an agent (tools/agent).
BENCH_MACHINES = $(if $(AGENT_LIBS),$(BUILD)/bench/machines)
BENCH_JOB_OBJECTS = $(addprefix $(BUILD)/tools/bench/,area.o job.o loop.o steps.o) $(ROWS_OBJECT)
BENCH_PRELOADS = $(addprefix $(BUILD)/bench/,shim.so many_processors.so count_system_calls.so)
BENCH_NCCL = $(BUILD)/bench/empty/libnccl.so.2 $(BUILD)/bench/stamping/libnccl.so.2

# nccl.h declares functions without prototypes.
$(BUILD)/tools/bench/%.o: private tools_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE) -Wno-missing-prototypes
$(BENCH_REPORT): private TOOL_LIBS = $(JSON_LIBS)
$(BENCH_REPORT): $(BUILD)/tools/bench/report.o $(BUILD)/tools/bench/json.o $(ROWS_OBJECT)
	$(link_tool)

# Bound at the start: the first call must not be slower than the others.
$(BUILD)/bench/machines: $(BUILD)/tools/bench/wakes.o
$(BUILD)/bench/machines: private WAKES_LIBS = $(AGENT_LIBS)
$(BENCH_JOBS) $(BENCH_MACHINES): $(BUILD)/bench/%: $(BUILD)/tools/bench/%.o $(BENCH_JOB_OBJECTS) $(BUILD)/bench/empty/libnccl.so.2 \
		$(BUILD)/loopback/libcudart.so.13
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ -Wl,-z,now \
	  -Wl,--enable-new-dtags,-rpath,'$$ORIGIN/empty:$$ORIGIN/../loopback',-rpath-link,$(BUILD)/loopback $(DECODER_LIBS) $(WAKES_LIBS)

$(BUILD)/bench/learning: $(BUILD)/tools/bench/learning.o $(BUILD)/tools/bench/area.o $(ROWS_OBJECT) \
		$(BUILD)/tests/unit/traces.o $(filter $(BUILD)/core/predict/learner%,$(CORE_OBJECTS))
	$(link_tool)

define link_preload
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -shared -Wl,-z,now $(1) -o $@ $^
endef
$(BENCH_PRELOADS): $(BUILD)/bench/%.so: $(BUILD)/tools/bench/%.o
	$(call link_preload)

$(BUILD)/tools/bench/nccl_stamping.o: tools/bench/nccl_stand_in.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(tools_CFLAGS) -DSTAMPING -c -o $@ $<
$(BUILD)/bench/empty/libnccl.so.2: $(BUILD)/tools/bench/nccl_stand_in.o $(BUILD)/tools/bench/area.o
	$(call link_preload,-Wl$(comma)-soname$(comma)libnccl.so.2)
$(BUILD)/bench/stamping/libnccl.so.2: $(BUILD)/tools/bench/nccl_stamping.o $(BUILD)/tools/bench/area.o
	$(call link_preload,-Wl$(comma)-soname$(comma)libnccl.so.2)

.PHONY: bench bench-build bench-docs bench-machines bench-machines-build
bench-build: all loopback $(BENCH_REPORT) $(BENCHMARKS) $(BENCH_JOBS) $(BENCH_PRELOADS) $(BENCH_NCCL)
bench:
	@tools/deps --bench
	@$(MAKE) --no-print-directory bench-build
	@tools/bench/run $(BUILD) $(BENCHMARKS)

# On machines that are namespaces of this one; writes build/bench-machines.json.
bench-machines-build: all loopback $(BENCH_REPORT) $(BENCH_MACHINES) $(BENCH_NCCL) $(BUILD)/machines/start
bench-machines: bench-machines-build
	@$(if $(AGENT_LIBS),,echo "bench-machines: no agent here: tools/deps --check installs libzmq and libsodium" >&2; exit 1)
	@BENCH_JSON=$(BUILD)/bench-machines.json tools/bench/run $(BUILD) $(BENCH_MACHINES)

# The tables of the last run into docs/speed.md.
bench-docs: $(BENCH_REPORT)
	$(Q)$(BENCH_REPORT) --markdown $(BUILD)/bench.json >$(BUILD)/bench/tables.md
	$(Q)sed -i -e '/^<!-- tables -->/,/^<!-- .tables -->/{//!d}' \
	  -e '/^<!-- tables -->/r $(BUILD)/bench/tables.md' docs/speed.md
