/* Operations, and units: what one rank issues on one communicator as one.
 *
 * A unit holds the operations that one outermost group (or one ungrouped call) issued on one
 * communicator, in program order. The issuing thread builds it; once launched, it belongs to the
 * stream's worker.
 */
#ifndef LOOPBACK_NCCL_UNIT_H
#define LOOPBACK_NCCL_UNIT_H

#include "reduce.h"

#include <cuda.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum operation_kind {
  OPERATION_ALLREDUCE,
  OPERATION_BROADCAST,
  OPERATION_REDUCE,
  OPERATION_ALLGATHER,
  OPERATION_REDUCESCATTER,
  OPERATION_ALLTOALL,
  OPERATION_GATHER,
  OPERATION_SCATTER,
  OPERATION_SEND,
  OPERATION_RECV,
};

#define ROOT_NONE (-1)

struct operation {
  enum operation_kind kind;
  const void *send;
  void *recv;
  size_t count; /* elements, as passed to NCCL */
  ncclDataType_t datatype;
  enum reduction reduction;
  union scalar factor;        /* of a premultiplied sum, unless factor_pointer is set */
  const void *factor_pointer; /* device memory, read when the operation runs */
  bool premultiplied;         /* PREMULSUM, or AVG of floats */
  int root;                   /* root, or the peer of SEND and RECV; ROOT_NONE for kinds without */
  CUstream stream;
  unsigned look; /* of a send or receive: registration.h */
};

struct unit {
  _Atomic int holders; /* the issuing thread and the worker */
  struct ncclComm *comm;
  uint64_t epoch; /* of the communicator when issued; a later one means it was cancelled */
  uint64_t index; /* among the communicator's collective units, or its point-to-point ones, in the
                     order in which they are performed */
  struct unit *next_captured;
  bool collective; /* has at least one collective: all ranks meet */
  unsigned meets;  /* collectives whose registered buffers NVLink SHARP would use */
  size_t noperations, capacity;
  struct operation *operations;
  uint64_t hash; /* of the descriptor: everything that must be equal on all ranks */
  char *text;    /* the same for people; "" if there is no collective */
  char *log;     /* every operation of this communicator, point to point included */
};

static inline bool operation_is_collective(const struct operation *operation) {
  return operation->kind != OPERATION_SEND && operation->kind != OPERATION_RECV;
}

/* Whether the kind has a root or peer; whether it reduces. */
bool operation_has_root(enum operation_kind kind);
bool operation_reduces(enum operation_kind kind);

/* "AllReduce": NCCL's name, as in its messages. */
const char *operation_name(enum operation_kind kind);

/* Writes "allreduce(sum, float32, 1024)", "broadcast(float32, 16, root 0)" or "send(int8, 4, to
 * 1)". */
void operation_describe(const struct operation *operation, char *text, size_t size);

/* An empty unit on comm with one holder; NULL if there is no memory. */
struct unit *unit_create(struct ncclComm *comm);

/* The last release frees it. */
void unit_hold(struct unit *unit);
void unit_release(struct unit *unit);

/* Copies operation to the end; false if there is no memory. */
bool unit_append(struct unit *unit, const struct operation *operation);

/* Fills collective, meets, hash, text and log, and how the buffers of sends and receives look.
 * related: the units that the same group issued on communicators of the same team (the same ranks
 * in the same order, this rank the same in all), this one included, ordered by communicator hash.
 * What the ranks of a team put in one group must be the same on all of them. False if there is no
 * memory.
 */
bool unit_describe(struct unit *unit, struct unit *const *related, size_t nrelated);

/* execute.c: puts the unit on its streams, behind earlier units of the communicator whatever their
 * stream; a worker performs it when its turn comes.
 * With operations on several streams it runs on the first; it waits for what is on the others, and
 * they wait for it. Takes the unit, also on error. On the issuing thread, with the communicator's
 * context current. */
ncclResult_t unit_launch(struct unit *unit);

#endif
