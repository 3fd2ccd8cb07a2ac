/* What a Python script imports (python_follow of python.h), by its import statements: those in
 * functions and behind conditions, too. The user's own modules are followed, packages are not. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/image.h"
#include "tools/check/python.h"

#define SOURCES_MAX 1000 /* of the user's own; more would take too long to read */
#define SOURCE_SIZE_MAX ((size_t)4 << 20)
#define NAME_SIZE 256

/* Modules of the interpreter that have no file, or may have none (cpython's Modules/Setup). */
static const char *const built_in[] = {
    "array",        "atexit", "audioop", "binascii", "builtins",    "cmath",     "errno",
    "faulthandler", "fcntl",  "gc",      "grp",      "itertools",   "marshal",   "math",
    "mmap",         "posix",  "pwd",     "pyexpat",  "resource",    "select",    "spwd",
    "syslog",       "sys",    "termios", "time",     "unicodedata", "xxsubtype", "zlib"};

static bool is_built_in(const char *name) {
  for (size_t i = 0; i < sizeof built_in / sizeof built_in[0]; i++)
    if (strcmp(name, built_in[i]) == 0)
      return true;
  return *name == '_';
}

/* ---- where a module is ---- */

static bool is_file(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

/* The file of a module in a folder, as source. `name` has slashes for dots. */
static bool source_in(const char *folder, const char *name, char path[PATH_MAX]) {
  return (snprintf(path, PATH_MAX, "%.3800s/%s.py", folder, name) > 0 && is_file(path)) ||
         (snprintf(path, PATH_MAX, "%.3800s/%s/__init__.py", folder, name) > 0 && is_file(path));
}

/* Whether a folder has a module or package of that name, which may be compiled. */
static bool is_in(const char *folder, const char *name) {
  char path[PATH_MAX];
  if (source_in(folder, name, path))
    return true;
  snprintf(path, PATH_MAX, "%.3800s/%s", folder, name);
  if (access(path, F_OK) == 0)
    return true;
  snprintf(path, PATH_MAX, "%.3800s/%s.so", folder, name);
  return is_file(path);
}

static bool is_in_any(const struct names *folders, const char *name) {
  for (size_t i = 0; i < folders->count; i++)
    if (is_in(folders->items[i], name))
      return true;
  return false;
}

/* Extensions of the standard library: name.cpython-311-x86_64-linux-gnu.so. */
static bool is_standard(const struct python *python, const char *name) {
  char path[PATH_MAX];
  static const char *const machines[] = {"x86_64", "aarch64"};
  if (is_built_in(name) || is_in_any(&python->standard, name))
    return true;
  char digits[16];
  snprintf(digits, sizeof digits, "%s", python->version);
  char *dot = strchr(digits, '.');
  if (dot != NULL)
    memmove(dot, dot + 1, strlen(dot));
  for (size_t i = 0; i < python->standard.count * 2; i++) {
    snprintf(path, PATH_MAX, "%.3800s/%s.cpython-%s-%s-linux-gnu.so", python->standard.items[i / 2],
             name, digits, machines[i % 2]);
    if (is_file(path))
      return true;
  }
  return false;
}

/* ---- import statements ---- */

/* Takes a.b.c, with dots in front for the folder of the source itself. */
static const char *take_name(const char *at, char name[NAME_SIZE]) {
  size_t size = 0;
  for (; isalnum((unsigned char)*at) || *at == '_' || *at == '.'; at++)
    if (size + 1 < NAME_SIZE)
      name[size++] = *at;
  name[size] = '\0';
  return at;
}

static const char *skip_spaces(const char *at) {
  return at + strspn(at, " \t");
}

/* A module of the source's own package: one dot is its folder, two the one above. */
static void import_relative(struct python *python, const char *source, const char *name) {
  char folder[PATH_MAX], path[PATH_MAX];
  snprintf(folder, sizeof folder, "%.3800s", source);
  for (; *name == '.' && strrchr(folder, '/') != NULL; name++)
    *strrchr(folder, '/') = '\0';
  if (*name != '\0' && *name != '.' && source_in(folder, name, path))
    names_add(&python->sources, path);
}

/* Of a/b/c: a, a/b and a/b/c, as far as the folder has them. */
static bool import_from(struct python *python, const char *folder, const char *name) {
  char part[NAME_SIZE], path[PATH_MAX];
  bool found = false;
  for (size_t size = 0; size < strlen(name); size++) {
    size += strcspn(name + size, "/");
    snprintf(part, sizeof part, "%.*s", (int)size, name);
    if (!source_in(folder, part, path))
      continue;
    names_add(&python->sources, path);
    found = true;
  }
  return found;
}

static bool import_own(struct python *python, const char *name) {
  for (size_t i = 0; i < python->own.count; i++)
    if (import_from(python, python->own.items[i], name))
      return true;
  return false;
}

static void import(struct python *python, const char *source, char name[NAME_SIZE]) {
  char first[NAME_SIZE];
  bool relative = *name == '.';
  for (char *dot = name + strspn(name, "."); (dot = strchr(dot, '.')) != NULL;)
    *dot = '/';
  if (relative) {
    import_relative(python, source, name);
    return;
  }
  snprintf(first, sizeof first, "%.*s", (int)strcspn(name, "/"), name);
  if (*first == '\0' || import_own(python, name) || is_standard(python, first))
    return;
  bool installed = is_in_any(&python->installed, first);
  bool own = is_in_any(&python->own, first);
  names_add(installed || own ? &python->packages : &python->not_found, first);
}

/* import a, b.c as d; from .a import b */
static void read_line(struct python *python, const char *source, const char *line) {
  char name[NAME_SIZE];
  bool from = strncmp(line, "from", 4) == 0 && isspace((unsigned char)line[4]);
  if (!from && (strncmp(line, "import", 6) != 0 || !isspace((unsigned char)line[6])))
    return;
  line = skip_spaces(line + (from ? 4 : 6));
  for (bool more = true; more;) {
    line = skip_spaces(take_name(line, name));
    bool statement = !from || strncmp(line, "import", 6) == 0;
    if (*name == '\0' || !statement)
      return;
    import(python, source, name);
    if (strncmp(line, "as ", 3) == 0)
      line = skip_spaces(take_name(skip_spaces(line + 3), name));
    more = !from && *line == ',';
    line = skip_spaces(line + more);
  }
}

static void read_text(struct python *python, const char *source, char *text) {
  if (strstr(text, "libnccl.so") != NULL)
    names_add(&python->name_nccl, source);
  if (strstr(text, "RTLD_DEEPBIND") != NULL)
    names_add(&python->bind_deep, source);
  while (*text != '\0') {
    size_t size = strcspn(text, "\n;");
    char after = text[size];
    text[size] = '\0';
    read_line(python, source, skip_spaces(text));
    text += size + (after != '\0');
  }
}

/* The text of a file, ended by a zero; NULL with errno. */
static char *read_source(const char *path) {
  struct stat status;
  FILE *file = stat(path, &status) == 0 && S_ISREG(status.st_mode) ? fopen(path, "re") : NULL;
  if (file == NULL) {
    errno = errno != 0 ? errno : EINVAL;
    return NULL;
  }
  size_t size = (size_t)status.st_size < SOURCE_SIZE_MAX ? (size_t)status.st_size : SOURCE_SIZE_MAX;
  char *text = more_memory(NULL, size + 1);
  text[fread(text, 1, size, file)] = '\0';
  fclose(file);
  return text;
}

bool python_follow(struct python *python, const struct command *command, char *error) {
  errno = 0;
  if (command->code != NULL) {
    char *text = strdup(command->code);
    if (text != NULL)
      read_text(python, "-c", text);
    free(text);
  } else if (command->module != NULL) {
    char name[NAME_SIZE];
    take_name(command->module, name);
    import(python, "-m", name);
  } else if (*command->script != '\0') {
    char path[PATH_MAX];
    copy_path(path, command->script);
    struct stat status;
    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode))
      snprintf(path, sizeof path, "%.4000s/__main__.py", command->script);
    if (access(path, R_OK) != 0) {
      snprintf(error, COMMAND_ERROR_SIZE, "%.120s: %s", path, strerror(errno));
      return false;
    }
    names_add(&python->sources, path);
  }
  for (char *const *word = command->words + 1; *word != NULL; word++)
    if (python_is_script(*word))
      names_add(&python->sources, *word);
  for (size_t i = 0; i < python->sources.count && i < SOURCES_MAX; i++) {
    char *text = read_source(python->sources.items[i]);
    if (text != NULL)
      read_text(python, python->sources.items[i], text);
    free(text);
  }
  return true;
}
