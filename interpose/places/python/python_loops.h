/* The loops around an instruction of a code object, and its order in it, as nodes
 * (core/place/place.h).
 *
 * A function is analysed when it is first asked for, in microseconds to a few milliseconds; what
 * was found is kept until the process ends, of at most PYTHON_FUNCTIONS_MAX functions. Any thread;
 * no locks.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_LOOPS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_LOOPS_H

#include "core/place/place.h"
#include "interpose/places/python/python_code.h"

#define PYTHON_FUNCTIONS_MAX 4096u

/* The loops, outermost first, then the instruction itself, which python_code_instruction has
 * returned. Writes at most room of them, and returns how many there are, at least 1. What cannot be
 * analysed has no loops and no order.
 *
 * iterators: of each node, as python_rounds.h has it.
 *
 * thrown: the call made there is known to end in an exception. If that call is a loop's next
 * iteration, it does not stand in the loop. *throws: so does this function, from there on. */
uint32_t python_loops_nodes(const struct python_layout *layout, const struct python_code *code,
                            uint32_t instruction, bool thrown, struct place_node *nodes,
                            uint8_t *iterators, uint32_t room, bool *throws);

/* Of a generator that stands at the instruction, as it has yielded there: whether the first
 * iterator on its stack counts what it has given. It goes over that in its only loop, of which each
 * round yields once, or in a `yield from` (since 3.11), and yields nowhere before or behind. */
bool python_loops_gives(const struct python_layout *layout, const struct python_code *code,
                        uint32_t instruction);

/* The line at which the innermost loop around the instruction begins; 0: there is none, or it has
 * no line. */
uint32_t python_loops_line(const struct python_layout *layout, const struct python_code *code,
                           uint32_t instruction);

/* The instruction that this one is a copy of, or itself: the test of a `while` is compiled twice.
 */
uint32_t python_loops_original(const struct python_layout *layout, const struct python_code *code,
                               uint32_t instruction);

/* The id of the code's function; never 0. */
uint32_t python_loops_function(const struct python_code *code);

#endif
