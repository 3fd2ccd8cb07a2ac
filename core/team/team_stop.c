/* Where all ranks stop (team_stop.h). */
#include "core/team/team_stop.h"

#include <assert.h>

#include "core/team/settle.h"
#include "core/team/team_private.h"

bool team_must_meet(struct team *team) {
  team_catch_up(team);
  return learner_may_begin_iteration(team->learner);
}

void team_stop(struct team *team) {
  team_leave_yield(team, CLAIM_STOPPED);
  team->stopped = team->yielded;
}

bool team_claims_stop(const struct team *team, bool issues) {
  uint32_t flags = CLAIM_STOPPED | (issues ? CLAIM_TOGETHER : 0);
  return (team->settling.sum->any & flags) != 0;
}

/* The rank to name: one that has left, rather than one that only passes on what it has heard. */
enum team_verdict team_settle_stop(struct team *team, uint64_t hash) {
  uint32_t named = team->plane->rank;
  bool elsewhere = true;
  uint32_t lowest = team->plane->nranks;
  for (uint32_t i = 0; i < team->settling.sum->nunits; i++) {
    const struct claimed *unit = &team->settling.sum->units[i];
    bool stopped = (unit->kinds & CLAIM_STOPPED) != 0;
    if ((unit->hash == hash && !stopped) || stopped > elsewhere ||
        (stopped == elsewhere && unit->rank > lowest))
      continue;
    named = lowest = unit->rank;
    elsewhere = stopped;
  }
  return team_pass_stop(team, hash, named, elsewhere);
}

enum team_verdict team_stop_or_fail(struct team *team) {
  uint32_t rank;
  struct log_entry entry;
  struct unit unit;
  bool agreed = (team->claim.open || team_is_yielding(team)) &&
                team_somebody_passed(team, &rank, &entry) &&
                (entry.flags & (ENTRY_STOPPED | ENTRY_REFUSED)) != 0;
  enum team_verdict verdict = agreed ? team_follow(team, rank, &entry, &unit) : TEAM_FAILED;
  return verdict == TEAM_STOPPED || verdict == TEAM_REFUSED ? verdict : TEAM_FAILED;
}

static bool has_come_to_stop(const struct plane_log *log) {
  uint64_t passed = log_passed(log);
  return log_has_stopped(log, passed) ||
         (passed > 0 && (log_entry(log, passed - 1).flags & ENTRY_STOPPED) != 0);
}

bool team_stop_is_lost(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = log_of(team->plane, rank);
    if (log_state(log) == RANK_FAILED && !has_come_to_stop(log))
      return true;
  }
  return false;
}
