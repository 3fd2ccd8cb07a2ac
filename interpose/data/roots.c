/* The root of a Broadcast among ranks of which some have joined (roots.h). */
#include "interpose/comm/apart.h"
#include "interpose/data/roots.h"

#include "core/report/log.h"
#include "hooks/contribution.h"
#include "interpose/self/environment.h"
#include "interpose/data/membership.h"
#include "interpose/comm/report.h"

/* Whether a rank of the communicator is active at an index: as membership_of. */
static int is_active(const struct communicator *comm, uint64_t index, int rank) {
  uint64_t deadline_ms = 0;
  return membership_of(comm->end, index, comm->team_rank_of[rank], &deadline_ms);
}

/* Waits for nobody above it: such a rank may wait for what this one issues next. */
static int lowest_active(const struct communicator *comm, uint64_t index) {
  uint64_t deadline_ms = 0;
  int active = 0;
  for (int rank = 0; rank < comm->nranks && active >= 0; rank++) {
    active = membership_of(comm->end, index, comm->team_rank_of[rank], &deadline_ms);
    if (active > 0)
      return rank;
  }
  return -1;
}

/* Whether a Broadcast came at or after the index since which a rank, which has joined at `index`,
 * has issued nothing but shadows. */
static bool came_since_joined(const struct communicator *comm, uint64_t index, int rank,
                              const struct broadcast_from *broadcast) {
  return broadcast->after > team_joined_since(comm->end->team, index, comm->team_rank_of[rank]);
}

bool roots_can_tell(const struct communicator *comm, uint64_t index, int root) {
  struct team *team = comm->end->team;
  const struct broadcast_from *replaced = &comm->replaced_broadcast;
  bool active = true;
  enum team_verdict verdict = team_is_active(team, index, comm->team_rank_of[root], &active);
  for (int rank = 0; verdict == TEAM_REAL && !active && rank < comm->nranks; rank++)
    verdict = team_is_active(team, index, comm->team_rank_of[rank], &active);
  if (verdict == TEAM_REAL && replaced->after != 0)
    verdict = team_is_active(team, index, comm->team_rank_of[replaced->root], &active);
  return verdict != TEAM_PARKED;
}

static const struct broadcast_from *last_of_another(const struct communicator *comm, int root) {
  return comm->last_broadcast.root != root ? &comm->last_broadcast : &comm->other_broadcast;
}

/* The joined rank whose broadcasts and those of others are seen to alternate; or negative. */
static int find_missing(const struct communicator *comm, uint64_t index, int root, bool active) {
  const struct broadcast_from *replaced = &comm->replaced_broadcast;
  if (!active && came_since_joined(comm, index, root, last_of_another(comm, root)))
    return root;
  if (replaced->after != 0 && replaced->root != root &&
      is_active(comm, index, replaced->root) == 0 &&
      came_since_joined(comm, index, replaced->root, replaced))
    return replaced->root;
  return -1;
}

static void roots_remember(struct communicator *comm, uint64_t index, int root, bool active) {
  const struct broadcast_from broadcast = {.after = index + 1, .root = root};
  if (comm->last_broadcast.root != root)
    comm->other_broadcast = comm->last_broadcast;
  comm->last_broadcast = broadcast;
  if (!active)
    comm->replaced_broadcast = broadcast;
}

struct election roots_elect(struct communicator *comm, uint64_t index, int root) {
  struct election election = {.root = -1, .missing = -1};
  int active = is_active(comm, index, root);
  if (active < 0)
    return election;
  election.root = active ? root : lowest_active(comm, index);
  if (election.root >= 0 && join_settings()->lossy[LOSSY_ALLGATHER] == LOSSY_ERROR)
    election.missing = find_missing(comm, index, root, active);
  roots_remember(comm, index, root, active);
  return election;
}

/* Nobody is known to be the root. Where this call tells the program of an error of its own already,
 * a rank that is gone has ended of that. */
static ncclResult_t say_rootless(const struct communicator *comm, uint64_t index) {
  const struct endpoint *end = comm->end;
  if (membership_own_error_at(end, index))
    return ncclInvalidUsage;
  log_line_of(
      communicator_subject(comm), LOG_LEVEL_WARN,
      "no root for a broadcast: rank %u failed, or nobody came; ncclRemoteError. The log of "
      "that rank says why",
      end->team->failed.rank);
  return ncclRemoteError;
}

ncclResult_t roots_apply(struct call *call, struct unit unit, uint64_t index, bool *issue) {
  struct communicator *comm = communicator_find(call->handle);
  *issue = true;
  if (apart_is_set(comm->end) || contribution_gathers(unit, comm->tag))
    return ncclSuccess;
  struct election election = roots_elect(comm, index, call->root);
  if (election.root < 0) {
    *issue = false;
    return say_rootless(comm, index);
  }
  if (election.missing >= 0 && comm->refused_after != index + 1) /* once for a group */
    report_sharded(comm, index, call->root, election.missing);
  if (election.missing >= 0)
    comm->refused_after = index + 1;
  if (election.root != call->root && election.root == comm->rank)
    call->send = call->receive;
  call->root = election.root;
  return election.missing >= 0 ? ncclInvalidUsage : ncclSuccess;
}
