/* How communicators over several machines come to be: the ranks of each machine write theirs down
 * (core/machines/board.h), their agents tell each other who is there, and the root says whether all
 * are: one answer for all machines. From then on the agents write the logs of the ranks of the other
 * machines (core/agent). Not thread-safe.
 */
#ifndef TOOLS_AGENT_MEETING_H
#define TOOLS_AGENT_MEETING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/machines/board.h"
#include "tools/agent/links.h"

struct meeting;

/* NULL: reason (FRAME_TEXT_BYTES) says why. */
struct meeting *meeting_begin(struct board *board, const char *host, char *reason);

/* One turn of the agent's work: waits for the board's bell, of which a file tells, or for a link, and does
 * what there is to do. False once there is nothing left to do. */
bool meeting_turn(struct meeting *meeting, int bell);

/* It cannot go on, and what it has said does not hold any more: as if the agent had been killed. */
bool meeting_has_failed(const struct meeting *meeting);

void meeting_end(struct meeting *meeting);

#endif
