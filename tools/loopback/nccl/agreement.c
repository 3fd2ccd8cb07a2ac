/* Agreements: agendas by parity, one meeting each, as exchanges are. */
#include "create.h"

#include "meeting.h"
#include "oracle.h"

#include <stdio.h>

struct agreement {
  struct ncclComm *comm;
  uint64_t epoch;
  struct segment_agenda own;
};

static void describe_agenda(const struct segment_agenda *agenda, char *text, size_t size) {
  if (agenda->kind == AGENDA_SPLIT)
    snprintf(text, size, "split #%llu", (unsigned long long)agenda->number);
  else
    snprintf(text, size, "window registration %016llx (hash of size and flags)",
             (unsigned long long)agenda->number);
}

static bool is_missing(void *subject, int rank) {
  const struct agreement *agreement = subject;
  const struct ncclComm *comm = agreement->comm;
  return atomic_load(&segment_rank(&comm->segment, rank)->agendas) < comm->agendas;
}

static bool nobody_is_missing(void *subject) {
  const struct agreement *agreement = subject;
  for (int rank = 0; rank < agreement->comm->nranks; rank++)
    if (is_missing(subject, rank))
      return false;
  return true;
}

static bool is_cancelled(void *subject) {
  const struct agreement *agreement = subject;
  return atomic_load(&agreement->comm->epoch) != agreement->epoch;
}

static void describe(void *subject, char *text, size_t size) {
  const struct agreement *agreement = subject;
  char what[128];
  describe_agenda(&agreement->own, what, sizeof what);
  snprintf(text, size, "communicator %016llx, %s", (unsigned long long)agreement->comm->hash, what);
}

static void compare(struct ncclComm *comm, const struct segment_agenda *own, int rank,
                    const struct segment_agenda *other) {
  if (own->kind == other->kind && own->number == other->number)
    return;
  char mine[128], theirs[128];
  describe_agenda(own, mine, sizeof mine);
  describe_agenda(other, theirs, sizeof theirs);
  oracle_mismatch(comm, "a call on the host", comm->rank, mine, rank, theirs);
}

ncclResult_t agreement_reach(struct ncclComm *comm, struct segment_agenda own,
                             struct segment_agenda *all) {
  uint64_t number = ++comm->agendas;
  struct segment_rank *self = segment_rank(&comm->segment, comm->rank);
  self->agenda[number % 2] = own;
  struct agreement agreement = {comm, atomic_load(&comm->epoch), own};
  atomic_store(&self->agendas, number);
  meeting_ring(&comm->segment);
  struct vigil vigil = {&agreement, nobody_is_missing, is_missing, is_cancelled, describe};
  switch (meeting_await(&comm->segment, &vigil)) {
  case MEETING_REACHED:
    break;
  case MEETING_CANCELLED:
    return ncclInternalError;
  case MEETING_LOST:
    communicator_fail(comm, ncclRemoteError);
    return ncclRemoteError;
  }
  for (int rank = 0; rank < comm->nranks; rank++) {
    all[rank] = segment_rank(&comm->segment, rank)->agenda[number % 2];
    compare(comm, &own, rank, &all[rank]);
  }
  return ncclSuccess;
}
