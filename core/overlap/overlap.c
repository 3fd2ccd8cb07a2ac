/* What a parked rank does for its other teams (overlap.h). */
#include "core/overlap/overlap.h"

#include <stdlib.h>

#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

/* ---- teams ---- */

struct overlap *overlap_create(uint64_t identity) {
  struct overlap *overlap = calloc(1, sizeof(*overlap));
  if (overlap != NULL)
    overlap->identity = identity;
  return overlap;
}

static void team_free(struct overlap_team *team) {
  free(team->identities);
  free(team->by_identity);
  free(team->rank_in);
  free(team->holders);
  free(team);
}

void overlap_destroy(struct overlap *overlap) {
  if (overlap == NULL)
    return;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    team_free(overlap->teams[i]);
  while (overlap->removed != NULL) {
    struct overlap_team *team = overlap->removed;
    overlap->removed = team->next_removed;
    team_free(team);
  }
  free(overlap->teams);
  rank_predictor_destroy(overlap->predictor);
  free(overlap);
}

/* identities: of the ranks that are ordered. */
static int by_identity(const void *a, const void *b, void *identities) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  const uint64_t *of = identities;
  return of[x] != of[y] ? (of[x] > of[y]) - (of[x] < of[y]) : (x > y) - (x < y);
}

static void order_ranks(struct overlap_team *team) {
  uint32_t nranks = team->team->plane->nranks;
  for (uint32_t rank = 0; rank < nranks; rank++)
    team->by_identity[rank] = rank;
  qsort_r(team->by_identity, nranks, sizeof(*team->by_identity), by_identity, team->identities);
}

/* The first of that identity. */
static uint32_t rank_of(const struct overlap_team *team, uint64_t identity) {
  uint32_t nranks = team->team->plane->nranks, first = 0;
  for (uint32_t end = nranks; first < end;) {
    uint32_t middle = first + (end - first) / 2;
    if (team->identities[team->by_identity[middle]] < identity)
      first = middle + 1;
    else
      end = middle;
  }
  return first < nranks && team->identities[team->by_identity[first]] == identity
             ? team->by_identity[first]
             : NOWHERE;
}

static bool has_others(const struct overlap_team *team, uint32_t than) {
  for (uint32_t rank = 0; rank < team->team->plane->nranks; rank++)
    if (overlap_rank_there(team, than, rank) == NOWHERE)
      return true;
  return false;
}

/* Where each team's ranks are in the other teams. */
static bool map_ranks(struct overlap *overlap) {
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    struct overlap_team *team = overlap->teams[i];
    uint32_t nranks = team->team->plane->nranks;
    uint32_t *rank_in = calloc((size_t)overlap->nteams * nranks, sizeof(*rank_in));
    if (rank_in == NULL)
      return false;
    for (uint32_t j = 0; j < overlap->nteams; j++)
      for (uint32_t rank = 0; rank < nranks; rank++)
        rank_in[j * nranks + rank] = rank_of(overlap->teams[j], team->identities[rank]);
    free(team->rank_in);
    team->rank_in = rank_in;
  }
  overlap->crosses = false;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    for (uint32_t j = 0; j < i; j++)
      overlap->crosses |= has_others(overlap->teams[i], j) && has_others(overlap->teams[j], i);
  return true;
}

static void take_out(struct overlap *overlap, uint32_t at) {
  struct overlap_team *team = overlap->teams[at];
  team->removed = true;
  team->next_removed = overlap->removed;
  overlap->removed = team;
  for (overlap->nteams--; at < overlap->nteams; at++)
    overlap->teams[at] = overlap->teams[at + 1];
}

/* A team's may_commit. */
static bool may_commit_now(void *context) {
  struct overlap_team *team = context;
  return overlap_may_commit(team->overlap, team->team);
}

