/* What an error of the settings says (settings_private.h): text of bounded size, what is accepted,
 * and what was probably meant. */
#include "core/settings/settings_private.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

void settings_add(struct text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = text->size - text->used;
  int length = room ? vsnprintf(text->bytes + text->used, room, format, arguments) : 0;
  va_end(arguments);
  if (length > 0)
    text->used += (size_t)length < room ? (size_t)length : room - 1;
}

const char *settings_as_line(const char *value, size_t length, char *bytes, size_t size) {
  static const char cut[] = "...";
  bool fits = length < size;
  if (!fits) {
    length = size - sizeof(cut);
    while (length > 0 && ((unsigned char)value[length] & 0xc0) == 0x80) /* a UTF-8 character */
      length--;
  }
  for (size_t i = 0; i < length; i++)
    bytes[i] = (char)((unsigned char)value[i] < ' ' || value[i] == 0x7f ? '?' : value[i]);
  memcpy(bytes + length, fits ? "" : cut, fits ? 1 : sizeof(cut));
  return bytes;
}

void settings_add_words(struct text *text, const struct word *words) {
  for (const struct word *word = words; word && word->name; word++)
    settings_add(text, "%s%s", word == words ? "" : ", ", word->name);
}

void settings_add_accepted(struct text *text, const struct setting *setting) {
  switch (setting->type) {
  case TYPE_WORD:
  case TYPE_SWITCH:
    settings_add_words(text, setting->words);
    return;
  case TYPE_LOSSY:
    settings_add_words(text, setting->words);
    settings_add(text, ", or kind:value,...");
    return;
  case TYPE_NUMBER:
    settings_add(text, "%llu to %llu %s", (unsigned long long)setting->least,
                 (unsigned long long)setting->most, setting->unit);
    return;
  case TYPE_ADDRESS:
    settings_add(text, "host:port or [IPv6]:port");
    return;
  case TYPE_PORTS:
    settings_add(text, "first-last, at least %u ports of 1 to 65535", SETTINGS_PORTS);
    return;
  case TYPE_FOLDER:
    settings_add_words(text, setting->words);
    settings_add(text, ", or a folder with a / in it");
    return;
  case TYPE_PATH:
    settings_add(text, "a path");
    return;
  case TYPE_PATHS:
    settings_add(text, "paths, separated by commas");
    return;
  case TYPE_NAMES:
    settings_add(
        text,
        "names, separated by commas; -MPI_Barrier, -MPI_Finalize, -ProcessGroupNCCL: not that one");
    return;
  case TYPE_FORMAT:
    settings_add(text, "a path; %%h host, %%p process, %%r rank");
    return;
  }
}

const struct word *settings_find_word(const struct word *words, const char *text, size_t length) {
  for (const struct word *word = words; word->name; word++)
    if (strlen(word->name) == length && strncasecmp(text, word->name, length) == 0)
      return word;
  return NULL;
}

/* ---- did you mean ---- */

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Levenshtein's distance, cases equal, and swapped neighbours one step; SETTINGS_WORD_MAX if either
 * is long.
 */
static size_t settings_distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > SETTINGS_WORD_MAX || nb > SETTINGS_WORD_MAX)
    return SETTINGS_WORD_MAX;
  size_t rows[3][SETTINGS_WORD_MAX + 1];
  size_t *before = rows[0], *above = rows[1], *row = rows[2];
  for (size_t j = 0; j <= nb; j++)
    above[j] = before[j] = j;
  for (size_t i = 1; i <= na; i++) {
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      bool same = toupper((unsigned char)a[i - 1]) == toupper((unsigned char)b[j - 1]);
      row[j] = least_of(above[j - 1] + !same, least_of(above[j], row[j - 1]) + 1);
      bool swapped = i > 1 && j > 1 &&
                     toupper((unsigned char)a[i - 1]) == toupper((unsigned char)b[j - 2]) &&
                     toupper((unsigned char)a[i - 2]) == toupper((unsigned char)b[j - 1]);
      if (swapped)
        row[j] = least_of(row[j], before[j - 2] + 1);
    }
    size_t *free_row = before;
    before = above;
    above = row;
    row = free_row;
  }
  return above[nb];
}

/* Two slips, or one in a short word. */
static bool is_near(const char *a, const char *b) {
  return settings_distance(a, b) <= (strlen(b) > 4 ? 2 : 1);
}

/* What all begin with does not make them alike. */
static const char *part_of_its_own(const char *name) {
  size_t length = sizeof(SETTINGS_PREFIX) - 1;
  return strncmp(name, SETTINGS_PREFIX, length) == 0 ? name + length : name;
}

bool settings_add_nearest_name(struct text *text, const char *name) {
  const struct setting *nearest = NULL;
  size_t least = SETTINGS_WORD_MAX;
  const char *own = part_of_its_own(name);
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    const char *other = part_of_its_own(setting->name);
    if (!is_near(own, other) || settings_distance(own, other) >= least)
      continue;
    nearest = setting;
    least = settings_distance(own, other);
  }
  if (nearest)
    settings_add(text, " Did you mean %s?", nearest->name);
  return nearest != NULL;
}

void settings_add_names(struct text *text) {
  settings_add(text, " Known: ");
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++)
    settings_add(text, "%s%s", setting == settings_table ? "" : ", ", setting->name);
}

static void add_nearest_of(struct text *text, const struct word *words, const char *value) {
  for (const struct word *word = words; word->name; word++) {
    if (is_near(value, word->name)) {
      settings_add(text, " Did you mean %s?", word->name);
      return;
    }
  }
}

/* For the first word of a list of policies that is not known. */
static void add_nearest_policy(struct text *text, const struct word *values, const char *list) {
  while (*list) {
    size_t length = strcspn(list, ":,");
    const struct word *words = list[length] == ':' ? settings_kind_words : values;
    char part[SETTINGS_WORD_MAX + 2];
    snprintf(part, sizeof(part), "%.*s", (int)least_of(length, SETTINGS_WORD_MAX + 1), list);
    if (!settings_find_word(words, list, length)) {
      add_nearest_of(text, words, part);
      return;
    }
    list += length + (list[length] != '\0');
  }
}

void settings_add_nearest_word(struct text *text, const struct setting *setting,
                               const char *value) {
  if (setting->type == TYPE_WORD || setting->type == TYPE_FOLDER)
    add_nearest_of(text, setting->words, value);
  else if (setting->type == TYPE_LOSSY)
    add_nearest_policy(text, setting->words, value);
}
