# tools/man/: the manual pages, made from what the program and docs/ say.
MAN_PAGES = $(BUILD)/man/nccl-join.1 $(BUILD)/man/libnccl-join.7
product: $(MAN_PAGES)
# Whose programs say what stands in them: those of a package for another machine do not run here.
MAN_FROM ?= $(BUILD)

$(MAN_PAGES) &: tools/man/make docs/usage.md docs/limits.md $(MAN_FROM)/tools/nccl-join $(MAN_FROM)/tools/nccl-join-env
	$(call say,MAN,$(BUILD)/man)
	$(Q)tools/man/make $(MAN_FROM) $(BUILD)/man
