# Across releases of NCCL, on a machine without a GPU.
#
#   make check-versions   builds with the headers of each release and runs tests/interpose in front of its library;
#                         writes docs/versions.md
#
# Outside of `make check`, because each release is a download of 190 to 350 MB, once, to NCCL_VERSIONS_DIR.
.PHONY: check-versions

# The oldest that nccl-join is made for, every other release since, and the newest; all of them are on PyPI.
NCCL_VERSIONS = 2.18.1 2.20.5 2.22.3 2.24.3 2.26.2 2.28.9 2.30.7 2.32.3
NCCL_VERSIONS_DIR ?= .deps/versions

check-versions:
	@tools/deps --check
	@NCCL_VERSIONS_DIR='$(NCCL_VERSIONS_DIR)' tools/deps --versions $(NCCL_VERSIONS)
	@$(MAKE) --no-print-directory loopback programs
	@NCCL_VERSIONS_DIR='$(NCCL_VERSIONS_DIR)' tests/versions/check '$(BUILD)' $(NCCL_VERSIONS)
