/* Ranks that are at work and yet cannot go on (overlap.h): they wait for their device, where a unit
 * stands that a parked rank has not passed.
 *
 * A rank that waits for its device does so outside of our calls, and looks like one that is slow.
 * Whom it has left behind knows better: it has not passed what the other has issued. So a parked
 * rank asks about the one that it waits for, in all its teams, and who is parked behind that one
 * says so. Until the latter moves, the former has only as much to wait for as it has itself.
 *
 * Where all ranks do the same, nobody is wrongly taken for held up for good. Who is behind stands
 * at a unit before the one that the other has issued, and waits in turn for somebody, and so on,
 * always further back: to a rank at work that is behind nobody. */
#include "core/overlap/overlap_private.h"
#include "core/team/team_private.h"

static void publish_asked(struct overlap *overlap, uint64_t about) {
  if (overlap->asked_about == about)
    return;
  overlap->asked_about = about;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_ask_about(overlap->teams[i]->team->own, about);
}

static void publish_held(struct overlap *overlap, uint64_t held) {
  if (overlap->held == held)
    return;
  overlap->held = held;
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_say_holds(overlap->teams[i]->team->own, held);
}

void overlap_forget_held(struct overlap *overlap) {
  publish_asked(overlap, 0);
  publish_held(overlap, 0);
  for (uint32_t i = 0; i < overlap->nteams; i++)
    log_move(overlap->teams[i]->team->own);
}

/* ---- asking ---- */

/* Its moves are read first: if it moves meanwhile, what it says counts for nothing. */
static bool find_holder(const struct overlap *overlap, uint64_t about,
                        struct overlap_holder *holder) {
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    const struct plane *plane = overlap->teams[i]->team->plane;
    for (uint32_t rank = 0; rank < plane->nranks; rank++) {
      const struct plane_log *log = log_of(plane, rank);
      *holder = (struct overlap_holder){log, log_moves(log)};
      if (rank != plane->rank && log_holds(log) == about)
        return true;
    }
  }
  return false;
}

void overlap_begin_asking(struct overlap *overlap) {
  overlap->asking = 0;
}

uint64_t overlap_busy_of_holder(struct overlap_team *place, uint32_t rank, uint64_t now_ms) {
  struct overlap *overlap = place->overlap;
  struct overlap_holder *holder = &place->holders[rank];
  uint64_t about = place->identities[rank] + 1;
  bool is_asked = overlap->asked_about == about;
  if (holder->log != NULL && log_moves(holder->log) != holder->moves)
    holder->log = NULL;
  if (holder->log == NULL && is_asked && !find_holder(overlap, about, holder))
    holder->log = NULL;
  if (holder->log == NULL && overlap->asking == 0)
    overlap->asking = about;
  uint64_t until = holder->log == NULL ? 0 : log_busy_until(holder->log);
  return until == 0 ? now_ms : until;
}

/* ---- answering ---- */

static bool is_unit(const struct plane_log *log, uint64_t index) {
  return !(log_flags(log, index) & (ENTRY_NO_UNIT | ENTRY_REFUSED));
}

static bool is_behind(const struct team *team, uint32_t rank) {
  const struct plane_log *log = log_of(team->plane, rank);
  uint64_t head = log_passed(log);
  for (uint64_t index = team->head; index < head; index++)
    if (is_unit(log, index))
      return true;
  return false;
}

/* Whether we are behind that rank in one of our teams; about 0: behind any. */
static bool overlap_holds(const struct overlap *overlap, uint64_t about) {
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    const struct overlap_team *place = overlap->teams[i];
    const struct plane *plane = place->team->plane;
    for (uint32_t rank = 0; rank < plane->nranks; rank++)
      if (rank != plane->rank && (about == 0 || place->identities[rank] + 1 == about) &&
          is_behind(place->team, rank))
        return true;
  }
  return false;
}

bool overlap_holds_up(struct overlap *overlap) {
  if (overlap_is_single(overlap))
    return false;
  overlap_enter(overlap);
  bool does = overlap_holds(overlap, 0);
  overlap_leave(overlap);
  return does;
}

/* What is asked, one after the other: the answers take turns. */
static void overlap_answer(struct overlap *overlap) {
  uint64_t next = 0;
  for (uint32_t i = 0; i < overlap->nteams; i++) {
    const struct plane *plane = overlap->teams[i]->team->plane;
    for (uint32_t rank = 0; rank < plane->nranks; rank++) {
      uint64_t about = log_asks_about(log_of(plane, rank));
      bool is_nearer = next == 0 || about - overlap->held - 1 < next - overlap->held - 1;
      if (about != 0 && rank != plane->rank && is_nearer && overlap_holds(overlap, about))
        next = about;
    }
  }
  if (next != 0)
    publish_held(overlap, next);
}

void overlap_end_asking(struct overlap *overlap) {
  publish_asked(overlap, overlap->asking);
  overlap_answer(overlap);
}
