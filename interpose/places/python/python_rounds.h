/* What the compiler makes two loops of, made one again.
 *
 *   - From 3.10 to 3.13 the test of a `while` stands before the loop and once more at its end, but
 *     `continue` goes to the first one, around the loop. Here it goes to the other.
 *   - A `while True` may begin with a NOP that only `continue` goes back to.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_ROUNDS_H

#include "interpose/places/python/python_instructions.h"

#include <stdbool.h>

/* Changes targets of instructions whose jumps and handlers are known. False: no memory. */
bool python_rounds_unite(unsigned minor, const struct python_code *code,
                         struct python_instructions *instructions);

#endif
