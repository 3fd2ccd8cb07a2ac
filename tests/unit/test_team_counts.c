/* Whether all ranks count the rounds of a loop alike: what a rank asks before it waits where a round begins
 * (interpose/calls/rounds.h). And whether they have begun them alike. */
#include <criterion/criterion.h>

#include "core/place/place_rounds.h"
#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_counts, .init = quartet_start, .fini = quartet_stop);

/* In a round of the loop, of so many. */
static struct place in_round(uint32_t id, uint32_t number, uint32_t total) {
  struct place place = place_of(id);
  const struct place_round rounds[] = {{0}, {number, total}, {0}};
  place.rounds = place_rounds_of(place.nodes, place.nnodes, rounds);
  return place;
}

static void claim_in_round(uint32_t rank, uint32_t id, uint32_t number, uint32_t total) {
  const struct place place = in_round(id, number, total);
  team_claim(quartet[rank], at(id, SUM), CLAIM_OWN_PLACE, &place);
}

/* All ranks issue a unit of the loop; rank 0 in a round of its own. */
static void issue_in_round(uint32_t number_of_0, uint32_t total_of_0) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, rank == 0 ? number_of_0 : 1, rank == 0 ? total_of_0 : 3);
  expect_all_real();
}

/* Of the loop, and the same of all ranks, whoever has settled it, or has only followed. */
static bool counts(void) {
  struct place place = in_round(ELSE, 2, 3);
  struct place_begin begin;
  cr_assert(place_round_begins(&place, &begin));
  bool first = team_counts_rounds(quartet[0], &begin.place);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_expect_eq(team_counts_rounds(quartet[rank], &begin.place), first, "rank %u", rank);
  return first;
}

Test(team_counts, rounds_count_once_all_have_said_the_same) {
  cr_expect_not(counts());
  issue_in_round(1, 3);
  cr_expect(counts());
}

Test(team_counts, not_where_one_rank_does_not_say_its_own) {
  issue_in_round(0, 0);
  cr_expect_not(counts());
}

Test(team_counts, nor_where_one_is_in_another_round_or_has_not_as_many) {
  issue_in_round(2, 3);
  cr_expect_not(counts());
  quartet_stop();
  quartet_start();
  issue_in_round(1, 4);
  cr_expect_not(counts());
}

Test(team_counts, nor_where_nobody_says_how_many_there_are) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 0);
  expect_all_real();
  cr_expect_not(counts());
}

/* Rank 0 is in the round before, at what stands behind THEN in the code. */
Test(team_counts, they_order_what_ranks_come_to_by_conditions) {
  for (int counted = 0; counted < 2; counted++) {
    quartet_stop();
    quartet_start();
    issue_in_round(counted ? 1 : 0, counted ? 3 : 0);
    const struct place of_0 = in_round(ELSE, 1, 3), of_others = in_round(THEN, 2, 3);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      team_claim(quartet[rank], at(rank == 0 ? ELSE : THEN, rank == 0 ? OTHER : SUM),
                 CLAIM_OWN_PLACE, rank == 0 ? &of_0 : &of_others);
    enum team_verdict verdict = team_poll(quartet[0], &got);
    cr_expect_eq(verdict, counted ? TEAM_REAL : TEAM_SHADOW, "%d: %d", counted, (int)verdict);
  }
}

/* The others settle it; who has not looked meanwhile follows them. */
Test(team_counts, who_follows_knows_as_well) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 3);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, 1, 3);
  expect_verdict(0, TEAM_REAL);
  cr_expect(counts());
}

/* Rank 0 has had nothing to do in the first round, and begins the second. Whether the others go first. */
static bool begin_second(uint32_t total_of_others) {
  static struct member mark;
  struct place place = in_round(HEAD, 2, 3);
  struct place_begin begin;
  cr_assert(place_round_begins(&place, &begin));
  mark = round_member(begin.place.id, begin.number);
  team_claim(quartet[0], (struct unit){&mark, 1}, CLAIM_OWN_PLACE, &begin.place);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    claim_in_round(rank, HEAD, total_of_others == 0 ? 0 : 1, total_of_others);
  enum team_verdict first = team_poll(quartet[0], &got);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    expect_verdict(rank, first == TEAM_SHADOW ? TEAM_REAL : TEAM_SHADOW);
  return first == TEAM_SHADOW;
}

Test(team_counts, who_begins_a_round_while_others_are_in_an_earlier_one_counts_with_them) {
  cr_expect(begin_second(3));
  cr_expect(counts());
}

Test(team_counts, but_waits_for_nobody_who_does_not_say_the_same_number_of_them) {
  const uint32_t totals[] = {0, 4};
  for (size_t i = 0; i < 2; i++) {
    quartet_stop();
    quartet_start();
    cr_expect_not(begin_second(totals[i]), "%u", totals[i]);
    cr_expect_not(counts(), "%u", totals[i]);
  }
}

/* ---- where they begin ---- */

/* All are in the first round. */
static void start_counting(void) {
  quartet_start();
  issue_in_round(1, 3);
}

TestSuite(team_mixed, .init = start_counting, .fini = quartet_stop);

