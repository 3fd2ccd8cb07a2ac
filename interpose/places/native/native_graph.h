/* One function's machine code as a control-flow graph. Pure, but for the tables that are read. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_GRAPH_H
#define NCCL_JOIN_INTERPOSE_NATIVE_GRAPH_H

#include "interpose/places/native/native_parts.h"
#include "interpose/places/flow/flow.h"
#include "interpose/places/native/native_decode.h"
#include "interpose/places/native/native_object.h"

#define NATIVE_FUNCTION_MAX (1u << 20) /* bytes, moved parts included */

/* A register that calls keep, or a word of the function's frame: at so many bytes from where the
 * register leads, or for rsp from the frame's CFA. Or a word of the object, whose address that is.
 */
struct native_variable {
  bool is_slot;
  uint8_t reg; /* the processor's number; NATIVE_STATIC: of the object */
  int64_t at;
};
#define NATIVE_STATIC 16u

/* What a counter is compared with. */
enum native_limit {
  NATIVE_LIMIT_NUMBER,   /* number */
  NATIVE_LIMIT_VARIABLE, /* limit_in, plus number */
  NATIVE_LIMIT_MEMORY,   /* the word at number, or, with has_base, at limit_in plus number */
};

/* What a loop around a call counts, and where that lies while the call is made (native_counters.h).
 */
struct native_counter {
  uint32_t position; /* the last byte of the call */
  uint32_t depth;    /* how many loops of the function are around that loop */
  struct native_variable variable, limit_in;
  int64_t plus;  /* so much more than the counter was where the round began is in the variable */
  bool is_first; /* the call is in the first round, whatever is there */
  enum native_limit limit;
  bool has_base;
  int64_t number;
  int64_t
      step; /* what each round adds; 0: the loop has two rounds, and has been set to the limit in the second */
  uint32_t bits, limit_bits; /* of the counter and of its limit: 8 to 64 */
};

struct native_graph {
  struct native_part parts[NATIVE_PARTS_MAX]; /* of the function, itself first */
  size_t begins[NATIVE_PARTS_MAX];            /* their positions */
  uint32_t nparts;
  struct flow_block *blocks; /* by position; block 0 is where the function begins */
  struct flow_edge *edges;
  struct flow_values *values; /* by block; NULL: not known */
  /* Calls that are copies of another one, made by the compiler: the last bytes of both. Not of
   * calls in parts that have been moved away. */
  struct native_copy {
    uint32_t position, of;
  } * copies;
  /* Calls that may be copies of each other, and whether that is in two branches with all of them.
   */
  struct native_twin {
    uint32_t position; /* its last byte */
    bool is_branch;
  } * twins;
  struct native_counter *counters; /* of the outermost loops around calls, and those in them */
  uint32_t nblocks;
  uint32_t nedges;
  uint32_t ncopies;
  uint32_t ntwins;
  uint32_t ncounters;
};

/* The graph of a function, which is as .eh_frame of the object has it. Beside it, jump tables and
 * parts of the function that the compiler has moved away are read, and nothing else of the object.
 *
 * False: there is an instruction that is not known, a jump into the middle of one, or a jump to
 * what a register says whose table is not found and which cannot be a tail call (parts of the
 * function would be reached by nothing else); or it calls setjmp in a way that is not known; or it
 * is a coroutine of C++; or the function is too large, or there is no memory.
 *
 * - Parts that the compiler has moved away (foo.cold) belong to the function; their positions are
 *   behind its own.
 * - A jump out of the function is a tail call, a site as others: the function returns. A branch out
 *   of it is an error's way, which is left aside.
 * - A call at the function's very end, before a landing pad, or of what is known not to return
 *   (native_endings.c) ends its way. Of others it is taken for granted that they return.
 * - A branch that leaves a loop whenever control comes there leaves it at once, whatever else is
 *   compared in between (native_decide.c). Of x86-64's code only.
 * - Landing pads are reached by edges of exceptions; so is what follows a second return of setjmp
 *   (native_jumps.h). */
bool native_graph_make(struct native_graph *graph, const struct native_object *object,
                       struct native_part function, native_decode *decode);
void native_graph_drop(struct native_graph *graph);

/* Lets edges by which control always leaves a loop lead there at once (flow_decide), as far as the
 * code's own numbers tell. block_at: by position. For native_graph.c. */
void native_decide(struct native_graph *graph, const struct native_code *code,
                   const uint32_t *block_at);

/* native_tests.c: values of the graph (flow.h), and its counters, of x86-64's code. For
 * native_graph.c. */
void native_find_tests(struct native_graph *graph, const struct native_code *code,
                       const uint32_t *block_at);

/* native_copies.c: finds the copies of calls in x86-64's code. Without memory there are none. What
 * a compiler knows on one way through a function it puts into a copy of the code there: a loop's
 * last round then stands behind the loop, and which copy a rank comes to may hang on what it does
 * in between. A call is taken for a copy of another one, the original, if
 *   - both call the same function, by its address or through the same word of memory;
 *   - none of the arguments in registers differs, as far as they are numbers, addresses, or words
 *     of the frame, and one is known to be the same;
 *   - it stands behind the innermost loop of the original, and in all others; or their blocks are
 *     one, and the original's stands in the loop around the copy's (native_twins.h): then that is
 *     enough;
 *   - control comes to it, but for what is called on its own way, from calls that lead to the
 *     original in the same round, and something is called there: what is left over behind a loop
 *     looks like a copy else;
 *   - control goes on from it as it may from the original: past branches that only the original
 *     has, as the way is known here, to the same block or to such calls, in the same round of the
 *     loops around both. That both return tells nothing, nor does a way out of the original's loop,
 *     unless the loop counts what decides: errors have such ways.
 * Of two branches of one condition neither is taken for a copy of the other: two calls of the
 * source would be one place, and where ranks stand at both nothing would be told.
 *
 * Then it finds twins (native_twins.c): calls that may be copies of each other, while the same code
 * is made of a source in which they are two. Both are as above in function and arguments, and
 *   - each stands in a loop in which the other does not, and one of these two loops makes all calls
 *     that the other makes: a compiler makes two of one (gcc's -fsplit-loops, -funswitch-loops);
 *   - or one stands in a loop, and the other behind that: control comes past both, or through the
 *     loop to it, as a condition decides from which nothing is called on the way into the loop
 *     (`b = next(); while (b) { nb = next(); step(b); b = nb; }`, whose last round is put there).
 * There are none in a function with too many calls, nor in one that has nothing in registers that
 * calls keep: it is not optimised.
 * For native_graph.c. */
void native_find_copies(struct native_graph *graph, const struct native_code *code,
                        const uint32_t *block_at);

/* native_endings.c: whether the function that code of the object calls there is known never to
 * return. It has neither a return nor a jump out of it, or it is a library's that is known by name
 * (abort and the like), called through the procedure linkage table. For native_graph.c. */
bool native_never_returns(const struct native_object *object, const uint8_t *function,
                          native_decode *decode);

/* Whether the function is what gcc or clang make of a coroutine of C++, which goes on where it has
 * left off. Its loops cannot be seen: each way round one leaves the function, and comes back by a
 * switch at its beginning. It begins by reading a small number in a frame behind two addresses,
 * writes that number elsewhere, and clears the first of the addresses where it is done (as the C++
 * ABI of all compilers has it: std::coroutine_handle::done). Always false for other processors'
 * code than x86-64's. For native_graph.c. */
bool native_resumes(const struct native_code *code);

#endif
