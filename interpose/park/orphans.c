/* Finding those who are left behind (orphans.h). */
#include "interpose/park/orphans.h"

#include "core/report/log.h"
#include "interpose/comm/clock.h"

static bool is_of(const struct communicator *other, uint32_t tag) {
  return atomic_load(&other->state) == COMM_JOINED && !other->left && other->tag == tag &&
         atomic_load(&other->end->state) == RANK_PRESENT;
}

/* Whether no other thread will come with it: who used it has ended, or nobody did, and who made it
 * has, or is the one that leaves. */
static bool has_nobody(const struct endpoint *end) {
  const struct thread *user = atomic_load(&end->user);
  if (user != NULL)
    return thread_has_ended(user);
  return end->creator == endpoint_this_thread() || thread_has_ended(end->creator);
}

bool orphans_is_one(const struct communicator *comm, const struct communicator *other) {
  return other != comm && is_of(other, comm->tag) && has_nobody(other->end) &&
         atomic_load(&other->end->inside) == 0;
}

/* Whether the rank is where the others are, and its thread has not moved for long. Asked of the
 * same rank again and again. */
static bool is_idle(struct endpoint *other, uint64_t head) {
  const struct thread *owner = endpoint_owner(other);
  if (has_nobody(other))
    return true;
  if (owner == endpoint_this_thread() || team_passed(other->team) != head)
    return false;
  uint64_t now = now_ms(), runs = thread_runs(owner);
  if (atomic_exchange(&other->idle_head, head + 1) != head + 1) {
    atomic_store(&other->idle_from_ms, now);
    atomic_store(&other->asleep_from_ms, now);
  }
  if (atomic_exchange(&other->idle_runs, runs) != runs)
    atomic_store(&other->asleep_from_ms, now);
  return now - atomic_load(&other->asleep_from_ms) >= ORPHANS_IDLE_MS ||
         now - atomic_load(&other->idle_from_ms) >= ORPHANS_SPINNING_MS;
}

static void say_adopted(const struct endpoint *other) {
  if (!has_nobody(other))
    log_line_of(endpoint_subject(other), LOG_LEVEL_INFO,
                "rank %u leaves with another rank of its process: its own thread does nothing any "
                "more",
                other->team->plane->rank);
}

/* The communicators that the parked ranks leave with are not known here, but the teams are: the
 * rank is taken along if it has a communicator of the same name as one that leaves. */
static bool is_awaited(const struct wait *wait, const struct endpoint *other) {
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    const struct request *request = &wait->requests[i];
    if (!request->settled && unit_is_leave(request->unit) && request->end->tag == other->tag)
      return true;
  }
  return false;
}

struct endpoint *orphans_enter_next(const struct wait *wait) {
  for (struct endpoint *other = wait->all; other != NULL; other = other->next) {
    if (wait_is_requested(wait, other) || atomic_load(&other->ended) ||
        atomic_load(&other->state) != RANK_PRESENT || !is_awaited(wait, other) ||
        atomic_load(&other->inside) > 0 ||
        !is_idle(other, team_passed(wait->requests[0].end->team)))
      continue;
    if (!endpoint_enter_if_free(other))
      continue;
    say_adopted(other);
    return other;
  }
  return NULL;
}
