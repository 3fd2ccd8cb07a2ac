/* Reading the settings from an environment. See settings.h. */
#include "core/settings/settings_private.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

/* ---- one setting ---- */

/* The value of name in the environment, or NULL if it is not there. */
const char *settings_value(char *const *environment, const char *name) {
  size_t length = strlen(name);
  for (; environment && *environment; environment++) {
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return *environment + length + 1;
  }
  return NULL;
}

static bool store_word(const struct setting *setting, void *field, const char *value) {
  const struct word *word = settings_find_word(setting->words, value, strlen(value));
  if (word && setting->type == TYPE_SWITCH)
    *(bool *)field = word->value;
  else if (word)
    *(int *)field = word->value;
  return word;
}

/* "zero", for all kinds, or "allgather:zero,send:error": kinds that are not named keep
 * LOSSY_ERROR, and none is named twice. */
static bool store_policies(const struct setting *setting, enum lossy_policy *field,
                           const char *value) {
  enum lossy_policy policies[LOSSY_KINDS] = {LOSSY_ERROR};
  bool named[LOSSY_KINDS] = {false};
  const struct word *all = settings_find_word(setting->words, value, strlen(value));
  for (int kind = 0; all && kind < LOSSY_KINDS; kind++)
    policies[kind] = (enum lossy_policy)all->value;
  for (bool more = !all; more;) {
    size_t before = strcspn(value, ":,"), length = strcspn(value, ",");
    const struct word *kind = settings_find_word(settings_kind_words, value, before);
    if (!kind || before == length || named[kind->value])
      return false;
    const struct word *policy =
        settings_find_word(setting->words, value + before + 1, length - before - 1);
    if (!policy)
      return false;
    named[kind->value] = true;
    policies[kind->value] = (enum lossy_policy)policy->value;
    more = value[length] != '\0';
    value += length + more;
  }
  memcpy(field, policies, sizeof(policies));
  return true;
}

static bool store_number(const struct setting *setting, void *field, const char *value) {
  uint64_t number = 0;
  for (const char *digit = value; *digit; digit++) {
    if (*digit < '0' || *digit > '9' || number > setting->most)
      return false;
    number = number * 10 + (uint64_t)(*digit - '0');
  }
  if (number < setting->least || number > setting->most)
    return false;
  *(uint64_t *)field = number;
  return true;
}

/* A port at the begin of a text, up to `end`. */
static bool read_port(const char *text, const char *end, uint32_t *port) {
  *port = 0;
  for (const char *digit = text; digit < end; digit++) {
    if (*digit < '0' || *digit > '9' || *port > 65535)
      return false;
    *port = *port * 10 + (uint32_t)(*digit - '0');
  }
  return *port >= 1 && *port <= 65535;
}

static bool store_address(struct settings_address *field, const char *value) {
  const char *colon = strrchr(value, ':'), *host = value, *end = colon;
  uint32_t port;
  if (colon == NULL || !read_port(colon + 1, value + strlen(value), &port) ||
      port + SETTINGS_PORTS - 1 > 65535)
    return false;
  bool bracketed = *host == '[' && end[-1] == ']';
  host += bracketed;
  end -= bracketed;
  size_t length = end > host ? (size_t)(end - host) : 0;
  if (length == 0 || length >= SETTINGS_HOST_SIZE || (!bracketed && memchr(host, ':', length)))
    return false;
  memcpy(field->host, host, length);
  field->host[length] = '\0';
  field->port = port;
  return true;
}

static bool store_ports(struct settings_ports *field, const char *value) {
  struct settings_ports ports;
  const char *dash = strchr(value, '-');
  if (dash == NULL || !read_port(value, dash, &ports.first) ||
      !read_port(dash + 1, value + strlen(value), &ports.last) ||
      ports.last < ports.first + SETTINGS_PORTS - 1)
    return false;
  *field = ports;
  return true;
}

static bool store_path(const struct setting *setting, void *field, const char *value) {
  size_t length = strlen(value);
  if (length >= SETTINGS_PATH_SIZE)
    return false;
  for (const char *c = value; setting->type == TYPE_FORMAT && *c; c++) {
    if (*c == '%' && (!*++c || !strchr("hpr%", *c)))
      return false;
  }
  memcpy(field, value, length + 1);
  return true;
}

/* A word as it stands in the table; a folder is known by its slash, so that a typo is none. */
static bool store_folder(const struct setting *setting, void *field, const char *value) {
  const struct word *word = settings_find_word(setting->words, value, strlen(value));
  return word ? store_path(setting, field, word->name)
              : strchr(value, '/') && store_path(setting, field, value);
}

static bool is_built_in(const char *name, size_t length) {
  for (const char *const *exit = settings_built_in_exits; *exit; exit++)
    if (strlen(*exit) == length && strncmp(name, *exit, length) == 0)
      return true;
  return false;
}

/* The name of a function: of C, or mangled. What NCCL's own mean is known without it. */
static bool is_function(const char *name, size_t length) {
  size_t i = 0;
  while (i < length && (isalnum((unsigned char)name[i]) || strchr("_$.", name[i])))
    i++;
  return i == length && length > 0 && !isdigit((unsigned char)*name) &&
         strncmp(name, "nccl", 4) != 0;
}

/* Whether the list has the name in front of `end`. */
static bool is_listed(const char *list, const char *end, const char *name, size_t length) {
  for (const char *at = list; at < end; at += strcspn(at, ",") + 1)
    if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
      return true;
  return false;
}

/* The first name of a list that is not accepted, NULL if all are. Each at most once; those that are
 * built in may be named as well, and only they can be refused. */
