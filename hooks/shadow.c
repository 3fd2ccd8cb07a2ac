/* Issues shadow units: everything that can fail (memory, operators, missing functions) first, then
 * the calls in the real unit's form. A group that has been opened is closed whatever happens in
 * between.
 */
#include "hooks/shadow.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "hooks/contribution.h"
#include "hooks/shadow_call.h"
#include "hooks/shadow_device.h"

#define SAME(ours, nccl) _Static_assert((int)(ours) == (int)(nccl), "numbers of NCCL's ABI")
SAME(DATATYPE_INT8, ncclInt8);
SAME(DATATYPE_UINT8, ncclUint8);
SAME(DATATYPE_INT32, ncclInt32);
SAME(DATATYPE_UINT32, ncclUint32);
SAME(DATATYPE_INT64, ncclInt64);
SAME(DATATYPE_UINT64, ncclUint64);
SAME(DATATYPE_FLOAT16, ncclFloat16);
SAME(DATATYPE_FLOAT32, ncclFloat32);
SAME(DATATYPE_FLOAT64, ncclFloat64);
SAME(REDUCTION_SUM, ncclSum);
SAME(REDUCTION_PROD, ncclProd);
SAME(REDUCTION_MAX, ncclMax);
SAME(REDUCTION_MIN, ncclMin);
SAME(REDUCTION_AVG, ncclAvg);
/* Earlier headers declare bfloat16 for C++ only, and float8 not at all. */
#if NCCL_VERSION_CODE >= 22400
SAME(DATATYPE_BFLOAT16, ncclBfloat16);
SAME(DATATYPE_FLOAT8E4M3, ncclFloat8e4m3);
SAME(DATATYPE_FLOAT8E5M2, ncclFloat8e5m2);
#endif

/* Of a member's description within a sentence. */
#define UNIT_TEXT 160

#define EXPLAIN(reason, ...)                                                                       \
  do {                                                                                             \
    if ((reason) != NULL)                                                                          \
      (void)snprintf(reason, REASON_SIZE, __VA_ARGS__);                                            \
  } while (0)

static const char *result_name(ncclResult_t result) {
  static const char *const names[] = {
      "ncclSuccess",       "ncclUnhandledCudaError", "ncclSystemError",
      "ncclInternalError", "ncclInvalidArgument",    "ncclInvalidUsage",
      "ncclRemoteError",   "ncclInProgress",         "ncclTimeout",
  };
  return (size_t)result < sizeof names / sizeof *names ? names[result] : "unknown ncclResult_t";
}

/* ---- non-blocking communicators ---- */

/* What has become of a call that returned ncclInProgress. */
static ncclResult_t shadow_settle(const struct nccl_calls *nccl, ncclComm_t comm,
                                  const struct shadow_limit *limit) {
  ncclResult_t state = ncclInProgress;
  uint64_t pause_ns = 0;
  do {
    ncclResult_t result = nccl->CommGetAsyncError(comm, &state);
    if (result != ncclSuccess)
      return result;
  } while (state == ncclInProgress && limit_pause(limit, &pause_ns));
  return state;
}

static ncclResult_t settle_all(const struct nccl_calls *nccl, struct unit unit,
                               const struct shadow_member *members,
                               const struct shadow_limit *limit) {
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    ncclResult_t result = shadow_settle(nccl, members[i].comm, limit);
    if (result != ncclSuccess)
      return result;
  }
  return ncclSuccess;
}

/* ---- PreMulSum ---- */

/* A shadow's own operators, one for each PreMulSum member in their order: handles are local to a
 * rank, and only that it is a PreMulSum of the same datatype must match the peers (enqueue.cc,
 * ncclRedOpCreatePreMulSum). */
struct operators {
  ncclRedOp_t *handles;
  uint32_t created;
};

static void operators_destroy(const struct nccl_calls *nccl, struct unit unit,
                              const struct shadow_member *members, struct operators *operators) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < unit.nmembers && next < operators->created; i++)
    if (unit.members[i].reduction == REDUCTION_PREMULSUM)
      (void)nccl->RedOpDestroy(operators->handles[next++], members[i].comm);
  free(operators->handles);
}

