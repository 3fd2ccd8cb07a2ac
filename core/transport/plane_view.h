/* What may be asked, and said, of the ranks of a team by those who have no part in the agreement:
 * who waits for what, who has left, who has failed. Any thread may ask. What is said was true a
 * moment ago.
 *
 * The words of logs and teams (words.h) are for core/transport alone.
 */
#ifndef NCCL_JOIN_CORE_PLANE_VIEW_H
#define NCCL_JOIN_CORE_PLANE_VIEW_H

#include "core/transport/plane.h"

/* How many units a rank has passed. */
uint64_t plane_passed(const struct plane *plane, uint32_t rank);

/* Whether a rank claims the unit after those: it is parked in this team. */
bool plane_is_parked(const struct plane *plane, uint32_t rank);

enum rank_state plane_state(const struct plane *plane, uint32_t rank);

/* Whether any rank has failed; and whether one has died (log_has_died). */
bool plane_has_failed(const struct plane *plane);
bool plane_has_died(const struct plane *plane);

/* Whether a rank has failed, and has said so itself. */
bool plane_has_given_up(const struct plane *plane, uint32_t rank);

/* Whether a rank has failed after another one had. */
bool plane_has_followed(const struct plane *plane, uint32_t rank);

/* Whether a rank's process is parked in a LEAVE, of this team or another. */
bool plane_is_leaving(const struct plane *plane, uint32_t rank);

/* Since when it waits in its call, in milliseconds of the machine's clock; 0: it does not. The rank
 * itself says so. */
uint64_t plane_parked_since(const struct plane *plane, uint32_t rank);
void plane_say_parked(struct plane *plane, uint64_t since_ms);

/* What a rank has done for the others: how many collectives it has shadowed, and for how many
 * milliseconds it has been joined. The rank itself says so: for how long until it last came back,
 * and since when (on the machine's clock) it has been joined now; 0: it is not. Who reads what a
 * rank has claimed later reads all that it has said before. */
struct plane_joined {
  uint64_t shadows, ms;
};
struct plane_joined plane_joined(const struct plane *plane, uint32_t rank, uint64_t now_ms);
void plane_say_joined(struct plane *plane, struct plane_joined joined, uint64_t since_ms);

/* Shadows of smaller teams, which a larger team reports: how many such teams had any, and how many
 * they had. The lowest rank of a smaller team calls plane_leave_parts with the plane of a larger
 * one in which it is, too: it adds to what this rank has left; false: the larger team has reported
 * already. The lowest rank of the larger team calls plane_take_parts: the sum over all ranks. */
struct plane_parts {
  uint32_t teams, shadows;
};
bool plane_leave_parts(struct plane *plane, struct plane_parts more);
struct plane_parts plane_take_parts(struct plane *plane);

/* The name of the machine on which a rank is; NULL: this one. */
const char *plane_machine(const struct plane *plane, uint32_t rank);

/* Whether any rank is on another machine. */
bool plane_has_machines(const struct plane *plane);

/* Sends and receives that a rank has issued of its own, as far as they are tracked. */
uint64_t plane_operations(const struct plane *plane, uint32_t rank);

/* How a rank has ended; END_UNKNOWN also if it has not. */
struct plane_fate plane_fate(const struct plane *plane, uint32_t rank);

/* enum entry_flag of a unit that a rank has passed, one of its last PLANE_RUN_AHEAD. */
uint32_t plane_flags(const struct plane *plane, uint32_t rank, uint64_t index);

/* unit_hash of what a rank has passed at an index, or claims there and does not yield; false if it
 * has not come there. */
bool plane_hash(const struct plane *plane, uint32_t rank, uint64_t index, uint64_t *hash);

/* The ranks do not agree on anything any more (interpose/comm/apart.h): says so to all of them, and
 * wakes them. False if that has been said before. Whether it has: team_is_apart. */
bool plane_set_apart(struct plane *plane);

#endif
