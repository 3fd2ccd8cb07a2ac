/* Whether all ranks count the rounds of a loop alike: what a rank asks before it waits where a
 * round begins (interpose/calls/rounds.h). And whether they have begun them alike. */
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
  cr_assert(place_round_begins(&place, 0, &begin));
  bool first = team_counts_rounds(quartet[0], &begin.place, 1);
  for (uint32_t rank = 1; rank < RANKS; rank++)
    cr_expect_eq(team_counts_rounds(quartet[rank], &begin.place, 1), first, "rank %u", rank);
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

/* Rank 0 has had nothing to do in the first round, and begins the second. Whether the others go
 * first. */
static bool begin_second(uint32_t total_of_others) {
  static struct member mark;
  struct place place = in_round(HEAD, 2, 3);
  struct place_begin begin;
  cr_assert(place_round_begins(&place, 0, &begin));
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

enum { TOTAL = 20, LATE = 9 };

/* The rank's next unit begins a round, in which it claims HEAD. */
static void begin_round(uint32_t rank, uint32_t round, bool quietly) {
  const uint32_t totals[PLACE_LEVELS] = {TOTAL};
  const uint64_t says[PLACE_LEVELS] = {team_says(HEAD, totals, 0, round)};
  team_begin_round(quartet[rank], (struct team_levels){0, PLACE_LEVELS}, says, quietly);
}

/* All are in the first round. */
static void start_counting(void) {
  quartet_start();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    begin_round(rank, 1, true);
    claim_in_round(rank, HEAD, 1, TOTAL);
  }
  expect_all_real();
}

TestSuite(team_mixed, .init = start_counting, .fini = quartet_stop);

/* Each claims HEAD in a round, 0: that of before, and 10 more: it begins there. */
static void issue_in(const uint32_t rounds[RANKS]) {
  static uint32_t last[RANKS] = {1, 1, 1, 1};
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    uint32_t round = rounds[rank] % 10;
    last[rank] = round != 0 ? round : last[rank];
    if (rounds[rank] > 10)
      begin_round(rank, round, false);
    claim_in_round(rank, HEAD, last[rank], TOTAL);
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
  begin_round(who, round, false);
  claim_in_round(who, HEAD, round, TOTAL);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_assert(rank == who || team_commit(quartet[rank], at(HEAD, SUM)));
  expect_verdict(who, TEAM_REAL);
}

static void stop_saying(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_say_no_rounds(quartet[rank]);
}

Test(team_mixed, who_begins_a_round_that_others_have_not_says_so_at_once) {
  begins_alone(2, 2);
  expect_told(1, (struct team_guess){.other = 0, .round = 2, .other_round = 1, .begun = 5});
}

Test(team_mixed, but_not_where_others_may_have_begun_it_and_not_said_so) {
  stop_saying();
  begins_alone(2, LATE);
  expect_told(0, (struct team_guess){0});
}

/* That one, too, is in the round meanwhile. */
Test(team_mixed, who_begins_a_round_after_another_says_so_once) {
  stop_saying();
  begins_alone(2, LATE);
  expect_told(0, (struct team_guess){0});
  issue_in((const uint32_t[RANKS]){10 + LATE, 10 + LATE, LATE, 0});
  struct team_guess told = {
      .other = 2, .round = LATE, .other_round = LATE, .begun = 6, .other_begun = 6};
  expect_told(1, told);
  issue_in((const uint32_t[RANKS]){0, 0, 10 + LATE, 10 + LATE});
  expect_told(1, told);
}

Test(team_mixed, who_begins_a_round_where_another_is_in_an_earlier_one_says_so_at_once) {
  issue_in((const uint32_t[RANKS]){1, 1, 12, 1});
  expect_told(1, (struct team_guess){.other = 0, .round = 2, .other_round = 1, .begun = 1});
}

