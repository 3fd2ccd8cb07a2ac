/* Whether a function ever comes back to its caller. For native_graph.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_ENDINGS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_ENDINGS_H

#include "interpose/places/native/native_decode.h"
#include "interpose/places/native/native_object.h"

/* Whether the function that code of the object calls there is known never to return: it has neither
 * a return nor a jump out of it, or it is a library's that is known by name (abort and the like),
 * called through the procedure linkage table. */
bool native_never_returns(const struct native_object *object, const uint8_t *function,
                          native_decode *decode);

#endif
