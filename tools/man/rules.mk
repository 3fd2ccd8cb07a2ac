# tools/man/: the manual pages, made from what the program and docs/ say.
MAN_PAGES = $(BUILD)/man/nccl-join.1 $(BUILD)/man/libnccl-join.7
product: $(MAN_PAGES)

$(MAN_PAGES) &: tools/man/make docs/usage.md docs/limits.md $(BUILD)/tools/nccl-join $(BUILD)/tools/nccl-join-env
	$(call say,MAN,$(BUILD)/man)
	$(Q)tools/man/make $(BUILD) $(BUILD)/man
