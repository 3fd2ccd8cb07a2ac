/* A team that a rank has yet to come to: what is known of the rank is known from its other teams.
 */
#include <criterion/criterion.h>

#include "core/overlap/overlap.h"
#include "tests/unit/planes.h"

static const uint64_t identities[] = {10, 11};

/* Rank 1 is in the second team only. */
static struct planes *memories[2];
static struct team *teams[3];
static struct overlap *overlaps[2];
static struct overlap_team *second; /* of rank 0 */

static void start(void) {
  for (uint32_t at = 0; at < 2; at++)
    memories[at] = planes_create(2);
  for (uint32_t rank = 0; rank < 2; rank++)
    overlaps[rank] = overlap_create(identities[rank]);
  for (uint32_t at = 0; at < 2; at++) {
    teams[at] = team_create(planes_rank(memories[at], 0));
    cr_assert_not_null(second = overlap_add(overlaps[0], teams[at], identities));
  }
  teams[2] = team_create(planes_rank(memories[1], 1));
  cr_assert_not_null(overlap_add(overlaps[1], teams[2], identities));
}

static void stop(void) {
  for (uint32_t rank = 0; rank < 2; rank++)
    overlap_destroy(overlaps[rank]);
  for (uint32_t i = 0; i < 3; i++)
    team_destroy(teams[i]);
  for (uint32_t at = 0; at < 2; at++)
    planes_destroy(memories[at]);
}

TestSuite(overlap_absent, .init = start, .fini = stop);

static void claim_mark(void) {
  static const struct member mark = {
      .root = ROOT_NONE, .reduction = REDUCTION_NONE, .kind = MEMBER_MARK, .number = 3};
  team_claim(teams[0], (struct unit){&mark, 1}, 0, NULL);
  overlap_park(overlaps[0], 1000);
}

Test(overlap_absent, who_is_at_work_has_yet_to_come) {
  claim_mark();
  cr_assert_leq(overlap_quiet(overlaps[0], 1500), 1);
}

Test(overlap_absent, who_waits_elsewhere_is_known_to_wait) {
  claim_mark();
  log_say_busy(teams[2]->own, 1100); /* as a rank that is parked says it in all its teams */
  cr_assert_eq(overlap_quiet(overlaps[0], 1500), 400);
}

/* What it issues there comes before that to which it has yet to come. */
Test(overlap_absent, what_it_goes_on_with_is_answered) {
  static const struct member sum = {
      .count = 3, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
  struct unit unit;
  claim_mark();
  overlap_look(overlaps[0], 0);
  team_claim(teams[2], (struct unit){&sum, 1}, 0, NULL);
  cr_assert(overlap_answers(second));
  cr_assert_eq(team_poll(teams[2], &unit), TEAM_REAL);
  cr_assert_eq(team_poll(teams[1], &unit), TEAM_SHADOW);
}
