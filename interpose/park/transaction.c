/* Transactions, step by step (transaction.h). */
#include "interpose/park/transaction.h"

#include "interpose/comm/apart.h"
#include "interpose/comm/hot.h"
#include "interpose/park/reunion.h"

__attribute__((noinline)) ncclResult_t transaction_worse(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

ncclResult_t transaction_result(const struct transaction *transaction) {
  ncclResult_t result = ncclSuccess, notice = ncclSuccess;
  for (uint32_t i = 0; i < transaction->nwishes; i++) {
    result = transaction_worse(result, transaction->wishes[i].result);
    notice = transaction_worse(notice, transaction->wishes[i].notice);
  }
  return transaction_worse(result, notice);
}

static void transaction_enter_one(const struct transaction *transaction, const struct wish *wish) {
  switch (transaction->kind) {
  case TRANSACTION_CALL:
    apart_enter(wish->end, wish->unit.members[0].comm);
    break;
  case TRANSACTION_LEAVE:
    apart_enter(wish->end, transaction->tag);
    break;
  case TRANSACTION_MARK:
    endpoint_enter(wish->end);
    atomic_store(&wish->end->user, endpoint_this_thread());
    break;
  case TRANSACTION_EXIT_POINT:
    endpoint_enter(wish->end);
    break;
  }
  if (transaction->entered != NULL)
    transaction->entered(wish->end, transaction->context);
}

/* In the order of addresses. */
static void transaction_enter(const struct transaction *transaction) {
  const struct endpoint *last = NULL;
  for (uint32_t entered = 0; entered < transaction->nwishes; entered++) {
    const struct wish *next = NULL;
    for (uint32_t i = 0; i < transaction->nwishes; i++) {
      const struct wish *wish = &transaction->wishes[i];
      if (wish->end > last && (next == NULL || wish->end < next->end))
        next = wish;
    }
    transaction_enter_one(transaction, next);
    last = next->end;
  }
}

/* The communicators of a unit of calls: their next calls may be on the fast path. */
static void transaction_remember(const struct wish *wish) {
  uint32_t tag = 0;
  for (uint32_t i = 0; i < wish->unit.nmembers; i++) {
    if (wish->unit.members[i].comm == tag)
      continue;
    tag = wish->unit.members[i].comm;
    struct communicator *comm = endpoint_communicator(wish->end, tag);
    if (comm != NULL)
      hot_remember(comm);
  }
}

static void transaction_exit(const struct transaction *transaction) {
  for (uint32_t i = 0; i < transaction->nwishes; i++)
    endpoint_exit(transaction->wishes[i].end);
  for (uint32_t i = 0; transaction->kind == TRANSACTION_CALL && i < transaction->nwishes; i++)
    transaction_remember(&transaction->wishes[i]);
}

ncclResult_t transaction_make(struct transaction *transaction) {
  transaction_enter(transaction);
  transaction->nwishes =
      answer_with_room(transaction->wishes, transaction->nwishes, transaction->room);
  ncclResult_t result =
      transaction->issue == NULL ? ncclSuccess : transaction->issue(transaction->context);
  ncclResult_t together = reunion_hold(transaction->wishes, transaction->nwishes);
  transaction_exit(transaction);
  return transaction_worse(result, together);
}
