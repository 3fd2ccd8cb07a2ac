/* Units: comparing, hashing and describing them. See unit.h.
 *
 * The hash has to be the same on all ranks and in all versions that may meet on one machine, so it
 * is written out here and depends on nothing but the members' values.
 */
#include "core/unit/unit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

uint32_t datatype_size(uint8_t datatype) {
  static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  _Static_assert(sizeof(sizes) == DATATYPES, "a size for each datatype");
  return datatype < DATATYPES ? sizes[datatype] : 0;
}

static inline bool member_equal(const struct member *a, const struct member *b) {
  return memcmp(a, b, sizeof *a) == 0;
}

bool unit_equal(struct unit a, struct unit b) {
  if (a.nmembers != b.nmembers)
    return false;
  if (a.nmembers == 1)
    return member_equal(a.members, b.members);
  return a.nmembers == 0 || memcmp(a.members, b.members, a.nmembers * sizeof *a.members) == 0;
}

/* One round: multiply and fold the high half back. The multiplier is 2^64 divided by the golden
 * ratio, made odd (Knuth, The Art of Computer Programming 3, 6.4). */
static inline uint64_t hash_word(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

static inline uint64_t hash_member(uint64_t hash, const struct member *member, uint64_t count) {
  hash = hash_word(hash, count);
  hash = hash_word(hash, (uint64_t)member->comm << 32 | (uint32_t)member->root);
  return hash_word(hash, (uint64_t)member->number << 32 | (uint64_t)member->reduction << 16 |
                             (uint64_t)member->kind << 8 | member->datatype);
}

/* The last word is shifted through once more so that short units differ in their low bits too. */
static inline uint64_t hash_end(uint64_t hash, uint32_t nmembers) {
  hash = hash_word(hash, nmembers);
  hash = hash_word(hash, hash >> 32);
  return hash ? hash : 1;
}

uint64_t unit_hash(struct unit unit) {
  uint64_t hash = 1;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    hash = hash_member(hash, &unit.members[i], unit.members[i].count);
  return hash_end(hash, unit.nmembers);
}

uint64_t unit_signature(struct unit unit) {
  if (unit_place(unit) == 0)
    return unit_hash(unit);
  struct member first = unit.members[0];
  first.number = 0;
  uint64_t hash = hash_member(1, &first, first.count);
  for (uint32_t i = 1; i < unit.nmembers; i++)
    hash = hash_member(hash, &unit.members[i], unit.members[i].count);
  return hash_end(hash, unit.nmembers);
}

uint64_t unit_coarse_hash(struct unit unit) {
  uint64_t hash = 2;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    hash = hash_member(hash, &unit.members[i], 0);
  return hash_end(hash, unit.nmembers);
}

bool unit_is_exit_point(struct unit unit) {
  enum mark mark = unit_mark(unit);
  return mark != MARK_NONE && (uint32_t)mark <= MARK_EXIT_POINTS;
}

/* Names as NCCL's documentation spells them, in the order of nccl.h. */
#define NAMES(table) (sizeof(table) / sizeof *(table))

static const char *const reduction_names[] = {"sum", "prod", "max", "min", "avg"};
static const char *const datatype_names[] = {
    "int8",    "uint8",   "int32",   "uint32",   "int64",      "uint64",
    "float16", "float32", "float64", "bfloat16", "float8e4m3", "float8e5m2",
};
_Static_assert(NAMES(datatype_names) == DATATYPES, "a name for each datatype");

/* A text that grows in a buffer of fixed size and stays terminated; what does not fit is dropped.
 */
struct text {
  char *at;
  size_t left;
};

__attribute__((format(printf, 2, 3))) static void text_add(struct text *text, const char *format,
                                                           ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(text->at, text->left, format, arguments);
  va_end(arguments);
  size_t added = length < 0 ? 0 : (size_t)length;
  if (added >= text->left)
    added = text->left - 1;
  text->at += added;
  text->left -= added;
}

static void describe_mark(uint32_t number, struct text *text) {
  static const char *const names[] = {
      [MARK_LOOP_BEGIN] = "begin of a loop",
      [MARK_LOOP_END] = "end of a loop",
      [MARK_STATE_DONE] = "end of a resynchronisation",
      [MARK_OWN_JOIN] = "a join of the program's own",
      [MARK_ROUND] = "begin of a round",
  };
  if (number > 0 && number <= MARK_EXIT_POINTS) {
    text_add(text, "a function that it leaves into (%u)", number);
    return;
  }
  if (number < NAMES(names) && names[number])
    text_add(text, "%s", names[number]);
  else
    text_add(text, "mark %u", number);
}

static void describe_member(const struct member *member, struct text *text) {
  if (member->kind == MEMBER_MARK) {
    describe_mark(member->number, text);
    return;
  }
  if (member->kind == MEMBER_SPLIT || member->kind == MEMBER_EXCHANGE) {
    text_add(text, "%s on comm %08x",
             member->kind == MEMBER_SPLIT ? "split" : "exchange of sends and receives",
             member->comm);
    return;
  }
  if (member->kind != MEMBER_NONE && member->kind < MEMBER_KINDS)
    text_add(text, "%s(", member_kind_name(member->kind));
  else
    text_add(text, "kind %u(", member->kind);
  if (member->reduction < NAMES(reduction_names))
    text_add(text, "%s, ", reduction_names[member->reduction]);
  else if (member->reduction == REDUCTION_PREMULSUM)
    text_add(text, "premulsum, ");
  else if (member->reduction != REDUCTION_NONE)
    text_add(text, "reduction %u, ", member->reduction);
  if (member->root != ROOT_NONE)
    text_add(text, member_is_point_to_point(member->kind) ? "peer %d, " : "root %d, ",
             member->root);
  if (member->datatype < NAMES(datatype_names))
    text_add(text, "%s, ", datatype_names[member->datatype]);
  else
    text_add(text, "datatype %u, ", member->datatype);
  text_add(text, "%llu)", (unsigned long long)member->count);
  if (member->comm)
    text_add(text, " on comm %08x", member->comm);
}

const char *unit_describe(struct unit unit, char *text, size_t size) {
  if (size == 0)
    return "";
  struct text out = {text, size};
  *text = '\0';
  if (unit_is_leave(unit)) {
    text_add(&out, "leave");
  } else if (unit.nmembers == 1) {
    describe_member(unit.members, &out);
  } else {
    text_add(&out, "group{");
    for (uint32_t i = 0; i < unit.nmembers; i++) {
      char member_text[160], more[32] = "";
      struct text member = {member_text, sizeof member_text};
      describe_member(&unit.members[i], &member);
      /* Room has to stay for the note on what is left out, should the next member not fit. */
      if (i + 1 < unit.nmembers)
        (void)snprintf(more, sizeof more, "; ... +%u more", unit.nmembers - i - 1);
      if (strlen(member_text) + strlen(more) + sizeof "; }" > out.left) {
        text_add(&out, "%s... +%u more", i ? "; " : "", unit.nmembers - i);
        break;
      }
      text_add(&out, "%s%s", i ? "; " : "", member_text);
    }
    text_add(&out, "}");
  }
  return text;
}
