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

/* Another rank failed when it had issued so many; this one waits on its device for nothing, and its
 * program, which asks NCCL for errors, is told. */
void report_lost(const struct endpoint *end, uint32_t rank, uint64_t issued);

/* NCCL_JOIN_TIMEOUT has passed: who is where. */
void report_timeout(const struct endpoint *end, struct unit wanted);

/* No rank has moved for so many seconds (NCCL_JOIN_STALL_WARN), and this one waits: who is where. */
void report_stall(const struct endpoint *end, struct unit wanted, uint64_t seconds);

/* It has passed, but nobody has joined: the rank waits on. Said once. */
void report_slow(struct endpoint *end, struct unit wanted);

/* Ranks of another communicator are behind, and have been waited for that long: this one goes on. Said
 * once. */
void report_goes_on(struct endpoint *end, const struct endpoint *behind, uint64_t waited_ms);

/* Sends and receives wait for room because their peers do not come along. */
void report_stuck_posts(const struct endpoint *end);

/* A send or receive of this rank, about to be issued, meets one of another size. places: where both
 * stand, "" if that is not known; same: that is one place. refused: it is not issued. Said once for
 * each communicator, and whenever it is refused. */
struct unequal_places {
  const char *ours, *theirs;
  bool same;
};
void report_unequal(struct communicator *comm, const struct unequal *unequal,
                    const struct unequal_places *places, bool refused);

/* All ranks agree that the unit must not be issued. */
void report_refused(const struct endpoint *end, struct unit wanted);

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

/* An exchange of the others, of which it issues no more than it is asked for, each answer for itself. */
void report_exchange(struct endpoint *end, struct unit unit);

/* "12 collectives", "0 collectives and 8 sends and receives": what a rank has issued; returns text. */
#define REPORT_COUNT 80
const char *report_count(const struct endpoint *end, uint32_t rank, uint64_t collectives,
                         char text[REPORT_COUNT]);

/* It is joined no longer: how long it was, is counted where all ranks see it. report_joined.c. */
void report_active(struct endpoint *end);

/* All ranks have left, and this one with all communicators of the team: if any has shadowed anything,
 * the lowest one says what that was and has cost (NCCL_JOIN_REPORT). Once; what the others have counted
 * is in their logs, so nobody is waited for. While the rank is in a team of these ranks and more, it is
 * left to that one's lowest rank to tell how much it was. report_uneven.c. */
void report_uneven(struct endpoint *end);

/* It is so where the others did not wait for it. */
void report_missed_rejoin(const struct endpoint *end);

/* If the unit won a settlement that was a guess (team->telling.guessed): names both units. */
void report_guess(const struct endpoint *end, struct unit won);

/* The rank has given way in this team, if that was a guess (overlap_guessed): names both units. */
void report_yield(const struct endpoint *end);

/* This rank has joined and has no buffer of its own to send from (NCCL_JOIN_LOSSY=last), and why;
 * it sends from the last one it used, where nothing tells which one it should be. */
void report_no_last(const struct endpoint *end, struct unit unit, uint32_t place,
                    const char *reason);
void report_last_untold(const struct endpoint *end, struct unit unit, uint32_t place);

/* A joined rank has spoiled a unit of the active ones. */
void report_lossy_event(const struct endpoint *end, const struct lossy_event *event);

#endif
