/* Whether what is read of Python's frames is what Python has, before it is believed: once for a
 * process.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_CHECK_H
#define NCCL_JOIN_INTERPOSE_PYTHON_CHECK_H

#include "interpose/places/python/python_layout.h"

#include <stdbool.h>
#include <stdint.h>

/* Whether the chain of the calling thread, whose state is at `state` and which has frames, may be
 * read with plain loads. To be called until python_chain_is_compared. Any thread.
 *
 * The first time the innermost 64 frames are read with reads that cannot fault: the state must be
 * this thread's, its interpreter must know it, and each frame must have a code object and stand in
 * it. In the first call by a thread that holds the GIL, the innermost 8 frames are compared with
 * what CPython's functions say of them; no garbage is collected. Where anything differs, reading is
 * turned off for good (python_layout_refuse), and the answer is false. */
bool python_chain_check(const struct python_layout *layout, uint64_t state);

/* Whether all of this has been done. A load. */
bool python_chain_is_compared(void);

#endif
