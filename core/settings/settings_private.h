/* What the files of the settings (settings.h) share: settings.c reads them, settings_table.c knows
 * them, settings_text.c writes what an error says, settings_print.c prints them, settings_alike.c
 * writes the text by which the ranks compare theirs. Not for anybody else. */
#ifndef NCCL_JOIN_CORE_SETTINGS_PRIVATE_H
#define NCCL_JOIN_CORE_SETTINGS_PRIVATE_H

#include "core/settings/settings.h"

enum setting_type {
  TYPE_WORD,   /* one of words; stored as its value in an int-sized field */
  TYPE_SWITCH, /* the same, stored in a bool */
  TYPE_LOSSY,  /* one of words for all kinds, or kind:word,...; an enum lossy_policy[LOSSY_KINDS] */
  TYPE_NUMBER, /* least to most, stored in a uint64_t */
  TYPE_ADDRESS, /* host:port or [IPv6]:port, stored in a struct settings_address */
  TYPE_PORTS,   /* first-last, stored in a struct settings_ports */
  TYPE_PATH,    /* a path, stored in a char[SETTINGS_PATH_SIZE] */
  TYPE_FOLDER,  /* the same: one of words, or a folder with a slash in its name */
  TYPE_PATHS,   /* the same, several of them */
  TYPE_NAMES,   /* functions; -name: of those that are built in */
  TYPE_FORMAT,  /* a path in which %h, %p, %r and %% are replaced */
};

struct word {
  const char *name; /* NULL: end of the list */
  int value;
};

/* Whether the ranks of a communicator must have it alike, because it changes what all of them do
 * together. */
enum setting_scope { OF_EACH_RANK, OF_ALL_RANKS };

struct setting {
  const char *name;
  enum setting_type type;
  enum setting_scope scope;
  size_t offset;            /* of its field in struct settings */
  const char *initial;      /* the default, as one would write it; "" for an unset path */
  const struct word *words; /* TYPE_WORD, TYPE_SWITCH, TYPE_LOSSY and TYPE_FOLDER */
  uint64_t least, most;     /* TYPE_NUMBER */
  const char *unit;         /* TYPE_NUMBER */
  const char *meaning;
};

/* All settings, in the order of the documentation; the last one has no name. */
extern const struct setting settings_table[];

/* The kinds of NCCL_JOIN_LOSSY, in the order of enum lossy_kind. */
extern const struct word settings_kind_words[];

#define SETTINGS_PREFIX "NCCL_JOIN_"
#define SETTINGS_WORD_MAX 32 /* longer words are not near anything */
/* Bytes of a value in an error, with its terminating zero. */
#define SETTINGS_VALUE_SHOWN 84

/* Text of bounded size. */
struct text {
  char *bytes;
  size_t size, used; /* used < size unless size is 0 */
};

void __attribute__((format(printf, 2, 3))) settings_add(struct text *text, const char *format, ...);

/* The first length bytes of what a user has set, in a line of text: control characters as ?, and
 * "..." where it does not fit. Returns bytes. */
const char *settings_as_line(const char *value, size_t length, char *bytes, size_t size);

void settings_add_words(struct text *text, const struct word *words);

/* "1, 0", "0 to 1000000000 shadow iterations", "path": for messages and tables. */
void settings_add_accepted(struct text *text, const struct setting *setting);

/* The word that the first length bytes of a text are, in any case; NULL if they are none. */
const struct word *settings_find_word(const struct word *words, const char *text, size_t length);

/* " Did you mean ...?", if a name, or a word that a setting takes, is near to what was given. False
 * if no name is. */
bool settings_add_nearest_name(struct text *text, const char *name);
void settings_add_nearest_word(struct text *text, const struct setting *setting, const char *value);

/* " Known: " and all names. */
void settings_add_names(struct text *text);

/* The value in an environment (NAME=value entries, ended by NULL), or NULL. */
const char *settings_value(char *const *environment, const char *name);

/* Takes a value over into its field. False if it is not accepted: nothing has changed then. */
bool settings_store(const struct setting *setting, struct settings *settings, const char *value);

#endif
