/* Which NCCL of several a call is for (libraries.h). */
#include "interpose/nccl/libraries.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/report/log.h"
#include "interpose/self/guard.h"
#include "interpose/elf/linker.h"

_Thread_local const struct library *library_of_thread;

const struct library *library_current(void) {
  if (library_of_thread != NULL)
    return library_of_thread;
  return real_count() > 0 ? &real_libraries[0] : NULL;
}

/* ---- by communicator ---- */

/* Open addressing without removal: NCCL's handles are addresses, which come again. One that finds
 * no room is taken for the thread's library, or the first. */
#define COMMS 4096u /* a power of two; PyTorch makes some per process group */
static struct made {
  _Atomic(ncclComm_t) comm;
  _Atomic(const struct library *) library;
} made[COMMS];

static struct made *made_place(ncclComm_t comm) {
  uint64_t at = ((uintptr_t)comm >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  for (unsigned tries = 0; tries < COMMS; tries++) {
    struct made *place = &made[(at + tries) % COMMS];
    ncclComm_t there = NULL;
    if (atomic_load_explicit(&place->comm, memory_order_acquire) == comm ||
        atomic_compare_exchange_strong(&place->comm, &there, comm) || there == comm)
      return place;
  }
  return NULL;
}

void library_made(const struct library *library, ncclComm_t comm) {
  struct made *place = comm == NULL ? NULL : made_place(comm);
  if (place != NULL)
    atomic_store(&place->library, library);
}

const struct library *library_of(ncclComm_t comm) {
  uint64_t at = ((uintptr_t)comm >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
  for (unsigned tries = 0; tries < COMMS && comm != NULL; tries++) {
    const struct made *place = &made[(at + tries) % COMMS];
    ncclComm_t there = atomic_load_explicit(&place->comm, memory_order_acquire);
    const struct library *library = atomic_load(&place->library);
    if (there == comm && library != NULL)
      return library;
    if (there == comm || there == NULL)
      break;
  }
  return library_current();
}

/* ---- by caller ---- */

/* The program itself cannot be opened by its name; the order in which it searches begins with it.
 */
static const struct library *library_of_object(const char *file) {
  void *handle = linker_dlopen(file, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == NULL)
    return real_library(RTLD_NEXT, "search order");
  const struct library *library = real_library(handle, "what its caller is linked to");
  dlclose(handle);
  return library;
}

void library_enter_of(const void *caller) {
  Dl_info object;
  bool in_a_call = guard_thread.depth > 0 && atomic_load(&guard_mode) != GUARD_OFF;
  if (!in_a_call && library_of_thread == NULL && real_resolve() && dladdr(caller, &object) != 0)
    library_of_thread = library_of_object(object.dli_fname);
}

/* ---- the first communicator ---- */

void library_announce(void) {
  static atomic_flag announced[LIBRARIES_MAX];
  const struct library *library = library_current();
  char found[LOG_LINE_SIZE];
  if (library == NULL || atomic_flag_test_and_set(&announced[library - real_libraries]))
    return;
  if (log_enabled(LOG_LEVEL_INFO))
    log_line(LOG_LEVEL_INFO, "in front of %s",
             real_describe_library(library, found, sizeof(found)));
}

/* ---- dispatch ---- */

static ncclResult_t libraries_worse(ncclResult_t a, ncclResult_t b) {
  return a != ncclSuccess && a != ncclInProgress ? a : b != ncclSuccess ? b : a;
}

/* Groups of this thread that have been begun in each library, by us: one that appears within a
 * group has not been. */
static _Thread_local unsigned begun[LIBRARIES_MAX];

static ncclResult_t dispatch_GroupStart(void) {
  ncclResult_t result = ncclSuccess;
  for (unsigned i = 0; i < real_count(); i++) {
    ncclResult_t one = real_libraries[i].functions.GroupStart();
    begun[i] += one == ncclSuccess;
    result = libraries_worse(result, one);
  }
  return result;
}

/* Ends the group in each library where it has been begun, in the order in which libraries were
 * found: NCCL may wait for the other ranks here, so all must come to it in one order. Where the
 * group is older than we are, or has not been begun at all, it is for the library of the call.
 * `simulated`: there it is ended by ncclGroupSimulateEnd. */
static ncclResult_t end_in_all(bool simulated, ncclSimInfo_t *info) {
  const struct library *current = library_current();
  ncclResult_t result = ncclSuccess;
  bool any = false;
  for (unsigned i = 0; i < real_count(); i++)
    any |= begun[i] > 0;
  for (unsigned i = 0; i < real_count(); i++) {
    const struct library *library = &real_libraries[i];
    if (begun[i] == 0 && (any || library != current))
      continue;
    begun[i] -= begun[i] > 0;
    result = libraries_worse(result, simulated && library == current
                                         ? library->functions.GroupSimulateEnd(info)
                                         : library->functions.GroupEnd());
  }
  return result;
}

static ncclResult_t dispatch_GroupEnd(void) {
  return end_in_all(false, NULL);
}

static ncclResult_t dispatch_GroupSimulateEnd(ncclSimInfo_t *simInfo) {
  return end_in_all(true, simInfo);
}

/* New communicators are remembered even where no handler sees them, with NCCL_JOIN=0. A handle may
 * be written later; then a handler says so. */
static ncclResult_t libraries_remember(const struct library *library, const ncclComm_t *comms,
                                       int ncomms, ncclResult_t result) {
  if (result == ncclSuccess || result == ncclInProgress)
    for (int i = 0; comms != NULL && i < ncomms; i++)
      library_made(library, comms[i]);
  return result;
}

static ncclResult_t dispatch_GetUniqueId(ncclUniqueId *uniqueId) {
  return library_current()->functions.GetUniqueId(uniqueId);
}

static ncclResult_t dispatch_CommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                          int rank) {
  const struct library *library = library_current();
  return libraries_remember(library, comm, 1,
                            library->functions.CommInitRank(comm, nranks, commId, rank));
}

static ncclResult_t dispatch_CommInitAll(ncclComm_t *comm, int ndev, const int *devlist) {
  const struct library *library = library_current();
  return libraries_remember(library, comm, ndev,
                            library->functions.CommInitAll(comm, ndev, devlist));
}

static ncclResult_t dispatch_CommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                                int rank, ncclConfig_t *config) {
  const struct library *library = library_current();
  return libraries_remember(
      library, comm, 1, library->functions.CommInitRankConfig(comm, nranks, commId, rank, config));
}

