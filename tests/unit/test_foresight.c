/* A rank looks up ahead what it may commit, and learns later what it has committed: nobody must be
 * able to tell. */
#include <criterion/criterion.h>

#include "core/predict/learner.h"
#include "core/transport/plane_memory.h"
#include "core/team/team.h"
#include "tests/unit/traces.h"

enum { RANKS = 2 };

static struct plane_memory *memory;
static struct team *committer, *follower;

static void start(void) {
  memory = plane_memory_create(RANKS);
  committer = team_create(plane_memory_rank(memory, 0));
  follower = team_create(plane_memory_rank(memory, 1));
}

static void stop(void) {
  team_destroy(committer);
  team_destroy(follower);
  plane_memory_destroy(memory);
}

TestSuite(foresight, .init = start, .fini = stop);

static struct member member(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

static struct unit unit(const struct member *of) {
  return (struct unit){of, 1};
}

/* Both want the unit and get it. */
static void both(const struct member *of) {
  struct unit got;
  if (!team_commit(committer, unit(of)))
    team_claim(committer, unit(of), 0, NULL);
  if (!team_commit(follower, unit(of)))
    team_claim(follower, unit(of), 0, NULL);
  if (follower->claim.open)
    cr_assert_eq(team_poll(follower, &got), TEAM_REAL);
  if (committer->claim.open)
    cr_assert_eq(team_poll(committer, &got), TEAM_REAL);
}

static void check_alike(void) {
  team_catch_up(committer);
  team_catch_up(follower);
  cr_assert_eq(committer->head, follower->head);
  cr_assert_eq(committer->symbol_expected, follower->symbol_expected, "index %lu", committer->head);
  cr_assert_eq((*committer->expected)->hash, (*follower->expected)->hash, "index %lu",
               committer->head);
}

enum { NEW = 1100 };

/* The follower is parked on a unit of its own while the committer does whole rounds of the body. */
static void rounds_alone(uint64_t body, uint64_t *next_new) {
  struct unit got;
  struct member last = member((*next_new)++);
  team_claim(follower, unit(&last), 0, NULL);
  for (uint64_t i = 0; i < 6 * body + 3; i++) {
    struct member of = member(1 + i % body);
    cr_assert(team_commit(committer, unit(&of)));
    while (i % 7 == 0 && team_poll(follower, &got) == TEAM_SHADOW)
      ;
  }
  while (team_poll(follower, &got) == TEAM_SHADOW)
    ;
  team_claim(committer, unit(&last), 0, NULL);
  cr_assert_eq(team_poll(committer, &got), TEAM_REAL);
  cr_assert_eq(team_poll(follower, &got), TEAM_REAL);
}

/* A rank that follows looks every unit up and marks it used; one that commits does so later and all
 * at once. Then come more new units than the table can hold, and what has not been used is
 * forgotten: by both or by none. */
static void forget(uint64_t body) {
  uint64_t next_new = 100000;
  for (int cycle = 0; cycle < 4; cycle++) {
    for (uint64_t i = 0; i < 4 * body; i++) {
      struct member of = member(1 + i % body);
      both(&of);
    }
    rounds_alone(body, &next_new);
    for (int i = 0; i < NEW; i++) {
      struct member of = member(next_new++);
      both(&of);
    }
    for (uint64_t i = 0; i < body; i++) {
      struct member of = member(1 + i);
      cr_assert_eq(unit_table_find(committer->table, unit(&of)),
                   unit_table_find(follower->table, unit(&of)), "cycle %d, unit %lu", cycle, i);
    }
    check_alike();
  }
}

Test(foresight, tables_forget_alike) {
  forget(40);
}
Test(foresight, tables_forget_alike_after_whole_rounds) {
  forget(8);
}

/* What has been committed in whole rounds has been used, though nobody looked it up. */
Test(foresight, whole_rounds_count_as_uses) {
  enum { BODY = 4 };
  for (uint64_t i = 0; i < 4 * BODY; i++)
    both(&(struct member){.count = 1 + i % BODY, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE});
  struct unit got;
  struct member last = member(77);
  team_claim(follower, unit(&last), 0, NULL);
  struct member of[BODY];
  for (uint64_t i = 0; i < BODY; i++)
    of[i] = (struct member){.count = 1 + i, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE};
  for (uint64_t i = 0; i < BODY; i++) {
    symbol_t symbol = unit_table_find(committer->table, unit(&of[i]));
    unit_table_known(committer->table, symbol)->used = false;
  }
  for (uint64_t i = 0; i < 20 * BODY + 1; i++)
    cr_assert(team_commit(committer, unit(&of[i % BODY])));
  for (uint64_t i = 0; i < BODY; i++) {
    symbol_t symbol = unit_table_find(committer->table, unit(&of[i]));
    cr_assert(unit_table_known(committer->table, symbol)->used, "unit %lu", i);
  }
  while (team_poll(follower, &got) == TEAM_SHADOW)
    ;
}

/* Where ranks have once waited for each other, nobody goes ahead, however regular it looks. */
Test(foresight, ends_where_ranks_meet) {
  struct member A = member(1), C = member(2);
  struct unit got;
  for (int i = 0; i < 12; i++)
    both(&A);
  team_claim(follower, unit(&C), 0, NULL);
  cr_assert(team_commit(committer, unit(&A)));
  cr_assert_eq(team_poll(follower, &got), TEAM_SHADOW);
  team_claim(committer, unit(&C), 0, NULL);
  cr_assert_eq(team_poll(committer, &got), TEAM_REAL);
  cr_assert_eq(team_poll(follower, &got), TEAM_REAL);
  for (int epoch = 0; epoch < 12; epoch++) {
    for (int i = 0; i < 5; i++)
      both(&A);
    both(&C);
  }
  cr_assert_eq(learner_body_length(committer->learner), 6);
  for (int i = 0; i < 5; i++)
    both(&A);
  cr_assert_not(team_commit(committer, unit(&C)));
}

/* On the streams of real programs, and with steps put off for any while. */
Test(foresight, steps_at_once_are_steps_one_by_one) {
  uint64_t random = 1;
  for (int at_once = 1; at_once <= 128; at_once += 9) {
    struct learner *one = learner_create(), *many = learner_create();
    uint32_t pending = 0;
    symbol_t ahead[128];
    for (uint32_t i = 0; i < 20000; i++) {
      symbol_t symbol = 1 + i % 30;
      if (i % 211 == 0 || (i > 12000 && i % 30 == 7))
        symbol = 50 + i % 3;
      bool foreseen = false;
      if (pending < (uint32_t)at_once && trace_random(&random, 20) != 0) {
        uint32_t n = learner_foresee(many, ahead, pending + 1);
        foreseen = n == pending + 1 && ahead[pending] == symbol;
      }
      if (foreseen) {
        pending++;
      } else {
        learner_steps_expected(many, pending);
        pending = 0;
        learner_step(many, symbol, symbol);
      }
      learner_step(one, symbol, symbol);
      if (pending == 0)
        cr_assert_eq(learner_expected(one), learner_expected(many), "unit %u", i);
    }
    learner_steps_expected(many, pending);
    cr_assert_eq(learner_expected(one), learner_expected(many));
    cr_assert_eq(learner_is_firm(one), learner_is_firm(many));
    cr_assert_eq(learner_body_length(one), learner_body_length(many));
    cr_assert(learner_is_valid(many));
    for (uint64_t back = 0; back < 20000; back++)
      cr_assert_eq(learner_symbol(one, back), learner_symbol(many, back));
    cr_assert_eq(learner_symbol(one, 20000), SYMBOL_NONE);
    learner_destroy(one);
    learner_destroy(many);
  }
}

/* In whole rounds, without looking anything up again, and no further than to where all must meet.
 */
Test(foresight, whole_rounds_are_committed_again) {
  struct member of[3] = {member(1), member(2), member(3)};
  for (int i = 0; i < 12; i++)
    both(&of[i % 3]);
  for (int i = 0; i < 1500; i++)
    cr_assert(team_commit(committer, unit(&of[i % 3])), "unit %d", i);
  cr_assert_gt(committer->ahead.rounds, 0);
  cr_assert_eq(committer->ahead.rounds % 3, 0);
  cr_assert_not(team_commit(committer, unit(&of[1])));
  struct unit got;
  struct member other = member(4);
  team_claim(follower, unit(&other), 0, NULL);
  for (int i = 0; i < 1500; i++) {
    cr_assert_eq(team_poll(follower, &got), TEAM_SHADOW);
    cr_assert(unit_equal(got, unit(&of[i % 3])));
  }
  cr_assert_eq(team_poll(follower, &got), TEAM_PARKED);
  check_alike();
}

/* Nothing is looked up again where only the log was full. */
Test(foresight, room_in_the_log_costs_no_look_ahead) {
  struct member of[3] = {member(1), member(2), member(3)};
  struct unit got;
  for (int i = 0; i < 1500; i++)
    both(&of[i % 3]);
  struct member other = member(4);
  team_claim(follower, unit(&other), 0, NULL);
  while (committer->head < committer->limit)
    cr_assert(team_commit(committer, unit(&of[committer->head % 3])));
  const struct known_unit *const *at = (const struct known_unit *const *)committer->expected;
  cr_assert_neq(*at, &team_nothing);
  while (team_poll(follower, &got) == TEAM_SHADOW)
    ;
  cr_assert(team_commit(committer, unit(&of[committer->head % 3])));
  cr_assert_eq((const struct known_unit *const *)committer->expected, at + 1);
}
