/* Parked: waiting for a wish to settle, and answering the others meanwhile (answer.h). */
#include "interpose/answer.h"

#include <stdlib.h>
#include <time.h>

#include "core/log.h"
#include "hooks/contribution.h"
#include "interpose/real.h"

#define WAIT_ALONE_MS 50    /* between looks at the dead: a death frees everybody well within a second */
#define WAIT_SEVERAL_MS 1   /* a rank of several teams hears the bell of one of them only */
#define LOOK_FOR_DEAD_MS 100
#define DESCRIPTION 256

static uint64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* One stay in a call. */
struct stay {
  struct wish *wishes;
  uint32_t nwishes;
  struct endpoint *all; /* of this process */
  uint64_t deadline_ms, look_ms;
  /* The shadows of one round, issued together: a thread that is several ranks must not issue theirs one by one. */
  struct member *members;
  struct shadow_member *targets;
  uint32_t nmembers, room;
};

static void fail_endpoint(struct endpoint *end) {
  end->state = RANK_FAILED;
  team_give_up(end->team);
}

static const char *describe(struct unit unit, char *text) {
  return unit_describe(unit, text, DESCRIPTION);
}

static void trace(struct endpoint *end, enum trace_event event, uint64_t index, struct unit unit,
                  int64_t rank) {
  if (end->trace == NULL)
    return;
  char text[DESCRIPTION];
  trace_event(end->trace, event, index, describe(unit, text), rank);
}

/* ---- what ends a wish ------------------------------------------------------------------------------ */

static void settle_wish(struct wish *wish, ncclResult_t result) {
  wish->settled = true;
  wish->result = result;
  wish->index = team_index(wish->end->team);
}

static void log_failure(const struct wish *wish) {
  const struct team *team = wish->end->team;
  char text[DESCRIPTION];
  const char *own = describe(wish->unit, text);
  uint32_t rank = team->plane->rank;
  switch (team->failure) {
  case FAILURE_RANK:
    log_line(LOG_LEVEL_WARN, "rank %u failed after %llu collectives; rank %u, parked in %s after %llu, is released with "
             "ncclRemoteError",
             team->failure_rank, (unsigned long long)team->failure_index, rank, own,
             (unsigned long long)team->head);
    break;
  case FAILURE_ENDED:
    log_line(LOG_LEVEL_WARN, "rank %u has ended, but rank %u still wants %s: the ranks of this program do not end together; "
             "ncclRemoteError",
             team->failure_rank, rank, own);
    break;
  case FAILURE_TOO_BIG:
    log_line(LOG_LEVEL_WARN, "rank %u cannot stand in for a group of more than %d collectives that rank %u issued; "
             "ncclRemoteError",
             rank, UNIT_MEMBERS_MAX, team->failure_rank);
    break;
  case FAILURE_CORRUPT:
    log_line(LOG_LEVEL_WARN, "what rank %u published at index %llu cannot be right (another version of nccl-join, or memory "
             "overwritten); rank %u stops with ncclRemoteError",
             team->failure_rank, (unsigned long long)team->failure_index, rank);
    break;
  case FAILURE_NONE:
    break;
  }
}

/* The team has failed: everybody in it who is parked must hear of it. */
static void wish_failed(struct wish *wish) {
  if (wish->end->team->failure == FAILURE_RANK)
    team_find_culprit(wish->end->team);
  log_failure(wish);
  trace(wish->end, TRACE_FAIL, wish->end->team->head, wish->unit, wish->end->team->failure_rank);
  if (wish->end->team->failure != FAILURE_RANK)
    team_end(wish->end->team, RANK_FAILED);
  fail_endpoint(wish->end);
  settle_wish(wish, ncclRemoteError);
}

static void log_who_is_where(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    uint64_t head = atomic_load(&log->head);
    log_line(LOG_LEVEL_WARN, "  rank %u: %llu collectives issued, %s", rank, (unsigned long long)head,
             atomic_load(&log->claim) == head + 1 ? "parked" : "running its program");
  }
}

