/* Logs of other machines' ranks: mirrors. Whoever has a rank's log writes frames of what has
 * changed in it (mirror_write), and whoever has those, in this order, has the log (mirror_apply). A
 * reader of the mirror sees nothing that a reader of the log could not have seen: of what words.h
 * says is complete before something else, the mirror has it before. No system call but for the ring
 * of mirror_tell, if somebody waits; now_ms is the machine's own clock, CLOCK_MONOTONIC in
 * milliseconds, and what a log says by it is sent as an age.
 *
 * A frame is what a peer has sent: all of it is checked before it is used. What a log says was
 * never to be trusted, and still is not.
 *
 * One thread at a time for each mirror, and for each log that is one. Words of the log are read
 * while its rank writes them.
 */
#ifndef NCCL_JOIN_CORE_MIRROR_H
#define NCCL_JOIN_CORE_MIRROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/transport/plane.h"

#define MIRROR_FRAME_MIN 512u /* room that is enough for something, whatever has changed */

/* ---- whose log it is ---- */

/* What others have of one log. At first nothing: what a new log says. NULL without memory. */
struct mirror;
struct mirror *mirror_create(void);
void mirror_destroy(struct mirror *mirror);

/* Reads how far the log is: its changes up to there are what is written. Returns whether that is as
 * it was when it was last read. If several logs, read one after the other, all say so, what has
 * been read of them is of one moment: of two changes the one that led to the other is there. */
bool mirror_read(struct mirror *mirror, const struct plane_log *log);

/* How many units had been passed in what has been read, and how many in what has been written; and
 * whether all of it has been written. */
uint64_t mirror_head(const struct mirror *mirror);
uint64_t mirror_written(const struct mirror *mirror);
bool mirror_is_written(const struct mirror *mirror);

/* The index claimed plus one, as it was read; 0: none. reals: struct log_claim. */
uint64_t mirror_claimed(const struct mirror *mirror, uint32_t *reals);

/* Writes a frame of what has changed, up to the units below an index that others are to see as
 * passed; with an index beyond mirror_head, the claim and all else, too. Returns its size in bytes,
 * at most room; 0: there is nothing left. What does not fit is in the next frame. */
size_t mirror_write(struct mirror *mirror, const struct plane_log *log, uint64_t below,
                    uint64_t now_ms, void *frame, size_t room);

/* ---- whose mirror it is ---- */

enum mirror_applied {
  MIRROR_MALFORMED, /* no frame, or not the next one of this log; part may have been applied */
  MIRROR_APPLIED,
  MIRROR_EVENT, /* and every rank must look (plane_add_event): a lossy shadow, an end */
};

/* Applies the next frame to the mirror. Afterwards: mirror_tell. */
enum mirror_applied mirror_apply(struct plane_log *log, uint64_t now_ms, const void *frame,
                                 size_t size);

/* Wakes the ranks of the team that wait on this machine, and tells them of an event. calm: of
 * the rank that says so, and need not look (plane_add_event); may be NULL. */
void mirror_tell(struct plane *plane, bool event, uint64_t *calm);

/* ---- what the ranks of a team share ---- */

/* Only ever grows: of two the larger holds. */
struct mirror_team {
  uint64_t told;
  uint32_t posting, apart;
};

/* What the team says. */
struct mirror_team mirror_team_read(const struct plane_team *team);

/* Whether a is less than b in anything. */
bool mirror_team_is_less(const struct mirror_team *a, const struct mirror_team *b);

/* Takes over what is larger. Returns whether anything was; *event: as for mirror_tell. Values that
 * cannot be are ignored. */
bool mirror_team_raise(struct plane_team *team, const struct mirror_team *said, bool *event);

#endif
