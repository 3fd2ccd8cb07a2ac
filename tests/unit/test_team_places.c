/* Places in the agreed sequence, rule by rule: units of branches are one, units of a loop and after
 * it are two, and who follows finds what was agreed. */
#include <criterion/criterion.h>

#include "core/team/settle.h"
#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_places, .init = quartet_start, .fini = quartet_stop);

/* ---- branches ---- */

Test(team_places, branches_that_look_alike_are_one_unit) {
  claim_branches(THEN, ELSE);
  expect_all_real();
  expect_agreement();
  cr_assert_eq(hash_of(0, 0), hash_at(ELSE, SUM), "it has the name that most have given it");
  cr_assert(flags_of(0, 0) & ENTRY_ALL);
  cr_assert_not(flags_of(0, 0) & ENTRY_COMMON, "rank 0 has not come from there");
}

Test(team_places, branches_that_look_different_are_two_units) {
  claim(0, THEN, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, ELSE, SUM);
  expect_verdict(0, TEAM_REAL);
  expect_verdict(1, TEAM_SHADOW);
}

Test(team_places, who_comes_by_a_branch_of_its_own_is_expected_there) {
  for (int i = 0; i < 10; i++)
    issue_at((uint32_t[]){THEN, ELSE, ELSE, ELSE}, SUM);
  cr_assert(team_commit(quartet[0], at(THEN, SUM)));
  cr_assert_eq(hash_of(0, quartet[0]->head - 1), hash_at(ELSE, SUM), "under the name it has there");
  expect_verdict(1, TEAM_SHADOW);
  cr_assert_not(team_commit(quartet[0], at(THIRD, SUM)), "it has been taken for nothing");
}

Test(team_places, who_comes_by_a_branch_of_its_own_claims_what_it_was_taken_for) {
  claim_branches(THEN, ELSE);
  expect_all_real();
  claim(0, THEN, SUM);
  cr_assert_eq(quartet[0]->claim.hash, hash_at(ELSE, SUM));
  cr_assert_eq(quartet[0]->claim.place.id, ELSE);
  cr_assert_not(quartet[0]->claim.flags & CLAIM_OWN_PLACE);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, ELSE, SUM);
  expect_all_real();
  cr_assert_not(flags_of(1, 1) & ENTRY_COMMON);
}

Test(team_places, what_was_taken_for_two_units_has_its_own_name) {
  all_issue_at(ELSE, SUM);
  all_issue_at(THIRD, SUM);
  claim_branches(THEN, ELSE);
  expect_all_real();
  claim_branches(THEN, THIRD);
  expect_all_real();
  cr_assert_eq(quartet[0]->places.naliases, 2);
  claim(0, THEN, SUM);
  cr_assert_eq(quartet[0]->claim.hash, hash_at(THEN, SUM));
}

Test(team_places, what_is_in_the_sequence_itself_has_its_own_name) {
  claim_branches(THEN, ELSE);
  expect_all_real();
  cr_assert_eq(team_class_hash(quartet[0], at(THEN, SUM)), hash_at(ELSE, SUM));
  claim(0, AFTER, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, THEN, SUM);
  expect_verdict(0, TEAM_SHADOW);
  cr_assert_eq(hash_of(0, 1), hash_at(THEN, SUM));
  cr_assert_eq(team_class_hash(quartet[0], at(THEN, SUM)), hash_at(THEN, SUM));
  const struct known_unit expected = {.nmembers = 1, .hash = hash_at(ELSE, SUM)};
  cr_assert_not(team_is_taken_for(quartet[0], at(THEN, SUM), &expected));
}

/* ---- loops ---- */

Test(team_places, what_comes_after_the_loop_waits_for_who_is_in_it) {
  all_issue_at(HEAD, SUM);
  cr_assert(flags_of(0, 0) & ENTRY_COMMON);
  claim_branches(AFTER, HEAD);
  expect_verdict(0, TEAM_SHADOW);
  cr_assert(quartet[0]->claim.open);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    expect_verdict(rank, TEAM_REAL);
    claim(rank, AFTER, SUM);
  }
  expect_all_real();
}

