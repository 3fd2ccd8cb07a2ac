/* Reads with one system call what was read the last time (python_ahead.h). */
#include "interpose/places/python/python_ahead.h"

#include "interpose/places/python/python_memory.h"

#include <stdatomic.h>
#include <string.h>

/* Room for some 200 frames, of each of which the beginning of its code is read, and the frames
 * themselves lie side by side; what does not fit is read by itself. */
enum { PIECES = 256, BYTES = 48 * 1024 };

/* A piece costs as much as some thousand bytes: pieces that are so near to each other are one.
 * There are no two pages between them, so what lies there can be read, too. */
enum { NEAR = 2048 };

struct piece {
  uint64_t from, end;
};

struct pieces {
  uint32_t n;
  struct piece of[PIECES];
};

struct python_ahead {
  struct pieces lists[2], *last, *now;
  uint8_t copy[BYTES];
};

static struct python_ahead the_one = {.last = &the_one.lists[0], .now = &the_one.lists[1]};
static atomic_flag is_busy = ATOMIC_FLAG_INIT; /* for good in the child of a fork meanwhile */

/* Reads the last pieces, one behind the other; as many as there is room for. */
static void read_all(struct python_ahead *ahead) {
  struct iovec from[PIECES];
  size_t bytes = 0;
  uint32_t n = 0;
  for (const struct piece *piece = ahead->last->of; n < ahead->last->n; n++, piece++) {
    from[n] = (struct iovec){(void *)piece->from, piece->end - piece->from};
    if (from[n].iov_len > BYTES - bytes)
      break;
    bytes += from[n].iov_len;
  }
  ahead->last->n = n != 0 && python_memory_read_pieces(ahead->copy, from, n) ? n : 0;
}

struct python_ahead *python_ahead_begin(void) {
  struct python_ahead *ahead = &the_one;
  if (atomic_flag_test_and_set_explicit(&is_busy, memory_order_acquire))
    return NULL;
  ahead->now->n = 0;
  read_all(ahead);
  return ahead;
}

void python_ahead_end(struct python_ahead *ahead) {
  if (ahead == NULL)
    return;
  struct pieces *now = ahead->now;
  ahead->now = ahead->last;
  ahead->last = now;
  atomic_flag_clear_explicit(&is_busy, memory_order_release);
}

static bool is_near(const struct piece *piece, uint64_t from, uint64_t end) {
  uint64_t first = piece->from < from ? piece->from : from;
  return (piece->end > end ? piece->end : end) - first <= NEAR;
}

static void note_piece(struct pieces *pieces, uint64_t from, uint64_t end) {
  struct piece *piece = pieces->of;
  while (piece < pieces->of + pieces->n && !is_near(piece, from, end))
    piece++;
  if (piece == pieces->of + PIECES)
    return;
  if (piece == pieces->of + pieces->n)
    pieces->of[pieces->n++] = (struct piece){from, end};
  if (from < piece->from)
    piece->from = from;
  if (end > piece->end)
    piece->end = end;
}

static const uint8_t *find_copy(const struct python_ahead *ahead, uint64_t from, uint64_t end) {
  const uint8_t *copy = ahead->copy;
  const struct piece *piece = ahead->last->of, *behind = piece + ahead->last->n;
  for (; piece < behind; copy += piece->end - piece->from, piece++)
    if (from >= piece->from && end <= piece->end)
      return copy + (from - piece->from);
  return NULL;
}

bool python_ahead_read(struct python_ahead *ahead, void *to, uint64_t from, size_t size) {
  const uint8_t *copy = ahead == NULL ? NULL : find_copy(ahead, from, from + size);
  if (copy != NULL)
    memcpy(to, copy, size);
  else if (!python_memory_read(to, from, size))
    return false;
  if (ahead != NULL)
    note_piece(ahead->now, from, from + size);
  return true;
}

uint64_t python_ahead_word(struct python_ahead *ahead, uint64_t from) {
  uint64_t word;
  return python_ahead_read(ahead, &word, from, sizeof(word)) ? word : 0;
}
