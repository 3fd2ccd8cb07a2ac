/* The invariants that debug builds assert: each one that is broken is seen. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/predict/learner_body.h"
#include "core/predict/learner_lags.h"
#include "tests/unit/planes.h"
#include "core/transport/segment.h"
#include "core/team/team.h"
#include "tests/unit/segment_stage.h"

/* Says that it holds, breaks it, says that it no longer does, and mends it. */
#define BROKEN(is_valid, place, value)                                                             \
  do {                                                                                             \
    __typeof__(place) kept_ = (place);                                                             \
    cr_assert(is_valid);                                                                           \
    (place) = (value);                                                                             \
    cr_expect_not(is_valid, "%s = %s is not seen", #place, #value);                                \
    (place) = kept_;                                                                               \
  } while (0)

Test(invariants, of_a_team) {
  struct planes *memory = planes_create(2);
  struct team *team = team_create(planes_rank(memory, 0));
  struct member member = {.count = 1, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE};
  BROKEN(team_is_valid(team), team->own, planes_rank(memory, 0)->logs[1]);
  BROKEN(team_is_valid(team), team->head, team->limit + 1);
  BROKEN(team_is_valid(team), team->expected, team->ahead.foreseen - 1);
  BROKEN(team_is_valid(team), team->expected, team->ahead.foreseen + TEAM_FORESEEN + 1);
  BROKEN(team_is_valid(team), team->ahead.foreseen[0], NULL);
  team_claim(team, (struct unit){&member, 1}, 0, NULL);
  BROKEN(team_is_valid(team), team->claim.hash, 0);
  atomic_store(&team->own->head, team->limit + 1);
  team->head = team->limit + 1;
  cr_expect_not(team_is_valid(team), "a head beyond the limit is not seen");
  team_destroy(team);
  planes_destroy(memory);
}

Test(invariants, of_a_segment, .init = stage_set_up, .fini = stage_tear_down) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  struct segment_map *map = segment->map;
  BROKEN(segment_map_is_valid(map), map->base, NULL);
  BROKEN(segment_map_is_valid(map), map->handles, 2);
  BROKEN(segment_map_is_valid(map), map->bytes, map->bytes + 1);
  int fd = atomic_exchange(&map->fd, -1);
  cr_expect_not(segment_map_is_valid(map));
  atomic_store(&map->fd, fd);
  uint32_t slots = map->slots;
  map->slots = 0;
  cr_expect_not(segment_map_is_valid(map));
  _Atomic bool *own = map->own;
  map->own = calloc(PLANE_RANKS_MAX + 1, sizeof(*own));
  map->slots = PLANE_RANKS_MAX + 1;
  cr_expect_not(segment_map_is_valid(map));
  free((void *)map->own);
  map->own = own;
  map->slots = slots;
  segment_detach(segment);
}

Test(invariants, of_a_body) {
  static struct body body;
  body.length = 2;
  for (uint32_t i = 0; i < body.length; i++)
    body.event[i] = (struct event){7, 7};
  BROKEN(body_is_valid(&body), body.length, LEARNER_BODY_MAX + 1);
  BROKEN(body_is_valid(&body), body.cursor, 2);
  BROKEN(body_is_valid(&body), body.event[1].symbol, SYMBOL_NONE);
  BROKEN(body_is_valid(&body), body.flags[1], 0x80);
}

/* Two symbols in turn, long enough for a hypothesis of lag 2. */
Test(invariants, of_hypotheses) {
  static struct lags lags;
  for (uint32_t i = 0; i < 64; i++) {
    lags_append(&lags, (struct event){1 + i % 2, 1 + i % 2});
    lags_look(&lags);
  }
  lags_check(&lags);
  struct lag *lag = NULL, *other = NULL;
  for (int i = 0; i < LAGS_HYPOTHESES; i++)
    if (lags.lag[i].lag == 2)
      lag = &lags.lag[i];
    else if (lags.lag[i].lag == 0)
      other = &lags.lag[i];
  cr_assert(lag && other);
  BROKEN(lags_is_valid(&lags), lags.checked, lags.position + 1);
  BROKEN(lags_is_valid(&lags), lags.hashed, lags.position + 1);
  BROKEN(lags_is_valid(&lags), lags.credit.steps, CREDIT_MAX + 1);
  BROKEN(lags_is_valid(&lags), lag->lag, UINT32_MAX);
  BROKEN(lags_is_valid(&lags), lag->lag, 64);
  BROKEN(lags_is_valid(&lags), lag->lag, 1);
  BROKEN(lags_is_valid(&lags), lag->since, lag->exact_since + 1);
  BROKEN(lags_is_valid(&lags), lag->exact_since, lags.checked + 1);
  BROKEN(lags_is_valid(&lags), lag->trouble, 1000);
  BROKEN(lags_is_valid(&lags), lag->trouble_at, lags.checked + 1);
  BROKEN(lags_is_valid(&lags), lags.history[60].symbol, 9);
  BROKEN(lags_is_valid(&lags), lags.history[60].coarse, 9);
  BROKEN(lags_is_valid(&lags), *other, *lag);
}

/* What can be reached of it from outside. */
Test(invariants, of_a_learner) {
  struct learner *learner = learner_create();
  struct learner_next *next = (struct learner_next *)(void *)learner;
  BROKEN(learner_is_valid(learner), next->expected, 7);
  BROKEN(learner_is_valid(learner), next->firm, true);
  for (uint32_t i = 0; i < 32; i++)
    learner_step(learner, 1 + i % 2, 1 + i % 2);
  cr_assert_neq(learner_expected(learner), SYMBOL_NONE);
  BROKEN(learner_is_valid(learner), next->expected, 7);
  BROKEN(learner_is_valid(learner), next->firm, !next->firm);
  learner_destroy(learner);
}
