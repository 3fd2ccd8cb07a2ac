/* Relay: reading, cutting into lines, writing. See relay.h. */
#include "tools/relay.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define FIRST_SIZE                                                                                 \
  ((size_t)64 * 1024) /* of the line's buffer; it doubles when a line does not fit */

void relay_open(struct relay *relay, int source, int target, int rank) {
  *relay = (struct relay){.source = source, .target = target, .rank = rank};
  fcntl(source, F_SETFL, fcntl(source, F_GETFL) | O_NONBLOCK);
}

/* Writes all of the parts, waiting where the target is non-blocking (terminals often are). An errno
 * if they cannot be written. */
static int write_all(int target, struct iovec *parts, int nparts) {
  while (nparts > 0) {
    ssize_t n = writev(target, parts, nparts);
    if (n < 0 && errno == EAGAIN)
      poll(&(struct pollfd){.fd = target, .events = POLLOUT}, 1, -1);
    else if (n < 0 && errno != EINTR)
      return errno;
    for (; nparts > 0 && n >= (ssize_t)parts->iov_len; nparts--)
      n -= (ssize_t)(parts++)->iov_len;
    if (nparts > 0 && n > 0) {
      parts->iov_base = (char *)parts->iov_base + n;
      parts->iov_len -= (size_t)n;
    }
  }
  return 0;
}

/* Writes one line, given without its newline, with its mark: one write(2), so that other writers
 * do not cut in. False if nobody reads the target any more. */
static bool write_line(struct relay *relay, char *line, size_t length) {
  char mark[16];
  char newline[] = "\n";
  int size = snprintf(mark, sizeof(mark), "[%d] ", relay->rank);
  struct iovec parts[] = {{mark, (size_t)size}, {line, length}, {newline, 1}};
  int error = write_all(relay->target, parts, 3);
  if (relay->lost == 0)
    relay->lost = error;
  return error != EPIPE;
}

/* Passes on all whole lines of the buffer and keeps the rest. The bytes before scanned are known
 * to have no newline. */
static bool pass_lines(struct relay *relay, size_t scanned) {
  char *start = relay->line, *end = relay->line + relay->used, *newline;
  char *from = start + scanned;
  while ((newline = memchr(from, '\n', (size_t)(end - from)))) {
    if (!write_line(relay, start, (size_t)(newline - start)))
      return false;
    start = from = newline + 1;
  }
  relay->used = (size_t)(end - start);
  memmove(relay->line, start, relay->used);
  if (relay->used < RELAY_LINE_MAX)
    return true;
  bool good = write_line(relay, relay->line, relay->used);
  relay->used = 0;
  return good;
}

static bool make_room(struct relay *relay) {
  if (relay->used < relay->size)
    return true;
  size_t size = relay->size ? relay->size * 2 : FIRST_SIZE;
  char *line = realloc(relay->line, size);
  if (!line)
    return false;
  relay->line = line;
  relay->size = size;
  return true;
}

void relay_pump(struct relay *relay) {
  if (!relay_is_open(relay))
    return;
  ssize_t n = 0;
  if (make_room(relay)) {
    n = read(relay->source, relay->line + relay->used, relay->size - relay->used);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
      return;
  }
  if (n <= 0) {
    relay_close(relay);
    return;
  }
  size_t scanned = relay->used;
  relay->used += (size_t)n;
  if (!pass_lines(relay, scanned)) {
    relay->used = 0;
    relay_close(relay);
  }
}

void relay_close(struct relay *relay) {
  if (!relay_is_open(relay))
    return;
  if (relay->used > 0)
    write_line(relay, relay->line, relay->used);
  close(relay->source);
  free(relay->line);
  relay->source = -1;
  relay->line = NULL;
  relay->used = 0;
}
