/* The rarely written words of a log, as mirrors have them (mirror_private.h). */
#include "core/transport/mirror_private.h"

#define WORD(name, kind_, when_)                                                                   \
  { offsetof(struct plane_log, name), sizeof(((struct plane_log *)NULL)->name), kind_, when_ }

/* Of two words that a rank writes one after the other, and reads of others in the other order, the
 * first is above the second; of those that it takes away in that order, too. */
const struct mirror_word mirror_words[MIRROR_WORDS] = {
    WORD(mirrored, WORD_PLAIN, WORD_EARLY),
    WORD(refused_for, WORD_PLAIN, WORD_EARLY),
    WORD(begun, WORD_PLAIN, WORD_EARLY),
    WORD(begun_within, WORD_PLAIN, WORD_EARLY),
    WORD(lossy_kind, WORD_PLAIN, WORD_LATE),
    WORD(lossy_peer, WORD_PLAIN, WORD_LATE),
    WORD(lossy_index, WORD_PLAIN, WORD_LATE),
    [WORD_LOSSY_COUNT] = WORD(lossy_count, WORD_PLAIN, WORD_LATE),
    WORD(shadows, WORD_PLAIN, WORD_LATE),
    WORD(joined_time, WORD_JOINED, WORD_LATE),
    WORD(parts, WORD_PLAIN, WORD_LATE),
    WORD(summed_up, WORD_PLAIN, WORD_LATE),
    WORD(keeps_step, WORD_PLAIN, WORD_LATE),
    WORD(busy_until, WORD_TIME, WORD_LATE),
    WORD(asks_about, WORD_PLAIN, WORD_LATE),
    WORD(holds, WORD_PLAIN, WORD_LATE),
    WORD(moves, WORD_PLAIN, WORD_LATE),
    WORD(asks, WORD_PLAIN, WORD_LATE),
    WORD(leaving, WORD_PLAIN, WORD_LATE),
    WORD(parked_ms, WORD_SINCE, WORD_LATE),
    [WORD_ANSWERING] = WORD(answering, WORD_PLAIN, WORD_LATE),
    [WORD_UNSTEADY] = WORD(unsteady, WORD_PLAIN, WORD_LATE),
    WORD(failed_index, WORD_PLAIN, WORD_LAST),
    [WORD_STATE] = WORD(state, WORD_PLAIN, WORD_LAST),
};
/* A new word of a log is one of these, or has a part of a frame of its own. The exception is
 * `awaits`, which is for the machine's own agent. */
_Static_assert(PLANE_VERSION == 41, "every word of a log is mirrored");

static const void *word_of(const struct plane_log *log, uint32_t word) {
  return (const unsigned char *)log + mirror_words[word].at;
}

uint64_t mirror_word_load(const struct plane_log *log, uint32_t word) {
  const void *at = word_of(log, word);
  return mirror_words[word].bytes == 4 ? atomic_load((const _Atomic uint32_t *)at)
                                       : atomic_load((const _Atomic uint64_t *)at);
}

void mirror_word_store(struct plane_log *log, uint32_t word, uint64_t value) {
  void *at = (unsigned char *)log + mirror_words[word].at;
  if (mirror_words[word].bytes == 4)
    atomic_store((_Atomic uint32_t *)at, (uint32_t)value);
  else
    atomic_store((_Atomic uint64_t *)at, value);
}

/* ---- times ---- */

/* 0 is none, and nothing else. */
static uint64_t age_of(uint64_t time, uint64_t now_ms) {
  return time == 0 ? 0 : mirror_signed(now_ms - time) + 1;
}

static uint64_t time_of(uint64_t age, uint64_t now_ms) {
  uint64_t time = now_ms - mirror_unsigned(age - 1);
  return age == 0 ? 0 : time == 0 ? 1 : time;
}

/* Of an age its three highest bits. */
static uint64_t about_age(uint64_t age) {
  unsigned bits = age < 8 ? 3 : 64 - (unsigned)__builtin_clzll(age);
  return age >> (bits - 3) << (bits - 3);
}

uint64_t mirror_word_send(uint32_t word, uint64_t value, uint64_t now_ms) {
  uint32_t since = (uint32_t)value, now = (uint32_t)now_ms;
  switch ((enum word_kind)mirror_words[word].kind) {
  case WORD_PLAIN:
    break;
  case WORD_TIME:
    return age_of(value, now_ms);
  case WORD_SINCE:
    return age_of(value == 0 || value > now_ms ? value : now_ms - about_age(now_ms - value),
                  now_ms);
  case WORD_JOINED: /* what lies ahead is no age */
    return value >> 32 << 32 | (since == 0 ? 0 : now - since == UINT32_MAX ? 1 : now - since + 1);
  }
  return value;
}

uint64_t mirror_word_receive(uint32_t word, uint64_t value, uint64_t now_ms) {
  uint32_t age = (uint32_t)value, since = (uint32_t)now_ms - (age - 1);
  switch ((enum word_kind)mirror_words[word].kind) {
  case WORD_PLAIN:
    break;
  case WORD_TIME:
  case WORD_SINCE:
    return time_of(value, now_ms);
  case WORD_JOINED:
    return value >> 32 << 32 | (age == 0 ? 0 : since == 0 ? 1 : since);
  }
  return value;
}
