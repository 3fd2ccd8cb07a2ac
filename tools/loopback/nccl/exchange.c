/* Steps of a communicator: staging, arriving, waiting. */
#include "exchange.h"

#include "oracle.h"

#include <stdio.h>

struct exchange exchange_begin(struct ncclComm *comm, const struct unit *unit) {
  oracle_publish(comm, unit);
  return (struct exchange){comm, unit, false};
}

void *exchange_own_stage(const struct exchange *exchange) {
  struct ncclComm *comm = exchange->comm;
  return segment_stage(&comm->segment, comm->rank, comm->step + 1);
}

const void *exchange_stage_of(const struct exchange *exchange, int rank) {
  return segment_stage(&exchange->comm->segment, rank, exchange->comm->step);
}

static bool rank_has_arrived(const struct ncclComm *comm, int rank) {
  return atomic_load(&segment_rank(&comm->segment, rank)->step) >= comm->step;
}

static bool all_have_arrived(void *subject) {
  const struct ncclComm *comm = ((struct exchange *)subject)->comm;
  for (int rank = 0; rank < comm->nranks; rank++)
    if (!rank_has_arrived(comm, rank))
      return false;
  return true;
}

static bool is_missing(void *subject, int rank) {
  return !rank_has_arrived(((struct exchange *)subject)->comm, rank);
}

static bool is_cancelled(void *subject) {
  const struct exchange *exchange = subject;
  return atomic_load(&exchange->comm->epoch) != exchange->unit->epoch;
}

static void describe(void *subject, char *text, size_t size) {
  const struct exchange *exchange = subject;
  snprintf(text, size, "communicator %016llx, unit #%llu %s",
           (unsigned long long)exchange->comm->hash, (unsigned long long)exchange->unit->index,
           exchange->unit->text);
}

enum meeting_result exchange_meet(struct exchange *exchange) {
  struct ncclComm *comm = exchange->comm;
  comm->step++;
  atomic_store(&segment_rank(&comm->segment, comm->rank)->step, comm->step);
  if (all_have_arrived(exchange)) {
    /* Of ranks that arrive at the same time at least one sees all the others: arrivals are
     * sequentially consistent. */
    meeting_ring(&comm->segment);
  } else {
    struct vigil vigil = {exchange, all_have_arrived, is_missing, is_cancelled, describe};
    enum meeting_result result = meeting_await(&comm->segment, &vigil);
    if (result != MEETING_REACHED)
      return result;
  }
  if (!exchange->compared) {
    oracle_compare(comm, exchange->unit);
    exchange->compared = true;
  }
  return MEETING_REACHED;
}
