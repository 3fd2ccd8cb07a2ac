/* Who wakes itself for what is committed (core/team/team_nap.h): who rings for it, and who does
 * not. */
#include "core/team/team_nap.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>

#include "core/predict/learner_private.h"
#include "core/team/team_private.h"
#include "tests/unit/trio.h"

static struct unit got;
static uint32_t bell;
static uint64_t rings;

/* Rank 1 has joined, has followed all that there is, and is about to sleep. */
static void nap(void) {
  enum team_verdict verdict;
  while ((verdict = team_announce(teams[1], &got, false, &bell)) == TEAM_SHADOW)
    ;
  cr_assert_eq(verdict, TEAM_PARKED);
  rings = planes_rings(memory);
}

static void set_up(void) {
  trio_start();
  learn_loop();
  team_claim(teams[1], unit(&C), 0, NULL);
  nap();
}

TestSuite(team_nap, .init = set_up, .fini = trio_stop);

static void expect_rung(const char *by) {
  cr_expect_eq(planes_rings(memory), rings + 1, "not by %s", by);
  cr_expect(team_is_called(teams[1], bell));
}

Test(team_nap, a_commit_rings_for_nobody) {
  for (int i = 0; i < 100; i++)
    cr_assert(team_commit(teams[0], unit(&A)));
  cr_expect_eq(planes_rings(memory), rings);
  cr_expect(team_is_called(teams[1], bell), "who looks sees it");
  nap();
  cr_expect_not(team_is_called(teams[1], bell));
  cr_assert(team_commit(teams[2], unit(&A)));
  cr_expect_eq(planes_rings(memory), rings);
}

Test(team_nap, a_commit_rings_for_who_asks_for_it) {
  cr_assert_eq(team_announce(teams[1], &got, true, &bell), TEAM_PARKED);
  cr_assert(team_commit(teams[0], unit(&A)));
  expect_rung("a commit");
}

Test(team_nap, a_claim_rings) {
  cr_assert(team_commit(teams[0], unit(&A)));
  team_claim(teams[0], unit(&B), 0, NULL);
  expect_rung("a claim");
  nap();
  team_claim_leave(teams[2]);
  expect_rung("a LEAVE");
}

Test(team_nap, who_has_been_rung_for_is_not_rung_for_again_until_it_naps) {
  team_claim(teams[0], unit(&B), 0, NULL);
  team_claim(teams[2], unit(&A), 0, NULL);
  expect_rung("a claim");
}

/* Rank 1 goes on following what the others settle among themselves. */
Test(team_nap, a_settlement_rings) {
  team_claim(teams[0], unit(&B), 0, NULL);
  nap();
  team_claim(teams[2], unit(&B), 0, NULL);
  expect_rung("a claim");
  atomic_store(&teams[1]->shared->napping, 1); /* again, without having looked */
  rings = planes_rings(memory);
  cr_assert_eq(team_poll(teams[2], &got), TEAM_REAL);
  expect_rung("a settlement");
}

Test(team_nap, a_yield_rings) {
  team_claim(teams[0], unit(&B), 0, NULL);
  nap();
  team_yield(teams[2]);
  expect_rung("a yield");
}

Test(team_nap, who_ends_rings) {
  team_end(teams[0], RANK_FAILED);
  expect_rung("a failure");
}

Test(team_nap, who_waits_for_others_rings) {
  cr_assert(team_commit(teams[0], unit(&A)));
  team_wait_others(teams[0], team_index(teams[0]), 0);
  expect_rung("who waits");
}

Test(team_nap, a_send_rings_and_from_then_on_nobody_naps) {
  struct member send = {.count = 1, .root = 1, .kind = MEMBER_SEND, .datatype = 7};
  cr_expect(team_may_nap(teams[1]));
  cr_assert_eq(team_post(teams[0], &(struct posts){.members = &send, .nmembers = 1}), POST_DONE);
  expect_rung("a send");
  cr_expect_not(team_may_nap(teams[1]));
}

Test(team_nap, what_comes_next_is_foreseen_at_its_place) {
  cr_assert(team_foresees(teams[1], &got));
  cr_expect(unit_equal(got, unit(&A)));
  uint32_t place = team_loop_place(teams[1]);
  cr_expect_neq(place, 0);
  cr_assert(team_commit(teams[0], unit(&A)));
  nap();
  cr_expect_eq(team_loop_place(teams[1]), place, "the loop is one unit long");
}

/* A copy of the learner that nobody can write to. It is not compared before and after: a learner
 * has memory that it has not written yet. */
static struct learner *fixed_learner(const struct learner *learner) {
  struct learner *fixed =
      mmap(NULL, sizeof *fixed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(fixed, MAP_FAILED);
  memcpy(fixed, learner, sizeof *fixed);
  cr_assert_eq(mprotect(fixed, sizeof *fixed, PROT_READ), 0);
  return fixed;
}

/* It asks all that following asks, and changes nothing: of the learner it cannot, here. */
Test(team_nap, a_rehearsal_has_no_effect) {
  static struct team team;
  for (int i = 0; i < 4 * LAGS_CALM; i++) {
    cr_assert(team_commit(teams[0], unit(&A)) && team_commit(teams[2], unit(&A)));
    nap();
  }
  struct learner *learner = teams[1]->learner, *fixed = fixed_learner(learner);
  teams[1]->learner = fixed;
  memcpy(&team, teams[1], sizeof team);
  team_rehearse(teams[1]);
  cr_expect(team_rehearse_expecting(teams[1]), "what comes after the next is asked");
  cr_expect_not(team_rehearse_following(teams[1]), "A is not what rank 1 claims");
  cr_expect_eq(memcmp(&team, teams[1], sizeof team), 0);
  cr_expect_eq(planes_rings(memory), rings);
  teams[1]->learner = learner;
  cr_assert_eq(munmap(fixed, sizeof *fixed), 0);
}

Test(team_nap, a_place_outside_of_all_loops_has_a_name) {
  struct team *fresh = teams[1];
  learner_destroy(fresh->learner);
  fresh->learner = learner_create();
  fresh->symbol_expected = SYMBOL_NONE;
  cr_expect_neq(team_loop_place(fresh), 0);
  cr_expect_not(team_foresees(fresh, &got));
  team_rehearse(fresh);
}
