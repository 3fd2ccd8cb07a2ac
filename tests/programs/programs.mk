# The test programs and what is made of them. Included by tests/rules.mk.
#
#   make programs    $(BUILD)/programs/*, linked to the loopback's libcudart and libnccl: by their names, so that the same
#                    files run on the real ones
#   make demo        the main job, shown
#   make check-gpu   programs and PyTorch scripts on the real NCCL, where there is a GPU
#   make check-gpu-cases  whether the cases of check-gpu are right, as far as that can be told without a GPU
.PHONY: programs demo check-gpu check-gpu-cases gpu-programs

PROGRAMS = sum jobs late ddp connect crossed regression backward reductions groups teams lossy operations exchange behind experts endings shapes helpers annotations devices early train check_sums children graph processes drivers concurrent watchdog buffers
# ncclCommShrink came with 2.27, ncclCommRevoke with 2.28.7.
PROGRAMS += $(if $(call nccl_has,22807),shrink)
PROGRAM_PARTS = ranks arena options values tape digits record
PROGRAM_FILES = $(addprefix $(BUILD)/programs/,$(PROGRAMS))
PROGRAM_PART_OBJECTS = $(PROGRAM_PARTS:%=$(BUILD)/tests/programs/%.o)
PROGRAM_OBJECTS = $(PROGRAMS:%=$(BUILD)/tests/programs/%.o) $(PROGRAM_PART_OBJECTS) $(BUILD)/tests/programs/tensors.o
# Of sharded and normalised training, and of PyTorch's test of uneven inputs.
PROGRAMS += sharded normalised uneven branches places loops epochs
# The host cost of a call; for make check-gpu.
PROGRAMS += calls
DIGITS = $(BUILD)/data/digits.csv

# Either release of CUDA will do: a machine with a GPU may have one of them only. Its headers and NCCL's are not written for
# -Wpedantic in C.
PROGRAM_CUDA = $(if $(CUDA13_INCLUDE),13,12)
$(PROGRAM_OBJECTS): private tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE)

# The program sum, which opens NCCL instead of being linked to it; and another NCCL to be opened.
OPENED_FILES = $(BUILD)/programs/opened $(BUILD)/programs/libanother.so
OPENED_OBJECTS = $(BUILD)/tests/programs/sum.o $(BUILD)/tests/programs/trampolines.o
# A function in an object pointer is what dlsym is about; and nccl.h has no prototypes of functions without parameters.
$(BUILD)/tests/programs/trampolines.o: private tests_CFLAGS = -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) \
  -Wno-pedantic -Wno-missing-prototypes

# The program that meets in another library; and the same with MPI, where there is one.
MPICC ?= mpicc
MEETING_LIBRARY = $(BUILD)/programs/libmeeting.so
MEETING_FILES = $(MEETING_LIBRARY) $(BUILD)/programs/meet $(if $(shell command -v $(MPICC)),$(BUILD)/programs/mpi)
MEETING_FLAGS = -std=c17 -D_GNU_SOURCE $(CFLAGS) $(SANFLAGS) -I. -isystem $(NCCL_INCLUDE) \
                -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE)

# What a loop counts is read from what a compiler makes of it (tests/join/rounds.c): on x86-64, and of the program's code as it is.
EPOCHS_BUILDS = gcc-O0 gcc-O1 gcc-O2 gcc-O3 gcc-O2-frames $(if $(shell command -v clang),clang-O0 clang-O1 clang-O2)
EPOCHS_FILES = $(if $(SAN)$(COVERAGE)$(filter-out x86_64,$(shell uname -m)),,$(EPOCHS_BUILDS:%=$(BUILD)/programs/epochs-%))
programs: $(EPOCHS_FILES)
$(EPOCHS_FILES): $(BUILD)/programs/epochs-%: tests/programs/epochs.c $(PROGRAM_PART_OBJECTS) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(firstword $(subst -, ,$*)) -$(word 2,$(subst -, ,$*)) $(if $(findstring frames,$*),-fno-omit-frame-pointer) $(MEETING_FLAGS:-O%=) \
	  -pthread -o $@ $(filter %.c %.o,$^) -Wl,--as-needed $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback -lm

