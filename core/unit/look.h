/* Looks: what NCCL sees of the buffers of a call. Units are compared without them: ranks may differ
 * there, as long as no buffer is registered (ncclCommRegister). Where one is, NCCL decides on each
 * rank by the rank's own buffers how the data goes, and waits for ever if ranks decide differently.
 * So a rank that issues a shadow must know how its peers' buffers look (hooks/shadow.h).
 *
 * The 7 bits of a buffer are 0 unless it lies wholly in a registered range. They are part of the
 * format between processes (words.h).
 */
#ifndef NCCL_JOIN_CORE_LOOK_H
#define NCCL_JOIN_CORE_LOOK_H

#include <stdbool.h>
#include <stdint.h>

/* Of one buffer. */
enum look_buffer {
  LOOK_REGISTERED = 1u << 0,
  LOOK_MAPPED = 1u << 1, /* memory of cuMemCreate; otherwise of cudaMalloc and its like, or memory
                            that NCCL cannot share */
  LOOK_HANDLES = 0xfu << 2, /* of mapped memory: CUmemAllocationHandleType, those up to 8 */
  LOOK_RDMA = 1u << 6,      /* of mapped memory: made for GPUDirect RDMA */
};
#define LOOK_HANDLES_SHIFT 2
#define LOOK_BUFFER_BITS 7
#define LOOK_BUFFER_MASK ((1u << LOOK_BUFFER_BITS) - 1)

/* Of a call: its send buffer, its receive buffer, and whether that is part of the other. */
typedef uint16_t look_t;
#define LOOK_IN_PLACE (1u << (2 * LOOK_BUFFER_BITS))

/* What is not registered looks alike, in place or not: 0. */
static inline look_t look_of(unsigned send, unsigned receive, bool in_place) {
  if (send == 0 && receive == 0)
    return 0;
  return (look_t)(send | receive << LOOK_BUFFER_BITS | (in_place ? LOOK_IN_PLACE : 0));
}
static inline unsigned look_send(look_t look) {
  return look & LOOK_BUFFER_MASK;
}
static inline unsigned look_receive(look_t look) {
  return look >> LOOK_BUFFER_BITS & LOOK_BUFFER_MASK;
}
static inline bool look_is_in_place(look_t look) {
  return (look & LOOK_IN_PLACE) != 0;
}

#endif
