/* Comparing what ranks tell of themselves (alike.h). */
#include "interpose/comm/alike.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/self/environment.h"

#define VERSION_SIZE (INTRODUCTION_TELLS_SIZE - SETTINGS_ALIKE_SIZE)
_Static_assert(sizeof(NCCL_JOIN_VERSION) < VERSION_SIZE, "a version fits");

/* A message names so many values, and so many ranks of each. */
#define VALUES_NAMED 3
#define RANKS_NAMED 4
#define VALUE_SHOWN 100

/* The version in a line, then the settings. */
void alike_tell(char tells[INTRODUCTION_TELLS_SIZE]) {
  char settings[SETTINGS_ALIKE_SIZE];
  settings_alike(join_settings(), settings);
  memset(tells, 0, INTRODUCTION_TELLS_SIZE);
  (void)snprintf(tells, INTRODUCTION_TELLS_SIZE, "%s\n%s", NCCL_JOIN_VERSION, settings);
}

/* What the ranks have told, one after the other; ended by a zero each. NULL: a rank is missing, or
 * there is no memory. */
static char *alike_read(const struct attachment *attachment, uint32_t slots) {
  char *tells = calloc(slots, INTRODUCTION_TELLS_SIZE);
  struct introduction introduction;
  for (uint32_t slot = 0; tells != NULL && slot < slots; slot++) {
    if (!attachment_read(attachment, slot, &introduction)) {
      free(tells);
      return NULL;
    }
    memcpy(tells + (size_t)slot * INTRODUCTION_TELLS_SIZE, introduction.tells,
           INTRODUCTION_TELLS_SIZE - 1);
  }
  return tells;
}

/* A line of what a rank has told, and its length. */
static const char *line_of(const char *tells, uint32_t rank, size_t line, size_t *length) {
  const char *text = tells + (size_t)rank * INTRODUCTION_TELLS_SIZE;
  while (line-- > 0) {
    text += strcspn(text, "\n");
    text += *text == '\n';
  }
  *length = strcspn(text, "\n");
  return text;
}

static bool same_line(const char *tells, uint32_t a, uint32_t b, size_t line) {
  size_t la, lb;
  const char *ta = line_of(tells, a, line, &la), *tb = line_of(tells, b, line, &lb);
  return la == lb && memcmp(ta, tb, la) == 0;
}

struct sentence {
  char bytes[LOG_LINE_SIZE];
  size_t used;
};

__attribute__((format(printf, 2, 3))) static void sentence_add(struct sentence *sentence,
                                                               const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = sizeof(sentence->bytes) - sentence->used;
  int length = vsnprintf(sentence->bytes + sentence->used, room, format, arguments);
  va_end(arguments);
  sentence->used += length < 0 ? 0 : (size_t)length < room ? (size_t)length : room - 1;
}

/* "zero on ranks 2, 3": the ranks from `first` on that have its value. */
static void add_value(struct sentence *sentence, const char *tells, uint32_t slots, uint32_t first,
                      size_t line) {
  size_t length;
  uint32_t count = 0, named = 0;
  const char *value = line_of(tells, first, line, &length);
  for (uint32_t rank = first; rank < slots; rank++)
    count += same_line(tells, first, rank, line);
  if (length == 0)
    value = "nothing", length = strlen(value);
  sentence_add(sentence, "%.*s%s on rank%s ", length > VALUE_SHOWN ? VALUE_SHOWN : (int)length,
               value, length > VALUE_SHOWN ? "..." : "", count == 1 ? "" : "s");
  for (uint32_t rank = first; rank < slots && named < RANKS_NAMED; rank++)
    if (same_line(tells, first, rank, line))
      sentence_add(sentence, "%s%u", named++ == 0 ? "" : ", ", rank);
  if (count > named)
    sentence_add(sentence, " and %u more", count - named);
}

/* Whether no rank before this one has its value. */
static bool is_first(const char *tells, uint32_t rank, size_t line) {
  for (uint32_t before = 0; before < rank; before++)
    if (same_line(tells, before, rank, line))
      return false;
  return true;
}

/* "error on ranks 0, 1; zero on rank 2". */
static void add_values(struct sentence *sentence, const char *tells, uint32_t slots, size_t line) {
  uint32_t named = 0;
  for (uint32_t rank = 0; rank < slots; rank++) {
    if (!is_first(tells, rank, line))
      continue;
    if (named == VALUES_NAMED) {
      sentence_add(sentence, "; others elsewhere");
      return;
    }
    sentence_add(sentence, "%s", named++ == 0 ? "" : "; ");
    add_value(sentence, tells, slots, rank, line);
  }
}

/* Whether all ranks have said the same in a line; otherwise says what. name: of the setting; NULL:
 * it is the version. */
static bool alike_line(const char *tells, uint32_t slots, struct log_subject subject, size_t line,
                       const char *name) {
  uint32_t rank = 1;
  while (rank < slots && same_line(tells, 0, rank, line))
    rank++;
  if (rank == slots)
    return true;
  struct sentence sentence = {.used = 0};
  add_values(&sentence, tells, slots, line);
  if (name == NULL)
    log_line_of(
        subject, LOG_LEVEL_ERROR,
        "ranks of communicator %08x run different versions of nccl-join: %s. It cannot be "
        "used: ncclInvalidUsage on every rank. Start all ranks with the same libnccl-join.so",
        subject.tag, sentence.bytes);
  else
    log_line_of(subject, LOG_LEVEL_ERROR,
                "ranks of communicator %08x have %s set differently: %s. It cannot be used: "
                "ncclInvalidUsage on every rank. Set it alike for all ranks",
                subject.tag, name, sentence.bytes);
  return false;
}

static bool alike_lines(const char *tells, uint32_t slots, struct log_subject subject) {
  const char *name;
  /* Of another version the settings may be others. */
  if (!alike_line(tells, slots, subject, 0, NULL))
    return false;
  bool alike = true;
  for (size_t line = 0; (name = settings_alike_name(line)) != NULL; line++)
    alike = alike_line(tells, slots, subject, line + 1, name) && alike;
  return alike;
}

bool alike_in(const struct attachment *attachment, uint32_t slots, struct log_subject subject) {
  char reason[ATTACHMENT_REASON_SIZE];
  if (attachment_stranger(attachment, reason)) {
    alike_refused(subject, reason);
    return false;
  }
  char *tells = alike_read(attachment, slots);
  bool alike = tells == NULL || alike_lines(tells, slots, subject);
  free(tells);
  return alike;
}

void alike_refused(struct log_subject subject, const char *reason) {
  log_line_of(subject, LOG_LEVEL_ERROR,
              "communicator %08x cannot be used, ncclInvalidUsage on every rank: %s", subject.tag,
              reason);
}
