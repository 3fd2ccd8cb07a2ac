# The agreement as a model (docs/protocol.md), searched by spin. Not part of `make check`.
.PHONY: model model-mutants
model:
	@tools/deps --model
	@tests/model/check $(BUILD)/model

# Each rule broken once: every line must name what found it.
model-mutants:
	@tools/deps --model
	@tests/model/check $(BUILD)/model --mutants
