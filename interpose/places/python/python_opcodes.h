/* What each opcode of CPython is for the flow of control, and what it does to values, by minor
 * version. The numbers are those of the standard library's module `opcode`;
 * tests/python/opcodes.py says by names what each is. A specialised or instrumented opcode is what
 * the general one is.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_OPCODES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_OPCODES_H

#include <stddef.h>
#include <stdint.h>

#define PYTHON_MINOR_FIRST 9u
#define PYTHON_MINOR_LAST 14u

/* The values are the letters of python_opcodes.inc. Jumps count in code units (3.9: bytes), from
 * the next instruction or, absolute, from the beginning. */
enum python_opcode {
  OPCODE_UNKNOWN = '.',  /* not of this version, or generated code stands in its place */
  OPCODE_QUIET = 'q',    /* goes on, calls nothing, does not raise */
  OPCODE_NOP = 'n',      /* does nothing */
  OPCODE_OTHER = 'o',    /* goes on, may call what an operator, a property, ... calls, may raise */
  OPCODE_CALL = 'c',     /* calls */
  OPCODE_PRECALL = 'p',  /* 3.11: may do the work of the CALL behind it */
  OPCODE_EXTENDED = 'e', /* higher bits of the next instruction's argument */
  OPCODE_BRANCH = 'f',   /* jumps ahead or goes on */
  OPCODE_BRANCH_BACK = 'b', /* 3.11 */
  OPCODE_BRANCH_TO = 'a',   /* absolute; 3.9, 3.10 */
  OPCODE_FOR_ITER = 'F',    /* like BRANCH; calls */
  OPCODE_SEND = 's',        /* like BRANCH; calls. await, yield from */
  OPCODE_JUMP = 'J',        /* ahead */
  OPCODE_JUMP_BACK = 'B',
  OPCODE_JUMP_TO = 'A', /* absolute; 3.9, 3.10 */
  OPCODE_RETURN = 'r',
  OPCODE_YIELD = 'Y', /* goes on when the generator is asked for more; may raise then */
  OPCODE_RAISE = 'x',
  OPCODE_SETUP = 'h',         /* 3.9, 3.10: from here exceptions go to what lies ahead */
  OPCODE_SETUP_WITH = 'H',    /* the same, after a call */
  OPCODE_POP_BLOCK = 'k',     /* ends the innermost of these */
  OPCODE_POP_EXCEPT = 'v',    /* the exception is handled */
  OPCODE_END_ASYNC_FOR = 'y', /* the same in 3.9 and 3.10, or raises it again */
  OPCODE_WITH_EXCEPT = 'w',   /* calls __exit__ with an exception */
  OPCODE_LINE = 'l',          /* 3.12: what stood here is in the monitoring data */
  OPCODE_INSTRUCTION = 'i',   /* the same, for events of single instructions */
};

/* What it does to the uppermost values of the stack, and to variables. n: its argument. */
enum python_effect {
  EFFECT_ANY = '*', /* anything to the stack, nothing to variables */
  EFFECT_NONE = '=',
  EFFECT_LOAD = 'L',     /* pushes variable n */
  EFFECT_LOAD_TWO = 'M', /* n / 16, then n % 16 */
  EFFECT_STORE = 'S',
  EFFECT_STORE_TWO = 'T',
  EFFECT_STORE_LOAD = 'U', /* stores n / 16, then pushes n % 16 */
  EFFECT_DELETE = 'D',
  EFFECT_CLEAR = 'l', /* pushes variable n and deletes it */
  EFFECT_CONSTANT = 'C',
  EFFECT_NUMBER = 'I', /* pushes n */
  EFFECT_BINARY = 'B', /* 3.11 and later: the operator is n */
  EFFECT_ADD = '+',
  EFFECT_SUBTRACT = '-',
  EFFECT_OF_TWO = 'b', /* of the two uppermost makes one */
  EFFECT_COMPARE = 'Q',
  EFFECT_IS = 'i', /* n: is not */
  EFFECT_NOT = 'N',
  EFFECT_TRUTH = 't',
  EFFECT_OF_ONE = 'u',
  EFFECT_UNPACK = 'v',         /* of one makes n */
  EFFECT_LOAD_ATTRIBUTE = 'a', /* from 3.12 on n / 2, and one value more if n is odd */
  EFFECT_STORE_ATTRIBUTE = 'A',
  EFFECT_METHOD = 'm',
  EFFECT_LOAD_GLOBAL = 'g', /* from 3.11 on likewise */
  EFFECT_LOAD_NAME = 'n',
  EFFECT_STORE_NAME = 's',
  EFFECT_PUSH = 'p',
  EFFECT_POP = 'x',
  EFFECT_AGAIN = 'd', /* pushes the uppermost once more */
  EFFECT_COPY = 'y',  /* pushes the n-th from above */
  EFFECT_SWAP = 'w',  /* exchanges it and the uppermost */
  EFFECT_ROTATE_TWO = 'r',
  EFFECT_ROTATE_THREE = 'R',  /* the uppermost goes below two others */
  EFFECT_CALL_FUNCTION = 'f', /* takes n and one more */
  EFFECT_CALL = 'c',          /* takes n and two more */
  EFFECT_IF_TRUE = 'J',       /* pops, and jumps */
  EFFECT_IF_FALSE = 'K',
  EFFECT_IF_NONE = 'V',
  EFFECT_IF_NOT_NONE = 'W',
};

/* The row of a minor version (PYTHON_MINOR_FIRST to PYTHON_MINOR_LAST): for each opcode three
 * characters, its enum python_opcode, in hexadecimal how many code units behind it are caches, and
 * its enum python_effect. */
extern const char *const python_opcode_rows[];

static inline enum python_opcode python_opcode_of(const char *row, uint8_t opcode) {
  return (enum python_opcode)row[(size_t)3 * opcode];
}

static inline uint32_t python_opcode_caches(const char *row, uint8_t opcode) {
  char digit = row[(size_t)3 * opcode + 1];
  return (uint32_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

static inline enum python_effect python_opcode_effect(const char *row, uint8_t opcode) {
  return (enum python_effect)row[(size_t)3 * opcode + 2];
}

#endif
