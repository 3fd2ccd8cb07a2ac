/* Posting the program's sends and receives (point_to_point.h). */
#include "interpose/calls/point_to_point.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "core/transport/plane_view.h"
#include "hooks/contribution.h"
#include "interpose/exits/leaving.h"
#include "interpose/park/wait.h"
#include "interpose/nccl/real.h"
#include "interpose/comm/apart.h"
#include "interpose/self/environment.h"
#include "interpose/comm/registered.h"
#include "interpose/comm/fast_path.h"
#include "interpose/data/lossy.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/report.h"
#include "interpose/places/places.h"

/* For the peer's side of a send or receive that leaves a loop: a host's way there from where its
 * peers are, after a loop in step, with room. A quarter of it after each time in vain. */
#define OTHER_SIDE_MS UINT64_C(1000)

/* The sends and receives of one endpoint in a group. */
struct posting {
  struct endpoint *end;
  struct member *members;
  size_t *call_of; /* by member */
  uint32_t nmembers;
  uint32_t place;
  bool exchanged;
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

/* Takes out the receives that would only get zeros, and says so to all ranks. unit: as in
 * peers_find_lossy. */
static ncclResult_t refuse_receives(struct posting *posting, enum fate *fates, bool unit) {
  struct endpoint *end = posting->end;
  ncclResult_t result = ncclSuccess;
  int lossy;
  while ((lossy = peers_find_lossy(end->team->peers, posting->members, posting->nmembers,
                                   team_passed(end->team), unit)) >= 0) {
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

/* What an operation of this rank meets is of another size: says so. ncclSuccess, or the error that
 * the program must be given instead. */
static ncclResult_t doubt_unequal(const struct posting *posting, const struct unequal *unequal) {
  struct communicator *comm = endpoint_communicator(posting->end, unequal->ours.comm);
  bool refused = join_settings()->unsure == UNSURE_STOP;
  if (comm == NULL || (!refused && atomic_load(&comm->told_unequal)))
    return ncclSuccess;
  char other[PLACE_TEXT_MAX] = "";
  struct place own = {0};
  if (posting->place != 0 && !places_describe(&own))
    own.text[0] = '\0';
  bool same = posting->place != 0 && unequal->place == posting->place;
  if (!same && unequal->place != 0 && places_are_described(unequal->place))
    places_text(unequal->place, other, sizeof other);
  report_unequal(comm, unequal, &(struct unequal_places){own.text, other, same}, refused);
  if (!refused)
    return ncclSuccess;
  leave_failed(comm); /* peers count on what has been posted: they are told */
  return ncclInvalidUsage;
}

/* Where the call stands, if that has not been looked at before. */
static void learn_place(const struct posting *posting) {
  struct place place;
  struct peers *peers = posting->end->team->peers;
  if (peers_know_place(peers, posting->place))
    return;
  if (!places_describe(&place) || place.id != posting->place)
    place = (struct place){0};
  place.id = posting->place;
  peers_learn_place(peers, &place);
}

/* A send or receive that leaves a loop, and meets one on another machine, waits until that is heard
 * of: it would be found too late otherwise that the peer goes round once more. Not for long, as the
 * peer may wait for this rank in another way; and for less where it has been in vain. An error: a
 * rank has failed, perhaps as it has found that they differ, and it is not to be issued. */
static ncclResult_t await_other_side(const struct posting *posting, const struct posts *posts) {
  struct endpoint *end = posting->end;
  uint32_t in_vain = atomic_load(&end->posts_in_vain);
  uint64_t begun_ms = now_ms(), patience_ms = in_vain < 5 ? OTHER_SIDE_MS >> (2 * in_vain) : 0;
  while (posts->unequal->open && now_ms() < begun_ms + patience_ms) {
    int broken = atomic_load(&end->broken);
    if (broken != ncclSuccess)
      return (ncclResult_t)broken;
    if (somebody_failed(end->team)) {
      uint32_t rank;
      uint64_t issued;
      if (team_find_lost(end->team, team_passed(end->team), &rank, &issued))
        report_lost(end, rank, issued);
      return ncclRemoteError;
    }
    team_look_at_posts(end->team, posts, WAIT_ALONE_MS);
  }
  if (posts->unequal->open && in_vain < 5)
    atomic_store(&end->posts_in_vain, in_vain + 1);
  return ncclSuccess;
}

/* Behind a loop of collectives: waits until its peers have left that, too. Not where another thread
 * issues the endpoint's collectives: what this one posts says nothing of the loop that the other is
 * in.
 */
static ncclResult_t hold_back(const struct posting *posting, cudaStream_t stream) {
  struct endpoint *end = posting->end;
  const struct posts posts = {
      .members = posting->members, .nmembers = posting->nmembers, .place = posting->place};
  struct member unit = exchange_member(posts.members[0].comm, posts.place); /* for messages */
  struct request request = {
      .end = end, .unit = {&unit, 1}, .stream = stream, .behind = &posts, .result = ncclSuccess};
  bool inside = atomic_load(&end->holder) == endpoint_this_thread();
  if (posting->exchanged || !endpoint_is_own(end) || (!inside && !endpoint_enter_if_free(end)))
    return ncclSuccess;
  if (team_leaves_by(end->team, posts.place) &&
      team_stand_behind(end->team, &posts, stream == end->stream,
                        join_settings()->unsure == UNSURE_STOP))
    wait_until_settled(&request, 1);
  point_to_point_leave(end, !inside);
  return request.result;
}

static ncclResult_t point_to_point_post_members(struct posting *posting) {
  struct endpoint *end = posting->end;
  uint64_t deadline_ms = now_ms() + join_settings()->timeout_s * 1000, looked_ms = 0;
  struct unequal unequal = {0};
  const struct posts posts = {posting->members, posting->nmembers, posting->place,
                              posting->exchanged, &unequal};
  enum post_result result = team_post(end->team, &posts);
  while (result == POST_FULL) {
    result = team_post_later(end->team, &posts, WAIT_ALONE_MS);
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
        "ranks that have joined no longer answer sends and receives. Make groups smaller",
        PLANE_OPERATIONS, PLANE_PAIRS / 4 * 3);
  ncclResult_t met = unequal.open ? await_other_side(posting, &posts) : ncclSuccess;
  if (met != ncclSuccess)
    return met;
  return unequal.found ? doubt_unequal(posting, &unequal) : ncclSuccess;
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
    learn_place(posting);
    ncclResult_t held = hold_back(posting, calls[posting->call_of[0]].stream);
    if (held != ncclSuccess) {
      for (uint32_t i = 0; i < posting->nmembers; i++)
        fates[posting->call_of[i]] = FATE_REFUSED;
      return held;
    }
    if (join_settings()->lossy[LOSSY_SEND] == LOSSY_ERROR) {
      ncclResult_t refused = refuse_receives(posting, fates, false);
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

ncclResult_t point_to_point_post(const struct call *calls, size_t ncalls, enum fate *fates,
                                 uint32_t place, bool exchanged) {
  struct member one;
  size_t first_call;
  struct posting posting = {
      .members = &one, .call_of = &first_call, .place = place, .exchanged = exchanged};
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
    if (made != ncclSuccess)
      last_error_is_ours(made);
    result = made != ncclSuccess ? made : result;
  }
  if (posting.members != &one) {
    free(posting.members);
    free(posting.call_of);
  }
  return result;
}

/* ---- exchanges ---- */

/* Whether all other ranks of the communicator are sent something, and are received from. */
static bool reaches_all(const struct exchange *exchange) {
  uint64_t sends[PLANE_RANKS_MAX / 64] = {0}, receives[PLANE_RANKS_MAX / 64] = {0};
  int reached = 0;
  for (uint32_t i = 0; i < exchange->posts.nmembers; i++) {
    const struct member *member = &exchange->posts.members[i];
    uint64_t *ranks = member->kind == MEMBER_SEND ? sends : receives;
    uint64_t bit = UINT64_C(1) << (uint32_t)member->root % 64;
    reached += (ranks[member->root / 64] & bit) == 0;
    ranks[member->root / 64] |= bit;
  }
  return reached == 2 * (exchange->comm->nranks - 1);
}

/* Whether all of them are sends and receives of one communicator. */
static bool gather_exchange(struct exchange *exchange, const struct call *calls, size_t ncalls,
                            struct member *members) {
  uint32_t *nmembers = &exchange->posts.nmembers;
  for (size_t i = 0; i < ncalls; i++) {
    if ((calls[i].kind != CALL_SEND && calls[i].kind != CALL_RECV) ||
        calls[i].handle != calls[0].handle)
      return false;
    if (post_member(&calls[i], exchange->comm, &members[*nmembers]))
      exchange->call_of[(*nmembers)++] = i;
  }
  return *nmembers > 0;
}

bool point_to_point_exchanges(struct exchange *exchange, const struct call *calls, size_t ncalls,
                              uint32_t place, struct member *members, size_t *call_of) {
  *exchange = (struct exchange){.comm = communicator_find(calls[0].handle),
                                .call_of = call_of,
                                .posts = {.members = members, .place = place}};
  if (exchange->comm == NULL || !gather_exchange(exchange, calls, ncalls, members))
    return false;
  struct endpoint *end = exchange->comm->end;
  exchange->unit = exchange_member(exchange->comm->tag, place);
  return atomic_load(&end->state) == RANK_PRESENT && !apart_has_others(end, exchange->comm) &&
         !peers_are_apart(end->team->peers, place) && !team_is_outside(end->team) &&
         (reaches_all(exchange) ||
          team_knows_exchange(end->team, (struct unit){&exchange->unit, 1}));
}

ncclResult_t point_to_point_begin(struct exchange *exchange, enum fate *fates) {
  struct endpoint *end = exchange->comm->end;
  atomic_store(&end->poster, endpoint_this_thread());
  peers_begin(end->team->peers);
  if (join_settings()->lossy[LOSSY_SEND] != LOSSY_ERROR)
    return ncclSuccess;
  struct posting posting = {.end = end,
                            .members = (struct member *)exchange->posts.members,
                            .call_of = exchange->call_of,
                            .nmembers = exchange->posts.nmembers};
  ncclResult_t result = refuse_receives(&posting, fates, true);
  if (result != ncclSuccess)
    last_error_is_ours(result);
  exchange->posts.nmembers = posting.nmembers;
  return result;
}
