/* Reads the tables of landing pads: see native_pads.h. Their form is that of the Itanium C++ ABI,
 * "Exception Handling Tables" (LSDA), to which a function's entry in .eh_frame points. */
#include "interpose/places/native/native_pads.h"

#include <stdlib.h>
#include <string.h>

/* Encodings (DW_EH_PE_...). */
enum {
  ENCODED_ULEB = 0x01,
  ENCODED_4 = 0x03,      /* also of addresses below 2^32, in code that is not relocated */
  ENCODED_NEAR_4 = 0x1B, /* signed, from where it stands */
  ENCODED_OMITTED = 0xFF,
};

/* `failed` is set by an attempt to read behind the end; from then on every byte read is 0. */
struct reader {
  const uint8_t *at;
  const uint8_t *end;
  bool failed;
};

static struct reader reader_at(const struct native_object *object, const uint8_t *at) {
  size_t size = native_readable(object, at);
  return (struct reader){at, at + size, size == 0};
}

static uint8_t read_byte(struct reader *reader) {
  if (reader->failed || reader->at >= reader->end) {
    reader->failed = true;
    return 0;
  }
  return *reader->at++;
}

static uint32_t read_4(struct reader *reader) {
  uint32_t value = 0;
  for (uint32_t i = 0; i < 4; i++)
    value |= (uint32_t)read_byte(reader) << 8 * i;
  return value;
}

static uint64_t read_uleb(struct reader *reader) {
  uint64_t value = 0;
  for (uint32_t shift = 0;; shift += 7) {
    uint8_t byte = read_byte(reader);
    if (shift < 64)
      value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80))
      return value;
  }
}

/* The address that stands there; NULL: none, or of another form. */
static const uint8_t *read_near(struct reader *reader, uint8_t encoding) {
  const uint8_t *here = reader->at;
  uint32_t value = read_4(reader);
  if (reader->failed || value == 0)
    return NULL;
  if (encoding == ENCODED_NEAR_4)
    return here + (int32_t)value;
  return encoding == ENCODED_4 ? (const uint8_t *)(uintptr_t)value : NULL;
}

/* The encoding in which the entries (FDEs) of this common one (CIE) write the address of their
 * table: what its augmentation, a string of letters, has for 'L'. */
static uint8_t encoding_of(const struct native_object *object, const uint8_t *common) {
  struct reader reader = reader_at(object, common);
  char letters[8] = {0};
  read_4(&reader); /* length */
  read_4(&reader);
  read_byte(&reader); /* version */
  for (uint32_t i = 0; i < sizeof letters; i++)
    if ((letters[i] = (char)read_byte(&reader)) == '\0')
      break;
  if (letters[0] != 'z' || letters[sizeof letters - 1] != '\0')
    return ENCODED_OMITTED;
  for (uint32_t i = 0; i < 4; i++)
    read_uleb(&reader); /* units of code and data, the return address, the size of what follows */
  for (const char *letter = letters + 1; *letter != '\0'; letter++) {
    uint8_t encoding = *letter == 'S' ? 0 : read_byte(&reader);
    if (*letter == 'L')
      return reader.failed ? ENCODED_OMITTED : encoding;
    if (*letter == 'P' && (encoding & 0x0F) != 0x0B && (encoding & 0x0F) != 0x03)
      return ENCODED_OMITTED;
    if (*letter == 'P')
      read_4(&reader); /* the runtime's function */
  }
  return ENCODED_OMITTED;
}

/* The part's table, or NULL. */
static const uint8_t *table_of(const struct native_object *object, struct native_part part) {
  struct native_part found;
  bool is_moved;
  const uint8_t *entry = native_entry_at(object, part.begin, &found, &is_moved);
  if (entry == NULL || found.begin != part.begin)
    return NULL;
  struct reader reader = reader_at(object, entry);
  read_4(&reader);
  const uint8_t *here = reader.at;
  const uint8_t *common = here - read_4(&reader);
  read_4(&reader);
  read_4(&reader);
  if (read_uleb(&reader) < 4 || reader.failed)
    return NULL;
  return read_near(&reader, encoding_of(object, common));
}

static bool native_keep(struct native_pads *pads, struct native_throwing range) {
  if (pads->nranges == pads->room) {
    uint32_t room = 2 * pads->room + 16;
    struct native_throwing *larger = realloc(pads->ranges, room * sizeof *larger);
    if (larger == NULL)
      return false;
    pads->ranges = larger;
    pads->room = room;
  }
  pads->ranges[pads->nranges++] = range;
  return true;
}

/* The head of a table: what pads are counted from (omitted: the part's begin), where the types are,
 * and the encoding of the ranges, which is returned. */
static uint8_t read_head(struct reader *reader) {
  if (read_byte(reader) != ENCODED_OMITTED)
    reader->failed = true;
  if (read_byte(reader) != ENCODED_OMITTED)
    read_uleb(reader);
  uint8_t encoding = read_byte(reader);
  if (encoding != ENCODED_ULEB && encoding != ENCODED_4)
    reader->failed = true;
  uint64_t size = read_uleb(reader);
  if (reader->failed || size > (size_t)(reader->end - reader->at))
    reader->failed = true;
  else
    reader->end = reader->at + size;
  return encoding;
}

static uint64_t read_encoded(struct reader *reader, uint8_t encoding) {
  return encoding == ENCODED_4 ? read_4(reader) : read_uleb(reader);
}

static bool read_part(struct native_pads *pads, const struct native_code *code, uint32_t part) {
  size_t size = code->begins[part + 1] - code->begins[part];
  const uint8_t *table = table_of(code->object, code->parts[part]);
  if (table == NULL)
    return true;
  struct reader reader = reader_at(code->object, table);
  uint8_t encoding = read_head(&reader);
  size_t last = 0;
  while (!reader.failed && reader.at < reader.end) {
    uint64_t begin = read_encoded(&reader, encoding);
    uint64_t length = read_encoded(&reader, encoding);
    uint64_t pad = read_encoded(&reader, encoding);
    read_uleb(&reader); /* what is caught */
    if (reader.failed || begin < last || begin > size || length > size - begin || pad >= size)
      return true;
    last = begin + length;
    struct native_throwing range = {code->begins[part] + begin, code->begins[part] + last,
                                    code->begins[part] + pad};
    if (pad != 0 && !native_keep(pads, range))
      return false;
  }
  return true;
}

bool native_pads_make(struct native_pads *pads, const struct native_code *code) {
  for (uint32_t part = 0; part < code->nparts; part++)
    if (!read_part(pads, code, part))
      return false;
  return true;
}

void native_pads_drop(struct native_pads *pads) {
  free(pads->ranges);
  *pads = (struct native_pads){0};
}

const struct native_throwing *native_pads_find(const struct native_pads *pads, size_t position) {
  uint32_t low = 0;
  uint32_t high = pads->nranges;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    if (pads->ranges[middle].end <= position)
      low = middle + 1;
    else
      high = middle;
  }
  bool found = low < pads->nranges && pads->ranges[low].begin <= position;
  return found ? &pads->ranges[low] : NULL;
}
