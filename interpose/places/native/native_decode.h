/* Instructions of machine code, as far as control flow needs them: how long, and where to. Pure:
 * any processor's code can be looked at on any other. Nothing outside of the bytes given is read.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_DECODE_H
#define NCCL_JOIN_INTERPOSE_NATIVE_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum native_kind {
  NATIVE_PLAIN,
  NATIVE_JUMP,          /* to target */
  NATIVE_BRANCH,        /* to target, or on */
  NATIVE_JUMP_REGISTER, /* to what a register says: a jump table or a tail call */
  NATIVE_JUMP_MEMORY,   /* to what memory says: likewise */
  NATIVE_CALL,          /* and on. has_target: not through a register or memory */
  NATIVE_RETURN,
  NATIVE_TRAP, /* control does not come here, or does not go on */
};

/* What else the search for jump tables wants to know. */
enum native_detail {
  NATIVE_ADDRESS = 1u << 0, /* target is an address that is taken, or jumped by */
  NATIVE_COMPARE = 1u << 1, /* of something with the number value, or AND with it */
  NATIVE_TABLE = 1u << 2,   /* value is the address of a table of addresses */
  NATIVE_INDEX_4 = 1u << 3, /* an operand has an index, of things of 4 bytes */
  NATIVE_INDEX_8 = 1u << 4, /* ... of 8 bytes */
  NATIVE_NOTHING = 1u << 5, /* only fills space */
};

struct native_instruction {
  uint8_t length;
  uint8_t kind;    /* enum native_kind */
  uint8_t details; /* enum native_detail */
  bool has_target;
  int64_t target; /* as distance from the instruction's first byte */
  uint64_t value;
};

/* False: not an instruction that is known, or it does not fit into size bytes. */
typedef bool native_decode(const uint8_t *code, size_t size,
                           struct native_instruction *instruction);
native_decode native_decode_x86_64;
native_decode native_decode_aarch64;

#endif
