/* The tensors of programs/operations, and what is printed of what they have received.
 *
 * Results: "<operation> <iteration> <tensor> [<from>]" with what has been received.
 */
#ifndef TESTS_PROGRAMS_TENSORS_H
#define TESTS_PROGRAMS_TENSORS_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/programs/arena.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

enum { TENSORS = 2, COUNT = 64, COUNT_OF_SECOND = 40, GRADIENTS = 96 };

struct tensor {
  int number;
  size_t n;             /* elements of a block */
  float *send, *result; /* a block for each rank */
};

struct state {
  struct ranks ranks;
  struct tape *tape;
  float *gradients; /* GRADIENTS */
  struct tensor tensors[TENSORS];
  int64_t *sizes; /* of pickled objects, a block of one for each rank */
  int iteration, root;
  const char *name; /* of the operation */
};

/* Makes all of them, and the gradients, in memory of that kind (arena.h), or "plain". second:
 * elements of the second one's blocks. NULL: without an arena. */
struct arena *tensors_make(struct state *state, const char *memory, size_t second);

/* A block, or several from there on. */
void read_blocks(struct state *state, const struct tensor *tensor, const float *data, int blocks);

/* A part of its own size from one rank. */
void read_part(struct state *state, const struct tensor *tensor, int from, size_t n);

/* What is in place, on all ranks or at the root; one block received, or those of all ranks. */
void read_in_place(struct state *state, const struct tensor *tensor);
void read_in_place_at_root(struct state *state, const struct tensor *tensor);
void read_one(struct state *state, const struct tensor *tensor);
void read_all(struct state *state, const struct tensor *tensor);
void read_all_at_root(struct state *state, const struct tensor *tensor);

#endif
