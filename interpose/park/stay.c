/* Issuing what a parked thread has found (stay.h), and what becomes of its wishes if that fails. */
#include "interpose/park/stay.h"

#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "hooks/contribution.h"
#include "interpose/data/roots.h"
#include "interpose/park/follower.h"
#include "interpose/nccl/real.h"
#include "interpose/comm/patience.h"

void stay_settle(struct wish *wish, ncclResult_t result) {
  struct endpoint *end = wish->end;
  wish->settled = true;
  wish->result = result;
  if (result != ncclSuccess)
    last_error_is_ours();
  if (result == ncclRemoteError)
    end->told_failed = true;
  wish->index = team_index(end->team);
  if (unit_is_door(wish->unit))
    return; /* the rank's next call is told */
  if (end->hook_failed)
    wish->notice = ncclInvalidUsage;
  end->hook_failed = false;
}

bool stay_is_wished(const struct stay *stay, const struct endpoint *end) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (stay->wishes[i].end == end)
      return true;
  return false;
}

/* Asked while a shadow waits. */
static bool is_broken(void *context) {
  const struct stay *stay = context;
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (atomic_load(&stay->wishes[i].end->broken))
      return true;
  return false;
}

static bool somebody_failed(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (atomic_load(&team->plane->logs[rank]->state) == RANK_FAILED)
      return true;
  return false;
}

/* A shadow that could not be issued leaves the peers waiting in NCCL: nothing can be saved, say so
 * to all who are parked. A rank that leaves is told as well: NCCL's kernels hear of nobody's end,
 * so it is for its launcher to end the others. */
static void shadow_failed(struct stay *stay, struct endpoint *end) {
  ncclResult_t result = somebody_failed(end->team) ? ncclRemoteError : ncclUnhandledCudaError;
  team_end_short(end->team);
  endpoint_retire(end, RANK_FAILED);
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled || wish->end != end)
      continue;
    team_give_up(end->team);
    stay_settle(wish, result);
  }
}

/* What may have to wait comes later: for a root, or for all that the device has been given. All
 * ranks of this thread have been asked by then, and nobody else's unit is held back. */
enum turn { TURN_AT_ONCE, TURN_ROOT, TURN_STATE, TURNS };

static enum turn turn_of(struct unit unit) {
  if (unit_is_state(unit))
    return TURN_STATE;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (unit.members[i].kind == MEMBER_BROADCAST)
      return TURN_ROOT;
  return TURN_AT_ONCE;
}

static bool waits_for_root(const struct found *found) {
  for (uint32_t i = 0; i < found->unit.nmembers; i++) {
    const struct member *member = &found->unit.members[i];
    const struct communicator *comm = endpoint_communicator(found->end, member->comm);
    if (member->kind == MEMBER_BROADCAST && comm != NULL && comm->unfit == NULL &&
        !contribution_gathers(found->unit, member->comm) &&
        !roots_can_tell(comm, team_index(found->end->team), member->root))
      return true;
  }
  return false;
}

static struct shadow_limit limit_of(struct stay *stay) {
  return (struct shadow_limit){stay->deadline_ms * 1000000, is_broken, stay};
}

/* A wait for the device, and through it for other ranks. */
struct device_wait {
  struct stay *stay;
  struct endpoint *end;
  uint64_t look_ms;
};

/* Asked while that lasts. */
static bool is_lost(void *context) {
  struct device_wait *wait = context;
  if (now_ms() >= wait->look_ms) {
    wait->look_ms = now_ms() + LOOK_FOR_DEAD_MS;
    team_look_for_the_dead(wait->end->team);
  }
  return somebody_failed(wait->end->team) || is_broken(wait->stay);
}

cudaStream_t stay_stream(const struct stay *stay, const struct endpoint *end) {
  cudaStream_t stream = NULL;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    if (stay->wishes[i].end == end)
      return stay->wishes[i].stream;
    if (stay->wishes[i].end->device == end->device)
      stream = stay->wishes[i].stream;
  }
  return stream;
}

/* Puts units that have to wait for a root last. Returns how many need not. */
static uint32_t put_off(struct stay *stay) {
  uint32_t ready = 0;
  for (uint32_t i = 0; i < stay->nfound; i++) {
    struct found found = stay->found[i];
    if (waits_for_root(&found))
      continue;
    stay->found[i] = stay->found[ready];
    stay->found[ready++] = found;
  }
  return ready;
}

