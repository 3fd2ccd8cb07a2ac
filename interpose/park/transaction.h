/* A transaction: one call of the program, or one of its ways out of a loop, on its way through
 * nccl-join. Its steps are the same for all, in this order, each made once whatever became of those
 * before it:
 *
 *   enter    the endpoints, in an order that all threads have, so that none waits for another
 *   agree    until what the rank wants has settled; the others are answered meanwhile (wait.h)
 *   issue    what has settled: the caller's function, in which roots and divisors come in
 *   behind   a rank that has claimed waits until all have come there (wait_for_those_behind)
 *   rejoin   where all ranks are together again (rejoin.h); where all stop, waits for the device
 *   exit     the endpoints; communicators that were called are ready for the fast path
 */
#ifndef NCCL_JOIN_INTERPOSE_TRANSACTION_H
#define NCCL_JOIN_INTERPOSE_TRANSACTION_H

#include <stdint.h>

#include <nccl.h>

#include "interpose/park/wait.h"

/* What the thread comes for. */
enum transaction_kind {
  TRANSACTION_CALL, /* a unit of calls: of a communicator that each request's first member names */
  TRANSACTION_MARK, /* an annotation, on all communicators that the thread drives */
  /* A function that is no NCCL call. It may come from a library, not from the program. */
  TRANSACTION_EXIT_POINT,
  TRANSACTION_LEAVE, /* a way out for good: of the communicator `tag`, or of all (0) */
};

struct transaction {
  enum transaction_kind kind;
  uint32_t tag;
  struct request *requests; /* at most one for each endpoint */
  uint32_t nrequests;       /* afterwards: with those that a LEAVE has taken along */
  uint32_t room;            /* of a LEAVE: how many requests there is room for (wait_with_room) */
  /* Called for each endpoint once it has been entered; may be NULL. */
  void (*entered)(const struct endpoint *end, void *context);
  /* Issues what has settled. Returns ncclSuccess or the error that the program must be given. NULL:
   * nothing is issued. */
  ncclResult_t (*issue)(void *context);
  void *context;
};

/* Goes through the steps. Returns the first error of issuing and of rejoining; what became of the
 * requests stands in them. */
ncclResult_t transaction_make(struct transaction *transaction);

/* What the program must be given for requests that have settled, and of which nothing is issued:
 * the first error of a request, otherwise the first notice. */
ncclResult_t transaction_result(const struct transaction *transaction);

/* Of two results the one that the program must be given: the first error, otherwise ncclInProgress
 * if one is that. */
ncclResult_t transaction_worse(ncclResult_t a, ncclResult_t b);

#endif
