/* Ringing for those who wait, and noting what went wrong: what all other files of the team call. */
#include "core/team/team_private.h"

struct known_unit team_nothing = {.nmembers = UINT32_MAX};

void team_fail(struct team *team, enum team_failure failure, uint32_t rank, uint64_t index) {
  if (team->failed.how != FAILURE_NONE)
    return;
  team->failed.how = failure;
  team->failed.rank = rank;
  team->failed.index = index;
}

void team_published(struct team *team) {
  if (plane_take_waiting(team->shared))
    team->plane->ring(team->plane);
}

void team_tell(struct team *team) {
  if (!plane_take_napping(team->shared)) {
    team_published(team);
    return;
  }
  (void)plane_take_waiting(team->shared);
  team->plane->ring(team->plane);
}
