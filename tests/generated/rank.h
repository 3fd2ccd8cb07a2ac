/* What every generated program begins with, records and ends with.
 *
 * A rank numbers its collectives 1, 2, ... over all its communicators. What it contributes to one
 * is that number, in a place of its own, so that every result tells which call of which rank is in
 * it: element j of a vector belongs to rank j % size of the communicator; where there are fewer
 * elements than ranks, each rank has some of the bits of each element. A record per call, in memory
 * that outlives the rank, says at which point of the program it was made, and what was seen.
 *
 * The programs are ordinary ones: this file calls NCCL to make communicators and to give them up;
 * collectives are called by the programs themselves, between rank_before and rank_after. One
 * thread.
 */
#ifndef GENERATED_RANK_H
#define GENERATED_RANK_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RANKS_MAX = 6, CALLS_MAX = 1023, AXES_MAX = 3, BATCHES_MAX = 63 };

enum collective {
  ALL_REDUCE,
  REDUCE_SCATTER,
  BROADCAST,
  REDUCE,
  /* Sends and receives. */
  ALL_TO_ALL, /* count elements to each rank */
  RING,       /* to the next rank, from the one before */
  FORWARD,    /* the same, but for the first and the last rank: a pipeline of stages */
  BACKWARD,   /* from the next rank, to the one before */
};

/* A point of the program. Several lines may be one point: what counts is what is meant. */
struct point {
  enum collective collective;
  int count; /* elements each rank receives */
  ncclDataType_t datatype;
  ncclRedOp_t operation;
  int root; /* in the communicator */
  int axis; /* which communicator */
};

/* The state of a call: what became of it. */
enum call_state {
  CALL_ISSUED,  /* has not come back, or its stream has not been waited for */
  CALL_DONE,    /* `seen` is valid */
  CALL_GARBAGE, /* its result is none that any calls could make */
  CALL_FAILED,  /* NCCL returned an error */
};

struct call {
  uint16_t point, epoch, iteration;
  uint8_t axis, state;
  uint32_t said;           /* bytes that the rank had written to stderr when the call returned */
  int16_t seen[RANKS_MAX]; /* by rank of the job: number of the call whose contribution is there */
  uint64_t digest;         /* of the result, bit for bit */
};

/* What a rank leaves behind. */
struct record {
  uint32_t ncalls;
  int32_t
      finished;  /* 1: the program came to its end, only the communicators were left to give up */
  int32_t error; /* ncclResult_t of the call that failed, or 0 */
  struct call calls[CALLS_MAX];
};

/* How the ranks of a program are arranged. */
enum arrangement {
  ARRANGED_ONE,  /* one communicator, axis 0 */
  ARRANGED_TWO,  /* two of all ranks, axes 0 and 1 */
  ARRANGED_GRID, /* all ranks, tensor parallel (consecutive ranks), data parallel */
};

enum ending { ENDING_DESTROY, ENDING_FINALIZE, ENDING_EXIT, ENDING_RETURN };

/* What a program is, but for its code. */
struct setup {
  int nranks, tensor; /* tensor: ranks of a tensor parallel group, with ARRANGED_GRID */
  enum arrangement arrangement;
  int split;     /* the grid's communicators are made by ncclCommSplit */
  int run_ahead; /* 0: waits for its stream after each call, else only where it says so */
  enum ending ending;
  const int *pauses_us; /* by rank: how long a batch takes to load */
  const struct point *points;
};

/* Python knows these first fields by their offsets (runner.py). */
struct rank {
  int rank, nranks, step;
  void *send, *receive; /* of the call that rank_before has begun */
  cudaStream_t stream;
  ncclComm_t comms[AXES_MAX];
  const struct setup *setup;
  struct record *record;
  struct buffers *buffers;
  int value, met; /* of the last result that was looked at */
  struct {
    int point, epoch, iteration;
  } next; /* of rank_begin */
  struct {
    int size, me, ranks[RANKS_MAX];
  } axes[AXES_MAX];
  volatile int prepared;
};

/* Begins with a loop without calls: gcc may let control go into a loop that begins so at two
 * places. */
static inline void rank_prepare(struct rank *rank) {
  double sum = 0;
  for (int part = 0; part < rank->nranks; part++)
    if (rank->step > part)
      sum += 1 << part;
  rank->prepared = (int)sum;
}

/* Python finds these in a library. */
#pragma GCC visibility push(default)

/* Begins a call: fills and sets send and receive. */
void rank_before(struct rank *rank, int point, int epoch, int iteration);

/* The same, of the call that `next` says: to a compiler all such calls look alike. */
void rank_begin(struct rank *rank);

/* Ends it, with what NCCL returned. An error ends the process with status 3. */
void rank_after(struct rank *rank, ncclResult_t result);

/* Waits for the stream and looks at the results. */
void rank_synchronise(struct rank *rank);

/* Loads a batch: as long as the setup says. */
void rank_load(struct rank *rank);

/* The number, which no compiler knows. */
int rank_known(int number);

/* count batches, in order: as a list, or as their numbers with -1 behind them. count: at most
 * BATCHES_MAX. */
struct batch {
  const struct batch *next;
  int number;
};
const struct batch *rank_batches(int count);
const int *rank_numbers(int count);
const int *rank_numbers_end(int count); /* where its -1 is */

/* What a rank does by itself between collectives. */
void rank_log(struct rank *rank, int what);

/* A bit that depends on the rank's own data. */
int rank_data(const struct rank *rank, int epoch, int iteration, int salt);

/* 0 to 1023: from the rank's own data, or from data that all ranks have. */
int rank_draw(const struct rank *rank, int own, int a, int b, int salt);

/* Of the last result: the sum of the numbers in it, and of how many ranks they are. All ranks that
 * get it see the same, but of sends and receives, or a reduction to one rank. Waits for it. */
int rank_value(struct rank *rank);
int rank_met(struct rank *rank);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
