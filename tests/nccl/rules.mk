# NVIDIA's own libnccl.so.2, as shipped, with its kernels emulated on the loopback's CUDA.
#
#   make nccl-2.28.9     build-nccl/2.28.9: a build folder for programs and tests in front of that release, beside
#                        everything else, which make and make install never touch
#   make check-nccl      the tests of the emulation and the join tests in front of it; writes a part of docs/truth.md
#   make check-nccl-torch
#                        the tests of make check-pytorch in front of the release that PyTorch's wheel comes with
#
# Releases come as for `make check-versions` (tests/versions/rules.mk). Only for x86-64.
.PHONY: check-nccl

NCCL_VERSIONS_DIR ?= .deps/versions
EMULATION_DIR = build-nccl
# Work is described otherwise before 2.22: these must say so.
NCCL_NOT_EMULATED = 2.18.1 2.20.5
NCCL_EMULATED = 2.22.3 2.23.4 2.24.3 2.25.1 2.26.2 2.27.7 2.28.9 2.29.7 2.30.7 2.32.3

EMULATION_SOURCES = collective fresh function image kernel launch mover redirect reducer runtime task
EMULATION_BORROWED = $(addprefix $(BUILD)/tools/loopback/nccl/,reduce.o datatype.o)
# What is linked from the ordinary build folder, so that JOIN_TEST_BUILD can be this one.
EMULATION_LINKED = lib programs plugins data bench machines

emulation_cuda = $(shell strings -n 8 $(1) | sed -n 's/^NCCL version [0-9.]*+cuda\([0-9]*\).*/\1/p' | head -n 1)

# What tests the emulation itself.
EMULATION_TEST = $(EMULATION_DIR)/every
$(EMULATION_TEST): tests/nccl/every.c $(BUILD)/tools/loopback/nccl/datatype.o $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(filter-out -Wpedantic,$(ALL_CFLAGS)) -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) -o $@ \
	  $(filter %.c %.o,$^) $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback -lm

-include $(wildcard $(EMULATION_DIR)/*/objects/*.d)

# $(1): release
define nccl_emulation
.PHONY: nccl-$(1)
nccl-$(1): $(EMULATION_DIR)/$(1)/done

$(EMULATION_DIR)/$(1)/layout.h: $(NCCL_VERSIONS_DIR)/$(1)/lib/libnccl.so.2 tests/nccl/layout.py
	@mkdir -p $$(@D)
	$$(call say,LAYOUT,$$@)
	$$(Q)gdb -nx -batch -ex 'python release="$(1)"; header="$$@"' -x tests/nccl/layout.py $$<
	@printf '#define EMULATED_RUNTIME "libcudart.so.%s"\n' '$$(call emulation_cuda,$$<)' >>$$@

$(EMULATION_DIR)/$(1)/objects/%.o: tests/nccl/%.c $(EMULATION_DIR)/$(1)/layout.h
	@mkdir -p $$(@D)
	$$(call say,CC,'$$< (NCCL $(1))')
	$$(Q)$$(CC) $$(ALL_CFLAGS) -isystem $$(NCCL_INCLUDE) -isystem $$(CUDA13_INCLUDE) -I$(EMULATION_DIR)/$(1) -Wno-pedantic -c -o $$@ $$<

$(EMULATION_DIR)/$(1)/loopback/libcuda.so.1: $$(EMULATION_SOURCES:%=$(EMULATION_DIR)/$(1)/objects/%.o) $$(EMULATION_BORROWED) \
    $$(LOOPBACK_CUDA_OBJS) tools/loopback/cuda/libcuda.map
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(LOOPBACK_LDFLAGS) -Wl,-soname,libcuda.so.1 -Wl,--version-script=tools/loopback/cuda/libcuda.map -o $$@ \
	  $$(filter %.o,$$^) -ldl -lm

$(EMULATION_DIR)/$(1)/loopback/libnvidia-ml.so.1: tools/loopback/nvml/nvml.c
	@mkdir -p $$(@D)
	$$(call say,LINK,$$@)
	$$(Q)$$(CC) $$(ALL_CFLAGS) -shared -Wl,-soname,libnvidia-ml.so.1 -o $$@ $$<

$(EMULATION_DIR)/$(1)/done: $(EMULATION_DIR)/$(1)/loopback/libcuda.so.1 $(EMULATION_DIR)/$(1)/loopback/libnvidia-ml.so.1 \
    product loopback programs
	@tests/nccl/folder '$$(BUILD)' '$$(NCCL_VERSIONS_DIR)/$(1)' '$$(@D)' $$(EMULATION_LINKED)
	@touch $$@
endef
$(foreach release,$(NCCL_NOT_EMULATED) $(NCCL_EMULATED) pytorch,$(eval $(call nccl_emulation,$(release))))

$(NCCL_VERSIONS_DIR)/%/lib/libnccl.so.2:
	@NCCL_VERSIONS_DIR='$(NCCL_VERSIONS_DIR)' tools/deps --versions $*

# The one that PyTorch's wheel comes with. (tests/pytorch/rules.mk is read after this.)
EMULATION_PYTORCH = $(wildcard $(CLIENTS)/python/lib/python3.*/site-packages)
$(NCCL_VERSIONS_DIR)/pytorch/lib/libnccl.so.2: $(EMULATION_PYTORCH)/nvidia/nccl/lib/libnccl.so.2
	@mkdir -p $(@D)
	@ln -sfn '$(abspath $<)' $@