static struct overlap_team *overlap_add_team(struct overlap *overlap, struct team *team,
                                             const uint64_t *identities) {
  uint32_t nranks = team->plane->nranks;
  struct overlap_team **teams =
      realloc(overlap->teams, (overlap->nteams + 1) * sizeof(struct overlap_team *));
  if (teams == NULL)
    return NULL;
  overlap->teams = teams;
  struct overlap_team *added = calloc(1, sizeof(*added));
  if (added == NULL)
    return NULL;
  *added = (struct overlap_team){
      .overlap = overlap, .team = team, .available = true, .patience = OVERLAP_PATIENCE_MS};
  added->identities = calloc(nranks, sizeof(*identities));
  added->by_identity = calloc(nranks, sizeof(*added->by_identity));
  added->holders = calloc(nranks, sizeof(*added->holders));
  teams[overlap->nteams++] = added;
  bool has_room = added->identities != NULL && added->by_identity != NULL;
  if (has_room) {
    memcpy(added->identities, identities, nranks * sizeof(*identities));
    order_ranks(added);
  }
  if (overlap->predictor == NULL && overlap->nteams > 1)
    overlap->predictor = rank_predictor_create();
  if (!has_room || added->holders == NULL || (overlap->predictor == NULL && overlap->nteams > 1) ||
      !map_ranks(overlap)) {
    take_out(overlap, overlap->nteams - 1);
    return NULL;
  }
  log_say_asks(team->own, overlap->asks);
  team->owner.is_held = overlap_is_held;
  team->owner.is_held_context = added;
  team->owner.may_commit = may_commit_now;
  team->owner.may_commit_context = added;
  return added;
}

struct overlap_team *overlap_add(struct overlap *overlap, struct team *team,
                                 const uint64_t *identities) {
  overlap_enter(overlap);
  struct overlap_team *added = overlap_add_team(overlap, team, identities);
  overlap_leave(overlap);
  return added;
}

static void take_out_team(struct overlap *overlap, struct team *team) {
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    if (overlap->teams[i]->team != team)
      continue;
    team->owner.is_held = NULL;
    team->owner.may_commit = NULL;
    take_out(overlap, i);
    /* Without memory to say who is where, nobody is anywhere else: each team is then on its own. */
    if (!map_ranks(overlap))
      for (uint32_t k = 0; k < overlap->nteams; k++)
        overlap->teams[k]->available = false;
    return;
  }
}

void overlap_remove(struct overlap *overlap, struct team *team) {
  overlap_enter(overlap);
  take_out_team(overlap, team);
  overlap_leave(overlap);
}

void overlap_set_available(struct overlap_team *team, bool available) {
  team->available = available;
}

/* ---- the program's own units ---- */

uint32_t overlap_claim_flags(const struct overlap *overlap, struct team *team, struct unit unit) {
  if (overlap_is_single(overlap) || unit_is_leave(unit))
    return 0;
  uint64_t hash = team_class_hash(team, unit);
  symbol_t symbol = unit_table_find_hash(team->table, hash);
  uint32_t flags = rank_predictor_is_usual(overlap->predictor, hash) ? CLAIM_PREDICTED : 0;
  if (symbol != SYMBOL_NONE)
    flags |= CLAIM_SEEN;
  if (symbol != SYMBOL_NONE && symbol == team->symbol_expected)
    flags |= CLAIM_EXPECTED;
  return flags;
}

static void note_real(const struct overlap *overlap, const struct team *team) {
  for (uint32_t i = 0; i < overlap->nteams; i++)
    if (overlap->teams[i]->team == team) {
      overlap->teams[i]->awaited = true;
      overlap->teams[i]->issued = team_index(team);
    }
}

static void note_unit(struct overlap *overlap, const struct team *team) {
  struct log_entry entry = log_entry(team->own, team_index(team));
  if (entry.flags & ENTRY_REAL) {
    note_real(overlap, team);
    if (overlap->parked && overlap->shadowed && entry.flags & ENTRY_EXPECTED)
      overlap_ask(overlap);
  } else {
    overlap->shadowed = true;
  }
  rank_predictor_step(overlap->predictor, entry.hash);
}

void overlap_issued(struct overlap *overlap, const struct team *team, struct unit unit) {
  if (overlap_is_single(overlap))
    return;
  overlap_enter(overlap);
  if (!unit_is_leave(unit))
    note_unit(overlap, team);
  /* Not only when it is next asked for: what comes after a LEAVE must count as later, also if no
   * other team is left by then. */
  overlap_count(overlap);
  overlap_leave(overlap);
}

/* ---- yielding ---- */

/* Our claim; one that waits behind a yield nobody else can see, and it goes behind everything. */
static bool read_own_claim(struct team *team, struct overlap_claim *claim) {
  if (!team->claim.open)
    return false;
  *claim = (struct overlap_claim){.leave = true};
  return team_is_yielding(team) || overlap_read_claim(team, team->plane->rank, claim);
}

