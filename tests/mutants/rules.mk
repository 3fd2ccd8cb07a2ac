# Changes of core/ and hooks/, one line at a time, that tests must find (tests/mutants/mutants). Not part of `make check`.
#
#   make mutants [MUTANTS=300] [MUTANTS_SEED=1] [MUTANTS_JOBS=1] [MUTANTS_ONLY=core/team]
# A change is given to the tests of its room that take no longer than seconds, and to a few programs of the simulation.
MUTANTS ?= 300
MUTANTS_SEED ?= 1
MUTANTS_JOBS ?= 1
MUTANTS_ONLY ?=

MUTANTS_CRITERION = -j1 --fail-fast --timeout 60 --color=never --filter
MUTANTS_UNIT = check/unit $(MUTANTS_CRITERION)
MUTANTS_TESTS = "core: $(MUTANTS_UNIT) !(flow*|peers_random|learner_random|contribution|number|divisor)/*" \
                "core/predict: $(MUTANTS_UNIT) learner_random/*" \
                "hooks: $(MUTANTS_UNIT) @(contribution|number|divisor)/*" \
                "hooks: check/hooks $(MUTANTS_CRITERION) */*" "core: check/sim --programs 400 --jobs 1"

.PHONY: mutants
mutants: loopback
	@tools/deps --check
	@LD_LIBRARY_PATH=$(CURDIR)/$(BUILD)/loopback tests/mutants/mutants --count $(MUTANTS) --seed $(MUTANTS_SEED) --jobs $(MUTANTS_JOBS) --only '$(MUTANTS_ONLY)' \
	  --work $(BUILD)/mutants core hooks -- \
	  $(MUTANTS_TESTS)