static ncclResult_t operators_create(const struct nccl_calls *nccl, struct unit unit,
                                     const struct shadow_member *members,
                                     struct operators *operators) {
  uint32_t needed = 0;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    needed += unit.members[i].reduction == REDUCTION_PREMULSUM;
  *operators = (struct operators){NULL, 0};
  if (needed == 0)
    return ncclSuccess;
  operators->handles = calloc(needed, sizeof *operators->handles);
  if (operators->handles == NULL)
    return ncclSystemError;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    if (member->reduction != REDUCTION_PREMULSUM)
      continue;
    uint64_t one =
        contribution_one(member->datatype).bits; /* little-endian, as all hosts of CUDA */
    ncclResult_t result = nccl->RedOpCreatePreMulSum(&operators->handles[operators->created], &one,
                                                     (ncclDataType_t)member->datatype,
                                                     ncclScalarHostImmediate, members[i].comm);
    if (result != ncclSuccess)
      return result;
    operators->created++;
  }
  return ncclSuccess;
}

/* ---- a unit ---- */

static ncclResult_t shadow_check(const struct nccl_calls *nccl, struct unit unit, char *reason) {
  if (unit_is_leave(unit)) {
    EXPLAIN(reason, "LEAVE cannot be shadowed");
    return ncclInvalidUsage;
  }
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    const char *name = NULL;
    if (!call_is_available(nccl, member->kind, &name)) {
      EXPLAIN(
          reason,
          "cannot shadow member %u of a unit: this rank's NCCL has no %s; use the same NCCL on all "
          "ranks",
          i, name);
      return ncclInvalidUsage;
    }
    if (contribution_fill(member).size == 0) {
      EXPLAIN(reason,
              "cannot shadow member %u of a unit: nothing is known of %s with datatype %u and "
              "reduction %u, so nothing neutral can be sent",
              i, name, member->datatype, member->reduction);
      return ncclInvalidUsage;
    }
  }
  return ncclSuccess;
}

static void explain_memory(struct unit unit, const struct shadow *device,
                           const struct device_failure *failure, char *reason) {
  char text[UNIT_TEXT];
  char number[CUDA_ERROR_TEXT];
  const char *error = cuda_driver_error(device->cuda, failure->error, number);
  (void)unit_describe(unit, text, sizeof text);
  if (failure->bytes != 0)
    EXPLAIN(reason, "cannot allocate %zu bytes on CUDA device %d for the shadow of %s: %s%s",
            failure->bytes, device->number, text, error,
            failure->stuck ? ", and earlier shadows, whose memory could be used, do not end" : "");
  else
    EXPLAIN(reason, "cannot prepare the shadow of %s on CUDA device %d: %s", text, device->number,
            error);
}

ncclResult_t shadow_prepare(struct unit unit, const struct shadow_member *members,
                            const struct shadow_limit *limit, char *reason) {
  for (uint32_t i = 0; i < unit.nmembers; i++)
    device_needs_begin(members[i].shadow);
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    if (call_needs(&unit.members[i], &members[i]))
      continue;
    EXPLAIN(reason, "buffers of more than %d kinds of memory are registered on CUDA device %d",
            DEVICE_MEMORIES - 1, members[i].shadow->number);
    return ncclUnhandledCudaError;
  }
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    struct device_failure failure = {0};
    if (!device_allocate(members[i].shadow, limit, &failure)) {
      explain_memory(unit, members[i].shadow, &failure, reason);
      return ncclUnhandledCudaError;
    }
  }
  return ncclSuccess;
}

ncclResult_t shadow_lend(struct unit unit, struct shadow_member *members,
                         const struct shadow_limit *limit, char *reason) {
  struct shadow *device = members[0].shadow;
  struct device_failure failure = {0};
  bool lent = true;
  uint64_t pattern;
  size_t bytes;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    (void)call_lends(&unit.members[i], &members[i], &pattern, &bytes);
  for (unsigned kind = 0; kind < device->nmemories && lent; kind++) {
    struct memory *memory = &device->memories[kind];
    size_t all = 0;
    for (uint32_t i = 0; i < unit.nmembers; i++)
      if (call_lends(&unit.members[i], &members[i], &pattern, &bytes) == memory)
        all = device_add_piece(all, bytes);
    lent = all == 0 || device_lend_begin(device, memory, all, limit, &failure);
  }
  for (uint32_t i = 0; i < unit.nmembers && lent; i++) {
    struct memory *memory = call_lends(&unit.members[i], &members[i], &pattern, &bytes);
    if (memory != NULL)
      lent = device_lend(device, memory, pattern, bytes, &members[i].send, &failure);
  }
  if (!lent)
    explain_memory(unit, device, &failure, reason);
  return lent ? ncclSuccess : ncclUnhandledCudaError;
}