Test(team_mixed, who_begins_a_round_after_another_has_begun_a_later_one_says_so) {
  stop_saying();
  begins_alone(3, LATE);
  issue_in((const uint32_t[RANKS]){13, LATE, LATE, LATE});
  expect_told(1, (struct team_guess){
                     .other = 3, .round = 3, .other_round = LATE, .begun = 6, .other_begun = 6});
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
  begin_round(3, 2, false);
  claim_in_round(3, HEAD, 2, TOTAL);
  const struct place elsewhere = place_of(ELSE);
  for (uint32_t rank = 0; rank < 3; rank++)
    team_claim(quartet[rank], at(ELSE, OTHER), CLAIM_OWN_PLACE, &elsewhere);
  for (uint32_t rank = 0; rank < 3; rank++)
    expect_verdict(rank, TEAM_REAL);
  for (uint32_t rank = 0; rank < 3; rank++) {
    begin_round(rank, 2, false);
    claim_in_round(rank, HEAD, 2, TOTAL);
  }
  expect_verdict(3, TEAM_SHADOW);
  expect_all_real();
  expect_told(0, (struct team_guess){0});
}

/* What is expected is committed otherwise; and all have been told. */
Test(team_mixed, a_round_is_claimed_where_it_begins_until_all_know_that_they_mix) {
  begin_round(1, 2, false);
  cr_expect(team_begins_round(quartet[1]));
  issue_in((const uint32_t[RANKS]){1, 12, 1, 1});
  cr_expect_not(team_begins_round(quartet[1]));
  issue_in((const uint32_t[RANKS]){12, 0, 12, 12});
  begin_round(1, 3, false);
  cr_expect_not(team_begins_round(quartet[1]));
}

/* ---- of the loop in the outermost one ---- */

/* HEAD, in a loop of batches in one of two models in one of epochs. */
static struct place of_model(uint32_t epoch, uint32_t model) {
  struct place place = place_of(HEAD);
  place.nodes[4] = place.nodes[2];
  place.nodes[3] = node(92, 2, PLACE_LOOP | PLACE_ALWAYS);
  place.nodes[2] = node(91, 2, PLACE_LOOP | PLACE_ALWAYS);
  place.nnodes = 5;
  place.rounds = place_rounds_of(place.nodes, place.nnodes,
                                 (struct place_round[]){{0}, {epoch, 3}, {model, 2}, {1, 9}, {0}});
  return place;
}

static void claim_of_model(uint32_t rank, uint32_t epoch, uint32_t model) {
  const struct place place = of_model(epoch, model);
  team_claim(quartet[rank], at(HEAD, SUM), CLAIM_OWN_PLACE, &place);
}

/* The rank's next unit begins a round of the loop of models, and of that of epochs, if it is the
 * first one in that. */
static void begin_model(uint32_t rank, uint32_t level, uint32_t epoch, uint32_t model) {
  const uint32_t totals[PLACE_LEVELS] = {3, 2};
  const place_rounds_t rounds = of_model(epoch, model).rounds;
  const uint64_t says[PLACE_LEVELS] = {
      level > 0 ? 0 : team_says(HEAD, totals, 0, place_rounds_number(rounds, 0)),
      team_says(HEAD, totals, 1, place_rounds_number(rounds, 1))};
  team_begin_round(quartet[rank], (struct team_levels){level, PLACE_LEVELS}, says,
                   epoch == 1 && model == 1);
}

/* Each rank in its own epoch and model: epoch * 10 + model; and 100 more: it begins that here. */
static void issue_of_models(const uint32_t rounds[RANKS]) {
  static uint32_t last[RANKS];
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    uint32_t epoch = rounds[rank] / 10 % 10, model = rounds[rank] % 10;
    if (rounds[rank] > 100)
      begin_model(rank, epoch == last[rank] ? 1 : 0, epoch, model);
    last[rank] = epoch;
    claim_of_model(rank, epoch, model);
  }
  expect_all_real();
}

Test(team_mixed_within, ranks_that_begin_a_round_together_are_not_told_of, .fini = quartet_stop) {
  quartet_start();
  issue_of_models((const uint32_t[RANKS]){111, 111, 111, 111});
  struct place place = quartet[0]->claim.own_place;
  for (uint32_t rank = 0; rank < RANKS; rank++)
    cr_expect(team_counts_rounds(quartet[rank], &place, 2));
  issue_of_models((const uint32_t[RANKS]){112, 112, 112, 112});
  issue_of_models((const uint32_t[RANKS]){121, 121, 121, 121});
  issue_of_models((const uint32_t[RANKS]){122, 122, 122, 122});
  expect_told(0, (struct team_guess){0});
}

