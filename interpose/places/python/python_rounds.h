/* In which rounds of its loops a frame of Python stands, as its iterators say.
 *
 * A `for` keeps its iterator on the stack of its frame until the loop ends. Those of range, list,
 * tuple, dict and enumerate count what they have given, those of reversed what is left, and those
 * of zip, if all that it takes from do; so does a generator that goes over one of them, and gives
 * something in each round (python_loops_gives), as tqdm's does. Of others nothing is known.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_ROUNDS_H
#define NCCL_JOIN_INTERPOSE_PYTHON_ROUNDS_H

#include "core/place/place_rounds.h"
#include "interpose/places/python/python_chain.h"
#include "interpose/places/python/python_layout.h"

#include <stdint.h>

/* Of each node of a frame (python_loops_nodes) which of the frame's iterators, from 1 on and the
 * outermost first, is that of the loop; 0: it is no `for`, or that is not known. Writes what
 * each says. Of a frame that stands still; a wrong address does no harm. A few system calls, if
 * there is any iterator. */
void python_rounds(const struct python_layout *layout, const struct python_frame *frame,
                   const uint8_t *iterators, uint32_t n, struct place_round *rounds);

/* Of one loop of a frame that has the code that it had. Finds the iterator on the stack, as above,
 * and remembers where. is_own: the frame is among the calling thread's; as long as the same
 * iterator lies there no system call is made then. */
struct place_round python_rounds_again(const struct python_layout *layout,
                                       const struct python_frame *frame, struct python_loop *loop,
                                       bool is_own);

#endif
