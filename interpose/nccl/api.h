/* Every function of NCCL that nccl-join has to do with, NCCL 2.18 to 2.32, as one table.
 *
 * From it come the exported wrappers (wrappers.c), the prototypes of what acts on the calls
 * (handlers.h), the table of real functions (real.h) and the list of exports (exports.map.in). To
 * handle one more function, add a line here; for a collective, a row of
 * core/unit/collectives.h.
 *
 *   API(since, name, parameters, arguments, handling)
 *
 * since: NCCL_VERSION_CODE of the first release that has it; API_OLDEST for 2.18 and earlier.
 *
 * name: without the prefix "nccl".
 *
 * parameters: as nccl.h declares them, which the compiler checks; no const on what is passed by
 * value.
 *
 * arguments: the same, as they are passed on.
 *
 * handling:
 *   - HANDLED: exported; the call becomes join_<name>.
 *   - FAST: the same, unless the fast path takes it (fast_path.h).
 *   - UNFIT: exported; join_unfit(comm, ...) notes that this communicator cannot be shadowed from
 *     now on, then the real function is called.
 *   - OBSERVED: exported; the real function is called, then saw_<name>(result, ...) is told what it
 *     returned.
 *   - CREATES: as HANDLED; it has no communicator that tells which NCCL is meant (libraries.h).
 *   - GROUPS: as HANDLED; it is for every NCCL of the process.
 *   - SPLITS: as HANDLED; it makes a communicator from another.
 *   - CALLED: not exported, only called by nccl-join. A library that has all of these is NCCL.
 *   - ASKED: the same; it has no communicator.
 *
 * Only what must be seen is exported: a program may ask whether a function exists (a weak symbol,
 * dlsym) and take our wrapper for a yes although its NCCL is older. Whatever may stand inside a
 * group must be seen: calls of a group are held back until its end, and a call that went past us
 * would overtake them. The functions pncclX are not exported. They are NCCL's entry for tools that
 * must not meet an interposer, as PMPI is for MPI. No program calls them; another tool in front of
 * us does, and its calls would be seen twice.
 *
 * Not here although they change a communicator: ncclCommGetUniqueId (an id for ncclCommGrow: not
 * ours to write in), ncclCommWindowDeregister and ncclDevCommDestroy (local;
 * what they undo was UNFIT already). tests/interpose/parts/passed.txt has every other function that
 * a release exports, and why it is passed.
 */
#ifndef NCCL_JOIN_INTERPOSE_API_H
#define NCCL_JOIN_INTERPOSE_API_H

#include "core/unit/collectives.h"

#define API_OLDEST 21800

