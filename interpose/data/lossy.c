/* What a joined rank sends (lossy.h). */
#include "interpose/data/lossy.h"

#include "hooks/contribution.h"
#include "hooks/own_send.h"
#include "interpose/self/environment.h"
#include "interpose/comm/report.h"

/* A mirror does not stand in the unit that the rank's own send stood in. */
static uint64_t key_of(const struct lossy_member *of) {
  const struct member *member = &of->unit.members[of->position];
  if (member_is_point_to_point(member->kind)) {
    struct member alone = *member;
    alone.number = 0;
    return unit_hash((struct unit){&alone, 1});
  }
  return of->hash + of->position;
}

static bool is_lossy(const struct lossy_member *of) {
  return contribution_is_lossy(of->unit, of->position, (uint32_t)of->comm->rank);
}

void lossy_remember(const struct lossy_member *of, const void *send) {
  if (lossy_policy_of(of->unit.members[of->position].kind) == LOSSY_LAST && is_lossy(of))
    sent_note(of->end->sent, key_of(of), send);
}

static size_t bytes_of(const struct lossy_member *of) {
  const struct member *member = &of->unit.members[of->position];
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
    report_no_last(of->end, of->unit, of->position, "it has not made this call itself");
    return NULL;
  }
  if (!own_send_is_there(shadow, send, bytes_of(of))) {
    report_no_last(of->end, of->unit, of->position, "the buffer that its own call used is gone");
    return NULL;
  }
  if (!own_send_follows(shadow, program, reason)) {
    report_no_last(of->end, of->unit, of->position, reason);
    return NULL;
  }
  if (!told)
    report_last_untold(of->end, of->unit, of->position);
  of->end->reads_program = true;
  return send;
}

const void *lossy_send(const struct lossy_member *of, struct shadow *shadow, cudaStream_t program) {
  const struct member *member = &of->unit.members[of->position];
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
