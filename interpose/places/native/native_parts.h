/* The code of one function, which may lie in several parts, read from end to end. For
 * native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_PARTS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_PARTS_H

#include "interpose/places/native/native_decode.h"
#include "interpose/places/native/native_object.h"

enum native_mark {
  NATIVE_STARTS = 1u << 0, /* an instruction begins here */
  NATIVE_LEADS = 1u << 1,  /* a block does, if an instruction does */
  NATIVE_PAD = 1u << 2,    /* an exception comes here */
};

/* A function's code while its graph is made: its parts, one behind the other. */
struct native_code {
  const struct native_object *object;
  native_decode *decode;
  struct native_part parts[NATIVE_PARTS_MAX];
  size_t begins[NATIVE_PARTS_MAX + 1]; /* position of a part; of their end */
  uint32_t nparts;
  uint8_t *marks; /* enum native_mark, for each position */
};

/* Where something stands while the code is read from end to end. */
struct native_cursor {
  uint32_t part;
  size_t position;
  const uint8_t *at;
  struct native_instruction is;
};

#define NATIVE_OUTSIDE SIZE_MAX

/* The position of an address, or NATIVE_OUTSIDE. */
size_t native_position(const struct native_code *code, uintptr_t address);

/* The first instruction, and the next. False: there is none, or (failed) it is not known. */
bool native_first(const struct native_code *code, struct native_cursor *cursor, bool *failed);
bool native_next(const struct native_code *code, struct native_cursor *cursor, bool *failed);

/* The instruction that this one jumps to. False: it is not in the code, or not known (failed). */
bool native_jump(const struct native_code *code, struct native_cursor *cursor, bool *failed);

/* Where the instruction jumps or calls, or NATIVE_OUTSIDE. */
size_t native_target(const struct native_code *code, const struct native_cursor *cursor);

/* Whether it is the last one of its part. */
bool native_is_last(const struct native_code *code, const struct native_cursor *cursor);

/* The function and the parts of it that the compiler has moved away: what is jumped to and begins
 * with a frame, or jumps back. False: too large. */
bool native_find_parts(struct native_code *code, struct native_part function);

#endif
