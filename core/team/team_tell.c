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
  uint64_t attention = atomic_load(&team->shared->attention);
  if ((attention & PLANE_WAITING) != 0 &&
      (atomic_fetch_and(&team->shared->attention, ~PLANE_WAITING) & PLANE_WAITING) != 0)
    team->plane->ring(team->plane);
}

void team_tell(struct team *team) {
  if (atomic_load(&team->shared->napping) == 0 || atomic_exchange(&team->shared->napping, 0) == 0) {
    team_published(team);
    return;
  }
  atomic_fetch_and(&team->shared->attention, ~PLANE_WAITING);
  team->plane->ring(team->plane);
}