Test(team_mixed_within, ranks_that_do_not_are, .fini = quartet_stop) {
  quartet_start();
  issue_of_models((const uint32_t[RANKS]){111, 111, 111, 111});
  issue_of_models((const uint32_t[RANKS]){112, 11, 11, 11});
  expect_told(1, (struct team_guess){.other = 1, .round = 2, .other_round = 1, .begun = 1});
  cr_expect_eq(quartet[0]->telling.guess.level, 1);
}

/* Rank 0 has nothing to do in the first half of the second epoch, and waits where the other half
 * begins. */
Test(team_mixed_within, who_waits_there_is_in_no_other, .fini = quartet_stop) {
  static struct member mark;
  const struct place place = of_model(2, 2);
  struct place_begin begin;
  quartet_start();
  issue_of_models((const uint32_t[RANKS]){111, 111, 111, 111});
  cr_assert(place_round_begins(&place, 1, &begin));
  mark = round_member(begin.place.id, begin.number);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    begin_model(rank, 0, 2, 1);
    claim_of_model(rank, 2, 1);
  }
  team_claim(quartet[0], (struct unit){&mark, 1}, CLAIM_OWN_PLACE, &begin.place);
  expect_verdict(0, TEAM_SHADOW);
  for (uint32_t rank = 1; rank < RANKS; rank++) {
    expect_verdict(rank, TEAM_REAL);
    team_claim(quartet[rank], (struct unit){&mark, 1}, CLAIM_OWN_PLACE, &begin.place);
  }
  expect_all_real();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    begin_model(rank, rank == 0 ? 0 : 1, 2, 2);
    claim_of_model(rank, 2, 2);
  }
  expect_all_real();
  expect_told(0, (struct team_guess){0});
}

/* ---- rounds that are not waited for ---- */

Test(team_mixed, a_round_that_begins_quietly_is_said_and_not_claimed) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    issue_in((const uint32_t[RANKS]){0});
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    begin_round(rank, 2, true);
    cr_expect_not(team_begins_round(quartet[rank]));
    cr_expect(team_is_saying(quartet[rank]));
    cr_assert(team_commit_slowly(quartet[rank], at(HEAD, SUM)));
    cr_expect_not(team_is_saying(quartet[rank]));
  }
  /* Rank 3 is in the second round, and has said so: the next one to it goes past it. */
  begin_round(2, 3, true);
  cr_expect_not(team_begins_round(quartet[2]), "nobody has gone past it");
  cr_assert(team_commit(quartet[3], at(HEAD, SUM)));
  begin_round(2, 3, true);
  cr_expect(team_begins_round(quartet[2]));
  begin_round(0, 3, true);
  cr_expect(team_begins_round(quartet[0]), "the last rank is next to the first");
  begin_round(1, 3, true);
  cr_expect_not(team_begins_round(quartet[1]), "that is for others");
  expect_told(0, (struct team_guess){0});
}

/* They go round the loop once more, as a function that is called again does, and one of them has
 * nothing to do in the first round: it has said a later one last. */
Test(team_mixed, who_has_been_in_a_later_round_before_is_not_told_of) {
  issue_in((const uint32_t[RANKS]){13, 13, 13, 13});
  issue_in((const uint32_t[RANKS]){3, 3, 3, 3});
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    if (rank != 3) {
      const uint32_t totals[PLACE_LEVELS] = {TOTAL};
      team_say_round(quartet[rank], (const uint64_t[PLACE_LEVELS]){team_says(HEAD, totals, 0, 1)});
    }
    claim_in_round(rank, HEAD, 1, TOTAL);
  }
  expect_all_real();
  begin_round(2, 2, true);
  cr_expect_not(team_begins_round(quartet[2]));
  expect_told(0, (struct team_guess){0});
}
