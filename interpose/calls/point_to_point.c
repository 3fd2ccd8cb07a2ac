/* Posting the program's sends and receives (point_to_point.h). */
#include "interpose/calls/point_to_point.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "hooks/contribution.h"
#include "interpose/park/wait.h"
#include "interpose/self/environment.h"
#include "interpose/comm/registered.h"
#include "interpose/comm/fast_path.h"
#include "interpose/data/lossy.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"

/* The sends and receives of one endpoint in a group. */
struct posting {
  struct endpoint *end;
  struct member *members;
  size_t *call_of; /* by member */
  uint32_t nmembers;
};

/* The call as a post of its communicator. False if it is none: to the rank itself, or with
 * arguments that NCCL will refuse. */
static bool post_member(const struct call *call, struct communicator *comm, struct member *member) {
  if ((call->kind != CALL_SEND && call->kind != CALL_RECV) || call->root < 0 ||
      call->root >= comm->nranks || call->root == comm->rank ||
      (unsigned)call->datatype > UINT8_MAX)
    return false;
  *member = (struct member){
      .count = call->count,
      .comm = comm->tag,
      .root = (int32_t)comm->team_rank_of[call->root],
      .reduction = REDUCTION_NONE,
      .kind = call->kind == CALL_SEND ? MEMBER_SEND : MEMBER_RECEIVE,
      .datatype = (uint8_t)call->datatype,
  };
  size_t bytes = call->count * contribution_fill(member).size;
  member->number =
      registered_look(comm, call->kind == CALL_SEND ? call->send : call->receive, bytes);
  return true;
}

/* From `first` on, all calls that belong to the endpoint of that one. */
static void point_to_point_gather(struct posting *posting, const struct call *calls, size_t ncalls,
                                  size_t first, enum fate *fates) {
  posting->end = NULL;
  posting->nmembers = 0;
  for (size_t i = first; i < ncalls; i++) {
    if (fates[i] != FATE_UNDECIDED || (calls[i].kind != CALL_SEND && calls[i].kind != CALL_RECV))
      continue;
    struct communicator *comm = communicator_find(calls[i].handle);
    if (comm == NULL || (posting->end != NULL && comm->end != posting->end) ||
        !post_member(&calls[i], comm, &posting->members[posting->nmembers]))
      continue;
    posting->end = comm->end;
    posting->call_of[posting->nmembers++] = i;
    fates[i] = FATE_POSTED;
  }
}

/* Enters the endpoint unless another thread may be parked there, which would not let us in. */
static bool point_to_point_enter(struct endpoint *end, bool *entered) {
  const struct thread *user = atomic_load(&end->user), *me = endpoint_this_thread();
  *entered = false;
  if (atomic_load(&end->holder) == me)
    return true;
  if ((user != NULL && user != me) || atomic_load(&end->inside) > 0)
    return false;
  endpoint_enter(end);
  *entered = true;
  return true;
}

static void point_to_point_leave(struct endpoint *end, bool entered) {
  if (entered)
    endpoint_exit(end);
}

/* What has happened elsewhere that the program must hear of. */
static ncclResult_t point_to_point_hear(struct endpoint *end) {
  bool entered;
  if (!team_must_attend(end->team) || !point_to_point_enter(end, &entered))
    return ncclSuccess;
  ncclResult_t result = wait_notice(end);
  point_to_point_leave(end, entered);
  return result;
}

/* Says to all ranks that a receive of this one is not issued. */
static void tell_of_refusal(struct endpoint *end, uint32_t joined) {
  bool entered;
  report_lossy_event(end, &(struct lossy_event){.rank = end->team->plane->rank,
                                                .peer = joined,
                                                .kind = MEMBER_RECEIVE});
  if (!point_to_point_enter(end, &entered))
    return;
  team_report_lossy_post(end->team, MEMBER_RECEIVE, joined);
  point_to_point_leave(end, entered);
}

/* Takes out the receives that would only get zeros, and says so to all ranks. */
static ncclResult_t point_to_point_refuse(struct posting *posting, enum fate *fates) {
  struct endpoint *end = posting->end;
  ncclResult_t result = ncclSuccess;
  int lossy;
  while ((lossy = peers_find_lossy(end->team->peers, posting->members, posting->nmembers,
                                   team_passed(end->team))) >= 0) {
    result = ncclInvalidUsage;
    tell_of_refusal(end, (uint32_t)posting->members[lossy].root);
    fates[posting->call_of[lossy]] = FATE_REFUSED;
    posting->nmembers--;
    for (uint32_t i = (uint32_t)lossy; i < posting->nmembers; i++) {
      posting->members[i] = posting->members[i + 1];
      posting->call_of[i] = posting->call_of[i + 1];
    }
  }
  return result;
}

