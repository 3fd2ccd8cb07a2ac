/* Endpoints in use, and their end (endpoint.h). How they are made is in activation.c. */
#include "interpose/comm/endpoint.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/report/log.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/captures.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/communicator.h"
#include "interpose/self/environment.h"
#include "interpose/self/guard.h"
#include "interpose/nccl/real.h"

/* ---- threads ---- */

/* Whether this kernel can make all threads of the process pass a barrier; without it every call
 * takes the lock. */
static bool has_membarrier(void) {
  static _Atomic int known; /* 0: not asked yet */
  int answer = atomic_load(&known);
  if (answer == 0) {
    answer = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0 ? 1 : -1;
    atomic_store(&known, answer);
  }
  return answer > 0;
}

/* With `turn`: from here on no other thread is committing. */
static void take_over(struct endpoint *end) {
  struct seat *seat = atomic_load(&end->plain);
  if (seat == NULL)
    return;
  atomic_store(&end->plain, NULL);
  if (atomic_load(&seat->thread) == endpoint_this_thread())
    return;
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
  while (atomic_load_explicit(&seat->busy, memory_order_acquire))
    sched_yield();
}

static struct seat *own_seat(struct endpoint *end) {
  for (int i = 0; i < ENDPOINT_SEATS; i++) {
    struct seat *seat = &end->seats[i];
    if (atomic_load(&seat->thread) == endpoint_this_thread())
      return seat;
    if (atomic_load(&seat->thread) == NULL || thread_has_ended(atomic_load(&seat->thread))) {
      atomic_store(&seat->thread, endpoint_this_thread());
      return seat;
    }
  }
  return NULL;
}

void endpoint_enter(struct endpoint *end) {
  atomic_fetch_add(&end->inside, 1);
  pthread_mutex_lock(&end->turn);
  take_over(end);
  atomic_store(&end->holder, endpoint_this_thread());
}

bool endpoint_enter_unless(struct endpoint *end, bool (*is_set)(const struct endpoint *end)) {
  atomic_fetch_add(&end->inside, 1);
  /* Threads that take turns never wait here. */
  while (pthread_mutex_trylock(&end->turn) != 0) {
    if (is_set(end))
      return false;
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  }
  take_over(end);
  atomic_store(&end->holder, endpoint_this_thread());
  return true;
}

bool endpoint_enter_if_free(struct endpoint *end) {
  if (atomic_fetch_add(&end->inside, 1) > 0 || pthread_mutex_trylock(&end->turn) != 0) {
    atomic_fetch_sub(&end->inside, 1);
    return false;
  }
  take_over(end);
  atomic_store(&end->holder, endpoint_this_thread());
  return true;
}

void endpoint_exit(struct endpoint *end) {
  if (atomic_load(&end->holder) != endpoint_this_thread()) {
    atomic_fetch_sub(&end->inside, 1);
    return;
  }
  if (!atomic_load(&end->ended) && atomic_load(&end->user) == endpoint_this_thread() &&
      end->trace == NULL && end->sent == NULL && atomic_load(&end->state) == RANK_PRESENT &&
      overlap_nteams(end->overlap) < 2 && join_settings()->divisor == DIVISOR_INITIAL &&
      join_settings()->early_exit == EARLY_EXIT_JOIN && has_membarrier() &&
      !captures_are_under_way() && !apart_is_set(end)) {
    atomic_store(&end->plain, own_seat(end));
    /* One may have begun in between, or another thread have added a team, and have found nothing to
     * take away. */
    if (captures_are_under_way() || overlap_nteams(end->overlap) > 1)
      atomic_store(&end->plain, NULL);
  }
  atomic_store(&end->holder, NULL);
  atomic_store(&end->inside_for, 0);
  pthread_mutex_unlock(&end->turn);
  atomic_fetch_sub(&end->inside, 1);
}

static struct endpoint *gone; /* those that are empty, by `gone`; with communicator.c's lock */

/* The structure itself stays: communicators that are gone still name it. It is small, and there is
 * one for each team that the process has ever had. */
void endpoint_empty(struct endpoint *end) {
  atomic_store(&end->user, NULL);
  if (end->team != NULL)
    team_destroy(end->team);
  if (end->trace != NULL)
    trace_close(end->trace);
  sent_destroy(end->sent);
  rhythm_destroy(end->rhythm);
  free(end->identities);
  free(end->rank_in_whole);
  state_free(&end->buffers);
  end->overlap = NULL;
  end->team = NULL;
  end->trace = NULL;
  end->sent = NULL;
  end->rhythm = NULL;
  end->identities = NULL;
  end->rank_in_whole = NULL;
  end->gone = gone;
  gone = end;
}

