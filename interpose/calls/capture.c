/* What is captured, and what follows from it (capture.h). */
#include "interpose/calls/capture.h"

#include "core/report/log.h"
#include "hooks/cuda_driver.h"

static bool is_captured(cudaStream_t stream) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuda != NULL && cuda->StreamIsCapturing != NULL &&
         cuda->StreamIsCapturing((CUstream)stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

bool capture_asks(const struct call *call, struct communicator *comm) {
  if (call->kind == MEMBER_SPLIT || call->kind == CALL_DESTROY_OPERATOR ||
      !is_captured(call->stream))
    return false;
  if (comm->unfit == NULL) {
    comm->unfit = "the capture of a CUDA graph";
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "communicator %08x is used in a CUDA graph: what is captured is passed through as it "
        "is, because replays cannot be seen. From here on its collectives cannot be shadowed; "
        "if its ranks join unevenly, the job stops with an error, or waits in a replay",
        comm->tag);
  }
  return true;
}
