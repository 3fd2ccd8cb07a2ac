/* The process's communicators: a table by handle for the fast path, a list in order of creation for
 * everything else (communicator.h). What makes a team out of introductions is activation.c.
 */
#include "interpose/comm/communicator.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "core/report/log.h"
#include "hooks/cuda_driver.h"
#include "interpose/comm/alike.h"
#include "interpose/comm/captures.h"
#include "interpose/comm/endpoint.h"
#include "interpose/comm/late.h"
#include "interpose/comm/machines.h"
#include "interpose/self/environment.h"
#include "interpose/nccl/libraries.h"
#include "interpose/comm/name.h"
#include "interpose/comm/operators.h"
#include "interpose/comm/registered.h"
#include "interpose/nccl/real.h"

/* Guards the lists, and all writes to the table. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(struct communicator *) first, *last = &first;
static _Atomic(struct endpoint *) endpoints;
static struct communicator *gone; /* by next_in_team */
static uint32_t holders;          /* threads that go along `endpoints` */
static uint64_t process_identity;
static _Atomic uint64_t drivers;

/* ---- the table ---- */

/* Open addressing. Slots are never reused, so that a reader needs no lock; a new table replaces a
 * full one, and the old one stays for readers that are still in it. */
struct table {
  uint64_t mask, used;
  struct table *older;
  _Atomic(struct communicator *) slots[];
};
static _Atomic(struct table *) table;
static struct communicator removed; /* marks the slot of one that is gone */

static uint64_t slot_of_handle(ncclComm_t handle, uint64_t mask) {
  return ((uintptr_t)handle >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32 & mask;
}

static _Atomic(struct communicator *) *table_slot(struct table *in, ncclComm_t handle) {
  uint64_t at = slot_of_handle(handle, in->mask);
  for (;; at = (at + 1) & in->mask) {
    struct communicator *comm = atomic_load_explicit(&in->slots[at], memory_order_acquire);
    if (comm == NULL || (comm != &removed && comm->handle == handle))
      return &in->slots[at];
  }
}

struct communicator *communicator_known(ncclComm_t handle) {
  struct table *in = atomic_load_explicit(&table, memory_order_acquire);
  return in == NULL ? NULL : atomic_load_explicit(table_slot(in, handle), memory_order_acquire);
}

static bool grow_table(void) {
  struct table *old = atomic_load(&table);
  uint64_t size = 64, live = 0;
  for (struct communicator *comm = first; comm != NULL; comm = comm->next)
    live++;
  while (size < 4 * live)
    size *= 2;
  struct table *new = calloc(1, sizeof(*new) + size * sizeof(new->slots[0]));
  if (new == NULL)
    return false;
  new->mask = size - 1;
  new->older = old;
  for (struct communicator *comm = first; comm != NULL; comm = comm->next, new->used++)
    atomic_store(table_slot(new, comm->handle), comm);
  atomic_store_explicit(&table, new, memory_order_release);
  return true;
}

static bool table_add(struct communicator *comm) {
  struct table *in = atomic_load(&table);
  if ((in == NULL || 2 * (in->used + 1) > in->mask) && !grow_table())
    return false;
  in = atomic_load(&table);
  _Atomic(struct communicator *) *slot = table_slot(in, comm->handle);
  in->used += atomic_load(slot) == NULL;
  atomic_store_explicit(slot, comm, memory_order_release);
  return true;
}

static void table_remove(struct communicator *comm) {
  atomic_store_explicit(table_slot(atomic_load(&table), comm->handle), &removed,
                        memory_order_release);
}

/* ---- arriving ---- */

int communicator_current_device(void) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  CUdevice device;
  return cuda != NULL && cuda->CtxGetDevice(&device) == CUDA_SUCCESS ? device : -1;
}

uint64_t communicator_new_driver(void) {
  return atomic_fetch_add(&drivers, 1) + 1;
}

static uint64_t identity_of(int device) {
  while (process_identity == 0)
    if (getrandom(&process_identity, sizeof(process_identity), 0) != sizeof(process_identity))
      process_identity = name_hash(&(uint64_t){(uint64_t)getpid()}, 8, (uintptr_t)&lock);
  return name_hash(&device, sizeof(device), process_identity);
}

