# tools/: the launcher and its helper programs. tools/nccl-join works in place; its copy in the build folder uses
# the files of that folder (build-address, say) instead of build/.

LAUNCHER = $(BUILD)/tools/nccl-join $(BUILD)/tools/nccl-join-ranks $(BUILD)/tools/nccl-join-env
product: $(LAUNCHER)

# For programs that write to a terminal, or JSON.
TEXT_OBJECTS = $(BUILD)/tools/terminal.o $(BUILD)/tools/json_text.o

define link_tool
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^
endef

$(BUILD)/tools/nccl-join-ranks: $(BUILD)/tools/ranks.o $(BUILD)/tools/relay.o
	$(link_tool)

$(BUILD)/tools/nccl-join-env: $(BUILD)/tools/settings_main.o $(SETTINGS_OBJECTS)
	$(link_tool)

$(BUILD)/tools/nccl-join: tools/nccl-join
	@mkdir -p $(@D)
	$(Q)install -m 755 $< $@

# PREFIX is where it will run from, DESTDIR where a package is being put together.
INSTALLED = $(DESTDIR)$(PREFIX)/lib/nccl-join
install: all $(TIMELINE)
	@case '$(PREFIX)' in /*) ;; *) echo "make install: PREFIX=$(PREFIX) must be an absolute path" >&2; exit 2 ;; esac
	install -d '$(DESTDIR)$(PREFIX)/bin' '$(DESTDIR)$(PREFIX)/include' '$(INSTALLED)/loopback' '$(INSTALLED)/hooks'
	install -m 755 tools/nccl-join $(TIMELINE) '$(DESTDIR)$(PREFIX)/bin/'
	install -m 755 $(BUILD)/tools/nccl-join-ranks $(BUILD)/tools/nccl-join-env $(CHECK_TOOL) $(DOCTOR_TOOL) $(STATUS_TOOL) '$(INSTALLED)/'
	$(if $(CHECK_READER),install -m 644 $(CHECK_READER) '$(INSTALLED)/')
	install -m 755 $(BUILD)/lib/libnccl-join.so '$(INSTALLED)/'
	install -m 755 $(HOOK_PLUGINS) '$(INSTALLED)/hooks/'
	install -m 644 hooks/include/nccl_join.h hooks/include/nccl_join_hook.h '$(DESTDIR)$(PREFIX)/include/'
	if [ -e $(BUILD)/loopback/libnccl.so.2 ]; then cp -Pf $(BUILD)/loopback/lib*.so* '$(INSTALLED)/loopback/'; fi
