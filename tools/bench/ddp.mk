# DDP against PyTorch's Join protocol (ddp.c), and the program that it runs.
BENCHMARKS += $(BUILD)/bench/ddp

$(BUILD)/bench/ddp: $(BUILD)/tools/bench/ddp.o $(ROWS_OBJECT) | $(BUILD)/bench/ddp-train
	$(link_tool)

DDP_TRAIN_OBJECTS = $(addprefix $(BUILD)/tools/bench/,ddp_train.o ddp_join.o ddp_model.o)
$(DDP_TRAIN_OBJECTS): private tools_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE)

$(BUILD)/bench/ddp-train: $(DDP_TRAIN_OBJECTS) $(addprefix $(BUILD)/tests/programs/,ranks.o options.o) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) -Wl,--as-needed $(PROGRAM_LIBRARIES) \
	  -Wl,-rpath-link,$(BUILD)/loopback -lm

$(BUILD)/check/join: | $(BUILD)/bench/ddp-train
