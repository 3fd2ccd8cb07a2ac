# The loopback: stand-ins for the CUDA and NCCL libraries on host memory.
#
#   make loopback              $(BUILD)/loopback/lib{cuda,cudart,nccl}.so...: programs run with it in LD_LIBRARY_PATH
#   make check-loopback-cuda   the tests of the CUDA stand-ins
#
# Folders add the libraries they make to LOOPBACK_LIBS.

LOOPBACK = $(BUILD)/loopback
LOOPBACK_CUDA_LIBS = $(LOOPBACK)/libcuda.so.1 $(LOOPBACK)/libcudart.so.12 $(LOOPBACK)/libcudart.so.13 \
                     $(LOOPBACK)/libcuda.so $(LOOPBACK)/libcudart.so
LOOPBACK_LIBS = $(LOOPBACK_CUDA_LIBS)

-include tests/loopback/nccl/nccl.mk

.PHONY: loopback check-loopback-cuda
loopback: $(LOOPBACK_LIBS)

# Exports are what the linker maps say; nodelete because workers outlive a dlclose.
LOOPBACK_LDFLAGS = -shared -pthread $(SANFLAGS) -Wl,-z,now,-z,relro,-z,nodelete

# --- the driver ---------------------------------------------------------------------------------------------

# Functions with a default stream, compiled once more for their per-thread names (cuda/driver.h).
LOOPBACK_CUDA_TWICE = driver_copy driver_stream
LOOPBACK_CUDA_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/cuda/*.c)) \
                     $(LOOPBACK_CUDA_TWICE:%=$(BUILD)/tests/loopback/cuda/%.per_thread.o)
LOOPBACK_CUDA_FLAGS = $(ALL_CFLAGS) -fvisibility=default -isystem $(CUDA13_INCLUDE)

$(BUILD)/tests/loopback/cuda/%.o: tests/loopback/cuda/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(LOOPBACK_CUDA_FLAGS) -I$(LOOPBACK)/generated -c -o $@ $<

$(BUILD)/tests/loopback/cuda/%.per_thread.o: tests/loopback/cuda/%.c
	@mkdir -p $(@D)
	$(call say,CC,'$< (per-thread default stream)')
	$(Q)$(CC) $(LOOPBACK_CUDA_FLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -c -o $@ $<

$(LOOPBACK)/libcuda.so.1: $(LOOPBACK_CUDA_OBJS) tests/loopback/cuda/libcuda.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,libcuda.so.1 \
	  -Wl,--version-script=tests/loopback/cuda/libcuda.map -o $@ $(LOOPBACK_CUDA_OBJS) -ldl

# Rows {code, "code"} of an enumeration of errors in a CUDA header.
LOOPBACK_ERRORS = sed -n 's/^ *\($(1)[A-Za-z_0-9]*\) *= *[0-9x]*,\{0,1\}.*/{\1, "\1"},/p'

