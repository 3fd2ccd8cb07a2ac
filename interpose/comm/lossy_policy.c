/* NCCL_JOIN_LOSSY for the members of a unit (lossy_policy.h). */
#include "interpose/comm/lossy_policy.h"

#include "hooks/contribution.h"
#include "interpose/comm/communicator.h"
#include "interpose/self/environment.h"

enum lossy_policy lossy_policy_of(uint8_t kind) {
  enum lossy_kind lossy = contribution_lossy_kind(kind);
  return lossy == LOSSY_KINDS ? LOSSY_ZERO : join_settings()->lossy[lossy];
}

static bool may_be_lossy(struct unit unit, const struct member *member) {
  if (member_elects_root(member->kind))
    return contribution_gathers(unit, member->comm);
  return contribution_lossy_kind(member->kind) != LOSSY_KINDS;
}

const struct member *lossy_strict_member(struct unit unit) {
  const struct member *end = unit.members + unit.nmembers;
  for (const struct member *member = unit.members; member < end; member++)
    if (lossy_policy_of(member->kind) == LOSSY_ERROR && may_be_lossy(unit, member))
      return member;
  return NULL;
}

bool lossy_is_spoilt_by(void *context, struct unit unit, uint32_t team_rank) {
  const struct endpoint *end = context;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    if (lossy_policy_of(unit.members[i].kind) != LOSSY_ERROR)
      continue;
    const struct communicator *comm = endpoint_communicator(end, unit.members[i].comm);
    for (int rank = 0; comm != NULL && rank < comm->nranks; rank++)
      if (comm->team_rank_of[rank] == team_rank && contribution_is_lossy(unit, i, (uint32_t)rank))
        return true;
  }
  return false;
}

bool lossy_remembers(void) {
  for (int kind = 0; kind < LOSSY_KINDS; kind++)
    if (join_settings()->lossy[kind] == LOSSY_LAST)
      return true;
  return false;
}
