/* The life of a communicator: allocation, joining the others, pending units, cancelling, leaving.
 */
#include "communicator.h"

#include "device.h"
#include "group.h"
#include "hash.h"
#include "meeting.h"
#include "registration.h"
#include "report.h"
#include "settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_mutex_t free_lock = PTHREAD_MUTEX_INITIALIZER; /* guards free_handles */
static struct ncclComm *free_handles;

struct ncclComm *communicator_allocate(void) {
  pthread_mutex_lock(&free_lock);
  struct ncclComm *comm = free_handles;
  if (comm != NULL)
    free_handles = comm->next_free;
  pthread_mutex_unlock(&free_lock);
  if (comm == NULL)
    comm = malloc(sizeof *comm);
  if (comm == NULL)
    return NULL;
  memset(comm, 0, sizeof *comm);
  comm->magic = COMMUNICATOR_MAGIC;
  comm->segment.file = -1;
  comm->references = 1;
  pthread_mutex_init(&comm->lock, NULL);
  pthread_cond_init(&comm->idle, NULL);
  return comm;
}

/* Nobody uses the communicator any more. */
static void communicator_free(struct ncclComm *comm) {
  segment_release_name(&comm->segment, !comm->open);
  segment_close(&comm->segment);
  registration_free_all(comm);
  free(comm->reductions);
  pthread_mutex_destroy(&comm->lock);
  pthread_cond_destroy(&comm->idle);
  comm->magic = 0;
  pthread_mutex_lock(&free_lock);
  comm->next_free = free_handles;
  free_handles = comm;
  pthread_mutex_unlock(&free_lock);
}

