/* Device memory that is to be registered with NCCL (ncclCommRegister) beside a peer's registered
 * buffer, so that NCCL decides on this rank as it does there.
 *
 * Of the memory itself NCCL asks whether it can be shared: whether it is mapped (cuMemCreate) and
 * by which handles it can be exported (p2p.cc, ipcRegisterBuffer). That is made equal.
 *
 * NVLink SHARP (nvls.cc) binds registered buffers of all ranks together, and remembers on each rank
 * with which buffers of the others its own is bound. A rank that first uses one buffer, then
 * another at the same offset, then the first again beside the same buffer of a peer would think
 * that one bound still, and the peer not: it would wait for ever. So what is given out here can
 * never be bound, and NCCL sees that on all ranks at once, in the meeting to which each comes whose
 * buffer is registered: it binds only what begins at a multiple of the allocation granularity (2.20
 * to 2.30: tryRegisterBuffer, NVLS_REG_POSSIBLE), and registers whole pages; this memory begins at
 * an odd page. All ranks then go through NCCL's own buffers for the one collective, and what the
 * peers have bound stays bound.
 */
#ifndef NCCL_JOIN_HOOKS_REGISTRABLE_H
#define NCCL_JOIN_HOOKS_REGISTRABLE_H

#include <stddef.h>

#include "hooks/cuda_driver.h"

/* The first release for which that is so. In 2.19 a buffer that cannot be bound is an error on its
 * rank alone. */
#define REGISTRABLE_NCCL 22000

struct registrable {
  CUdeviceptr address; /* of an odd page */
  size_t bytes;        /* from there on */
  CUdeviceptr start;
  size_t mapped; /* from start on; 0: of cuMemAlloc */
};

/* At least `bytes` (not 0) of memory that looks as told (core/unit/look.h, enum look_buffer).
 * Nothing is held on failure: CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_NOT_SUPPORTED where the driver
 * has no mapped memory, or what the driver says. */
CUresult registrable_allocate(const struct cuda_driver *cuda, CUdevice device, unsigned look,
                              size_t bytes, struct registrable *memory);

/* Only when nothing on the device uses it any more, and no communicator has it registered. */
void registrable_free(const struct cuda_driver *cuda, const struct registrable *memory);

#endif
