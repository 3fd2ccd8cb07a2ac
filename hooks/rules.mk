# hooks/: what a joined rank contributes to its peers' collectives. The vendors' headers are system headers: nccl.h declares
# functions without prototypes.
hooks_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA13_INCLUDE)
HOOKS_SOURCES = $(wildcard hooks/*.c)
HOOKS_OBJECTS = $(HOOKS_SOURCES:%.c=$(BUILD)/%.o)
