/* The members of units in a log's text ring: written by its owner, read by everybody (plane.h). */
#include "core/team/team_private.h"

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

/* Words of a place in a text; 0 if there is none. */
static uint64_t place_words(const struct place *place) {
  return place->id == 0 ? 0 : (place->nnodes * sizeof(struct place_node) + PLACE_TEXT_MAX + 7) / 8;
}

static void write_words(_Atomic uint64_t *text, const void *from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    uint64_t value = 0;
    memcpy(&value, (const char *)from + at, bytes - at < 8 ? bytes - at : 8);
    STORE(text[at / 8], value);
  }
}

static void read_words(const _Atomic uint64_t *text, void *to, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 8) {
    uint64_t value = LOAD(text[at / 8]);
    memcpy((char *)to + at, &value, bytes - at < 8 ? bytes - at : 8);
  }
}

/* The nodes and then what messages say: as they lie in struct place, with room for no more nodes
 * than there are. */
struct packed_place {
  unsigned char bytes[sizeof(struct place_node) * PLACE_NODES_MAX + PLACE_TEXT_MAX];
};

/* Words of the looks of so many members. */
static uint64_t look_words(uint64_t nmembers) {
  return (nmembers * sizeof(look_t) + 7) / 8;
}

bool team_write_text(struct team *team) {
  struct unit unit = team->claim.unit;
  const struct place *place = &team->claim.place;
  uint32_t nmembers = unit.nmembers <= UNIT_MEMBERS_MAX ? unit.nmembers : 0;
  uint64_t words = nmembers == 0 ? 0 : place_words(place);
  uint64_t looks = team->claim.looks_known ? look_words(nmembers) : 0;
  uint64_t size = 8 * (TEXT_HEADER + MEMBER_WORDS * nmembers + looks + words);
  uint64_t begin = team->text_end;
  if (begin % PLANE_TEXT + size > PLANE_TEXT)
    begin += PLANE_TEXT - begin % PLANE_TEXT;
  if (begin / 8 % (UINT64_C(1) << POSITION_BITS) == 0) /* that would name none */
    begin += 8;
  if (begin + size - text_needed(team, team_slowest(team)) > PLANE_TEXT)
    return false;
  _Atomic uint64_t *text = team->own->text + begin / 8 % TEXT_WORDS;
  STORE(text[0], unit.nmembers | (words == 0 ? 0 : (uint64_t)(place->nnodes + 1) << 32) |
                     (looks == 0 ? 0 : PLANE_TEXT_LOOKS));
  STORE(text[1], team->claim.hash);
  write_words(text + TEXT_HEADER, unit.members, 8 * MEMBER_WORDS * nmembers);
  if (looks != 0)
    write_words(text + TEXT_HEADER + MEMBER_WORDS * nmembers, team->claim.looks,
                nmembers * sizeof(look_t));
  if (words != 0) {
    struct packed_place packed;
    uint64_t nodes = place->nnodes * sizeof(struct place_node);
    memcpy(packed.bytes, place->nodes, nodes);
    memcpy(packed.bytes + nodes, place->text, PLACE_TEXT_MAX);
    write_words(text + TEXT_HEADER + MEMBER_WORDS * nmembers + looks, packed.bytes,
                nodes + PLACE_TEXT_MAX);
  }
  team->claim.text = (uint32_t)(begin / 8);
  team->text_end = begin + size;
  return true;
}

static const struct place *read_place(struct team *team, const _Atomic uint64_t *text,
                                      uint32_t nnodes, uint32_t id) {
  struct place *place = &team->followed.place;
  struct packed_place packed;
  uint64_t nodes = nnodes * sizeof(struct place_node);
  *place = (struct place){.id = id, .nnodes = nnodes};
  read_words(text, packed.bytes, nodes + PLACE_TEXT_MAX);
  memcpy(place->nodes, packed.bytes, nodes);
  memcpy(place->text, packed.bytes + nodes, PLACE_TEXT_MAX);
  place_clean_text(place);
  return place;
}

enum read_result team_read_text(struct team *team, const struct plane_log *log, uint32_t position,
                                struct text *out) {
  uint64_t word = position % TEXT_WORDS;
  if (word + TEXT_HEADER > TEXT_WORDS)
    return READ_CORRUPT;
  const _Atomic uint64_t *text = log->text + word;
  uint64_t header = LOAD(text[0]), nmembers = header & UINT32_MAX;
  uint64_t nnodes = (header & ~PLANE_TEXT_LOOKS) >> 32;
  bool looks = (header & PLANE_TEXT_LOOKS) != 0;
  *out = (struct text){.hash = LOAD(text[1])};
  if (nmembers > UNIT_MEMBERS_MAX)
    return READ_TOO_BIG;
  uint64_t words = TEXT_HEADER + MEMBER_WORDS * nmembers + (looks ? look_words(nmembers) : 0);
  if (nmembers == 0 || nnodes > PLACE_NODES_MAX + 1)
    return READ_CORRUPT;
  struct place sized = {.id = nnodes != 0, .nnodes = nnodes == 0 ? 0 : (uint32_t)nnodes - 1};
  if (word + words + place_words(&sized) > TEXT_WORDS)
    return READ_CORRUPT;
  read_words(text + TEXT_HEADER, team->followed.members, 8 * MEMBER_WORDS * nmembers);
  out->unit = (struct unit){team->followed.members, (uint32_t)nmembers};
  if (looks)
    read_words(text + TEXT_HEADER + MEMBER_WORDS * nmembers, team->followed.looks,
               nmembers * sizeof(look_t));
  team->followed.looks_of = looks ? out->hash : 0;
  if (nnodes != 0)
    out->place = read_place(team, text + words, sized.nnodes, unit_place(out->unit));
  return unit_hash(out->unit) == out->hash ? READ_UNIT : READ_CORRUPT;
}
