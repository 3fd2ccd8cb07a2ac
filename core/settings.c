/* Settings: the table, and what is made from it. See settings.h.
 *
 * A setting of the design that no code acts on yet is not in the table, so that setting it is an
 * error instead of a promise. It comes with its feature: a row here and a field in struct
 * settings.
 */
#include "core/settings.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>
#include <strings.h>

enum setting_type {
  TYPE_WORD,   /* one of words; stored as its value in an int-sized field */
  TYPE_SWITCH, /* the same, stored in a bool */
  TYPE_LOSSY,  /* one of words for all kinds, or kind:word,...; an enum lossy_policy[LOSSY_KINDS] */
  TYPE_NUMBER, /* least to most, stored in a uint64_t */
  TYPE_PATH,   /* a path, stored in a char[SETTINGS_PATH_SIZE] */
  TYPE_PATHS,  /* the same, several of them */
  TYPE_NAMES,  /* functions; -name: of those that are built in */
  TYPE_FORMAT, /* a path in which %h, %p, %r and %% are replaced */
};

struct word {
  const char *name; /* NULL: end of the list */
  int value;
};

struct setting {
  const char *name;
  enum setting_type type;
  size_t offset;            /* of its field in struct settings */
  const char *initial;      /* the default, as one would write it; "" for an unset path */
  const struct word *words; /* TYPE_WORD, TYPE_SWITCH and TYPE_LOSSY */
  uint64_t least, most;     /* TYPE_NUMBER */
  const char *unit;         /* TYPE_NUMBER */
  const char *meaning;
};

static const struct word switch_words[] = {{"1", true}, {"0", false}, {NULL, 0}};
static const struct word early_exit_words[] = {
    {"join", EARLY_EXIT_JOIN}, {"throw", EARLY_EXIT_THROW}, {NULL, 0}};
static const struct word divisor_words[] = {{"initial", DIVISOR_INITIAL},
                                            {"active", DIVISOR_ACTIVE},
                                            {"active-sum", DIVISOR_ACTIVE_SUM},
                                            {NULL, 0}};
static const struct word lossy_words[] = {
    {"error", LOSSY_ERROR}, {"zero", LOSSY_ZERO}, {"last", LOSSY_LAST}, {NULL, 0}};
static const struct word resync_words[] = {
    {"none", RESYNC_NONE}, {"broadcasts", RESYNC_BROADCASTS}, {NULL, 0}};
static const struct word memory_words[] = {
    {"plain", SHADOW_MEMORY_PLAIN}, {"alias", SHADOW_MEMORY_ALIAS}, {NULL, 0}};
static const struct word kind_words[] = {
    {"allgather", LOSSY_ALLGATHER}, {"alltoall", LOSSY_ALLTOALL}, {"gather", LOSSY_GATHER},
    {"scatter", LOSSY_SCATTER},     {"send", LOSSY_SEND},         {NULL, 0}};
static const struct word level_words[] = {{"WARN", LOG_LEVEL_WARN},
                                          {"INFO", LOG_LEVEL_INFO},
                                          {"TRACE", LOG_LEVEL_TRACE},
                                          {"ERROR", LOG_LEVEL_ERROR},
                                          {NULL, 0}};

const char *const settings_built_in_exits[] = {"MPI_Finalize", "MPI_Barrier", NULL};

#define FIELD(name) offsetof(struct settings, name)

/* 1800 s and 1000 iterations are PyTorch's numbers (the time-out of a process group; the
 * iterations of a joined rank after which Join warns); a year is as good as for ever, and still
 * bounded. */
