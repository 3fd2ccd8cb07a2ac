/* The root of a Broadcast among ranks of which some have joined (roots.h). */
#include "interpose/roots.h"

#include <stdlib.h>

#include "core/log.h"
#include "hooks/contribution.h"
#include "interpose/membership.h"

static int lowest_active(const struct communicator *comm, const bool *active) {
  for (int rank = 0; rank < comm->nranks; rank++)
    if (active[comm->team_rank_of[rank]])
      return rank;
  return -1;
}

int roots_elect(struct endpoint *end, const struct communicator *comm, uint64_t index, int root) {
  uint64_t deadline_ms = 0;
  int active = membership_of(end, index, comm->team_rank_of[root], &deadline_ms);
  if (active != 0)
    return active < 0 ? -1 : root;
  bool *all = calloc(end->team->plane->nranks, sizeof(*all));
  int elected = -1;
  if (all != NULL && membership_of_all(end, index, all, &deadline_ms) >= 0)
    elected = lowest_active(comm, all);
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
