/* Parts of a function: see native_parts.h. */
#include "interpose/places/native/native_parts.h"

#include "interpose/places/native/native_graph.h"

/* Functions outside that are looked at for a way back. */
enum { LOOKS_MAX = 64 };

size_t native_position(const struct native_code *code, uintptr_t address) {
  for (uint32_t i = 0; i < code->nparts; i++) {
    uintptr_t begin = (uintptr_t)code->parts[i].begin;
    if (address >= begin && address < (uintptr_t)code->parts[i].end)
      return code->begins[i] + (address - begin);
  }
  return NATIVE_OUTSIDE;
}

static bool read_at(const struct native_code *code, struct native_cursor *cursor, bool *failed) {
  size_t room = (size_t)(code->parts[cursor->part].end - cursor->at);
  *failed = !code->decode(cursor->at, room, &cursor->is);
  return !*failed;
}

bool native_first(const struct native_code *code, struct native_cursor *cursor, bool *failed) {
  *cursor = (struct native_cursor){.at = code->parts[0].begin};
  return read_at(code, cursor, failed);
}

bool native_next(const struct native_code *code, struct native_cursor *cursor, bool *failed) {
  cursor->position += cursor->is.length;
  cursor->at += cursor->is.length;
  if (cursor->at == code->parts[cursor->part].end) {
    if (++cursor->part == code->nparts)
      return false;
    cursor->at = code->parts[cursor->part].begin;
  }
  return read_at(code, cursor, failed);
}

size_t native_target(const struct native_code *code, const struct native_cursor *cursor) {
  if (!cursor->is.has_target)
    return NATIVE_OUTSIDE;
  return native_position(code, (uintptr_t)cursor->at + (uintptr_t)cursor->is.target);
}

bool native_jump(const struct native_code *code, struct native_cursor *cursor, bool *failed) {
  size_t to = native_target(code, cursor);
  *failed = false;
  if (to == NATIVE_OUTSIDE)
    return false;
  while (to < code->begins[cursor->part])
    cursor->part--;
  while (to >= code->begins[cursor->part + 1])
    cursor->part++;
  cursor->position = to;
  cursor->at = code->parts[cursor->part].begin + (to - code->begins[cursor->part]);
  return read_at(code, cursor, failed);
}

bool native_is_last(const struct native_code *code, const struct native_cursor *cursor) {
  return cursor->at + cursor->is.length == code->parts[cursor->part].end;
}

/* ---- Moved parts ---- */

static bool add_part(struct native_code *code, struct native_part part) {
  size_t size = (size_t)(part.end - part.begin);
  size_t before = code->begins[code->nparts];
  if (code->nparts == NATIVE_PARTS_MAX || part.end <= part.begin ||
      size > NATIVE_FUNCTION_MAX - before)
    return false;
  code->parts[code->nparts++] = part;
  code->begins[code->nparts] = before + size;
  return true;
}

/* Whether it jumps into the code, but not to the begin of a part, which may be a function's. */
static bool comes_back(const struct native_code *code, struct native_part part) {
  struct native_code outside = {.decode = code->decode};
  struct native_cursor cursor;
  bool failed;
  if (!add_part(&outside, part))
    return false;
  for (bool more = native_first(&outside, &cursor, &failed); more;
       more = native_next(&outside, &cursor, &failed)) {
    size_t target = native_target(code, &cursor);
    if (cursor.is.kind != NATIVE_CALL && target != NATIVE_OUTSIDE && target > 0)
      return true;
  }
  return false;
}

/* The part that a jump out of the code leads to. */
static bool is_part(const struct native_code *code, const struct native_cursor *cursor,
                    struct native_part *part) {
  bool is_moved;
  const uint8_t *to = (const uint8_t *)((uintptr_t)cursor->at + (uintptr_t)cursor->is.target);
  return native_function_at(code->object, to, part, &is_moved) &&
         (is_moved || comes_back(code, *part));
}

bool native_find_parts(struct native_code *code, struct native_part function) {
  struct native_cursor cursor;
  bool failed;
  uint32_t looks = 0;
  struct native_part part;
  struct native_part seen = {NULL, NULL};
  if (!add_part(code, function))
    return false;
  for (bool more = native_first(code, &cursor, &failed); more;
       more = native_next(code, &cursor, &failed)) {
    const uint8_t *to = (const uint8_t *)((uintptr_t)cursor.at + (uintptr_t)cursor.is.target);
    bool leaves = (cursor.is.kind == NATIVE_JUMP || cursor.is.kind == NATIVE_BRANCH) &&
                  native_target(code, &cursor) == NATIVE_OUTSIDE;
    if (!leaves || (to >= seen.begin && to < seen.end) || looks == LOOKS_MAX)
      continue;
    looks++;
    if (is_part(code, &cursor, &part) && !add_part(code, part))
      return false;
    seen = part;
  }
  return !failed;
}
