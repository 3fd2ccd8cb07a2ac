# interpose/: the preload object, build/lib/libnccl-join.so.

# As system headers: nccl.h does not pass our warnings.
interpose_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)

# Pure parts, tested without a process.
FLOW_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/places/flow/*.c))
NATIVE_CODE_OBJECTS = $(FLOW_OBJECTS) $(patsubst %,$(BUILD)/interpose/places/native/native_%.o,aarch64 code contents copies counters decide duplicates endings frame_use graph held jumps names \
                      object operands pads parts passed resumes tables tests twins values vectors words x86_64)

# The program's registers are read there as its calls have had them (interpose/places/places.h). clang does not know how.
ifeq ($(if $(findstring gcc,$(CC)),$(shell $(CC) -dumpmachine | sed 's/-.*//')),x86_64)
$(BUILD)/interpose/entry/callers.o: private ALL_CFLAGS += -DPLACES_KEEPS_REGISTERS -ffixed-rbx -ffixed-rbp $(patsubst %,-ffixed-r%,12 13 14 15)
endif

JOIN_LIBRARY = $(BUILD)/lib/libnccl-join.so
JOIN_EXPORTS = $(BUILD)/interpose/exports.map
# The transport in memory is for tests; segment_view.c is for nccl-join status; the rest for nccl-join-agent.
JOIN_SOURCES = $(filter-out core/transport/%_memory.c core/transport/segment_view.c core/transport/segment_remote.c \
                            core/transport/mirror%.c core/agent/%.c core/machines/frames.c,$(wildcard interpose/*/*.c interpose/*/*/*.c hooks/*.c core/*/*.c))

# Every process of a job loads it: nothing needed but libc, nothing resolved late, never unloaded, only the list exported.
JOIN_LDFLAGS = -shared -Wl,-soname,libnccl-join.so -Wl,--version-script=$(JOIN_EXPORTS) \
               -Wl,-z,now -Wl,-z,relro -Wl,-z,nodelete -Wl,--no-undefined \
               -Wl,--fatal-warnings

product: $(JOIN_LIBRARY)

$(JOIN_EXPORTS): interpose/entry/exports.map.in interpose/nccl/api.h core/unit/collectives.h
	@mkdir -p $(@D)
	$(call say,MAP,$@)
	$(Q)$(CC) -E -P -x c -I. -o $@ $<

# For each processor; of the others nothing is left.
JOIN_STUBS = $(wildcard interpose/*/stubs_*.S)

$(JOIN_LIBRARY): $(JOIN_SOURCES:%.c=$(BUILD)/%.o) $(JOIN_STUBS:%.S=$(BUILD)/%.o) $(JOIN_EXPORTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread $(JOIN_LDFLAGS) -o $@ $(filter %.o,$^)
