/* From a call to an operation of the thread's group. */
#include "enqueue.h"

#include "datatype.h"
#include "device.h"
#include "group.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

/* Handles of user reductions are numbers of one rank: NCCL mixes the communicator's address into
 * them (comm.h, ncclUserRedOpMangle), so that nobody takes them for something that ranks could
 * compare. Its own inverse. */
static int mangle(const struct ncclComm *comm, int handle) {
  if (handle < ncclNumOps)
    return handle;
  uint64_t mix =
      ((uint64_t)(uintptr_t)comm ^ (uint64_t)(uintptr_t)comm >> 32) * UINT64_C(0x9e3779b97f4a7c13);
  int mangled = handle ^ (int)(mix >> 32 & ncclMaxRedOp);
  return mangled < ncclNumOps ? handle : mangled; /* numbers of built-in reductions stay theirs */
}

static struct user_reduction *user_reduction(const struct ncclComm *comm, int handle) {
  int index = mangle(comm, handle) - ncclNumOps;
  if (index < 0 || index >= comm->nreductions || !comm->reductions[index].used)
    return NULL;
  return &comm->reductions[index];
}

ncclResult_t user_reduction_create(struct ncclComm *comm, ncclRedOp_t *handle, const void *scalar,
                                   ncclDataType_t datatype, ncclScalarResidence_t residence) {
  size_t size = datatype_size(datatype);
  if (handle == NULL || scalar == NULL || size == 0) {
    report_error("ncclRedOpCreatePreMulSum : op or scalar is NULL, or invalid type %d",
                 (int)datatype);
    return ncclInvalidArgument;
  }
  int index = 0;
  while (index < comm->nreductions && comm->reductions[index].used)
    index++;
  if (index == comm->nreductions) {
    int capacity = comm->nreductions == 0 ? 4 : 2 * comm->nreductions;
    struct user_reduction *grown = realloc(comm->reductions, (size_t)capacity * sizeof *grown);
    if (grown == NULL)
      return ncclSystemError;
    memset(grown + index, 0, (size_t)(capacity - index) * sizeof *grown);
    comm->reductions = grown;
    comm->nreductions = capacity;
  }
  struct user_reduction *reduction = &comm->reductions[index];
  *reduction = (struct user_reduction){.used = true, .datatype = datatype};
  if (residence == ncclScalarHostImmediate)
    memcpy(reduction->factor.bytes, scalar, size);
  else
    reduction->factor_pointer = scalar;
  *handle = (ncclRedOp_t)mangle(comm, ncclNumOps + index);
  return ncclSuccess;
}

ncclResult_t user_reduction_destroy(struct ncclComm *comm, ncclRedOp_t handle) {
  if ((int)handle >= 0 && (int)handle < ncclNumOps) {
    report_error("ncclRedOpDestroy : operator is a NCCL builtin.");
    return ncclInvalidArgument;
  }
  if ((int)handle < 0) {
    report_error("ncclRedOpDestroy :  operator is garbage.");
    return ncclInvalidArgument;
  }
  if (comm == NULL) {
    report_error("ncclRedOpDestroy : invalid communicator passed.");
    return ncclInvalidArgument;
  }
  struct user_reduction *reduction = user_reduction(comm, (int)handle);
  if (reduction == NULL) {
    report_error("ncclRedOpDestroy : operator unknown to this communicator.");
    return ncclInvalidArgument;
  }
  reduction->used = false;
  return ncclSuccess;
}

/* argcheck.cc, ArgsCheck: root, then datatype, then reduction. */
static ncclResult_t check_arguments(const struct ncclComm *comm, const struct operation *operation,
                                    int reduction) {
  const char *name = operation_name(operation->kind);
  if (operation_has_root(operation->kind) &&
      (operation->root < 0 || operation->root >= comm->nranks)) {
    report_error("%s : invalid root %d (root should be in the 0..%d range)", name, operation->root,
                 comm->nranks);
    return ncclInvalidArgument;
  }
  if (!datatype_is_valid(operation->datatype)) {
    report_error("%s : invalid type %d", name, (int)operation->datatype);
    return ncclInvalidArgument;
  }
  if (!operation_reduces(operation->kind))
    return ncclSuccess;
  if (reduction < 0) {
    report_error("%s : invalid reduction operation %d", name, reduction);
    return ncclInvalidArgument;
  }
  if (reduction >= ncclNumOps && user_reduction(comm, reduction) == NULL) {
    report_error("%s : reduction operation %d unknown to this communicator", name, reduction);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

/* Copied now: a user reduction may be destroyed before the group ends. */
static ncclResult_t resolve_reduction(const struct ncclComm *comm, struct operation *operation,
                                      int handle) {
  if (!operation_reduces(operation->kind))
    return ncclSuccess;
  if (handle < ncclNumOps) {
    operation->reduction = reduction_of_builtin((ncclRedOp_t)handle);
    operation->premultiplied =
        operation->reduction == REDUCTION_AVG && datatype_is_float(operation->datatype);
    if (operation->premultiplied)
      operation->factor = reduction_average_factor(operation->datatype, comm->nranks);
    return ncclSuccess;
  }
  const struct user_reduction *user = user_reduction(comm, handle);
  if (user->datatype != operation->datatype) {
    report_error(
        "Data type supplied to user-created ncclRedOp_t does not match type given to reduction "
        "operation");
    return ncclInvalidArgument;
  }
  operation->reduction = REDUCTION_PREMULSUM;
  operation->premultiplied = true;
  operation->factor = user->factor;
  operation->factor_pointer = user->factor_pointer;
  return ncclSuccess;
}

static ncclResult_t append(struct ncclComm *comm, struct operation *operation, int reduction) {
  ncclResult_t result = communicator_ensure_ready(comm);
  if (result == ncclSuccess)
    result = check_arguments(comm, operation, reduction);
  if (result != ncclSuccess)
    return result;
  if (operation->count == 0 && operation_is_collective(operation))
    return ncclSuccess; /* dropped on this rank alone, as in NCCL (enqueue.cc, taskAppend) */
  result = resolve_reduction(comm, operation, reduction);
  return result == ncclSuccess ? group_add_operation(comm, operation) : result;
}

ncclResult_t enqueue(struct ncclComm *comm, struct operation operation, int reduction) {
  const char *name = operation_name(operation.kind);
  ncclResult_t result = communicator_check(comm, name);
  if (result != ncclSuccess)
    return group_error(result);
  if (comm->revoked || comm->finalized) { /* finalized: NCCL does not check, and goes wrong */
    report_error("%s: communicator was %s", name, comm->revoked ? "revoked" : "finalized");
    return group_error(ncclInvalidUsage);
  }
  group_start();
  result = append(comm, &operation, reduction);
  if (result != ncclSuccess && !comm->config.blocking &&
      atomic_load(&comm->async_result) != ncclInProgress)
    communicator_fail(comm, result);
  group_error(result);
  ncclResult_t ended = group_end(NULL);
  if (result != ncclSuccess)
    return result;
  ncclResult_t state = ended;
  if (!comm->config.blocking)
    ncclCommGetAsyncError(comm, &state);
  return state;
}
