# hooks/: what a joined rank contributes to its peers' collectives. The vendors' headers are system headers: nccl.h declares
# functions without prototypes.
hooks_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)
HOOKS_SOURCES = $(wildcard hooks/*.c)
HOOKS_OBJECTS = $(HOOKS_SOURCES:%.c=$(BUILD)/%.o)

# Examples of plug-ins: what a user would build, with the installed header and nothing else.
HOOK_EXAMPLES = $(patsubst hooks/examples/%.c,%,$(wildcard hooks/examples/*.c))
HOOK_PLUGINS = $(HOOK_EXAMPLES:%=$(BUILD)/lib/hooks/%.so)
product: $(HOOK_PLUGINS)

$(HOOK_EXAMPLES:%=$(BUILD)/hooks/examples/%.o): private hooks_CFLAGS += -Ihooks/include
$(HOOK_PLUGINS): $(BUILD)/lib/hooks/%.so: $(BUILD)/hooks/examples/%.o
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -shared -pthread -Wl,-z,now -o $@ $<
