/* Where a round begins (rounds.h). */
#include "interpose/calls/rounds.h"

#include <stdlib.h>

#include "core/place/place_rounds.h"
#include "interpose/comm/apart.h"
#include "interpose/park/transaction.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

/* Where a rank was last in a team, as its endpoint keeps it: a word. */
#define VISIT_EACH (UINT32_C(1) << 31)

enum {
  /* Where a round begins is said of the first rounds of a loop; and of others if so many units have been passed since the last
   * that was. */
  SAID_EACH = 8,
  SAID_UNITS = 4096,
};

/* Which rounds it has come to, as a word: of which loop, the number of the last one, and how many. */
enum { COUNT_BITS = 20, COUNT_MAX = (1 << COUNT_BITS) - 1 };
_Static_assert(2 * PLACE_EPOCHS_MAX < 1u << (32 - COUNT_BITS), "all numbers of rounds");

static uint64_t word_of(const struct places_round *round) {
  return (uint64_t)round->loop << 32 | round->number | (round->each ? VISIT_EACH : 0);
}

/* Whether a rank comes to another round with `now`, and has not come to all others of the last one where each round
 * comes. last: the word. */
static bool goes_round(uint64_t last, const struct places_round *now) {
  uint32_t number = (uint32_t)last & ~VISIT_EACH;
  bool each = ((uint32_t)last & VISIT_EACH) != 0;
  if (now->loop == 0)
    return false;
  if ((uint32_t)(last >> 32) != now->loop || now->number < number)
    return now->number > 1; /* others may be in earlier ones */
  return now->number != number && !(each && now->number == number + 1);
}

/* How many rounds of the loop the rank has come to, this one among them. Their numbers need not begin with 1. */
static uint32_t rounds_come_to(const struct endpoint *end, const struct places_round *now) {
  uint64_t rounds = atomic_load(&end->rounds);
  uint32_t last = (uint32_t)rounds >> COUNT_BITS, count = (uint32_t)rounds & COUNT_MAX;
  if ((uint32_t)(rounds >> 32) != now->loop || now->number < last)
    return 1;
  return count + (now->number != last && count < COUNT_MAX);
}

static void note_round(struct endpoint *end, const struct places_round *now) {
  uint32_t number = now->number & ((1u << (32 - COUNT_BITS)) - 1);
  if (now->loop != 0)
    atomic_store(&end->rounds,
                 (uint64_t)now->loop << 32 | number << COUNT_BITS | rounds_come_to(end, now));
  atomic_store(&end->visit, word_of(now));
}

/* To say where a round begins is a claim, for which ranks wait for each other on the host: of a loop of short rounds not each is said. */
static bool is_said(const struct endpoint *end, const struct places_round *now) {
  uint32_t rounds = rounds_come_to(end, now);
  return join_settings()->epochs == EPOCHS_WAIT || rounds <= SAID_EACH ||
         (rounds & (rounds - 1)) == 0 ||
         team_passed(end->team) - atomic_load(&end->begun) >= SAID_UNITS;
}

/* Whether ranks of a team of this process send and receive: then to wait for each other costs more (core/team/team_runs.c). */
static bool has_posted(void) {
  bool posted = false;
  for (struct endpoint *end = communicator_hold_endpoints(); end != NULL && !posted;
       end = end->next)
    posted = team_posts(end->team);
  communicator_release_endpoints();
  return posted;
}

/* Whether a round begins in the team. */
static bool is_due(const struct endpoint *end, const struct places_round *now) {
  return goes_round(atomic_load(&end->visit), now) && is_said(end, now) &&
         (join_settings()->epochs == EPOCHS_WAIT || !has_posted());
}

static bool rounds_are_on(void) {
  return join_settings()->epochs != EPOCHS_MIX && places_are_on();
}

bool rounds_are_due(ncclComm_t handle) {
  struct places_round now;
  struct communicator *comm =
      rounds_are_on() && places_round(&now, handle) ? communicator_find(handle) : NULL;
  if (comm == NULL)
    return false;
  if (is_due(comm->end, &now))
    return true;
  note_round(comm->end, &now);
  places_round_noted(handle);
  return false;
}

