/* Waiting for a place in the agreed sequence, and answering the others meanwhile.
 *
 * This is where a rank is parked. Until its own unit settles, all ranks have left, or something has
 * failed, it issues each other unit that settles as a shadow, in every team of the rank. Bounded by
 * NCCL_JOIN_TIMEOUT.
 */
#ifndef NCCL_JOIN_INTERPOSE_WAIT_H
#define NCCL_JOIN_INTERPOSE_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include <nccl.h>

#include "core/place/place_rounds.h"
#include "interpose/comm/communicator.h"

/* A mark at the beginning of a round of the loop at a level (core/place/place_rounds.h). */
struct round_mark {
  struct member mark;
  struct place place;
  bool comes; /* each round comes to it */
};

/* The rounds that begin with a call, by level. */
struct round_marks {
  struct round_mark of[PLACE_LEVELS];
  uint32_t levels; /* how many there are */
};

/* What a rank wants next in one team. */
struct request {
  struct endpoint *end;
  struct unit unit;          /* nmembers 0: LEAVE */
  cudaStream_t stream;       /* of the call, or of the first one of a group; of a LEAVE 0 */
  const look_t *looks;       /* of the unit's members (core/unit/look.h); NULL: all 0 */
  const struct place *place; /* of a MARK_ROUND; otherwise NULL: that of the call */
  /* Of a MARK_ROUND; otherwise NULL. Which one it is, is found inside: that of the innermost level
   * whose rounds count. */
  const struct round_marks *marks;
  uint32_t level;                /* likewise: the outermost level that another round begins of */
  bool goes_round[PLACE_LEVELS]; /* likewise, by level: the rank has been in another round of it */
  const struct posts *posts;     /* of an exchange, its sends and receives; otherwise NULL */
  /* Operations that are held back (hold.h): then nothing is claimed, and the unit is an exchange,
   * for messages. NULL: there are none. */
  const struct posts *behind;
  bool for_good;       /* a LEAVE that ends the process: all its teams are answered */
  ncclResult_t result; /* out: ncclSuccess: issue it (LEAVE: go on); an error: do not */
  /* out: ncclSuccess, or the error that its call must return although it is issued */
  ncclResult_t notice;
  bool stopped;   /* out: the first rank has left, and all stop (core/team/team_stop.h): result, or
                   notice, is ncclInvalidUsage */
  bool failed;    /* out: of a LEAVE, what it cleans up after is an exception, and others go on:
                   result is ncclRemoteError, and what is left is to be aborted */
  bool outside;   /* out: an exchange that is to be issued without (TEAM_OUTSIDE) */
  uint64_t index; /* out: where in the sequence, if issued */
  /* out: all ranks are together again there (team_is_rejoin), and resynchronise
   * (team_is_resync): to be followed by rejoin_complete once it has been issued. */
  bool rejoin, resync;
  /* If not NULL, called when the unit has settled well: may put another unit in its place, which is
   * claimed next. False: there is none, and the request has settled, too. By this, buffers are
   * resynchronised (rejoin.c). */
  bool (*next)(struct request *request);
  void *next_context;
  struct unit kept; /* what is wanted behind the mark that is claimed (own_join.h) */
  /* Used inside. settled: it has its result; stalled: a LEAVE, outcome_in_another_order; asked: it
   * has been claimed. */
  bool settled, stalled, asked;
  uint64_t watched_ns; /* since when it has been parked because of join, if for long (watched.h) */
};

/* What has happened on joined ranks that this rank's program must hear of with its present call:
 * ncclInvalidUsage (logged), or ncclSuccess. The caller has entered the endpoint. */
ncclResult_t wait_notice(struct endpoint *end);

/* Settles all requests, at most one per endpoint; the caller has entered their endpoints
 * (endpoint_enter). Logs what went wrong. Returns when every request has its result. */
void wait_until_settled(struct request *requests, uint32_t nrequests);

/* The same for LEAVEs, where there is room for so many requests: meanwhile the rank takes others of
 * its process along (orphans.h), whose endpoints it has entered then. Returns how many requests
 * there are. */
uint32_t wait_with_room(struct request *requests, uint32_t nrequests, uint32_t room);

/* Of requests that have been claimed and issued, where the rank has teams that have other ranks
 * each: returns once all ranks have come to them, after a second at most. The program may wait for
 * the device next, and answers nobody then; ranks that each wait so for another would wait in a
 * ring for ever. wait_behind.c. */
void wait_for_those_behind(struct request *requests, uint32_t nrequests);

/* Of requests that were stopped (core/team/team_stop.h): waits until the devices of their ranks are
 * done, for NCCL_JOIN_TIMEOUT at most. The program may end when it is told to stop, and a peer may
 * wait on its own device for what this one has not done yet. stopping.c. */
void stopping_finish(const struct request *requests, uint32_t nrequests);

#endif
