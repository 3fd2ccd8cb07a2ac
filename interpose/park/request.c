/* How requests begin (wait_private.h): what the rank hears first, and what it commits or claims. */
#include "interpose/park/wait_private.h"

#include "core/report/log.h"
#include "core/team/team_stop.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/communicator.h"
#include "interpose/comm/lossy_policy.h"
#include "interpose/comm/report.h"
#include "interpose/nccl/real.h"
#include "interpose/park/hold.h"
#include "interpose/park/outcome.h"
#include "interpose/park/own_join.h"
#include "interpose/park/rebuilt.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

ncclResult_t request_hear(struct endpoint *end, bool leaving) {
  struct lossy_event event;
  ncclResult_t result = ncclSuccess;
  while (team_must_attend(end->team) && team_events(end->team, &event)) {
    /* Issued before the program heard of the first: nothing that it could have done about it. Or
     * by others: nothing that it wants to know. */
    if (event.index < end->lossy_told || team_has_shadowed(end->team, event.index))
      continue;
    report_lossy_event(end, &event);
    if (!leaving || !member_is_point_to_point(event.kind))
      result = ncclInvalidUsage;
  }
  return result;
}

ncclResult_t wait_notice(struct endpoint *end) {
  ncclResult_t result = request_hear(end, false);
  /* What this call is about to issue, the program can do nothing about either. */
  if (result != ncclSuccess) {
    end->lossy_told = end->team->head + 1;
    last_error_is_ours(result);
  }
  return result;
}

/* Whether all ranks are to stop if not all of them request the same. Buffers that are
 * resynchronised are one rank's alone. */
static bool request_stops_early(const struct request *request) {
  return join_settings()->early_exit == EARLY_EXIT_THROW && !unit_is_leave(request->unit) &&
         !unit_is_state(request->unit) && unit_mark(request->unit) != MARK_STATE_DONE;
}

/* Whether the rank is the root of the unit, which has one. */
static bool is_root(const struct request *request) {
  const struct member *first = request->unit.members;
  if (unit_is_leave(request->unit) || first->root == ROOT_NONE)
    return false;
  const struct communicator *comm = endpoint_communicator(request->end, first->comm);
  return comm != NULL && comm->rank == first->root;
}

/* What the others must know of the claim. */
static uint32_t request_flags(const struct request *request) {
  const struct endpoint *end = request->end;
  uint32_t flags = overlap_claim_flags(end->overlap, end->team, request->unit);
  if (lossy_strict_member(request->unit) != NULL)
    flags |= CLAIM_STRICT;
  if (request_stops_early(request))
    flags |= CLAIM_TOGETHER;
  if (is_root(request))
    flags |= CLAIM_ROOT;
  if (join_settings()->unsure == UNSURE_STOP)
    flags |= CLAIM_SURE;
  /* Whoever ends with its process has no use for them. */
  if (!request->for_good && !state_is_empty(&end->buffers))
    flags |= CLAIM_RESYNC;
  return flags;
}

static bool request_commits(struct request *request) {
  struct endpoint *end = request->end;
  return !team_begins_round(end->team) && overlap_may_commit(end->overlap, end->team) &&
         (team_is_saying(end->team) ? team_commit_slowly(end->team, request->unit)
                                    : team_commit(end->team, request->unit));
}

static void request_committed(struct request *request) {
  struct endpoint *end = request->end;
  overlap_issued(end->overlap, end->team, request->unit);
  report_event(end, TRACE_COMMIT, team_index(end->team), request->unit, -1);
  wait_settle(request, ncclSuccess);
}

/* Where each rank may leave out rounds, as one of the endpoint's bits says, they are the same as
 * those of others if they have been seen to be. */
static bool request_counts(const struct request *request, bool perhaps, uint32_t levels) {
  struct place place;
  return !perhaps ||
         (places_describe(&place) && team_counts_rounds(request->end->team, &place, levels));
}

static void request_begin_round(const struct request *request) {
  struct endpoint *end = request->end;
  uint32_t begins = request->place == NULL ? atomic_exchange(&end->begins, 0) : 0;
  uint32_t levels = begins & ~ENDPOINT_BEGINS_HOW, counted = levels;
  bool known = (begins & ENDPOINT_BEGINS_UNSEEN) == 0 &&
               request_counts(request, (begins & ENDPOINT_BEGINS_PERHAPS) != 0, levels);
  while (levels != 0 && known && counted < PLACE_LEVELS &&
         request_counts(request, (begins & ENDPOINT_BEGINS_PERHAPS_WITHIN) != 0, counted + 1))
    counted++;
  uint64_t says[PLACE_LEVELS];
  for (uint32_t i = 0; i < PLACE_LEVELS; i++)
    says[i] = atomic_load(&end->says[i]);
  if (levels != 0 && known)
    team_begin_round(end->team, (struct team_levels){levels - 1, counted}, says,
                     (begins & ENDPOINT_BEGINS_QUIETLY) != 0);
  else if (levels != 0)
    team_say_round(end->team, says);
}

