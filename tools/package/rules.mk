# tools/package/: packages, built so that they run with glibc 2.28 and later.
#
#   make wheel       $(PACKAGES)/nccl_join-VERSION-....whl, for pip install: the same files as make install, and a Python module
#   make deb         $(PACKAGES)/nccl-join_VERSION_....deb
#
# PACKAGE_MACHINE=aarch64: for that machine, from another one.
PACKAGE_MACHINE ?= $(shell uname -m)
PACKAGES = $(BUILD)/packages
ifeq ($(PACKAGE_MACHINE),$(shell uname -m))
PACKAGE_BUILD = $(BUILD)-package
PACKAGE_SYSROOT =
else
PACKAGE_BUILD = $(BUILD)-package-$(PACKAGE_MACHINE)
PACKAGE_SYSROOT = $(CURDIR)/.deps/$(PACKAGE_MACHINE)
endif
PACKAGE_ROOT = $(PACKAGES)/root-$(PACKAGE_MACHINE)
# Jansson and protobuf-c go in. libelf stays outside, since its licence asks for that it can be replaced, and so do ZeroMQ and
# libsodium: only the agent of several machines needs them, so packages recommend them. They are of a later glibc than the agent
# is to be, which is no matter for it: what they need is looked for when they are loaded. The manual pages are written by the program
# of this machine.
PACKAGE_LIBRARIES = $(PACKAGE_SYSROOT)/usr/lib/$(PACKAGE_MACHINE)-linux-gnu
PACKAGE_AGENT_LIBS = $(wildcard $(addprefix $(PACKAGE_LIBRARIES)/,libzmq.so libsodium.so))
PACKAGE_WITH = PACKAGE_MACHINE=$(PACKAGE_MACHINE) BUILD=$(PACKAGE_BUILD) CC=tools/package/cc SAN= COVERAGE= \
               ELF_LIBS=$(PACKAGE_LIBRARIES)/libelf.so JSON_LIBS=$(PACKAGE_LIBRARIES)/libjansson.a \
               PROTOBUF_LIBS=$(PACKAGE_LIBRARIES)/libprotobuf-c.a AGENT_LIBS="$(if $(word 2,$(PACKAGE_AGENT_LIBS)),$(PACKAGE_AGENT_LIBS) -Wl$(comma)--allow-shlib-undefined)" MAN_FROM=$(BUILD) \
               SAY_BUILT=: PREFIX=/usr DESTDIR=$(CURDIR)/$(PACKAGE_ROOT)

.PHONY: wheel deb package-root check-packages
package-root: $(BUILD)/tools/nccl-join $(BUILD)/tools/nccl-join-env
	@tools/deps --packages
	$(if $(PACKAGE_SYSROOT),@tools/package/foreign $(PACKAGE_MACHINE) $(PACKAGE_SYSROOT))
	@rm -rf $(PACKAGE_ROOT)
	$(Q)$(MAKE) --no-print-directory $(BUILD_JOBS) $(PACKAGE_WITH) all
	$(Q)$(MAKE) --no-print-directory $(PACKAGE_WITH) install >/dev/null

wheel: package-root
	$(Q)/usr/bin/python3 tools/package/wheel $(PACKAGE_ROOT)/usr $(VERSION) $(PACKAGE_MACHINE) $(PACKAGES)

deb: package-root
	$(Q)tools/package/deb $(PACKAGE_ROOT) $(VERSION) $(PACKAGES) $(PACKAGE_MACHINE)

# Both, installed where nothing of this checkout is, and used; those of another machine as far as its programs run under qemu.
check-packages: programs $(BUILD)/machines/start
	@rm -rf $(PACKAGES)
	@$(MAKE) --no-print-directory wheel
	@$(MAKE) --no-print-directory deb
	@tests/packages/check $(PACKAGES) $(BUILD)/programs

.PHONY: check-packages-aarch64
check-packages-aarch64:
	@tools/deps --check
	@rm -rf $(PACKAGES)
	@$(MAKE) --no-print-directory PACKAGE_MACHINE=aarch64 wheel
	@$(MAKE) --no-print-directory PACKAGE_MACHINE=aarch64 deb
	@tests/packages/check-aarch64 $(PACKAGES)
