/* Tracks: what the trace files of a folder say, one rank each. The format of the files is in
 * core/report/trace.h; fields and events that are not known are skipped.
 *
 * Lines are searched for their fields, and not parsed by a library: what a crash has cut off, or a
 * full disk, counts as damaged and costs no more than its line.
 */
#ifndef NCCL_JOIN_TOOLS_REPORT_TRACKS_H
#define NCCL_JOIN_TOOLS_REPORT_TRACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum part {
  PART_NONE,
  PART_OWN,
  PART_SHADOW,
  PART_MARK, /* nccl-join's own: where a loop begins or ends, a buffer that is resynchronised */
};

/* A stretch of shadows without a unit of its own in between. */
struct join {
  uint64_t index, shadows;
};

enum doing { DOES_OWN, DOES_WAIT, DOES_SHADOW };

/* What the rank does from one time to another; wait: in a call, without anything to answer. */
struct span {
  enum doing doing;
  uint64_t from_ns, to_ns;
};

/* A collective that the rank has issued, with data of its own or as a shadow; or what a joined rank
 * has answered. */
struct issued {
  uint64_t at_ns, index;
  char *unit; /* as it stands in the trace; NULL: not known */
  int peer;   /* of a shadow: a rank that has issued it with data; -1: not known */
  bool shadow;
};

/* A line of WARN or ERROR. */
struct warning {
  uint64_t at_ns;
  char *text; /* as it stands in the trace: JSON's escapes are still there */
};

/* One rank's file. Shadows are of collectives; what a joined rank sends and receives for its peers
 * is counted apart, as `answers`: it has no index of its own. */
struct track {
  char team[32], host[64], version[32];
  char *settings; /* of the environment, a line each; likewise; NULL: not known */
  int rank;
  int given_rank;  /* in the job, by its launcher; -1: not known */
  int job_rank;    /* in the job, as far as that is known: by which it is shown */
  uint64_t nranks; /* of the communicator; 0: not known */
  uint64_t pid, group, start_ns;
  dev_t device; /* of the file, with its inode */
  ino_t inode;
  uint64_t start_unix_ns; /* the same moment as start_ns; 0: not known */
  uint64_t base;          /* the first index of which there is a record */
  unsigned char *parts;   /* enum part by index, from there on */
  uint64_t nparts, room, own, shadows, answers;
  struct join *joins;
  uint64_t njoins;
  struct span *spans;
  uint64_t nspans;
  struct issued *issued; /* in the order of their times; only if they are wanted */
  uint64_t nissued;
  struct warning *warnings;
  uint64_t nwarnings;
  bool failed, stopped, ended; /* stopped: with all ranks; ended: the rank has left, or failed */
  int because_of;              /* failed, stopped: of which rank; -1: of none, or not known */
  bool was_ended;              /* by nccl-join run, because another had failed */
  bool still_open;             /* by its process, which is still there */
  char *why;                   /* nccl-join run has ended ranks, in its words; NULL: it has not */
};

struct tracks {
  struct track *all; /* by team, the largest first; then by rank */
  size_t count;
  bool wants_issued; /* to be set before */
};

/* Reads a folder. False, having said why on stderr, if it cannot be read or has no traces. What
 * cannot be read in it is said there, too. */
bool tracks_read(struct tracks *tracks, const char *folder);
void tracks_free(struct tracks *tracks);

/* ---- what reading a folder is put together of ---- */

/* `job_rank` of all tracks: what the launcher has given them, where it has given each rank of the
 * team another; or their ranks in the largest team that all processes of theirs are ranks of; or
 * else the team's own. A process with several ranks of a team has no rank in the job. job_ranks.c.
 */
void job_ranks_find(struct tracks *tracks);

/* What nccl-join run -n has left in the folder about a run that did not end well
 * (tools/launch_record.h), into the tracks of the processes that it names: `why`, `failed`,
 * `was_ended`. Tracks with an end of their own keep it. launches.c. */
void launches_read(struct tracks *tracks, const char *folder);

/* Which of the tracks without an end are of a process that still has the file open: `still_open`.
 * Of another machine that is not known. */
void launches_find_open(struct tracks *tracks);

/* ---- what they say ---- */

/* How many tracks from one on are of its team. */
size_t tracks_of_team(const struct tracks *tracks, size_t first);

/* The team's number as the log has it (`tag 0ae8579d`), in eight digits at least. Lives as long as
 * the track. */
const char *track_team(const struct track *track);

/* " failed", or how else its trace ends: behind its row; "" if the rank has left. */
const char *track_end(const struct track *track);

/* What the rank has done at an index. */
enum part track_part(const struct track *track, uint64_t index);

/* Undoes JSON's escapes in place; what is no character of ASCII becomes '?'. */
void track_unescape(char *text);

#endif
