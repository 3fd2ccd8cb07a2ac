/* What NCCL_JOIN_LOSSY means for the members of a unit (lossy.h). */
#include "interpose/data/lossy.h"

#include "hooks/contribution.h"
#include "hooks/own_send.h"
#include "interpose/self/environment.h"
#include "interpose/comm/report.h"

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

/* ---- last ---- */

bool lossy_remembers(void) {
  for (int kind = 0; kind < LOSSY_KINDS; kind++)
    if (join_settings()->lossy[kind] == LOSSY_LAST)
      return true;
  return false;
}

/* A mirror does not stand in the unit that the rank's own send stood in. */
static uint64_t key_of(const struct lossy_member *of) {
  const struct member *member = &of->unit.members[of->place];
  if (member_is_point_to_point(member->kind))
    return unit_hash((struct unit){member, 1});
  return of->hash + of->place;
}

static bool is_lossy(const struct lossy_member *of) {
  return contribution_is_lossy(of->unit, of->place, (uint32_t)of->comm->rank);
}

void lossy_remember(const struct lossy_member *of, const void *send) {
  if (lossy_policy_of(of->unit.members[of->place].kind) == LOSSY_LAST && is_lossy(of))
    sent_note(of->end->sent, key_of(of), send);
}

static size_t bytes_of(const struct lossy_member *of) {
  const struct member *member = &of->unit.members[of->place];
  uint32_t nranks = (uint32_t)of->comm->nranks;
  return contribution_send_count(member, (uint32_t)of->comm->rank, nranks) *
         contribution_fill(member).size;
}

/* NULL if there is nothing to send: logged. */
static const void *last_send(const struct lossy_member *of, struct shadow *shadow,
                             cudaStream_t program) {
  char reason[REASON_SIZE];
  bool told = true;
  const void *send = sent_next(of->end->sent, key_of(of), &told);
  if (send == NULL) {
    report_no_last(of->end, of->unit, of->place, "it has not made this call itself");
    return NULL;
  }
  if (!own_send_is_there(shadow, send, bytes_of(of))) {
    report_no_last(of->end, of->unit, of->place, "the buffer that its own call used is gone");
    return NULL;
  }
  if (!own_send_follows(shadow, program, reason)) {
    report_no_last(of->end, of->unit, of->place, reason);
    return NULL;
  }
  if (!told)
    report_last_untold(of->end, of->unit, of->place);
  of->end->reads_program = true;
  return send;
}

const void *lossy_send(const struct lossy_member *of, struct shadow *shadow, cudaStream_t program) {
  const struct member *member = &of->unit.members[of->place];
  enum lossy_policy policy = lossy_policy_of(member->kind);
  const void *send = NULL;
  if (!is_lossy(of) || policy == LOSSY_ZERO)
    return NULL;
  if (policy == LOSSY_LAST && (send = last_send(of, shadow, program)) != NULL)
    return send;
  if (member_is_point_to_point(member->kind))
    team_report_lossy_post(of->end->team, member->kind, (uint32_t)member->root);
  else
    team_report_lossy(of->end->team, member->kind);
  return NULL;
}

void lossy_return(struct endpoint *end, cudaStream_t program) {
  if (end->reads_program)
    own_send_precedes(end->shadow, program, NULL);
  end->reads_program = false;
}
