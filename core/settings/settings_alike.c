/* What the ranks of a communicator must have alike, as a text that they can compare (settings.h).
 */
#include "core/settings/settings_private.h"

#include <string.h>

/* FNV-1a. */
static unsigned long long settings_alike_checksum(const char *value) {
  unsigned long long hash = 0xcbf29ce484222325;
  for (; *value; value++)
    hash = (hash ^ (unsigned char)*value) * 0x100000001b3;
  return hash;
}

static const char *word_of(const struct word *words, int value) {
  while (words->name != NULL && words->value != value)
    words++;
  return words->name != NULL ? words->name : "?";
}

/* As one would write it: "error", "zero", or what is not an error, "allgather:zero,send:last". */
static void add_policies(struct text *text, const struct setting *setting,
                         const enum lossy_policy *policies) {
  bool same = true, first = true;
  for (int kind = 1; kind < LOSSY_KINDS; kind++)
    same = same && policies[kind] == policies[0];
  if (same)
    settings_add(text, "%s", word_of(setting->words, policies[0]));
  for (int kind = 0; kind < LOSSY_KINDS && !same; kind++) {
    if (policies[kind] == LOSSY_ERROR)
      continue;
    settings_add(text, "%s%s:%s", first ? "" : ",", lossy_kind_name((enum lossy_kind)kind),
                 word_of(setting->words, policies[kind]));
    first = false;
  }
}

/* A value of any length: room is left for a newline, and for those of `more` settings behind it. */
#define CUT 36 /* bytes of what ends a value that is cut */
static void add_string(struct text *text, const char *value, size_t more) {
  size_t room = text->size - text->used - more;
  if (strlen(value) + 1 < room)
    settings_add(text, "%s", value);
  else
    settings_add(text, "%.*s... (checksum %016llx)", (int)room - CUT, value,
                 settings_alike_checksum(value));
}

/* Bytes that the settings behind this one may take: none of those has a text of any length. */
#define REST 16

static void add_value(struct text *text, const struct setting *setting,
                      const struct settings *settings) {
  const void *field = (const char *)settings + setting->offset;
  switch (setting->type) {
  case TYPE_WORD:
    settings_add(text, "%s", word_of(setting->words, *(const int *)field));
    return;
  case TYPE_SWITCH:
    settings_add(text, "%d", *(const bool *)field);
    return;
  case TYPE_LOSSY:
    add_policies(text, setting, field);
    return;
  case TYPE_NUMBER:
    settings_add(text, "%llu", (unsigned long long)*(const uint64_t *)field);
    return;
  case TYPE_ADDRESS:
    add_string(text, ((const struct settings_address *)field)->host, REST);
    return;
  case TYPE_PORTS:
    settings_add(text, "%u", ((const struct settings_ports *)field)->first);
    return;
  case TYPE_FOLDER:
  case TYPE_PATH:
  case TYPE_PATHS:
  case TYPE_FORMAT:
  case TYPE_NAMES:
    add_string(text, field, REST);
    return;
  }
}

void settings_alike(const struct settings *settings, char bytes[SETTINGS_ALIKE_SIZE]) {
  struct text text = {bytes, SETTINGS_ALIKE_SIZE, 0};
  memset(bytes, 0, SETTINGS_ALIKE_SIZE);
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    if (setting->scope != OF_ALL_RANKS)
      continue;
    add_value(&text, setting, settings);
    settings_add(&text, "\n");
  }
}

const char *settings_alike_name(size_t line) {
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++)
    if (setting->scope == OF_ALL_RANKS && line-- == 0)
      return setting->name;
  return NULL;
}
