/* Issuing what a parked thread has found (wait_private.h), and what becomes of its requests if that
 * fails. */
#include "interpose/park/wait_private.h"

#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/comm/report.h"
#include "core/transport/plane_view.h"
#include "hooks/contribution.h"
#include "interpose/data/roots.h"
#include "interpose/park/follower.h"
#include "interpose/park/outcome.h"
#include "interpose/comm/clock.h"

bool wait_is_requested(const struct wait *wait, const struct endpoint *end) {
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (wait->requests[i].end == end)
      return true;
  return false;
}

/* Asked while a shadow waits. */
static bool is_broken(void *context) {
  const struct wait *wait = context;
  for (uint32_t i = 0; i < wait->nrequests; i++)
    if (atomic_load(&wait->requests[i].end->broken))
      return true;
  return false;
}

static bool somebody_failed(const struct team *team) {
  return plane_has_failed(team->plane);
}

/* A shadow that could not be issued leaves the peers waiting in NCCL: nothing can be saved, say so
 * to all who are parked. A rank that leaves is told as well: NCCL's kernels hear of nobody's end,
 * so it is for its launcher to end the others. Where a rank has failed, that is the reason, and may
 * not have been logged yet; any other has been. */
static void shadow_failed(struct wait *wait, struct endpoint *end) {
  endpoint_await_death(end, true);
  bool lost = somebody_failed(end->team);
  team_end_short(end->team);
  endpoint_retire(end, RANK_FAILED);
  if (lost)
    team_find_culprit(end->team);
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    struct request *request = &wait->requests[i];
    if (request->settled || request->end != end)
      continue;
    if (lost) {
      outcome_failed(request);
      continue;
    }
    team_give_up(end->team);
    wait_settle(request, ncclUnhandledCudaError);
  }
}

/* What may have to wait comes later: for a root, or for all that the device has been given. All
 * ranks of this thread have been asked by then, and nobody else's unit is held back. */
enum turn { TURN_AT_ONCE, TURN_ROOT, TURN_STATE, TURNS };

static enum turn turn_of(struct unit unit) {
  if (unit_is_state(unit))
    return TURN_STATE;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (member_elects_root(unit.members[i].kind))
      return TURN_ROOT;
  return TURN_AT_ONCE;
}

static bool waits_for_root(const struct found *found) {
  for (uint32_t i = 0; i < found->unit.nmembers; i++) {
    const struct member *member = &found->unit.members[i];
    const struct communicator *comm = endpoint_communicator(found->end, member->comm);
    if (member_elects_root(member->kind) && comm != NULL && comm->unfit == NULL &&
        !contribution_gathers(found->unit, member->comm) &&
        !roots_can_tell(comm, team_index(found->end->team), member->root))
      return true;
  }
  return false;
}

static struct shadow_limit limit_of(struct wait *wait) {
  return (struct shadow_limit){wait->deadline_ms * 1000000, is_broken, wait};
}

/* A wait for the device, and through it for other ranks. */
struct device_wait {
  struct wait *wait;
  struct endpoint *end;
  uint64_t look_ms;
};

/* Asked while that lasts. */
static bool is_lost(void *context) {
  struct device_wait *device = context;
  if (now_ms() >= device->look_ms) {
    device->look_ms = now_ms() + LOOK_FOR_DEAD_MS;
    team_look_for_the_dead(device->end->team);
  }
  return somebody_failed(device->end->team) || is_broken(device->wait);
}

cudaStream_t wait_stream(const struct wait *wait, const struct endpoint *end) {
  cudaStream_t stream = NULL;
  for (uint32_t i = 0; i < wait->nrequests; i++) {
    if (wait->requests[i].end == end)
      return wait->requests[i].stream;
    if (wait->requests[i].end->device == end->device)
      stream = wait->requests[i].stream;
  }
  return stream;
}

/* Puts units that have to wait for a root last. Returns how many need not. */
static uint32_t put_off(struct wait *wait) {
  uint32_t ready = 0;
  for (uint32_t i = 0; i < wait->nfound; i++) {
    struct found found = wait->found[i];
    if (waits_for_root(&found))
      continue;
    wait->found[i] = wait->found[ready];
    wait->found[ready++] = found;
  }
  return ready;
}