static void wish_timed_out(struct wish *wish) {
  const struct team *team = wish->end->team;
  bool leave = unit_is_leave(wish->unit);
  char text[DESCRIPTION];
  log_line(LOG_LEVEL_WARN, "rank %u has waited for NCCL_JOIN_TIMEOUT=%llu s in %s; %s", team->plane->rank,
           (unsigned long long)join_settings()->timeout_s, describe(wish->unit, text),
           leave ? "it goes on" : "ncclRemoteError");
  log_who_is_where(team);
  trace(wish->end, TRACE_FAIL, team->head, wish->unit, -1);
  /* A LEAVE stays claimed: the others can still leave with it. */
  if (leave)
    wish->end->state = RANK_DONE;
  else
    fail_endpoint(wish->end);
  settle_wish(wish, leave ? ncclSuccess : ncclRemoteError);
}

static void log_refused(const struct wish *wish) {
  char text[DESCRIPTION];
  log_line(LOG_LEVEL_WARN,
           "%s needs data of rank %u, which has joined: ncclInvalidUsage on every rank that called it. Set "
           "NCCL_JOIN_LOSSY=zero to let joined ranks send zeros instead",
           describe(wish->unit, text), team_refused_for(wish->end->team));
}

/* ---- shadows ------------------------------------------------------------------------------------------ */

static bool reserve(struct stay *stay, uint32_t more) {
  if (stay->nmembers + more <= stay->room)
    return true;
  uint32_t room = 2 * (stay->nmembers + more);
  struct member *members = realloc(stay->members, room * sizeof(*members));
  if (members != NULL)
    stay->members = members;
  struct shadow_member *targets = realloc(stay->targets, room * sizeof(*targets));
  if (targets != NULL)
    stay->targets = targets;
  if (members == NULL || targets == NULL)
    return false;
  stay->room = room;
  return true;
}

static struct shadow *endpoint_shadow(struct endpoint *end, char *reason) {
  if (end->shadow == NULL) {
    const struct cuda_driver *cuda = cuda_driver_get(reason);
    end->shadow = cuda == NULL ? NULL : shadow_create(cuda, end->device, reason);
  }
  return end->shadow;
}

static void report_lossy(struct endpoint *end, const struct member *member,
                         const struct communicator *comm) {
  if (join_settings()->lossy == LOSSY_ERROR && contribution_is_lossy(member, (uint32_t)comm->rank))
    team_report_lossy(end->team, member->kind);
}

static void warn_of_skew(struct endpoint *end) {
  uint32_t body = learner_body_length(end->team->learner);
  uint64_t limit = join_settings()->skew_warn;
  if (limit == 0 || end->skew_warned || end->team->shadows < limit * (body == 0 ? 1 : body))
    return;
  end->skew_warned = true;
  log_line(LOG_LEVEL_WARN, "rank %u has been joined for more than %llu iterations: the ranks' inputs are very uneven, and its "
           "device only stands in (NCCL_JOIN_SKEW_WARN)",
           end->team->plane->rank, (unsigned long long)limit);
}

/* The first shadow: this rank has joined. */
static void note_shadow(struct endpoint *end, uint64_t index, struct unit unit) {
  if (end->shadows++ == 0) {
    end->joined_at = index;
    trace(end, TRACE_JOIN, index, unit, -1);
    log_line(LOG_LEVEL_INFO, "rank %u has joined: it answers for its peers from collective %llu on",
             end->team->plane->rank, (unsigned long long)index);
  }
  trace(end, TRACE_SHADOW, index, unit, -1);
  warn_of_skew(end);
}

/* The rank goes on. Its shadows' memory is given back if they are done; if not, the next time. */
static void note_return(struct endpoint *end, uint64_t index) {
  if (end->shadows == 0)
    return;
  log_line(LOG_LEVEL_INFO, "rank %u is active again from collective %llu on, shadows since it joined: %llu",
           end->team->plane->rank, (unsigned long long)index, (unsigned long long)end->shadows);
  end->shadows = 0;
  if (end->shadow != NULL)
    shadow_release(end->shadow, &(struct shadow_limit){0}, NULL);
}

/* Collects a unit to be shadowed; false if it cannot be. */
static bool collect(struct stay *stay, struct endpoint *end, struct unit unit) {
  char reason[REASON_SIZE] = "out of memory";
  uint64_t index = team_index(end->team);
  note_shadow(end, index, unit);
  struct shadow *shadow = endpoint_shadow(end, reason);
  if (shadow == NULL || !reserve(stay, unit.nmembers)) {
    log_line(LOG_LEVEL_WARN, "no shadow can be issued: %s", reason);
    return false;
  }
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    const struct communicator *comm = endpoint_communicator(end, member->comm);
    if (comm == NULL) {
      log_line(LOG_LEVEL_WARN, "a peer uses a communicator that this rank has destroyed already");
      return false;
    }
    int root = member->root;
    if (member->kind == MEMBER_BROADCAST && (root = answer_root(end, comm, index, root)) < 0)
      return false;
    report_lossy(end, member, comm);
    stay->members[stay->nmembers] = *member;
    stay->targets[stay->nmembers++] =
        (struct shadow_member){shadow, comm->handle, comm->rank, comm->nranks, root, NULL};
  }
  return true;
}

