/* Transactions, step by step (transaction.h). */
#include "interpose/park/transaction.h"

#include "interpose/comm/apart.h"
#include "interpose/comm/fast_path.h"
#include "interpose/park/rejoin.h"
#include "interpose/park/watched.h"

__attribute__((noinline)) ncclResult_t transaction_worse(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

ncclResult_t transaction_result(const struct transaction *transaction) {
  ncclResult_t result = ncclSuccess, notice = ncclSuccess;
  for (uint32_t i = 0; i < transaction->nrequests; i++) {
    result = transaction_worse(result, transaction->requests[i].result);
    notice = transaction_worse(notice, transaction->requests[i].notice);
  }
  return transaction_worse(result, notice);
}

static void transaction_enter_one(const struct transaction *transaction,
                                  const struct request *request) {
  switch (transaction->kind) {
  case TRANSACTION_CALL:
    apart_enter(request->end, request->unit.members[0].comm);
    break;
  case TRANSACTION_LEAVE:
    apart_enter(request->end, transaction->tag);
    break;
  case TRANSACTION_MARK:
    endpoint_enter(request->end);
    atomic_store(&request->end->user, endpoint_this_thread());
    atomic_store(&request->end->user_of_engine, false);
    break;
  case TRANSACTION_EXIT_POINT:
    endpoint_enter(request->end);
    break;
  }
  if (transaction->entered != NULL)
    transaction->entered(request->end, transaction->context);
}

/* The request whose endpoint has the lowest address above `last`; NULL: there is none. */
static const struct request *request_behind(const struct transaction *transaction,
                                            const struct endpoint *last) {
  const struct request *next = NULL;
  for (uint32_t i = 0; i < transaction->nrequests; i++) {
    const struct request *request = &transaction->requests[i];
    if (request->end > last && (next == NULL || request->end < next->end))
      next = request;
  }
  return next;
}

/* In the order of addresses. */
static void transaction_enter(const struct transaction *transaction) {
  for (const struct request *next = request_behind(transaction, NULL); next != NULL;
       next = request_behind(transaction, next->end))
    transaction_enter_one(transaction, next);
}

/* The communicators of a unit of calls: their next calls may be on the fast path. */
static void transaction_remember(const struct request *request) {
  uint32_t tag = 0;
  for (uint32_t i = 0; i < request->unit.nmembers; i++) {
    if (request->unit.members[i].comm == tag)
      continue;
    tag = request->unit.members[i].comm;
    struct communicator *comm = endpoint_communicator(request->end, tag);
    if (comm != NULL)
      fast_path_remember(comm);
  }
}

static void transaction_exit(const struct transaction *transaction) {
  for (uint32_t i = 0; i < transaction->nrequests; i++)
    endpoint_exit(transaction->requests[i].end);
  for (uint32_t i = 0; transaction->kind == TRANSACTION_CALL && i < transaction->nrequests; i++)
    transaction_remember(&transaction->requests[i]);
}

ncclResult_t transaction_make(struct transaction *transaction) {
  transaction_enter(transaction);
  transaction->nrequests =
      wait_with_room(transaction->requests, transaction->nrequests, transaction->room);
  ncclResult_t result =
      transaction->issue == NULL ? ncclSuccess : transaction->issue(transaction->context);
  if (transaction->kind == TRANSACTION_CALL)
    wait_for_those_behind(transaction->requests, transaction->nrequests);
  ncclResult_t together = rejoin_complete(transaction->requests, transaction->nrequests);
  stopping_finish(transaction->requests, transaction->nrequests);
  watched_return(transaction->requests, transaction->nrequests);
  transaction_exit(transaction);
  return transaction_worse(result, together);
}
