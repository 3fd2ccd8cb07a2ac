/* What is captured, and what follows from it (capture.h). */
#include "interpose/capture.h"

#include <stdatomic.h>

#include "core/log.h"
#include "hooks/cuda_driver.h"
#include "interpose/capture_doors.h"

/* Begun and not ended. Runtime functions that call exported ones of the driver count twice. */
static _Atomic int under_way;

void capture_began(void) {
  atomic_fetch_add(&under_way, 1);
  communicator_end_plain();
}

/* Not below 0: a program may end what it never began. */
void capture_ended(void) {
  int count = atomic_load(&under_way);
  while (count > 0 && !atomic_compare_exchange_weak(&under_way, &count, count - 1))
    ;
}

bool capture_is_under_way(void) {
  return atomic_load(&under_way) > 0;
}

static bool is_captured(cudaStream_t stream) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuda != NULL && cuda->StreamIsCapturing != NULL &&
         cuda->StreamIsCapturing((CUstream)stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capture_takes(const struct call *call, struct communicator *comm, bool ask) {
  if ((!ask && !capture_is_under_way()) || call->kind == MEMBER_SPLIT ||
      call->kind == CALL_DESTROY_OPERATOR || !is_captured(call->stream))
    return false;
  if (comm->unfit == NULL) {
    comm->unfit = "the capture of a CUDA graph";
    log_line(LOG_LEVEL_WARN,
             "communicator %08x is used in a CUDA graph: what is captured is passed through as it "
             "is, because replays cannot be seen. From here on its collectives cannot be shadowed; "
             "if its ranks join unevenly, the job stops with an error, or waits in a replay",
             comm->tag);
  }
  return true;
}
