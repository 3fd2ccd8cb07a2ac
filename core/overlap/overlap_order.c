/* The order among a rank's teams (overlap.h): which units are to be passed before which, and
 * whether a unit may be passed yet. */
#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

enum { LOOK_BACK = 512 };

/* The first unit of a rank at or after an index that it has issued for real; false if none. */
static bool first_real(const struct plane_log *log, uint64_t from, uint64_t *at, uint32_t *reals) {
  uint64_t head = log_passed(log);
  for (uint64_t index = from; index < head; index++) {
    if (!log_is_real(log, index))
      continue;
    *at = index;
    *reals = log_reals(log, index);
    return true;
  }
  return false;
}

/* How many units a rank has issued for real, in all its teams, from the unit before the one at an
 * index up to that one. */
static uint32_t gap_before(const struct plane_log *log, uint64_t index) {
  return log_reals(log, index) - log_reals_before(log, index);
}

/* Whether a rank has come to the unit at an index as it had come to it before, without anything in
 * between that was not there then. If there was, it may have ended the loop that we have left, and
 * have begun it again: in a later epoch, which we shall come to ourselves. */
static bool goes_on_as_before(const struct plane_log *log, uint64_t index) {
  uint64_t hash = log_hash(log, index);
  uint64_t floor = index > LOOK_BACK ? index - LOOK_BACK : 1;
  for (uint64_t before = index - 1; index > 1 && before >= floor; before--)
    if (log_hash(log, before) == hash)
      return gap_before(log, before) == gap_before(log, index);
  return false;
}

static bool has_yet_to_come(const struct team *team, uint32_t rank) {
  const struct plane_log *log = log_of(team->plane, rank);
  return log_passed(log) <= team->head && !log_claims(log, team->head) &&
         log_state(log) == RANK_PRESENT;
}

/* Whether a rank of both teams has yet to come to our place in `here`. It may leave a loop before
 * that, and pass what all claim in the other team. */
static bool is_peer_behind(const struct overlap_team *here, uint32_t there_at) {
  const struct team *team = here->team;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (rank != team->plane->rank && overlap_rank_there(here, there_at, rank) != NOWHERE &&
        has_yet_to_come(team, rank))
      return true;
  return false;
}

bool overlap_precedes(const struct overlap_team *other, uint32_t here_at) {
  const struct team *here = other->overlap->teams[here_at]->team, *there = other->team;
  bool joined =
      here->claim.open && other->wait_from < there->head && !is_peer_behind(other, here_at);
  for (uint32_t rank = 0; rank < there->plane->nranks; rank++) {
    uint32_t reals, same = overlap_rank_there(other, here_at, rank);
    uint64_t at;
    if (rank == there->plane->rank || (same == NOWHERE && !joined) ||
        !first_real(log_of(there->plane, rank), there->head, &at, &reals))
      continue;
    if (same == NOWHERE && goes_on_as_before(log_of(there->plane, rank), at))
      return true;
    if (same == NOWHERE)
      continue;
    const struct plane_log *log = log_of(here->plane, same);
    if (log_passed(log) <= here->head)
      return true;
    /* A shadow there after it counts as many. */
    if ((int32_t)(log_reals(log, here->head) - reals) >= 0)
      return true;
  }
  return false;
}

static uint32_t place_of(const struct overlap_team *team) {
  uint32_t at = 0;
  while (team->overlap->teams[at] != team)
    at++;
  return at;
}

bool overlap_can_answer(const struct overlap_team *team) {
  return team->available && !team->removed && !team->team->claim.open &&
         team->team->failed.how == FAILURE_NONE;
}

/* Whether what we claim in `here` has to wait for the ranks that are in another team of ours, too.
 * They may issue units of that one first, and go on to what we claim: we must not pass it before,
 * although ranks that are not in the other team have. It cannot be done without all of them, so
 * while it is open what they come to first, nothing is lost by waiting. */
static bool is_ahead_of_peers(const struct overlap_team *here, uint32_t there_at) {
  return is_peer_behind(here, there_at) && !overlap_precedes(here, there_at);
}

static bool must_wait(const struct overlap_team *here) {
  const struct overlap *overlap = here->overlap;
  if (here->removed)
    return false;
  uint32_t at = place_of(here);
  bool claims = here->team->claim.open;
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    const struct overlap_team *there = overlap->teams[i];
    if (i != at && ((overlap_can_answer(there) && overlap_precedes(there, at)) ||
                    (claims && is_ahead_of_peers(here, i))))
      return true;
  }
  return false;
}

bool overlap_is_held(void *context) {
  const struct overlap_team *here = context;
  if (overlap_is_single(here->overlap))
    return false;
  overlap_enter(here->overlap);
  bool held = must_wait(here);
  overlap_leave(here->overlap);
  return held;
}

/* ---- committing ---- */

void overlap_ask(struct overlap *overlap) {
  overlap->asks = true;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_say_asks(overlap->teams[i]->team->own, true);
}

static bool somebody_asks(const struct overlap *overlap) {
  for (uint32_t i = 0; i < overlap->nteams; i++)
    if (plane_any_asks(overlap->teams[i]->team->plane))
      return true;
  return false;
}

static bool may_commit(const struct overlap *overlap, const struct team *team) {
  uint32_t at = 0;
  while (at < overlap->nteams && overlap->teams[at]->team != team)
    at++;
  if (at == overlap->nteams || !rank_predictor_expects(overlap->predictor, (*team->expected)->hash))
    return false;
  /* Where we have yielded, others may be waiting for what we have promised. */
  for (uint32_t i = 0; i < overlap->nteams; i++)
    if (team_is_yielding(overlap->teams[i]->team) ||
        (i != at && overlap_precedes(overlap->teams[i], at)))
      return false;
  return true;
}

bool overlap_may_commit(struct overlap *overlap, struct team *team) {
  if (overlap_is_single(overlap))
    return true;
  if (*team->expected == &team_nothing)
    team_look_further(team);
  overlap_enter(overlap);
  overlap_count(overlap);
  if (!overlap->asks && somebody_asks(overlap))
    overlap_ask(overlap);
  bool may = !overlap->asks && may_commit(overlap, team);
  overlap_leave(overlap);
  return may;
}

bool overlap_comes_first(struct overlap_team *there) {
  const struct overlap *overlap = there->overlap;
  bool first = false;
  there->visited = true;
  for (uint32_t at = 0; !first && at < overlap->nteams; at++) {
    struct overlap_team *other = overlap->teams[at];
    if (other == there || other->visited || !overlap_precedes(there, at))
      continue;
    first = other->team->claim.open || team_is_yielding(other->team) ||
            (overlap_can_answer(other) && overlap_comes_first(other));
  }
  there->visited = false;
  return first;
}
