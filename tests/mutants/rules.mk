# Changes of core/ and hooks/, one line at a time, that tests must find (tests/mutants/mutants). Not part of `make check`.
#
#   make mutants [MUTANTS=300] [MUTANTS_SEED=1] [MUTANTS_JOBS=1] [MUTANTS_ONLY=core/team]
#   make mutants MUTANTS_OF=interpose/places [MUTANTS_ONLY=native_tests]
# A change is given to the tests of its room, then to a few programs of the simulation, then to all tests that take no longer
# than seconds, and at last to those of its room with sanitizers, which find memory that is lost, and locks that are not held.
MUTANTS ?= 300
MUTANTS_SEED ?= 1
MUTANTS_JOBS ?= 1
MUTANTS_ONLY ?=
MUTANTS_OF ?= core hooks

mutants_run = $(1) -j1 --fail-fast --verbose --color=never --filter
mutants_suites = "$(1): $(3) $(call mutants_run,check/unit) @($(2))/*"
mutants_rooms = $(call mutants_suites,core/unit,unit*,$(1)) \
                $(call mutants_suites,core/place,place*|settle*|team_places|team_epochs|overlap_places,$(1)) \
                $(call mutants_suites,core/predict,learner|rhythm|foresight,$(1)) \
                $(call mutants_suites,core/transport,segment*|plane_*|attachment|questions,$(1)) \
                $(call mutants_suites,core/overlap,overlap*,$(1)) \
                $(call mutants_suites,core/p2p,peers|peers_linked|sent,$(1)) \
                $(call mutants_suites,core/report,log*|trace*,$(1)) \
                $(call mutants_suites,core/settings,settings|settings_shown,$(1)) \
                $(call mutants_suites,core/team,settle*|team*|marks|looks|foresight,$(1)) \
                $(call mutants_suites,hooks,contribution|number|divisor,$(1))
mutants_sanitized = SAN=address,undefined
MUTANTS_TESTS = $(call mutants_rooms,) \
                "hooks: $(call mutants_run,check/hooks) !(loopback)/*" \
                "hooks: $(call mutants_run,check/hooks) loopback/*" \
                "interpose/places/flow: $(call mutants_run,check/unit) flow*/*" \
                "interpose/places/native: $(call mutants_run,check/interpose) native_code/*" \
                "interpose/places: MAKE $(call mutants_run,check/python) @(python|garbage)/*" \
                "interpose/places: MAKE $(call mutants_run,check/interpose) places/*" \
                "core: check/sim --programs 400 --jobs 1" \
                "core: $(call mutants_run,check/unit) !(flow*|*_random|contribution|number|divisor|segment*|places|log*|trace*|settings|rhythm)/*" \
                $(call mutants_suites,core/predict,learner_random,) \
                $(call mutants_rooms,$(mutants_sanitized)) \
                "hooks: SAN=address,undefined $(call mutants_run,check/hooks) plugins/*" \
                "hooks: SAN=thread $(call mutants_run,check/hooks) state/*" \
                "core/p2p: SAN=thread $(call mutants_run,check/unit) @(peers|sent)/*"

.PHONY: mutants
mutants: loopback
	@tools/deps --check
	@LD_LIBRARY_PATH=$(CURDIR)/$(BUILD)/loopback tests/mutants/mutants --count $(MUTANTS) --seed $(MUTANTS_SEED) --jobs $(MUTANTS_JOBS) --only '$(MUTANTS_ONLY)' \
	  --work $(BUILD)/mutants $(MUTANTS_OF) -- \
	  $(MUTANTS_TESTS)