static const struct setting table[] = {
    {"NCCL_JOIN", TYPE_SWITCH, FIELD(enabled), "1", switch_words, 0, 0, NULL,
     "0: every call goes straight to NCCL"},
    {"NCCL_JOIN_EARLY_EXIT", TYPE_WORD, FIELD(early_exit), "join", early_exit_words, 0, 0, NULL,
     "throw: when the first rank leaves, all ranks stop at the same collective, with an error"},
    {"NCCL_JOIN_DIVISOR", TYPE_WORD, FIELD(divisor), "initial", divisor_words, 0, 0, NULL,
     "what averages divide by: all ranks, or those that are active; active-sum: large sums of "
     "floats are scaled to match"},
    {"NCCL_JOIN_DIVISOR_MIN", TYPE_NUMBER, FIELD(divisor_min), "1024", NULL, 1, 1000000000,
     "elements", "how large a sum active-sum scales: gradients, not counters"},
    {"NCCL_JOIN_LOSSY", TYPE_LOSSY, FIELD(lossy), "error", lossy_words, 0, 0, NULL,
     "what the active ranks get where they need data of a joined rank (kinds: allgather, alltoall, "
     "gather, scatter, send): an error on every rank, zeros, or what the joined rank's send buffer "
     "holds now"},
    {"NCCL_JOIN_RESYNC", TYPE_WORD, FIELD(resync), "none", resync_words, 0, 0, NULL,
     "broadcasts: when all have joined, the buffers that the program broadcast at its start are "
     "broadcast again, from the last joiner (docs/programs.md says for which programs that is "
     "safe)"},
    {"NCCL_JOIN_SHADOW_MEMORY", TYPE_WORD, FIELD(shadow_memory), "plain", memory_words, 0, 0, NULL,
     "alias: a joined rank needs 2 MiB of device memory for each large buffer, whatever its size "
     "(NCCL 2.24.3 and later; not tried on a GPU yet)"},
    {"NCCL_JOIN_EXIT_ON", TYPE_NAMES, FIELD(exit_on), "", NULL, 0, 0, NULL,
     "functions, of any library or the program, whose call means leaving the loop, as that of "
     "MPI_Barrier and MPI_Finalize does"},
    {"NCCL_JOIN_HOOK", TYPE_PATHS, FIELD(hooks), "", NULL, 0, 0, NULL,
     "plug-ins, called in this order for every shadow and when all have joined"},
    {"NCCL_JOIN_SKEW_WARN", TYPE_NUMBER, FIELD(skew_warn), "1000", NULL, 0, 1000000000,
     "shadow iterations", "warn once when a rank has joined for longer than this; 0: never"},
    {"NCCL_JOIN_TIMEOUT", TYPE_NUMBER, FIELD(timeout_s), "1800", NULL, 1, 31536000, "seconds",
     "how long a rank waits for the others before it gives up"},
    {"NCCL_JOIN_DEBUG", TYPE_WORD, FIELD(log_level), "WARN", level_words, 0, 0, NULL,
     "what is logged, in the format of NCCL's log"},
    {"NCCL_JOIN_DEBUG_FILE", TYPE_FORMAT, FIELD(log_file), "", NULL, 0, 0, NULL,
     "where the log goes instead of stderr"},
    {"NCCL_JOIN_TRACE", TYPE_PATH, FIELD(trace_folder), "", NULL, 0, 0, NULL,
     "folder for one trace file (JSON lines) per rank"},
};

#define NSETTINGS (sizeof(table) / sizeof(table[0]))
#define TABLE_END (table + NSETTINGS)

#define PREFIX "NCCL_JOIN_"
#define VALUE_SHOWN 84 /* bytes of a value in an error's text, with its terminating zero */

/* ---- text of bounded size ---- */

struct text {
  char *bytes;
  size_t size, used; /* used < size unless size is 0 */
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  size_t room = text->size - text->used;
  int length = room ? vsnprintf(text->bytes + text->used, room, format, arguments) : 0;
  va_end(arguments);
  if (length > 0)
    text->used += (size_t)length < room ? (size_t)length : room - 1;
}

/* The first length bytes of what a user has set, in a line of text: control characters as ?, and
 * "..." where it does not fit. Returns bytes. */
static const char *as_line(const char *value, size_t length, char *bytes, size_t size) {
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

static void add_words(struct text *text, const struct word *words) {
  for (const struct word *word = words; word && word->name; word++)
    text_add(text, "%s%s", word == words ? "" : ", ", word->name);
}

/* "1, 0", "0 to 1000000000 shadow iterations", "path": for messages and tables. */
static void add_accepted(struct text *text, const struct setting *setting) {
  switch (setting->type) {
  case TYPE_WORD:
  case TYPE_SWITCH:
    add_words(text, setting->words);
    return;
  case TYPE_LOSSY:
    add_words(text, setting->words);
    text_add(text, ", or kind:value,...");
    return;
  case TYPE_NUMBER:
    text_add(text, "%llu to %llu %s", (unsigned long long)setting->least,
             (unsigned long long)setting->most, setting->unit);
    return;
  case TYPE_PATH:
    text_add(text, "a path");
    return;
  case TYPE_PATHS:
    text_add(text, "paths, separated by commas");
    return;
  case TYPE_NAMES:
    text_add(text, "names, separated by commas; -name: not that one");
    return;
  case TYPE_FORMAT:
    text_add(text, "a path; %%h host, %%p process, %%r rank");
    return;
  }
}

/* The word that the first length bytes of a text are, in any case; NULL if they are none. */
static const struct word *find_word(const struct word *words, const char *text, size_t length) {
  for (const struct word *word = words; word->name; word++)
    if (strlen(word->name) == length && strncasecmp(text, word->name, length) == 0)
      return word;
  return NULL;
}

/* ---- did you mean ---- */

#define WORD_MAX 32 /* longer words are not near anything */

static size_t least_of(size_t a, size_t b) {
  return a < b ? a : b;
}

/* Levenshtein's distance, cases equal, and swapped neighbours one step; WORD_MAX if either is
 * long.
 */
static size_t distance(const char *a, const char *b) {
  size_t na = strlen(a), nb = strlen(b);
  if (na > WORD_MAX || nb > WORD_MAX)
    return WORD_MAX;
  size_t rows[3][WORD_MAX + 1];
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
  return distance(a, b) <= (strlen(b) > 4 ? 2 : 1);
}

static void add_nearest_name(struct text *text, const char *name) {
  const struct setting *nearest = NULL;
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    if (is_near(name, setting->name) &&
        (!nearest || distance(name, setting->name) < distance(name, nearest->name)))
      nearest = setting;
  }
  if (nearest)
    text_add(text, " Did you mean %s?", nearest->name);
  text_add(text, " Known: ");
  for (const struct setting *setting = table; setting < TABLE_END; setting++)
    text_add(text, "%s%s", setting == table ? "" : ", ", setting->name);
}

