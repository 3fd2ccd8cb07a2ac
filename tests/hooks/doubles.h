/* Recording doubles of the CUDA driver table and of NCCL's functions, so that a shadow can be
 * watched without either.
 *
 * Device memory is host memory: an address outside what was allocated crashes under a sanitizer,
 * and NCCL's doubles read all of a send buffer and overwrite all of a receive buffer as NCCL might.
 * Calls are written to a log as words, in order. One thread.
 */
#ifndef TESTS_HOOKS_DOUBLES_H
#define TESTS_HOOKS_DOUBLES_H

#include <stdatomic.h>

#include "hooks/shadow.h"

#define CALLS_MAX 256

struct call {
  const char *name;
  const void *send;
  void *recv;
  size_t count;
  ncclDataType_t datatype;
  int reduction, root; /* -1: the function has none */
  ncclComm_t comm;
  cudaStream_t stream;
  CUcontext context;               /* current at the call */
  unsigned char first[8], last[8]; /* of what it sent */
  bool uniform;                    /* the send buffer repeats its first 8 bytes */
};

struct doubles {
  /* What the doubles do. */
  int stream_busy;          /* StreamQuery: not ready this many times; -1: for ever */
  _Atomic bool device_busy; /* whether synchronising goes on */
  CUresult stream_error;    /* StreamQuery's answer after that */
  CUresult event_error;     /* EventCreate's answer */
  int events_done;          /* EventQuery: of the events recorded, in order, so many are; -1: all */
  CUresult memset_error, open_error, push_error;
  size_t memory; /* bytes that can still be allocated */
  int fail_call; /* the collective call that fails, from 0; -1: none */
  ncclResult_t fail_with;
  int create_fail; /* the RedOpCreatePreMulSum that fails, from 0; -1: none */
  ncclResult_t create_result;
  bool nonblocking;   /* the call or GroupEnd that launches returns ncclInProgress */
  int progress_polls; /* CommGetAsyncError: ncclInProgress this many times after a launch; -1: for
                         ever */
  int polls_left;     /* the same, from now */
  ncclResult_t register_result; /* CommRegister's answer */
  ncclResult_t async_error; /* CommGetAsyncError's answer after that, once something was launched */

  /* What they saw. */
  struct call calls[CALLS_MAX];
  int ncalls;
  char log[4096]; /* "start allreduce end" */
  int allocations, frees, fills, copies, polls, queries;
  int registrations, registrations_made; /* there are, and have been */
  int operators, operators_made;
  uint64_t scalars[8];
  size_t live_bytes;
  int events_recorded;
  int group_depth, retained, streams, events;
  int priority;
  unsigned stream_flags;
  CUcontext stack[8];
  int contexts; /* on the stack */
  CUstreamCaptureMode mode;
};
extern struct doubles doubles;

extern const struct cuda_driver double_driver;
extern const struct nccl_calls double_nccl;

/* Everything back to the beginning; the thread has one context of its own current. */
void doubles_reset(void);

/* A communicator handle by number; never looked into. */
ncclComm_t double_comm(int number);

/* Whether all of a buffer lies in what a communicator has registered. */
bool double_is_registered(int comm, const void *buffer, size_t bytes);

/* Bytes that a device address may be used for: up to the end of its allocation; 0 if it is none. */
size_t double_room(const void *address);

/* ---- what the doubles share ---- */

/* Adds a word to the log. */
void double_note(const char *word);

/* The thread's current context. */
CUcontext double_context(void);

#endif
