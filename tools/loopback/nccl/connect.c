/* Blocking on the host at first use. */
#include "connect.h"

#include "communicator.h"
#include "meeting.h"
#include "settings.h"

#include <stdio.h>
#include <time.h>

static struct segment_channel *channel_of(const struct ncclComm *comm,
                                          const struct operation *operation) {
  return operation->kind == OPERATION_SEND
             ? segment_channel(&comm->segment, comm->rank, operation->root)
             : segment_channel(&comm->segment, operation->root, comm->rank);
}

/* Only this rank writes it. */
static void reach(_Atomic uint32_t *word, unsigned phase) {
  if (atomic_load(word) < phase)
    atomic_store(word, phase);
}

void connect_announce(const struct unit *unit, unsigned phase) {
  struct ncclComm *comm = unit->comm;
  if (unit->collective)
    atomic_store(&segment_rank(&comm->segment, comm->rank)->connected, 1);
  if (phase == 1)
    atomic_fetch_add(&segment_rank(&comm->segment, comm->rank)->registered, unit->meets);
  for (size_t i = 0; i < unit->noperations; i++) {
    const struct operation *operation = &unit->operations[i];
    if (operation->kind == OPERATION_SEND)
      reach(&channel_of(comm, operation)->sender_connected, phase);
    else if (operation->kind == OPERATION_RECV)
      reach(&channel_of(comm, operation)->receiver_connected, phase);
  }
  meeting_ring(&comm->segment);
}

struct connecting {
  const struct unit *unit;
  unsigned phase;
};

static bool is_missing(void *subject, int rank) {
  const struct connecting *connecting = subject;
  const struct unit *unit = connecting->unit;
  const struct ncclComm *comm = unit->comm;
  if (unit->collective && !comm->connected &&
      !atomic_load(&segment_rank(&comm->segment, rank)->connected))
    return true;
  if (unit->meets > 0 && settings_get()->nvls &&
      atomic_load(&segment_rank(&comm->segment, rank)->registered) <
          atomic_load(&segment_rank(&comm->segment, comm->rank)->registered))
    return true;
  for (size_t i = 0; i < unit->noperations; i++) {
    const struct operation *operation = &unit->operations[i];
    if (operation_is_collective(operation) || operation->root != rank)
      continue;
    struct segment_channel *channel = channel_of(comm, operation);
    if (atomic_load(operation->kind == OPERATION_SEND
                        ? &channel->receiver_connected
                        : &channel->sender_connected) < connecting->phase)
      return true;
  }
  return false;
}

static bool nobody_is_missing(void *subject) {
  const struct connecting *connecting = subject;
  for (int rank = 0; rank < connecting->unit->comm->nranks; rank++)
    if (is_missing(subject, rank))
      return false;
  return true;
}

static bool is_cancelled(void *subject) {
  const struct unit *unit = ((const struct connecting *)subject)->unit;
  return atomic_load(&unit->comm->epoch) != unit->epoch;
}

static void describe(void *subject, char *text, size_t size) {
  const struct unit *unit = ((const struct connecting *)subject)->unit;
  bool first = !unit->comm->connected || !unit->collective;
  snprintf(text, size, "%s of communicator %016llx, %s",
           first ? "the first use" : "the meeting of registered buffers",
           (unsigned long long)unit->comm->hash, unit->log);
}

/* Real connections take their time: shared memory, sockets, threads. */
static void make_connections(struct ncclComm *comm) {
  int ms = settings_get()->connect_ms;
  if (!comm->connected && ms > 0)
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
  comm->connected = true;
}

ncclResult_t connect_await(const struct unit *unit, unsigned phase) {
  if (!settings_get()->connect)
    return ncclSuccess;
  struct connecting connecting = {unit, phase};
  struct vigil vigil = {&connecting, nobody_is_missing, is_missing, is_cancelled, describe};
  switch (meeting_await(&unit->comm->segment, &vigil)) {
  case MEETING_REACHED:
    if (unit->collective)
      make_connections(unit->comm);
    return ncclSuccess;
  case MEETING_CANCELLED:
    return ncclInternalError;
  case MEETING_LOST:
    communicator_fail(unit->comm, ncclRemoteError);
    return ncclRemoteError;
  }
  return ncclInternalError;
}
