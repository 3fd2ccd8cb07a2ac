/* The native frames of the calling thread, read with no help of the program: from its unwind tables
 * (eh_frame.h) and its stack. What cannot be understood ends the walk; nothing is ever read that
 * may not be readable.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_FRAMES_H
#define NCCL_JOIN_INTERPOSE_NATIVE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/places/native/code_modules.h"
#include "interpose/places/native/eh_frame.h"
#include "interpose/places/native/native_sites.h"

/* A function that has called the one before. */
struct native_frame {
  uintptr_t pc; /* where it goes on: the return address */
  struct code_module module;
  struct frame_rule rule; /* if has_rule */
  bool has_rule;
  uintptr_t cfa; /* where its caller's frame ends; 0: not known */
};

/* Why a walk goes no further. */
enum native_end {
  NATIVE_GOES_ON,
  NATIVE_ENDED,      /* nobody has called this frame's function: a thread begins there */
  NATIVE_STOPPED,    /* here it always stops: no tables, or rules that are not understood */
  NATIVE_UNREADABLE, /* what is on the stack is none this time */
};

/* The state of the caller of what runs at `at`, in place. frame: the function at at->pc; frame->pc
 * is 0 if that lies in no object. */
enum native_end native_step(struct native_caller *at, struct native_frame *frame);

/* The id of a call, made frame by frame from the innermost outward: equal on all ranks, and
 * different for other return addresses of the program's frames (NATIVE_ID_FRAMES). Zeroed at
 * first, but for `tells` (native_site_find). */
struct native_id {
  native_tells *tells;
  uint64_t hash, trimmed; /* trimmed: without what only begins main or a thread so far */
  uint32_t frames, left;  /* how many frames have been added, and are left of them then */
  uint32_t nhashed, ntrimmed;
  bool is_made; /* nothing is added any more */
};

void native_id_add(struct native_id *id, const struct native_frame *frame);

/* ended: the walk has come to the end of the stack (NATIVE_ENDED). 0: there are no frames. */
uint32_t native_id_of(const struct native_id *id, bool ended);

/* Equal on all ranks, for the function of a frame with a rule, and for the call made in it. */
uint32_t native_function_id(const struct native_frame *frame);
uint32_t native_call_id(const struct native_frame *frame);

#define NATIVE_OUTER_FRAMES 32u

/* The whole stack of the calling thread, without our own frames and what only begins it; of each
 * end so many frames, from the innermost outward. */
struct native_stack {
  struct native_frame inner[NATIVE_INNER_FRAMES];
  struct native_frame outer[NATIVE_OUTER_FRAMES];
  size_t ninner, nouter;
  uint32_t id; /* as that of the call's site (native_site_find) */
};

/* tells: as native_site_find's. False: so deep that its outer end has not been seen. There is none
 * then. */
bool native_stack_read(struct native_stack *stack, native_tells *tells);

/* A register that calls keep: what it holds in a function while that waits for the one it has
 * called. */
struct native_register {
  uintptr_t value;
  uintptr_t at; /* where that lies on the stack; 0: in the register itself, still */
  bool is_known;
};

/* By the processor's numbers; known are at most rbx, rbp, and r12 to r15. */
#define NATIVE_KEPT_ROOM 16u
struct native_registers {
  struct native_register of[NATIVE_KEPT_ROOM];
};

/* Those of the calling thread's frame that has this CFA; of x86-64 only. False: there is none. */
bool native_registers_read(uintptr_t cfa, struct native_registers *registers);

/* A word of the calling thread's memory: 4 or 8 bytes. False: it cannot be read. A system call
 * where it is not on the thread's stack. */
bool native_memory_read(uintptr_t at, uint32_t bytes, uint64_t *word);

/* The stack that the thread was begun with. */
struct native_bounds native_stack_bounds(void);

/* Frames that are not on the stack, because their function has ended in a tail call. */

#define NATIVE_TAILS_MAX 3u

/* `caller` calls a function that is not the one of `callee`, the frame below: that one was jumped
 * to. Where there is only one way to come there, by jumps of functions of the same object, these
 * are the frames left out, the outermost first: as if the jump were a call. Returns how many; 0:
 * none is left out, or it cannot be told. */
size_t native_tails_find(const struct native_frame *caller, const struct native_frame *callee,
                         struct native_frame tails[NATIVE_TAILS_MAX]);

#endif