static bool is_in_loop(const struct endpoint *end, const struct places_round *now) {
  return (uint32_t)(atomic_load(&end->visit) >> 32) == now->loop;
}

/* A round begins in the team, unless that is among the requests already: adds it to them. Takes note of it. Returns how many there are. */
static uint32_t begin_round(struct endpoint *end, const struct places_round *now,
                            struct request *requests, uint32_t nrequests) {
  for (uint32_t i = 0; i < nrequests; i++)
    if (requests[i].end == end)
      return nrequests;
  if (!apart_is_set(end) && is_due(end, now)) {
    atomic_store(&end->begun, team_passed(end->team));
    atomic_store(&end->begins, now->number | (now->comes ? 0 : ENDPOINT_BEGINS_PERHAPS));
    requests[nrequests++] =
        (struct request){.end = end, .goes_round = is_in_loop(end, now), .comes = now->comes};
  }
  note_round(end, now);
  return nrequests;
}

static uint32_t begin_for_calls(const struct call *calls, size_t ncalls,
                                const struct places_round *now, struct request *requests) {
  uint32_t nrequests = 0;
  for (size_t i = 0; i < ncalls; i++) {
    struct communicator *comm =
        calls[i].kind < CALL_SEND ? communicator_find(calls[i].handle) : NULL;
    if (comm != NULL)
      nrequests = begin_round(comm->end, now, requests, nrequests);
  }
  return nrequests;
}

/* Other teams of a rank that begins a round begin it with it, if it has been in the round before in them: what it waits for in one
 * team others may wait for in another. Makes room for them; without memory they are left out. */
static uint32_t begin_for_others(const struct places_round *now, struct request **requests,
                                 uint32_t nrequests) {
  struct overlap *overlap = atomic_load(&(*requests)[0].end->overlap);
  struct endpoint *first = communicator_hold_endpoints();
  uint32_t room = nrequests;
  for (struct endpoint *end = first; end != NULL; end = end->next)
    room++;
  struct request *more = reallocarray(*requests, room, sizeof(**requests));
  if (more != NULL)
    *requests = more;
  for (struct endpoint *end = first;
       more != NULL && end != NULL && overlap != NULL && nrequests < room; end = end->next)
    if (is_in_loop(end, now) && atomic_load(&end->overlap) == overlap)
      nrequests = begin_round(end, now, *requests, nrequests);
  communicator_release_endpoints();
  return nrequests;
}

/* The marks at the beginning of the round. */
static ncclResult_t wait_for_round(struct request *requests, uint32_t nrequests) {
  struct place place;
  struct place_begin begin;
  if (nrequests == 0 || join_settings()->epochs != EPOCHS_WAIT || !places_describe(&place) ||
      !place_round_begins(&place, &begin))
    return ncclSuccess;
  const struct member mark = round_member(begin.place.id, begin.number);
  for (uint32_t i = 0; i < nrequests; i++) {
    requests[i].unit = (struct unit){&mark, 1};
    requests[i].place = &begin.place;
  }
  struct transaction transaction = {
      .kind = TRANSACTION_EXIT_POINT, .requests = requests, .nrequests = nrequests};
  ncclResult_t together = transaction_make(&transaction);
  return transaction_worse(transaction_result(&transaction), together);
}

ncclResult_t rounds_begin(const struct call *calls, size_t ncalls) {
  struct places_round now;
  if (!rounds_are_on() || !places_round(&now, NULL))
    return ncclSuccess;
  struct request *requests = calloc(ncalls, sizeof(*requests));
  if (requests == NULL)
    return ncclSystemError;
  uint32_t nrequests = begin_for_calls(calls, ncalls, &now, requests);
  if (nrequests > 0 && join_settings()->epochs == EPOCHS_WAIT)
    nrequests = begin_for_others(&now, &requests, nrequests);
  ncclResult_t result = wait_for_round(requests, nrequests);
  free(requests);
  return result;
}