static const char *wrong_name(const char *list) {
  uint32_t count = 0;
  for (const char *name = list; *list; name += strcspn(name, ",") + 1) {
    size_t length = strcspn(name, ",");
    bool minus = *name == '-';
    if (++count > SETTINGS_NAMES_MAX || is_listed(list, name, name, length) ||
        !is_function(name + minus, length - minus) ||
        (minus && !is_built_in(name + minus, length - minus)))
      return name;
    if (name[length] == '\0')
      break;
  }
  return NULL;
}

static bool store_names(char *field, const char *value) {
  if (strlen(value) >= SETTINGS_PATH_SIZE || wrong_name(value) != NULL)
    return false;
  memcpy(field, value, strlen(value) + 1);
  return true;
}

/* Stores value in the setting's field; false, with nothing changed, if it is not an accepted one.
 */
bool settings_store(const struct setting *setting, struct settings *settings, const char *value) {
  void *field = (char *)settings + setting->offset;
  switch (setting->type) {
  case TYPE_WORD:
  case TYPE_SWITCH:
    return store_word(setting, field, value);
  case TYPE_LOSSY:
    return store_policies(setting, field, value);
  case TYPE_NUMBER:
    return store_number(setting, field, value);
  case TYPE_ADDRESS:
    return store_address(field, value);
  case TYPE_PORTS:
    return store_ports(field, value);
  case TYPE_FOLDER:
    return store_folder(setting, field, value);
  case TYPE_PATH:
  case TYPE_PATHS:
  case TYPE_FORMAT:
    return store_path(setting, field, value);
  case TYPE_NAMES:
    return store_names(field, value);
  }
  return false;
}

/* ---- the interface ---- */

_Static_assert(sizeof(enum resync_policy) == sizeof(int) &&
                   sizeof(enum early_exit) == sizeof(int) &&
                   sizeof(enum unsure_policy) == sizeof(int) &&
                   sizeof(enum epochs_policy) == sizeof(int) &&
                   sizeof(enum divisor_policy) == sizeof(int) &&
                   sizeof(enum shadow_memory) == sizeof(int) &&
                   sizeof(enum log_level) == sizeof(int),
               "store_word stores an int");

const char *lossy_kind_name(enum lossy_kind kind) {
  return kind < LOSSY_KINDS ? settings_kind_words[kind].name : "kind";
}

void settings_defaults(struct settings *settings) {
  memset(settings, 0, sizeof(*settings));
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++)
    settings_store(setting, settings, setting->initial);
}

/* Ends the line of an error that begins at `start`, or takes it back if it did not fit: then
 * nothing comes after it. */
static void end_line(struct text *text, size_t start) {
  if (text->size && text->used + 1 >= text->size && start > 0) {
    text->used = start;
    text->size = start + 1;
  }
  if (text->size)
    text->bytes[text->used] = '\0';
}

static void add_wrong_value(struct text *text, const struct setting *setting, const char *value) {
  size_t start = text->used;
  char shown[SETTINGS_VALUE_SHOWN];
  settings_add(text, "%s%s=%s is not accepted.", start ? "\n" : "", setting->name,
               settings_as_line(value, strlen(value), shown, sizeof(shown)));
  settings_add_nearest_word(text, setting, value);
  const char *wrong = setting->type == TYPE_NAMES ? wrong_name(value) : NULL;
  if (wrong != NULL)
    settings_add(text, " Wrong is \"%s\".",
                 settings_as_line(wrong, strcspn(wrong, ","), shown, sizeof(shown)));
  settings_add(text, " Accepted: ");
  settings_add_accepted(text, setting);
  if (setting->type == TYPE_LOSSY) {
    settings_add(text, " with each kind at most once: ");
    settings_add_words(text, settings_kind_words);
  }
  if (setting->type == TYPE_NAMES)
    settings_add(text,
                 "; as the linker knows them (nm), without blanks, each once, at most %d, none of "
                 "NCCL's",
                 SETTINGS_NAMES_MAX);
  if (setting->type == TYPE_FOLDER || setting->type == TYPE_PATH || setting->type == TYPE_PATHS ||
      setting->type == TYPE_FORMAT)
    settings_add(text, "; shorter than %d bytes", SETTINGS_PATH_SIZE);
  end_line(text, start);
}

static bool is_known(const char *entry, size_t length) {
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    if (strlen(setting->name) == length && strncmp(entry, setting->name, length) == 0)
      return true;
  }
  return false;
}

/* All names are listed once, for the first of which nothing better is known. */
static void add_unknown_name(struct text *text, const char *entry, size_t length, bool *listed) {
  char name[2 * SETTINGS_WORD_MAX];
  settings_as_line(entry, length, name, sizeof(name));
  size_t start = text->used;
  settings_add(text, "%s%s is not known to this version of nccl-join.", start ? "\n" : "", name);
  if (!settings_add_nearest_name(text, name) && !*listed) {
    settings_add_names(text);
    *listed = true;
  }
  end_line(text, start);
}

bool settings_read(struct settings *settings, char *const *environment, char *error, size_t size) {
  struct text text = {error, size, 0};
  bool good = true, listed = false;
  if (size)
    error[0] = '\0';
  settings_defaults(settings);
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    const char *value = settings_value(environment, setting->name);
    if (value && *value && !settings_store(setting, settings, value)) {
      add_wrong_value(&text, setting, value);
      good = false;
    }
  }
  for (char *const *entry = environment; entry && *entry; entry++) {
    size_t length = strcspn(*entry, "=");
    if (strncmp(*entry, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) == 0 &&
        !is_known(*entry, length)) {
      add_unknown_name(&text, *entry, length, &listed);
      good = false;
    }
  }
  return good;
}
