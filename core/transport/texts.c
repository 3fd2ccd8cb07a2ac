/* The ring of texts in a log (texts.h). */
#include "core/transport/texts.h"

#include <string.h>

#include "core/transport/words.h"

#define TEXT_WORDS (PLANE_TEXT / 8)
#define POSITION_BITS (32 - ENTRY_FLAG_BITS) /* of a text, in an entry; 0: it names none */
#define POSITIONS (UINT32_C(1) << POSITION_BITS)

_Static_assert(TEXT_WORDS < POSITIONS, "positions tell all texts of the ring apart");

uint64_t text_begin(uint64_t end, uint64_t bytes) {
  uint64_t begin = end;
  if (begin % PLANE_TEXT + bytes > PLANE_TEXT)
    begin += PLANE_TEXT - begin % PLANE_TEXT;
  if (begin / 8 % POSITIONS == 0) /* that would name none */
    begin += 8;
  return begin;
}

uint32_t text_position(uint64_t begin) {
  return (uint32_t)(begin / 8);
}

uint64_t text_named(uint64_t end, uint32_t position) {
  uint32_t back = (uint32_t)(end / 8) - position;
  return end - 8 * (uint64_t)(back % POSITIONS);
}

void text_write(struct plane_log *own, uint64_t begin, uint64_t at, const void *from,
                uint64_t bytes) {
  _Atomic uint64_t *text = own->text + begin / 8 % TEXT_WORDS + at / 8;
  for (uint64_t done = 0; done < bytes; done += 8) {
    uint64_t value = 0;
    memcpy(&value, (const char *)from + done, bytes - done < 8 ? bytes - done : 8);
    atomic_store_explicit(&text[done / 8], value, memory_order_relaxed);
  }
}

void text_show(struct plane_log *own, uint64_t end) {
  atomic_store_explicit(&own->text_end, end, memory_order_release);
}

bool text_read(const struct plane_log *log, uint32_t position, uint64_t at, void *to,
               uint64_t bytes) {
  uint64_t word = position % TEXT_WORDS + at / 8;
  if (word + (bytes + 7) / 8 > TEXT_WORDS)
    return false;
  const _Atomic uint64_t *text = log->text + word;
  for (uint64_t done = 0; done < bytes; done += 8) {
    uint64_t value = atomic_load_explicit(&text[done / 8], memory_order_relaxed);
    memcpy((char *)to + done, &value, bytes - done < 8 ? bytes - done : 8);
  }
  return true;
}
