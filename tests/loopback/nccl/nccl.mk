# The loopback NCCL: libnccl.so.2 on host memory. Included by tests/loopback/rules.mk.

LOOPBACK_NCCL_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/nccl/*.c))
LOOPBACK_NCCL = $(BUILD)/loopback/libnccl.so.2 $(BUILD)/loopback/libnccl.so
LOOPBACK_NCCL_TEST = $(BUILD)/tests/loopback-nccl
LOOPBACK_NCCL_TEST_OBJECTS := $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/test/nccl_*.c))

# CUDA's and NCCL's headers are not written for -Wpedantic in C.
$(LOOPBACK_NCCL_OBJECTS) $(LOOPBACK_NCCL_TEST_OBJECTS): \
  private ALL_CFLAGS += -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)

$(BUILD)/loopback/libnccl.so.2: $(LOOPBACK_NCCL_OBJECTS) tests/loopback/nccl/nccl.map $(BUILD)/loopback/libcuda.so.1
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(ALL_CFLAGS) -shared -Wl,-soname,libnccl.so.2 -Wl,--version-script=tests/loopback/nccl/nccl.map \
	  -Wl,-z,defs -o $@ $(LOOPBACK_NCCL_OBJECTS) $(BUILD)/loopback/libcuda.so.1 -lm

$(BUILD)/loopback/libnccl.so: $(BUILD)/loopback/libnccl.so.2
	$(Q)ln -sf libnccl.so.2 $@
