/* What a call of x86-64's code is given in registers, as far as the code of its block tells. For
 * native_copies.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_PASSED_H
#define NCCL_JOIN_INTERPOSE_NATIVE_PASSED_H

#include "interpose/places/native/native_parts.h"
#include "interpose/places/native/native_values.h"

enum { NATIVE_ARGUMENTS = 6 };

enum native_content_kind {
  ANYTHING,
  UNTOUCHED, /* what a register that calls do not keep had where the block begins, or behind a call */
  VARIABLE, /* what a register that calls keep had where the block begins */
  NUMBER,
  ADDRESS,
  WORD, /* of memory, at an address */
  FRAME_ADDRESS,
  FRAME_WORD,
};

struct native_content {
  enum native_content_kind kind;
  uint64_t value; /* of VARIABLE the register; of the frame a register, and below it the distance */
};

/* What registers hold at one point of a block. */
struct native_passing {
  struct native_content registers[NATIVE_REGISTERS];
  struct native_content pushed; /* by the instruction before: gcc -Os has numbers so */
};

struct native_passed {
  uint64_t callee; /* an address, or of the word that has it; 0: not known */
  struct native_content arguments[NATIVE_ARGUMENTS];
  bool takes_some; /* a call of that callee in the function sets an argument: native_copies.c */
};

/* Where a block begins; behind an instruction that is no call; and at a call, behind which
 * registers hold what calls keep. */
void native_passing_begin(struct native_passing *passing);
void native_passing_step(struct native_passing *passing, const uint8_t *at, size_t length);
struct native_passed native_passing_call(struct native_passing *passing,
                                         const struct native_cursor *call);

/* Whether the call's block sets an argument. Those that it does not may have been set before. */
bool native_passes_some(const struct native_passed *passed);

/* Whether two calls go to one function, or both to one that is not known, and none of their
 * arguments is known to be another one. */
bool native_passes_alike(const struct native_passed *a, const struct native_passed *b);

/* The same, where it is known that they do: to one function, which takes no argument, or with one
 * that is known to be the same. */
bool native_passes_same(const struct native_passed *a, const struct native_passed *b);

/* Whether an argument is a number in one of the two calls, and in the other what a register that
 * calls keep had before: it may be that number, or not. */
bool native_passes_otherwise(const struct native_passed *a, const struct native_passed *b);

#endif
