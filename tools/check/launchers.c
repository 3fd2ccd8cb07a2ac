/* Programs that start other programs (launcher_read of command.h), by their options. What is not
 * known of one is no answer: then it cannot be told what it starts. */
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wordexp.h>

#include "tools/check/command.h"
#include "tools/check/image.h"
#include "tools/check/launcher_table.h"

/* Options that mean something here, whatever a launcher calls them. */
enum meaning {
  PLAIN = 1,
  IS_PROGRAM,  /* not a script of Python */
  IS_MODULE,   /* a module of Python */
  UNTOLD,      /* what is started is told elsewhere */
  EMPTY,       /* the environment is emptied */
  UNSET,       /* of one variable */
  FOLDER,      /* another working folder */
  EXPORT,      /* Slurm's list of variables */
  ASSIGNMENT,  /* of one variable: NAME=value; with two values also NAME value */
  NOT_IN_FRONT /* nccl-join run --no-join */
};

static enum launched untold(struct command *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static enum launched untold(struct command *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(command->why, sizeof command->why, format, arguments);
  va_end(arguments);
  return LAUNCHED_UNKNOWN;
}

static bool has_word(const char *list, const char *word) {
  char part[256];
  snprintf(part, sizeof part, " %s ", word);
  return strstr(list, part) != NULL;
}

/* A copy of one or two lists behind each other, in one piece of memory. */
static char *const *make_words(struct command *command, const char *const *first, size_t nfirst,
                               char *const *second) {
  size_t count = nfirst, size = 0;
  while (second[count - nfirst] != NULL)
    count++;
#define WORD(i) ((i) < nfirst ? first[i] : second[(i)-nfirst])
  for (size_t i = 0; i < count; i++)
    size += strlen(WORD(i)) + 1;
  char **words = more_memory(NULL, (count + 1) * sizeof *words + size);
  char *text = (char *)(words + count + 1);
  for (size_t i = 0; i < count; i++) {
    size_t length = strlen(WORD(i)) + 1;
    words[i] = memcpy(text, WORD(i), length);
    text += length;
  }
#undef WORD
  words[count] = NULL;
  command->made[command->nmade++] = words;
  return words;
}

/* ---- options, read by getopt_long ---- */

#define OPTIONS_MAX 256
#define ASSIGNMENT_SIZE 4096

struct options {
  struct option all[2 * OPTIONS_MAX + 1]; /* and once more with _ for - */
  enum meaning meanings[OPTIONS_MAX], of_letter[128];
  bool has_two[OPTIONS_MAX];
  char letters[300], text[16384];
  size_t count, nlong;
};

static enum meaning meaning_of(char letter) {
  static const struct {
    char letter;
    enum meaning meaning;
  } meanings[] = {{'p', IS_PROGRAM}, {'m', IS_MODULE},    {'u', UNTOLD},
                  {'e', EMPTY},      {'s', UNSET},        {'f', FOLDER},
                  {'x', EXPORT},     {'n', NOT_IN_FRONT}, {'a', ASSIGNMENT}};
  for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
    if (meanings[i].letter == letter)
      return meanings[i].meaning;
  return PLAIN;
}

static void add_long(struct options *options, const char *name, size_t index, int argument) {
  options->all[options->nlong++] =
      (struct option){.name = name, .has_arg = argument, .val = 1000 + (int)index};
}

static void add_option(struct options *options, char *word, bool one_dash) {
  size_t size = strcspn(word, "=?!"), index = options->count++;
  const char *mark = word + size;
  const char *letter = strchr(mark, '!');
  int argument = *mark == '=' ? required_argument : *mark == '?' ? optional_argument : no_argument;
  options->has_two[index] = strncmp(mark, "==", 2) == 0;
  options->meanings[index] = meaning_of((char)(letter != NULL ? letter[1] : '\0'));
  word[size] = '\0';
  if (size == 1) {
    size_t used = strlen(options->letters);
    snprintf(options->letters + used, sizeof options->letters - used, "%s%s", word,
             argument == required_argument   ? ":"
             : argument == optional_argument ? "::"
                                             : "");
    options->of_letter[(unsigned char)*word] = options->meanings[index];
    if (!one_dash)
      return;
  }
  add_long(options, word, index, argument);
  if (strchr(word, '-') == NULL)
    return;
  char *other = word + sizeof options->text / 2;
  memcpy(other, word, size + 1);
  for (char *dash = other; (dash = strchr(dash, '-')) != NULL;)
    *dash = '_';
  add_long(options, other, index, argument);
}

static void read_table(struct options *options, const struct launcher *launcher) {
  *options = (struct options){.letters = "+"}; /* the first word that is no option ends them */
  snprintf(options->text, sizeof options->text / 2, "%s", launcher->options);
  char *rest = NULL;
  for (char *word = strtok_r(options->text, " ", &rest);
       word != NULL && options->count < OPTIONS_MAX; word = strtok_r(NULL, " ", &rest))
    add_option(options, word, launcher->one_dash);
}

/* What has been read of a launcher's own words. */
struct reading {
  bool is_program, is_module, not_in_front;
};

/* NAME=value takes effect here. */
static void assign(struct command *command, const char *by, const char *assignment) {
  const char *equals = strchr(assignment, '=');
  char variable[256];
  snprintf(variable, sizeof variable, "%.*s", (int)(equals - assignment), assignment);
  setenv(variable, equals + 1, 1);
  if (strcmp(variable, "LD_PRELOAD") == 0)
    command->drops = strstr(equals, "libnccl-join.so") != NULL ? NULL : by;
}

/* ALL, NONE, names and assignments, with commas between them. */
static void export_list(struct command *command, const char *by, const char *list) {
  char *copy = strdup(list), *rest = copy, *item;
  bool keeps = false;
  while (copy != NULL && (item = strsep(&rest, ",")) != NULL)
    keeps |= strcmp(item, "ALL") == 0 || strcmp(item, "LD_PRELOAD") == 0;
  if (!keeps)
    command->drops = by;
  free(copy);
  rest = copy = strdup(list);
  while (copy != NULL && (item = strsep(&rest, ",")) != NULL)
    if (strchr(item, '=') != NULL)
      assign(command, by, item);
  free(copy);
}

/* False if it is then not known any more what is started. */
static bool follow_option(struct command *command, struct reading *reading, enum meaning meaning,
                          const char *name) {
  switch (meaning) {
  case PLAIN:
    return true;
  case IS_PROGRAM:
    return reading->is_program = true;
  case IS_MODULE:
    return reading->is_module = true;
  case NOT_IN_FRONT:
    return reading->not_in_front = true;
  case UNTOLD:
    return false;
  case EMPTY:
    command->drops = name;
    unsetenv("LD_LIBRARY_PATH");
    return unsetenv("LD_PRELOAD") == 0;
  case UNSET:
    if (strcmp(optarg, "LD_PRELOAD") == 0)
      command->drops = name;
    return unsetenv(optarg) == 0;
  case FOLDER:
    return chdir(optarg) == 0;
  case EXPORT:
    export_list(command, name, optarg);
    return true;
  case ASSIGNMENT:
    if (strchr(optarg, '=') != NULL)
      assign(command, name, optarg);
    return true;
  }
  return false;
}

/* Of an option with two values, the second word. With NAME=value there is none; where that means
 * nothing, it is not known what there is. */
static enum meaning take_second(char *const *words, int count, enum meaning meaning,
                                char assignment[ASSIGNMENT_SIZE]) {
  bool in_one = strchr(optarg, '=') != NULL;
  if (in_one || optind >= count)
    return in_one && meaning == ASSIGNMENT ? ASSIGNMENT : UNTOLD;
  if (meaning == ASSIGNMENT)
    snprintf(assignment, ASSIGNMENT_SIZE, "%s=%s", optarg, words[optind]);
  optind++;
  return meaning;
}

/* The words behind the options; NULL if there is an option that is not known, or that leaves open
 * what is started. */
static char *const *read_options(struct command *command, const struct launcher *launcher,
                                 const char *name, char *const *words, struct reading *reading) {
  struct options options;
  int count = 0, found, index;
  while (words[count] != NULL)
    count++;
  read_table(&options, launcher);
  opterr = 0;
  optind = 0;
  for (;;) {
    char assignment[ASSIGNMENT_SIZE] = "";
    int at = optind > 0 ? optind : 1;
    found = launcher->one_dash
                ? getopt_long_only(count, (char **)words, options.letters, options.all, &index)
                : getopt_long(count, (char **)words, options.letters, options.all, &index);
    if (found == -1)
      break;
    enum meaning meaning = UNTOLD;
    if (found >= 1000) {
      meaning = options.meanings[found - 1000];
      if (options.has_two[found - 1000])
        meaning = take_second(words, count, meaning, assignment);
    } else if (found != '?') {
      meaning = options.of_letter[found & 127];
    }
    if (meaning == ASSIGNMENT && *assignment != '\0')
      assign(command, name, assignment);
    else if (!follow_option(command, reading, meaning, name)) {
      untold(command, "with %.60s %.60s it cannot be told here what it starts", name,
             at < count ? words[at] : "");
      return NULL;
    }
  }
  for (unsigned i = 0; i < launcher->before && optind < count; i++)
    optind++;
  return words + (optind < count ? optind : count);
}

/* ---- what is behind them ---- */

static bool is_assignment(const char *word) {
  size_t size = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
  return size > 0 && word[size] == '=';
}

/* NAME=value words take effect here. */
static char *const *take_assignments(struct command *command, const char *name,
                                     char *const *words) {
  for (; *words != NULL && is_assignment(*words); words++)
    assign(command, name, *words);
  return words;
}

static bool is_shell_word(const char *word) {
  return has_word(
      " . source cd eval set export unset ulimit umask trap if for while until case function "
      "exit return shift alias read { ! [ [[ : true false echo printf test wait builtin "
      "command declare local time ",
      word);
}

/* A text that is one plain command is one; of any other, the shell knows what it is. */
static enum launched read_shell_text(struct command *command, const char *text, const char *name,
                                     char *const **started) {
  wordexp_t expanded;
  const char *dollar = text;
  while ((dollar = strchr(dollar, '$')) != NULL && strchr("0123456789@*#!?-$", *++dollar) == NULL)
    continue;
  if (dollar != NULL || wordexp(text, &expanded, WRDE_NOCMD | WRDE_UNDEF) != 0)
    return untold(command, "what %.60s makes of its text is known only when it runs", name);
  *started = make_words(command, (const char *const *)expanded.we_wordv, 0, expanded.we_wordv);
  wordfree(&expanded);
  *started = take_assignments(command, name, *started);
  if (**started != NULL && strcmp(**started, "exec") == 0)
    ++*started;
  if (**started == NULL || is_shell_word(**started))
    return untold(command, "what %.60s makes of its text is known only when it runs", name);
  return LAUNCHED_COMMAND;
}

/* sh -c TEXT, sh -ec TEXT, sh FILE, sh */
static enum launched read_shell(struct command *command, char *const *words,
                                char *const **started) {
  const char *name = base_name(words[0]);
  char *const *word = words + 1;
  for (; *word != NULL && (**word == '-' || **word == '+') && (*word)[1] != '\0'; word++) {
    if (strspn(*word + 1, "abefhmnuvxc") != strlen(*word + 1))
      return untold(command, "with %.60s %.60s, files that the shell reads decide what it starts",
                    name, *word);
    if (**word == '-' && strchr(*word, 'c') != NULL)
      return word[1] != NULL ? read_shell_text(command, word[1], name, started)
                             : untold(command, "no text is given to %.60s -c", name);
  }
  return *word != NULL
             ? untold(command,
                      "it is a script for %.60s: what it starts is known only when it runs", name)
             : untold(command, "what %.60s is told to start is not said", name);
}

static enum launched start_python(struct command *command, const struct reading *reading,
                                  char *const *rest, char *const **started) {
  const char *python[] = {command->interpreter, "-m"};
  *started =
      reading->is_program ? rest : make_words(command, python, reading->is_module ? 2 : 1, rest);
  return LAUNCHED_COMMAND;
}

static enum launched read_rest(struct command *command, const struct launcher *launcher,
                               const char *name, char *const *words, char *const **started) {
  struct reading reading = {0};
  char *const *rest = read_options(command, launcher, name, words, &reading);
  if (rest == NULL)
    return LAUNCHED_UNKNOWN;
  if (launcher->way == VARIABLES) {
    if (*rest != NULL && strcmp(*rest, "-") == 0) {
      follow_option(command, &reading, EMPTY, name);
      rest++;
    }
    rest = take_assignments(command, name, rest);
  }
  if (*rest == NULL)
    return untold(command, "what %.60s is to start is not said", name);
  for (char *const *word = rest; launcher->way == MPI && *word != NULL; word++)
    if (strcmp(*word, ":") == 0)
      return untold(command, "%.60s starts several programs", name);
  if (launcher->way == IN_FRONT) {
    command->puts_in_front |= !reading.not_in_front;
    command->drops = reading.not_in_front ? command->drops : NULL;
  }
  if (launcher->way == PYTHON)
    return start_python(command, &reading, rest, started);
  *started = rest;
  return LAUNCHED_COMMAND;
}

/* The words of the launcher itself, its name first: of `python -m NAME`, those from NAME on; of
 * `accelerate launch` and `nccl-join run`, those from the second word on. NULL: it does something
 * else. */
static char *const *own_words(const struct command *command, const struct launcher *launcher) {
  char *const *words = command->module != NULL ? command->arguments - 1 : command->words;
  const char *name = base_name(command->file);
  if (command->kind == COMMAND_PYTHON && command->module == NULL && *command->script != '\0')
    words = command->arguments - 1;
  if (launcher->way != IN_FRONT && (command->module != NULL || strcmp(name, "accelerate") != 0))
    return words;
  const char *wanted = launcher->way == IN_FRONT ? "run" : "launch";
  return words[1] != NULL && strcmp(words[1], wanted) == 0 ? words + 1 : NULL;
}

enum launched launcher_read(struct command *command, char *const **started) {
  const char *name = base_name(command->file);
  bool is_module = command->kind == COMMAND_PYTHON && command->module != NULL;
  for (const struct launcher *launcher = launcher_table; launcher->names != NULL; launcher++) {
    if (is_module ? !has_word(launcher->modules, command->module)
                  : !has_word(launcher->names, name))
      continue;
    if (launcher->way == PYTHON && command->kind != COMMAND_PYTHON)
      return LAUNCHED_NONE; /* something else of that name */
    if (is_module)
      name = command->module;
    names_add(&command->launchers, name);
    name =
        command->launchers.items[command->launchers.count - 1]; /* command->file will be another */
    if (launcher->way == SHELL)
      return read_shell(command, command->words, started);
    char *const *words = own_words(command, launcher);
    return words != NULL ? read_rest(command, launcher, name, words, started)
                         : untold(command, "what %.60s starts here is not known", name);
  }
  return LAUNCHED_NONE;
}