size_t shadow_send_bytes(const struct member *member, const struct shadow_member *here) {
  return call_send_bytes(member, here);
}

cudaStream_t shadow_stream(const struct shadow *shadow) {
  return (cudaStream_t)shadow->stream;
}

/* What can fail of the members' buffers, before a group is open. *where: the function that failed.
 */
static ncclResult_t prepare_all(const struct nccl_calls *nccl, struct unit unit,
                                const struct shadow_member *members, const char **where) {
  ncclResult_t result = ncclSuccess;
  for (uint32_t i = 0; i < unit.nmembers && result == ncclSuccess; i++)
    result = call_prepare(nccl, &unit.members[i], &members[i], where);
  for (uint32_t i = 0; i < unit.nmembers; i++)
    device_receive_again(members[i].shadow);
  return result;
}

/* The calls themselves. *where: the function that failed. */
static ncclResult_t shadow_enqueue(const struct nccl_calls *nccl, struct unit unit,
                                   const struct shadow_member *members,
                                   const struct operators *operators, const char **where) {
  bool group = unit.nmembers > 1;
  ncclResult_t result = ncclSuccess;
  if (group && (result = nccl->GroupStart()) != ncclSuccess) {
    *where = "ncclGroupStart";
    return result;
  }
  uint32_t next = 0;
  bool failed = false;
  for (uint32_t i = 0; i < unit.nmembers && !failed; i++) {
    const struct member *member = &unit.members[i];
    ncclRedOp_t reduction = (ncclRedOp_t)member->reduction;
    if (member->reduction == REDUCTION_PREMULSUM) {
      assert(next < operators->created && operators->handles != NULL);
      reduction = operators->handles[next++];
    }
    (void)call_is_available(nccl, member->kind, where);
    result = call_make(nccl, member, &members[i], reduction);
    failed = result != ncclSuccess && result != ncclInProgress;
  }
  if (!group)
    return result;
  /* NCCL launches nothing of a group in which a call has failed (group.cc, ncclGroupError). */
  ncclResult_t end = nccl->GroupEnd();
  if (failed)
    return result;
  *where = "ncclGroupEnd";
  return end;
}

static void explain_call(struct unit unit, const struct shadow_member *members, const char *where,
                         ncclResult_t result, bool issued, char *reason) {
  char text[UNIT_TEXT];
  (void)unit_describe(unit, text, sizeof text);
  int number = members[0].shadow->number;
  if (result == ncclInProgress)
    EXPLAIN(reason,
            "gave up waiting for a communicator in ncclInProgress: the shadow of %s on CUDA device "
            "%d is %s",
            text, number, issued ? "issued but not enqueued" : "not issued");
  else
    EXPLAIN(reason, "%s returned %s (%d) for the shadow of %s on CUDA device %d", where,
            result_name(result), (int)result, text, number);
}

ncclResult_t shadow_issue(const struct nccl_calls *nccl, struct unit unit,
                          const struct shadow_member *members, const struct shadow_limit *limit,
                          char *reason) {
  ncclResult_t result = shadow_check(nccl, unit, reason);
  if (result == ncclSuccess)
    result = shadow_prepare(unit, members, limit, reason);
  if (result != ncclSuccess)
    return result;

  const struct shadow *device = members[0].shadow;
  struct device_entry entry;
  CUresult entered = device_enter(device, &entry);
  if (entered != CUDA_SUCCESS) {
    char number[CUDA_ERROR_TEXT];
    EXPLAIN(reason, "cannot use CUDA device %d for a shadow: %s", device->number,
            cuda_driver_error(device->cuda, entered, number));
    return ncclUnhandledCudaError;
  }
  /* A communicator that is still ncclInProgress would refuse every call (init.cc,
   * ncclCommEnsureReady). */
  const char *where = "ncclCommGetAsyncError";
  bool issued = false;
  struct operators operators = {NULL, 0};
  result = settle_all(nccl, unit, members, limit);
  if (result == ncclSuccess)
    result = prepare_all(nccl, unit, members, &where);
  if (result == ncclSuccess) {
    where = "ncclRedOpCreatePreMulSum";
    result = operators_create(nccl, unit, members, &operators);
  }
  if (result == ncclSuccess) {
    result = shadow_enqueue(nccl, unit, members, &operators, &where);
    issued = result == ncclSuccess || result == ncclInProgress;
    if (result == ncclInProgress)
      result = settle_all(nccl, unit, members, limit);
  }
  for (uint32_t i = 0; issued && i < unit.nmembers; i++)
    if (i == 0 || members[i].shadow != members[i - 1].shadow)
      device_mark(members[i].shadow);
  if (result != ncclSuccess)
    explain_call(unit, members, where, result, issued, reason);
  operators_destroy(nccl, unit, members, &operators);
  device_leave(device, &entry);
  return result;
}

