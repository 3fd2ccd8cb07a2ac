# tests/pytorch: PyTorch's CUDA wheel, unmodified, on the loopback; operators are computed by the CPU in the device's memory.
#
#   make check-pytorch     installs it into CLIENTS, once (3 GB to download), and runs the tests; not part of `make check`
#   make bench-pytorch     what an iteration costs there, with PyTorch's Join and with nccl-join
PYTORCH = $(BUILD)/pytorch
PYTORCH_PACKAGES = $(wildcard $(CLIENTS)/python/lib/python3.*/site-packages)
PYTORCH_NCCL = $(PYTORCH)/libnccl.so.2
PYTORCH_OPERATORS = $(PYTORCH)/libhostcuda.so

$(PYTORCH_NCCL): $(BUILD)/tests/pytorch/later_nccl.o $(BUILD)/loopback/libnccl.so.2
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,$(@F) -Wl,-rpath,'$(CURDIR)/$(LOOPBACK)' \
	  -Wl,--version-script=tools/loopback/nccl/nccl.map -o $@ $< $(LOOPBACK_NCCL_OBJS) $(LOOPBACK)/libcuda.so.1 -lm

# With the headers of the wheel, which are not ours: their warnings are not shown.
PYTORCH_CXXFLAGS = -std=c++20 -O1 -fPIC -Wall -Wextra -Werror -Wno-stringop-overflow -isystem $(PYTORCH_PACKAGES)/torch/include \
                   -isystem $(PYTORCH_PACKAGES)/torch/include/torch/csrc/api/include -isystem $(PYTORCH_PACKAGES)/nvidia/cu13/include
PYTORCH_OBJECTS = $(patsubst tests/pytorch/hostcuda/%.cpp,$(PYTORCH)/%.o,$(wildcard tests/pytorch/hostcuda/*.cpp))

$(PYTORCH)/%.o: tests/pytorch/hostcuda/%.cpp tests/pytorch/hostcuda/hostcuda.h
	@mkdir -p $(@D)
	$(call say,CXX,$<)
	$(Q)$(CXX) $(PYTORCH_CXXFLAGS) -c -o $@ $<

$(PYTORCH_OPERATORS): $(PYTORCH_OBJECTS) $(LOOPBACK)/libcudart.so.13
	$(call say,LINK,$@)
	$(Q)$(CXX) -shared -o $@ $^ -L$(PYTORCH_PACKAGES)/torch/lib -ltorch_cpu -ltorch_cuda -lc10_cuda -lc10 -Wl,--allow-shlib-undefined

$(PYTORCH)/site-packages/torch/__init__.py: tests/pytorch/stack $(wildcard tests/pytorch/hostcuda/*.py) $(PYTORCH_NCCL) $(PYTORCH_OPERATORS) $(LOOPBACK_NVML)
	$(call say,LINKS,$(PYTORCH)/site-packages)
	$(Q)tests/pytorch/stack '$(PYTORCH_PACKAGES)' $(LOOPBACK) $(PYTORCH_NCCL) $(PYTORCH_OPERATORS) $(LOOPBACK_NVML) $(PYTORCH)/site-packages

.PHONY: pytorch check-pytorch
pytorch: $(PYTORCH)/site-packages/torch/__init__.py

# PYTORCH_PARTS: some of the parts that tests/pytorch/check.py has; all.
PYTORCH_PARTS =
check-pytorch:
	@tools/deps --clients
	@tests/clients/install '$(CLIENTS)' torch torch-tests cupy accelerate lightning transformers deepspeed
	@$(MAKE) --no-print-directory all loopback pytorch $(MACHINES_START)
	@JOIN_TEST_BUILD=$(BUILD) PYTHON='$(CLIENTS)/python/bin/python' tests/pytorch/check.py $(PYTORCH_PARTS)

# What an iteration costs: PyTorch's Join and nccl-join side by side.
.PHONY: bench-pytorch
bench-pytorch:
	@tools/deps --clients
	@tests/clients/install '$(CLIENTS)' torch
	@$(MAKE) --no-print-directory all loopback pytorch
	@JOIN_TEST_BUILD=$(BUILD) PYTHON='$(CLIENTS)/python/bin/python' tests/pytorch/cost.py

# For `make check`: a few cases, where PyTorch has been downloaded before.
PYTORCH_SMALL = nccl2, . ranks: (ddp.py of docs|zero.py 1,3 barrier|parts.py 2,5,1,4 ready|uneven.py --iterations 4,9,6,9: join|matrix.py --models small_model_allreduce)
.PHONY: pytorch-small
pytorch-small:
	@if [ -f '$(CLIENTS)/torch.installed' ]; then \
	  $(MAKE) --no-print-directory loopback pytorch && \
	  JOIN_TEST_BUILD=$(BUILD) PYTHON='$(CLIENTS)/python/bin/python' PYTORCH_RANKS=2 PYTORCH_BACKENDS=nccl2 PYTORCH_CASES='$(PYTORCH_SMALL)' \
	    tests/pytorch/check.py own scripts; \
	else echo '== tests/pytorch: not run; make check-pytorch downloads PyTorch'; fi
