/* The counters of a function's loops, the outermost ones and those in them, in x86-64's code. A
 * counter is a register that calls keep, a word of the frame, or a word of the object (a static
 * variable). Each round adds the same number to it, and a condition that ends the loop compares it
 * with a limit that stays as it is. Or each round sets it to a number with which that condition
 * ends the loop.
 *
 * A place does not say how often its rank has gone round a loop (core/place/place_rounds.h); this
 * does.
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_COUNTERS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_COUNTERS_H

#include "core/place/place_rounds.h"
#include "interpose/places/flow/flow_rounds.h"
#include "interpose/places/native/native_contents.h"
#include "interpose/places/native/native_graph.h"

/* In which round the loop is, by what the counter and its limit are. Nothing, if that cannot be
 * told. Pure.
 *
 * A counter that goes up from 0 or more says its number, and its limit how many rounds there are:
 * so do those of two ranks that begin with other numbers, and go on in steps of as many. Of any
 * other, as an address, or what counts down, what is left of PLACE_EPOCHS_MAX rounds is known, if
 * it is less.
 *
 * Of a loop of two rounds a compiler makes what the first one sets, and a test of that. */
struct place_round native_counter_says(const struct native_counter *counter, uint64_t value,
                                       uint64_t limit);

/* ---- for native_tests.c, which goes through the code ---- */

struct native_counting; /* native_words.h */

/* Finds the graph's counters, and where its values count numbers. */
void native_counters_find(struct native_graph *graph, struct flow_rounds *rounds,
                          const struct native_counting *counting,
                          const struct native_testing *testing);

#endif
