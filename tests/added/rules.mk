# tests/added: nccl-join with one collective more than NCCL has. A row of core/unit/collectives.h is all that is added to it
# (row.inc); tests/tools/test_added.c runs it, on a stand-in that has the function.
ADDED = $(BUILD)/added
ADDED_TABLE = $(ADDED)/include/core/unit/collectives.h
# The rooms that know nothing of units are those of the product.
ADDED_SAME = core/settings/% core/report/% core/place/% interpose/elf/% interpose/places/flow/% interpose/places/native/% \
             interpose/places/python/%
ADDED_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(filter $(ADDED_SAME),$(JOIN_SOURCES))) $(JOIN_STUBS:%.S=$(BUILD)/%.o) \
                $(patsubst %.c,$(ADDED)/%.o,$(filter-out $(ADDED_SAME),$(JOIN_SOURCES)))
ADDED_FILES = $(addprefix $(ADDED)/,lib/libnccl-join.so loopback/libnccl.so.2 programs/total tools/nccl-join)

.PHONY: added
added: $(ADDED_FILES)

$(ADDED_TABLE): core/unit/collectives.h tests/added/row.inc
	@mkdir -p $(@D)
	$(call say,ROW,$@)
	$(Q)sed '/^#define NCCL_COLLECTIVES(/r tests/added/row.inc' $< > $@

# All of it is compiled once more, for a few calls.
$(ADDED)/%.o: private CFLAGS = -O0
$(ADDED)/%.o: %.c $(ADDED_TABLE)
	@mkdir -p $(@D)
	$(call say,CC,'$< (with a collective more)')
	$(Q)$(CC) -I$(ADDED)/include $(ALL_CFLAGS) $($(firstword $(subst /, ,$*))_CFLAGS) -c -o $@ $<

$(ADDED)/exports.map: interpose/entry/exports.map.in interpose/nccl/api.h $(ADDED_TABLE)
	$(call say,MAP,$@)
	$(Q)$(CC) -E -P -x c -I$(ADDED)/include -I. -o $@ $<

$(ADDED)/lib/libnccl-join.so: $(ADDED_OBJECTS) $(ADDED)/exports.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(CFLAGS) -pthread $(subst $(JOIN_EXPORTS),$(ADDED)/exports.map,$(JOIN_LDFLAGS)) -o $@ $(ADDED_OBJECTS)

$(ADDED)/loopback/libnccl.so.2: $(BUILD)/tests/added/nccl.o $(LOOPBACK_LIBS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)cp $(LOOPBACK)/libcuda.so.1 $(wildcard $(LOOPBACK)/libcudart.so.1?) $(@D)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,libnccl.so.2 -Wl,-rpath,'$$ORIGIN' \
	  -Wl,--version-script=tools/loopback/nccl/nccl.map -o $@ $< $(LOOPBACK_NCCL_OBJS) $(LOOPBACK)/libcuda.so.1 -lm

$(ADDED)/programs/total: $(BUILD)/tests/added/program.o $(PROGRAM_PART_OBJECTS) $(ADDED)/loopback/libnccl.so.2
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) -pthread -o $@ $(filter %.o,$^) $(ADDED)/loopback/libnccl.so.2 \
	  $(LOOPBACK)/libcudart.so.$(PROGRAM_CUDA) -Wl,-rpath-link,$(LOOPBACK) -lm

# The launcher takes what lies beside it.
$(ADDED)/tools/nccl-join: $(addprefix $(BUILD)/tools/,nccl-join nccl-join-ranks nccl-join-env)
	@mkdir -p $(@D)
	$(Q)install -m 755 $^ $(@D)
