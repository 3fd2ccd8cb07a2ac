/* Where rounds begin, of ranks on several machines (core/team/team_epochs.c): a rank hears of
 * another one's round only where ranks wait for each other. */
#include <criterion/criterion.h>

#include "core/place/place_rounds.h"
#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

enum { TOTAL = 20, LATE = 9, LONG = 2, LONG_WITHIN = 256 };

/* Ranks 0 and 1 are on one, the others on another. */
static const char *machine_of(const struct plane *plane, uint32_t rank) {
  return plane->rank / 2 == rank / 2 ? NULL : "other";
}

static void place_on(const char *(*machine)(const struct plane *plane, uint32_t rank)) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    quartet[rank]->plane->machine = machine;
}

static void start(void) {
  quartet_start();
  place_on(machine_of);
}

TestSuite(team_machines, .init = start, .fini = quartet_stop);

static uint64_t says(uint32_t round) {
  const uint32_t totals[PLACE_LEVELS] = {TOTAL};
  return team_says(HEAD, totals, 0, round);
}

static void issue(uint32_t times) {
  for (uint32_t i = 0; i < times; i++)
    all_issue_at(HEAD, SUM);
}

/* Whether a rank claims where it begins a round of a loop, `units` after it has begun the last one.
 */
static bool is_claimed_at(uint32_t level, uint32_t units, bool quietly) {
  const uint64_t of[PLACE_LEVELS] = {level == 0 ? says(LATE) : 0, level == 0 ? 0 : says(LATE)};
  log_say_begun(quartet[1]->own, level > 0, says(LATE - 1) | quartet[1]->head);
  issue(units);
  team_begin_round(quartet[1], (struct team_levels){level, level + 1}, of, quietly);
  return team_begins_round(quartet[1]);
}

static bool is_claimed(uint32_t units, bool quietly) {
  return is_claimed_at(0, units, quietly);
}

Test(team_machines, a_long_round_is_claimed_where_it_begins) {
  cr_expect(is_claimed(LONG, true));
}
Test(team_machines, a_short_one_is_not) {
  cr_expect_not(is_claimed(LONG - 1, true));
}
/* It may be that of batches. */
Test(team_machines, a_round_of_the_loop_within_is_long_only_much_later) {
  cr_expect_not(is_claimed_at(1, LONG_WITHIN - 1, true));
  quartet_stop();
  start();
  cr_expect(is_claimed_at(1, LONG_WITHIN, true));
}
Test(team_machines, unless_each_is) {
  cr_expect(is_claimed(1, false));
}
Test(team_machines, the_first_one_of_which_anything_is_said_is_claimed) {
  const uint64_t of[PLACE_LEVELS] = {says(LATE)};
  issue(1);
  team_begin_round(quartet[1], (struct team_levels){0, 1}, of, true);
  cr_expect(team_begins_round(quartet[1]));
}
Test(team_machines, on_one_machine_those_next_to_it_are_looked_at) {
  place_on(NULL);
  cr_expect_not(is_claimed(LONG, true));
}

/* ---- looking back ---- */

/* Rank 3 has begun the round at index 6, the others at `begun`. */
static void begin_apart(uint64_t begun) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    log_say_begun(quartet[rank]->own, false, says(LATE) | (rank == 3 ? 6 : begun));
}

static void expect_told(uint32_t times, uint64_t begun) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct team_guess *guess = &quartet[rank]->telling.guess;
    if (!quartet[rank]->telling.guessed || guess->kind != GUESS_MIXED)
      continue;
    told++;
    cr_expect_eq(guess->rank, rank);
    cr_expect_eq(guess->other, rank == 3 ? 0 : 3);
    cr_expect_eq(guess->begun, rank == 3 ? 6 : begun);
    cr_expect_eq(guess->other_begun, (rank == 3 ? begun : 6) + 1);
    cr_expect(guess->round == LATE && guess->other_round == LATE && guess->level == 0);
    cr_expect_eq(guess->member.kind, MEMBER_ALLREDUCE);
  }
  cr_expect_eq(told, times, "%u", told);
}

Test(team_machines, that_rounds_have_mixed_is_told_where_all_meet) {
  issue(9);
  begin_apart(4);
  all_issue_at(AFTER, OTHER);
  expect_told(1, 4);
  all_issue_at(AFTER, SUM);
  expect_told(1, 4);
}

Test(team_machines, also_where_the_other_has_begun_it_first) {
  issue(9);
  begin_apart(8);
  all_issue_at(AFTER, OTHER);
  expect_told(1, 8);
}

/* Not of its own accord: the others hear that it has failed. */
Test(team_machines, who_is_to_be_sure_stops_there) {
  issue(9);
  begin_apart(4);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct place place = place_of(AFTER);
    team_claim(quartet[rank], at(AFTER, OTHER), CLAIM_OWN_PLACE | CLAIM_SURE, &place);
  }
  expect_verdict(0, TEAM_FAILED);
  cr_expect_eq(quartet[0]->failed.how, FAILURE_UNSURE);
}

Test(team_machines, rounds_that_have_begun_together_are_not_told_of) {
  issue(9);
  begin_apart(6);
  all_issue_at(AFTER, OTHER);
  expect_told(0, 0);
}

Test(team_machines, nor_are_different_ones) {
  issue(9);
  begin_apart(4);
  log_say_begun(quartet[3]->own, false, says(LATE + 1) | 6);
  all_issue_at(AFTER, OTHER);
  expect_told(0, 0);
}

Test(team_machines, nor_what_the_owner_may_have_meant) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    quartet[rank]->owner.may_mix = true;
  issue(9);
  begin_apart(4);
  all_issue_at(AFTER, OTHER);
  expect_told(0, 0);
}

Test(team_machines, on_one_machine_it_has_been_told_before) {
  place_on(NULL);
  issue(9);
  begin_apart(4);
  all_issue_at(AFTER, OTHER);
  expect_told(0, 0);
}

/* It has been out of data, and has shadowed what the others issued in the round. */
Test(team_machines, who_has_issued_nothing_meanwhile_is_in_no_earlier_round) {
  issue(4);
  claim(3, AFTER, OTHER);
  for (uint32_t i = 0; i < 3; i++) {
    for (uint32_t rank = 0; rank < 3; rank++)
      if (!team_commit(quartet[rank], at(HEAD, SUM)))
        claim(rank, HEAD, SUM);
    for (uint32_t rank = 0; rank < 3; rank++)
      if (quartet[rank]->claim.open)
        expect_verdict(rank, TEAM_REAL);
    expect_verdict(3, TEAM_SHADOW);
  }
  begin_apart(4);
  for (uint32_t rank = 0; rank < 3; rank++)
    claim(rank, AFTER, OTHER);
  expect_all_real();
  expect_told(0, 0);
}
