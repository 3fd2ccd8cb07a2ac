/* What the machine code of a function says of an address in it: the loops around it, and the call
 * that is made there.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_CODE_H
#define NCCL_JOIN_INTERPOSE_NATIVE_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "core/place.h"

/* Writes the loops of a function that `pc` stands in, outermost first, and the call made there.
 * `pc` lies in the call instruction (the return address less one), `function_id` is equal on all
 * ranks for the same function. Returns how many nodes have been written; 0: the code cannot be
 * read. Reads the function's code at the first call for it, and remembers what it has found. Any
 * thread. */
uint32_t native_code_nodes(const void *function_start, size_t function_size, const void *pc,
                           uint32_t function_id, struct place_node *nodes, uint32_t room);

#endif
