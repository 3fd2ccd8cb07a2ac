/* What an instruction of x86-64 works on. For native_values.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_OPERANDS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_OPERANDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RAX, RCX, RDX, RBX, RSP, RBP };

/* Its memory operand is [base + at] (is_slot), or anything else. */
struct native_operands {
  const uint8_t *code;
  size_t length;
  uint32_t bits; /* of its operands, if these are no bytes */
  uint8_t rex;   /* 0: none */
  bool two;      /* opcode 0F xx */
  uint8_t opcode;
  uint8_t mode, reg, rm; /* of ModRM; the two registers with the bits of REX */
  bool is_slot;          /* memory: [rsp + at] or [rbp + at] */
  bool has_index;        /* memory: another register is added */
  bool is_far;           /* memory: relative to the code, or an address */
  bool is_relative;      /* is_far: `at` bytes behind the instruction's end */
  uint32_t base;
  int32_t at;
  bool other_segment;
  bool repeats; /* F2 or F3 */
  bool wide16;  /* 66 */
};

/* Of an instruction whose length is known. False: it has prefixes of which nothing is known. What
 * is said of ModRM is right for opcodes that native_values.c knows. */
bool native_operands_read(struct native_operands *is, const uint8_t *code, size_t length);

/* The same of an instruction with a VEX or EVEX prefix: its opcode, and ModRM, whatever the opcode
 * is. */
struct native_vector {
  uint8_t map;      /* of opcodes: 1 for 0F, 2 for 0F 38, 3 for 0F 3A, and others */
  uint8_t prefix;   /* 0: none; 1: 66; 2: F3; 3: F2 */
  bool is_extended; /* EVEX: a displacement of one byte counts in units of something */
  uint8_t other;    /* a third register (vvvv) */
  uint32_t bits;    /* of its vectors */
};
bool native_operands_read_vector(struct native_operands *is, struct native_vector *vector,
                                 const uint8_t *code, size_t length);

/* Whether an opcode that native_values.c knows has a ModRM byte. */
bool native_operands_has_modrm(const struct native_operands *is);

/* Whether an opcode 0F xx only moves between vector registers and to them, or is arithmetic there;
 * or writes one to memory, or to another. */
bool native_operands_is_vector(uint8_t opcode);
bool native_operands_stores_vector(uint8_t opcode);

#endif
