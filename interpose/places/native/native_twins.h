/* Calls of x86-64's code that a compiler may have made several of, and that cannot be told from
 * such that are several in the source. For native_copies.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_TWINS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_TWINS_H

#include "interpose/places/flow/flow_rounds.h"
#include "interpose/places/native/native_graph.h"
#include "interpose/places/native/native_passed.h"

struct native_call {
  uint32_t position, next; /* next: where it returns to */
  uint32_t part;
  struct native_passed passed;
};

/* All calls of a function, by position; block_at: by position. */
struct native_calls {
  const struct native_call *all;
  uint32_t count;
  const uint32_t *block_at;
  bool keep; /* the function has values in registers that calls keep: it is optimised */
};

/* Blocks that control comes to from a block without a call on the way, itself first. Returns how
 * many; of more than LEADING_MAX the others are left out. */
enum { LEADING_MAX = 16 };
uint32_t native_straight_from(const struct native_graph *graph, const struct flow_rounds *rounds,
                              uint32_t block, uint32_t passed[LEADING_MAX]);

/* native_duplicates.c: whether a compiler has copied the block of the original call, so that a loop
 * in its loop goes round through the copy: both blocks have as many calls, lead on to the same
 * blocks, and one of these decides, with no call on the way, which of the two comes next. That the
 * calls are alike is the caller's to know. */
bool native_are_duplicates(const struct native_graph *graph, const struct native_calls *calls,
                           const struct flow_rounds *rounds, uint32_t copy, uint32_t original);

/* Sets graph->twins. One thread at a time for the same rounds. */
void native_find_twins(struct native_graph *graph, const struct native_calls *calls,
                       struct flow_rounds *rounds);

#endif
