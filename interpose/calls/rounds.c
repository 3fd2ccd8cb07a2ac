/* Waiting where a round begins (rounds.h). */
#include "interpose/calls/rounds.h"

#include "core/place/place_rounds.h"
#include "interpose/comm/apart.h"
#include "interpose/park/transaction.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

/* Where a rank was last in a team, as its endpoint keeps it: a word. */
#define VISIT_EACH (UINT32_C(1) << 31)

static uint64_t word_of(const struct places_round *round) {
  return (uint64_t)round->loop << 32 | round->number | (round->each ? VISIT_EACH : 0);
}

/* Whether a rank has to wait before it comes to `now`. last: the word. */
static bool is_due(uint64_t last, const struct places_round *now) {
  uint32_t number = (uint32_t)last & ~VISIT_EACH;
  bool each = ((uint32_t)last & VISIT_EACH) != 0;
  if (now->loop == 0 || !now->comes)
    return false;
  if ((uint32_t)(last >> 32) != now->loop || now->number < number)
    return now->number > 1; /* others may be in earlier ones */
  return now->number != number && !(each && now->number == number + 1);
}

static bool rounds_are_on(void) {
  return join_settings()->epochs == EPOCHS_WAIT && places_are_on();
}

bool rounds_are_due(ncclComm_t handle) {
  struct communicator *comm = rounds_are_on() ? communicator_find(handle) : NULL;
  struct places_round now;
  if (comm == NULL || !places_round(&now))
    return false;
  bool due = is_due(atomic_load(&comm->end->visit), &now);
  if (!due)
    atomic_store(&comm->end->visit, word_of(&now));
  return due;
}

/* The mark at the beginning of the round. */
static ncclResult_t wait_for_round(struct endpoint *end) {
  struct place place;
  struct place_begin begin;
  if (!places_describe(&place) || !place_round_begins(&place, &begin))
    return ncclSuccess;
  const struct member mark = round_member(begin.place.id, begin.number);
  struct request request = {.end = end, .unit = {&mark, 1}, .place = &begin.place};
  struct transaction transaction = {
      .kind = TRANSACTION_EXIT_POINT, .requests = &request, .nrequests = 1};
  ncclResult_t together = transaction_make(&transaction);
  return transaction_worse(transaction_result(&transaction), together);
}

ncclResult_t rounds_begin(struct communicator *comm) {
  struct places_round now;
  if (!rounds_are_on() || comm == NULL || apart_is_set(comm->end) || !places_round(&now))
    return ncclSuccess;
  bool due = is_due(atomic_load(&comm->end->visit), &now);
  atomic_store(&comm->end->visit, word_of(&now));
  return due ? wait_for_round(comm->end) : ncclSuccess;
}
