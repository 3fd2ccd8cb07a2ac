/* The API: the life of communicators, and what they say about themselves. */
#include "report.h"
#include "communicator.h"
#include "create.h"
#include "device.h"
#include "group.h"
#include "meeting.h"

#include <stdlib.h>
#include <string.h>

/* NCCL registers exit handlers at first use, not at load: they run before those of whoever
 * registered earlier. */
static void at_exit(void) {
  report_log("exit");
}

static void register_at_exit(void) {
  atexit(at_exit);
}

static void first_use(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, register_at_exit);
}

API_EXPORT ncclResult_t pncclGetUniqueId(ncclUniqueId *uniqueId) {
  first_use();
  if (uniqueId == NULL) {
    report_error("GetUniqueId : out argument is NULL");
    return ncclInvalidArgument;
  }
  return unique_id_create(uniqueId);
}
API_ALIAS(GetUniqueId);

static void show_version(int rank) {
  const char *level = getenv("NCCL_DEBUG");
  int version;
  if (level != NULL && rank == 0 && ncclGetVersion(&version) == ncclSuccess)
    report_line("test double of NCCL version %d, on host memory", version);
}

/* The state a nonblocking communicator is in, or result. */
static ncclResult_t state_or(struct ncclComm *comm, ncclResult_t result) {
  ncclResult_t state;
  if (comm == NULL || comm->config.blocking || result != ncclSuccess)
    return result;
  return ncclCommGetAsyncError(comm, &state) == ncclSuccess ? state : result;
}

/* Ends the group that a call opened; an error of the call comes before the group's. */
static ncclResult_t end_call(ncclResult_t result) {
  group_error(result);
  ncclResult_t ended = group_end(NULL);
  return result != ncclSuccess || ended == ncclInProgress ? result : ended;
}

API_EXPORT ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                          int rank) {
  first_use();
  show_version(rank);
  return group_error(create_from_ids(comm, nranks, &commId, 1, rank, NULL, "CommInitRank"));
}
API_ALIAS(CommInitRank);

API_EXPORT ncclResult_t pncclCommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank,
                                                  int nId, ncclUniqueId *commIds,
                                                  ncclConfig_t *config) {
  first_use();
  show_version(myrank);
  group_start();
  ncclResult_t result = ncclInvalidArgument;
  if (commIds == NULL)
    report_error("CommInitRankScalable : commIds argument is NULL");
  else
    result = create_from_ids(newcomm, nranks, commIds, nId, myrank, config, "CommInitRank");
  result = end_call(result);
  return state_or(newcomm != NULL ? *newcomm : NULL, result);
}
API_ALIAS(CommInitRankScalable);

API_EXPORT ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId,
                                                int rank, ncclConfig_t *config) {
  first_use();
  show_version(rank);
  group_start();
  ncclResult_t result =
      end_call(create_from_ids(comm, nranks, &commId, 1, rank, config, "CommInitRank"));
  return state_or(comm != NULL ? *comm : NULL, result);
}
API_ALIAS(CommInitRankConfig);

static ncclResult_t check_devices(int ndev, const int *devlist) {
  int total;
  ncclResult_t result = device_count(&total);
  for (int i = 0; i < ndev && devlist != NULL && result == ncclSuccess; i++) {
    if (devlist[i] < 0 || devlist[i] >= total) {
      report_error("Invalid device %d (totalnDev=%d)", devlist[i], total);
      result = ncclInvalidArgument;
    }
    for (int j = 0; j < i && result == ncclSuccess; j++)
      if (devlist[i] == devlist[j]) {
        report_error("Duplicate device %d in the list", devlist[i]);
        result = ncclInvalidUsage;
      }
  }
  return result;
}

API_EXPORT ncclResult_t pncclCommInitAll(ncclComm_t *comm, int ndev, const int *devlist) {
  int old_device;
  CUcontext old;
  first_use();
  ncclResult_t result = device_current(&old_device, &old);
  if (result != ncclSuccess)
    return result;
  if (comm == NULL || ndev < 0) {
    report_error("CommInitAll : comms argument is NULL, or invalid device count requested : %d",
                 ndev);
    return ncclInvalidArgument;
  }
  result = check_devices(ndev, devlist);
  ncclUniqueId id;
  if (result == ncclSuccess)
    result = ncclGetUniqueId(&id);
  if (result != ncclSuccess)
    return result;
  group_start();
  for (int i = 0; i < ndev && result == ncclSuccess; i++) {
    result = device_set(devlist != NULL ? devlist[i] : i);
    if (result == ncclSuccess)
      result = create_from_ids(comm + i, ndev, &id, 1, i, NULL, "CommInitAll");
  }
  result = end_call(result);
  device_leave(old);
  return result;
}
API_ALIAS(CommInitAll);

API_EXPORT ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                                       ncclConfig_t *config) {
  group_start();
  return end_call(create_by_split(comm, color, key, newcomm, config));
}
API_ALIAS(CommSplit);

API_EXPORT ncclResult_t pncclCommShrink(ncclComm_t comm, int *excludeRanksList,
                                        int excludeRanksCount, ncclComm_t *newcomm,
                                        ncclConfig_t *config, int shrinkFlags) {
  ncclResult_t result = communicator_check(comm, "ncclCommShrink");
  if (result != ncclSuccess)
    return group_error(result);
  if (shrinkFlags & NCCL_SHRINK_ABORT) {
    /* The ranks that stay come to grips with a dead one: what waits for it ends, and its error is
     * forgotten. */
    communicator_cancel(comm);
    int lost = ncclRemoteError;
    atomic_compare_exchange_strong(&comm->async_result, &lost, (int)ncclSuccess);
  }
  group_start();
  return end_call(create_by_shrink(comm, excludeRanksList, excludeRanksCount, newcomm, config));
}
API_ALIAS(CommShrink);

