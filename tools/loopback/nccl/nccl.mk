# The loopback NCCL: libnccl.so.2 on host memory. Included by tools/loopback/rules.mk.

LOOPBACK_NCCL_LIBS = $(LOOPBACK)/libnccl.so.2 $(LOOPBACK)/libnccl.so
LOOPBACK_LIBS += $(LOOPBACK_NCCL_LIBS)

LOOPBACK_NCCL_OBJS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tools/loopback/nccl/*.c))

$(LOOPBACK_NCCL_OBJS): private ALL_CFLAGS += -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE) -Wno-missing-prototypes

$(LOOPBACK)/libnccl.so.2: $(LOOPBACK_NCCL_OBJS) tools/loopback/nccl/nccl.map $(LOOPBACK)/libcuda.so.1
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,libnccl.so.2 -Wl,-rpath,'$$ORIGIN' \
	  -Wl,--version-script=tools/loopback/nccl/nccl.map -o $@ $(LOOPBACK_NCCL_OBJS) $(LOOPBACK)/libcuda.so.1 -lm

# What -lnccl finds.
$(LOOPBACK)/libnccl.so: $(LOOPBACK)/libnccl.so.2
	$(Q)ln -sf $(<F) $@
