/* Relay: passes the output of several processes on, every line marked with the rank that wrote it.
 *
 * One relay per rank and stream: the read end of a pipe, and the part of its last line that has
 * not ended yet. Only whole lines are passed on, so lines of several ranks never mix; bytes are
 * left as they are, zeros included. A line longer than RELAY_LINE_MAX is passed on in pieces, each
 * ended and marked as a line, because waiting for its end could take for ever. A last line without
 * a newline gets one. One thread.
 */
#ifndef NCCL_JOIN_TOOLS_RELAY_H
#define NCCL_JOIN_TOOLS_RELAY_H

#include <stdbool.h>
#include <stddef.h>

#define RELAY_LINE_MAX ((size_t)1024 * 1024)

struct relay {
  int source; /* read end of the rank's pipe, non-blocking; -1: ended */
  int target; /* the launcher's own stdout or stderr */
  int rank;
  char *line; /* grows up to RELAY_LINE_MAX; owned */
  size_t used, size;
  int lost; /* errno of the first line that could not be written; 0: all could */
};

/* Takes over the descriptor source. */
void relay_open(struct relay *relay, int source, int target, int rank);

/* Reads once, without waiting, and passes on the lines that are whole then. At the end of the
 * source, or when nobody reads the target any more, the relay is closed: the rank then sees the
 * same as if it had written there itself. A line that cannot be written for another reason (a full
 * disk) is lost, and the rank goes on: most programs do not look whether their lines are written.
 */
void relay_pump(struct relay *relay);

/* Passes on an unfinished last line and closes the source. May be called twice. */
void relay_close(struct relay *relay);

static inline bool relay_is_open(const struct relay *relay) {
  return relay->source >= 0;
}

#endif