static void add_nearest_of(struct text *text, const struct word *words, const char *value) {
  for (const struct word *word = words; word->name; word++) {
    if (is_near(value, word->name)) {
      text_add(text, " Did you mean %s?", word->name);
      return;
    }
  }
}

/* For the first word of a list of policies that is not known. */
static void add_nearest_policy(struct text *text, const struct word *values, const char *list) {
  while (*list) {
    size_t length = strcspn(list, ":,");
    const struct word *words = list[length] == ':' ? kind_words : values;
    char part[WORD_MAX + 2];
    snprintf(part, sizeof(part), "%.*s", (int)least_of(length, WORD_MAX + 1), list);
    if (!find_word(words, list, length)) {
      add_nearest_of(text, words, part);
      return;
    }
    list += length + (list[length] != '\0');
  }
}

static void add_nearest_word(struct text *text, const struct setting *setting, const char *value) {
  if (setting->type == TYPE_WORD)
    add_nearest_of(text, setting->words, value);
  else if (setting->type == TYPE_LOSSY)
    add_nearest_policy(text, setting->words, value);
}

/* ---- one setting ---- */

/* The value of name in the environment, or NULL if it is not there. */
static const char *environment_value(char *const *environment, const char *name) {
  size_t length = strlen(name);
  for (; environment && *environment; environment++) {
    if (strncmp(*environment, name, length) == 0 && (*environment)[length] == '=')
      return *environment + length + 1;
  }
  return NULL;
}

