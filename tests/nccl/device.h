/* What the parts of the emulated device share. */
#ifndef TESTS_NCCL_DEVICE_H
#define TESTS_NCCL_DEVICE_H

#include "layout.h"

#include "tests/nccl/function.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

/* Where the bytes behind an address of the device are. Ends the process, as an illegal access ends
 * a kernel, if they are not all inside one piece of memory that a device may use. NULL for size 0.
 */
void *device_at(const void *address, size_t size);

/* An array or object in the memory of the device. */
#define DEVICE_ARRAY(pointer, count)                                                               \
  ((__typeof__(pointer))device_at((const void *)(pointer), (size_t)(count) * sizeof *(pointer)))
#define DEVICE_OBJECT(pointer) DEVICE_ARRAY(pointer, 1)

/* Prints a line and ends the process: NCCL asks for something that is not emulated. */
#define DEVICE_REFUSE(...)                                                                         \
  (fprintf(stderr, "NCCL emulation: " __VA_ARGS__), fputc('\n', stderr), abort())

/* A block of a kernel: one channel of a communicator. */
struct block {
  const layout_communicator *communicator;
  struct ncclDevChannel *channel;
  int channel_id;
};

void collective_run(const struct block *block, const struct function *function,
                    const struct ncclDevWorkColl *work);

/* One side of a work item of sends and receives, as a task of its own. */
struct p2p_side {
  const struct block *block;
  const struct ncclDevWorkP2p *work;
  bool sends;
};
void p2p_run(void *side);

#ifdef HAS_ncclDevWorkBcast_bytes
/* All broadcasts of a batch, which one ring does together. */
void all_gather_v_run(const struct block *block, const struct function *function,
                      struct ncclDevWorkBcast *const *works, int count);
#endif

/* Where device functions are named. */
bool kernel_prepare(void);

/* The argument of a SumPostDiv as reducer_make wants it. */
uint64_t kernel_divisor(const struct function *function, uint64_t argument);

/* Runs the kernel whose argument block is at arguments, on the calling thread. */
void kernel_run(const void *arguments);

#endif