/* Of a row of core/unit/collectives.h. Its ROOT decides whether it may take the fast path. */
#define API_COLLECTIVE(API, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, ...)                         \
  API_ROW(API, SINCE, NAME, API_PARAMETERS(ROOT, REDUCTION, API_STREAM),                           \
          API_ARGUMENTS(ROOT, REDUCTION, stream), API_HANDLING_##ROOT)
#define API_COLLECTIVE_CONFIG(API, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, CONFIG, ...)          \
  API_##CONFIG(API, NAME, ROOT, REDUCTION)
#define API_PLAIN(API, NAME, ROOT, REDUCTION)
#define API_CONFIGURED(API, NAME, ROOT, REDUCTION)                                                 \
  API_ROW(API, 23100, NAME##Config, API_PARAMETERS(ROOT, REDUCTION, API_STREAM, API_CONFIG),       \
          API_ARGUMENTS(ROOT, REDUCTION, stream, config), HANDLED)

#define API_STREAM cudaStream_t stream
#define API_CONFIG const ncclCollConfig_t *config
#define API_PARAMETERS(ROOT, REDUCTION, ...)                                                       \
  COLLECTIVE_FORM(ROOT, REDUCTION, const void *sendbuff, void *recvbuff, size_t count,             \
                  ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm, __VA_ARGS__)
#define API_ARGUMENTS(ROOT, REDUCTION, ...)                                                        \
  COLLECTIVE_FORM(ROOT, REDUCTION, sendbuff, recvbuff, count, datatype, op, root, comm, __VA_ARGS__)
#define API_HANDLING_NO_ROOT FAST
#define API_HANDLING_ROOTED FAST
#define API_HANDLING_ELECTED HANDLED
/* With its arguments expanded: API pastes names from them. */
#define API_ROW(API, since, name, parameters, arguments, handling)                                 \
  API(since, name, parameters, arguments, handling)

// clang-format off
#define NCCL_API(API) \
  /* Collectives: members of units. */ \
  NCCL_COLLECTIVES(API_COLLECTIVE, API) \
  /* PyTorch's in-place broadcast. The real one calls ncclBroadcast, through us. */ \
  API(API_OLDEST, Bcast, \
      (void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm, \
       cudaStream_t stream), \
      (buff, count, datatype, root, comm, stream), HANDLED) \
  /* The same with a configuration for the one call: configured.c. */ \
  NCCL_COLLECTIVES(API_COLLECTIVE_CONFIG, API) \
  /* Point to point: outside the agreed sequence; a joined peer mirrors them. */ \
  API(API_OLDEST, Send, \
      (const void *sendbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, \
       cudaStream_t stream), \
      (sendbuff, count, datatype, peer, comm, stream), HANDLED) \
  API(API_OLDEST, Recv, \
      (void *recvbuff, size_t count, ncclDataType_t datatype, int peer, ncclComm_t comm, \
       cudaStream_t stream), \
      (recvbuff, count, datatype, peer, comm, stream), HANDLED) \
  /* Groups: the bounds of a unit. GroupSimulateEnd ends one without issuing it. */ \
  API(API_OLDEST, GroupStart, (void), (), GROUPS) \
  API(API_OLDEST, GroupEnd, (void), (), GROUPS) \
  API(22200, GroupSimulateEnd, (ncclSimInfo_t *simInfo), (simInfo), GROUPS) \
  /* Ranks of one machine find each other by the id's own bytes, so it is passed on as it is. */ \
  API(API_OLDEST, GetUniqueId, (ncclUniqueId *uniqueId), (uniqueId), CREATES) \
  /* Communicators come ... */ \
  API(API_OLDEST, CommInitRank, (ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank), \
      (comm, nranks, commId, rank), CREATES) \
  API(API_OLDEST, CommInitAll, (ncclComm_t *comm, int ndev, const int *devlist), \
      (comm, ndev, devlist), CREATES) \
  API(API_OLDEST, CommInitRankConfig, \
      (ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank, ncclConfig_t *config), \
      (comm, nranks, commId, rank, config), CREATES) \
  API(22300, CommInitRankScalable, \
      (ncclComm_t *newcomm, int nranks, int myrank, int nId, ncclUniqueId *commIds, \
       ncclConfig_t *config), \
      (newcomm, nranks, myrank, nId, commIds, config), CREATES) \
  API(API_OLDEST, CommSplit, \
      (ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config), \
      (comm, color, key, newcomm, config), SPLITS) \
  API(22700, CommShrink, \
      (ncclComm_t comm, int *excludeRanksList, int excludeRanksCount, ncclComm_t *newcomm, \
       ncclConfig_t *config, int shrinkFlags), \
      (comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags), SPLITS) \
  API(22900, CommGrow, \
      (ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank, ncclComm_t *newcomm, \
       ncclConfig_t *config), \
      (comm, nRanks, uniqueId, rank, newcomm, config), SPLITS) \
  /* ... and go: how a rank says that it leaves, or that it gives up. */ \
  API(API_OLDEST, CommFinalize, (ncclComm_t comm), (comm), HANDLED) \
  API(API_OLDEST, CommDestroy, (ncclComm_t comm), (comm), HANDLED) \
  API(API_OLDEST, CommAbort, (ncclComm_t comm), (comm), HANDLED) \
  API(22800, CommRevoke, (ncclComm_t comm, int revokeFlags), (comm, revokeFlags), HANDLED) \
  /* What it reports may break a wait of ours; the report itself never waits for us. */ \
  API(API_OLDEST, CommGetAsyncError, (ncclComm_t comm, ncclResult_t *asyncError), \
      (comm, asyncError), OBSERVED) \
  /* Operators: which handles are PreMulSum, whatever their number. */ \
  API(API_OLDEST, RedOpCreatePreMulSum, \
      (ncclRedOp_t *op, void *scalar, ncclDataType_t datatype, ncclScalarResidence_t residence, \
       ncclComm_t comm), \
      (op, scalar, datatype, residence, comm), HANDLED) \
  API(API_OLDEST, RedOpDestroy, (ncclRedOp_t op, ncclComm_t comm), (op, comm), HANDLED) \
  /* A shadow's buffers are registered as the peers' are. */ \
  API(21900, CommRegister, (ncclComm_t comm, void *buff, size_t size, void **handle), \
      (comm, buff, size, handle), OBSERVED) \
  API(21900, CommDeregister, (ncclComm_t comm, void *handle), (comm, handle), OBSERVED) \
  /* Which kernel runs is decided by the windows of a rank's own buffers. */ \
  API(22700, CommWindowRegister, \
      (ncclComm_t comm, void *buff, size_t size, ncclWindow_t *win, int winFlags), \
      (comm, buff, size, win, winFlags), UNFIT) \
  /* Not usable until resumed. Both may stand in a group, and wait for the node's ranks. */ \
  API(22907, CommSuspend, (ncclComm_t comm, int flags), (comm, flags), UNFIT) \
  API(22907, CommResume, (ncclComm_t comm), (comm), UNFIT) \
  /* Kernels reach into peers' memory without any call. */ \
  API(22800, DevCommCreate, \
      (ncclComm_t comm, const struct ncclDevCommRequirements *requirements, \
       struct ncclDevComm *outDevComm), \
      (comm, requirements, outDevComm), UNFIT) \
  /* One-sided: nobody can answer for a peer that has joined. */ \
  API(22900, PutSignal, \
      (const void *localbuff, size_t count, ncclDataType_t datatype, int peer, ncclWindow_t peerWin, \
       size_t peerWinOffset, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, \
       cudaStream_t stream), \
      (localbuff, count, datatype, peer, peerWin, peerWinOffset, sigIdx, ctx, flags, comm, stream), \
      UNFIT) \
  API(22900, Signal, \
      (int peer, int sigIdx, int ctx, unsigned int flags, ncclComm_t comm, cudaStream_t stream), \
      (peer, sigIdx, ctx, flags, comm, stream), UNFIT) \
  API(22900, WaitSignal, \
      (int nDesc, ncclWaitSignalDesc_t *signalDescs, ncclComm_t comm, cudaStream_t stream), \
      (nDesc, signalDescs, comm, stream), UNFIT) \
  /* Questions that nccl-join itself asks. */ \
  API(API_OLDEST, GetVersion, (int *version), (version), ASKED) \
  API(API_OLDEST, CommCount, (ncclComm_t comm, int *count), (comm, count), CALLED) \
  API(API_OLDEST, CommUserRank, (ncclComm_t comm, int *rank), (comm, rank), CALLED) \
  API(API_OLDEST, CommCuDevice, (ncclComm_t comm, int *device), (comm, device), CALLED)
// clang-format on

/* What else is exported: what programs may say (hooks/include/nccl_join.h, entry/public_api.c) ...
 */
#define JOIN_API(FUNCTION)                                                                         \
  FUNCTION(ncclJoinGetVersion)                                                                     \
  FUNCTION(ncclJoinLeave)                                                                          \
  FUNCTION(ncclJoinEnter)                                                                          \
  FUNCTION(ncclJoinLastJoiner)                                                                     \
  FUNCTION(ncclJoinActiveRanks)                                                                    \
  FUNCTION(ncclJoinRegisterState)                                                                  \
  FUNCTION(ncclJoinDeregisterState)

/* ... what NCCL answers otherwise (last_error.c) ... */
#define ERROR_API(FUNCTION)                                                                        \
  FUNCTION(ncclGetLastError)                                                                       \
  FUNCTION(ncclGetErrorString)

/* ... the ways a process begins and ends, see process.h ... */
#define PROCESS_API(FUNCTION)                                                                      \
  FUNCTION(__libc_start_main)                                                                      \
  FUNCTION(exit)                                                                                   \
  FUNCTION(quick_exit)                                                                             \
  FUNCTION(_exit)                                                                                  \
  FUNCTION(_Exit)

/* ... and how it finds functions and opens libraries, see lookups.h. */
#define LOOKUP_API(FUNCTION)                                                                       \
  FUNCTION(dlsym)                                                                                  \
  FUNCTION(dlvsym)                                                                                 \
  FUNCTION(dlopen)

/* And NCCL's profiler plug-ins, see bypass.h. */
#define PROFILER_API(OBJECT)                                                                       \
  OBJECT(ncclProfiler_v1)                                                                          \
  OBJECT(ncclProfiler_v2)                                                                          \
  OBJECT(ncclProfiler_v3)                                                                          \
  OBJECT(ncclProfiler_v4)                                                                          \
  OBJECT(ncclProfiler_v5)

/* And CUDA's functions, runtime and driver, that begin and end captures (comm/captures.h), also
 * under the names that <cuda.h> and the compiler's per-thread default stream give them. In both,
 * streams and graphs are pointers, modes and results ints.
 *
 *   FUNCTION(name, parameters, arguments, begins) */
#define CAPTURE_FUNCTIONS(FUNCTION)                                                                \
  CAPTURE_BEGIN(FUNCTION, cudaStreamBeginCapture)                                                  \
  CAPTURE_BEGIN(FUNCTION, cudaStreamBeginCapture_ptsz)                                             \
  CAPTURE_BEGIN(FUNCTION, cuStreamBeginCapture_v2)                                                 \
  CAPTURE_BEGIN(FUNCTION, cuStreamBeginCapture_v2_ptsz)                                            \
  CAPTURE_BEGIN_TO_GRAPH(FUNCTION, cudaStreamBeginCaptureToGraph)                                  \
  CAPTURE_BEGIN_TO_GRAPH(FUNCTION, cudaStreamBeginCaptureToGraph_ptsz)                             \
  CAPTURE_BEGIN_TO_GRAPH(FUNCTION, cuStreamBeginCaptureToGraph)                                    \
  CAPTURE_BEGIN_TO_GRAPH(FUNCTION, cuStreamBeginCaptureToGraph_ptsz)                               \
  CAPTURE_END(FUNCTION, cudaStreamEndCapture)                                                      \
  CAPTURE_END(FUNCTION, cudaStreamEndCapture_ptsz)                                                 \
  CAPTURE_END(FUNCTION, cuStreamEndCapture)                                                        \
  CAPTURE_END(FUNCTION, cuStreamEndCapture_ptsz)
#define CAPTURE_BEGIN(FUNCTION, name) FUNCTION(name, (void *stream, int mode), (stream, mode), true)
#define CAPTURE_BEGIN_TO_GRAPH(FUNCTION, name)                                                     \
  FUNCTION(name,                                                                                   \
           (void *stream, void *graph, const void *dependencies, const void *edges, size_t count,  \
            int mode),                                                                             \
           (stream, graph, dependencies, edges, count, mode), true)
#define CAPTURE_END(FUNCTION, name)                                                                \
  FUNCTION(name, (void *stream, void **graph), (stream, graph), false)

#endif
