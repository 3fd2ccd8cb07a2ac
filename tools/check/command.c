/* From a command line to the file that is executed (command.h): PATH, #! lines, pyenv's shims, the
 * options of Python, and so from launcher to launcher. */
#include "tools/check/command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/image.h"

#define FIRST_LINES 1024   /* of a script, which are enough to tell what runs it */
#define INTERPRETERS_MAX 4 /* of interpreters, as the kernel allows */

static bool say(char *error, const char *name, const char *text) {
  snprintf(error, COMMAND_ERROR_SIZE, "%.120s: %s", name, text);
  return false;
}

/* ---- PATH ---- */

static bool is_program(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

static bool find_program(const char *name, char path[PATH_MAX]) {
  if (strchr(name, '/') != NULL)
    return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && is_program(path);
  const char *list = getenv("PATH");
  if (list == NULL)
    list = "/bin:/usr/bin";
  while (*name != '\0') {
    size_t size = strcspn(list, ":");
    if (size < PATH_MAX &&
        snprintf(path, PATH_MAX, "%.*s%s%s", (int)size, list, size > 0 ? "/" : "", name) <
            PATH_MAX &&
        is_program(path))
      return true;
    if (list[size] == '\0')
      break;
    list += size + 1;
  }
  return false;
}

static void read_first_lines(const char *path, char text[FIRST_LINES]) {
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  ssize_t got = descriptor >= 0 ? read(descriptor, text, FIRST_LINES - 1) : 0;
  text[got > 0 ? got : 0] = '\0';
  if (descriptor >= 0)
    close(descriptor);
}

/* ---- interpreters ---- */

/* python, python3, python3.11, python3.13t */
static bool is_python(const char *path) {
  const char *name = base_name(path);
  return strncmp(name, "python", 6) == 0 && name[6 + strspn(name + 6, "0123456789.dt")] == '\0';
}

/* Takes the next word of a line away from its beginning; "" at the end. */
static char *next_word(char **line) {
  char *word = *line + strspn(*line, " \t\"");
  char *end = word + strcspn(word, " \t\"\r\n");
  *line = *end != '\0' ? end + 1 : end;
  *end = '\0';
  return word;
}

/* The interpreter that a #! line names, also by way of env. */
static bool find_interpreter(char *first_lines, char path[PATH_MAX]) {
  char *line = first_lines + 2;
  line[strcspn(line, "\n")] = '\0';
  char *word = next_word(&line);
  if (strcmp(base_name(word), "env") == 0)
    do
      word = next_word(&line);
    while (*word == '-' || strchr(word, '=') != NULL);
  return find_program(word, path);
}

/* pip's way around a #! line that is too long for the kernel: the second line of a shell script is
 * a text of Python. */
static bool find_long_interpreter(const char *first_lines, char path[PATH_MAX]) {
  static const char begin[] = "\n'''exec' ";
  const char *found = strstr(first_lines, begin);
  char line[PATH_MAX];
  if (found == NULL)
    return false;
  snprintf(line, sizeof line, "%s", found + strlen(begin));
  char *rest = line;
  return find_program(next_word(&rest), path);
}

/* ---- pyenv: shims are shell scripts that choose a version, by a variable or by files ---- */

static bool read_word(const char *path, char *word, size_t size) {
  char text[FIRST_LINES];
  read_first_lines(path, text);
  char *line = text;
  return snprintf(word, size, "%s", next_word(&line)) > 0;
}

static bool pyenv_version(const char *root, char *version, size_t size) {
  const char *chosen = getenv("PYENV_VERSION");
  char folder[PATH_MAX], path[PATH_MAX + 32];
  if (chosen != NULL && *chosen != '\0') {
    snprintf(version, size, "%.*s", (int)strcspn(chosen, ":"), chosen);
    return true;
  }
  bool more = getcwd(folder, sizeof folder) != NULL;
  while (more) {
    snprintf(path, sizeof path, "%s/.python-version", folder);
    if (read_word(path, version, size))
      return true;
    char *slash = strrchr(folder, '/');
    more = slash != NULL;
    if (more)
      *slash = '\0';
  }
  snprintf(path, sizeof path, "%s/version", root);
  return read_word(path, version, size);
}

static bool find_behind_shim(const char *shim, const char *first_lines, char path[PATH_MAX]) {
  char root[PATH_MAX], version[64];
  if (strstr(first_lines, "pyenv\" exec \"$program\"") == NULL)
    return false;
  snprintf(root, sizeof root, "%s", shim);
  for (int i = 0; i < 2 && strrchr(root, '/') != NULL; i++)
    *strrchr(root, '/') = '\0';
  return pyenv_version(root, version, sizeof version) &&
         snprintf(path, PATH_MAX, "%.3900s/versions/%s/bin/%.100s", root, version,
                  base_name(shim)) > 0 &&
         is_program(path);
}

/* ---- Python's options: cpython's Python/getopt.c ---- */

/* The value of the option at `letter` of a word: the rest of the word, or the next one. */
static const char *value_of(const char *letter, char *const **words) {
  if (letter[1] != '\0')
    return letter + 1;
  if (**words != NULL)
    ++*words;
  return **words;
}

/* True if what is to be run is known. `words` is at the last word that has been read. */
static bool read_python_option(struct command *command, char *const **words) {
  for (const char *letter = **words + 1; *letter != '\0'; letter++) {
    switch (*letter) {
    case 'c':
      command->code = value_of(letter, words);
      return true;
    case 'm':
      command->module = value_of(letter, words);
      return true;
    case 'P':
      command->safe_path = true;
      break;
    case 'W':
    case 'X':
      value_of(letter, words);
      return false;
    case 'I':
      command->isolated = command->without_user = command->safe_path = true;
      break;
    case 'E':
      command->isolated = true;
      break;
    case 's':
      command->without_user = true;
      break;
    default:
      break;
    }
  }
  return false;
}

static void read_python_options(struct command *command, char *const *words) {
  for (words++; *words != NULL; words++) {
    command->arguments = words + 1;
    if (**words != '-') {
      snprintf(command->script, PATH_MAX, "%s", *words);
      return;
    }
    if ((*words)[1] == '\0')
      return; /* from standard input */
    if (strcmp(*words, "--check-hash-based-pycs") == 0 && words[1] != NULL)
      words++;
    if ((*words)[1] == '-')
      continue;
    if (read_python_option(command, &words) || *words == NULL) {
      command->arguments = *words != NULL ? words + 1 : words;
      return;
    }
  }
}

/* ---- all together ---- */

/* A shim that is started itself is forgotten for what is behind it; one that a #! line names is on
 * the way from the script, which stays. */
static void follow(struct command *command, char *const *words) {
  char text[FIRST_LINES], path[PATH_MAX];
  bool is_script = false;
  copy_path(path, command->file);
  for (int i = 0; i < INTERPRETERS_MAX; i++) {
    read_first_lines(path, text);
    if (strncmp(text, "#!", 2) != 0)
      break;
    char next[PATH_MAX] = "";
    if (find_behind_shim(path, text, next)) {
      copy_path(path, next);
      if (!is_script)
        copy_path(command->file, path);
      continue;
    }
    if (!find_long_interpreter(text, next) && !find_interpreter(text, next)) {
      command->kind = COMMAND_UNKNOWN;
      snprintf(command->why, sizeof command->why,
               "the interpreter of its first line, %.*s, is not found",
               (int)strcspn(text, "\n") > 120 ? 120 : (int)strcspn(text, "\n"), text);
      return;
    }
    copy_path(path, next);
    is_script = true;
  }
  command->kind = is_python(path) ? COMMAND_PYTHON : is_script ? COMMAND_SCRIPT : COMMAND_BINARY;
  if (command->kind != COMMAND_BINARY)
    copy_path(command->interpreter, path);
  if (command->kind == COMMAND_PYTHON && !is_script)
    read_python_options(command, words);
  else if (command->kind == COMMAND_PYTHON)
    copy_path(command->script, command->file);
}

/* Plug-ins can be asked about like programs. */
static bool find_library(const char *name, char path[PATH_MAX]) {
  return strchr(name, '/') != NULL && strstr(base_name(name), ".so") != NULL &&
         snprintf(path, PATH_MAX, "%s", name) < PATH_MAX && access(path, R_OK) == 0;
}

static bool find_file(struct command *command, const char *name, char *error) {
  if (find_library(name, command->file) || find_program(name, command->file))
    return true;
  const char *why = "program not found";
  if (access(name, F_OK) == 0)
    why = strchr(name, '/') != NULL
              ? "cannot be executed: not a file with permission to execute it"
              : "program not found in PATH; for the file of that name here say ./ in front of it";
  return say(error, name, why);
}

/* Forgets the launcher for what it starts. */
static void begin(struct command *command, char *const *words) {
  command->kind = COMMAND_BINARY;
  command->words = words;
  command->arguments = words + 1;
  *command->interpreter = *command->script = '\0';
  command->module = command->code = NULL;
  command->isolated = command->without_user = command->safe_path = false;
}

bool command_read(struct command *command, char *const *words, char error[COMMAND_ERROR_SIZE]) {
  *command = (struct command){0};
  for (unsigned i = 0; i < COMMAND_LAUNCHERS_MAX; i++) {
    begin(command, words);
    if (!find_file(command, words[0], error))
      return false;
    follow(command, words);
    if (command->kind == COMMAND_UNKNOWN)
      return true;
    enum launched launched = launcher_read(command, &words);
    if (launched == LAUNCHED_UNKNOWN)
      command->kind = COMMAND_UNKNOWN;
    if (launched != LAUNCHED_COMMAND)
      return true;
  }
  return say(error, words[0], "too many launchers start each other");
}

void command_free(struct command *command) {
  for (unsigned i = 0; i < command->nmade; i++)
    free(command->made[i]);
  names_free(&command->launchers);
}
