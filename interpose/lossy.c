/* What NCCL_JOIN_LOSSY means for the members of a unit (lossy.h). */
#include "interpose/lossy.h"

#include "hooks/contribution.h"
#include "interpose/environment.h"

enum lossy_policy lossy_policy_of(uint8_t kind) {
  enum lossy_kind lossy = contribution_lossy_kind(kind);
  return lossy == LOSSY_KINDS ? LOSSY_ZERO : join_settings()->lossy[lossy];
}

static bool may_be_lossy(struct unit unit, const struct member *member) {
  if (member->kind == MEMBER_BROADCAST)
    return contribution_gathers(unit, member->comm);
  return contribution_lossy_kind(member->kind) != LOSSY_KINDS;
}

const struct member *lossy_strict_member(struct unit unit) {
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (lossy_policy_of(unit.members[i].kind) == LOSSY_ERROR &&
        may_be_lossy(unit, &unit.members[i]))
      return &unit.members[i];
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

void lossy_tell(struct endpoint *end, struct unit unit, uint32_t place,
                const struct communicator *comm) {
  const struct member *member = &unit.members[place];
  if (lossy_policy_of(member->kind) != LOSSY_ERROR ||
      !contribution_is_lossy(unit, place, (uint32_t)comm->rank))
    return;
  if (member_is_point_to_point(member->kind))
    team_report_lossy_post(end->team, member->kind, (uint32_t)member->root);
  else
    team_report_lossy(end->team, member->kind);
}
