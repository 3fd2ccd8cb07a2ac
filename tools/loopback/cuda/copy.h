/* Copies and fills: how far the host waits for them.
 *
 * The rules are "API synchronization behavior" in the CUDA Runtime API: a copy from pageable
 * memory returns once the source has been staged, one to pageable memory when it is done, one
 * between host memory when it is done, synchronous or not; a synchronous one waits, unless it
 * stays on the device. */
#ifndef LOOPBACK_CUDA_COPY_H
#define LOOPBACK_CUDA_COPY_H

#include <stdbool.h>

#include <cuda.h>

#include "tools/loopback/cuda/work.h"

/* Pageable sources up to this size are staged; for larger ones the host waits. The number is that
 * of the CUDA documentation ("for transfers of 64 KB or less"). */
#define COPY_STAGING_MAX ((size_t)64 << 10)

/* Submits a WORK_COPY or WORK_FILL. CUDA_ERROR_INVALID_VALUE if it goes outside an allocation. */
CUresult copy_submit(CUstream stream, struct work *work, bool synchronous);

#endif
