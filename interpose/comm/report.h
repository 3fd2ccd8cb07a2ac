/* What a rank says of its wait in a call: lines of the log, records of the trace. Decides nothing.
 */
#ifndef NCCL_JOIN_INTERPOSE_REPORT_H
#define NCCL_JOIN_INTERPOSE_REPORT_H

#include "interpose/comm/communicator.h"

/* A record, if the endpoint is traced. peer: a rank, or -1. */
void report_event(struct endpoint *end, enum trace_event event, uint64_t index, struct unit unit,
                  int peer);

/* Why the rank is released although what it wanted has not settled: team->failed.how. */
void report_failure(const struct endpoint *end, struct unit wanted);

/* Another rank failed when it had issued so many collectives. This one waits on its device in vain,
 * and its program, which has asked NCCL for errors, is told. */
void report_lost(const struct endpoint *end, uint32_t rank, uint64_t issued);

/* NCCL_JOIN_TIMEOUT has passed: who is where. */
void report_timeout(const struct endpoint *end, struct unit wanted);

/* NCCL_JOIN_TIMEOUT has passed, but no rank has joined or left: this one waits on. Said once. */
void report_slow(struct endpoint *end, struct unit wanted);

/* Ranks of another communicator are behind, and have been waited for that long: this one goes on.
 * Said once. */
void report_goes_on(struct endpoint *end, const struct endpoint *behind, uint64_t waited_ms);

/* No rank has moved for so many seconds (NCCL_JOIN_STALL_WARN), and this one waits: who is where.
 * before: with what it wants, until others have come to what it has issued in this communicator.
 * ring_s: ranks of another one may wait for it on their devices, and it answers them then, or
 * leaves; 0: none may. */
struct stall {
  uint64_t seconds, ring_s;
  bool before, leaves;
};
void report_stall(const struct endpoint *end, struct unit wanted, const struct stall *stall);

/* Of a communicator that is being made (interpose/calls/latecomers.h): which of its ranks have not
 * come, and why this rank waits for them in vain. */
#define LATE_NAMED 8
struct late_missing {
  uint32_t count, ranks[LATE_NAMED];
};
struct late_report {
  const char *function; /* that makes it */
  uint32_t tag, nranks;
  struct late_missing missing;
  uint64_t seconds; /* for so long nothing has moved */
  bool uneven;      /* some of the endpoint's ranks are in a loop that this one has left */
};
void report_late(const struct endpoint *end, const struct late_report *late);

/* Operations that stand behind a loop have been held back for so long (park/hold.h), and are issued
 * now.
 */
void report_held_in_vain(const struct endpoint *end, const struct posts *posts, uint64_t waited_ms);

/* Sends and receives of this rank have waited in vain for room: a peer is too far behind. */
void report_stuck_posts(const struct endpoint *end);

/* A send or receive of this rank, about to be issued, meets one of another size, or of another
 * point of the program (core/p2p/peers.h). refused: it is not issued. Said once for each
 * communicator, and whenever it is refused. */
struct unequal_places {
  const char *ours, *theirs; /* where both stand; "" if that is not known */
  bool same;                 /* at one place */
};
void report_unequal(struct communicator *comm, const struct unequal *unequal,
                    const struct unequal_places *places, bool refused);

/* All ranks have agreed that the unit must not be issued. */
void report_refused(const struct endpoint *end, struct unit wanted);

/* The rank is to answer others while an exception is under way: `wanted` is what it has come to. */
void report_exception(const struct endpoint *end, struct unit wanted, const char *exception);

/* NCCL_JOIN_EPOCHS=wait does not hold where the rank begins a round: not all ranks count them
 * alike. Said once. */
void report_not_counted(const struct endpoint *end, const char *place);

/* All ranks stop, because the first one has left: what this one wanted. */
void report_stop(struct endpoint *end, struct unit wanted);

/* This rank's Broadcast at an index is one of several, each of which sends what its root alone has;
 * `joined`, a rank in the communicator, is one of the roots. */
void report_sharded(const struct communicator *comm, uint64_t index, int root, int joined);

/* A shadow: the first one since a real unit says that the rank has joined; counts them in
 * end->shadows. */
void report_shadow(struct endpoint *end, uint64_t index, struct unit unit);
void report_shadow_failure(struct log_subject subject, struct unit unit, const char *reason);

/* The rank is active again. */
void report_return(struct endpoint *end, uint64_t index);

/* The rank is active again, but the others have not waited for it: what is done where all are
 * together comes later. */
void report_missed_rejoin(const struct endpoint *end);

/* An exchange (MEMBER_EXCHANGE) that this rank shadows: a record, and no line. What its peers ask
 * for in it is answered one by one. */
void report_exchange(struct endpoint *end, struct unit unit);

/* "12 collectives", "0 collectives and 8 sends and receives": what a rank has issued. Returns text.
 */
#define REPORT_COUNT 80
const char *report_count(const struct endpoint *end, uint32_t rank, uint64_t collectives,
                         char text[REPORT_COUNT]);

/* The rank is joined no longer: adds how long it was to what all ranks see. report_joined.c. */
void report_active(struct endpoint *end);

/* All ranks have left, and this one with all communicators of the team. If any rank has shadowed
 * anything, the lowest one says what that was and has cost (NCCL_JOIN_REPORT). Said once. Nobody is
 * waited for: what the others have counted is in their logs. A rank that is also in a team of these
 * ranks and more leaves the count to that team's lowest rank (plane_leave_parts). report_uneven.c.
 */
void report_uneven(struct endpoint *end);

/* If the unit won a settlement that was a guess (team->telling.guessed): names both units. */
void report_guess(const struct endpoint *end, struct unit won);

/* The rank has given way in this team, if that was a guess (overlap_guessed): names both units. */
void report_yield(const struct endpoint *end);

/* Of a joined rank with NCCL_JOIN_LOSSY=last, about the member at a position of the unit: it has no
 * buffer of its own to send from, for this reason; or it sends from the last one that it used, as
 * nothing tells which one it should be. */
void report_no_last(const struct endpoint *end, struct unit unit, uint32_t position,
                    const char *reason);
void report_last_untold(const struct endpoint *end, struct unit unit, uint32_t position);

/* Of a rank that has shadowed the rebuilding of gradient buckets (park/rebuilt.h), about its first
 * gradient after that. stops: it is not issued. */
void report_not_rebuilt(const struct endpoint *end, struct unit unit, bool stops);

/* A joined rank has spoiled a unit of the active ones. */
void report_lossy_event(const struct endpoint *end, const struct lossy_event *event);

#endif
