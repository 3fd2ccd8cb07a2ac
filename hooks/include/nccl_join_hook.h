/* Plug-ins of nccl-join: what a joined rank does besides, or instead of, contributing what changes
 * nothing, and what all ranks do when they are together again. The two entry points are those of
 * PyTorch's JoinHook.
 *
 * A plug-in is a shared object that exports one symbol, a struct of version 1:
 *
 *   const ncclJoinHook_v1_t ncclJoinHook_v1 = {"my-hook", init, mainHook, postHook, finalize};
 *
 * and is named by NCCL_JOIN_HOOK=/path/my-hook.so, or several, separated by commas, which are
 * called in that order. It is loaded before the process's first communicator is made. One that
 * cannot be loaded, or whose init fails, makes ncclCommInit… return ncclInvalidUsage.
 *
 * Threads: calls for one communicator come one at a time; a process with several ranks in several
 * threads may make calls for several communicators at once. All calls come from a thread of the
 * program that is inside an NCCL call, with the CUDA context that the program had current there.
 * NCCL functions that a plug-in calls go straight to NCCL: no rank is shadowed for them.
 */
#ifndef NCCL_JOIN_HOOK_H
#define NCCL_JOIN_HOOK_H

#include <nccl.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes one line to nccl-join's log (NCCL_JOIN_DEBUG). level: one of these. The line has no
 * newline at its end. Any thread. */
enum { NCCL_JOIN_LOG_ERROR = 0, NCCL_JOIN_LOG_WARN = 1, NCCL_JOIN_LOG_INFO = 2 };
typedef void (*ncclJoinLog_t)(int level, const char *format, ...);

/* What a plug-in wants to do in mainHook, a value that init writes. */
enum {
  NCCL_JOIN_HOOK_OBSERVE = 0, /* look only: costs nothing but the call */
  NCCL_JOIN_HOOK_FILL = 1,    /* write to the send buffers: each shadow then has buffers of its own,
                               * filled anew */
};

enum { NCCL_JOIN_REDUCTION_NONE = -1, NCCL_JOIN_REDUCTION_PREMULSUM = -2 };

/* One call of the unit. */
typedef struct {
  const char *function; /* "ncclAllReduce", ..., "ncclSend", "ncclRecv" */
  ncclComm_t comm;
  int rank, nRanks; /* in comm */
  size_t count;     /* as passed to the function */
  ncclDataType_t datatype;
  int reduction; /* ncclRedOp_t's number, or one of the above */
  int root;      /* of those that have one, and the peer of a Send or Recv; otherwise -1 */
  /* Device memory that this rank is about to send, and that the plug-in may write to by work on
   * `stream` (below); filled with what changes nothing, or, with NCCL_JOIN_LOSSY=last, a copy of
   * what the program's own buffer holds. Only if a plug-in wants to fill, and not where this rank
   * sends nothing: otherwise NULL. The last plug-in has the last word. */
  void *sendBuffer;
  size_t sendBytes; /* what the function reads on this rank; 0: nothing */
} ncclJoinMember_v1_t;

/* What a joined rank is about to issue in the place of its program: one call, or all calls of a
 * group. */
typedef struct {
  unsigned long long
      index; /* which unit of the sequence that all ranks of the communicator share */
  int nMembers;
  const ncclJoinMember_v1_t *members;
  ncclComm_t reunionComm; /* the communicator that postHook will name: those of the same ranks join
                           * together, and a group may have calls on several of them */
  int cudaDevice;
  cudaStream_t stream; /* the unit is issued on it, after mainHook */
} ncclJoinUnit_v1_t;

/* All ranks are together again after some had joined, or have called ncclJoinLeave. */
typedef struct {
  ncclComm_t comm;
  int rank, nRanks;
  int lastJoiner;   /* the largest of the ranks that had data longest: the same on all ranks */
  int isLastJoiner; /* 1 if this rank is one of those, which may be several */
  unsigned long long index; /* of the unit at which they are together */
} ncclJoinReunion_v1_t;

typedef struct {
  const char *name; /* for messages */
  /* Once in a process. *context is what the other functions are given; *wants is 0
   * (NCCL_JOIN_HOOK_OBSERVE) and may be set. May be NULL, like all of these. */
  ncclResult_t (*init)(void **context, int *wants, ncclJoinLog_t log);
  /* Before each unit that a joined rank issues. After an error the unit is issued with what changes
   * nothing, the hook is not called again, and both this rank and, with their next calls, those
   * that have data get ncclInvalidUsage. */
  ncclResult_t (*mainHook)(void *context, const ncclJoinUnit_v1_t *unit);
  /* On every rank, once each time that all are together again, after the last joiner's buffers have
   * been broadcast. A plug-in that is loaded on all ranks may call NCCL's collectives here. An
   * error is returned by the call that brought this rank here, unless that is one that ends the
   * communicator. */
  ncclResult_t (*postHook)(void *context, const ncclJoinReunion_v1_t *reunion);
  /* When the process ends by return from main, exit or quick_exit. */
  ncclResult_t (*finalize)(void *context);
} ncclJoinHook_v1_t;

#ifdef __cplusplus
}
#endif

#endif