/* Issues those of the first nfound units whose turn it is. */
static void issue_some(struct stay *stay, enum turn turn, uint32_t nfound) {
  struct shadow_limit limit = limit_of(stay);
  for (uint32_t i = 0; i < nfound; i++) {
    struct found *found = &stay->found[i];
    struct device_wait wait = {stay, found->end, 0};
    struct shadow_limit until_lost = {limit.until_ns, is_lost, &wait};
    if (turn_of(found->unit) == turn &&
        !shadows_collect(&stay->shadows, found->end, found->unit, stay_stream(stay, found->end),
                         turn == TURN_STATE ? &until_lost : &limit))
      shadow_failed(stay, found->end);
  }
  if (shadows_issue(&stay->shadows, &limit))
    return;
  for (uint32_t i = 0; i < nfound; i++)
    if (turn_of(stay->found[i].unit) == turn)
      shadow_failed(stay, stay->found[i].end);
}

static void issue_first(struct stay *stay, uint32_t nfound) {
  for (enum turn turn = TURN_AT_ONCE; turn < TURNS; turn++)
    issue_some(stay, turn, nfound);
  for (uint32_t i = 0; i < nfound; i++)
    if (stay->found[i].locked)
      pthread_mutex_unlock(&stay->found[i].end->turn);
  stay->nfound -= nfound;
  memmove(stay->found, stay->found + nfound, stay->nfound * sizeof *stay->found);
}

void stay_issue(struct stay *stay) {
  if (stay->nfound > 0)
    issue_first(stay, put_off(stay));
}

void stay_issue_all(struct stay *stay) {
  if (stay->nfound > 0)
    issue_first(stay, stay->nfound);
}

bool stay_wait_for_root(struct stay *stay, unsigned milliseconds) {
  if (stay->nfound == 0)
    return false;
  struct team *team = stay->found[0].end->team;
  uint64_t since = now_ms();
  team_wait_others(team, team_index(team), milliseconds);
  if (now_ms() >= since + milliseconds)
    team_look_for_the_dead(team);
  return true;
}

bool stay_find(struct stay *stay, struct endpoint *end, struct unit unit, bool locked) {
  overlap_issued(end->overlap, end->team, unit);
  follower_saw(stay, end);
  if (unit_mark(unit) != MARK_NONE)
    return false;
  if (stay->nfound == stay->room) {
    uint32_t room = 2 * stay->room + 8;
    struct found *found = realloc(stay->found, room * sizeof(*found));
    if (found == NULL) {
      shadow_failed(stay, end);
      return false;
    }
    stay->found = found;
    stay->room = room;
  }
  stay->found[stay->nfound++] = (struct found){end, unit, locked};
  return true;
}

bool stay_has_found(const struct stay *stay, const struct endpoint *end) {
  for (uint32_t i = 0; i < stay->nfound; i++)
    if (stay->found[i].end == end)
      return true;
  return false;
}

/* ---- resynchronised buffers ---- */

static ncclResult_t finish_state(struct stay *stay, struct endpoint *end) {
  struct device_wait wait = {stay, end, 0};
  struct shadow_limit limit = {stay->deadline_ms * 1000000, is_lost, &wait};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_wait(end->shadow, &limit, reason);
  end->state_moved = false;
  state_release(&end->buffers);
  /* NCCL may have given up the broadcasts of a rank that is gone: then the stream has passed. */
  team_look_for_the_dead(end->team);
  if (result == ncclInProgress || somebody_failed(end->team))
    result = ncclRemoteError;
  if (result != ncclSuccess)
    log_line(LOG_LEVEL_WARN, "rank %u: what is resynchronised may be half done: %s",
             end->team->plane->rank, *reason != '\0' ? reason : "a rank has failed meanwhile");
  return result;
}

void stay_finish_states(struct stay *stay) {
  for (struct endpoint *end = stay->all; end != NULL; end = end->next) {
    if (!(stay_is_wished(stay, end) || endpoint_is_own(end)) || !end->state_moved)
      continue;
    ncclResult_t result = finish_state(stay, end);
    for (uint32_t i = 0; i < stay->nwishes; i++)
      if (stay->wishes[i].end == end && stay->wishes[i].result == ncclSuccess)
        stay->wishes[i].result = result;
  }
}