ncclResult_t communicator_check(const struct ncclComm *comm, const char *call) {
  if (comm == NULL) {
    report_error("%s : comm argument is NULL", call);
    return ncclInvalidArgument;
  }
  if (comm->magic != COMMUNICATOR_MAGIC || comm->destroyed) {
    report_error("%s : comm %p was destroyed or never was a communicator", call,
                 (const void *)comm);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

void communicator_fail(struct ncclComm *comm, ncclResult_t error) {
  int none = ncclSuccess;
  if (!atomic_compare_exchange_strong(&comm->async_result, &none, (int)error)) {
    none = ncclInProgress;
    atomic_compare_exchange_strong(&comm->async_result, &none, (int)error);
  }
}

/* Waiting for the others to come. */
static bool join_reached(void *subject) {
  struct ncclComm *comm = subject;
  return atomic_load(&comm->segment.shared->complete) ||
         atomic_load(&comm->segment.shared->refused);
}

static bool join_awaits(void *subject, int rank) {
  struct ncclComm *comm = subject;
  return atomic_load(&segment_rank(&comm->segment, rank)->presence) != PRESENCE_HERE ||
         !atomic_load(&comm->segment.shared->complete);
}

static bool join_cancelled(void *subject) {
  struct ncclComm *comm = subject;
  return atomic_load(&comm->aborted);
}

static void join_describe(void *subject, char *text, size_t size) {
  struct ncclComm *comm = subject;
  snprintf(text, size, "the creation of communicator %016llx", (unsigned long long)comm->hash);
}

static ncclResult_t await_everyone(struct ncclComm *comm) {
  struct vigil vigil = {comm, join_reached, join_awaits, join_cancelled, join_describe};
  switch (meeting_await(&comm->segment, &vigil)) {
  case MEETING_REACHED:
    break;
  case MEETING_CANCELLED:
    return ncclInternalError;
  case MEETING_LOST:
    return ncclRemoteError;
  }
  if (!atomic_load(&comm->segment.shared->complete)) {
    report_error("another rank of communicator %016llx was refused",
                 (unsigned long long)comm->hash);
    return ncclRemoteError;
  }
  return ncclSuccess;
}

static ncclResult_t check_devices(struct ncclComm *comm) {
  struct segment_rank *self = segment_rank(&comm->segment, comm->rank);
  for (int rank = 0; rank < comm->nranks; rank++) {
    if (rank == comm->rank || segment_rank(&comm->segment, rank)->device != self->device)
      continue;
    report_error("Duplicate GPU detected : rank %d and rank %d both on CUDA device %x", comm->rank,
                 rank, (unsigned)self->device);
    return ncclInvalidUsage;
  }
  return ncclSuccess;
}

static uint64_t team_hash(struct ncclComm *comm) {
  uint64_t hash = HASH_START;
  for (int rank = 0; rank < comm->nranks; rank++) {
    struct segment_rank *peer = segment_rank(&comm->segment, rank);
    hash = hash_add_number(hash, (uint64_t)peer->pid);
    hash = hash_add_number(hash, peer->started);
    hash = hash_add_number(hash, (uint64_t)peer->device);
  }
  return hash_finish(hash_add_number(hash, (uint64_t)comm->rank));
}

ncclResult_t communicator_join(struct ncclComm *comm, uint64_t hash, int nranks, int rank) {
  comm->hash = hash;
  comm->nranks = nranks;
  comm->rank = rank;
  ncclResult_t result = device_event_create(&comm->order);
  if (result == ncclSuccess)
    result = device_event_create(&comm->fork);
  if (result == ncclSuccess)
    result = segment_open(&comm->segment, hash, nranks, rank, comm->device);
  if (result != ncclSuccess)
    return result;
  segment_attach(&comm->segment);
  meeting_ring(&comm->segment);
  result = await_everyone(comm);
  segment_release_name(&comm->segment, result != ncclSuccess);
  if (result == ncclSuccess && settings_get()->duplicate_gpu_error)
    result = check_devices(comm);
  if (result != ncclSuccess)
    return result;
  comm->team = team_hash(comm);
  atomic_store(&comm->open, true);
  return ncclSuccess;
}

void communicator_drain(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  while (comm->pending > 0)
    pthread_cond_wait(&comm->idle, &comm->lock);
  pthread_mutex_unlock(&comm->lock);
}

void communicator_signal(struct ncclComm *comm) {
  atomic_fetch_add(&comm->epoch, 1);
  if (atomic_load(&comm->open))
    meeting_ring(&comm->segment);
}

void communicator_cancel(struct ncclComm *comm) {
  communicator_signal(comm);
  pthread_mutex_lock(&comm->lock);
  while (comm->running > 0)
    pthread_cond_wait(&comm->idle, &comm->lock);
  pthread_mutex_unlock(&comm->lock);
}

void communicator_hold(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->references++;
  pthread_mutex_unlock(&comm->lock);
}

void communicator_release(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  bool last = --comm->references == 0;
  pthread_mutex_unlock(&comm->lock);
  if (last)
    communicator_free(comm);
}

static void wait_for_other_destroyers(const struct ncclComm *comm) {
  for (int rank = 0; rank < comm->nranks; rank++)
    while (atomic_load(&segment_rank(&comm->segment, rank)->presence) != PRESENCE_DESTROYED)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Events go here and not with the last reference: that may be dropped on a stream's worker, where
 * CUDA may not be called. */
void communicator_leave(struct ncclComm *comm, bool aborted) {
  if (comm->segment.shared != NULL) {
    atomic_store(&segment_rank(&comm->segment, comm->rank)->presence,
                 aborted ? PRESENCE_ABORTED : PRESENCE_DESTROYED);
    meeting_ring(&comm->segment);
    if (!aborted && settings_get()->destroy_meets)
      wait_for_other_destroyers(comm);
  }
  while (comm->captured != NULL) {
    struct unit *unit = comm->captured;
    comm->captured = unit->next_captured;
    unit_release(unit);
  }
  if (comm->order != NULL)
    device_event_destroy(comm->order);
  if (comm->fork != NULL)
    device_event_destroy(comm->fork);
  comm->destroyed = true;
  communicator_release(comm);
}

void communicator_enter(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->running++;
  pthread_mutex_unlock(&comm->lock);
}

void communicator_exit(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->running--;
  pthread_cond_broadcast(&comm->idle);
  pthread_mutex_unlock(&comm->lock);
}

void communicator_unit_launched(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->pending++;
  pthread_mutex_unlock(&comm->lock);
}

void communicator_unit_done(struct ncclComm *comm) {
  pthread_mutex_lock(&comm->lock);
  comm->pending--;
  pthread_cond_broadcast(&comm->idle);
  pthread_mutex_unlock(&comm->lock);
}

bool communicator_is_alive(struct ncclComm *comm, uint64_t epoch) {
  return epoch == atomic_load(&comm->epoch) && atomic_load(&comm->async_result) != ncclRemoteError;
}

ncclResult_t communicator_ensure_ready(struct ncclComm *comm) {
  if (atomic_load(&comm->aborted)) {
    group_work_complete(comm);
    return ncclSuccess;
  }
  ncclResult_t state;
  ncclResult_t result = ncclCommGetAsyncError(comm, &state);
  if (result != ncclSuccess)
    return result;
  if (state == ncclInProgress) {
    report_error("Attempt to use communicator before the previous operation returned ncclSuccess");
    return ncclInvalidArgument;
  }
  return state;
}
