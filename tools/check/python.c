/* The folders of a Python (python.h). */
#include "tools/check/python.h"

#include <ctype.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/image.h"

#define LINE_MAX_SIZE 4096

static bool is_folder(const char *path) {
  struct stat status;
  return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static bool add_folder(struct names *names, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool add_folder(struct names *names, const char *format, ...) {
  char path[PATH_MAX];
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(path, sizeof path, format, arguments);
  va_end(arguments);
  return size < PATH_MAX && is_folder(path) && names_add(names, path);
}

bool python_is_script(const char *word) {
  size_t size = strlen(word);
  return size > 3 && size < PATH_MAX && strcmp(word + size - 3, ".py") == 0 &&
         access(word, R_OK) == 0;
}

/* The folder of a path, "." if it is only a name. */
static void folder_of(const char *path, char folder[PATH_MAX]) {
  size_t size = (size_t)(base_name(path) - path);
  snprintf(folder, PATH_MAX, "%.*s", (int)size, path);
  if (size > 1)
    folder[size - 1] = '\0';
  if (size == 0)
    copy_path(folder, ".");
}

/* ---- versions ---- */

/* "3.11" of "python3.11" or of "3.11.2". */
static bool take_version(const char *text, char version[16]) {
  size_t major = strspn(text, "0123456789");
  size_t minor = text[major] == '.' ? strspn(text + major + 1, "0123456789") : 0;
  if (major == 0 || minor == 0 || major + minor > 8)
    return false;
  snprintf(version, 16, "%.*s", (int)(major + 1 + minor), text);
  return true;
}

/* By the file's own name, or by the standard library beside it. */
static void find_version(struct python *python, const char *prefix, const char *executable) {
  char real[PATH_MAX], path[PATH_MAX];
  if (realpath(executable, real) != NULL && strncmp(base_name(real), "python", 6) == 0 &&
      take_version(base_name(real) + 6, python->version))
    return;
  snprintf(path, sizeof path, "%.4000s/lib", prefix);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
    if (strncmp(entry->d_name, "python3.", 8) == 0)
      take_version(entry->d_name + 6, python->version);
  if (folder != NULL)
    closedir(folder);
}

/* ---- virtual environments ---- */

struct environment {
  char home[PATH_MAX]; /* folder of the Python that it was made with; "" not an environment */
  bool with_system;
};

static void read_environment(const char *prefix, struct environment *environment,
                             char version[16]) {
  char path[PATH_MAX], line[LINE_MAX_SIZE];
  snprintf(path, sizeof path, "%.4000s/pyvenv.cfg", prefix);
  *environment = (struct environment){0};
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    char *equals = strchr(line, '=');
    if (equals == NULL)
      continue;
    char *value = equals + 1 + strspn(equals + 1, " \t");
    value[strcspn(value, "\r\n")] = '\0';
    size_t size = strcspn(line, " \t=");
    if (size == 4 && strncmp(line, "home", 4) == 0)
      snprintf(environment->home, PATH_MAX, "%s", value);
    else if (strncmp(line, "include-system-site-packages", size) == 0 && size > 7)
      environment->with_system = strncasecmp(value, "true", 4) == 0;
    else if (strncmp(line, "version", 7) == 0) /* version or version_info */
      take_version(value, version);
  }
  if (file != NULL)
    fclose(file);
}

/* ---- folders ---- */

static void add_site_folders(struct python *python, const char *prefix) {
  const char *version = python->version;
  add_folder(&python->installed, "%s/lib/python%s/site-packages", prefix, version);
  add_folder(&python->installed, "%s/lib64/python%s/site-packages", prefix, version);
  if (strcmp(prefix, "/usr") != 0)
    return;
  add_folder(&python->installed, "/usr/local/lib/python%s/dist-packages", version);
  add_folder(&python->installed, "/usr/lib/python3/dist-packages");
}

static void add_standard_folders(struct python *python, const char *prefix) {
  add_folder(&python->standard, "%s/lib/python%s", prefix, python->version);
  add_folder(&python->standard, "%s/lib64/python%s", prefix, python->version);
  add_folder(&python->standard, "%s/lib/python%s/lib-dynload", prefix, python->version);
}

static void add_user_folder(struct python *python) {
  const char *base = getenv("PYTHONUSERBASE"), *home = getenv("HOME");
  if (getenv("PYTHONNOUSERSITE") != NULL)
    return;
  if (base != NULL && *base != '\0')
    add_folder(&python->installed, "%s/lib/python%s/site-packages", base, python->version);
  else if (home != NULL)
    add_folder(&python->installed, "%s/.local/lib/python%s/site-packages", home, python->version);
}

/* Lines of .pth files are folders, or code, which is the name of none. */
static void read_pth(struct python *python, const char *folder, const char *name) {
  char path[PATH_MAX], line[LINE_MAX_SIZE];
  snprintf(path, sizeof path, "%.3800s/%.255s", folder, name);
  FILE *file = fopen(path, "re");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, "\r\n")] = '\0';
    if (*line == '\0')
      continue;
    if (*line == '/')
      add_folder(&python->own, "%s", line);
    else
      add_folder(&python->own, "%s/%s", folder, line);
  }
  if (file != NULL)
    fclose(file);
}

static void read_all_pth(struct python *python) {
  for (size_t i = 0; i < python->installed.count; i++) {
    DIR *folder = opendir(python->installed.items[i]);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
      size_t size = strlen(entry->d_name);
      if (size > 4 && strcmp(entry->d_name + size - 4, ".pth") == 0)
        read_pth(python, python->installed.items[i], entry->d_name);
    }
    if (folder != NULL)
      closedir(folder);
  }
}

static void add_own_folders(struct python *python, const struct command *command) {
  const char *list = command->isolated ? NULL : getenv("PYTHONPATH");
  char folder[PATH_MAX] = ".";
  if (*command->script != '\0')
    folder_of(command->script, folder);
  add_folder(&python->own, "%s", folder);
  for (char *const *word = command->words + 1; *word != NULL; word++)
    if (python_is_script(*word)) {
      folder_of(*word, folder);
      add_folder(&python->own, "%s", folder);
    }
  while (list != NULL && *list != '\0') {
    size_t size = strcspn(list, ":");
    if (size > 0)
      add_folder(&python->own, "%.*s", (int)size, list);
    list += size + (list[size] != '\0');
  }
}

void python_find(struct python *python, const struct command *command) {
  char bin[PATH_MAX], prefix[PATH_MAX], base[PATH_MAX], real[PATH_MAX];
  struct environment environment;
  *python = (struct python){0};
  folder_of(command->interpreter, bin);
  folder_of(bin, prefix);
  read_environment(prefix, &environment, python->version);
  bool is_environment = *environment.home != '\0';
  if (is_environment)
    folder_of(environment.home, base);
  else if (realpath(command->interpreter, real) != NULL) {
    folder_of(real, bin);
    folder_of(bin, base);
  } else {
    copy_path(base, prefix);
  }
  if (*python->version == '\0')
    find_version(python, base, command->interpreter);
  add_own_folders(python, command);
  add_standard_folders(python, base);
  if (is_environment)
    add_site_folders(python, prefix);
  if (!is_environment || environment.with_system) {
    if (!command->without_user)
      add_user_folder(python);
    add_site_folders(python, base);
  }
  read_all_pth(python);
}

void python_free(struct python *python) {
  struct names *all[] = {&python->own,       &python->standard, &python->installed,
                         &python->sources,   &python->packages, &python->not_found,
                         &python->name_nccl, &python->bind_deep};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
    names_free(all[i]);
}
