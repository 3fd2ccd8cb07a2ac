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

/* Of a loop so many rounds, and one of as many then. */
enum { TOLD_EACH = 64 };

static uint64_t word_of(const struct places_round *round) {
  return (uint64_t)round->loop << 32 | round->number | (round->each ? VISIT_EACH : 0);
}

/* Whether the others are to hear of it: to say where a round begins is a claim. */
static bool is_told(uint32_t number) {
  return join_settings()->epochs == EPOCHS_WAIT || number <= TOLD_EACH || number % TOLD_EACH == 0;
}

/* Whether a rank has to wait before it comes to `now`. last: the word. */
static bool is_due(uint64_t last, const struct places_round *now) {
  uint32_t number = (uint32_t)last & ~VISIT_EACH;
  bool each = ((uint32_t)last & VISIT_EACH) != 0;
  if (now->loop == 0 || !is_told(now->number))
    return false;
  if ((uint32_t)(last >> 32) != now->loop || now->number < number)
    return now->number > 1; /* others may be in earlier ones */
  return now->number != number && !(each && now->number == number + 1);
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
  if (is_due(atomic_load(&comm->end->visit), &now))
    return true;
  atomic_store(&comm->end->visit, word_of(&now));
  places_round_noted(handle);
  return false;
}

/* Whether the call begins a round in a team that is not among the requests yet. Takes note of it. */
static bool begins_round(const struct call *call, const struct places_round *now,
                         const struct request *requests, uint32_t nrequests) {
  struct communicator *comm = call->kind < CALL_SEND ? communicator_find(call->handle) : NULL;
  if (comm == NULL || apart_is_set(comm->end))
    return false;
  for (uint32_t i = 0; i < nrequests; i++)
    if (requests[i].end == comm->end)
      return false;
  bool due = is_due(atomic_load(&comm->end->visit), now);
  atomic_store(&comm->end->visit, word_of(now));
  if (due)
    atomic_store(&comm->end->begins, now->number | (now->comes ? 0 : ENDPOINT_BEGINS_PERHAPS));
  return due;
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
  uint32_t nrequests = 0;
  for (size_t i = 0; i < ncalls; i++)
    if (begins_round(&calls[i], &now, requests, nrequests))
      requests[nrequests++] = (struct request){.end = communicator_find(calls[i].handle)->end};
  ncclResult_t result = wait_for_round(requests, nrequests);
  free(requests);
  return result;
}