/* Whether ranks may wait where a round of that level begins. Before the first one of a loop there
 * is none to wait for. */
static bool request_may_begin(const struct request *request, uint32_t level) {
  const struct round_mark *mark = &request->marks->of[level];
  if (level > request->level && place_numbers_of((uint32_t)mark->mark.count).number == 1)
    return false;
  return team_counts_rounds(request->end->team, &mark->place, level + 1) ||
         (!request->goes_round[level] && mark->comes);
}

/* Finds the mark. False: there is none. */
static bool request_find_mark(struct request *request) {
  uint32_t level = request->marks->levels;
  while (level-- > request->level)
    if (request_may_begin(request, level)) {
      request->unit = (struct unit){&request->marks->of[level].mark, 1};
      request->place = &request->marks->of[level].place;
      return true;
    }
  return false;
}

void request_find_marks(struct request *requests, uint32_t nrequests) {
  bool all = true;
  for (uint32_t i = 0; i < nrequests; i++) {
    struct request *request = &requests[i];
    if (request->marks == NULL || request_find_mark(request))
      continue;
    bool refuses = request->level == 0 && request->goes_round[0];
    if (refuses)
      report_not_counted(request->end, request->marks->of[0].place.text);
    all &= !refuses;
    wait_settle(request, ncclSuccess);
  }
  for (uint32_t i = 0; i < nrequests && !all; i++)
    if (requests[i].marks != NULL && !requests[i].settled)
      wait_settle(&requests[i], ncclSuccess);
}

void request_begin(struct request *request) {
  struct endpoint *end = request->end;
  if (request->behind != NULL) {
    hold_begin(request);
    return;
  }
  if (apart_is_set(end)) {
    outcome_aside(request);
    return;
  }
  bool meets = request_stops_early(request) && team_must_meet(end->team);
  end->stopped = false;
  request_begin_round(request);
  /* Before anything new is issued: all ranks that wait for the device in between hear of it in the
   * same call. */
  request->notice = request_only_leaves(request) ? ncclSuccess : wait_notice(end);
  if (end->state != RANK_PRESENT) {
    wait_settle(request, request_only_leaves(request) ? ncclSuccess : ncclRemoteError);
  } else if (unit_is_leave(request->unit)) {
    report_event(end, TRACE_LEAVE, end->team->head, request->unit, -1);
    team_claim(end->team, request->unit, request_flags(request), NULL);
  } else if (!meets && request_commits(request)) {
    request_committed(request);
  } else if (rebuilt_look(end, request->unit) != ncclSuccess) {
    wait_settle(request, ncclInvalidUsage);
  } else {
    struct place place;
    /* Of a thread that is waited for not what was not known when the unit was made. */
    bool is_round = request->place != NULL;
    if (is_round)
      place = *request->place;
    bool known = is_round || (unit_may_have_place(request->unit) && places_describe(&place) &&
                              place.id == unit_place(request->unit));
    if (known && !is_round && !meets && team_look_here(end->team, &place) &&
        request_commits(request)) {
      request_committed(request);
      return;
    }
    own_join_recognise(request);
    failing_note(end);
    report_event(end, TRACE_CLAIM, end->team->head, request->unit, -1);
    uint32_t flags = request_flags(request);
    if (unit_may_have_place(request->unit) && (!known || !place_says_anything(&place)) &&
        places_are_missed())
      flags |= CLAIM_BLIND;
    team_claim_looking(end->team, request->unit, flags, known ? &place : NULL, request->looks);
    if (request->posts != NULL)
      team_claim_posts(end->team, request->posts);
    request->asked = true;
    end->stream = request->stream;
  }
}

bool request_claim_next(struct request *request) {
  if (request->next == NULL || !request->next(request))
    return false;
  report_event(request->end, TRACE_CLAIM, request->end->team->head, request->unit, -1);
  team_claim_looking(request->end->team, request->unit, 0, NULL, request->looks);
  return true;
}