static bool somebody_failed(const struct team *team) {
  team_look_for_the_dead((struct team *)team);
  return plane_has_failed(team->plane);
}

static ncclResult_t point_to_point_post_members(struct posting *posting) {
  struct endpoint *end = posting->end;
  uint64_t deadline_ms = now_ms() + join_settings()->timeout_s * 1000, looked_ms = 0;
  enum post_result result = team_post(end->team, posting->members, posting->nmembers);
  while (result == POST_FULL) {
    result = team_post_later(end->team, posting->members, posting->nmembers, WAIT_ALONE_MS);
    if (result != POST_FULL)
      break;
    deadline_ms += clock_stopped(&looked_ms, now_ms());
    int broken = atomic_load(&end->broken);
    if (broken != ncclSuccess)
      return (ncclResult_t)broken;
    if (somebody_failed(end->team) || now_ms() >= deadline_ms) {
      report_stuck_posts(end);
      return ncclRemoteError;
    }
  }
  if (result == POST_LOST)
    log_once_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "a group of more than %u sends and receives, or more than %u partners: from here on "
        "ranks that have joined no longer answer sends and receives",
        PLANE_OPERATIONS, PLANE_PAIRS / 4 * 3);
  return ncclSuccess;
}

/* Where many of them come one after the other, a loop of nothing else may end with the next
 * collective, however regularly that comes: ranks whose loop is shorter had better wait there.
 * Many, so that the wait costs little against what it is for. */
static void count_posts(struct endpoint *end) {
  uint64_t at = team_passed(end->team);
  bool entered;
  if (atomic_exchange(&end->posting_at, at) != at)
    atomic_store(&end->posts_in_a_row, 0);
  if (atomic_fetch_add(&end->posts_in_a_row, 1) + 1 != LEARNER_RUN_MIN ||
      !point_to_point_enter(end, &entered))
    return;
  team_expect_nothing(end->team);
  point_to_point_leave(end, entered);
}

/* What the sends among them send from, where that is remembered. */
static void point_to_point_remember(const struct posting *posting, const struct call *calls) {
  struct endpoint *end = posting->end;
  for (uint32_t i = 0; end->sent != NULL && i < posting->nmembers; i++) {
    struct lossy_member member = {.end = end,
                                  .comm = endpoint_communicator(end, posting->members[i].comm),
                                  .unit = {&posting->members[i], 1}};
    if (posting->members[i].kind == MEMBER_SEND)
      lossy_remember(&member, calls[posting->call_of[i]].send);
  }
}

static ncclResult_t point_to_point_make(struct posting *posting, const struct call *calls,
                                        enum fate *fates) {
  struct endpoint *end = posting->end;
  ncclResult_t result = ncclRemoteError, notice = ncclSuccess;
  const struct thread *me = endpoint_this_thread(), *nobody = NULL;
  atomic_store(&end->poster, me);
  atomic_compare_exchange_strong(&end->user, &nobody, me);
  if (atomic_load(&end->state) == RANK_DONE)
    return ncclSuccess;
  if (atomic_load(&end->state) == RANK_PRESENT) {
    notice = point_to_point_hear(end);
    if (join_settings()->lossy[LOSSY_SEND] == LOSSY_ERROR) {
      ncclResult_t refused = point_to_point_refuse(posting, fates);
      notice = refused != ncclSuccess ? refused : notice;
    }
    count_posts(end);
    result = point_to_point_post_members(posting);
    if (result == ncclSuccess)
      point_to_point_remember(posting, calls);
  }
  for (uint32_t i = 0; result != ncclSuccess && i < posting->nmembers; i++)
    fates[posting->call_of[i]] = FATE_REFUSED;
  return result != ncclSuccess ? result : notice;
}

ncclResult_t point_to_point_post(const struct call *calls, size_t ncalls, enum fate *fates) {
  struct member one;
  size_t place;
  struct posting posting = {NULL, &one, &place, 0};
  ncclResult_t result = ncclSuccess;
  for (size_t first = 0; first < ncalls; first++) {
    if ((calls[first].kind != CALL_SEND && calls[first].kind != CALL_RECV) ||
        fates[first] != FATE_UNDECIDED)
      continue;
    if (ncalls > 1 && posting.members == &one) {
      posting.members = malloc(ncalls * sizeof(*posting.members));
      posting.call_of = malloc(ncalls * sizeof(*posting.call_of));
    }
    if (posting.members == NULL || posting.call_of == NULL) {
      result = ncclSystemError;
      break;
    }
    point_to_point_gather(&posting, calls, ncalls, first, fates);
    ncclResult_t made =
        posting.nmembers == 0 ? ncclSuccess : point_to_point_make(&posting, calls, fates);
    result = made != ncclSuccess ? made : result;
  }
  if (posting.members != &one) {
    free(posting.members);
    free(posting.call_of);
  }
  return result;
}
