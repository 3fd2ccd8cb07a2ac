/* The chain of frames of a thread: what python_frames.c and python_waiting.c make ids and nodes of.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_CHAIN_H
#define NCCL_JOIN_INTERPOSE_PYTHON_CHAIN_H

#include "core/place.h"
#include "interpose/python_layout.h"

#include <stdbool.h>
#include <stdint.h>

/* A frame of Python code. */
struct python_frame {
  uint64_t code; /* the address of its code object */
  int64_t where; /* bytes from the beginning of the code to what the frame points at */
};

/* What a frame counts as in ids: a hash of its code's key and of its instruction, or one of these.
 */
enum python_frame_hash {
  PYTHON_FRAME_UNKNOWN = 0, /* it cannot be read: neither can the chain */
  PYTHON_FRAME_RUNNER = 1,  /* it does not count */
};

/* The hash of a frame of the calling thread, or of one that cannot end meanwhile: remembered, and
 * noticed to be another one if its code object has gone and there is another in its place. */
uint64_t python_frame_hash(const struct python_layout *layout, const struct python_frame *frame);

/* The same for any frame, not remembered: its code is read with python_memory.h. */
uint64_t python_frame_hash_unsafe(const struct python_layout *layout,
                                  const struct python_frame *frame);

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

/* Nodes of frames, outermost first; runners among them are passed over. */
uint32_t python_chain_nodes(const struct python_layout *layout, const struct python_frame *frames,
                            uint32_t nframes, struct place_node *nodes, uint32_t room);

/* The address of the innermost frame of a thread whose state is at `state`; 0. Each reads with
 * plain loads: for the calling thread, in its own state. */
static inline uint64_t python_load(uint64_t address) {
  return *(const uint64_t *)address; // NOLINT(performance-no-int-to-ptr)
}

static inline uint64_t python_innermost(const struct python_layout *layout, uint64_t state) {
  uint64_t frame = python_load(state + layout->at.state_frame);
  if (layout->at.cframe_frame < 0 || frame == 0)
    return frame;
  return python_load(frame + (uint64_t)layout->at.cframe_frame);
}

/* Reads what a frame at `bytes` says, wherever these have been copied to. False: it is no frame of
 * Python code but one that the interpreter puts between them. */
static inline bool python_frame_of(const struct python_layout *layout, const uint8_t *bytes,
                                   struct python_frame *frame) {
  const struct python_offsets *at = &layout->at;
  if (at->frame_owner != 0 && bytes[at->frame_owner] >= at->frame_owner_not)
    return false;
  frame->code = *(const uint64_t *)(bytes + at->frame_code) & ~(uint64_t)3; /* 3.14: tags */
  if (layout->minor >= 11)
    frame->where = (int64_t)(*(const uint64_t *)(bytes + at->frame_instruction) -
                             (frame->code + at->code_code));
  else
    frame->where = (int64_t) * (const int32_t *)(bytes + at->frame_instruction) *
                   (layout->minor == 10 ? 2 : 1);
  return true;
}

#endif
