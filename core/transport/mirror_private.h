/* What the files of mirrors (mirror.h) share: how a frame is written and read. mirror.c reads a log
 * and writes frames, mirror_apply.c applies them. Not for anybody else.
 *
 * A frame: MIRROR_VERSION, then parts, in the order in which they are applied. A part: a byte that
 * says which, then what is below. Numbers are LEB128; `signed` ones have their sign in the lowest
 * bit.
 *   QUIET       nothing: what the rank answered it does no longer
 *   TEXT        bytes of texts before, words, the words: a byte that says which of their bytes are
 *               not 0, then these
 *   OPERATIONS  begin, the first, how many; of each its fields
 *   PAIRS       how many; of each where it stands, its key, how many operations have been issued
 *   WORDS       how many; of each which (mirror_words), its value
 *   ENTRIES     the first, how many; of each what is not as it was to be (enum entry_part)
 *   CLAIM       the claim's index against the head, signed, and 1 if fields follow; the fields
 *   TAKEN       nothing: the claim is gone
 */
#ifndef NCCL_JOIN_CORE_MIRROR_PRIVATE_H
#define NCCL_JOIN_CORE_MIRROR_PRIVATE_H

#include <string.h>

#include "core/transport/logs.h"
#include "core/transport/mirror.h"
#include "core/transport/operations.h"

#define MIRROR_VERSION 1u

enum mirror_part {
  PART_QUIET = 1,
  PART_TEXT,
  PART_OPERATIONS,
  PART_PAIRS,
  PART_WORDS,
  PART_ENTRIES,
  PART_CLAIM,
  PART_TAKEN,
};

/* What is said of an entry. The rest is as in the entry before it: the same flags, ranks and start
 * of its run; and one real more, if the entry is real. */
enum entry_part {
  ENTRY_SAYS_HASH = 1 << 0,  /* 8 bytes; else as so many entries before ... */
  ENTRY_SAYS_BACK = 1 << 1,  /* ... as is said here; else as for the entry before */
  ENTRY_SAYS_REALS = 1 << 2, /* signed, against what they would be */
  ENTRY_SAYS_START = 1 << 3, /* index minus it */
  ENTRY_SAYS_FLAGS = 1 << 4,
  ENTRY_SAYS_RANKS = 1 << 5,
  ENTRY_SAYS = (1 << 6) - 1,
};
#define ENTRY_BACK_MAX 1024u
#define ENTRY_BYTES_MAX 48u

/* Which words: rarely written ones. Those of a kind are times. */
enum word_kind {
  WORD_PLAIN,
  WORD_TIME, /* milliseconds of the machine's clock; 0: none */
  WORD_SINCE, /* the same, for people: the age is up to a fifth less, so that ranks which have come to one
                  point at about one time say the same of it (ITEM_SAME, core/agent/agent_private.h) */
  WORD_JOINED, /* joined_time: its low half is one */
};
enum word_when {
  WORD_EARLY, /* before what is published with the head */
  WORD_LATE,  /* with the claim, and before it */
  WORD_LAST,  /* behind it */
};
struct mirror_word {
  uint16_t at; /* offset in struct plane_log */
  uint8_t bytes, kind, when;
};
#define MIRROR_WORDS 24u
/* In the order in which they are applied. */
extern const struct mirror_word mirror_words[MIRROR_WORDS];
/* Rows that are named here stand at these numbers there: one above them moves them. */
enum { WORD_LOSSY_COUNT = 7, WORD_ANSWERING = 20, WORD_UNSTEADY = 21, WORD_STATE = 23 };
_Static_assert(WORD_STATE == MIRROR_WORDS - 1, "no row is missing, or behind the last one");

uint64_t mirror_word_load(const struct plane_log *log, uint32_t word);
void mirror_word_store(struct plane_log *log, uint32_t word, uint64_t value);

/* A word as it is sent, and back: times are ages meanwhile. */
uint64_t mirror_word_send(uint32_t word, uint64_t value, uint64_t now_ms);
uint64_t mirror_word_receive(uint32_t word, uint64_t value, uint64_t now_ms);

/* ---- bytes ---- */

struct mirror_out {
  unsigned char *at, *end;
};
struct mirror_in {
  const unsigned char *at, *end;
  bool bad; /* it has ended before, or has a number that is too large */
};

static inline size_t mirror_room(const struct mirror_out *out) {
  return (size_t)(out->end - out->at);
}

static inline void mirror_put(struct mirror_out *out, uint64_t number) {
  for (; number >= 0x80; number >>= 7)
    *out->at++ = (unsigned char)(number | 0x80);
  *out->at++ = (unsigned char)number;
}

static inline void mirror_put_8(struct mirror_out *out, uint64_t number) {
  memcpy(out->at, &number, sizeof(number));
  out->at += sizeof(number);
}

static inline uint64_t mirror_signed(uint64_t difference) {
  return difference << 1 ^ (UINT64_C(0) - (difference >> 63));
}

static inline uint64_t mirror_unsigned(uint64_t number) {
  return number >> 1 ^ (0 - (number & 1));
}

static inline uint64_t mirror_get(struct mirror_in *in) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 64 && in->at < in->end; shift += 7) {
    unsigned char byte = *in->at++;
    if (shift == 63 && byte > 1)
      break;
    number |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80))
      return number;
  }
  in->bad = true;
  return 0;
}

/* At most `most`. */
static inline uint64_t mirror_get_up_to(struct mirror_in *in, uint64_t most) {
  uint64_t number = mirror_get(in);
  in->bad |= number > most;
  return in->bad ? 0 : number;
}

static inline uint64_t mirror_get_8(struct mirror_in *in) {
  uint64_t number = 0;
  if (in->end - in->at < 8) {
    in->bad = true;
    return 0;
  }
  memcpy(&number, in->at, sizeof(number));
  in->at += sizeof(number);
  return number;
}

#endif
