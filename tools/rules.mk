# tools/: the launcher and its helper programs. tools/nccl-join works in place; its copy in the build folder uses
# the files of that folder (build-address, say) instead of build/.

LAUNCHER = $(BUILD)/tools/nccl-join $(BUILD)/tools/nccl-join-ranks $(BUILD)/tools/nccl-join-env
product: $(LAUNCHER)

# For programs that write to a terminal, or JSON.
TEXT_OBJECTS = $(BUILD)/tools/terminal.o $(BUILD)/tools/json_text.o

define link_tool
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(SANFLAGS) -pthread -o $@ $^ $(TOOL_LIBS)
endef

# What reads segments: of nccl-join status, and of the launcher.
STATUS_READERS = $(addprefix $(BUILD)/tools/status/,ended.o job.o segments.o warning.o who_waits.o)

$(BUILD)/tools/nccl-join-ranks: $(addprefix $(BUILD)/tools/,ranks.o ranks_ends.o ranks_options.o launch_record.o port.o relay.o) $(STATUS_READERS) $(CORE_OBJECTS)
	$(link_tool)

$(BUILD)/tools/nccl-join-env: $(BUILD)/tools/settings_main.o $(BUILD)/tools/terminal.o $(SETTINGS_OBJECTS)
	$(link_tool)

$(BUILD)/tools/nccl-join: tools/nccl-join
	@mkdir -p $(@D)
	$(Q)install -m 755 $< $@

# PREFIX is where it will run from, DESTDIR where a package is being put together. make uninstall takes away what make install
# puts there, and the folders that are empty then.
ROOT = $(DESTDIR)$(PREFIX)
INSTALLED = $(ROOT)/lib/nccl-join
PAGES = $(ROOT)/share/doc/nccl-join
COMPLETIONS = $(ROOT)/share/bash-completion/completions
# Of links to sources, which are not installed, the text.
UNLINK_SOURCES = 's/\[([^][]*)\]\((\.\.\/)*(core|hooks|interpose|tools|tests|Makefile)[^)]*\)/\1/g'
.PHONY: uninstall
install uninstall: export PREFIX := $(PREFIX)
absolute = case "$$PREFIX" in *[[:space:]:\;\'\"\`\$$]*) echo "make $@: no space, colon, semicolon, quote or \$$ in PREFIX=$$PREFIX" >&2; exit 2 ;; \
  /*) ;; *) echo "make $@: PREFIX=$$PREFIX must be an absolute path" >&2; exit 2 ;; esac
install: all
	@$(absolute)
	install -d '$(ROOT)/bin' '$(ROOT)/include' '$(INSTALLED)/loopback' '$(INSTALLED)/hooks' '$(PAGES)/docs' '$(COMPLETIONS)' \
	  '$(ROOT)/share/man/man1' '$(ROOT)/share/man/man7' '$(PAGES)/docs/examples'
	install -m 755 tools/nccl-join $(TIMELINE) '$(ROOT)/bin/'
	install -m 755 $(BUILD)/tools/nccl-join-ranks $(BUILD)/tools/nccl-join-env $(CHECK_TOOL) $(DOCTOR_TOOL) $(STATUS_TOOL) $(REPORT_TOOL) '$(INSTALLED)/'
	$(if $(CHECK_READER),install -m 644 -D -t '$(INSTALLED)/nccl-join-imports' $(CHECK_READER))
	install -m 755 $(BUILD)/lib/libnccl-join.so '$(INSTALLED)/'
	$(if $(AGENT),install -m 755 $(AGENT) '$(INSTALLED)/')
	install -m 755 $(HOOK_PLUGINS) '$(INSTALLED)/hooks/'
	install -m 644 hooks/include/nccl_join.h hooks/include/nccl_join_hook.h '$(ROOT)/include/'
	install -m 644 $(filter %.1,$(MAN_PAGES)) '$(ROOT)/share/man/man1/'
	install -m 644 $(filter %.7,$(MAN_PAGES)) '$(ROOT)/share/man/man7/'
	install -m 644 tools/completion.bash '$(COMPLETIONS)/nccl-join'
	install -m 644 LICENSE README.md '$(PAGES)/'
	install -m 644 $(wildcard docs/*.*) '$(PAGES)/docs/'
	install -m 644 $(wildcard docs/examples/*) '$(PAGES)/docs/examples/'
	$(Q)sed -i -zE $(UNLINK_SOURCES) '$(PAGES)/README.md' '$(PAGES)'/docs/*.md '$(PAGES)'/docs/examples/*.md
	if [ -e $(BUILD)/loopback/libnccl.so.2 ]; then cp -Pf $(BUILD)/loopback/lib*.so* '$(INSTALLED)/loopback/' && \
	  chmod 755 '$(INSTALLED)'/loopback/lib*.so*; fi

uninstall:
	@$(absolute)
	rm -rf '$(INSTALLED)' '$(PAGES)'
	rm -f '$(ROOT)/bin/nccl-join' '$(ROOT)/bin/nccl-join-timeline' '$(ROOT)/include/nccl_join.h' '$(ROOT)/include/nccl_join_hook.h' \
	  '$(ROOT)/share/man/man1/nccl-join.1' '$(ROOT)/share/man/man7/libnccl-join.7' '$(COMPLETIONS)/nccl-join'
	@cd '$(ROOT)' 2>/dev/null && rmdir -p --ignore-fail-on-non-empty bin include lib share/man/man1 share/man/man7 share/doc \
	  share/bash-completion/completions 2>/dev/null || :
