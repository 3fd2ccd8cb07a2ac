/* The API: memory, registration, windows; version and error texts. */
#include "create.h"
#include "report.h"
#include "device.h"
#include "group.h"
#include "hash.h"
#include "registration.h"

#include <stdlib.h>

API_EXPORT ncclResult_t pncclGetVersion(int *version) {
  if (version == NULL)
    return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
API_ALIAS(GetVersion);

API_EXPORT const char *pncclGetErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case ncclSystemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case ncclInternalError:
    return "internal error - please report this issue to the NCCL developers";
  case ncclInvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case ncclInvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  case ncclInProgress:
    return "NCCL operation in progress";
  case ncclNumResults:
    break;
  }
  return "unknown result code";
}
API_ALIAS(GetErrorString);

API_EXPORT const char *pncclGetLastError(ncclComm_t comm) {
  (void)comm;
  return report_last_error();
}
API_ALIAS(GetLastError);

/* Exported by the real library beside the API, and called by it through the linkage table. */
API_EXPORT void ncclResetDebugInitInternal(void);
void ncclResetDebugInitInternal(void) {}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
API_EXPORT void pncclResetDebugInit(void);
void pncclResetDebugInit(void) {
  ncclResetDebugInitInternal();
}
API_ALIAS(ResetDebugInit);
#pragma GCC diagnostic pop

API_EXPORT ncclResult_t pncclMemAlloc(void **ptr, size_t size) {
  if (ptr == NULL) {
    report_error("ncclMemAlloc : ptr argument is NULL");
    return ncclUnhandledCudaError; /* what cudaMalloc makes of it */
  }
  return device_allocate(ptr, size);
}
API_ALIAS(MemAlloc);

API_EXPORT ncclResult_t pncclMemFree(void *ptr) {
  return ptr == NULL ? ncclSuccess : device_free(ptr);
}
API_ALIAS(MemFree);

API_EXPORT ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size,
                                          void **handle) {
  ncclResult_t result = communicator_check(comm, "ncclCommRegister");
  return result == ncclSuccess ? registration_add(comm, buff, size, handle) : result;
}
API_ALIAS(CommRegister);

API_EXPORT ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle) {
  ncclResult_t result = communicator_check(comm, "ncclCommDeregister");
  if (result != ncclSuccess || handle == NULL)
    return result;
  return registration_remove(comm, handle);
}
API_ALIAS(CommDeregister);

/* A window being registered by all ranks. */
struct window_job {
  struct job job; /* first */
  void *buffer;
  size_t size;
  int flags;
  ncclWindow_t *window;
};

static ncclResult_t run_window(struct job *job) {
  struct window_job *window = (struct window_job *)job;
  struct ncclComm *comm = job->comm;
  struct segment_agenda *all = calloc((size_t)comm->nranks, sizeof *all);
  if (all == NULL)
    return ncclSystemError;
  uint64_t hash = hash_add_number(HASH_START, window->size);
  struct segment_agenda own = {
      .kind = AGENDA_WINDOW, .number = hash_finish(hash_add_number(hash, (uint64_t)window->flags))};
  communicator_enter(comm);
  ncclResult_t result = agreement_reach(comm, own, all);
  communicator_exit(comm);
  free(all);
  void *handle = NULL;
  if (result == ncclSuccess)
    result = ncclCommRegister(comm, window->buffer, window->size, &handle);
  *window->window = handle;
  return result;
}

static void drop_window(struct job *job) {
  free(job);
}

static ncclResult_t add_window(struct ncclComm *comm, void *buffer, size_t size,
                               ncclWindow_t *window, int flags) {
  ncclResult_t result = communicator_ensure_ready(comm);
  if (result != ncclSuccess)
    return result;
  if (window == NULL || (flags & ~NCCL_WIN_COLL_SYMMETRIC) != 0 ||
      device_memory(buffer, size) == NULL) {
    report_error("ncclCommWindowRegister : buffer %p, %zu bytes, is not device memory, or flags %x",
                 buffer, size, (unsigned)flags);
    return ncclInvalidArgument;
  }
  struct window_job *job = calloc(1, sizeof *job);
  if (job == NULL)
    return ncclSystemError;
  *job = (struct window_job){
      {.run = run_window, .drop = drop_window, .comm = comm}, buffer, size, flags, window};
  return group_add_job(&job->job);
}

API_EXPORT ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size,
                                                ncclWindow_t *win, int winFlags) {
  ncclResult_t result = communicator_check(comm, "ncclCommWindowRegister");
  if (result != ncclSuccess)
    return group_error(result);
  group_start();
  if (buff != NULL && size != 0)
    result = add_window(comm, buff, size, win, winFlags);
  group_error(result);
  ncclResult_t ended = group_end(NULL);
  return result != ncclSuccess ? result : ended;
}
API_ALIAS(CommWindowRegister);

API_EXPORT ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win) {
  return win == NULL ? ncclSuccess : ncclCommDeregister(comm, win);
}
API_ALIAS(CommWindowDeregister);
