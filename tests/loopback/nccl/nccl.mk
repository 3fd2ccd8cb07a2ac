# The loopback NCCL: libnccl.so.2 on host memory. Included by tests/loopback/rules.mk.
#
#   make check-loopback-nccl   its tests

LOOPBACK_NCCL_LIBS = $(LOOPBACK)/libnccl.so.2 $(LOOPBACK)/libnccl.so
LOOPBACK_LIBS += $(LOOPBACK_NCCL_LIBS)

LOOPBACK_NCCL_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/nccl/*.c))
LOOPBACK_NCCL_TEST_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/loopback/test/nccl_*.c))

$(LOOPBACK_NCCL_OBJS) $(LOOPBACK_NCCL_TEST_OBJS): \
  private ALL_CFLAGS += -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)

# Criterion's runner and ThreadSanitizer want the same addresses.
ifneq ($(findstring thread,$(SAN)),)
$(LOOPBACK_NCCL_TEST_OBJS): private ALL_CFLAGS += -isystem tests/loopback/test/nccl_plain
LOOPBACK_NCCL_TEST_LIBS =
else
LOOPBACK_NCCL_TEST_LIBS = $(CRITERION_LIBS)
endif

$(LOOPBACK)/libnccl.so.2: $(LOOPBACK_NCCL_OBJS) tests/loopback/nccl/nccl.map $(LOOPBACK)/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,libnccl.so.2 -Wl,-rpath,'$$ORIGIN' \
	  -Wl,--version-script=tests/loopback/nccl/nccl.map -o $@ $(LOOPBACK_NCCL_OBJS) $(LOOPBACK)/libcuda.so.1 -lm

# What -lnccl finds.
$(LOOPBACK)/libnccl.so: $(LOOPBACK)/libnccl.so.2
	$(Q)ln -sf $(<F) $@

# What tests call by itself: the library does not export it.
LOOPBACK_NCCL_TESTED_INSIDE = datatype reduce unique_id report settings

$(BUILD)/tests/loopback-nccl: $(LOOPBACK_NCCL_TEST_OBJS) $(LOOPBACK_NCCL_LIBS) $(LOOPBACK)/libcuda.so
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(LOOPBACK_NCCL_TEST_OBJS) \
	  $(patsubst %,$(BUILD)/tests/loopback/nccl/%.o,$(LOOPBACK_NCCL_TESTED_INSIDE)) -L$(LOOPBACK) -lnccl -lcuda \
	  $(LOOPBACK_NCCL_TEST_LIBS) -lm

.PHONY: check-loopback-nccl
check-loopback-nccl: $(BUILD)/tests/loopback-nccl
	LD_LIBRARY_PATH=$(LOOPBACK) TSAN_OPTIONS=atexit_sleep_ms=0 $<
