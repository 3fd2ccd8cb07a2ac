/* Movers: data between the program's buffers and the connections that NCCL's host side has made.
 *
 * A connection has 8 slots. The one that sends counts in "tail" what is in the slots, the one that
 * receives counts in "head" what it has taken out; each waits for the other's count. Simple: tail
 * says that a slot's data are there. LL and LL128: each line of a slot carries a flag that says so.
 * With a proxy behind the connection (sockets) the size of what is in a slot stands in a fifo. */
#ifndef TESTS_NCCL_MOVER_H
#define TESTS_NCCL_MOVER_H

#include "tests/nccl/device.h"
#include "tests/nccl/reducer.h"

enum { LINKS_MAX = 3 }; /* children of a tree */

struct mover_link {
  struct ncclConnInfo *connection;
  uint64_t step;
  volatile uint64_t *count;        /* tail of what sends to us, head of what receives from us */
  volatile uint64_t *count_of_own; /* the other one, which we say; or NULL */
  char *slots;
  size_t slot_size;
  struct ncclConnFifo *fifo; /* or NULL */
  bool is_copied;            /* LL128: what comes is written by a proxy */
};

struct mover {
  struct reducer reducer;
  enum function_protocol protocol;
  size_t step_size;   /* bytes */
  int slices, stride; /* slices of a chunk, steps of a slice: Simple only */
  int nfrom, nto;
  struct mover_link from[LINKS_MAX], to[LINKS_MAX];
};

/* What a mover is made of. Peers that are -1 are left out. */
struct mover_plan {
  const struct block *block;
  struct reducer reducer;
  enum function_protocol protocol;
  int slices, stride;
  int index; /* of the connection: 0 for collectives, 1 for sends and receives */
  const int *from, *to;
  int nfrom, nto;
  size_t step_size; /* 0: the communicator's */
};

void mover_open(struct mover *mover, const struct mover_plan *plan);

/* Remembers in the connections how far they have come. */
void mover_close(struct mover *mover);

/* One chunk. Takes the program's data at input (unless NULL) and what all links from peers bring
 * (if receives), reduces them, and puts the result to output (unless NULL) and into all links to
 * peers (if sends). last: this is the end result. */
struct mover_chunk {
  const char *input;
  char *output;
  bool receives, sends, last;
};
void mover_move(struct mover *mover, struct mover_chunk chunk, int64_t count);

#endif
