/* What every test program here begins and ends with: who am I, a device, a stream, a communicator,
 * and leaving.
 *
 * These are ordinary NCCL programs. They know nothing of nccl-join and run unchanged on GPUs,
 * several ranks on one if there are fewer GPUs than ranks. Rank and size come from torchrun's
 * variables (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). One thread; anything that
 * fails ends the program with status 1.
 *
 * What a test compares goes to stdout, one line a result, "RESULT <rank> <name> <values>", each
 * written at once so that the lines of several ranks do not mix. Times go into "TIME <rank> <name>
 * <seconds>", which no two runs have in common.
 */
#ifndef PROGRAMS_RANKS_H
#define PROGRAMS_RANKS_H

#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#define RANKS_COMMS_MAX 4

struct ranks {
  int rank, nranks;
  cudaStream_t stream;
  ncclComm_t comms[RANKS_COMMS_MAX];
  int ncomms;
  bool blunders; /* a wrong call, between an asynchronous error and what it is */
};

/* Reads the environment, selects the device and makes the stream. */
void ranks_begin(struct ranks *ranks);

/* Gives every rank rank 0's bytes, over TCP. Called by all ranks, any number of times; 100 seconds
 * at most. */
void ranks_share(const struct ranks *ranks, void *bytes, size_t size);

/* One more communicator of all ranks, which ranks_leave will give up. */
ncclComm_t ranks_communicator(struct ranks *ranks);

/* Waits for the stream as NCCL's documentation asks for it: an asynchronous error of a communicator
 * ends the wait, and with it the program, by ncclCommAbort and status 1. */
void ranks_synchronise(struct ranks *ranks);

/* How a program ends. */
enum ending {
  ENDING_FINALIZE, /* ncclCommFinalize, ncclCommDestroy */
  ENDING_DESTROY,  /* ncclCommDestroy alone */
  ENDING_ABORT,    /* ncclCommAbort */
  ENDING_RETURN,   /* return from main, communicators left as they are */
  ENDING_EXIT,     /* exit(0), the same */
  ENDING_FAIL,     /* exit(1), the same */
  ENDING_KILL,     /* a signal that cannot be caught */
  ENDING_VANISH,   /* _exit(0), the same */
};

/* The ending of that name (finalize, destroy, ...); ends the program if there is none. */
enum ending ending_named(const char *name);

/* Ends that way, at once: whoever wants the stream to be done waits before. Returns what main shall
 * return, if it returns. */
int ranks_leave(struct ranks *ranks, enum ending ending);

/* Prints a RESULT line; the format is the name and the values. */
void ranks_result(const struct ranks *ranks, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a TIME line with the seconds of the machine's monotonic clock, which its processes share.
 */
void ranks_time(const struct ranks *ranks, const char *name);

/* For CHECK_CUDA and CHECK_NCCL. */
void ranks_check_cuda(cudaError_t error, const char *call, const char *file, int line);
void ranks_check_nccl(ncclResult_t result, const char *call, const char *file, int line);

#define CHECK_CUDA(call) ranks_check_cuda((call), #call, __FILE__, __LINE__)
#define CHECK_NCCL(call) ranks_check_nccl((call), #call, __FILE__, __LINE__)

#endif
