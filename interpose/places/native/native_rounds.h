/* In which round of the outermost loops of a frame a call is made: what the loop counts
 * (native_counters.h), read where that lies while the call is made. x86-64 only.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_ROUNDS_H

#include "core/place/place_rounds.h"
#include "interpose/places/native/native_code.h"
#include "interpose/places/native/native_counters.h"
#include "interpose/places/native/native_frames.h"

/* A loop around the calling thread's call, as long as its frame is there, to read its rounds again.
 */
struct native_loop {
  struct native_counter counter;
  uint64_t limit; /* as it was when the loop was found */
  uint64_t value; /* of the counter, likewise */
  /* Where that lies, on the stack or in the program; 0: in a register, as the call is made. */
  uintptr_t at;
  bool is_readable; /* native_loop_value knows where it is */
};

/* What the registers that calls keep held as the program called NCCL. */
struct native_entry {
  uintptr_t sp; /* the function's CFA */
  uintptr_t fp;
  uintptr_t kept[EH_KEPT]; /* rbx, r12 to r15 */
  bool has_kept;
};

/* Of a loop of a frame of the calling thread, of whose call native_code_nodes has been asked;
 * depth: 0: the outermost one of the function; whole: the frame, as one of its whole function.
 * False: there is none, or what it counts is not known. Walks the stack. entry: of this call; of
 * another one, is_readable and `at` mean nothing. */
bool native_loop_find(const struct native_frame *frame, const struct native_frame *whole,
                      const struct native_entry *entry, uint32_t depth, struct native_loop *loop);

/* What its counter is now, and what a value of it says. entry: of this call, which has the stack
 * pointer that the other one had. A load or two. */
uint64_t native_loop_value(const struct native_loop *loop, const struct native_entry *entry);
struct place_round native_loop_round(const struct native_loop *loop, uint64_t value);

#endif
