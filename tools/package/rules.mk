# tools/package/: packages, built so that they run with glibc 2.28 and later.
#
#   make wheel       $(PACKAGES)/nccl_join-VERSION-....whl, for pip install: the same files as make install, and a Python module
#   make deb         $(PACKAGES)/nccl-join_VERSION_....deb
PACKAGES = $(BUILD)/packages
PACKAGE_BUILD = $(BUILD)-package
PACKAGE_ROOT = $(PACKAGES)/root
# Jansson and protobuf-c go in. libelf stays outside, since its licence asks for that it can be replaced.
PACKAGE_LIBRARIES = /usr/lib/$(shell uname -m)-linux-gnu
PACKAGE_WITH = BUILD=$(PACKAGE_BUILD) CC=tools/package/cc SAN= COVERAGE= ELF_LIBS=$(PACKAGE_LIBRARIES)/libelf.so \
               JSON_LIBS=$(PACKAGE_LIBRARIES)/libjansson.a \
               PROTOBUF_LIBS=$(PACKAGE_LIBRARIES)/libprotobuf-c.a PREFIX=/usr DESTDIR=$(CURDIR)/$(PACKAGE_ROOT)

.PHONY: wheel deb package-root check-packages
package-root:
	@tools/deps --packages
	@rm -rf $(PACKAGE_ROOT)
	$(Q)$(MAKE) --no-print-directory $(BUILD_JOBS) $(PACKAGE_WITH) all
	$(Q)$(MAKE) --no-print-directory $(PACKAGE_WITH) install >/dev/null

wheel: package-root
	$(Q)/usr/bin/python3 tools/package/wheel $(PACKAGE_ROOT)/usr $(VERSION) $$(uname -m) $(PACKAGES)

deb: package-root
	$(Q)tools/package/deb $(PACKAGE_ROOT) $(VERSION) $(PACKAGES)

# Both, installed where nothing of this checkout is, and used.
check-packages:
	@$(MAKE) --no-print-directory wheel
	@$(MAKE) --no-print-directory deb
	@tests/packages/check $(PACKAGES) $(BUILD)/programs
