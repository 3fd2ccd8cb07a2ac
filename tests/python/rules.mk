# tests/python: the places of calls in Python programs, by every version of Python on the machine.

PYTHON_PROBE = $(BUILD)/python/libprobe.so
PYTHON_PLACE_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/places/python/*.c interpose/places/flow/*.c)) \
                       $(BUILD)/interpose/elf/linker.o

$(PYTHON_PROBE): $(BUILD)/tests/python/probe.o $(PYTHON_PLACE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -shared -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined -o $@ $^

# RANDOM_FUNCTIONS=N: that many random functions for each version.
$(BUILD)/check/python: $(BUILD)/tests/python/test_python.o $(BUILD)/tests/python/probe.o $(PYTHON_PLACE_OBJECTS) | $(PYTHON_PROBE)
	$(link_test)