void endpoint_end_plain(struct endpoint *end) {
  struct seat *seat = atomic_exchange(&end->plain, NULL);
  if (seat == NULL || atomic_load(&seat->thread) == endpoint_this_thread())
    return;
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0);
  while (atomic_load_explicit(&seat->busy, memory_order_acquire))
    sched_yield();
}

struct log_subject endpoint_subject(const struct endpoint *end) {
  const struct communicator *comm = endpoint_communicator(end, end->tag);
  const struct plane *plane = end->team->plane;
  return (struct log_subject){.comm = comm == NULL ? NULL : comm->handle,
                              .rank = (int)plane->rank,
                              .nranks = (int)plane->nranks,
                              .tag = end->tag};
}

void endpoint_retire(struct endpoint *end, enum rank_state state) {
  end->state = state;
  if (end->in_overlap != NULL)
    overlap_remove(end->overlap, end->team);
  end->in_overlap = NULL;
}

void endpoint_await_death(struct endpoint *end, bool by_nccl) {
  const struct plane *plane = end->team->plane;
  uint64_t deadline = now_ms() + ENDPOINT_DEATH_MS;
  bool here = !plane_has_machines(plane);
  if ((here && !by_nccl) || atomic_exchange(&end->awaited_death, true))
    return;
  for (;;) {
    team_look_for_the_dead(end->team);
    if (plane_has_died(plane) || (here && plane_has_failed(plane)) ||
        atomic_load(&end->broken) != ncclSuccess || now_ms() >= deadline)
      return;
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  }
}

/* ---- the end ---- */

/* Ended, but another thread may still be looking at them; by `gone`, with communicator.c's lock. */
static struct endpoint *ended;

void endpoint_drop(struct communicator *comm, _Atomic(struct endpoint *) *endpoints,
                   enum rank_state how) {
  struct endpoint *end = comm->end;
  free(comm->team_rank_of);
  comm->team_rank_of = NULL;
  if (end == NULL) {
    if (comm->attachment != NULL)
      attachment_detach(comm->attachment);
    comm->attachment = NULL;
    return;
  }
  _Atomic(struct communicator *) *link = &end->comms;
  while (*link != comm)
    link = &(*link)->next_in_team;
  *link = comm->next_in_team;
  state_remove_all(&end->buffers, comm->tag);
  if (end->comms == NULL)
    endpoint_end(end, endpoints, how);
}

void endpoint_end(struct endpoint *end, _Atomic(struct endpoint *) *endpoints,
                  enum rank_state how) {
  _Atomic(struct endpoint *) *at = endpoints;
  while (*at != end)
    at = &(*at)->next;
  *at = end->next;
  atomic_store(&end->ended, true);
  endpoint_end_plain(end);
  team_end(end->team, end->state == RANK_FAILED ? RANK_FAILED : how);
  endpoint_retire(end, end->state);
  end->gone = ended;
  ended = end;
}

static bool has_overlap(const struct endpoint *first, const struct overlap *overlap) {
  for (; first != NULL; first = first->next)
    if (first->overlap == overlap)
      return true;
  return false;
}

static bool is_last_of_overlap(const struct endpoint *end, const struct endpoint *endpoints) {
  for (const struct endpoint *other = ended; other != NULL; other = other->gone)
    if (other != end && other->overlap == end->overlap)
      return false;
  return !has_overlap(endpoints, end->overlap);
}

/* A thread may still be inside one, long after it has been told to come out: that one stays. */
void endpoint_reap(const struct endpoint *endpoints) {
  struct endpoint **link = &ended;
  while (*link != NULL) {
    struct endpoint *end = *link;
    if (atomic_load(&end->inside) > 0) {
      link = &end->gone;
      continue;
    }
    if (is_last_of_overlap(end, endpoints))
      overlap_destroy(end->overlap);
    *link = end->gone;
    shadow_destroy(end->shadow, &(struct shadow_limit){0});
    attachment_detach(end->attachment);
    endpoint_empty(end);
  }
}

bool endpoint_has_rank(const struct endpoint *end, uint64_t identity) {
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++)
    if (end->identities[rank] == identity)
      return true;
  return false;
}

struct communicator *endpoint_communicator(const struct endpoint *end, uint32_t tag) {
  for (struct communicator *comm = end->comms; comm != NULL; comm = comm->next_in_team)
    if (comm->tag == tag)
      return comm;
  return NULL;
}

const struct communicator *endpoint_eldest(const struct endpoint *end) {
  const struct communicator *comm = end->comms;
  while (comm != NULL && comm->next_in_team != NULL && comm->tag != end->tag)
    comm = comm->next_in_team;
  return comm;
}
