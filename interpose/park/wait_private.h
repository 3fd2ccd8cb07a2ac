/* One wait in a call (wait.h): what a parked thread waits for, and what it finds to be issued in
 * the place of its ranks' programs. For the files of this room alone.
 *
 *   wait.c        begins a wait and ends it
 *   wait_look.c   one look at all teams, and the sleep until the next
 *   wait_issue.c  issues what has been found
 *   wait_behind.c, wait_clock.c, stall.c, stopping.c, failing.c, request.c, outcome.c   as said below
 */
#ifndef NCCL_JOIN_INTERPOSE_WAIT_PRIVATE_H
#define NCCL_JOIN_INTERPOSE_WAIT_PRIVATE_H

#include "core/predict/rhythm.h"
#include "interpose/park/wait.h"
#include "interpose/park/shadows.h"

/* A unit that has settled as a shadow, to be issued. Its members belong to its team, until that is
 * polled next. */
struct found {
  struct endpoint *end;
  struct unit unit;
  bool locked; /* with the `turn` of an endpoint that is not parked itself */
};

/* One wait in a call. */
struct wait {
  uint64_t number; /* of all waits of the process; 0: none yet (stopping.c) */
  struct request *requests;
  uint32_t nrequests;
  uint32_t room_for_requests; /* of a LEAVE: for ranks that it takes along, too (orphans.h) */
  bool begun;                 /* the requests have been committed or claimed */
  bool issued; /* they have been issued: the wait is wait_for_those_behind, without begun */
  bool looked_for_exception; /* failing.c */
  struct endpoint *all;      /* of this process */
  uint64_t since_ns;         /* when the call began */
  uint64_t deadline_ms;      /* NCCL_JOIN_TIMEOUT after something last moved */
  uint64_t look_ms;          /* when wait_look_after next looks for the dead, and the like */
  uint64_t looked_ms;        /* clock_stopped */
  uint64_t resort_ms;        /* when guesses are made that only an error would be worse than */
  struct found *found;       /* room for all endpoints */
  uint32_t nfound, room;
  struct shadows shadows;
  const struct team *behind; /* whose ranks wait_keep_step waits for */
  uint64_t stall_moves,
      stall_ms; /* stall.c: how much ranks had moved, and when that last changed */
  bool stall_told;
  struct rhythm_plan plan; /* of endpoints looked at since the last wait (follower.h) */
};

/* Gives the request its result: from now on it has settled. */
void wait_settle(struct request *request, ncclResult_t result);

/* Whether one of the wait's requests is of the endpoint. */
bool wait_is_requested(const struct wait *wait, const struct endpoint *end);

/* The stream of the program's call: of that in which an endpoint is parked, or another of its
 * device. */
cudaStream_t wait_stream(const struct wait *wait, const struct endpoint *end);

/* A unit has settled that is to be issued in the next wait_issue. False if there is nothing to
 * issue, or no memory (then the endpoint has failed). locked: see struct found. */
bool wait_find(struct wait *wait, struct endpoint *end, struct unit unit, bool locked);
bool wait_has_found(const struct wait *wait, const struct endpoint *end);

/* Issues what a look around has found. A Broadcast of which nobody can tell yet who its root is
 * stays for later: the rank that will tell may wait for this one in another team until then. */
void wait_issue(struct wait *wait);

/* Issues all of it: waits for roots. */
void wait_issue_all(struct wait *wait);

/* Waits until a root may be known, some milliseconds at most; false if none is waited for. */
bool wait_for_root(struct wait *wait, unsigned milliseconds);

/* Waits for buffers that have been resynchronised: the program is not to touch them before what is
 * broadcast into them, or from them, is done. */
void wait_finish_states(struct wait *wait);

/* One look at everything; false if nothing has moved. Looks at requests twice: of several ranks of
 * one thread, the first may have looked before the last had published its own part. */
bool wait_look(struct wait *wait);

/* What a wait that lasts has to look after: dead ranks, NCCL_JOIN_TIMEOUT, stalls, orphans. */
void wait_look_after(struct wait *wait);

/* Sleeps for some milliseconds, or until something may have happened, and handles what it finds. */
void wait_a_little(struct wait *wait);

/* The program goes on: it may send and receive again, and write to its buffers. */
void wait_stop_answering(const struct wait *wait);

/* Frees what a wait holds; not the requests. */
void wait_free(struct wait *wait);

/* Waits where a rank of another team is behind (overlap_must_wait): before the requests are begun
 * for as long as that is so, after they have been issued for a second at most. wait_behind.c. */
void wait_keep_step(struct wait *wait);

/* ---- wait_clock.c ---- */

/* Something has moved: NCCL_JOIN_TIMEOUT begins anew. */
void wait_be_patient(struct wait *wait);

/* For how long the ranks that we wait for have been waiting themselves (overlap_quiet). After half
 * of NCCL_JOIN_TIMEOUT they count as waiting, whatever they do: one that is at work may wait for us
 * on its device, which nobody sees. */
uint64_t wait_quiet(const struct wait *wait, struct overlap *overlap);

/* At each look: moves all deadlines by the time in which this process was stopped, as its peers
 * were if a shell stopped its job. Nor does their silence say anything then. now: in ms. */
void wait_leave_out_stop(struct wait *wait, uint64_t now);

/* ---- stall.c ---- */

/* Asked now and then: says once if no rank has moved for NCCL_JOIN_STALL_WARN. Of the ranks that
 * wait the lowest one speaks. */
void stall_look(struct wait *wait);

/* ---- stopping.c: a rank that was stopped in one of its teams stops in all (core/team/team_stop.h)
 * ---- */

/* The rank of `end` has been stopped there in this wait. Says so, with what it wanted there, marks
 * its requests, and passes it on to all its teams in which it claims nothing, that no other thread
 * uses, and that have not heard of it in this wait. A request that has not begun yet is settled
 * with ncclInvalidUsage; what it claims in other teams stays claimed until it settles there. */
void stop_rank(struct wait *wait, struct endpoint *end, struct unit wanted);

/* ---- failing.c: a rank that fails cleans up ---- */

/* Something is to be issued in the place of the rank's program, in the team of `end`, and it is the
 * first time in this wait: asks whether that is out of data, or has failed (exceptions.h). For a
 * rank that waits for others it is a WARN. One that leaves has failed, in all its teams: returns
 * true, and all requests have settled. */
bool failing_look(struct wait *wait, const struct endpoint *end);

/* A call of the program's is claimed: whatever exception is under way then, the rank lives with it.
 */
void failing_note(struct endpoint *end);

/* ---- request.c: how a request begins; how it ends is in outcome.h ---- */

/* What has happened on joined ranks that this rank's program must hear of: ncclInvalidUsage
 * (logged), or ncclSuccess. leaving: only what is about collectives is an error; of sends and
 * receives the program has been told by its own calls. */
ncclResult_t request_hear(struct endpoint *end, bool leaving);

/* Finds for each request the begin of which round the rank waits at. Settles a request for which
 * there is none: not all ranks of the team count these rounds alike, so nobody would come. (A rank
 * that comes there for the first time asks, if each round comes there: the claims tell.) If that is
 * so in one team, and the rank begins another round of the outermost loop, it settles all requests:
 * it would wait in one team while its peers need it in another. */
void request_find_marks(struct request *requests, uint32_t nrequests);

/* Commits or claims what the rank wants. */
void request_begin(struct request *request);

/* What the request goes on to, if anything: claims it. */
bool request_claim_next(struct request *request);

#endif