/* Nobody is known to have the loop, nor the end of it, in its program. */
Test(team_places, loops_that_not_all_are_known_to_have_do_not_tell_units_apart) {
  claim_branches(AFTER, HEAD);
  expect_all_real();
  expect_agreement();
}

static uint32_t count_told(void) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    told += quartet[rank]->telling.guessed && quartet[rank]->telling.guess.kind == GUESS_SAME;
  return told;
}

Test(team_places, that_a_rank_past_a_loop_has_met_it_is_told) {
  claim_branches(AFTER, HEAD);
  expect_all_real();
  cr_assert_eq(count_told(), 1);
}

static void branches_meet(uint32_t flags_of_rank_0, uint32_t told) {
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    quartet[rank]->telling.guessed = false;
    struct place place = place_of(rank == 0 ? THEN : ELSE);
    struct unit unit = at(place.id, SUM);
    ((struct member *)(uintptr_t)unit.members)->root = flags_of_rank_0 == 0 ? ROOT_NONE : 0;
    team_claim(quartet[rank], unit, rank == 0 ? flags_of_rank_0 : 0, &place);
  }
  expect_all_real();
  cr_assert_eq(count_told(), told);
}

Test(team_places, that_branches_of_a_loop_have_met_is_told_once) {
  branches_meet(0, 1);
  branches_meet(0, 0);
}

Test(team_places, that_the_root_comes_by_a_branch_of_its_own_is_not_told) {
  branches_meet(CLAIM_ROOT, 0);
  branches_meet(CLAIM_ROOT, 0);
}

static void learn_loop(void) {
  for (int i = 0; i < 8; i++)
    all_issue_at(HEAD, SUM);
}

Test(team_places, an_expected_unit_of_the_loop_is_a_shadow_to_who_has_left_it) {
  learn_loop();
  claim(0, AFTER, SUM);
  cr_assert(team_commit(quartet[1], at(HEAD, SUM)));
  expect_verdict(0, TEAM_SHADOW);
  cr_assert(quartet[0]->claim.open);
}

Test(team_places, an_expected_unit_of_the_loop_is_real_to_who_is_in_a_branch_of_it) {
  learn_loop();
  claim(0, THEN, SUM);
  cr_assert(team_commit(quartet[1], at(HEAD, SUM)));
  expect_verdict(0, TEAM_REAL);
  cr_assert_eq(hash_of(0, 8), hash_at(HEAD, SUM));
}

/* ---- two points of a round ---- */

/* for (...) { if (rank == 0) FIRST_0; else FIRST; SECOND; }, where rank 0 may also have a loop that it
 * comes to FIRST in. */
enum { FIRST_0 = 30, FIRST, SECOND };

static void claim_in_round(uint32_t rank, uint32_t id, bool in_loop) {
  struct place place = {
      .id = id, .nnodes = 2, .nodes = {node(1000, 1, 0), node(1001, 5, PLACE_LOOP)}};
  uint16_t order = (uint16_t)(id - 20);
  if (in_loop)
    place.nodes[place.nnodes++] = node(1002, order, PLACE_LOOP);
  place.nodes[place.nnodes] = node(2000 + id, order, 0);
  place.nodes[place.nnodes].reach_from = place.nodes[place.nnodes].reach_to = SECOND - 20;
  place.nnodes++;
  team_claim(quartet[rank], at(id, SUM), 0, &place);
}

