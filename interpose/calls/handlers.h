/* What acts on the program's calls. Each is called by the wrapper of the same name (wrappers.c, by
 * way of actors.c), with the program's own arguments, on the program's thread, with the guard
 * raised: inside, every ncclX reaches the real one, and so does real.X. What it returns is what the
 * program gets.
 *
 * No handler is entered in a forked child, with NCCL_JOIN=0, without an NCCL, or from inside NCCL
 * or another handler.
 */
#ifndef NCCL_JOIN_INTERPOSE_HANDLERS_H
#define NCCL_JOIN_INTERPOSE_HANDLERS_H

#include "interpose/nccl/api.h"
#include "interpose/nccl/nccl_compat.h"

/* For each function that is HANDLED, CREATES, SPLITS, GROUPS or FAST:
 *   ncclResult_t join_AllReduce(...)
 * and for each that is FAST, called inside a group and without the guard, for a call that has a
 * communicator:
 *   ncclResult_t hold_AllReduce(...)
 * and for each that is OBSERVED, called after the real one, which must not block:
 *   void saw_CommGetAsyncError(ncclResult_t result, ncclComm_t comm, ncclResult_t *asyncError)
 * where *asyncError is set only if result is ncclSuccess. */
#define HANDLER_UNPACK(...) __VA_ARGS__
#define HANDLER_HANDLED(name, parameters) ncclResult_t join_##name parameters;
#define HANDLER_FAST(name, parameters)                                                             \
  ncclResult_t join_##name parameters;                                                             \
  ncclResult_t hold_##name parameters;
#define HANDLER_UNFIT(name, parameters)
#define HANDLER_OBSERVED(name, parameters)                                                         \
  void saw_##name(ncclResult_t result, HANDLER_UNPACK parameters);
#define HANDLER_CREATES(name, parameters) HANDLER_HANDLED(name, parameters)
#define HANDLER_GROUPS(name, parameters) HANDLER_HANDLED(name, parameters)
#define HANDLER_SPLITS(name, parameters) HANDLER_HANDLED(name, parameters)
#define HANDLER_CALLED(name, parameters)
#define HANDLER_ASKED(name, parameters)
#define HANDLER(since, name, parameters, arguments, handling) HANDLER_##handling(name, parameters)
NCCL_API(HANDLER)
#undef HANDLER
#undef HANDLER_HANDLED
#undef HANDLER_FAST
#undef HANDLER_UNFIT
#undef HANDLER_OBSERVED
#undef HANDLER_CREATES
#undef HANDLER_GROUPS
#undef HANDLER_SPLITS
#undef HANDLER_CALLED
#undef HANDLER_ASKED
#undef HANDLER_UNPACK

/* Called before the real function for each that is UNFIT: from now on this communicator cannot be
 * shadowed. In an open group it opens the real one, in which the real function then stands; calls
 * that are held back are issued at the group's end, after it. comm may be NULL or not a
 * communicator at all: the real function will say so. function: its name with the prefix, a string
 * that stays. */
void join_unfit(ncclComm_t comm, const char *function);

#endif
