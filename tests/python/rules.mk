# tests/python: the places of calls in Python programs, by every version of Python on the machine.

PYTHON_PROBE = $(BUILD)/python/libprobe.so
PYTHON_PLACE_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/places/python/*.c interpose/places/flow/*.c) core/thread/detached.c) \
                       $(BUILD)/interpose/elf/linker.o

$(PYTHON_PROBE): $(BUILD)/tests/python/probe.o $(PYTHON_PLACE_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -shared -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined -o $@ $^

# All of interpose/places, and a program that calls Python.
PYTHON_STANDING = $(BUILD)/python/libstanding.so
PYTHON_EMBED = $(BUILD)/python/embed
$(PYTHON_STANDING): $(BUILD)/tests/python/standing.o $(patsubst %.c,$(BUILD)/%.o,$(wildcard interpose/places/*.c interpose/places/*/*.c)) \
                    $(BUILD)/interpose/elf/linker.o $(BUILD)/interpose/self/thread.o $(BUILD)/core/place/place.o $(BUILD)/core/place/place_rounds.o $(BUILD)/core/thread/detached.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -shared -Wl,-z,now -Wl,-z,relro -Wl,--no-undefined -Wl,-soname,$(@F) -o $@ $^
$(PYTHON_EMBED): $(BUILD)/tests/python/embed.o $(PYTHON_STANDING)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ -Wl,-rpath,'$$ORIGIN'

# RANDOM_FUNCTIONS=N: that many random functions for each version.
$(BUILD)/check/python: $(BUILD)/tests/python/test_python.o $(BUILD)/tests/python/test_garbage.o $(BUILD)/tests/python/test_ahead.o $(BUILD)/tests/python/probe.o $(PYTHON_PLACE_OBJECTS) | $(PYTHON_PROBE) $(PYTHON_EMBED)
	$(link_test)
