/* Where the ranks of one team are in another: known by their identities, which two ranks on one
 * device of a process have in common. */
#include <criterion/criterion.h>

#include "core/overlap/overlap_private.h"
#include "tests/unit/planes.h"

enum { ALL = 5, SOME = 3 };

Test(overlap_ranks, are_found_by_their_identities_and_of_equal_ones_the_first) {
  static const uint64_t all[ALL] = {30, 10, 30, 20, 10}, some[SOME] = {10, 40, 30};
  static const uint32_t there[ALL] = {2, 0, 2, NOWHERE, 0}, back[SOME] = {1, NOWHERE, 0};
  struct planes *memories[] = {planes_create(ALL), planes_create(SOME)};
  struct team *teams[] = {team_create(planes_rank(memories[0], 0)),
                          team_create(planes_rank(memories[1], 2))};
  struct overlap *overlap = overlap_create(30);
  const struct overlap_team *first = overlap_add(overlap, teams[0], all);
  const struct overlap_team *second = overlap_add(overlap, teams[1], some);
  for (uint32_t rank = 0; rank < ALL; rank++)
    cr_expect_eq(overlap_rank_there(first, 1, rank), there[rank], "rank %u", rank);
  for (uint32_t rank = 0; rank < SOME; rank++)
    cr_expect_eq(overlap_rank_there(second, 0, rank), back[rank], "rank %u", rank);
  overlap_destroy(overlap);
  for (int at = 0; at < 2; at++) {
    team_destroy(teams[at]);
    planes_destroy(memories[at]);
  }
}