/* Whether our claim in `here` gives way to that of a rank in `there`, who misses in `here`. */
static bool gives_way(const struct overlap_team *there, uint32_t rank, uint32_t here_at,
                      const struct overlap_claim *claim, bool *guess) {
  const struct overlap_team *here = there->overlap->teams[here_at];
  const struct plane *plane = here->team->plane;
  uint32_t same = overlap_rank_there(there, here_at, rank);
  struct overlap_claim ours, theirs = *claim;
  if (!read_own_claim(here->team, &ours))
    return false;
  ours.recent = theirs.recent = UINT32_MAX / 2;
  overlap_count_recent(here->team, plane->rank, same, &ours, &theirs);
  overlap_count_recent(there->team, there->team->plane->rank, rank, &ours, &theirs);
  ours.identity = there->overlap->identity;
  theirs.identity = there->identities[rank];
  return overlap_goes_before(&theirs, &ours, guess);
}

/* Whether a rank of `there` has come to our place in a team where we claim, or is not in it. */
enum whereabouts { IS_ELSEWHERE, HAS_REACHED_US, MISSES };

static enum whereabouts find_rank(const struct overlap_team *there, uint32_t rank,
                                  uint32_t here_at) {
  const struct team *here = there->overlap->teams[here_at]->team;
  uint32_t same = overlap_rank_there(there, here_at, rank);
  if (same == NOWHERE)
    return IS_ELSEWHERE;
  const struct plane_log *log = log_of(here->plane, same);
  return log_passed(log) > here->head || log_claims(log, here->head) ? HAS_REACHED_US : MISSES;
}

/* Whether their claim is what our own program comes to after ours, in the same round. */
static bool comes_next(const struct overlap_claim *ours, const struct overlap_claim *theirs) {
  return place_relate(&ours->place, &theirs->place) == PLACE_SEQUENTIAL &&
         place_goes_first(&ours->place, &theirs->place);
}

/* Classes of who yields first in a chain: by what our claim and theirs look like. What we have
 * begun to answer in this wait we go on with: where places tell, with what is as likely to be a
 * loop that we have left; where they do not, with whatever comes. */
static uint64_t delay_of(const struct overlap_team *there, const struct overlap_claim *ours,
                         const struct overlap_claim *theirs) {
  uint64_t class = 4;
  int by = overlap_compare_loops(ours, theirs);
  if (ours->leave)
    class = 0;
  else if (by < 0)
    class = 1;
  else if (by > 0 || comes_next(ours, theirs))
    class = 6;
  else if (ours->predicted != theirs->predicted)
    class = ours->predicted ? 5 : 2;
  else if (ours->expected < theirs->expected || ours->seen < theirs->seen)
    class = 3;
  bool tells = place_relate(&ours->place, &theirs->place) != PLACE_UNRELATED;
  uint64_t delay = (class + 1) * OVERLAP_STEP_MS + there->team->plane->rank % OVERLAP_STAGGER;
  return there->answering != 0 && (!tells || delay <= there->answering) ? 0 : delay;
}

/* What there is to do in a team where we have no claim. */
struct duty {
  bool follow;    /* somebody has passed our index, and we are to pass it too */
  bool yield;     /* somebody claims there, and we give way */
  bool guess;     /* nothing told that it is right */
  uint32_t rank;  /* to whom */
  uint64_t delay; /* how long it must be quiet before it is so; 0: now */
};

static void weigh_claim(const struct overlap_team *there, uint32_t rank,
                        const struct overlap_claim *claim, struct duty *duty) {
  const struct overlap *overlap = there->overlap;
  for (uint32_t at = 0; at < overlap->nteams; at++) {
    struct team *here = overlap->teams[at]->team;
    struct overlap_claim ours;
    bool guess = false;
    uint64_t delay;
    if (!read_own_claim(here, &ours))
      continue;
    switch (find_rank(there, rank, at)) {
    case HAS_REACHED_US:
      continue;
    case MISSES:
      if (!gives_way(there, rank, at, claim, &guess))
        continue;
      delay = 0;
      break;
    case IS_ELSEWHERE:
      delay = delay_of(there, &ours, claim);
      break;
    }
    if (duty->yield && delay >= duty->delay)
      continue;
    *duty = (struct duty){.yield = true, .guess = guess, .rank = rank, .delay = delay};
  }
}

