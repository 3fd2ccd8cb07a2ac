/* For programs that want to say where they stand (annotations). None of it is needed.
 *
 * Header only, C and C++: each function looks for libnccl-join.so in the process, once, and does
 * nothing and returns ncclSuccess where it has not been preloaded, or is off (NCCL_JOIN=0, a rank
 * without it, a communicator of one rank): what it was to write to is then left as it was. So give
 * outputs the value that they shall have in that case.
 *
 *   for (each batch) { ...; ncclAllReduce(gradients, ...); ... }
 *   nccl_join_leave(comm);               // I have no more data in this loop
 *   int last = 0;
 *   nccl_join_last_joiner(comm, &last);  // whose model is the newest
 *
 * All functions may be called from several threads, but not in an open NCCL group; those that wait
 * (leave, enter, active ranks) are calls like a collective of that communicator. They return:
 *   ncclSuccess
 *   ncclInvalidArgument  NULL where a communicator or a pointer is needed, or no such buffer
 *   ncclInvalidUsage     in an open group, or on a communicator that has been finalized
 *   ncclRemoteError      another rank has failed, or did not come for NCCL_JOIN_TIMEOUT
 * Errors are explained by a line in nccl-join's log.
 *
 * Needs -ldl with a glibc before 2.34.
 */
#ifndef NCCL_JOIN_H
#define NCCL_JOIN_H

#include <dlfcn.h>
#include <nccl.h>
#include <stddef.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of what is declared here. */
#define NCCL_JOIN_API 1

/* The address of a function of the preloaded object, or NULL; asked for once by each caller. */
static inline void *nccl_join_find(const char *name, void **known, int *asked) {
  if (!__atomic_load_n(asked, __ATOMIC_ACQUIRE)) {
    /* RTLD_DEFAULT, which <dlfcn.h> has only with _GNU_SOURCE. */
    __atomic_store_n(known, dlsym((void *)0, name), __ATOMIC_RELAXED);
    __atomic_store_n(asked, 1, __ATOMIC_RELEASE);
  }
  return __atomic_load_n(known, __ATOMIC_RELAXED);
}

/* dlsym's object pointer as a function pointer, as POSIX has it.
 * NOLINTBEGIN(bugprone-macro-parentheses): a declaration */
#define NCCL_JOIN_CALL(name, parameters, arguments)                                                \
  static void *known;                                                                              \
  static int asked;                                                                                \
  ncclResult_t(*function) parameters;                                                              \
  void *address = nccl_join_find(name, &known, &asked);                                            \
  if (address == NULL)                                                                             \
    return ncclSuccess;                                                                            \
  memcpy(&function, &address, sizeof(function));                                                   \
  return function arguments
/* NOLINTEND(bugprone-macro-parentheses) */

/* The NCCL_JOIN_API of the preloaded object; 0 if there is none. */
static inline ncclResult_t nccl_join_find_version(int *version) {
  NCCL_JOIN_CALL("ncclJoinGetVersion", (int *), (version));
}
static inline int nccl_join_version(void) {
  int version = 0;
  (void)nccl_join_find_version(&version);
  return version;
}

/* "I have no more data in this loop": the rank answers the others' collectives until all ranks of
 * the communicator have called this too (or begun the next loop, or left for good). Then all are
 * together again: registered buffers are broadcast from the last joiner, and post hooks called. All
 * ranks call it after the loop, those that were last too. Exact where nccl-join could otherwise
 * only infer the end from what a rank calls next. A thread that drives several communicators made
 * in one call (ncclCommInitAll) calls it for each. */
static inline ncclResult_t nccl_join_leave(ncclComm_t comm) {
  NCCL_JOIN_CALL("ncclJoinLeave", (ncclComm_t), (comm));
}

/* "A loop begins": ranks wait here for each other, and answer those that are still in another one.
 * All ranks call it before the loop, those without data too. Only needed where ranks may come to a
 * loop at different times; nccl_join_leave works without. */
static inline ncclResult_t nccl_join_enter(ncclComm_t comm) {
  NCCL_JOIN_CALL("ncclJoinEnter", (ncclComm_t), (comm));
}

/* The rank, in the communicator, whose data lasted longest in the last loop at whose end ranks that
 * had joined were together with the others again; of several the largest, as PyTorch has it. The
 * same on all ranks. Before the first such loop it is nranks - 1: all ranks are equally new. */
static inline ncclResult_t nccl_join_last_joiner(ncclComm_t comm, int *rank) {
  NCCL_JOIN_CALL("ncclJoinLastJoiner", (ncclComm_t, int *), (comm, rank));
}

/* Which ranks took part with data in the last collective that this rank has issued on the
 * communicator, or on another one of the same ranks: *count of them, in ascending order in `ranks`
 * (room for all ranks of the communicator, or NULL). All of the ranks that took part get the same
 * answer. Waits, on the host, until every rank has come to that collective. */
static inline ncclResult_t nccl_join_active_ranks(ncclComm_t comm, int *count, int *ranks) {
  NCCL_JOIN_CALL("ncclJoinActiveRanks", (ncclComm_t, int *, int *), (comm, count, ranks));
}

/* A buffer in device memory that shall be the last joiner's on all ranks when they are together
 * again: the model's parameters, the optimizer's state. All ranks register buffers of the same
 * sizes in the same order on a communicator. One that is freed without nccl_join_deregister_state
 * is recognised if its memory has gone back to CUDA, and is left out with a WARN; but a caching
 * allocator (PyTorch's) keeps it and may give it to something else, which nobody can see.
 * Registering an address again changes its size. */
static inline ncclResult_t nccl_join_register_state(ncclComm_t comm, void *buffer, size_t count,
                                                    ncclDataType_t datatype) {
  NCCL_JOIN_CALL("ncclJoinRegisterState", (ncclComm_t, void *, size_t, ncclDataType_t),
                 (comm, buffer, count, datatype));
}
static inline ncclResult_t nccl_join_deregister_state(ncclComm_t comm, void *buffer) {
  NCCL_JOIN_CALL("ncclJoinDeregisterState", (ncclComm_t, void *), (comm, buffer));
}

#undef NCCL_JOIN_CALL

#ifdef __cplusplus
}
#endif

#endif
