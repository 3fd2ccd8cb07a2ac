/* The members of units in a log's text ring: written by its owner, read by everybody (plane.h). */
#include "core/team_private.h"

#define TEXT_WORDS (PLANE_TEXT / 8)
#define TEXT_HEADER 2u /* words before the members */
#define MEMBER_WORDS (sizeof(struct member) / 8)
#define POSITION_BITS (32 - ENTRY_FLAG_BITS) /* of a text, in an entry; 0: it names none */

uint64_t team_slowest(const struct team *team) {
  uint64_t head = team->head;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    uint64_t other = atomic_load_explicit(&team->plane->logs[rank]->head, memory_order_acquire);
    if (other < head)
      head = other;
  }
  return head;
}

/* The first byte of text that a rank which stands at index `from` may still read: that of the first
 * unit from there on that this rank has claimed. If it was expected where it was issued, nobody
 * follows the text there, but who stands before may be settling an index at which it was claimed.
 */
static uint64_t text_needed(const struct team *team, uint64_t from) {
  for (uint64_t at = from; at < team->head; at++) {
    uint32_t flags = LOAD(team->own->entries[at % PLANE_RING].flags);
    if ((flags & (ENTRY_REAL | ENTRY_NO_UNIT)) != ENTRY_REAL || flags >> ENTRY_FLAG_BITS == 0)
      continue;
    uint32_t back = (uint32_t)(team->text_end / 8) - (flags >> ENTRY_FLAG_BITS);
    return team->text_end - 8 * (uint64_t)(back & (UINT32_MAX >> ENTRY_FLAG_BITS));
  }
  return team->text_end;
}

bool team_write_text(struct team *team) {
  struct unit unit = team->claim;
  uint32_t nmembers = unit.nmembers <= UNIT_MEMBERS_MAX ? unit.nmembers : 0;
  uint64_t size = 8 * (TEXT_HEADER + MEMBER_WORDS * nmembers);
  uint64_t begin = team->text_end;
  if (begin % PLANE_TEXT + size > PLANE_TEXT)
    begin += PLANE_TEXT - begin % PLANE_TEXT;
  if (begin / 8 % (UINT64_C(1) << POSITION_BITS) == 0) /* that would name none */
    begin += 8;
  if (begin + size - text_needed(team, team_slowest(team)) > PLANE_TEXT)
    return false;
  _Atomic uint64_t *text = team->own->text;
  uint64_t word = begin / 8 % TEXT_WORDS;
  STORE(text[word], unit.nmembers);
  STORE(text[word + 1], team->claim_hash);
  for (uint64_t i = 0; i < MEMBER_WORDS * nmembers; i++) {
    uint64_t value;
    memcpy(&value, (const char *)unit.members + 8 * i, sizeof(value));
    STORE(text[word + TEXT_HEADER + i], value);
  }
  team->claim_text = (uint32_t)(begin / 8);
  team->text_end = begin + size;
  return true;
}

enum read_result team_read_text(struct team *team, const struct plane_log *log, uint32_t position,
                                uint64_t *hash, struct unit *unit) {
  const _Atomic uint64_t *text = log->text;
  uint64_t word = position % TEXT_WORDS;
  if (word + TEXT_HEADER > TEXT_WORDS)
    return READ_CORRUPT;
  uint64_t nmembers = LOAD(text[word]);
  *hash = LOAD(text[word + 1]);
  if (nmembers > UNIT_MEMBERS_MAX)
    return READ_TOO_BIG;
  if (nmembers == 0 || word + TEXT_HEADER + MEMBER_WORDS * nmembers > TEXT_WORDS)
    return READ_CORRUPT;
  for (uint64_t i = 0; i < MEMBER_WORDS * nmembers; i++) {
    uint64_t value = LOAD(text[word + TEXT_HEADER + i]);
    memcpy((char *)team->members_followed + 8 * i, &value, sizeof(value));
  }
  *unit = (struct unit){team->members_followed, (uint32_t)nmembers};
  return unit_hash(*unit) == *hash ? READ_UNIT : READ_CORRUPT;
}
