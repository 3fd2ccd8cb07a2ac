/* Where units stand that an engine's thread issues: they have no place in G, and all ranks know
 * where they are waited for. */
#include <criterion/criterion.h>

#include "core/team/settle.h"
#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_waiting, .init = quartet_start, .fini = quartet_stop);

static struct unit of_engine(void) {
  static struct member member;
  member = *at(0, SUM).members;
  return (struct unit){&member, 1};
}

/* Waited for at one of the quartet's places, or nobody knows where: 0. */
static void claim_waited_for(uint32_t rank, uint32_t place) {
  struct place where = place_of(place);
  team_claim(quartet[rank], of_engine(), 0, place == 0 ? NULL : &where);
}

static void all_issue_waited_for(const uint32_t places[RANKS]) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], of_engine()))
      claim_waited_for(rank, places[rank]);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
}

static void expect_place(uint32_t place) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(team_place_of_unit(quartet[rank], of_engine()), place, "rank %u", rank);
}

/* Rank 0 settles, and the others read what it has passed. */
Test(team_waiting, all_ranks_know_where_a_unit_is_waited_for) {
  expect_place(0);
  all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  expect_place(HEAD);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert_eq(quartet[rank]->places.last, HEAD, "rank %u", rank);
  cr_assert(flags_of(0, 0) & ENTRY_COMMON);
  expect_agreement();
  expect_same_tables(HEAD);
}

Test(team_waiting, who_shadows_a_unit_knows_it_too) {
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_waited_for(rank, HEAD);
  claim(0, AFTER, OTHER);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  expect_place(HEAD);
  expect_agreement();
}

Test(team_waiting, the_lowest_rank_that_claims_it_says_where) {
  all_issue_waited_for((uint32_t[]){THEN, HEAD, HEAD, HEAD});
  expect_place(THEN);
  cr_assert_not(flags_of(0, 0) & ENTRY_COMMON, "not all have come from there");
}

Test(team_waiting, where_that_rank_does_not_know_nobody_does) {
  all_issue_waited_for((uint32_t[]){0, HEAD, HEAD, HEAD});
  expect_place(0);
  cr_assert_not(flags_of(0, 0) & ENTRY_COMMON);
}

Test(team_waiting, of_several_places_none_counts) {
  all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  all_issue_waited_for((uint32_t[]){THEN, THEN, THEN, THEN});
  expect_place(0);
  all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  expect_place(0);
}

/* Whether the first to say so has no nodes, or another has none later. */
Test(team_waiting, of_a_place_that_cannot_be_compared_nobody_knows) {
  struct place where = {.id = HEAD};
  for (int i = 0; i < 2; i++) {
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      struct member member = *at(0, SUM + (uint64_t)i).members;
      team_claim(quartet[rank], (struct unit){&member, 1}, 0, &where);
    }
    expect_all_real();
  }
  expect_place(0);
  expect_agreement();
  expect_same_tables(HEAD);
}

Test(team_waiting, another_unit_is_waited_for_elsewhere) {
  all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  struct member member = *at(0, OTHER).members;
  cr_assert_eq(team_place_of_unit(quartet[0], (struct unit){&member, 1}), 0);
}

Test(team_waiting, a_unit_with_a_place_stands_there) {
  struct place elsewhere = place_of(THEN);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, HEAD, SUM);
  expect_all_real();
  (void)place_table_add(quartet[0]->places.table, &elsewhere);
  team_note_waited_for(quartet[0], at(HEAD, SUM), &elsewhere);
  cr_assert_eq(team_place_of_unit(quartet[0], at(HEAD, SUM)), HEAD);
}

/* Of the place in the table that a unit had which has been forgotten. */
Test(team_waiting, a_unit_that_is_new_is_waited_for_nowhere) {
  struct team *team = quartet[0];
  all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  symbol_t known = unit_table_find_hash(team->table, unit_hash(of_engine()));
  struct member member = *of_engine().members;
  for (member.count = 1000;; member.count++) {
    symbol_t symbol = unit_table_intern(team->table, (struct unit){&member, 1});
    if (symbol % UNIT_TABLE_PLACES == known % UNIT_TABLE_PLACES)
      break;
    cr_assert_lt(member.count, 1000 + 10 * UNIT_TABLE_PLACES);
  }
  struct place place = place_of(THEN);
  (void)place_table_add(team->places.table, &place);
  cr_assert_eq(team_place_of_unit(team, (struct unit){&member, 1}), 0);
  team_note_waited_for(team, (struct unit){&member, 1}, &place);
  cr_assert_eq(team_place_of_unit(team, (struct unit){&member, 1}), THEN);
}

/* ---- what it tells ---- */

static bool is_last_committed(void) {
  uint64_t index = quartet[0]->head - 1;
  return (flags_of(0, index) & ENTRY_EXPECTED) != 0;
}

Test(team_waiting, the_end_of_its_loop_is_claimed) {
  for (int i = 0; i < 20; i++) {
    for (int batch = 0; batch < 2; batch++)
      all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
    all_issue_at(AFTER, OTHER);
  }
  cr_assert_not(is_last_committed());
}

Test(team_waiting, what_is_waited_for_behind_a_loop_is_claimed) {
  for (int i = 0; i < 20; i++) {
    for (int batch = 0; batch < 2; batch++)
      all_issue_at(HEAD, OTHER);
    all_issue_waited_for((uint32_t[]){AFTER, AFTER, AFTER, AFTER});
  }
  cr_assert_not(is_last_committed());
}

/* What has been committed has come from there, too: of the next round and what stands behind it in
 * this one the latter goes first. */
Test(team_waiting, what_stands_behind_it_in_the_loop_goes_before_its_next_round) {
  for (int i = 0; i < 20; i++)
    all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  uint64_t index = quartet[0]->head;
  claim_waited_for(0, HEAD);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, ELSE, OTHER);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  cr_assert_eq(hash_of(0, index), hash_at(ELSE, OTHER));
}

/* The next round passes it by, and says so to who stands there. */
Test(team_waiting, who_stands_behind_it_in_the_loop_is_told_that_others_go_past) {
  for (int i = 0; i < 20; i++)
    all_issue_waited_for((uint32_t[]){HEAD, HEAD, HEAD, HEAD});
  claim(0, ELSE, OTHER);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_assert(team_commit(quartet[rank], of_engine()));
  expect_verdict(0, TEAM_SHADOW);
  cr_assert(quartet[0]->telling.guessed);
  cr_assert_eq(quartet[0]->telling.guess.kind, GUESS_ORDER);
  cr_assert_str_eq(quartet[0]->telling.guess.place, "train.py:1");
}
