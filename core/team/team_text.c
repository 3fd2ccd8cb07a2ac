/* A text (texts.h): the members of a claimed unit, how their buffers look, and its place.
 *
 * A header; the members; if it says so, the looks (look.h) of the members as their rank is about to
 * issue them; if it has a place, the nodes of that and what messages say of it. Each begins at a
 * multiple of 8 bytes. A unit of more than UNIT_MEMBERS_MAX members has the header only.
 */
#include "core/team/team_private.h"
#include "core/transport/texts.h"

struct text_header {
  uint32_t nmembers;
  uint32_t nodes : 31; /* of the place, plus one; 0: no place */
  uint32_t looks : 1;  /* whether they follow */
  uint64_t hash;       /* unit_hash */
};
_Static_assert(sizeof(struct text_header) == 16 && sizeof(struct member) % 8 == 0, "a format");

/* The nodes and then what messages say: as they lie in struct place, with room for no more nodes
 * than there are. */
struct packed_place {
  unsigned char bytes[sizeof(struct place_node) * PLACE_NODES_MAX + PLACE_TEXT_MAX];
};

/* Where each part begins, and the whole ends, in bytes. */
struct text_layout {
  uint64_t looks, place, end;
};

static uint64_t whole_words(uint64_t bytes) {
  return (bytes + 7) / 8 * 8;
}

static uint64_t place_bytes(uint32_t nnodes) {
  return nnodes * sizeof(struct place_node) + PLACE_TEXT_MAX;
}

static struct text_layout lay_out(const struct text_header *header) {
  struct text_layout at;
  bool fits = header->nmembers <= UNIT_MEMBERS_MAX;
  uint64_t nmembers = fits ? header->nmembers : 0;
  at.looks = sizeof(*header) + nmembers * sizeof(struct member);
  at.place = at.looks + (header->looks ? whole_words(nmembers * sizeof(look_t)) : 0);
  at.end = at.place + (header->nodes != 0 ? whole_words(place_bytes(header->nodes - 1)) : 0);
  return at;
}

/* The first byte of text that a rank which stands at index `from` may still read: that of the first
 * unit from there on that this rank has claimed. If it was expected where it was issued, nobody
 * follows the text there, but who stands before may be settling an index at which it was claimed.
 */
static uint64_t text_needed(const struct team *team, uint64_t from) {
  uint32_t position = 0;
  for (uint64_t at = from; position == 0 && at < team->head; at++)
    position = log_text(team->own, at);
  return position == 0 ? team->text_end : text_named(team->text_end, position);
}

static void write_place(struct team *team, uint64_t begin, uint64_t at) {
  const struct place *place = &team->claim.place;
  uint64_t nodes = place->nnodes * sizeof(struct place_node);
  struct packed_place packed;
  memcpy(packed.bytes, place->nodes, nodes);
  memcpy(packed.bytes + nodes, place->text, PLACE_TEXT_MAX);
  text_write(team->own, begin, at, packed.bytes, place_bytes(place->nnodes));
}

bool team_write_text(struct team *team) {
  struct unit unit = team->claim.unit;
  bool fits = unit.nmembers <= UNIT_MEMBERS_MAX && unit.nmembers != 0;
  struct text_header header = {
      .nmembers = unit.nmembers,
      .nodes = fits && team->claim.place.id != 0 ? team->claim.place.nnodes + 1 : 0,
      .looks = fits && team->claim.looks_known,
      .hash = team->claim.hash,
  };
  struct text_layout at = lay_out(&header);
  uint64_t begin = text_begin(team->text_end, at.end);
  if (begin + at.end - text_needed(team, plane_slowest(team->plane)) > PLANE_TEXT)
    return false;
  text_write(team->own, begin, 0, &header, sizeof(header));
  if (fits)
    text_write(team->own, begin, sizeof(header), unit.members,
               unit.nmembers * sizeof(*unit.members));
  if (header.looks)
    text_write(team->own, begin, at.looks, team->claim.looks, unit.nmembers * sizeof(look_t));
  if (header.nodes != 0)
    write_place(team, begin, at.place);
  team->claim.text = text_position(begin);
  team->text_end = begin + at.end;
  text_show(team->own, team->text_end);
  return true;
}

static void read_place(struct team *team, const struct packed_place *packed, uint32_t nnodes,
                       uint32_t id) {
  struct place *place = &team->followed.place;
  uint64_t nodes = nnodes * sizeof(struct place_node);
  *place = (struct place){.id = id, .nnodes = nnodes};
  memcpy(place->nodes, packed->bytes, nodes);
  memcpy(place->text, packed->bytes + nodes, PLACE_TEXT_MAX);
  place_clean_text(place);
}

enum read_result team_read_text(struct team *team, const struct plane_log *log, uint32_t position,
                                struct text *out) {
  struct text_header header;
  struct packed_place packed;
  if (!text_read(log, position, 0, &header, sizeof(header)))
    return READ_CORRUPT;
  *out = (struct text){.hash = header.hash};
  if (header.nmembers > UNIT_MEMBERS_MAX)
    return READ_TOO_BIG;
  if (header.nmembers == 0 || header.nodes > PLACE_NODES_MAX + 1)
    return READ_CORRUPT;
  struct text_layout at = lay_out(&header);
  uint32_t nnodes = header.nodes == 0 ? 0 : header.nodes - 1;
  if (!text_read(log, position, sizeof(header), team->followed.members,
                 header.nmembers * sizeof(struct member)) ||
      (header.looks && !text_read(log, position, at.looks, team->followed.looks,
                                  header.nmembers * sizeof(look_t))) ||
      (header.nodes != 0 && !text_read(log, position, at.place, packed.bytes, place_bytes(nnodes))))
    return READ_CORRUPT;
  out->unit = (struct unit){team->followed.members, header.nmembers};
  team->followed.looks_of = header.looks ? out->hash : 0;
  if (header.nodes != 0) {
    read_place(team, &packed, nnodes, unit_place(out->unit));
    out->place = &team->followed.place;
  }
  return unit_hash(out->unit) == out->hash ? READ_UNIT : READ_CORRUPT;
}