/* All come to FIRST, each by a way of its own. Then one of them is there again, others at SECOND. */
static uint32_t told_in_round(uint32_t again, bool in_loop) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, rank == 0 ? FIRST_0 : FIRST, rank == 0 && in_loop);
  expect_all_real();
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank == again)
      claim_in_round(rank, rank == 0 ? FIRST_0 : FIRST, rank == 0 && in_loop);
    else
      claim_in_round(rank, SECOND, false);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    expect_verdict(rank, TEAM_REAL);
    told += quartet[rank]->telling.guessed;
    quartet[rank]->telling.guessed = false;
  }
  return told;
}

Test(team_places, that_who_has_gone_round_has_met_who_has_not_is_told) {
  cr_assert_eq(told_in_round(1, false), 1);
}

Test(team_places, that_who_goes_on_has_met_what_was_committed_a_round_later_is_told) {
  for (int round = 0; round < 8; round++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (!team_commit(quartet[rank], at(rank == 0 ? FIRST_0 : FIRST, SUM)))
        claim_in_round(rank, rank == 0 ? FIRST_0 : FIRST, false);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      if (quartet[rank]->claim.open)
        expect_verdict(rank, TEAM_REAL);
  }
  cr_assert(team_commit(quartet[1], at(FIRST, SUM)));
  claim_in_round(0, SECOND, false);
  expect_verdict(0, TEAM_REAL);
  cr_assert(quartet[0]->telling.guessed);
}

/* It calls in a loop what the others call one by one. */
Test(team_places, that_a_loop_of_one_rank_has_met_calls_of_others_is_not_told) {
  cr_assert_eq(told_in_round(0, true), 0);
}

/* ---- who follows ---- */

/* Rank 2 settles alone a unit that it has of rank 1. Rank 0, whose own unit is merged, follows it
 * while rank 1 still claims. Rank 3 follows rank 0, before rank 1 has passed or after. */
static void follow_a_merged_unit(bool source_first) {
  claim(0, THEN, SUM);
  claim(1, ELSE, SUM);
  claim(2, ELSE, SUM);
  claim(3, AFTER, OTHER);
  expect_verdict(2, TEAM_REAL);
  expect_verdict(0, TEAM_REAL);
  if (source_first)
    expect_verdict(1, TEAM_REAL);
  expect_verdict(3, TEAM_SHADOW);
  cr_assert_eq(unit_hash(got), hash_at(ELSE, SUM));
  if (!source_first)
    expect_verdict(1, TEAM_REAL);
  expect_agreement();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct known_place *known = team_known_place(quartet[rank], ELSE);
    cr_assert_eq(quartet[rank]->source, 1, "rank %u: of rank %u", rank, quartet[rank]->source);
    cr_assert(known != NULL && known->place.nnodes == 3, "rank %u", rank);
    cr_assert_null(team_known_place(quartet[rank], THEN));
  }
}

Test(team_places, a_merged_unit_is_read_where_its_rank_still_claims_it) {
  follow_a_merged_unit(false);
}

Test(team_places, a_merged_unit_is_read_where_its_rank_has_issued_it) {
  follow_a_merged_unit(true);
}

/* ---- two points of a rank's own program ---- */

/* Rank 0 comes to HEAD again and again, and then claims what stands before it: it knows that these
 * are two points of its program. The others claim HEAD, and know nothing of the other; nor is HEAD
 * known to be in the program of each. */
static void claim_what_stands_before_the_head(void) {
  struct place place = place_of(90);
  place.nodes[2].order = 3;
  place.nodes[2].until = 11;
  for (int i = 0; i < 8; i++)
    issue_at((uint32_t[]){HEAD, HEAD, HEAD, THEN}, SUM);
  team_claim(quartet[0], at(90, SUM), 0, &place);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, rank == 3 ? THEN : HEAD, SUM);
  cr_assert(quartet[0]->claim.flags & CLAIM_APART);
}

Test(team_places, what_a_rank_has_said_is_apart_is_a_shadow_to_who_settles_it) {
  claim_what_stands_before_the_head();
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_SHADOW);
  expect_verdict(0, TEAM_REAL);
}

