# Tests of the loopback (tools/loopback).
#
#   make check-loopback-cuda   of CUDA's stand-ins
#   make check-loopback-nccl   of NCCL's
.PHONY: check-loopback-cuda

# --- tests of CUDA's stand-ins ------------------------------------------------------------------------------

# The same tests against either release, with the headers of that release: loopback-cuda (13), loopback-cuda12.
LOOPBACK_CUDA_TESTS = $(wildcard tests/loopback/test/cuda_*.c)

# The signals that tests expect are left to the runner.
LOOPBACK_TEST_ENV = LD_LIBRARY_PATH=$(LOOPBACK) ASAN_OPTIONS=handle_segv=0:handle_abort=0 \
                    TSAN_OPTIONS=handle_segv=0:handle_abort=0:atexit_sleep_ms=10

# $(1): release; $(2): name of the program
define loopback_cuda_tests
$$(BUILD)/$(2)/%.o: tests/loopback/test/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1))')
	$$(Q)$$(CC) $$(ALL_CFLAGS) -isystem $$(CUDA$(1)_INCLUDE) -c -o $$@ $$<

$$(BUILD)/tests/$(2): $$(LOOPBACK_CUDA_TESTS:tests/loopback/test/%.c=$$(BUILD)/$(2)/%.o) $$(LOOPBACK_CUDA_LIBS) $(RUNNER)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(SANFLAGS) -pthread -o $$@ $$(filter %.o,$$^) $$(LOOPBACK)/libcudart.so.$(1) \
	  $$(LOOPBACK)/libcuda.so.1 $$(RUNNER_LIBS)
endef
$(eval $(call loopback_cuda_tests,13,loopback-cuda))
$(eval $(call loopback_cuda_tests,12,loopback-cuda12))

check-loopback-cuda: $(BUILD)/tests/loopback-cuda $(BUILD)/tests/loopback-cuda12
	$(LOOPBACK_TEST_ENV) $(BUILD)/tests/loopback-cuda
	$(LOOPBACK_TEST_ENV) $(BUILD)/tests/loopback-cuda12

# --- tests of NCCL's stand-in -------------------------------------------------------------------------------

LOOPBACK_NCCL_TEST_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/test/nccl_*.c))

$(LOOPBACK_NCCL_TEST_OBJS): private ALL_CFLAGS += -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)

# What tests call by itself: the library does not export it.
LOOPBACK_NCCL_TESTED_INSIDE = datatype meeting reduce segment unique_id report settings

$(BUILD)/tests/loopback-nccl: $(LOOPBACK_NCCL_TEST_OBJS) $(LOOPBACK_NCCL_LIBS) $(LOOPBACK)/libcuda.so $(RUNNER)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(LOOPBACK_NCCL_TEST_OBJS) $(RUNNER) \
	  $(patsubst %,$(BUILD)/tools/loopback/nccl/%.o,$(LOOPBACK_NCCL_TESTED_INSIDE)) -L$(LOOPBACK) -lnccl -lcuda $(RUNNER_LIBS) -lm

.PHONY: check-loopback-nccl
check-loopback-nccl: $(BUILD)/tests/loopback-nccl
	LD_LIBRARY_PATH=$(LOOPBACK) TSAN_OPTIONS=atexit_sleep_ms=0 $<
