/* How communicators over several machines come to be: the ranks of each machine write theirs down
 * (core/machines/board.h), their agents tell each other who is there, and the root says whether all
 * are: one answer for all machines. From then on the agents write the logs of the ranks of the
 * other machines (core/agent). One thread at a time, but for meeting_await.
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

/* Waits for a link, for what is looked at from time to time, or until a file can be read: as
 * links_prepare and links_await. */
void meeting_prepare(struct meeting *meeting, int file);
void meeting_await(struct meeting *meeting);

/* Whether it waits for longer than it is to by now. */
bool meeting_waits_too_long(const struct meeting *meeting);

/* One turn of the agent's work: what has come, and what there is to do. awaited: meeting_await has
 * returned; else the board's bell has rung. False once there is nothing left to do. */
bool meeting_turn(struct meeting *meeting, bool awaited);

/* It cannot go on, and what it has said does not hold any more: as if the agent had been killed. */
bool meeting_has_failed(const struct meeting *meeting);

void meeting_end(struct meeting *meeting);

#endif