Test(team_places, what_a_rank_has_said_is_apart_is_a_shadow_to_who_follows) {
  claim_what_stands_before_the_head();
  expect_verdict(0, TEAM_REAL);
  for (uint32_t rank = RANKS; rank-- > 1;)
    expect_verdict(rank, TEAM_SHADOW);
}

/* A place which whoever has come to HEAD will come to as well: so the two are two points. */
static void claim_behind_the_head(uint32_t rank, uint32_t id) {
  struct place place = place_of(id);
  place.nodes[2].order = place.nodes[2].until = (uint16_t)(10 + id);
  place.nodes[2].since = 10 + HEAD;
  team_claim(quartet[rank], at(id, SUM), 0, &place);
}

enum { BEHIND = 30, ALSO_BEHIND, BRANCH, LAST };

/* Rank 0 claims BEHIND, and knows that this is not HEAD, which is expected, wins, and is claimed by
 * rank 1. Rank 3 has come to HEAD from a branch of its own, and would not know. */
static void claim_what_stands_behind_the_head(void) {
  for (int i = 0; i < 8; i++) {
    issue_at((uint32_t[]){HEAD, HEAD, HEAD, BRANCH}, SUM);
    all_issue_at(LAST, OTHER);
  }
  claim_behind_the_head(0, BEHIND);
  claim(1, HEAD, SUM);
  cr_assert(quartet[0]->claim.flags & CLAIM_APART);
}

static void expect_shadows_of_the_head(bool from_the_last, uint32_t shadows) {
  for (uint32_t i = 0; i < RANKS; i++) {
    uint32_t rank = from_the_last ? RANKS - 1 - i : i;
    expect_verdict(rank, shadows >> rank & 1 ? TEAM_SHADOW : TEAM_REAL);
  }
  expect_agreement();
}

static void check_all_who_claim_it(bool from_the_last) {
  claim_what_stands_behind_the_head();
  claim(2, HEAD, SUM);
  claim_behind_the_head(3, BEHIND);
  cr_assert_not(quartet[3]->claim.flags & CLAIM_APART);
  expect_shadows_of_the_head(from_the_last, 1u << 0 | 1u << 3);
}

Test(team_places, what_one_rank_says_is_apart_is_so_for_all_who_claim_it) {
  check_all_who_claim_it(false);
}

Test(team_places, what_one_rank_says_is_apart_is_so_for_all_who_claim_it_whoever_settles) {
  check_all_who_claim_it(true);
}

static void check_other_units(bool from_the_last) {
  claim_what_stands_behind_the_head();
  claim(2, HEAD, SUM);
  claim(3, THEN, SUM);
  expect_shadows_of_the_head(from_the_last, 1u << 0);
}

Test(team_places, what_one_rank_says_is_apart_tells_nothing_of_other_units) {
  check_other_units(false);
}

Test(team_places, what_one_rank_says_is_apart_tells_nothing_of_other_units_whoever_settles) {
  check_other_units(true);
}

static void check_several_units(bool from_the_last) {
  claim_what_stands_behind_the_head();
  claim_behind_the_head(2, ALSO_BEHIND);
  claim(3, THEN, SUM);
  cr_assert(quartet[2]->claim.flags & CLAIM_APART);
  expect_shadows_of_the_head(from_the_last, 1u << 0 | 1u << 2 | 1u << 3);
}

Test(team_places, where_several_units_are_said_to_be_apart_all_are) {
  check_several_units(false);
}

Test(team_places, where_several_units_are_said_to_be_apart_all_are_whoever_settles) {
  check_several_units(true);
}

/* ---- what is taken for something elsewhere ---- */

static place_rounds_t rounds_in_loop(uint32_t number) {
  const struct place place = place_of(THEN);
  const struct place_round rounds[PLACE_NODES_MAX] = {{0}, {number, 9}};
  return place_rounds_of(place.nodes, place.nnodes, rounds);
}

