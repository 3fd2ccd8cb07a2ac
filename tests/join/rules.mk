# tests/join: plug-ins for its tests, and programs in C++: one that includes what programs and plug-ins include, and one that throws.

PLUGIN_FLAGS = -shared -std=c17 -D_GNU_SOURCE $(WARNINGS) $(CFLAGS) $(SANFLAGS) -fPIC -I. -isystem $(NCCL_INCLUDE) \
               -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) -MMD -MP
TEST_PLUGINS = $(addprefix $(BUILD)/plugins/,first.so second.so only_named.so newer.so no_plugin.so libtorch_cuda.so)
programs: $(TEST_PLUGINS) $(BUILD)/programs/annotations_in_cpp $(BUILD)/programs/example_sum $(BUILD)/programs/failing_in_cpp

$(BUILD)/plugins/first.so $(BUILD)/plugins/second.so: tests/join/plugins/hook.c $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(PLUGIN_FLAGS) -DHOOK_NAME='"$(if $(findstring first,$@),FIRST,SECOND)"' -o $@ $< $(PROGRAM_LIBRARIES) \
	  -Wl,-rpath-link,$(BUILD)/loopback

$(BUILD)/plugins/%.so: tests/join/plugins/%.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(PLUGIN_FLAGS) -o $@ $<

$(BUILD)/programs/annotations_in_cpp: tests/join/plugins/annotations.cpp hooks/include/nccl_join.h hooks/include/nccl_join_hook.h $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++11 -Wall -Wextra -Wpedantic -Werror $(CFLAGS) $(SANFLAGS) -Ihooks/include -isystem $(NCCL_INCLUDE) \
	  -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) -o $@ $< $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback

$(BUILD)/programs/failing_in_cpp: tests/join/plugins/failing.cpp tests/programs/ranks.h $(PROGRAM_PART_OBJECTS) $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++11 -Wall -Wextra -Werror $(CFLAGS) $(SANFLAGS) -I. -isystem $(NCCL_INCLUDE) -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) \
	  -o $@ $(filter %.cpp %.o,$^) $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback

# As a user builds it, but for warnings.
$(BUILD)/programs/example_sum: docs/examples/sum.cpp hooks/include/nccl_join.h $(PROGRAM_LIBRARIES)
	@mkdir -p $(@D)
	$(call say,CXX,$@)
	$(Q)$(CXX) -std=c++11 -Wall -Wextra -Werror $(CFLAGS) $(SANFLAGS) -Ihooks/include -isystem $(NCCL_INCLUDE) \
	  -isystem $(CUDA$(PROGRAM_CUDA)_INCLUDE) -o $@ $< $(PROGRAM_LIBRARIES) -Wl,-rpath-link,$(BUILD)/loopback