static struct nccl_calls real_calls(void) {
  real_resolve();
  struct nccl_calls calls = {
      .AllReduce = real.AllReduce,
      .Broadcast = real.Broadcast,
      .Reduce = real.Reduce,
      .AllGather = real.AllGather,
      .ReduceScatter = real.ReduceScatter,
      .AlltoAll = real.AlltoAll,
      .Gather = real.Gather,
      .Scatter = real.Scatter,
      .GroupStart = real.GroupStart,
      .GroupEnd = real.GroupEnd,
      .RedOpCreatePreMulSum = real.RedOpCreatePreMulSum,
      .RedOpDestroy = real.RedOpDestroy,
      .CommGetAsyncError = real.CommGetAsyncError,
  };
  return calls;
}

static bool is_broken(void *context) {
  const struct stay *stay = context;
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (atomic_load(&stay->wishes[i].end->broken))
      return true;
  return false;
}

/* Issues what one round has collected. */
static bool issue_shadows(struct stay *stay) {
  if (stay->nmembers == 0)
    return true;
  struct nccl_calls calls = real_calls();
  struct unit unit = {stay->members, stay->nmembers};
  struct shadow_limit limit = {stay->deadline_ms * 1000000, is_broken, stay};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_issue(&calls, unit, stay->targets, &limit, reason);
  stay->nmembers = 0;
  if (result == ncclSuccess)
    return true;
  char text[DESCRIPTION];
  log_line(LOG_LEVEL_WARN, "a shadow of %s failed: %s", describe(unit, text), reason);
  return false;
}

/* ---- the loop -------------------------------------------------------------------------------------------- */

/* A shadow that could not be issued leaves the peers waiting in NCCL: nothing can be saved, say so to all who are parked. */
static void shadow_failed(struct stay *stay, struct endpoint *end) {
  team_end(end->team, RANK_FAILED);
  end->state = RANK_FAILED;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled || wish->end != end)
      continue;
    team_give_up(end->team);
    settle_wish(wish, unit_is_leave(wish->unit) ? ncclSuccess : ncclUnhandledCudaError);
  }
}

static void handle(struct stay *stay, struct wish *wish, enum team_verdict verdict, struct unit unit) {
  struct endpoint *end = wish->end;
  switch (verdict) {
  case TEAM_PARKED:
    return;
  case TEAM_SHADOW:
    if (!collect(stay, end, unit))
      shadow_failed(stay, end);
    return;
  case TEAM_REAL:
    trace(end, TRACE_SETTLE, team_index(end->team), wish->unit, -1);
    note_return(end, team_index(end->team));
    settle_wish(wish, ncclSuccess);
    return;
  case TEAM_LEFT:
    trace(end, TRACE_DONE, team_index(end->team), wish->unit, -1);
    end->shadows = 0;
    settle_wish(wish, ncclSuccess);
    return;
  case TEAM_REFUSED:
    log_refused(wish);
    settle_wish(wish, ncclInvalidUsage);
    return;
  case TEAM_FAILED:
    wish_failed(wish);
    return;
  }
}

/* Whether a rank that belongs to both teams has moved on in `other` without having reached our claim: then it, or we, have left,
 * and `other` must be answered. Being merely late is no reason to. */
static bool has_moved_on(const struct endpoint *parked, const struct endpoint *other) {
  const struct plane *here = parked->team->plane, *there = other->team->plane;
  for (uint32_t a = 0; a < here->nranks; a++) {
    if (a == here->rank || atomic_load(&here->logs[a]->head) > parked->team->head ||
        atomic_load(&here->logs[a]->claim) == parked->team->head + 1)
      continue;
    for (uint32_t b = 0; b < there->nranks; b++)
      if (there->rank != b && other->identities[b] == parked->identities[a] &&
          atomic_load(&there->logs[b]->head) > other->team->head)
        return true;
  }
  return false;
}

