/* The control-flow graph of a code object of CPython, for flow.h.
 *
 *   - An await or yield from is one instruction: the way round it (SEND, YIELD_VALUE,
 *     JUMP_BACKWARD) is no loop of the program.
 *   - A `with` is taken not to swallow exceptions, unless there is code that only runs if that one
 *     does. Otherwise whatever stands before a return in a `with` in a loop could come round again.
 *   - Exceptions go from everything that may raise to what handles it: by the exception table
 *     (Objects/exception_handling_notes.txt) in 3.11 and later, by the stack of blocks before.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_GRAPH_H
#define NCCL_JOIN_INTERPOSE_PYTHON_GRAPH_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/python/python_code.h"
#include "interpose/places/python/python_layout.h"

struct python_graph {
  struct flow_graph flow; /* positions are code units; every instruction is a site */
  uint32_t *units;        /* by instruction: the code unit of its opcode, ascending */
  uint32_t *same;         /* by instruction: the one that it is a copy of, or itself */
  uint32_t *firsts;       /* by block: its first instruction, ascending */
  uint32_t ninstructions;
  struct python_for {
    uint32_t unit, end; /* of its FOR_ITER, and where that goes at the loop's end */
  } * fors;             /* ascending */
  uint32_t nfors;
};

/* The graph of a function; false: it holds something that is not understood, or no memory. What was
 * made is for python_graph_free either way. */
bool python_graph_make(const struct python_layout *layout, const struct python_code *code,
                       struct python_graph *graph);
void python_graph_free(struct python_graph *graph);

struct python_instructions;

/* python_decide.c, for python_graph.c: lets edges behind which control always leaves a loop lead
 * out of it at once (flow_decide), and finds what blocks do to variables. Without memory the graph
 * stays as it is. block_of: the block of each instruction. */
void python_decide(const struct python_layout *layout, const struct python_code *code,
                   const struct python_instructions *instructions, const uint32_t *block_of,
                   struct python_graph *graph);

#endif
