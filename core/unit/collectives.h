/* The collectives of NCCL: one row each, from which everything that differs between them is made.
 *
 *   - kinds of members, texts: kind.h
 *   - what is wrapped, and the real functions: interpose/nccl/api.h
 *   - the fast path, calls as data: interpose/comm/fast_path.h, interpose/comm/call.c,
 *     interpose/calls/collectives.c, interpose/calls/configured.c
 *   - shadows: hooks/shadow.h, hooks/shadow_call.c
 *   - what a joined rank sends: hooks/contribution.c
 *
 * A function of another form than COLLECTIVE_FORM needs a handler of its own, as ncclBcast has.
 *
 *   NCCL_COLLECTIVES(ROW, with) makes of each collective
 *   ROW(with, KIND, NAME, ROOT, REDUCTION, TEXT, SINCE, CONFIG, SENDS, RECEIVES, IN_PLACE, LOSSY)
 *
 * with: whatever the caller has to pass to ROW.
 *
 * KIND: MEMBER_<KIND> of kind.h. Kinds are numbered in the order of the rows, and peers compare the
 * numbers: a new row is a new PLANE_VERSION (core/transport/plane.h).
 *
 * NAME: without the prefix "nccl". TEXT: as logs and traces have it.
 *
 * ROOT:
 *   - NO_ROOT
 *   - ROOTED: has one, which stays what it is when it has joined.
 *   - ELECTED: has one, and when it has joined another rank takes its part
 *     (interpose/data/roots.h). Such a collective is never on the fast path.
 *
 * REDUCTION: REDUCES, with an operator; a joined rank contributes what changes nothing. MOVES,
 * without one.
 *
 * SINCE: NCCL_VERSION_CODE of the first release that has it; API_OLDEST for 2.18 and earlier.
 *
 * CONFIG: CONFIGURED, if there is an ncclXConfig (NCCL 2.31); else PLAIN.
 *
 * SENDS, RECEIVES: how much of the buffers is used, as nccl.h says it (2.28):
 *   - ONE: count elements.
 *   - ALL: count elements for each rank of the communicator.
 *   - ROOT_ONE, ROOT_ALL: the same on the root; nothing elsewhere.
 *
 * IN_PLACE: how the two buffers lie if they are one.
 *   - WHOLE: they begin at the same address.
 *   - SENDS_PART: the send buffer is the rank's own block of the receive buffer.
 *   - RECEIVES_PART: the other way round.
 *   - APART: never.
 *
 * LOSSY: the kind of NCCL_JOIN_LOSSY (core/settings/settings.h, LOSSY_<LOSSY>), where the active
 * ranks need data of a joined rank, or NEVER. Which ranks' data that is follows from SENDS and
 * RECEIVES: contribution_is_lossy.
 */
#ifndef NCCL_JOIN_CORE_COLLECTIVES_H
#define NCCL_JOIN_CORE_COLLECTIVES_H

// clang-format off
#define NCCL_COLLECTIVES(ROW, with) \
  ROW(with, ALLREDUCE, AllReduce, NO_ROOT, REDUCES, "allreduce", API_OLDEST, CONFIGURED, \
      ONE, ONE, WHOLE, NEVER) \
  /* ncclBcast too. Several roots in one unit are an AllGather: contribution_gathers. */ \
  ROW(with, BROADCAST, Broadcast, ELECTED, MOVES, "broadcast", API_OLDEST, CONFIGURED, \
      ROOT_ONE, ONE, WHOLE, ALLGATHER) \
  ROW(with, REDUCE, Reduce, ROOTED, REDUCES, "reduce", API_OLDEST, CONFIGURED, \
      ONE, ROOT_ONE, WHOLE, NEVER) \
  ROW(with, ALLGATHER, AllGather, NO_ROOT, MOVES, "allgather", API_OLDEST, CONFIGURED, \
      ONE, ALL, SENDS_PART, ALLGATHER) \
  ROW(with, REDUCESCATTER, ReduceScatter, NO_ROOT, REDUCES, "reducescatter", API_OLDEST, \
      CONFIGURED, ALL, ONE, RECEIVES_PART, NEVER) \
  ROW(with, ALLTOALL, AlltoAll, NO_ROOT, MOVES, "alltoall", 22800, CONFIGURED, \
      ALL, ALL, APART, ALLTOALL) \
  ROW(with, GATHER, Gather, ROOTED, MOVES, "gather", 22800, CONFIGURED, \
      ONE, ROOT_ALL, APART, GATHER) \
  ROW(with, SCATTER, Scatter, ROOTED, MOVES, "scatter", 22800, CONFIGURED, \
      ROOT_ALL, ONE, APART, SCATTER)
// clang-format on

/* The one or the other, by a row's REDUCTION or ROOT: COLLECTIVE_IF_##REDUCTION(op, none). */
#define COLLECTIVE_IF_REDUCES(is, is_not) is
#define COLLECTIVE_IF_MOVES(is, is_not) is_not
#define COLLECTIVE_IF_ROOTED(is, is_not) is
#define COLLECTIVE_IF_ELECTED(is, is_not) is
#define COLLECTIVE_IF_NO_ROOT(is, is_not) is_not

/* The parameters of a collective, or its arguments, in brackets and in NCCL's order: those of
 * `operator` and `root` that a row has. In the place of ...: communicator, stream and so on. */
#define COLLECTIVE_FORM(ROOT, REDUCTION, send, receive, count, datatype, operator, root, ...)      \
  (send, receive, count,                                                                           \
   datatype COLLECTIVE_AND_##REDUCTION(operator) COLLECTIVE_AND_##ROOT(root), __VA_ARGS__)
#define COLLECTIVE_AND_REDUCES(operator) , operator
#define COLLECTIVE_AND_MOVES(operator)
#define COLLECTIVE_AND_ROOTED(root) , root
#define COLLECTIVE_AND_ELECTED(root) , root
#define COLLECTIVE_AND_NO_ROOT(root)

#endif