BLIND_FILE = $(BUILD)/programs/sum-blind
programs: $(BLIND_FILE) $(PROGRAM_FILES) $(OPENED_FILES) $(MEETING_FILES) $(DIGITS)

PROGRAM_LIBRARIES = $(BUILD)/loopback/libnccl.so.2 $(BUILD)/loopback/libcudart.so.$(PROGRAM_CUDA)

# --as-needed: check_sums needs neither library. The loopback's own dependencies are found where it lies.
$(PROGRAM_FILES): $(BUILD)/programs/%: $(BUILD)/tests/programs/%.o $(PROGRAM_PART_OBJECTS) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) -Wl,--as-needed $(PROGRAM_LIBRARIES) \
	  -Wl,-rpath-link,$(BUILD)/loopback -lm

$(BUILD)/programs/operations $(BUILD)/gpu/programs/operations: $(BUILD)/tests/programs/tensors.o

$(BUILD)/programs/opened: $(OPENED_OBJECTS) $(filter-out %/arena.o,$(PROGRAM_PART_OBJECTS)) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) -Wl,--as-needed $(filter %.13 %.12,$(PROGRAM_LIBRARIES)) \
	  -Wl,-rpath-link,$(BUILD)/loopback -lm

# The program sum without unwind tables: where its calls stand cannot be seen.
$(BUILD)/tests/programs/sum-blind.o: tests/programs/sum.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) $(ALL_CFLAGS) $(tests_CFLAGS) -fno-asynchronous-unwind-tables -fno-unwind-tables -fomit-frame-pointer -c -o $@ $<

$(BLIND_FILE): $(BUILD)/tests/programs/sum-blind.o $(PROGRAM_PART_OBJECTS) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $(filter %.o,$^) $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback -lm

$(MEETING_LIBRARY): tests/programs/meeting.c tests/programs/meeting.h
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(MEETING_FLAGS) -fPIC $(WARNINGS) -shared -Wl,-soname,libmeeting.so -o $@ $<

# The preload object can be seen to stand in front of either kind of reference: with -z lazy one that is bound at the first call.
MEETING_PARTS = tests/programs/meet.c $(PROGRAM_PART_OBJECTS) $(PROGRAM_LIBRARIES)
$(BUILD)/programs/meet: $(MEETING_PARTS) $(MEETING_LIBRARY)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(MEETING_FLAGS) $(WARNINGS) -pthread -o $@ $(filter-out %.h,$^) -Wl,-rpath,'$$ORIGIN' -Wl,-z,lazy \
	  -Wl,-rpath-link,$(BUILD)/loopback -lm

# MPI's header does not pass our warnings.
$(BUILD)/programs/mpi: $(MEETING_PARTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(MPICC) $(MEETING_FLAGS) -DWITH_MPI -pthread -o $@ $^ -Wl,-z,now -Wl,-rpath-link,$(BUILD)/loopback -lm

$(BUILD)/programs/libanother.so: $(BUILD)/loopback/libnccl.so.2
	@mkdir -p $(@D)
	$(call say,COPY,$@)
	$(Q)cp $< $@

$(DIGITS): tests/data/digits.csv.gz
	@mkdir -p $(@D)
	$(call say,GUNZIP,$@)
	$(Q)gzip -dc $< > $@

demo: all programs
	@tools/demo $(BUILD)

# The same sources linked to the CUDA toolkit's libraries and whichever NCCL tools/deps --gpu has found.
GPU_PROGRAM_FILES = $(addprefix $(BUILD)/gpu/programs/,$(PROGRAMS))

gpu-programs: $(GPU_PROGRAM_FILES) $(DIGITS)

$(GPU_PROGRAM_FILES): $(BUILD)/gpu/programs/%: $(BUILD)/tests/programs/%.o $(PROGRAM_PART_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -pthread -o $@ $(filter %.o,$^) -Wl,--as-needed $(NCCL_LIBRARY) $(CUDA_LIBRARY) \
	  -Wl,--allow-shlib-undefined -lm

check-gpu:
	@tests/gpu/run $(BUILD)

# What of it can be tried without a GPU.
check-gpu-cases:
	@tests/gpu/run --cpu $(BUILD)