static void claim_in_number(uint32_t rank, uint32_t id, uint32_t number) {
  struct place place = place_of(id);
  place.rounds = rounds_in_loop(number);
  team_claim(quartet[rank], at(id, SUM), 0, &place);
}

/* All issue one unit, which rank 0 has elsewhere; whose unit has been taken for another claims it again. */
static void expect_rounds_of_alias(uint32_t of_rank_0, uint32_t of_others,
                                   place_rounds_t expected) {
  claim_branches(of_rank_0, of_others);
  expect_all_real();
  bool is_own = unit_table_find_hash(quartet[0]->table, hash_at(of_rank_0, SUM)) != SYMBOL_NONE;
  uint32_t alias = is_own ? 1 : 0;
  claim_in_number(alias, alias == 0 ? of_rank_0 : of_others, 4);
  cr_assert_not(quartet[alias]->claim.flags & CLAIM_OWN_PLACE);
  cr_assert_eq(quartet[alias]->claim.rounds, expected);
}

Test(team_places, a_unit_that_is_taken_for_another_says_the_rounds_of_loops_around_both) {
  expect_rounds_of_alias(THEN, ELSE, rounds_in_loop(4));
}

Test(team_places, and_none_where_it_stands_in_another_loop) {
  expect_rounds_of_alias(AFTER, ELSE, 0);
}

/* ---- two branches ---- */

enum { ALONE = 40, START, THE_SUM };

/* for (...) if (...) for (...) ALONE; else { for (...) START; for (...) THE_SUM; }: they look alike. */
static void claim_in_branch(uint32_t rank, uint32_t id) {
  struct place place = place_of(id);
  place.nodes[2].flags |= PLACE_LOOP;
  place.nodes[2].reach_from = id == ALONE ? 99 : 10 + START;
  place.nodes[2].reach_to = id == ALONE ? 99 : 10 + THE_SUM;
  place.nodes[place.nnodes++] = node(3000 + id, 1, 0);
  team_claim(quartet[rank], at(id, SUM), 0, &place);
}

Test(team_places, who_comes_to_what_looks_like_the_other_branch_goes_first) {
  for (uint32_t id = START; id <= THE_SUM; id++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      claim_in_branch(rank, id);
    expect_all_real();
  }
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_branch(rank, rank == 0 ? ALONE : START);
  expect_verdict(0, TEAM_SHADOW);
  cr_assert_eq(hash_of(0, quartet[0]->head - 1), hash_at(START, SUM));
  cr_assert(quartet[0]->telling.guessed, "nobody knows whether they come to it");
}

/* ---- places that are not always seen ---- */

/* Whether a rank sees it, as a random number says. */
static void issue_seen(uint32_t rank, uint32_t id, bool seen) {
  struct place place = place_of(id);
  struct unit unit = at(seen ? id : 0, SUM);
  if (!team_commit(quartet[rank], unit))
    team_claim(quartet[rank], unit, 0, seen ? &place : NULL);
}

/* An even program, whose collectives look alike. Two ranks come first, and two follow. */
Test(team_places, who_does_not_see_where_it_stands_meets_those_who_do) {
  uint32_t random = 1;
  for (uint32_t index = 0; index < 400; index++) {
    uint32_t id = index % 7 == 6 ? AFTER : index % 2 != 0 ? HEAD : THIRD;
    for (uint32_t i = 0; i < RANKS; i++) {
      uint32_t rank = (index + i) % RANKS;
      random = random * 1664525u + 1013904223u; /* Numerical Recipes */
      issue_seen(rank, id, (random >> 16) % 3 != 0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
      uint32_t rank = (index * 3 + i) % RANKS;
      if (quartet[rank]->claim.open)
        expect_verdict(rank, TEAM_REAL);
    }
  }
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(quartet[rank]->shadows_total, 0);
  expect_agreement();
}
