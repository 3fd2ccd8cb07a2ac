/* The nodes of a place that a call in native code gives: loops around it and its order in its
 * function, found from the function's machine code. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_CODE_H
#define NCCL_JOIN_INTERPOSE_NATIVE_CODE_H

#include "core/place/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "interpose/places/native/native_graph.h"
#include "interpose/places/native/native_object.h"

/* The function that a part is of which the compiler has moved away (foo.cold), where the address is
 * in such a part: gcc writes their entries in .eh_frame one behind the other, and the function
 * jumps into the part. False: it is in none, or that cannot be told. Reads the object's whole table
 * of entries, and the function. */
bool native_code_owner(const void *address, struct native_part *owner);

/* The nodes (flow_nodes, flow.h) of the call, or tail call, at pc, which is its return address less
 * one, in the function or in a part of it that has been moved away. The function fills
 * function_size bytes from function_start on, as .eh_frame says.
 * function_id is of the object and the function in it, equal on all ranks; so ids and orders are
 * equal, too, wherever the object is loaded. Writes at most `room` nodes, the outermost first, and
 * returns how many.
 *
 * 0: the code cannot be followed (native_graph.h says when); there is no call at pc; control comes
 * to it only by an exception; or function_start is that of a part which the compiler has moved away
 * (foo.cold), whose order would be one of its own.
 *
 * A function's first call takes 0.3 ms for 1 KB of code, 1.6 ms for 4 KB and 16 ms for 32 KB
 * (medians of 6,500 functions of LLVM 14; the slowest one took 66 ms; 2026-11-30); later ones take
 * less than a microsecond. Any thread; not in signal handlers. At most 8 MiB are kept, and one
 * function. */
uint32_t native_code_nodes(const void *function_start, size_t function_size, const void *pc,
                           uint32_t function_id, struct place_node *nodes, uint32_t room);

/* As native_code_nodes, of the same call, for which that has been asked: where the counter of a
 * loop around it lies, and its limit (native_counters.h). depth: how many loops of the function are
 * around the loop. False: there is none, or what it counts is not known. */
bool native_code_counted(const void *function_start, const void *pc, uint32_t depth,
                         struct native_counter *counter);

#endif