static ncclResult_t dispatch_CommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank,
                                                  int nId, ncclUniqueId *commIds,
                                                  ncclConfig_t *config) {
  const struct library *library = library_current();
  return libraries_remember(
      library, newcomm, 1,
      library->functions.CommInitRankScalable(newcomm, nranks, myrank, nId, commIds, config));
}

static ncclResult_t dispatch_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                                       ncclConfig_t *config) {
  const struct library *library = library_of(comm);
  return libraries_remember(library, newcomm, 1,
                            library->functions.CommSplit(comm, color, key, newcomm, config));
}

static ncclResult_t dispatch_CommShrink(ncclComm_t comm, int *excludeRanksList,
                                        int excludeRanksCount, ncclComm_t *newcomm,
                                        ncclConfig_t *config, int shrinkFlags) {
  const struct library *library = library_of(comm);
  return libraries_remember(library, newcomm, 1,
                            library->functions.CommShrink(comm, excludeRanksList, excludeRanksCount,
                                                          newcomm, config, shrinkFlags));
}

static ncclResult_t dispatch_CommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId,
                                      int rank, ncclComm_t *newcomm, ncclConfig_t *config) {
  const struct library *library = library_of(comm);
  return libraries_remember(
      library, newcomm, 1,
      library->functions.CommGrow(comm, nRanks, uniqueId, rank, newcomm, config));
}

static ncclResult_t dispatch_GetVersion(int *version) {
  return library_current()->functions.GetVersion(version);
}

/* All others have a communicator. What the library calls by its own exported names during the call
 * is for it, too. */
#define DISPATCH(name, parameters, arguments)                                                      \
  static ncclResult_t dispatch_##name parameters {                                                 \
    const struct library *library = library_of(comm), *before = library_enter(library);            \
    ncclResult_t result = library->functions.name arguments;                                       \
    library_leave(before);                                                                         \
    return result;                                                                                 \
  }
#define DISPATCH_HANDLED(name, parameters, arguments) DISPATCH(name, parameters, arguments)
#define DISPATCH_FAST(name, parameters, arguments) DISPATCH(name, parameters, arguments)
#define DISPATCH_UNFIT(name, parameters, arguments) DISPATCH(name, parameters, arguments)
#define DISPATCH_OBSERVED(name, parameters, arguments) DISPATCH(name, parameters, arguments)
#define DISPATCH_CALLED(name, parameters, arguments) DISPATCH(name, parameters, arguments)
#define DISPATCH_CREATES(name, parameters, arguments)
#define DISPATCH_GROUPS(name, parameters, arguments)
#define DISPATCH_SPLITS(name, parameters, arguments)
#define DISPATCH_ASKED(name, parameters, arguments)
#define DISPATCH_BY_HANDLING(since, name, parameters, arguments, handling)                         \
  DISPATCH_##handling(name, parameters, arguments)
NCCL_API(DISPATCH_BY_HANDLING)

const struct real_functions libraries_dispatch = {
#define DISPATCHED(since, name, parameters, arguments, handling) .name = dispatch_##name,
    NCCL_API(DISPATCHED)
#undef DISPATCHED
};
