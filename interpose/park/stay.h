/* One stay in a call (answer.h): what a parked thread is about, and the issuing of what it finds to
 * be issued in the place of its ranks' programs. Not for anybody but answer.c, which looks around.
 */
#ifndef NCCL_JOIN_INTERPOSE_STAY_H
#define NCCL_JOIN_INTERPOSE_STAY_H

#include "core/predict/rhythm.h"
#include "interpose/park/answer.h"
#include "interpose/park/shadows.h"

/* A unit that has settled as a shadow, to be issued. The unit lies in its team until the next look
 * at that. */
struct found {
  struct endpoint *end;
  struct unit unit;
  bool locked; /* with the `turn` of an endpoint that is not parked itself */
};

/* One stay in a call. */
struct stay {
  uint64_t number; /* of all stays of the process; 0: none yet (stopping.c) */
  struct wish *wishes;
  uint32_t nwishes;
  uint32_t room_for_wishes; /* of a LEAVE: ranks that it takes along (orphans.h) */
  bool begun;               /* the wishes are committed or claimed; before, others are waited for */
  struct endpoint *all;     /* of this process */
  uint64_t since_ns;        /* when the call began */
  uint64_t deadline_ms, look_ms;
  uint64_t resort_ms;  /* when guesses are made that only an error would be worse than */
  struct found *found; /* room for all endpoints */
  uint32_t nfound, room;
  struct shadows shadows;
  struct rhythm_plan plan; /* of endpoints looked at since the last wait (follower.h) */
};

/* The wish has its result. */
void stay_settle(struct wish *wish, ncclResult_t result);

bool stay_is_wished(const struct stay *stay, const struct endpoint *end);

/* The stream of the program's call: of that in which an endpoint is parked, or another of its
 * device. */
cudaStream_t stay_stream(const struct stay *stay, const struct endpoint *end);

/* A unit has settled that is to be issued in the next stay_issue. False if there is nothing to
 * issue, or no memory. locked: see struct found. */
bool stay_find(struct stay *stay, struct endpoint *end, struct unit unit, bool locked);
bool stay_has_found(const struct stay *stay, const struct endpoint *end);

/* Issues what a look around has found; but not yet a Broadcast of which nobody can tell who its
 * root is: the rank that will tell may wait for this one in another team until then. */
void stay_issue(struct stay *stay);

/* Issues all of it: waits for roots. */
void stay_issue_all(struct stay *stay);

/* Waits until a root may be known, some milliseconds at most; false if none is waited for. */
bool stay_wait_for_root(struct stay *stay, unsigned milliseconds);

/* Waits for buffers that have been resynchronised: the program is not to touch them before what is
 * broadcast into them, or from them, is done. */
void stay_finish_states(struct stay *stay);

/* A rank that was stopped in one of its teams stops in all (core/team/team_stop.h).
 */

/* The rank of `end` has been stopped there in this stay: says so, with what it wanted there, marks
 * its wishes, and passes it on to all its teams in which it claims nothing, that no other thread
 * uses, and that have not heard of it in this stay. A wish that has not begun yet is settled with
 * ncclInvalidUsage; what it claims in other teams stays claimed until it settles there. */
void stop_rank(struct stay *stay, struct endpoint *end, struct unit wanted);

#endif
