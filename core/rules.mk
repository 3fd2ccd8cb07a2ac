# core/: pure C, libc only.
CORE_SOURCES = $(wildcard core/*/*.c)
CORE_OBJECTS = $(CORE_SOURCES:%.c=$(BUILD)/%.o)
SETTINGS_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard core/settings/*.c))