static bool store_word(const struct setting *setting, void *field, const char *value) {
  const struct word *word = find_word(setting->words, value, strlen(value));
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
  const struct word *all = find_word(setting->words, value, strlen(value));
  for (int kind = 0; all && kind < LOSSY_KINDS; kind++)
    policies[kind] = (enum lossy_policy)all->value;
  for (bool more = !all; more;) {
    size_t before = strcspn(value, ":,"), length = strcspn(value, ",");
    const struct word *kind = find_word(kind_words, value, before);
    if (!kind || before == length || named[kind->value])
      return false;
    const struct word *policy = find_word(setting->words, value + before + 1, length - before - 1);
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

/* Each at most once; those that are built in may be named as well, and only they can be refused. */
static bool store_names(char *field, const char *value) {
  uint32_t count = 0;
  if (strlen(value) >= SETTINGS_PATH_SIZE)
    return false;
  for (const char *name = value; *value; name += strcspn(name, ",") + 1) {
    size_t length = strcspn(name, ",");
    bool minus = *name == '-';
    if (++count > SETTINGS_NAMES_MAX || is_listed(value, name, name, length) ||
        !is_function(name + minus, length - minus) ||
        (minus && !is_built_in(name + minus, length - minus)))
      return false;
    if (name[length] == '\0')
      break;
  }
  memcpy(field, value, strlen(value) + 1);
  return true;
}

/* Stores value in the setting's field; false, with nothing changed, if it is not an accepted one.
 */
static bool store(const struct setting *setting, struct settings *settings, const char *value) {
  void *field = (char *)settings + setting->offset;
  switch (setting->type) {
  case TYPE_WORD:
  case TYPE_SWITCH:
    return store_word(setting, field, value);
  case TYPE_LOSSY:
    return store_policies(setting, field, value);
  case TYPE_NUMBER:
    return store_number(setting, field, value);
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
                   sizeof(enum divisor_policy) == sizeof(int) &&
                   sizeof(enum shadow_memory) == sizeof(int) &&
                   sizeof(enum log_level) == sizeof(int),
               "store_word stores an int");

const char *lossy_kind_name(enum lossy_kind kind) {
  return kind < LOSSY_KINDS ? kind_words[kind].name : "kind";
}

void settings_defaults(struct settings *settings) {
  memset(settings, 0, sizeof(*settings));
  for (const struct setting *setting = table; setting < TABLE_END; setting++)
    store(setting, settings, setting->initial);
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
  char shown[VALUE_SHOWN];
  text_add(text, "%s%s=%s is not accepted.", start ? "\n" : "", setting->name,
           as_line(value, strlen(value), shown, sizeof(shown)));
  add_nearest_word(text, setting, value);
  text_add(text, " Accepted: ");
  add_accepted(text, setting);
  if (setting->type == TYPE_LOSSY) {
    text_add(text, " with each kind at most once: ");
    add_words(text, kind_words);
  }
  if (setting->type == TYPE_NAMES) {
    text_add(text, "; each once, at most %d, none of NCCL's; -name for", SETTINGS_NAMES_MAX);
    for (const char *const *name = settings_built_in_exits; *name; name++)
      text_add(text, "%s %s", name == settings_built_in_exits ? "" : " and", *name);
  }
  if (setting->type == TYPE_PATH || setting->type == TYPE_PATHS || setting->type == TYPE_FORMAT)
    text_add(text, "; shorter than %d bytes", SETTINGS_PATH_SIZE);
  end_line(text, start);
}

static bool is_known(const char *entry, size_t length) {
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    if (strlen(setting->name) == length && strncmp(entry, setting->name, length) == 0)
      return true;
  }
  return false;
}

static void add_unknown_name(struct text *text, const char *entry, size_t length) {
  char name[2 * WORD_MAX];
  as_line(entry, length, name, sizeof(name));
  size_t start = text->used;
  text_add(text, "%s%s is not known to this version of nccl-join.", start ? "\n" : "", name);
  add_nearest_name(text, name);
  end_line(text, start);
}

bool settings_read(struct settings *settings, char *const *environment, char *error, size_t size) {
  struct text text = {error, size, 0};
  bool good = true;
  if (size)
    error[0] = '\0';
  settings_defaults(settings);
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    const char *value = environment_value(environment, setting->name);
    if (value && *value && !store(setting, settings, value)) {
      add_wrong_value(&text, setting, value);
      good = false;
    }
  }
  for (char *const *entry = environment; entry && *entry; entry++) {
    size_t length = strcspn(*entry, "=");
    if (strncmp(*entry, PREFIX, strlen(PREFIX)) == 0 && !is_known(*entry, length)) {
      add_unknown_name(&text, *entry, length);
      good = false;
    }
  }
  return good;
}

/* ---- tables ---- */

static const char *or_none(const char *value) {
  return *value ? value : "(none)";
}

/* The accepted values in a buffer of the caller's. */
static const char *accepted(const struct setting *setting, char *bytes, size_t size) {
  struct text text = {bytes, size, 0};
  bytes[0] = '\0';
  add_accepted(&text, setting);
  return bytes;
}

struct shown {
  char value[SETTINGS_PATH_SIZE];
  const char *from;
};

static void show(const struct setting *setting, char *const *environment, struct shown *shown) {
  const char *value = environment_value(environment, setting->name);
  struct settings scratch;
  bool is_set = value && *value;
  if (!is_set)
    value = or_none(setting->initial);
  as_line(value, strlen(value), shown->value, sizeof(shown->value));
  shown->from = !is_set ? "default" : store(setting, &scratch, value) ? "environment" : "WRONG";
}

void settings_print(FILE *out, char *const *environment) {
  static const char *const columns = "%-23s  %-*s  %-11s  %-7s  %-36s  %s\n";
  int width = 7; /* of the column VALUE: paths can be long */
  struct shown shown;
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    show(setting, environment, &shown);
    int length = (int)strlen(shown.value);
    width = length > width ? length : width;
  }
  fprintf(out, columns, "SETTING", width, "VALUE", "FROM", "DEFAULT", "ACCEPTED", "MEANING");
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    show(setting, environment, &shown);
    char text[128];
    fprintf(out, columns, setting->name, width, shown.value, shown.from, or_none(setting->initial),
            accepted(setting, text, sizeof(text)), setting->meaning);
  }
}

static void print_markdown_words(FILE *out, const struct setting *setting) {
  for (const struct word *word = setting->words; word->name; word++)
    fprintf(out, "%s`%s`", word == setting->words ? "" : ", ", word->name);
  if (setting->type == TYPE_LOSSY)
    fprintf(out, ", or `kind:value,...`");
}

void settings_print_markdown(FILE *out) {
  fprintf(out, "| setting | default | accepted | meaning |\n|---|---|---|---|\n");
  for (const struct setting *setting = table; setting < TABLE_END; setting++) {
    const char *quote = *setting->initial ? "`" : "";
    fprintf(out, "| `%s` | %s%s%s | ", setting->name, quote, or_none(setting->initial), quote);
    char text[128];
    if (setting->words)
      print_markdown_words(out, setting);
    else
      fputs(accepted(setting, text, sizeof(text)), out);
    fprintf(out, " | %s |\n", setting->meaning);
  }
}
