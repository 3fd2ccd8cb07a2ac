/* Who claims in one team while it is in another: what it passes first. Ranks 0 and 1 are in both
 * teams. Rank 2 goes on in the loop of all. */
#include <criterion/criterion.h>

#include "tests/unit/crossing.h"

enum { ALL, FIRST }; /* of all ranks; of 0 and 1 */

/* Rank 0 claims what all expect; then rank 2 issues that. */
static void claim_what_another_issues(void) {
  crossing_claim(0, ALL, 10);
  struct member of = crossing_member(10);
  cr_assert(team_commit(crossing_teams[2][ALL], (struct unit){&of, 1}));
}

static void make_teams(uint32_t nranks_of_the_first) {
  crossing_add(ALL, 3, (const uint32_t[]){0, 1, 2});
  crossing_add(FIRST, nranks_of_the_first, (const uint32_t[]){0, 1, 2});
  for (int i = 0; i < 12; i++)
    crossing_commit(ALL, 10);
}

/* Before that rank 1 claims in the other team, and rank 0 yields to it. */
static void begin(uint32_t nranks_of_the_first) {
  make_teams(nranks_of_the_first);
  crossing_claim(1, FIRST, 1000);
  team_yield(crossing_teams[0][FIRST]);
  claim_what_another_issues();
}

TestSuite(overlap_yields, .fini = crossing_stop);

/* All have claimed it: rank 1 may issue it at any moment, and what rank 0 claims afterwards. */
Test(overlap_yields, what_it_has_yielded_to_comes_first) {
  begin(2);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_PARKED);
  cr_assert_eq(crossing_poll(1, FIRST), TEAM_REAL);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_PARKED);
  cr_assert_eq(crossing_poll(0, FIRST), TEAM_SHADOW);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_PARKED, "rank 1 may have more of them");
  crossing_claim(1, ALL, 10);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL);
}

Test(overlap_yields, but_not_where_its_peer_has_passed_the_claim_before) {
  begin(2);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_PARKED);
  cr_assert_eq(crossing_poll(1, ALL), TEAM_SHADOW);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL);
}

Test(overlap_yields, nor_where_its_peer_has_come_to_the_claim) {
  begin(2);
  team_yield(crossing_teams[1][ALL]);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL);
}

Test(overlap_yields, nor_where_another_peer_has_passed_the_claim_before) {
  begin(3);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL, "before rank 2 comes to the other");
}

/* Rank 1 may skip the rest of its iteration, and what all do in it: rank 0 answers it then. */
Test(overlap_yields, a_claim_waits_for_a_peer_of_both_without_a_yield_too) {
  make_teams(2);
  claim_what_another_issues();
  cr_assert_eq(crossing_poll(0, ALL), TEAM_PARKED);
  crossing_claim(1, ALL, 10);
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL);
}

Test(overlap_yields, its_claim_waits_for_no_peer_of_one_team_alone) {
  make_teams(1);
  claim_what_another_issues();
  cr_assert_eq(crossing_poll(0, ALL), TEAM_REAL);
}
