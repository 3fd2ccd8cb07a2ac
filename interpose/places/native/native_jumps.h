/* Loops that are left by longjmp: where a function goes on when something that it calls comes back
 * to its setjmp. For native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_JUMPS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_JUMPS_H

#include "interpose/places/flow/flow.h"
#include "interpose/places/native/native_parts.h"

#define NATIVE_JUMPS_MAX 16u /* calls of setjmp in a function */

/* A call of setjmp, and the branch on its result that follows. All are positions. */
struct native_return {
  size_t branch;
  size_t first;  /* where control goes on when setjmp has returned 0 */
  size_t jumped; /* where it goes on after a longjmp */
};

struct native_jumps {
  struct native_return returns[NATIVE_JUMPS_MAX];
  uint32_t count;
};

/* False: there are too many calls of setjmp, or one whose result is not compared with 0 at once, so
 * that it is not known where control goes on. None is found in other processors' code than
 * x86-64's.
 */
bool native_jumps_find(struct native_jumps *jumps, const struct native_code *code);

/* Whether a call of the object's function may end in longjmp: it is one, or a function of the same
 * object that calls one, itself or through others of the object. */
bool native_may_jump(const struct native_object *object, const uint8_t *function,
                     native_decode *decode);

/* Sets in `within` (one for each block) which blocks are only reached by the edge from one block to
 * another. By the edge after setjmp has returned 0, these are the blocks that may jump back to it.
 * False: no memory. */
bool native_jumps_within(const struct flow_graph *graph, uint32_t from, uint32_t to, bool *within);

/* ---- native_names.c: functions that an object calls in others, by its procedure linkage table.
 * Also for native_endings.c. ---- */

/* Whether what stands there is a stub of the procedure linkage table. *name: of the function that
 * it leads to; NULL if that is not known. */
bool native_is_stub(const struct native_object *object, const uint8_t *function,
                    native_decode *decode, const char **name);

/* Whether it is a stub for a function of one of these names; NULL ends them. */
bool native_is_named(const struct native_object *object, const uint8_t *function,
                     native_decode *decode, const char *const *names);

#endif
