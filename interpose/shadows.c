/* The shadows of one round (shadows.h). */
#include "interpose/shadows.h"

#include <stdlib.h>

#include "core/log.h"
#include "hooks/contribution.h"
#include "interpose/environment.h"
#include "interpose/real.h"
#include "interpose/report.h"
#include "interpose/roots.h"

static bool reserve(struct shadows *shadows, uint32_t more) {
  if (shadows->nmembers + more <= shadows->room)
    return true;
  uint32_t room = 2 * (shadows->nmembers + more);
  struct member *members = realloc(shadows->members, room * sizeof(*members));
  if (members != NULL)
    shadows->members = members;
  struct shadow_member *targets = realloc(shadows->targets, room * sizeof(*targets));
  if (targets != NULL)
    shadows->targets = targets;
  if (members == NULL || targets == NULL)
    return false;
  shadows->room = room;
  return true;
}

static struct shadow *endpoint_shadow(struct endpoint *end, char *reason) {
  if (end->shadow == NULL) {
    const struct cuda_driver *cuda = cuda_driver_get(reason);
    end->shadow = cuda == NULL ? NULL : shadow_create(cuda, end->device, reason);
  }
  return end->shadow;
}

static void report_lossy(struct endpoint *end, const struct member *member,
                         const struct communicator *comm) {
  if (join_settings()->lossy != LOSSY_ERROR || !contribution_is_lossy(member, (uint32_t)comm->rank))
    return;
  if (member_is_point_to_point(member->kind))
    team_report_lossy_post(end->team, member->kind, (uint32_t)member->root);
  else
    team_report_lossy(end->team, member->kind);
}

/* The rank in the communicator that a member is to be issued with; negative if there is none. */
static int root_of(struct endpoint *end, const struct communicator *comm, uint64_t index,
                   const struct member *member) {
  if (member->kind == MEMBER_BROADCAST)
    return roots_elect(end, comm, index, member->root);
  if (!member_is_point_to_point(member->kind))
    return member->root;
  int rank = comm->nranks - 1;
  while (rank >= 0 && comm->team_rank_of[rank] != (uint32_t)member->root)
    rank--;
  return rank;
}

bool shadows_collect(struct shadows *shadows, struct endpoint *end, struct unit unit) {
  char reason[REASON_SIZE] = "out of memory";
  /* Mirrors stand before the next unit. */
  bool mirrors = unit.nmembers > 0 && member_is_point_to_point(unit.members[0].kind);
  uint64_t index = mirrors ? end->team->head : team_index(end->team);
  report_shadow(end, index, unit);
  struct shadow *shadow = endpoint_shadow(end, reason);
  if (shadow == NULL || !reserve(shadows, unit.nmembers)) {
    log_line(LOG_LEVEL_WARN, "no shadow can be issued: %s", reason);
    return false;
  }
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    const struct communicator *comm = endpoint_communicator(end, member->comm);
    if (comm == NULL) {
      log_line(LOG_LEVEL_WARN, "a peer uses a communicator that this rank has destroyed already");
      return false;
    }
    if (comm->unfit != NULL) {
      log_line(LOG_LEVEL_WARN, "no shadow can be issued on communicator %08x after %s", comm->tag,
               comm->unfit);
      return false;
    }
    int root = root_of(end, comm, index, member);
    if (root < 0 && member->root != ROOT_NONE)
      return false;
    report_lossy(end, member, comm);
    shadows->members[shadows->nmembers] = *member;
    shadows->targets[shadows->nmembers++] =
        (struct shadow_member){shadow, comm->handle, comm->rank, comm->nranks, root, NULL, NULL};
  }
  return true;
}

static struct nccl_calls real_calls(void) {
  real_resolve();
  struct nccl_calls calls = {
      .AllReduce = real.AllReduce,
      .Broadcast = real.Broadcast,
      .Reduce = real.Reduce,
      .AllGather = real.AllGather,
      .ReduceScatter = real.ReduceScatter,
      .AlltoAll = real.AlltoAll,
      .Gather = real.Gather,
      .Scatter = real.Scatter,
      .Send = real.Send,
      .Recv = real.Recv,
      .GroupStart = real.GroupStart,
      .GroupEnd = real.GroupEnd,
      .RedOpCreatePreMulSum = real.RedOpCreatePreMulSum,
      .RedOpDestroy = real.RedOpDestroy,
      .CommGetAsyncError = real.CommGetAsyncError,
  };
  return calls;
}

bool shadows_issue(struct shadows *shadows, const struct shadow_limit *limit) {
  if (shadows->nmembers == 0)
    return true;
  struct nccl_calls calls = real_calls();
  struct unit unit = {shadows->members, shadows->nmembers};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_issue(&calls, unit, shadows->targets, limit, reason);
  if (result != ncclSuccess)
    report_shadow_failure(unit, reason);
  shadows->nmembers = 0;
  return result == ncclSuccess;
}

void shadows_free(struct shadows *shadows) {
  free(shadows->members);
  free(shadows->targets);
}
