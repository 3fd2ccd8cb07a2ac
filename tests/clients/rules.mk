# tests/clients: real clients of NCCL and real launchers, without a GPU. Not part of `make check`: 3 GB to download, 6 GB on disk.
#
#   make check-clients    installs them into CLIENTS, once, and runs the tests
CLIENTS ?= $(CURDIR)/.deps/clients

CLIENTS_TEST_OBJECTS = $(addprefix $(BUILD)/tests/clients/,client.o startup.o unchanged.o uneven.o) \
                       $(BUILD)/tests/join/run.o $(BUILD)/tests/join/expected.o $(BUILD)/tests/faults/place.o \
                       $(BUILD)/tools/port.o
NEWER_NCCL = $(BUILD)/clients/libnewer_nccl.so

$(BUILD)/check/clients: $(CLIENTS_TEST_OBJECTS)
	$(link_test)

$(NEWER_NCCL): $(BUILD)/tests/clients/newer_nccl.o $(BUILD)/loopback/libnccl.so.2
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LOOPBACK_LDFLAGS) -Wl,-soname,$(@F) -Wl,-rpath,'$$ORIGIN/../loopback' \
	  -Wl,--version-script=tools/loopback/nccl/nccl.map -o $@ $< $(LOOPBACK_NCCL_OBJS) $(LOOPBACK)/libcuda.so.1 -lm

# One test at a time: the start of programs is measured.
.PHONY: check-clients
check-clients:
	@tools/deps --clients
	@$(MAKE) --no-print-directory all loopback programs $(BUILD)/check/clients $(NEWER_NCCL)
	@tests/clients/install '$(CLIENTS)'
	@tests/run --with $(CHECK_ENVIRONMENT) CLIENTS='$(CLIENTS)' TEST_JOBS=1 TEST_LIMIT=1800 -- $(BUILD)/check/clients
