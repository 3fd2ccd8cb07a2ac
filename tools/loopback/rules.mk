# The loopback: stand-ins for the CUDA and NCCL libraries on host memory.
#
#   make loopback              $(BUILD)/loopback/lib{cuda,cudart,nccl}.so...: programs run with it in LD_LIBRARY_PATH
#
# Folders add the libraries they make to LOOPBACK_LIBS.

LOOPBACK = $(BUILD)/loopback
# A machine with a GPU may have the headers of CUDA 13 alone.
LOOPBACK_CUDARTS = $(if $(CUDA12_INCLUDE),12) 13
LOOPBACK_CUDA_LIBS = $(LOOPBACK)/libcuda.so.1 $(LOOPBACK_CUDARTS:%=$(LOOPBACK)/libcudart.so.%) \
                     $(LOOPBACK)/libcuda.so $(LOOPBACK)/libcudart.so
LOOPBACK_LIBS = $(LOOPBACK_CUDA_LIBS)

-include tools/loopback/nccl/nccl.mk

.PHONY: loopback
loopback: $(LOOPBACK_LIBS)

# Exports are what the linker maps say; nodelete because workers outlive a dlclose.
LOOPBACK_LDFLAGS = -shared -pthread $(SANFLAGS) -Wl,-z,now,-z,relro,-z,nodelete

# --- the driver ---------------------------------------------------------------------------------------------

# Functions with a default stream, compiled once more for their per-thread names (cuda/driver.h).
LOOPBACK_CUDA_TWICE = driver_copy driver_stream
LOOPBACK_CUDA_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/loopback/cuda/*.c)) \
                     $(LOOPBACK_CUDA_TWICE:%=$(BUILD)/tools/loopback/cuda/%.per_thread.o)
LOOPBACK_CUDA_FLAGS = $(ALL_CFLAGS) -fvisibility=default -isystem $(CUDA13_INCLUDE)

$(BUILD)/tools/loopback/cuda/%.o: tools/loopback/cuda/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(LOOPBACK_CUDA_FLAGS) -I$(LOOPBACK)/generated -c -o $@ $<

$(BUILD)/tools/loopback/cuda/%.per_thread.o: tools/loopback/cuda/%.c
	@mkdir -p $(@D)
	$(call say,CC,'$< (per-thread default stream)')
	$(Q)$(CC) $(LOOPBACK_CUDA_FLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -c -o $@ $<

$(LOOPBACK)/libcuda.so.1: $(LOOPBACK_CUDA_OBJS) tools/loopback/cuda/libcuda.map
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,libcuda.so.1 \
	  -Wl,--version-script=tools/loopback/cuda/libcuda.map -o $@ $(LOOPBACK_CUDA_OBJS) -ldl

# Rows {code, "code"} of an enumeration of errors in a CUDA header.
LOOPBACK_ERRORS = sed -n 's/^ *\($(1)[A-Za-z_0-9]*\) *= *[0-9x]*,\{0,1\}.*/{\1, "\1"},/p'

$(LOOPBACK)/generated/driver_errors.inc: $(CUDA13_INCLUDE)/cuda.h
	@mkdir -p $(@D)
	$(Q){ echo '{CUDA_SUCCESS, "CUDA_SUCCESS"},'; $(call LOOPBACK_ERRORS,CUDA_ERROR_) $<; } > $@

$(BUILD)/tools/loopback/cuda/driver_error.o: $(LOOPBACK)/generated/driver_errors.inc

# --- the runtime, once for each release of CUDA -------------------------------------------------------------

LOOPBACK_CUDART_TWICE = copy stream
LOOPBACK_CUDART_NAMES = $(patsubst tools/loopback/cudart/%.c,%,$(wildcard tools/loopback/cudart/*.c)) \
                        $(LOOPBACK_CUDART_TWICE:%=%.per_thread)

# $(1): release; its headers are in $(CUDA$(1)_INCLUDE)
define loopback_cudart
LOOPBACK_CUDART$(1)_FLAGS = $$(ALL_CFLAGS) -fvisibility=default -isystem $$(CUDA$(1)_INCLUDE)
LOOPBACK_CUDART$(1)_OBJS = $$(LOOPBACK_CUDART_NAMES:%=$$(BUILD)/tools/loopback/cudart$(1)/%.o)

$$(BUILD)/tools/loopback/cudart$(1)/%.o: tools/loopback/cudart/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1))')
	$$(Q)$$(CC) $$(LOOPBACK_CUDART$(1)_FLAGS) -I$$(BUILD)/tools/loopback/cudart$(1) -c -o $$@ $$<

$$(BUILD)/tools/loopback/cudart$(1)/%.per_thread.o: tools/loopback/cudart/%.c
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (CUDA $(1), per-thread default stream)')
	$$(Q)$$(CC) $$(LOOPBACK_CUDART$(1)_FLAGS) -DCUDA_API_PER_THREAD_DEFAULT_STREAM -c -o $$@ $$<

$$(BUILD)/tools/loopback/cudart$(1)/runtime_errors.inc: $$(CUDA$(1)_INCLUDE)/driver_types.h
	@mkdir -p $$(@D)
	$$(Q){ echo '{cudaSuccess, "cudaSuccess"},'; $$(call LOOPBACK_ERRORS,cudaError) $$<; } > $$@

$$(BUILD)/tools/loopback/cudart$(1)/device.o: $$(BUILD)/tools/loopback/cudart$(1)/runtime_errors.inc

$$(BUILD)/tools/loopback/cudart$(1)/libcudart.map: tools/loopback/cudart/libcudart.map.in
	@mkdir -p $$(@D)
	$$(Q)sed 's/@RELEASE@/$(1)/' $$< > $$@

$$(LOOPBACK)/libcudart.so.$(1): $$(LOOPBACK_CUDART$(1)_OBJS) $$(BUILD)/tools/loopback/cudart$(1)/libcudart.map \
                                $$(LOOPBACK)/libcuda.so.1
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(LOOPBACK_LDFLAGS) -Wl,-soname,libcudart.so.$(1) -Wl,-rpath,'$$$$ORIGIN' \
	  -Xlinker --version-script=$$(BUILD)/tools/loopback/cudart$(1)/libcudart.map -o $$@ $$(LOOPBACK_CUDART$(1)_OBJS) \
	  $$(LOOPBACK)/libcuda.so.1
endef
$(foreach release,$(LOOPBACK_CUDARTS),$(eval $(call loopback_cudart,$(release))))

# What -lcuda and -lcudart find.
$(LOOPBACK)/libcuda.so: $(LOOPBACK)/libcuda.so.1
	$(Q)ln -sf $(<F) $@

$(LOOPBACK)/libcudart.so: $(LOOPBACK)/libcudart.so.13
	$(Q)ln -sf $(<F) $@

# NVML, for those who ask it: in a folder of its own, as most programs are to find none.
LOOPBACK_NVML = $(LOOPBACK)/nvml/libnvidia-ml.so.1
$(LOOPBACK_NVML): tools/loopback/nvml/nvml.c
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,$(@F) -o $@ $<
