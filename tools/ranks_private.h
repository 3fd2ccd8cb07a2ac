/* The parts of nccl-join-ranks: starting ranks and passing on what they write (ranks.c), and what
 * becomes of all when one ends (ranks_ends.c). */
#ifndef NCCL_JOIN_TOOLS_RANKS_PRIVATE_H
#define NCCL_JOIN_TOOLS_RANKS_PRIVATE_H

#include <stdbool.h>
#include <sys/types.h>

#include "tools/ranks_options.h"
#include "tools/relay.h"

#define RANKS_GRACE_MS 5000 /* from SIGTERM to SIGKILL */

struct rank {
  pid_t pid;  /* and process group; a zombie until the end, so that the number stays its own */
  bool ended; /* status is valid */
  bool told;  /* it was to end then */
  int status; /* as a shell gives it */
  struct relay out, err;
};

struct launch {
  struct options options;
  int port;
  int signals; /* signalfd */
  struct rank *ranks;
  sigset_t mask_before; /* what the ranks start with, as pipe_handler_before */
  void (*pipe_handler_before)(int);
  int status;    /* to exit with */
  char why[640]; /* not 0 */
  bool stopping; /* SIGTERM has been sent */
  bool lost;     /* lines of ranks could not be written, and that has been said */
  bool awaiting; /* rank `failed` has ended because rank `first` had failed, which is to end, too */
  int failed, first;
  long deadline_ms; /* for SIGKILL, while stopping; for rank `first`, while awaiting */
};

/* Of CLOCK_MONOTONIC. */
long ranks_now_ms(void);

/* Signals every rank's process group; with only_running not those whose rank has ended, which may
 * have left processes behind. */
void ranks_signal(struct launch *launch, int number, bool only_running);

/* Sends a signal to the ranks that run, and ends them for good after RANKS_GRACE_MS. */
void ranks_stop(struct launch *launch, int number);

bool ranks_have_ended(const struct launch *launch);

/* Looks which ranks have ended. The one that failed first is named, gives the status, and ends the
 * others. Where several have ended: first_pid, if it is one of them; that one was the first to end.
 */
void ranks_look(struct launch *launch, int first_pid);

/* The deadline has passed. */
void ranks_late(struct launch *launch);

/* Told to stop: passes the signal on; told again, ends all at once. */
void ranks_take_signal(struct launch *launch, int number);

/* For nccl-join report. */
void ranks_record(const struct launch *launch);

#endif