/* Somebody has passed our index, and nothing tells that this comes before what we claim. */
static void weigh_pass(const struct overlap_team *there, struct duty *duty) {
  struct overlap_claim theirs = {.predicted = true}, ours = {0};
  for (uint32_t at = 0; at < there->overlap->nteams; at++) {
    struct team *here = there->overlap->teams[at]->team;
    if (here->claim.open && !read_own_claim(here, &ours))
      return;
  }
  *duty = (struct duty){.follow = true, .delay = delay_of(there, &ours, &theirs)};
}

/* Without a claim of ours, because of those who are behind: they are not, where nobody can move.
 * What is requested or has been passed there is then to be shadowed. */
static struct duty find_duty_waiting(const struct overlap_team *there) {
  static const struct overlap_claim ours = {.predicted = true, .expected = true, .seen = true};
  const struct team *team = there->team;
  struct duty duty = {.delay = OVERLAP_NEVER};
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct overlap_claim theirs = {.predicted = true};
    bool passed = log_passed(log_of(team->plane, rank)) > team->head;
    if (rank == team->plane->rank ||
        (!passed && (!overlap_read_claim(there->team, rank, &theirs) || theirs.leave)))
      continue;
    uint64_t delay = delay_of(there, &ours, &theirs);
    if (passed)
      return (struct duty){.follow = true, .delay = delay};
    if (!duty.yield || delay < duty.delay)
      duty = (struct duty){.yield = true, .rank = rank, .delay = delay};
  }
  return duty;
}

static struct duty find_duty(struct overlap_team *there) {
  const struct overlap *overlap = there->overlap;
  const struct team *team = there->team;
  struct duty duty = {.delay = OVERLAP_NEVER};
  if (overlap_is_single(overlap) || !overlap_can_answer(there))
    return duty;
  if (team_is_yielding(team) || overlap_comes_first(there))
    return (struct duty){.follow = true};
  if (overlap->waits)
    return find_duty_waiting(there);
  bool passed = false;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct overlap_claim claim;
    if (rank == team->plane->rank)
      continue;
    if (log_passed(log_of(team->plane, rank)) > team->head)
      passed = true;
    else if (overlap_read_claim(there->team, rank, &claim) && !claim.leave)
      weigh_claim(there, rank, &claim, &duty);
  }
  if (passed && duty.delay != 0)
    weigh_pass(there, &duty);
  return duty;
}

static void note_guess(struct overlap_team *there, uint32_t rank) {
  struct overlap *overlap = there->overlap;
  const struct plane_log *log = log_of(there->team->plane, rank);
  struct log_claim claim;
  struct text text;
  if (!log_read_claim(log, there->team->head, &claim) ||
      team_read_text(there->team, log, claim.text, &text) != READ_UNIT)
    return;
  for (uint32_t at = 0; at < overlap->nteams; at++)
    if (overlap->teams[at]->team->claim.open)
      overlap->guessed_request = overlap->teams[at]->team->claim.unit;
  overlap->guessed_for = text.unit.members[0];
  overlap->guessed = !overlap->guess_said;
  overlap->guess_said = true;
}

bool overlap_answers(struct overlap_team *there) {
  overlap_enter(there->overlap);
  struct duty duty = find_duty(there);
  bool due = (duty.follow || duty.yield) && duty.delay <= there->overlap->quiet;
  if (due && duty.delay != 0) {
    there->answering = duty.delay;
    overlap_ask(there->overlap);
  }
  if (due && duty.yield && (duty.guess || duty.delay != 0))
    note_guess(there, duty.rank);
  overlap_leave(there->overlap);
  if (due && duty.yield)
    team_yield(there->team);
  return due;
}

void overlap_look(struct overlap *overlap, uint64_t quiet_ms) {
  overlap_enter(overlap);
  overlap->quiet = quiet_ms;
  overlap_leave(overlap);
}

bool overlap_guessed(struct overlap *overlap, struct unit *requested, struct member *yielded_to) {
  if (!overlap->guessed)
    return false;
  overlap->guessed = false;
  *requested = overlap->guessed_request;
  *yielded_to = overlap->guessed_for;
  return true;
}

uint64_t overlap_delay(const struct overlap *overlap) {
  uint64_t least = OVERLAP_NEVER;
  for (uint32_t at = 0; at < overlap->nteams; at++) {
    struct duty duty = find_duty(overlap->teams[at]);
    if (duty.delay != 0 && duty.delay < least)
      least = duty.delay;
  }
  return least;
}
