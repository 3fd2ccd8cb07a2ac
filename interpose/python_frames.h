/* Where the calling thread stands in a Python program: the chain of its Python frames.
 *
 * No function here needs the GIL, and none calls into Python.
 */
#ifndef NCCL_JOIN_INTERPOSE_PYTHON_FRAMES_H
#define NCCL_JOIN_INTERPOSE_PYTHON_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/place.h"

/* Whether an interpreter runs in this process. Cheap. */
bool python_is_present(void);

/* Hash of the chain of Python frames of the calling thread, equal on all ranks; 0 if the thread has
 * none, or they cannot be read. */
uint32_t python_id(void);

/* The nodes of that chain, from the outermost frame inward. Returns how many there are. */
uint32_t python_nodes(struct place_node *nodes, uint32_t room);

/* The innermost frame for messages, "train.py:41 in the loop of train.py:38"; always terminated.
 * Returns its length, 0 if the thread has no Python frames. */
uint32_t python_text(char *text, size_t size);

/* The same for the thread that waits for the calling one, an engine thread without Python frames of
 * its own; 0 if that cannot be read safely. */
uint32_t python_waiting_id(void);
uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room);

#endif
