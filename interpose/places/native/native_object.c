/* Functions of an object by its unwind tables (Linux Standard Base, Core, "Exception Frames"): see
 * native_object.h. */
#include "interpose/places/native/native_object.h"

#include <link.h>
#include <string.h>

/* ---- Where it is ---- */

/* An object is known by code in it. */
struct object_search {
  const uint8_t *code;
  struct native_object object;
};

static int note_if_it(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  struct object_search *search = data;
  struct native_object object = {.base = info->dlpi_addr};
  bool is_it = false;
  for (int i = 0; i < info->dlpi_phnum && object.nreadable < NATIVE_PARTS_MAX; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    const uint8_t *begin = (const uint8_t *)(uintptr_t)(info->dlpi_addr + header->p_vaddr);
    const uint8_t *end = begin + header->p_memsz;
    if (header->p_type == PT_GNU_EH_FRAME)
      object.frames = begin;
    if (header->p_type == PT_DYNAMIC)
      object.dynamic = begin;
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_R))
      continue;
    object.readable[object.nreadable++] = (struct native_part){begin, end};
    is_it |= search->code >= begin && search->code < end;
  }
  if (is_it)
    search->object = object;
  return is_it;
}

bool native_object_of(const void *code, struct native_object *object) {
  struct object_search search = {.code = code};
  bool found = dl_iterate_phdr(note_if_it, &search) != 0;
  *object = search.object;
  return found;
}

size_t native_readable(const struct native_object *object, const uint8_t *at) {
  for (uint32_t i = 0; i < object->nreadable; i++)
    if (at >= object->readable[i].begin && at < object->readable[i].end)
      return (size_t)(object->readable[i].end - at);
  return 0;
}

/* ---- Its functions ---- */

static int32_t native_object_read32(const uint8_t *at) {
  int32_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

/* .eh_frame_hdr: 4 bytes that say how it is written, 4 of a pointer, the number of rows, and rows:
 * where a function begins and where its entry is, both from the header. */
enum { HEADER_ROWS_AT = 12, ROW_SIZE = 8, ROWS_MAX = 1 << 24 };

/* Of an entry: its length, 4 bytes to what it shares with others, where the function begins, from
 * there, and how long it is; how long what augments it is, and that; instructions. */
enum { ENTRY_BEGIN_AT = 8, ENTRY_SIZE_AT = 12, ENTRY_AUGMENTED_AT = 16 };

/* DWARF 5, 7.24: before the first of these, instructions say what the frame is at the begin. */
enum { CFA_NOP = 0, CFA_SET_LOCATION = 1, CFA_ADVANCE_4 = 4, CFA_ADVANCE = 0x40, CFA_HIGH = 0xC0 };

static bool begins_with_a_frame(const uint8_t *entry, size_t size) {
  size_t at = ENTRY_AUGMENTED_AT;
  if (at >= size || entry[at] >= 0x80 || at + 1 + entry[at] >= size)
    return false;
  uint8_t first = entry[at + 1 + entry[at]];
  bool moves_on = first == CFA_NOP || (first >= CFA_SET_LOCATION && first <= CFA_ADVANCE_4) ||
                  (first & CFA_HIGH) == CFA_ADVANCE;
  return !moves_on;
}

/* How many rows there are, at header + HEADER_ROWS_AT. */
static uint32_t rows_of(const struct native_object *object) {
  static const uint8_t usual[] = {1, 0x1B, 0x03, 0x3B};
  const uint8_t *header = object->frames;
  size_t size = header == NULL ? 0 : native_readable(object, header);
  if (size < HEADER_ROWS_AT || memcmp(header, usual, sizeof usual) != 0)
    return 0;
  uint32_t nrows = (uint32_t)native_object_read32(header + 8);
  return nrows > ROWS_MAX || (size - HEADER_ROWS_AT) / ROW_SIZE < nrows ? 0 : nrows;
}

/* The last row whose function begins at or before an address; NULL: none. */
static const uint8_t *row_of(const struct native_object *object, const uint8_t *at) {
  const uint8_t *header = object->frames;
  uint32_t low = 0;
  uint32_t high = rows_of(object);
  if (high == 0)
    return NULL;
  const uint8_t *rows = header + HEADER_ROWS_AT;
  while (high - low > 1) {
    uint32_t middle = (low + high) / 2;
    if (header + native_object_read32(rows + (size_t)middle * ROW_SIZE) <= at)
      low = middle;
    else
      high = middle;
  }
  return rows + (size_t)low * ROW_SIZE;
}

const uint8_t *native_entry_at(const struct native_object *object, const uint8_t *at,
                               struct native_part *function, bool *is_moved) {
  const uint8_t *row = row_of(object, at);
  if (row == NULL)
    return NULL;
  const uint8_t *begin = object->frames + native_object_read32(row);
  const uint8_t *entry = object->frames + native_object_read32(row + 4);
  size_t size = native_readable(object, entry);
  if (size < ENTRY_AUGMENTED_AT ||
      entry + ENTRY_BEGIN_AT + native_object_read32(entry + ENTRY_BEGIN_AT) != begin)
    return NULL;
  uint32_t length = (uint32_t)native_object_read32(entry);
  *function =
      (struct native_part){begin, begin + (uint32_t)native_object_read32(entry + ENTRY_SIZE_AT)};
  *is_moved = begins_with_a_frame(entry, length + 4 < size ? length + 4 : size);
  bool is_in = at >= begin && at < function->end && native_readable(object, begin) > 0 &&
               native_readable(object, begin) >= (size_t)(function->end - begin);
  return is_in ? entry : NULL;
}

bool native_function_at(const struct native_object *object, const uint8_t *at,
                        struct native_part *function, bool *is_moved) {
  return native_entry_at(object, at, function, is_moved) != NULL;
}

bool native_function_before(const struct native_object *object, const uint8_t *entry,
                            struct native_part *function, bool *is_moved) {
  const uint8_t *header = object->frames;
  const uint8_t *before = NULL;
  uint32_t nrows = rows_of(object);
  int32_t last = 0;
  for (uint32_t i = 0; i < nrows; i++) {
    const uint8_t *row = header + HEADER_ROWS_AT + (size_t)i * ROW_SIZE;
    int32_t at = native_object_read32(row + 4);
    if (header + at < entry && (before == NULL || at > last)) {
      before = header + native_object_read32(row);
      last = at;
    }
  }
  return before != NULL && native_function_at(object, before, function, is_moved);
}
