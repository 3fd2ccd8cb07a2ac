/* A file of lines that outlives its process: mapped, so that what a process has written is there
 * however it ends, and bounded: once it is full, the oldest lines make room for new ones.
 *
 * The file grows by RING_CHUNK bytes, whose memory is taken before they are touched: on a full disk
 * that is an error here, not a SIGBUS. It is open only while it grows; a program that closes
 * descriptors does no harm. (One that truncates the file does.)
 *
 * What a reader finds: whole lines that begin with '{', in the order of time from some line on, and
 * then from the first one behind the header up to there; empty lines; and where the process was
 * killed while it wrote, at most one line that does not begin with '{', or zeros at the end. Not
 * thread-safe.
 */
#ifndef NCCL_JOIN_CORE_RING_H
#define NCCL_JOIN_CORE_RING_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define RING_CHUNK ((size_t)64 << 10)

struct ring {
  char path[PATH_MAX]; /* absolute: the program may change its folder */
  dev_t device;
  ino_t inode;
  char *map;     /* limit bytes, of which the file has `room`; NULL: closed */
  size_t mapped; /* bytes of map */
  size_t limit;  /* the file is never larger */
  size_t room;   /* bytes of the file */
  size_t header; /* bytes in front that stay */
  size_t at;     /* where the next line goes */
  bool full;     /* it has begun to overwrite */
};

/* Makes the file in ring->path, which must not exist, with the lines that stay. limit: at least
 * RING_CHUNK. Returns 0 or an errno. */
int ring_create(struct ring *ring, size_t limit, const char *header, size_t size);

/* Adds a line: at most RING_CHUNK / 2 bytes, the last of which is a newline. Returns 0, or once the
 * errno with which the file could not grow: it keeps the size that it has then, and the line has
 * been added all the same if that is enough for it. */
int ring_add(struct ring *ring, const char *line, size_t size);

/* Cuts off what is not used. */
void ring_trim(struct ring *ring);

/* The same, and lets the file go. */
void ring_close(struct ring *ring);

#endif