/* A failed team is not shared with a new communicator. One that ranks stand aside of is: threads
 * make and destroy communicators in orders of their own, and new teams would not be the same. */
static bool is_listed(const struct communicator *comm) {
  return comm->end == NULL || atomic_load(&comm->end->state) == RANK_PRESENT ||
         team_is_apart(comm->end->team);
}

static void list_communicators(struct introduction *me) {
  uint32_t count = 0, skip;
  for (struct communicator *comm = first; comm != NULL; comm = comm->next)
    count += is_listed(comm);
  skip = count > INTRODUCTION_COMMS_MAX ? count - INTRODUCTION_COMMS_MAX : 0;
  for (struct communicator *comm = first; comm != NULL; comm = comm->next)
    if (!is_listed(comm))
      continue;
    else if (skip > 0)
      skip--;
    else
      me->comms[me->ncomms++] = comm->tag;
}

/* Where it is made by one call of each rank, as it mostly is, a slot is a rank. */
static struct log_subject arrival_subject(const struct arrival *arrival, ncclComm_t handle) {
  return (struct log_subject){.comm = handle,
                              .rank = (int)arrival->slot,
                              .nranks = (int)arrival->slots,
                              .tag = attachment_tag(arrival->name)};
}

/* WORLD_SIZE, by which PyTorch knows it, too, if this is the rank that RANK says. */
static uint32_t communicator_world(uint32_t rank) {
  const char *text = getenv("WORLD_SIZE"), *number = getenv("RANK");
  unsigned long world = text == NULL ? 0 : strtoul(text, NULL, 10);
  bool is_of_rank = number == NULL || strtoul(number, NULL, 10) == rank;
  return world <= PLANE_RANKS_MAX && is_of_rank ? (uint32_t)world : 0;
}

void communicator_arrive(struct arrival *arrival, const void *seed, size_t size, uint32_t slots,
                         uint32_t slot, uint32_t expected, int key, int device) {
  *arrival = (struct arrival){
      .library = library_current(), .slot = slot, .slots = slots, .device = device};
  name_make(arrival->name, seed, size);
  if (slots < 2 || slots > PLANE_RANKS_MAX || slot >= slots)
    return;
  struct introduction me = {.key = key, .world = communicator_world(slot)};
  alike_tell(me.tells);
  pthread_mutex_lock(&lock);
  me.identity = identity_of(device);
  list_communicators(&me);
  pthread_mutex_unlock(&lock);
  char reason[ATTACHMENT_REASON_SIZE];
  arrival->attachment = attachment_make(arrival->name, slots, slot, expected, &me, reason);
  arrival->refused = arrival->attachment == NULL && errno == EPROTO;
  if (arrival->refused)
    alike_refused(arrival_subject(arrival, NULL), reason);
  else if (arrival->attachment == NULL)
    log_line_of(arrival_subject(arrival, NULL), LOG_LEVEL_WARN,
                "join is off for a communicator of %u ranks: %s", slots, reason);
}

/* Whether the communicator can be used. handle: it has been made. */
static bool communicator_meet_others(struct attachment *attachment, const struct rendezvous *job,
                                     const char *name, uint32_t slots, ncclComm_t handle,
                                     struct log_subject subject, char *unmet) {
  int nranks = 0;
  if (attachment == NULL || real.CommCount(handle, &nranks) != ncclSuccess || nranks < 2)
    return true;
  return machines_meet(attachment, job, name, slots, (uint32_t)nranks, subject, unmet) !=
         MACHINES_LOST;
}

void communicator_meet(struct arrival *arrival, ncclComm_t handle) {
  if (!arrival->has_job || arrival->met ||
      communicator_meet_others(arrival->attachment, &arrival->job, arrival->name, arrival->slots,
                               handle, arrival_subject(arrival, handle), arrival->unmet)) {
    arrival->met = true;
    return;
  }
  communicator_depart(arrival);
  arrival->refused = true;
}