/* What the end of a communicator needs to know. */
struct ending {
  struct job job; /* first */
  void (*end)(struct ncclComm *comm);
};

static ncclResult_t run_ending(struct job *job) {
  ((struct ending *)job)->end(job->comm);
  return ncclSuccess;
}

static void drop_ending(struct job *job) {
  free(job);
}

static ncclResult_t add_ending(struct ncclComm *comm, bool ends, void (*end)(struct ncclComm *)) {
  struct ending *ending = calloc(1, sizeof *ending);
  if (ending == NULL)
    return ncclSystemError;
  ending->job = (struct job){.run = run_ending, .drop = drop_ending, .comm = comm, .ends = ends};
  ending->end = end;
  return group_add_job(&ending->job);
}

static void end_by_destroy(struct ncclComm *comm) {
  communicator_drain(comm);
  communicator_leave(comm, false);
}

static void end_by_abort(struct ncclComm *comm) {
  communicator_cancel(comm);
  communicator_leave(comm, true);
}

API_EXPORT ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  if (comm == NULL)
    return ncclSuccess;
  ncclResult_t result = communicator_check(comm, "ncclCommFinalize");
  if (result != ncclSuccess)
    return group_error(result);
  group_start();
  result = communicator_ensure_ready(comm);
  if (result == ncclSuccess && comm->finalized) {
    report_error("ncclCommFinalize : comm %p was finalized or revoked before", (void *)comm);
    result = ncclInvalidArgument;
  }
  if (result == ncclSuccess) {
    comm->finalized = true;
    result = add_ending(comm, false, communicator_drain);
  }
  return state_or(comm, end_call(result));
}
API_ALIAS(CommFinalize);

API_EXPORT ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  if (comm == NULL)
    return ncclSuccess;
  ncclResult_t result = communicator_check(comm, "ncclCommDestroy");
  if (result != ncclSuccess)
    return group_error(result);
  group_start();
  result = communicator_ensure_ready(comm);
  if (result == ncclSuccess)
    result = add_ending(comm, true, end_by_destroy);
  return end_call(result);
}
API_ALIAS(CommDestroy);

API_EXPORT ncclResult_t pncclCommAbort(ncclComm_t comm) {
  if (comm == NULL)
    return ncclSuccess;
  ncclResult_t result = communicator_check(comm, "ncclCommAbort");
  if (result != ncclSuccess)
    return group_error(result);
  group_start();
  atomic_store(&comm->aborted, true);
  communicator_signal(comm);
  communicator_ensure_ready(comm);
  return end_call(add_ending(comm, true, end_by_abort));
}
API_ALIAS(CommAbort);

API_EXPORT ncclResult_t pncclCommRevoke(ncclComm_t comm, int revokeFlags) {
  if (comm == NULL)
    return ncclSuccess;
  ncclResult_t result = communicator_check(comm, "ncclCommRevoke");
  if (result != ncclSuccess)
    return group_error(result);
  if (revokeFlags != NCCL_REVOKE_DEFAULT || comm->finalized || comm->revoked) {
    report_error("ncclCommRevoke : flags %d, or comm %p was finalized or revoked before",
                 revokeFlags, (void *)comm);
    return ncclInvalidArgument;
  }
  group_start();
  communicator_signal(comm);
  group_work_complete(comm);
  comm->revoked = true;
  comm->finalized = true;
  return state_or(comm, end_call(add_ending(comm, false, communicator_cancel)));
}
API_ALIAS(CommRevoke);

API_EXPORT ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError) {
  ncclResult_t result = communicator_check(comm, "ncclGetAsyncError");
  if (result != ncclSuccess)
    return result;
  if (asyncError == NULL) {
    report_error("ncclGetAsyncError : asyncError argument is NULL");
    return ncclInvalidArgument;
  }
  *asyncError = (ncclResult_t)atomic_load(&comm->async_result);
  if (*asyncError == ncclSuccess)
    group_work_complete(comm);
  return ncclSuccess;
}
API_ALIAS(CommGetAsyncError);

/* Common to the three questions below. */
static ncclResult_t check_question(const struct ncclComm *comm, const int *answer,
                                   const char *call) {
  ncclResult_t result = communicator_check(comm, call);
  if (result == ncclSuccess && answer == NULL) {
    report_error("%s : argument is NULL", call);
    result = ncclInvalidArgument;
  }
  return result == ncclSuccess ? communicator_ensure_ready((struct ncclComm *)(uintptr_t)comm)
                               : result;
}

API_EXPORT ncclResult_t pncclCommCount(const ncclComm_t comm, int *count) {
  ncclResult_t result = check_question(comm, count, "CommCount");
  if (result == ncclSuccess)
    *count = comm->nranks;
  return result;
}
API_ALIAS(CommCount);

API_EXPORT ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device) {
  ncclResult_t result = check_question(comm, device, "CommCuDevice");
  if (result == ncclSuccess)
    *device = comm->device;
  return result;
}
API_ALIAS(CommCuDevice);

API_EXPORT ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank) {
  ncclResult_t result = check_question(comm, rank, "CommUserRank");
  if (result == ncclSuccess)
    *rank = comm->rank;
  return result;
}
API_ALIAS(CommUserRank);
