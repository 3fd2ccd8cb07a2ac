/* Units that are taken for one: it is told where that may be wrong, and only there. Each rank knows
 * best where it stands itself, and where it has been. */
#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/quartet.h"

TestSuite(team_doubts, .init = quartet_start, .fini = quartet_stop);

/* In the loop of the function (0), or in one of its own: its order. reach: what control comes to
 * from there; since: what always comes before it. */
static struct place stand(uint32_t id, uint16_t loop, uint16_t order, uint16_t reach,
                          uint16_t since) {
  struct place place = {.id = id, .nnodes = 2, .nodes = {node(1000, 1, 0)}};
  place.nodes[1] = node(1001, 5, PLACE_LOOP);
  if (loop != 0)
    place.nodes[place.nnodes++] = node(3000u + loop, loop, PLACE_LOOP);
  struct place_node last = node(2000 + id, order, 0);
  last.reach_from = last.reach_to = reach;
  last.since = since;
  place.nodes[place.nnodes++] = last;
  return place;
}

/* Rank 0 stands at one place, the others at another; all issue it. Returns how many ranks tell. */
static uint32_t meet_of(uint8_t kind, const struct place *of_rank_0,
                        const struct place *of_others) {
  uint32_t told = 0;
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct place *place = rank == 0 ? of_rank_0 : of_others;
    struct member member = *at(place->id, SUM).members;
    member.kind = kind;
    team_claim(quartet[rank], (struct unit){&member, 1}, 0, place);
  }
  expect_all_real();
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    told += quartet[rank]->telling.guessed && quartet[rank]->telling.guess.kind == GUESS_SAME;
    quartet[rank]->telling.guessed = false;
  }
  return told;
}

static uint32_t meet(const struct place *of_rank_0, const struct place *of_others) {
  return meet_of(MEMBER_ALLREDUCE, of_rank_0, of_others);
}

/* for (...) if (mine) make(); else take_no_part(); */
Test(team_doubts, splits_of_members_and_of_others_are_no_doubt) {
  static const uint8_t kinds[] = {MEMBER_ALLREDUCE, MEMBER_SPLIT};
  for (uint32_t i = 0; i < 2; i++) {
    struct place mine = stand(1, 0, 10, 0, 10), other = stand(2, 0, 12, 0, 12);
    (void)meet_of(kinds[i], &mine, &mine);
    cr_expect_eq(meet_of(kinds[i], &other, &mine), kinds[i] == MEMBER_ALLREDUCE);
    (void)meet_of(kinds[i], &other, &other);
    cr_expect_eq(meet_of(kinds[i], &mine, &other), kinds[i] == MEMBER_ALLREDUCE);
    quartet_stop();
    quartet_start();
  }
}

/* if (one) { a(); a(); a(); } else { for (3 times) a(); } */
Test(team_doubts, calls_in_a_row_and_a_loop_elsewhere_meet_without_a_word) {
  struct place looped = stand(9, 20, 21, 0, 21);
  for (uint32_t in_loop = 0; in_loop <= 1; in_loop++) {
    for (uint16_t i = 1; i <= 3; i++) {
      struct place in_row = stand(i, 0, 10 + i, 10 + i + 1, 11);
      cr_assert_eq(in_loop ? meet(&looped, &in_row) : meet(&in_row, &looped), 0, "call %u", i);
    }
    quartet_stop();
    quartet_start();
  }
}

/* if (one) for (...) a(); else { a(); for (...) a(); }: a compiler has put the other loop's first
 * round in front of it. */
Test(team_doubts, a_loop_meets_one_whose_first_round_stands_in_front_of_it) {
  struct place looped = stand(9, 20, 21, 0, 21), first = stand(1, 0, 30, 40, 30),
               again = stand(2, 40, 41, 0, 41);
  first.nodes[2].until = 40; /* who is in the loop has been there */
  (void)meet(&looped, &first);
  for (int i = 0; i < 3; i++)
    (void)meet(&looped, &again);
}

/* for (...) { first(); if (...) some(); second(); }: the others have the loop learnt, and go on.
 * Returns how many WARNs rank 0 gives, which comes to some(), until the others have gone round
 * twice. */
