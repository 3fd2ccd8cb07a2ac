/* Communicators whose ranks have yet to come (latecomers.h). */
#include "interpose/calls/latecomers.h"

#include <stdlib.h>

#include "core/thread/detached.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/late.h"
#include "interpose/comm/report.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

#define LOOK_MS 500

/* ---- who has come ---- */

struct latecomers_roster {
  uint64_t *identities; /* of those that have come */
  uint32_t count;
  struct late_missing missing;
};

static void latecomers_note_missing(struct late_missing *missing, uint32_t slot) {
  if (missing->count < LATE_NAMED)
    missing->ranks[missing->count] = slot;
  missing->count++;
}

/* False: no memory, or all have come, or another rank is the one to speak. */
static bool latecomers_read(const struct late *late, struct latecomers_roster *roster) {
  *roster = (struct latecomers_roster){.identities = calloc(late->slots, sizeof(uint64_t))};
  bool speaks = roster->identities != NULL;
  for (uint32_t slot = 0; speaks && slot < late->slots; slot++) {
    struct introduction rank;
    if (!attachment_read(late->attachment, slot, &rank)) {
      latecomers_note_missing(&roster->missing, slot);
      continue;
    }
    speaks = slot == late->slot || roster->count > 0;
    roster->identities[roster->count++] = rank.identity;
  }
  return speaks && roster->missing.count > 0;
}

static bool latecomers_has_come(const struct latecomers_roster *roster, uint64_t identity) {
  for (uint32_t i = 0; i < roster->count; i++)
    if (roster->identities[i] == identity)
      return true;
  return false;
}

/* ---- who is further ---- */

/* A rank that has not come, and has issued, or wants to, what this one has not. */
static bool latecomers_is_further(const struct endpoint *end,
                                  const struct latecomers_roster *roster, uint32_t rank) {
  const struct plane *plane = end->team->plane;
  uint64_t own = team_passed(end->team), passed = plane_passed(plane, rank);
  return rank != plane->rank && !latecomers_has_come(roster, end->identities[rank]) &&
         plane_state(plane, rank) == RANK_PRESENT &&
         (passed > own || (passed == own && plane_is_parked(plane, rank)));
}

/* Whether the maker is the one to answer in the team, and is not there. */
static bool latecomers_is_of(const struct late *late, const struct endpoint *end) {
  bool of_maker = endpoint_owner(end) == late->maker ||
                  (atomic_load(&end->user_of_engine) && end->creator == late->maker);
  return of_maker && end->state == RANK_PRESENT && !atomic_load(&end->ended) &&
         atomic_load(&end->inside) == 0;
}

/* The team of a communicator, if it is such a one. */
static struct endpoint *latecomers_team_of(const struct late *late,
                                           const struct communicator *comm) {
  bool used = atomic_load(&comm->state) == COMM_JOINED && !comm->left;
  return used && latecomers_is_of(late, comm->end) ? comm->end : NULL;
}

/* How far all are that are waited for; 0: nobody is further than this rank. */
static uint64_t latecomers_moves(const struct late *late, const struct latecomers_roster *roster) {
  uint64_t moves = 0;
  bool further = false;
  for (const struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next) {
    const struct endpoint *end = latecomers_team_of(late, comm);
    for (uint32_t rank = 0; end != NULL && rank < end->team->plane->nranks; rank++) {
      moves += plane_passed(end->team->plane, rank);
      further |= latecomers_is_further(end, roster, rank);
    }
  }
  return further ? moves + 1 : 0;
}

/* The endpoint has been entered. */
static bool latecomers_is_uneven(const struct late *late, const struct latecomers_roster *roster,
                                 struct endpoint *end) {
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++)
    if (latecomers_is_further(end, roster, rank) &&
        team_is_in_left_loop(end->team, rank, &late->here))
      return true;
  return false;
}

/* Says it of the first team in which it is so; false: of none. */
static bool latecomers_say(const struct late *late, const struct latecomers_roster *roster,
                           uint64_t still_ms) {
  uint64_t limit_ms = join_settings()->stall_warn_s * 1000;
  bool stalls = limit_ms != 0 && still_ms >= limit_ms, said = false;
  struct late_report report = {.function = late->function,
                               .tag = late->tag,
                               .nranks = late->slots,
                               .missing = roster->missing,
                               .seconds = still_ms / 1000};
  for (const struct communicator *comm = communicator_first(); comm != NULL && !said;
       comm = comm->next) {
    struct endpoint *end = latecomers_team_of(late, comm);
    if (end == NULL || !endpoint_enter_if_free(end))
      continue;
    report.uneven = latecomers_is_uneven(late, roster, end);
    bool further = false;
    for (uint32_t rank = 0; stalls && rank < end->team->plane->nranks; rank++)
      further |= latecomers_is_further(end, roster, rank);
    said = report.uneven || further;
    if (said)
      report_late(end, &report);
    endpoint_exit(end);
  }
  return said;
}

/* One look; whether all has been said. With `lock`. */
static bool latecomers_look(struct late *late) {
  struct latecomers_roster roster;
  uint64_t now = now_ms(),
           moves = latecomers_read(late, &roster) ? latecomers_moves(late, &roster) : 0;
  if (moves != late->moves || moves == 0) {
    late->moves = moves;
    late->moved_ms = now;
  }
  bool said = moves != 0 && now - late->moved_ms >= LATECOMERS_MS &&
              latecomers_say(late, &roster, now - late->moved_ms);
  free(roster.identities);
  return said;
}

static void *latecomers_thread(void *argument) {
  struct late *late = argument;
  bool over = false;
  while (!over) {
    communicator_hold(); /* before `lock`, as late_end may be called with what it takes */
    pthread_mutex_lock(&late->lock);
    over = late->ended || latecomers_look(late);
    pthread_mutex_unlock(&late->lock);
    communicator_release_endpoints();
    pthread_mutex_lock(&late->lock);
    if (!over && !late->ended)
      late_sleep(late, LOOK_MS);
    pthread_mutex_unlock(&late->lock);
  }
  late_release(late);
  return NULL;
}

/* ---- */

static bool latecomers_has_team(const struct late *late) {
  const struct endpoint *found = NULL;
  communicator_hold();
  for (const struct communicator *comm = communicator_first(); comm != NULL && found == NULL;
       comm = comm->next)
    found = latecomers_team_of(late, comm);
  communicator_release_endpoints();
  return found != NULL;
}

struct late *latecomers_watch(const struct arrival *arrival, const char *function) {
  struct late *late =
      arrival->attachment == NULL || communicator_first() == NULL ? NULL : late_create();
  if (late == NULL)
    return NULL;
  late->attachment = arrival->attachment;
  late->slots = arrival->slots;
  late->slot = arrival->slot;
  late->tag = attachment_tag(arrival->name);
  late->function = function;
  late->maker = endpoint_this_thread();
  if (latecomers_has_team(late)) {
    (void)places_describe(&late->here);
    atomic_store(&late->holders, 2);
    if (detached_start(latecomers_thread, late))
      return late;
    atomic_store(&late->holders, 1);
  }
  late_release(late);
  return NULL;
}
