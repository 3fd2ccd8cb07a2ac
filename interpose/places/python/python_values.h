/* What a function's bytecode does to its variables, as far as it is followed: which numbers they
 * hold, and so which branches are decided, and by which variables. For python_decide.c.
 *
 * A local variable that no other function can see (a "fast local") holds what was stored in it
 * last. Names and attributes may be changed elsewhere: of them it is known only that something of
 * the name is tested, and that the code sets it.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_VALUES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_VALUES_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_instructions.h"

/* Of the bits of struct flow_values the lower ones are local variables, the others names. Of a
 * variable or name with a higher number nothing is known. */
enum { PYTHON_LOCALS = 40, PYTHON_NAMED = 24, PYTHON_STACK = 24 };

/* What an iterator has given: another thing in each round. */
#define PYTHON_ITERATED UINT32_MAX

struct python_value {
  struct python_constant is;
  uint64_t by;  /* what variables held before the block that it is made of, as bits */
  bool by_more; /* ... and of something else */
  uint32_t
      step; /* it is what that variable held, or that plus a number that is not 0: the number of
                    its bit plus 1; PYTHON_ITERATED; 0: neither */
};

/* At one point of a block: made by python_values_begin. */
struct python_values {
  struct python_value locals[PYTHON_LOCALS];
  struct python_value stack[PYTHON_STACK]; /* the uppermost last */
  uint32_t depth;
  struct flow_values flow; /* of the block so far */
};

/* What is known of local variables alone, for flow_decide. All of it zero: nothing. */
struct python_known {
  struct python_constant locals[PYTHON_LOCALS];
};

/* Before a block, with what is known there (NULL: nothing). */
void python_values_begin(struct python_values *values, const struct python_known *known);

/* What an iterator gives to the block. */
void python_values_iterate(struct python_values *values);

/* What an instruction makes of it. Returns whether it jumps if it is a conditional jump of which
 * that is known: 1 or 0; -1: not known. */
int python_values_step(struct python_values *values, unsigned minor, const struct python_code *code,
                       const struct python_instruction *instruction);

#endif