void shadow_rehearse(const struct nccl_calls *nccl, struct unit unit,
                     const struct shadow_member *members) {
  const struct shadow_limit at_once = {0};
  char reason[REASON_SIZE] = "";
  struct device_entry entry;
  struct operators operators = {NULL, 0};
  const char *where;
  if (shadow_check(nccl, unit, reason) != ncclSuccess ||
      shadow_prepare(unit, members, &at_once, reason) != ncclSuccess ||
      device_enter(members[0].shadow, &entry) != CUDA_SUCCESS)
    return;
  (void)settle_all(nccl, unit, members, &at_once);
  (void)prepare_all(nccl, unit, members, &where);
  operators_destroy(nccl, unit, members, &operators);
  device_leave(members[0].shadow, &entry);
}

/* ---- life ---- */

struct shadow *shadow_create(const struct cuda_driver *cuda, int device, char *reason) {
  struct shadow *shadow = calloc(1, sizeof *shadow);
  if (shadow == NULL) {
    EXPLAIN(reason, "no memory for the shadows of CUDA device %d", device);
    return NULL;
  }
  shadow->cuda = cuda;
  shadow->number = device;
  (void)device_memory(shadow, 0);
  CUresult failure = CUDA_SUCCESS;
  if (!device_open(shadow, &failure)) {
    char number[CUDA_ERROR_TEXT];
    EXPLAIN(reason, "cannot make a stream for shadows on CUDA device %d: %s", device,
            cuda_driver_error(cuda, failure, number));
    free(shadow);
    return NULL;
  }
  return shadow;
}

void shadow_forget(struct shadow *shadow, ncclComm_t comm) {
  device_forget(shadow, comm);
}

void shadow_alias(struct shadow *shadow) {
  shadow->aliases = alias_is_available(shadow->cuda);
}

bool shadow_is_full(struct shadow *shadow) {
  return device_is_full(shadow);
}

ncclResult_t shadow_synchronise_device(struct shadow *shadow, const struct shadow_limit *limit,
                                       char *reason) {
  CUresult result = device_synchronise(shadow, limit);
  if (result == CUDA_ERROR_NOT_READY) {
    EXPLAIN(reason, "what the program has given CUDA device %d is not done; given up",
            shadow->number);
    return ncclInProgress;
  }
  char number[CUDA_ERROR_TEXT];
  if (result != CUDA_SUCCESS)
    EXPLAIN(reason, "cannot wait for CUDA device %d: %s", shadow->number,
            cuda_driver_error(shadow->cuda, result, number));
  return result == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t shadow_wait(struct shadow *shadow, const struct shadow_limit *limit, char *reason) {
  CUresult result = device_wait(shadow, limit);
  if (result == CUDA_SUCCESS)
    return ncclSuccess;
  if (result == CUDA_ERROR_NOT_READY) {
    EXPLAIN(reason, "shadows on CUDA device %d are not done yet; given up", shadow->number);
    return ncclInProgress;
  }
  char number[CUDA_ERROR_TEXT];
  EXPLAIN(reason, "cannot wait for the shadows on CUDA device %d: %s", shadow->number,
          cuda_driver_error(shadow->cuda, result, number));
  return ncclUnhandledCudaError;
}

bool shadow_wait_stream(struct shadow *shadow, cudaStream_t stream,
                        const struct shadow_limit *limit) {
  return device_wait_for(shadow, (CUstream)stream, limit) == CUDA_SUCCESS;
}

void shadow_destroy(struct shadow *shadow, const struct shadow_limit *limit) {
  if (shadow == NULL)
    return;
  device_forget(shadow, NULL);
  bool done = device_wait(shadow, limit) == CUDA_SUCCESS;
  if (device_close(shadow, done) && done && device_bytes(shadow) != 0) {
    device_keep(shadow);
    return;
  }
  (void)shadow->cuda->DevicePrimaryCtxRelease(shadow->device);
  free(shadow);
}

size_t shadow_bytes(const struct shadow *shadow) {
  return device_bytes(shadow);
}