static bool wants(const struct stay *stay, const struct endpoint *end) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (stay->wishes[i].end == end && !stay->wishes[i].settled)
      return true;
  return false;
}

static bool is_answering(const struct stay *stay, const struct endpoint *other) {
  if (other->state != RANK_PRESENT || wants(stay, other))
    return false;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    const struct wish *wish = &stay->wishes[i];
    if (wish->settled || wish->end->identity != other->identity)
      continue;
    if (unit_is_leave(wish->unit) || has_moved_on(wish->end, other))
      return true;
  }
  return false;
}

/* One look at everything; false if nothing has moved. */
static bool look(struct stay *stay) {
  bool moved = false;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled)
      continue;
    struct unit unit = {0};
    enum team_verdict verdict = team_poll(wish->end->team, &unit);
    moved |= verdict != TEAM_PARKED;
    handle(stay, wish, verdict, unit);
  }
  for (struct endpoint *other = stay->all; other != NULL; other = other->next) {
    struct unit unit;
    if (!is_answering(stay, other) || team_poll(other->team, &unit) != TEAM_SHADOW)
      continue;
    moved = true;
    if (!collect(stay, other, unit))
      shadow_failed(stay, other);
  }
  if (!issue_shadows(stay))
    for (uint32_t i = 0; i < stay->nwishes; i++)
      shadow_failed(stay, stay->wishes[i].end);
  return moved;
}

/* What a wait that lasts has to look after. */
static void look_after(struct stay *stay) {
  uint64_t now = now_ms();
  if (now >= stay->look_ms) {
    stay->look_ms = now + LOOK_FOR_DEAD_MS;
    for (uint32_t i = 0; i < stay->nwishes; i++)
      team_look_for_the_dead(stay->wishes[i].end->team);
  }
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled)
      continue;
    int broken = atomic_load(&wish->end->broken);
    if (broken != ncclSuccess) {
      fail_endpoint(wish->end);
      settle_wish(wish, (ncclResult_t)broken);
    } else if (now >= stay->deadline_ms) {
      wish_timed_out(wish);
    }
  }
}

static void wait_a_little(struct stay *stay) {
  bool several = stay->all != NULL && stay->all->next != NULL;
  for (uint32_t i = 0; i < stay->nwishes; i++) {
    struct wish *wish = &stay->wishes[i];
    if (wish->settled)
      continue;
    struct unit unit = {0};
    handle(stay, wish,
           team_wait(wish->end->team, &unit, several ? WAIT_SEVERAL_MS : WAIT_ALONE_MS), unit);
    break;
  }
  if (!issue_shadows(stay))
    for (uint32_t i = 0; i < stay->nwishes; i++)
      shadow_failed(stay, stay->wishes[i].end);
}

static bool all_settled(const struct stay *stay) {
  for (uint32_t i = 0; i < stay->nwishes; i++)
    if (!stay->wishes[i].settled)
      return false;
  return true;
}

/* Whether all ranks must be able to contribute to the unit. */
static bool is_strict(struct unit unit) {
  if (join_settings()->lossy != LOSSY_ERROR)
    return false;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    switch ((enum member_kind)unit.members[i].kind) {
    case MEMBER_ALLGATHER:
    case MEMBER_ALLTOALL:
    case MEMBER_GATHER:
    case MEMBER_SCATTER:
      return true;
    case MEMBER_ALLREDUCE:
    case MEMBER_BROADCAST:
    case MEMBER_REDUCE:
    case MEMBER_REDUCESCATTER:
      break;
    }
  return false;
}

/* What has happened on joined ranks that this rank's program must hear of. */
ncclResult_t answer_notice(struct endpoint *end) {
  struct lossy_event event;
  ncclResult_t result = ncclSuccess;
  while (end->team->attend && team_events(end->team, &event)) {
    /* Issued before the program heard of the first: nothing that it could have done about it. */
    if (event.index < end->lossy_told)
      continue;
    char text[DESCRIPTION];
    struct member member = {.count = 0, .root = ROOT_NONE, .kind = event.kind};
    log_line(LOG_LEVEL_WARN, "rank %u has joined and could only send zeros to collective %llu, %s: ncclInvalidUsage. Set "
             "NCCL_JOIN_LOSSY=zero to allow that",
             event.rank, (unsigned long long)event.index, describe((struct unit){&member, 1}, text));
    result = ncclInvalidUsage;
  }
  if (result != ncclSuccess)
    end->lossy_told = end->team->head;
  return result;
}