$(LOOPBACK)/generated/driver_errors.inc: $(CUDA13_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	$(Q){ echo '{CUDA_SUCCESS, "CUDA_SUCCESS"},'; $(call LOOPBACK_ERRORS,CUDA_ERROR_) $<; } > $@

$(BUILD)/tests/loopback/cuda/driver_error.o: $(LOOPBACK)/generated/driver_errors.inc

# --- the runtime, once for each release of CUDA -------------------------------------------------------------

LOOPBACK_CUDART_TWICE = copy stream
LOOPBACK_CUDART_NAMES = $(patsubst tests/loopback/cudart/%.c,%,$(wildcard tests/loopback/cudart/*.c)) \
                        $(LOOPBACK_CUDART_TWICE:%=%.per_thread)

# $(1): release; its headers are in $(CUDA$(1)_INCLUDE)
define loopback_cudart
LOOPBACK_CUDART$(1)_FLAGS = $$(ALL_CFLAGS) -fvisibility=default -isystem $$(CUDA$(1)_INCLUDE)
LOOPBACK_CUDART$(1)_OBJS = $$(LOOPBACK_CUDART_NAMES:%=$$(LOOPBACK)/cudart$(1)/%.o)

$$(LOOPBACK)/cudart$(1)/%.o: tests/loopback/cudart/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1))')
	$$(Q)$$(CC) $$(LOOPBACK_CUDART$(1)_FLAGS) -I$$(LOOPBACK)/cudart$(1) -c -o $$@ $$<

$$(LOOPBACK)/cudart$(1)/%.per_thread.o: tests/loopback/cudart/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1), per-thread default stream)')
	$$(Q)$$(CC) $$(LOOPBACK_CUDART$(1)_FLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -c -o $$@ $$<

$$(LOOPBACK)/cudart$(1)/runtime_errors.inc: $$(CUDA$(1)_INCLUDE)/driver_types.h
	@mkdir -p $$(@D)
	$$(Q){ echo '{cudaSuccess, "cudaSuccess"},'; $$(call LOOPBACK_ERRORS,cudaError) $$<; } > $$@

$$(LOOPBACK)/cudart$(1)/device.o: $$(LOOPBACK)/cudart$(1)/runtime_errors.inc

$$(LOOPBACK)/cudart$(1)/libcudart.map: tests/loopback/cudart/libcudart.map.in
	@mkdir -p $$(@D)
	$$(Q)sed 's/@RELEASE@/$(1)/' $$< > $$@

$$(LOOPBACK)/libcudart.so.$(1): $$(LOOPBACK_CUDART$(1)_OBJS) $$(LOOPBACK)/cudart$(1)/libcudart.map \
                                $$(LOOPBACK)/libcuda.so.1
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(LOOPBACK_LDFLAGS) -Wl,-soname,libcudart.so.$(1) -Wl,-rpath,'$$$$ORIGIN' \
	  -Xlinker --version-script=$$(LOOPBACK)/cudart$(1)/libcudart.map -o $$@ $$(LOOPBACK_CUDART$(1)_OBJS) \
	  $$(LOOPBACK)/libcuda.so.1
endef
$(eval $(call loopback_cudart,12))
$(eval $(call loopback_cudart,13))

# What -lcuda and -lcudart find.
$(LOOPBACK)/libcuda.so: $(LOOPBACK)/libcuda.so.1
	$(Q)ln -sf $(<F) $@

$(LOOPBACK)/libcudart.so: $(LOOPBACK)/libcudart.so.13
	$(Q)ln -sf $(<F) $@

# --- tests --------------------------------------------------------------------------------------------------

# The same tests against either release, with the headers of that release: loopback-cuda (13), loopback-cuda12.
LOOPBACK_CUDA_TESTS = $(wildcard tests/loopback/test/cuda_*.c)

# With ThreadSanitizer the tests have a runner of their own, see plain.h. The other one leaves to Criterion the
# signals that tests expect, and exits of processes with threads running have nothing to say about leaks.
ifneq ($(filter thread,$(SAN)),)
LOOPBACK_CUDA_TESTS += tests/loopback/test/plain.c
CUDA_TEST_LIBS =
else
CUDA_TEST_LIBS = $(CRITERION_LIBS)
endif
LOOPBACK_TEST_ENV = LD_LIBRARY_PATH=$(LOOPBACK) ASAN_OPTIONS=handle_segv=0:handle_abort=0 \
                    TSAN_OPTIONS=handle_segv=0:handle_abort=0:atexit_sleep_ms=10

# $(1): release; $(2): name of the program
define loopback_cuda_tests
$$(BUILD)/$(2)/%.o: tests/loopback/test/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1))')
	$$(Q)$$(CC) $$(ALL_CFLAGS) -isystem $$(CUDA$(1)_INCLUDE) -c -o $$@ $$<

$$(BUILD)/tests/$(2): $$(LOOPBACK_CUDA_TESTS:tests/loopback/test/%.c=$$(BUILD)/$(2)/%.o) $$(LOOPBACK_CUDA_LIBS)
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(SANFLAGS) -pthread -o $$@ $$(filter %.o,$$^) $$(LOOPBACK)/libcudart.so.$(1) \
	  $$(LOOPBACK)/libcuda.so.1 $$(CUDA_TEST_LIBS)
endef
$(eval $(call loopback_cuda_tests,13,loopback-cuda))
$(eval $(call loopback_cuda_tests,12,loopback-cuda12))

check-loopback-cuda: $(BUILD)/tests/loopback-cuda $(BUILD)/tests/loopback-cuda12
	$(LOOPBACK_TEST_ENV) $(BUILD)/tests/loopback-cuda
	$(LOOPBACK_TEST_ENV) $(BUILD)/tests/loopback-cuda12