ncclResult_t communicator_created(struct arrival *arrival, ncclComm_t *handle,
                                  ncclResult_t result) {
  if (result != ncclInProgress)
    late_end(&arrival->late);
  if (result == ncclSuccess && *handle != NULL)
    communicator_meet(arrival, *handle);
  bool compare = arrival->to_compare && arrival->attachment != NULL && result != ncclInProgress;
  arrival->to_compare = arrival->to_compare && result == ncclInProgress;
  if (compare && !alike_in(arrival->attachment, arrival->slots,
                           arrival_subject(arrival, result == ncclSuccess ? *handle : NULL)))
    arrival->refused = true;
  if (!arrival->refused || result == ncclInProgress)
    return result;
  last_error_is_ours(ncclInvalidUsage);
  if (result == ncclSuccess && *handle != NULL) {
    (void)real.CommAbort(*handle);
    *handle = NULL;
  }
  return ncclInvalidUsage;
}

/* With `lock`. */
static void communicator_compare(struct communicator *comm) {
  late_end(&comm->late);
  bool met = !comm->to_meet ||
             communicator_meet_others(comm->attachment, &comm->job, comm->name, comm->slots,
                                      comm->handle, communicator_subject(comm), comm->unmet);
  comm->to_meet = false;
  bool alike = !atomic_exchange(&comm->to_compare, false) || comm->attachment == NULL || !met ||
               alike_in(comm->attachment, comm->slots, communicator_subject(comm));
  if (met && alike)
    return;
  last_error_is_ours(ncclInvalidUsage);
  attachment_complete(comm->attachment);
  attachment_detach(comm->attachment);
  comm->attachment = NULL;
  comm->refused = true;
  comm->state = COMM_OFF;
}

bool communicator_is_refused(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  if (comm == NULL)
    return false;
  if (atomic_load(&comm->to_compare) || comm->to_meet) {
    pthread_mutex_lock(&lock);
    communicator_compare(comm);
    pthread_mutex_unlock(&lock);
  }
  return atomic_load(&comm->refused);
}

void communicator_depart(struct arrival *arrival) {
  late_end(&arrival->late);
  if (arrival->attachment == NULL)
    return;
  attachment_complete(arrival->attachment);
  attachment_detach(arrival->attachment);
  arrival->attachment = NULL;
}

void communicator_add(const struct arrival *arrival, ncclComm_t handle, uint64_t driver) {
  struct communicator *comm = calloc(1, sizeof(*comm));
  if (comm == NULL || handle == NULL) {
    late_end(&(struct late *){arrival->late});
    free(comm);
    return;
  }
  library_made(arrival->library, handle);
  captures_tell(communicator_end_plain);
  comm->handle = handle;
  memcpy(comm->name, arrival->name, sizeof(comm->name));
  comm->tag = attachment_tag(comm->name);
  comm->device = arrival->device;
  comm->state = arrival->attachment == NULL ? COMM_OFF : COMM_PENDING;
  comm->attachment = arrival->attachment;
  comm->slot = arrival->slot;
  comm->slots = arrival->slots;
  comm->to_compare = arrival->to_compare;
  comm->refused = arrival->refused;
  comm->has_job = arrival->has_job;
  comm->job = arrival->job;
  memcpy(comm->unmet, arrival->unmet, sizeof(comm->unmet));
  comm->late = arrival->late;
  comm->to_meet = arrival->has_job && !arrival->met;
  comm->driver = driver;
  comm->creator = endpoint_this_thread();
  pthread_mutex_lock(&lock);
  if (table_add(comm)) {
    *last = comm;
    last = &comm->next;
  } else {
    late_end(&comm->late);
    free(comm);
  }
  pthread_mutex_unlock(&lock);
}

/* ---- in use ---- */

/* A communicator that does not block may still be in creation. */
static bool is_created(const struct communicator *comm) {
  ncclResult_t state = ncclInProgress;
  return real.CommGetAsyncError(comm->handle, &state) != ncclSuccess || state != ncclInProgress;
}

/* In order of creation, which is the same on all ranks for communicators of the same ranks: so all
 * put them into the same teams. */
static void activate_ready(void) {
  pthread_mutex_lock(&lock);
  for (struct communicator *comm = first; comm != NULL; comm = comm->next)
    if (comm->state == COMM_PENDING && is_created(comm)) {
      communicator_compare(comm);
      if (comm->state == COMM_PENDING)
        endpoint_activate(comm, first, &endpoints);
    }
  pthread_mutex_unlock(&lock);
}

