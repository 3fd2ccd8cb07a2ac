/* What may be asked of ranks without a part in the agreement (core/transport/plane_view.h), of
 * ranks in memory. */
#include "core/transport/plane_view.h"

#include <criterion/criterion.h>

#include "core/team/team_private.h"
#include "tests/unit/trio.h"

static void start(void) {
  trio_start();
  units();
}

TestSuite(plane_view, .init = start, .fini = trio_stop);

/* Of rank 1, as rank 0 sees it. */
static const struct plane *view(void) {
  return teams[0]->plane;
}

Test(plane_view, what_a_rank_has_passed_or_claims_is_seen) {
  uint64_t hash = 0;
  all_issue(&A);
  cr_assert_eq(plane_passed(view(), 1), 1);
  cr_assert_eq(plane_flags(view(), 1, 0) & ENTRY_REAL, ENTRY_REAL);
  cr_assert(plane_hash(view(), 1, 0, &hash));
  cr_assert_eq(hash, unit_hash(unit(&A)));
  cr_assert_not(plane_is_parked(view(), 1));
  cr_assert_not(plane_hash(view(), 1, 1, &hash), "it runs");
  team_claim(teams[1], unit(&B), 0, NULL);
  cr_assert(plane_is_parked(view(), 1));
  cr_assert(plane_hash(view(), 1, 1, &hash));
  cr_assert_eq(hash, unit_hash(unit(&B)));
}

Test(plane_view, what_a_rank_yields_is_nothing_that_it_wants) {
  uint64_t hash;
  team_yield(teams[1]);
  cr_assert(plane_is_parked(view(), 1));
  cr_assert_not(plane_hash(view(), 1, 0, &hash));
}

Test(plane_view, who_leaves_or_has_failed_is_seen) {
  cr_assert_not(plane_is_leaving(view(), 1));
  team_say_leaving(teams[1], true);
  cr_assert(plane_is_leaving(view(), 1));
  cr_assert_not(plane_is_leaving(view(), 2));
  cr_assert_not(plane_has_failed(view()));
  team_end(teams[2], RANK_FAILED);
  cr_assert(plane_has_failed(view()));
  cr_assert_eq(plane_state(view(), 2), RANK_FAILED);
  cr_assert_eq(plane_state(view(), 1), RANK_PRESENT);
}

Test(plane_view, since_when_it_waits_is_said_by_the_rank_itself) {
  cr_assert_eq(plane_parked_since(view(), 1), 0);
  plane_say_parked(teams[1]->plane, 77);
  cr_assert_eq(plane_parked_since(view(), 1), 77);
  cr_assert_eq(plane_parked_since(view(), 0), 0);
}

Test(plane_view, that_ranks_stand_aside_is_said_once_and_to_all) {
  cr_assert_not(team_is_apart(teams[1]));
  cr_assert(plane_set_apart(teams[0]->plane));
  cr_assert(team_is_apart(teams[1]));
  cr_assert_not(plane_set_apart(teams[2]->plane));
}

Test(plane_view, what_a_joined_rank_has_done_is_said_by_itself) {
  struct plane_joined joined = plane_joined(view(), 1, 1000);
  cr_assert(joined.shadows == 0 && joined.ms == 0);
  plane_say_joined(teams[1]->plane, (struct plane_joined){.shadows = 7, .ms = 100}, 900);
  joined = plane_joined(view(), 1, 1000);
  cr_assert_eq(joined.shadows, 7);
  cr_assert_eq(joined.ms, 200, "it is joined since 100 ms");
  plane_say_joined(teams[1]->plane, (struct plane_joined){.shadows = 7, .ms = 150}, 0);
  cr_assert_eq(plane_joined(view(), 1, 9000).ms, 150, "it is active");
  plane_say_joined(teams[1]->plane, (struct plane_joined){.shadows = 8, .ms = 150}, 1ull << 32);
  cr_assert_eq(plane_joined(view(), 1, (1ull << 32) + 5).ms, 154, "0 would be: it is active");
  cr_assert_eq(plane_joined(view(), 0, 9000).shadows, 0);
}

/* The lowest rank of a smaller team, whichever it is here, leaves to rank 0 what it has counted;
 * who comes too late is told so. */
Test(plane_view, what_smaller_teams_have_shadowed_is_left_to_rank_0) {
  cr_assert(plane_leave_parts(teams[1]->plane, (struct plane_parts){1, 7}));
  cr_assert(plane_leave_parts(teams[1]->plane, (struct plane_parts){2, 5}));
  cr_assert(plane_leave_parts(teams[0]->plane, (struct plane_parts){1, 1}));
  struct plane_parts parts = plane_take_parts(teams[0]->plane);
  cr_assert(parts.teams == 4 && parts.shadows == 13);
  cr_assert_not(plane_leave_parts(teams[2]->plane, (struct plane_parts){1, 7}));
}
