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
  if (join_settings()->lossy == LOSSY_ERROR && contribution_is_lossy(member, (uint32_t)comm->rank))
    team_report_lossy(end->team, member->kind);
}

bool shadows_collect(struct shadows *shadows, struct endpoint *end, struct unit unit) {
  char reason[REASON_SIZE] = "out of memory";
  uint64_t index = team_index(end->team);
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
    int root = member->root;
    if (member->kind == MEMBER_BROADCAST && (root = roots_elect(end, comm, index, root)) < 0)
      return false;
    report_lossy(end, member, comm);
    shadows->members[shadows->nmembers] = *member;
    shadows->targets[shadows->nmembers++] =
        (struct shadow_member){shadow, comm->handle, comm->rank, comm->nranks, root, NULL};
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
