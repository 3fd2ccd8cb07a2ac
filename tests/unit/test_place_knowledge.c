/* What all ranks of a team know of places (core/place/place_table.h): the same, whoever settles and
 * whoever follows; and how places are written out (core/team/team_text.c). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "core/team/team_private.h"
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

/* Rank 0 has been in the loop once only, and the others often: they say that what is expected there
 * is not what they claim, and it says nothing. */
Test(place_knowledge, a_place_is_common_whatever_ranks_say_of_what_is_expected) {
  all_issue_at(HEAD, SUM);
  claim(0, AFTER, SUM);
  for (int i = 0; i < 8; i++)
    for (uint32_t rank = RANKS; rank-- > 0;) {
      if (rank == 0)
        expect_verdict(0, TEAM_SHADOW);
      else if (!team_commit(quartet[rank], at(HEAD, SUM))) {
        claim(rank, HEAD, SUM);
        if (rank == 1)
          for (uint32_t other = 1; other < RANKS; other++)
            expect_verdict(other, TEAM_REAL);
      }
    }
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim(rank, AFTER, SUM);
  cr_assert(quartet[1]->claim.flags & CLAIM_APART);
  cr_assert_not(quartet[0]->claim.flags & CLAIM_APART);
  expect_all_real();
  cr_assert(team_known_place(quartet[0], AFTER)->common);
}

Test(place_knowledge, that_all_come_to_a_place_again_is_known_from_the_second_time_on) {
  for (uint32_t times = 1; times <= 2; times++) {
    for (uint32_t rank = 0; rank < RANKS; rank++)
      claim(rank, HEAD, SUM);
    expect_all_real();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      cr_assert(team_known_place(quartet[rank], HEAD)->common);
      cr_assert_eq(team_known_place(quartet[rank], HEAD)->again, times == 2);
    }
  }
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

/* A unit after the loop is known to be in the program of each, and is the oldest that is known when
 * one of the loop comes that nobody has seen. Who settles has it as known, and so must who passes.
 */
Test(place_knowledge, what_is_forgotten_with_a_unit_is_known_until_it_has_been_passed) {
  enum { NEW = AFTER + PLACE_TABLE_PLACES };
  all_issue_at(AFTER, SUM);
  for (uint32_t id = AFTER + 1; id < NEW; id++)
    all_issue_at(id, OTHER + id);
  cr_assert(team_known_place(quartet[0], AFTER)->common);
  claim_branches(AFTER, NEW);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  cr_assert_null(team_known_place(quartet[0], AFTER));
  expect_same_tables(NEW);
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
  cr_assert_eq(quartet[0]->claim.place.id, THEN);
  cr_assert_eq(quartet[0]->claim.place.nnodes, 3);
}

/* ---- texts ---- */

/* Group i, of so many members that two and their places fit into the text ring. */
static struct unit group(uint32_t i) {
  static struct member members[UNIT_MEMBERS_MAX + 1];
  for (uint32_t k = 0; k <= UNIT_MEMBERS_MAX; k++)
    members[k] = *at(k == 0 ? 100 + i : 0, 1000 * i + k + 1).members;
  return (struct unit){members, UNIT_MEMBERS_MAX};
}

static struct place deep_place(uint32_t i) {
  struct place place = {.id = 100 + i, .nnodes = PLACE_NODES_MAX};
  for (uint32_t k = 0; k < PLACE_NODES_MAX; k++)
    place.nodes[k] = node(1000 + (k == 0 ? 0 : i * 100 + k), (uint16_t)k, k % 2 ? 0 : PLACE_LOOP);
  memset(place.text, 'a' + (int)i % 26, PLACE_TEXT_MAX - 1);
  return place;
}

/* Rank 0 follows. The ring turns many times. */
Test(place_knowledge, large_groups_come_with_their_places) {
  team_claim_leave(quartet[0]);
  for (uint32_t i = 0; i < 40; i++) {
    struct place place = deep_place(i);
    for (uint32_t rank = 1; rank < RANKS; rank++)
      team_claim(quartet[rank], group(i), 0, &place);
    for (uint32_t rank = 1; rank < RANKS; rank++)
      expect_verdict(rank, TEAM_REAL);
    expect_verdict(0, TEAM_SHADOW);
    cr_assert(unit_equal(got, group(i)));
    const struct known_place *known = team_known_place(quartet[0], 100 + i);
    cr_assert(known != NULL && memcmp(&known->place, &place, sizeof(place)) == 0, "place %u", i);
  }
}

/* Rank 1 goes on, and has written its next claim, before the others read where the last one stood.
 */
Test(place_knowledge, a_text_does_not_begin_in_the_place_of_the_one_before) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 1)
      team_claim_leave(quartet[rank]);
  for (uint32_t id = HEAD; id < HEAD + 2; id++) {
    claim(1, id, SUM);
    if (id == HEAD)
      expect_verdict(1, TEAM_REAL);
  }
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (rank != 1)
      expect_verdict(rank, TEAM_SHADOW);
  expect_same_tables(HEAD);
}

/* One that does not fit into a text is not described anywhere. */
Test(place_knowledge, a_unit_too_big_for_a_text_is_issued_by_who_follows_and_has_it_too) {
  struct unit big = group(0);
  struct place place = deep_place(0);
  big.nmembers = UNIT_MEMBERS_MAX + 1;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_claim(quartet[rank], big, 0, &place);
  expect_all_real();
  expect_same_tables(100);
}

Test(place_knowledge, what_messages_say_of_a_place_is_one_line) {
  struct place place = place_of(THEN);
  snprintf(place.text, sizeof(place.text), "a\nb\033[2Jc\177d\303\251");
  team_claim(quartet[0], at(THEN, SUM), 0, &place);
  cr_assert_str_eq(quartet[0]->claim.place.text, "a?b?[2Jc?d\303\251");
}