/* Issues those of the first nfound units whose turn it is. */
static void issue_some(struct wait *wait, enum turn turn, uint32_t nfound) {
  struct shadow_limit limit = limit_of(wait);
  for (uint32_t i = 0; i < nfound; i++) {
    struct found *found = &wait->found[i];
    struct device_wait device = {wait, found->end, 0};
    struct shadow_limit until_lost = {limit.until_ns, is_lost, &device};
    if (turn_of(found->unit) == turn &&
        !shadows_collect(&wait->shadows, found->end, found->unit, wait_stream(wait, found->end),
                         turn == TURN_STATE ? &until_lost : &limit))
      shadow_failed(wait, found->end);
  }
  if (shadows_issue(&wait->shadows, &limit))
    return;
  for (uint32_t i = 0; i < nfound; i++)
    if (turn_of(wait->found[i].unit) == turn)
      shadow_failed(wait, wait->found[i].end);
}

/* Memory is asked for, and NCCL may connect ranks on the host: that is work, and no wait that
 * others should end by a guess. */
static void say_issuing(const struct wait *wait, uint32_t nfound, bool issuing) {
  uint64_t now = now_ms();
  for (uint32_t i = 0; i < nfound; i++)
    if (issuing)
      overlap_issues(wait->found[i].end->overlap, now);
    else
      overlap_moved(wait->found[i].end->overlap, now);
}

static void issue_first(struct wait *wait, uint32_t nfound) {
  say_issuing(wait, nfound, true);
  for (enum turn turn = TURN_AT_ONCE; turn < TURNS; turn++)
    issue_some(wait, turn, nfound);
  say_issuing(wait, nfound, false);
  for (uint32_t i = 0; i < nfound; i++)
    if (wait->found[i].locked)
      pthread_mutex_unlock(&wait->found[i].end->turn);
  wait->nfound -= nfound;
  memmove(wait->found, wait->found + nfound, wait->nfound * sizeof *wait->found);
}

void wait_issue(struct wait *wait) {
  if (wait->nfound > 0)
    issue_first(wait, put_off(wait));
}

void wait_issue_all(struct wait *wait) {
  if (wait->nfound > 0)
    issue_first(wait, wait->nfound);
}

bool wait_for_root(struct wait *wait, unsigned milliseconds) {
  if (wait->nfound == 0)
    return false;
  struct team *team = wait->found[0].end->team;
  uint64_t since = now_ms();
  team_wait_others(team, team_index(team), milliseconds);
  if (now_ms() >= since + milliseconds)
    team_look_for_the_dead(team);
  return true;
}

bool wait_find(struct wait *wait, struct endpoint *end, struct unit unit, bool locked) {
  overlap_issued(end->overlap, end->team, unit);
  follower_saw(wait, end);
  if (unit_is_exchange(unit))
    report_exchange(end, unit);
  if (unit_mark(unit) != MARK_NONE || unit_is_exchange(unit))
    return false;
  if (failing_look(wait, end))
    return false;
  if (wait->nfound == wait->room) {
    uint32_t room = 2 * wait->room + 8;
    struct found *found = realloc(wait->found, room * sizeof(*found));
    if (found == NULL) {
      shadow_failed(wait, end);
      return false;
    }
    wait->found = found;
    wait->room = room;
  }
  wait->found[wait->nfound++] = (struct found){end, unit, locked};
  return true;
}

bool wait_has_found(const struct wait *wait, const struct endpoint *end) {
  for (uint32_t i = 0; i < wait->nfound; i++)
    if (wait->found[i].end == end)
      return true;
  return false;
}

/* ---- resynchronised buffers ---- */

static ncclResult_t finish_state(struct wait *wait, struct endpoint *end) {
  struct device_wait device = {wait, end, 0};
  struct shadow_limit limit = {wait->deadline_ms * 1000000, is_lost, &device};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_wait(end->shadow, &limit, reason);
  end->state_moved = false;
  state_release(&end->buffers);
  /* NCCL may have given up the broadcasts of a rank that is gone: then the stream has passed. */
  team_look_for_the_dead(end->team);
  if (result == ncclInProgress || somebody_failed(end->team))
    result = ncclRemoteError;
  if (result != ncclSuccess)
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u: what is resynchronised may be half done: %s. Do not save it: go back to a "
        "checkpoint",
        end->team->plane->rank, *reason != '\0' ? reason : "a rank has failed meanwhile");
  return result;
}

void wait_finish_states(struct wait *wait) {
  for (struct endpoint *end = wait->all; end != NULL; end = end->next) {
    if (!(wait_is_requested(wait, end) || endpoint_is_own(end)) || !end->state_moved)
      continue;
    ncclResult_t result = finish_state(wait, end);
    for (uint32_t i = 0; i < wait->nrequests; i++)
      if (wait->requests[i].end == end && wait->requests[i].result == ncclSuccess)
        wait->requests[i].result = result;
  }
}
