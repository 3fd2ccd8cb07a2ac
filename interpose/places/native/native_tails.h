/* Frames that are not on the stack, because their function has ended in a tail call. For places.c. */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_TAILS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_TAILS_H

#include "interpose/places/native/native_frames.h"

#define NATIVE_TAILS_MAX 3u

/* `caller` calls a function that is not the one of `callee`, the frame below: that one was jumped
 * to. Where there is only one way to come there, by jumps of functions of the same object, these
 * are the frames left out, the outermost first: as if the jump were a call. Returns how many; 0:
 * none is left out, or it cannot be told. */
size_t native_tails_find(const struct native_frame *caller, const struct native_frame *callee,
                         struct native_frame tails[NATIVE_TAILS_MAX]);

#endif
