/* Comparisons of what is read of Python's frames with what Python says, before it is believed. */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_CHECK_H
#define NCCL_JOIN_INTERPOSE_PYTHON_CHECK_H

#include "interpose/places/python/python_layout.h"

#include <stdbool.h>

/* Reads the chain of the calling thread, whose state is given and which has frames, with reads that
 * cannot fault: the state must be this thread's, its interpreter must know it, and every frame must
 * have a code object and stand in it. True: it may be read with plain loads from now on. False:
 * reading has been turned off. */
bool python_check_chain(const struct python_layout *layout, uint64_t state);

/* If the calling thread holds the GIL: compares its innermost frames with what CPython's functions
 * say, and turns reading off if they differ. Returns whether they have been compared. Collects no
 * garbage. */
bool python_check_with_python(const struct python_layout *layout, uint64_t state);

#endif
