/* Threads that do not take turns (apart.h). */
#include "interpose/comm/apart.h"

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "interpose/comm/clock.h"
#include "interpose/places/places.h"

/* ---- the proof ---- */

static void apart_recognise(struct endpoint *end, uint32_t tag, uint32_t other) {
  struct plane *plane = end->team->plane;
  if (!plane_set_apart(plane))
    return;
  log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
              "rank %u: two threads use communicators %08x and %08x of the same ranks at the same "
              "time, which NCCL advises against: nothing tells their order. nccl-join stands aside "
              "for both; ranks that join unevenly wait as they would without it",
              plane->rank, tag, other);
}

void apart_enter(struct endpoint *end, uint32_t tag) {
  uint32_t inside = atomic_load(&end->inside_for);
  if (inside != 0 && inside != tag && atomic_load(&end->inside) > 0)
    apart_recognise(end, tag, inside);
  atomic_store(&end->user, endpoint_this_thread());
  atomic_store(&end->user_of_engine, places_are_on() && !places_are_missed());
  if (!endpoint_enter_unless(end, apart_is_set))
    return;
  atomic_store(&end->inside_for, tag);
  struct communicator *comm = endpoint_communicator(end, tag);
  if (comm != NULL)
    atomic_store(&comm->user, endpoint_this_thread());
  end->held_from_ms = end->held_until_ms = 0;
}

void apart_stand_aside(struct endpoint *end) {
  if (atomic_load(&end->holder) == endpoint_this_thread() && end->state == RANK_PRESENT)
    endpoint_retire(end, RANK_DONE);
}

/* ---- waiting for it ---- */

/* Whether another thread that may yet come uses one of the communicators, and what it has done. */
static bool has_others(const struct endpoint *end, const struct communicator *except,
                       uint64_t *runs) {
  bool others = false;
  *runs = 0;
  for (const struct communicator *comm = end->comms; comm != NULL; comm = comm->next_in_team) {
    const struct thread *user = atomic_load(&comm->user);
    if (user == NULL)
      user = comm->creator;
    if (comm == except || user == endpoint_this_thread() || thread_has_ended(user) || comm->left)
      continue;
    others = true;
    *runs += thread_runs(user);
  }
  return others;
}

bool apart_has_others(const struct endpoint *end, const struct communicator *except) {
  uint64_t runs;
  return has_others(end, except, &runs);
}

/* Whether the next index may be passed with a shadow: another rank has passed it, or claims it,
 * with something else than we claim. */
static bool may_shadow(const struct team *team) {
  const struct plane *plane = team->plane;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    uint64_t hash;
    if (rank != plane->rank && plane_hash(plane, rank, team->head, &hash) &&
        (!team->claim.open || hash != team->claim.hash))
      return true;
  }
  return false;
}

/* Until when, as far as is known now. */
static bool waits_on(struct endpoint *end, uint64_t now) {
  uint64_t runs, asleep_ms = end->takes_turns ? APART_TURNS_MS : APART_ASLEEP_MS;
  if (end->held_from_ms == 0)
    end->held_from_ms = end->held_look_ms = now;
  if (now < end->held_look_ms)
    return true;
  end->held_look_ms = now + 10;
  if (!has_others(end, NULL, &runs))
    return false;
  if (runs != end->held_runs)
    end->held_until_ms = now + asleep_ms;
  end->held_runs = runs;
  return now < end->held_until_ms && now - end->held_from_ms < APART_AWAKE_MS;
}

static bool is_held(void *context) {
  struct endpoint *end = context;
  if (end->held_before != NULL && end->held_before(end->held_before_context))
    return true;
  if (end->comms == NULL || end->comms->next_in_team == NULL || end->held_from_ms == UINT64_MAX ||
      !may_shadow(end->team))
    return false;
  if (waits_on(end, now_ms()))
    return true;
  end->takes_turns = true;
  end->held_from_ms = UINT64_MAX; /* until the thread's next call */
  return false;
}

void apart_watch(struct endpoint *end) {
  end->held_before = end->team->owner.is_held;
  end->held_before_context = end->team->owner.is_held_context;
  end->team->owner.is_held = is_held;
  end->team->owner.is_held_context = end;
}