struct communicator *communicator_find_ready(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  if (comm != NULL && atomic_load(&comm->state) == COMM_PENDING)
    activate_ready();
  return comm != NULL && atomic_load(&comm->state) == COMM_JOINED ? comm : NULL;
}

struct communicator *communicator_find(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  if (comm == NULL)
    return NULL;
  if (atomic_load(&comm->state) == COMM_PENDING) {
    /* All ranks are creating it; no lock is held meanwhile. */
    for (uint64_t ms = join_settings()->timeout_s * 1000; ms > 0 && !is_created(comm); ms--)
      nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    activate_ready();
  }
  return atomic_load(&comm->state) == COMM_JOINED ? comm : NULL;
}

struct endpoint *communicator_endpoints(void) {
  activate_ready();
  return endpoints;
}

void communicator_hold(void) {
  pthread_mutex_lock(&lock);
  holders++;
  pthread_mutex_unlock(&lock);
}

struct endpoint *communicator_hold_endpoints(void) {
  communicator_hold();
  return communicator_endpoints();
}

void communicator_release_endpoints(void) {
  pthread_mutex_lock(&lock);
  if (--holders == 0)
    endpoint_reap(endpoints);
  pthread_mutex_unlock(&lock);
}

void communicator_free_shadows(int device) {
  bool used = false;
  pthread_mutex_lock(&lock);
  for (struct communicator *comm = first; comm != NULL; comm = comm->next)
    used = used || comm->device == device;
  pthread_mutex_unlock(&lock);
  if (!used)
    shadow_free_kept(device);
}

void communicator_end_plain(void) {
  pthread_mutex_lock(&lock);
  for (struct endpoint *end = endpoints; end != NULL; end = end->next)
    endpoint_end_plain(end);
  pthread_mutex_unlock(&lock);
}

struct communicator *communicator_first(void) {
  return first;
}

/* Of a thread that answers for it in this moment the communicator is not to be taken away. One that
 * is parked there was told to come out, and has not. */
static bool enter_to_remove(struct endpoint *end) {
  if (end == NULL)
    return false;
  while (!endpoint_enter_if_free(end)) {
    if (atomic_load(&end->inside) > 0)
      return false;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  return true;
}

static void take_from_list(struct communicator *comm) {
  _Atomic(struct communicator *) *link = &first;
  while (*link != NULL && *link != comm)
    link = &(*link)->next;
  if (*link != comm)
    return;
  *link = comm->next; /* which stays: another thread may be going along the list */
  if (comm->next == NULL)
    last = link;
}

/* Pending ones first: whether they belong to this one's team must not depend on which rank destroys
 * it sooner. The structure stays, as an endpoint's does. */
void communicator_remove(struct communicator *comm, enum rank_state how) {
  communicator_hold_endpoints();
  struct endpoint *end = comm->end;
  bool entered = enter_to_remove(end);
  if (entered && end->shadow != NULL)
    shadow_forget(end->shadow, comm->handle);
  pthread_mutex_lock(&lock);
  late_end(&comm->late);
  table_remove(comm);
  take_from_list(comm);
  atomic_store(&comm->state, COMM_OFF);
  operators_forget(comm->handle);
  registered_forget(comm);
  endpoint_drop(comm, &endpoints, how);
  comm->next_in_team = gone;
  gone = comm;
  pthread_mutex_unlock(&lock);
  if (entered)
    endpoint_exit(end);
  communicator_release_endpoints();
}

bool communicator_list_endpoint(struct endpoint *end) {
  pthread_mutex_lock(&lock);
  bool entered = endpoint_enter_overlap(end, endpoints);
  if (entered) {
    end->next = endpoints;
    endpoints = end;
  }
  pthread_mutex_unlock(&lock);
  return entered;
}

void communicator_end_endpoint(struct endpoint *end, enum rank_state how) {
  communicator_hold();
  pthread_mutex_lock(&lock);
  endpoint_end(end, &endpoints, how);
  pthread_mutex_unlock(&lock);
  communicator_release_endpoints();
}
