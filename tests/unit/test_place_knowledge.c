/* What all ranks of a team know of places (core/place_table.h): the same, whoever settles and
 * whoever follows; and how places are written out (core/team_text.c). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(place_knowledge, .init = quartet_start, .fini = quartet_stop);

/* Rank 0 claims nothing that the others do: it follows. Ranks settle in turn. */
Test(place_knowledge, all_ranks_fill_their_tables_alike_and_forget_alike) {
  enum { PLACES = PLACE_TABLE_PLACES + 9 };
  claim(0, AFTER, 1);
  for (uint32_t id = HEAD; id <= PLACES; id++) {
    if (id == AFTER)
      continue;
    for (uint32_t rank = 1; rank < RANKS; rank++)
      claim(rank, id, SUM + id);
    for (uint32_t i = 0; i < RANKS; i++) {
      uint32_t rank = (id + i) % RANKS;
      expect_verdict(rank, rank == 0 ? TEAM_SHADOW : TEAM_REAL);
    }
  }
  expect_same_tables(PLACES);
  cr_assert_null(team_known_place(quartet[0], HEAD));
  cr_assert_not_null(team_known_place(quartet[0], PLACES));
}

/* Two units of one call; rank 0 does not know where that stands. */
Test(place_knowledge, a_description_is_not_replaced_by_who_follows) {
  struct place nowhere = {.id = THEN};
  team_claim(quartet[0], at(THEN, SUM), 0, &nowhere);
  claim(1, THEN, OTHER);
  team_claim_leave(quartet[2]);
  team_claim_leave(quartet[3]);
  for (uint32_t rank = RANKS; rank-- > 0;)
    expect_verdict(rank, rank == 0 ? TEAM_REAL : TEAM_SHADOW);
  team_claim_leave(quartet[0]);
  for (uint32_t rank = RANKS; rank-- > 0;)
    expect_verdict(rank, rank == 1 ? TEAM_REAL : TEAM_SHADOW);
  expect_same_tables(AFTER);
}

/* A unit of the loop is known to be in the program of each, and is the oldest that is known when a
 * place comes that nobody has seen. Who settles has it as known, and so must who passes. */
Test(place_knowledge, what_is_forgotten_with_a_unit_is_known_until_it_has_been_passed) {
  all_issue_at(HEAD, SUM);
  for (uint32_t id = AFTER + 1; id < AFTER + PLACE_TABLE_PLACES; id++)
    all_issue_at(id, OTHER + id);
  cr_assert(team_known_place(quartet[0], HEAD)->common);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 1)
      claim(rank, AFTER, SUM);
  struct place known = team_known_place(quartet[1], HEAD)->place;
  team_claim(quartet[1], at(HEAD, SUM), 0, &known);
  expect_verdict(1, TEAM_REAL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 1)
      expect_verdict(rank, TEAM_SHADOW);
  expect_same_tables(AFTER + PLACE_TABLE_PLACES);
}

/* What a place was taken for says where that stands only as long as it is known. */
Test(place_knowledge, what_was_taken_for_a_forgotten_place_has_its_own_name) {
  claim_branches(THEN, ELSE);
  expect_all_real();
  for (uint32_t id = AFTER + 1; id <= AFTER + PLACE_TABLE_PLACES; id++)
    all_issue_at(id, OTHER + id);
  cr_assert_null(team_known_place(quartet[0], ELSE));
  cr_assert_eq(team_class_hash(quartet[0], at(THEN, SUM)), hash_at(THEN, SUM));
  claim(0, THEN, SUM);
  cr_assert_eq(quartet[0]->claim_place.id, THEN);
  cr_assert_eq(quartet[0]->claim_place.nnodes, 3);
}
