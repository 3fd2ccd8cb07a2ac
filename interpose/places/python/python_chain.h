/* The chain of frames of a thread, and what ids and nodes are made of: hashes of frames
 * (python_id.c), and the nodes of the outermost ones (python_nodes.c).
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_CHAIN_H
#define NCCL_JOIN_INTERPOSE_PYTHON_CHAIN_H

#include "core/place/place.h"
#include "core/place/place_rounds.h"
#include "interpose/places/python/python_frames.h"
#include "interpose/places/python/python_layout.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* A frame of Python code. */
struct python_frame {
  uint64_t address;
  uint64_t code; /* the address of its code object */
  int64_t where; /* bytes from the beginning of the code to what the frame points at */
};

/* What a frame counts as in ids: a hash of its code's key and of its instruction, or one of these.
 */
enum python_frame_hash {
  PYTHON_FRAME_UNKNOWN = 0, /* it cannot be read: neither can the chain */
  PYTHON_FRAME_RUNNER = 1,  /* it does not count */
};

/* The hash of a frame of the calling thread, or of one that cannot end meanwhile. It is remembered
 * by code object and instruction; that another code object has come to the same address is noticed,
 * before 3.12 unless it looks the same (python_id.c). */
uint64_t python_frame_hash(const struct python_layout *layout, const struct python_frame *frame);

/* Bytes of a code object that are copied to tell it from others. */
#define PYTHON_HEADER_MAX 256

/* For a frame of another thread, whose code may go at any time: a check of what tells it from other
 * frames, from a copy of the first at.code_size bytes of its code. From 3.12 on no other code has
 * the same; before, one that was put together from objects at the same addresses. 0: there is none.
 */
uint64_t python_frame_check(const struct python_layout *layout, const struct python_frame *frame,
                            const uint8_t *header);

/* What is asked of a frame, whose code is read with python_memory.h. */
typedef uint64_t python_asks(const struct python_layout *layout, const struct python_frame *frame);

/* The answer, which is remembered by the frame's check and by who asks. */
uint64_t python_frame_known(const struct python_layout *layout, const struct python_frame *frame,
                            uint64_t check, python_asks *asks);

/* The hash of a frame of another thread. */
uint64_t python_frame_hash_unsafe(const struct python_layout *layout,
                                  const struct python_frame *frame, uint64_t check);

/* The same from a copy of the code. */
struct python_code;
uint64_t python_frame_hash_of(const struct python_layout *layout, const struct python_code *code,
                              int64_t where);

/* Ids from hashes, innermost frame first: begin with 0, end with python_chain_id. */
static inline uint64_t python_chain_add(uint64_t chain, uint64_t hash) {
  if (hash == PYTHON_FRAME_RUNNER)
    return chain;
  chain = (chain ^ hash) * 0x9e3779b97f4a7c15u;
  return chain ^ chain >> 29;
}

static inline uint32_t python_chain_id(uint64_t chain) {
  uint32_t id = (uint32_t)(chain >> 32 ^ chain);
  return chain == 0 ? 0 : id == 0 ? 1 : id;
}

/* The outermost frames of a chain: those that came last. */
struct python_outermost {
  struct python_frame frames[PLACE_NODES_MAX];
  uint64_t hashes[PLACE_NODES_MAX];
  uint32_t came;   /* beginning with 0 */
  uint64_t thread; /* whose they are; 0: the main thread's */
  bool counts;     /* what it comes to in its loops comes once (python_thread.h) */
};

/* Of which thread they are. A system call. */
void python_outermost_of(struct python_outermost *outermost, uint64_t thread);

/* Adds the frame around those that came before. Runners are left out. */
void python_outermost_add(struct python_outermost *outermost, const struct python_frame *frame,
                          uint64_t hash);

/* Their nodes, outermost first, and the rounds of the loops among them (python_rounds.h). Writes at
 * most room, and returns how many. rounds: may be NULL. 0: a code object cannot be read, or has
 * been exchanged since its hash was made. What was found is kept, by hash, of at most 16,384
 * frames. Any thread; reads with python_memory.h only. */
uint32_t python_outermost_nodes(const struct python_layout *layout,
                                const struct python_outermost *outermost, struct place_node *nodes,
                                uint32_t room, struct place_round *rounds);

/* The outermost loops among their nodes that have iterators, up to the first that has none; returns
 * how many. 0: there is none, or it may be another one. */
uint32_t python_outermost_loops(const struct python_layout *layout,
                                const struct python_outermost *outermost,
                                struct python_loop loops[PLACE_LEVELS]);

/* The frames of the thread that waits for the calling one (python_waiting.c); false: there is none.
 */
bool python_waiting_outermost(const struct python_layout *layout,
                              struct python_outermost *outermost);

/* The innermost frame of the calling thread; 0: there is none, or nothing may be read
 * (python_check.h). In python_frames.c. */
uint64_t python_own_frames(const struct python_layout *layout);

/* The functions below are for the fast path too: each is compiled for `at` and `minor` that are
 * known then. Addresses are believed: python_check.h has looked at them. */
#define PYTHON_INLINE static inline __attribute__((always_inline))

PYTHON_INLINE uint64_t python_word(const uint8_t *bytes) {
  uint64_t word;
  memcpy(&word, bytes, sizeof(word));
  return word;
}

PYTHON_INLINE uint32_t python_number(const uint8_t *bytes) {
  uint32_t number;
  memcpy(&number, bytes, sizeof(number));
  return number;
}

PYTHON_INLINE uint64_t python_load(uint64_t address) {
  return python_word((const uint8_t *)address);
}

/* The address of the innermost frame of the thread whose state is at `state`; 0: it has none. With
 * plain loads: for the calling thread and its own state. */
PYTHON_INLINE uint64_t python_innermost(const struct python_offsets *at, uint64_t state) {
  uint64_t frame = python_load(state + at->state_frame);
  if (at->cframe_frame < 0 || frame == 0)
    return frame;
  return python_load(frame + (uint64_t)at->cframe_frame);
}

/* What a frame at `bytes` says, wherever these have been copied to. False: it is no frame of Python
 * code but one that the interpreter puts between them. */
PYTHON_INLINE bool python_frame_of(const struct python_offsets *at, unsigned minor,
                                   const uint8_t *bytes, struct python_frame *frame) {
  if (at->frame_owner != 0 && bytes[at->frame_owner] >= at->frame_owner_not)
    return false;
  frame->code = python_word(bytes + at->frame_code) & ~(uint64_t)3; /* 3.14: tags */
  const uint8_t *where = bytes + at->frame_instruction;
  if (minor >= 11)
    frame->where = (int64_t)(python_word(where) - (frame->code + at->code_code));
  else
    frame->where = (int64_t)(int32_t)python_number(where) * (minor == 10 ? 2 : 1);
  return true;
}

/* Goes one frame of Python code out from *address, with plain loads. False at the end of the chain,
 * with *address 0, or where there is no frame, with *address not 0. */
PYTHON_INLINE bool python_next_frame(const struct python_offsets *at, unsigned minor,
                                     uint64_t code_type, uint64_t *address,
                                     struct python_frame *frame) {
  for (uint64_t here = *address; here != 0; here = *address) {
    if (here % 8 != 0)
      return false;
    bool is_code = python_frame_of(at, minor, (const uint8_t *)here, frame);
    if (is_code && (frame->code % 8 != 0 || frame->code == 0 ||
                    python_load(frame->code + PYTHON_TYPE) != code_type))
      return false;
    frame->address = here;
    *address = python_load(here + at->frame_previous);
    if (is_code)
      return true;
  }
  return false;
}

#endif