/* Commits or claims. */
static void begin(struct wish *wish) {
  struct endpoint *end = wish->end;
  wish->settled = false;
  wish->notice = ncclSuccess;
  if (end->state != RANK_PRESENT) {
    settle_wish(wish, unit_is_leave(wish->unit) ? ncclSuccess : ncclRemoteError);
  } else if (unit_is_leave(wish->unit)) {
    trace(end, TRACE_LEAVE, end->team->head, wish->unit, -1);
    team_claim_leave(end->team);
  } else if (team_commit(end->team, wish->unit)) {
    trace(end, TRACE_COMMIT, team_index(end->team), wish->unit, -1);
    settle_wish(wish, ncclSuccess);
  } else {
    trace(end, TRACE_CLAIM, end->team->head, wish->unit, -1);
    team_claim(end->team, wish->unit, is_strict(wish->unit) ? CLAIM_STRICT : 0);
  }
}

void answer(struct wish *wishes, uint32_t nwishes) {
  struct stay stay = {.wishes = wishes, .nwishes = nwishes};
  for (uint32_t i = 0; i < nwishes; i++)
    begin(&wishes[i]);
  if (!all_settled(&stay)) {
    stay.all = communicator_endpoints();
    stay.deadline_ms = now_ms() + join_settings()->timeout_s * 1000;
    for (uint32_t i = 0; i < nwishes; i++)
      atomic_fetch_add(&wishes[i].end->inside, 1);
    while (!all_settled(&stay)) {
      if (look(&stay))
        continue;
      look_after(&stay);
      if (!all_settled(&stay))
        wait_a_little(&stay);
    }
    for (uint32_t i = 0; i < nwishes; i++)
      atomic_fetch_sub(&wishes[i].end->inside, 1);
    free(stay.members);
    free(stay.targets);
  }
  for (uint32_t i = 0; i < nwishes; i++)
    if (!unit_is_leave(wishes[i].unit))
      wishes[i].notice = answer_notice(wishes[i].end);
}

/* ---- roots -------------------------------------------------------------------------------------------------- */

/* One turn of a wait for other ranks to pass an index; false if it has lasted too long or has been broken off. */
static bool wait_for(struct endpoint *end, uint64_t index, uint64_t *deadline_ms) {
  uint64_t now = now_ms();
  if (*deadline_ms == 0)
    *deadline_ms = now + join_settings()->timeout_s * 1000;
  team_wait_others(end->team, index, WAIT_ALONE_MS);
  if (now_ms() - now >= WAIT_ALONE_MS)
    team_look_for_the_dead(end->team);
  return now < *deadline_ms && !atomic_load(&end->broken);
}

static int lowest_active(const struct communicator *comm, const bool *active) {
  for (int rank = 0; rank < comm->nranks; rank++)
    if (active[comm->team_rank_of[rank]])
      return rank;
  return -1;
}

int answer_root(struct endpoint *end, const struct communicator *comm, uint64_t index, int root) {
  uint64_t deadline_ms = 0;
  bool active = false;
  enum team_verdict verdict;
  while ((verdict = team_is_active(end->team, index, comm->team_rank_of[root], &active)) == TEAM_PARKED)
    if (!wait_for(end, index, &deadline_ms))
      return -1;
  if (verdict == TEAM_REAL && active)
    return root;
  bool *all = calloc(end->team->plane->nranks, sizeof(*all));
  int elected = -1;
  if (all != NULL && verdict == TEAM_REAL) {
    while ((verdict = team_active(end->team, index, all)) == TEAM_PARKED &&
           wait_for(end, index, &deadline_ms))
      ;
    if (verdict == TEAM_REAL)
      elected = lowest_active(comm, all);
  }
  free(all);
  return elected;
}

bool answer_broadcast(struct call *call, uint64_t index) {
  struct communicator *comm = communicator_find(call->handle);
  int root = answer_root(comm->end, comm, index, call->root);
  if (root < 0) {
    log_line(LOG_LEVEL_WARN, "no root for a broadcast: rank %u failed, or nobody came; ncclRemoteError",
             comm->end->team->failure_rank);
    return false;
  }
  if (root != call->root && root == comm->rank)
    call->send = call->receive;
  call->root = root;
  return true;
}