/* Each claims HEAD in a round, 0: that of before, and 10 more: it begins there. */
static void issue_in(const uint32_t rounds[RANKS]) {
  static uint32_t last[RANKS] = {1, 1, 1, 1};
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    uint32_t round = rounds[rank] % 10;
    last[rank] = round != 0 ? round : last[rank];
    if (rounds[rank] > 10)
      team_begin_round(quartet[rank], round);
    claim_in_round(rank, HEAD, last[rank], 3);
  }
  expect_all_real();
}

/* How many ranks have told that rounds mix, and of what: each of that which it has begun itself. */
static void expect_told(uint32_t times, struct team_guess expected) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct team_guess *guess = &quartet[rank]->telling.guess;
    if (!quartet[rank]->telling.guessed || guess->kind != GUESS_MIXED)
      continue;
    told++;
    cr_expect_eq(guess->rank, rank);
    cr_expect_eq(guess->other, expected.other);
    cr_expect_eq(guess->round, expected.round);
    cr_expect_eq(guess->other_round, expected.other_round);
    cr_expect_eq(guess->other_begun, expected.other_begun);
    cr_expect_eq(guess->begun, expected.begun);
    cr_expect_eq(guess->member.kind, MEMBER_ALLREDUCE);
  }
  cr_expect_eq(told, times, "%u", told);
}

Test(team_mixed, ranks_that_begin_a_round_together_are_not_told_of) {
  for (uint32_t round = 2; round < 4; round++) {
    issue_in((const uint32_t[RANKS]){10 + round, 10 + round, 10 + round, 10 + round});
    issue_in((const uint32_t[RANKS]){0});
    expect_told(0, (struct team_guess){0});
  }
}

/* Index 5: who goes on as it is expected commits what the other claims. */
static void begins_alone(uint32_t who, uint32_t round) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    issue_in((const uint32_t[RANKS]){0});
  team_begin_round(quartet[who], round);
  claim_in_round(who, HEAD, round, 3);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert(rank == who || team_commit(quartet[rank], at(HEAD, SUM)));
  expect_verdict(who, TEAM_REAL);
}

/* That one, too, is in the round meanwhile. */
Test(team_mixed, who_begins_a_round_after_another_says_so_once) {
  begins_alone(2, 2);
  expect_told(0, (struct team_guess){0});
  issue_in((const uint32_t[RANKS]){12, 12, 2, 0});
  expect_told(1, (struct team_guess){
                     .other = 2, .round = 2, .other_round = 2, .begun = 6, .other_begun = 6});
  issue_in((const uint32_t[RANKS]){0, 0, 13, 12});
  expect_told(1, (struct team_guess){
                     .other = 2, .round = 2, .other_round = 2, .begun = 6, .other_begun = 6});
}

Test(team_mixed, who_begins_a_round_where_another_is_in_an_earlier_one_says_so_at_once) {
  issue_in((const uint32_t[RANKS]){1, 1, 12, 1});
  expect_told(1, (struct team_guess){.other = 0, .round = 2, .other_round = 1, .begun = 1});
}

Test(team_mixed, who_begins_a_round_after_another_has_begun_a_later_one_says_so) {
  begins_alone(3, 3);
  issue_in((const uint32_t[RANKS]){12, 3, 3, 3});
  expect_told(1, (struct team_guess){
                     .other = 3, .round = 2, .other_round = 3, .begun = 6, .other_begun = 6});
}

Test(team_mixed, the_owner_may_have_meant_it) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    quartet[rank]->owner.may_mix = true;
  issue_in((const uint32_t[RANKS]){1, 1, 1, 12});
  issue_in((const uint32_t[RANKS]){12, 12, 12, 0});
  expect_told(0, (struct team_guess){0});
}

/* It has issued it as a shadow so far: that is not where its round begins. */
Test(team_mixed, who_waits_where_its_round_begins_has_not_begun_it_yet) {
  team_begin_round(quartet[3], 2);
  claim_in_round(3, HEAD, 2, 3);
  const struct place elsewhere = place_of(ELSE);
  for (uint32_t rank = 0; rank < 3; rank++)
    team_claim(quartet[rank], at(ELSE, OTHER), CLAIM_OWN_PLACE, &elsewhere);
  for (uint32_t rank = 0; rank < 3; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 0; rank < 3; rank++) {
    team_begin_round(quartet[rank], 2);
    claim_in_round(rank, HEAD, 2, 3);
  }
  expect_verdict(3, TEAM_SHADOW);
  expect_all_real();
  expect_told(0, (struct team_guess){0});
}

/* What is expected is committed otherwise; and all have been told. */
Test(team_mixed, a_round_is_claimed_where_it_begins_until_all_know_that_they_mix) {
  team_begin_round(quartet[1], 2);
  cr_expect(team_begins_round(quartet[1]));
  issue_in((const uint32_t[RANKS]){1, 12, 1, 1});
  cr_expect_not(team_begins_round(quartet[1]));
  issue_in((const uint32_t[RANKS]){12, 0, 12, 12});
  team_begin_round(quartet[1], 3);
  cr_expect_not(team_begins_round(quartet[1]));
}
