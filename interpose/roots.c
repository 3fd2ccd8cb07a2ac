/* The root of a Broadcast among ranks of which some have joined (roots.h). */
#include "interpose/roots.h"

#include <stdlib.h>

#include "core/log.h"
#include "hooks/contribution.h"
#include "interpose/environment.h"
#include "interpose/patience.h"

/* One turn of a wait for other ranks to pass an index; false if it has lasted too long or has been
 * broken off. */
static bool wait_for(struct endpoint *end, uint64_t index, uint64_t *deadline_ms) {
  uint64_t now = now_ms();
  if (*deadline_ms == 0)
    *deadline_ms = now + join_settings()->timeout_s * 1000;
  team_wait_others(end->team, index, WAIT_ALONE_MS);
  if (now_ms() - now >= WAIT_ALONE_MS)
    team_look_for_the_dead(end->team);
  return now < *deadline_ms && !atomic_load(&end->broken);
}

static int lowest_active(const struct communicator *comm, const bool *active) {
  for (int rank = 0; rank < comm->nranks; rank++)
    if (active[comm->team_rank_of[rank]])
      return rank;
  return -1;
}

int roots_elect(struct endpoint *end, const struct communicator *comm, uint64_t index, int root) {
  uint64_t deadline_ms = 0;
  bool active = false;
  enum team_verdict verdict;
  while ((verdict = team_is_active(end->team, index, comm->team_rank_of[root], &active)) ==
         TEAM_PARKED)
    if (!wait_for(end, index, &deadline_ms))
      return -1;
  if (verdict == TEAM_REAL && active)
    return root;
  bool *all = calloc(end->team->plane->nranks, sizeof(*all));
  int elected = -1;
  if (all != NULL && verdict == TEAM_REAL) {
    while ((verdict = team_active(end->team, index, all)) == TEAM_PARKED &&
           wait_for(end, index, &deadline_ms))
      ;
    if (verdict == TEAM_REAL)
      elected = lowest_active(comm, all);
  }
  free(all);
  return elected;
}

bool roots_apply(struct call *call, const struct wish *wish) {
  struct communicator *comm = communicator_find(call->handle);
  if (contribution_gathers(wish->unit, comm->tag))
    return true;
  int root = roots_elect(comm->end, comm, wish->index, call->root);
  if (root < 0) {
    log_line(LOG_LEVEL_WARN,
             "no root for a broadcast: rank %u failed, or nobody came; ncclRemoteError",
             comm->end->team->failure_rank);
    return false;
  }
  if (root != call->root && root == comm->rank)
    call->send = call->receive;
  call->root = root;
  return true;
}