static uint32_t others_go_past(uint16_t order, uint32_t flags, enum team_verdict verdict) {
  struct place first = stand(1, 0, 10, 0, 10), second = stand(2, 0, 20, 0, 10),
               some = stand(3, 0, order, 0, order);
  uint32_t told = 0;
  for (uint32_t i = 0; i < 8; i++) {
    meet(&first, &first);
    meet(&second, &second);
  }
  team_claim(quartet[0], at(some.id, OTHER), flags, &some);
  for (uint32_t i = 0; i < 4; i++) {
    const struct place *next = i % 2 == 0 ? &first : &second;
    for (uint32_t rank = 1; rank < RANKS; rank++)
      cr_assert(team_commit(quartet[rank], at(next->id, SUM)), "without asking");
    expect_verdict(0, i == 1 ? verdict : TEAM_SHADOW);
    if (quartet[0]->failed.how != FAILURE_NONE)
      return told;
    told += quartet[0]->telling.guessed && quartet[0]->telling.guess.kind == GUESS_ORDER;
    quartet[0]->telling.guessed = false;
  }
  return told;
}

Test(team_doubts, that_others_go_past_in_a_loop_is_told_once) {
  cr_assert_eq(others_go_past(15, 0, TEAM_SHADOW), 1);
}

Test(team_doubts, or_stops) {
  cr_assert_eq(others_go_past(15, CLAIM_SURE, TEAM_FAILED), 0);
  cr_assert_eq(quartet[0]->failed.how, FAILURE_UNSURE);
}

/* if (one) a(); else a(); if (sometimes) b();  Who is at the first again has gone round. */
static void meet_again(bool odd_goes_on, uint32_t told) {
  struct place then = stand(1, 0, 11, 13, 11), otherwise = stand(2, 0, 12, 13, 12),
               further = stand(3, 0, 13, 0, 13);
  cr_assert_eq(meet(&then, &otherwise), 1);
  cr_assert_eq(odd_goes_on ? meet(&further, &otherwise) : meet(&then, &further), told);
}

Test(team_doubts, who_goes_on_and_meets_who_has_gone_round_by_another_branch_tells) {
  meet_again(true, 1);
}

Test(team_doubts, and_so_does_who_has_gone_round) {
  meet_again(false, 1);
}

Test(team_doubts, what_another_rank_has_told_of_a_later_index_is_not_this) {
  atomic_store(&quartet[0]->shared->told, 9);
  struct place then = stand(1, 0, 11, 13, 11), otherwise = stand(2, 0, 12, 13, 12),
               further = stand(3, 0, 13, 0, 13);
  cr_assert_geq(meet(&then, &otherwise), 1);
  cr_assert_geq(meet(&then, &further), 1);
}

/* if (one) { for (...) { a(); if (...) continue; b(); } } else the same. Who comes to the second in
 * its own loop has been at the first, which others are at again. */
Test(team_doubts, two_calls_in_a_row_are_not_two_ways_to_one_of_another_loop) {
  for (uint32_t odd_goes_on = 0; odd_goes_on <= 1; odd_goes_on++) {
    struct place first = stand(1, 20, 21, 22, 21), second = stand(2, 20, 22, 0, 21),
                 elsewhere = stand(3, 30, 31, 32, 31);
    cr_assert_eq(odd_goes_on ? meet(&first, &elsewhere) : meet(&elsewhere, &first), 0);
    cr_assert_eq(odd_goes_on ? meet(&second, &elsewhere) : meet(&elsewhere, &second), 1);
    quartet_stop();
    quartet_start();
  }
}

/* The same: rank 0 alone knows that it has been at the first. */
Test(team_doubts, who_wants_to_be_sure_fails_where_it_alone_is_in_doubt) {
  struct place first = stand(1, 20, 21, 22, 21), second = stand(2, 20, 22, 0, 21),
               elsewhere = stand(3, 30, 31, 32, 31);
  cr_assert_eq(meet(&first, &elsewhere), 0);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    const struct place *place = rank == 0 ? &second : &elsewhere;
    team_claim(quartet[rank], at(place->id, SUM), CLAIM_SURE, place);
  }
  expect_verdict(0, TEAM_FAILED);
  cr_assert_eq(quartet[0]->failed.how, FAILURE_UNSURE);
  expect_verdict(1, TEAM_REAL);
}

/* if (one) a(); if (!one) a(); */
Test(team_doubts, where_nobody_has_been_before_two_conditions_are_two_ways) {
  struct place first = stand(1, 0, 11, 12, 11), second = stand(2, 0, 12, 0, 12);
  cr_assert_eq(meet(&first, &second), 0);
}

/* The same two by branches: one of them may be the end of the loop. */
Test(team_doubts, two_branches_are_not_two_ways_to_one_of_another_loop) {
  struct place first = stand(1, 20, 21, 0, 21), second = stand(2, 20, 22, 0, 22),
               elsewhere = stand(3, 30, 31, 32, 31);
  cr_assert_eq(meet(&first, &elsewhere), 0);
  cr_assert_eq(meet(&second, &elsewhere), 1);
}
