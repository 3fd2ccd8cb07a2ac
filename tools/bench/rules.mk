# tools/bench/: what nccl-join costs. `make bench` runs every program of BENCHMARKS, prints the tables and writes
# build/bench.json; BENCH_QUICK=1 takes the fewest samples that show that it works.
BENCHMARKS =

BENCH_REPORT = $(BUILD)/bench/report
ROWS_OBJECT = $(BUILD)/tools/bench/rows.o

$(BUILD)/tools/bench/report.o: private tools_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)
$(BENCH_REPORT): $(BUILD)/tools/bench/report.o $(BUILD)/tools/bench/json.o $(ROWS_OBJECT)
	$(link_tool)

.PHONY: bench bench-build
bench-build: all $(BENCH_REPORT) $(BENCHMARKS)
bench: bench-build
	@tools/bench/run $(BUILD) $(BENCHMARKS)