/* ---- stopping ---- */

/* A loop of these: a small unit, another, and two groups. */
static struct unit body(uint32_t step) {
  static struct member small[2], groups[2][UNIT_MEMBERS_MAX];
  if (step < 2) {
    small[step] = *at(0, 1 + step).members;
    return (struct unit){&small[step], 1};
  }
  for (uint32_t k = 0; k < UNIT_MEMBERS_MAX; k++)
    groups[step - 2][k] = *at(0, 5000 * step + k).members;
  return (struct unit){groups[step - 2], UNIT_MEMBERS_MAX};
}

static void issue_body(uint32_t step) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], body(step)))
      team_claim(quartet[rank], body(step), 0, NULL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
}

/* Rank 3 has read all claims at an index. Before it looks where they stand, the others stop there
 * and go on: rank 0 writes over what it had claimed. */
static bool others_stop_and_go_on(void *context) {
  (void)context;
  for (uint32_t rank = 0; rank < 3; rank++)
    expect_verdict(rank, TEAM_STOPPED);
  for (uint32_t step = 1; step < 4; step++) {
    team_claim(quartet[0], body(step), 0, NULL);
    cr_assert(team_commit(quartet[1], body(step)));
    expect_verdict(0, TEAM_REAL);
  }
  return false;
}

Test(place_knowledge, who_settles_after_the_others_have_stopped_looks_again) {
  struct place place = deep_place(0);
  for (int i = 0; i < 12 * 4; i++)
    issue_body((uint32_t)i % 4);
  issue_body(0);
  team_claim(quartet[0], group(0), CLAIM_TOGETHER, &place);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    team_claim(quartet[rank], body(1), 0, NULL);
  quartet[3]->owner.is_held = others_stop_and_go_on;
  expect_verdict(3, TEAM_PARKED);
  quartet[3]->owner.is_held = NULL;
  expect_verdict(3, TEAM_STOPPED);
}

/* ---- the table by itself ---- */

/* Its index must be emptied of what is forgotten, or searches would not end. */
Test(place_table, many_more_places_than_there_is_room_for_come_and_go, .timeout = 300) {
  struct place_table *table = place_table_create();
  for (uint32_t i = 1; i <= 20 * PLACE_TABLE_PLACES; i++) {
    struct place place = {.id = i * UINT32_C(2654435761)};
    cr_assert_not_null(place_table_add(table, &place));
    for (uint32_t back = 0; back < PLACE_TABLE_PLACES && back < i; back += 101)
      cr_assert_not_null(place_table_find(table, (i - back) * UINT32_C(2654435761)));
    if (i > PLACE_TABLE_PLACES)
      cr_assert_null(place_table_find(table, (i - PLACE_TABLE_PLACES) * UINT32_C(2654435761)));
  }
  cr_assert_null(place_table_add(table, &(struct place){.id = 0}));
  place_table_destroy(table);
}

/* ---- rounds ---- */

/* for (epoch) { for (batch) { [7]; for (layer) [1]; [9] } [8] } */
static struct place in_rounds(uint32_t id, uint32_t nloops, uint16_t order) {
  struct place place = {
      .id = id,
      .nnodes = nloops + 1,
      .nodes = {node(1000, 1, PLACE_LOOP), node(1001, 6, PLACE_LOOP), node(1002, 8, PLACE_LOOP)}};
  place.nodes[nloops] = node(2000 + id, order, 0);
  return place;
}

Test(place_round, what_stands_in_the_rest_of_a_round_is_passed_by) {
  struct place first = in_rounds(1, 2, 7), layer = in_rounds(2, 3, 1), last = in_rounds(3, 2, 9),
               after = in_rounds(4, 1, 8);
  cr_expect(place_passes_by(&first, &first, &last));
  cr_expect(place_passes_by(&first, &first, &layer));
  cr_expect(place_passes_by(&layer, &first, &last));
  cr_expect_not(place_passes_by(&first, &first, &after),
                "who goes on with the loop is not past it");
  cr_expect_not(place_passes_by(&last, &first, &after));
  cr_expect_not(place_passes_by(&last, &first, &layer), "it was in this round");
  cr_expect_not(place_passes_by(&last, &layer, &layer));
  cr_expect_not(place_passes_by(&first, &last, &layer), "that is not round");
  cr_expect_not(place_passes_by(&layer, &layer, &last), "round the layers only");
  cr_expect(place_goes_round(&layer, &layer));
  cr_expect(place_goes_round(&last, &first));
  cr_expect_not(place_goes_round(&first, &layer));
  cr_expect_not(place_goes_round(&last, &after));
}

/* An epoch in which no rank has data: from the end of one to the end of the next. */
Test(place_round, so_is_what_stands_in_the_next_one_before_what_it_comes_to) {
  struct place first = in_rounds(1, 2, 7), layer = in_rounds(2, 3, 1), last = in_rounds(3, 2, 9),
               after = in_rounds(4, 1, 8);
  cr_expect(place_passes_by(&after, &after, &first));
  cr_expect(place_passes_by(&after, &after, &layer));
  cr_expect(place_passes_by(&last, &last, &first));
  cr_expect(place_passes_by(&last, &last, &layer));
  cr_expect_not(place_passes_by(&after, &after, &after));
  cr_expect_not(place_passes_by(&after, &first, &last), "it is still to come");
  cr_expect_not(place_passes_by(&after, &first, &first));
  cr_expect_not(place_passes_by(&layer, &layer, &first), "round the layers only");
}