# PyTorch, the NCCL that it comes with, and its kernels emulated: a folder for PYTORCH_SITE.
EMULATION_SITE = $(EMULATION_DIR)/pytorch/site-packages
$(EMULATION_SITE)/torch/__init__.py: $(EMULATION_DIR)/pytorch/done $(BUILD)/pytorch/libhostcuda.so tests/pytorch/stack
	$(call say,LINKS,$(EMULATION_SITE))
	$(Q)tests/pytorch/stack '$(EMULATION_PYTORCH)' $(EMULATION_DIR)/pytorch/loopback $(EMULATION_DIR)/pytorch/loopback/libnccl.so.2 \
	  $(PYTORCH_OPERATORS) $(EMULATION_DIR)/pytorch/loopback/libnvidia-ml.so.1 $(EMULATION_SITE)
.PHONY: nccl-pytorch-site
nccl-pytorch-site: $(EMULATION_SITE)/torch/__init__.py

# make check-pytorch in front of that NCCL instead of the loopback's; PYTORCH_PARTS and the rest as there.
.PHONY: check-nccl-torch
check-nccl-torch:
	@tools/deps --nccl
	@tools/deps --clients
	@tests/clients/install '$(CLIENTS)' torch torch-tests cupy accelerate lightning transformers deepspeed
	@$(MAKE) --no-print-directory all loopback pytorch nccl-pytorch-site $(MACHINES_START)
	@PYTORCH_SITE=$(EMULATION_SITE) JOIN_TEST_BUILD=$(EMULATION_DIR)/pytorch PYTHON='$(CLIENTS)/python/bin/python' \
	  tests/pytorch/check.py $(PYTORCH_PARTS)

# A small part of this, for `make check`, if the library has been downloaded: each test shows something that the loopback's NCCL
# cannot show in the same way.
NCCL_SMALL = 2.28.9
NCCL_SMALL_TESTS = @(operations/all_to_all_with_a_joined_rank_and_a_late_one|graphs/uneven_loop_after_a_graph_is_refused|shrink/after_a_rank_has_been_killed|sums/three_ranks_leave_one_after_the_other|sharded/zero_is_refused_when_rank_0_has_joined|endings/destroy_only|demo/uneven_shards)
NCCL_SMALL_THERE = $(and $(wildcard $(NCCL_VERSIONS_DIR)/$(NCCL_SMALL)/lib/libnccl.so.2),$(shell command -v gdb),yes)
# What tests/run is told.
NCCL_SMALL_RUN = $(if $(NCCL_SMALL_THERE),--with LD_LIBRARY_PATH= JOIN_TEST_BUILD=$(EMULATION_DIR)/$(NCCL_SMALL) JOIN_TEST_ANY_ORDER=1 \
  JOIN_TEST_SLOWNESS=2 'TEST_FILTER=$(NCCL_SMALL_TESTS)' -- $(BUILD)/check/join)
.PHONY: nccl-small
nccl-small: $(if $(NCCL_SMALL_THERE),nccl-$(NCCL_SMALL))
	$(if $(NCCL_SMALL_THERE),,@echo 'not run in front of NVIDIA'\''s NCCL: make nccl-$(NCCL_SMALL) downloads it')

# The join tests stand in front of these.
NCCL_JOINED = 2.28.9 2.32.3

check-nccl:
	@tools/deps --check --nccl
	@NCCL_VERSIONS_DIR='$(NCCL_VERSIONS_DIR)' tools/deps --versions $(NCCL_NOT_EMULATED) $(NCCL_EMULATED)
	@$(MAKE) --no-print-directory product loopback programs $(BUILD)/check/join $(BUILD)/bench/ddp-train $(EMULATION_TEST)
	@tests/nccl/check '$(BUILD)' $(NCCL_EMULATED) --refused $(NCCL_NOT_EMULATED) --join $(NCCL_JOINED)
