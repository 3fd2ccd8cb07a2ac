/* Installed packages (python.h). A name that is imported is not always that of its package:
 * cupy comes with cupy-cuda12x, which has cupy_backends, too. */
#include "tools/check/python.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LINE_SIZE 4096
#define FILES_MAX 50000 /* of a package that no list is kept of */
#define DEPTH_MAX 12

/* One *.dist-info or *.egg-info. */
struct distribution {
  const char *folder;   /* that it is in */
  char *notes;          /* its own folder; owned */
  char name[128];       /* lower case, with - for _ and . */
  struct names modules; /* that can be imported */
  bool taken;
};

struct packages {
  struct distribution *all;
  size_t count, room;
  struct names *modules;
  bool extras;
};

/* As pip compares names: PEP 503. Ends at what cannot be part of one. */
static void normalise(const char *text, char name[128]) {
  size_t size = 0;
  for (; size < 127 && (isalnum((unsigned char)*text) || strchr("-_.", *text) != NULL); text++) {
    if (*text == '\0')
      break;
    name[size++] = (char)(strchr("-_.", *text) != NULL ? '-' : tolower((unsigned char)*text));
  }
  name[size] = '\0';
}

/* ---- what is installed ---- */

static FILE *open_note(const struct distribution *distribution, const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%.3900s/%s", distribution->notes, name);
  return fopen(path, "re");
}

static void read_modules(struct distribution *distribution) {
  char line[LINE_SIZE];
  FILE *file = open_note(distribution, "top_level.txt");
  while (file != NULL && fgets(line, sizeof line, file) != NULL)
    if (line[strcspn(line, "\r\n")] = '\0', *line != '\0')
      names_add(&distribution->modules, line);
  if (file != NULL)
    fclose(file);
}

static void add_distribution(struct packages *packages, const char *folder, const char *entry) {
  const char *suffix = strrchr(entry, '.');
  if (suffix == NULL || (strcmp(suffix, ".dist-info") != 0 && strcmp(suffix, ".egg-info") != 0))
    return;
  if (packages->count == packages->room) {
    packages->room = packages->room * 2 + 64;
    packages->all = more_memory(packages->all, packages->room * sizeof *packages->all);
  }
  struct distribution *distribution = &packages->all[packages->count++];
  *distribution = (struct distribution){.folder = folder};
  size_t size = strlen(folder) + strlen(entry) + 2;
  distribution->notes = more_memory(NULL, size);
  snprintf(distribution->notes, size, "%s/%s", folder, entry);
  char name[256];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(entry, "-"), entry); /* name-version */
  name[strcspn(name, "-")] = '\0';
  if (strlen(name) == strlen(entry))
    name[strlen(name) - strlen(suffix)] = '\0';
  normalise(name, distribution->name);
  read_modules(distribution);
}

static void read_installed(struct packages *packages, const struct names *folders) {
  for (size_t i = 0; i < folders->count; i++) {
    DIR *folder = opendir(folders->items[i]);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
      add_distribution(packages, folders->items[i], entry->d_name);
    if (folder != NULL)
      closedir(folder);
  }
}

/* ---- shared objects ---- */

/* module.so, libtorch_cuda.so, libcudart.so.12 */
static bool is_shared_object(const char *name) {
  for (const char *at = name; (at = strstr(at, ".so")) != NULL; at += 3)
    if (at[3] == '\0' || (at[3] == '.' && at[4 + strspn(at + 4, "0123456789.")] == '\0'))
      return true;
  return false;
}

static void add_module(struct packages *packages, const char *folder, const char *name) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/%s", folder, name) < PATH_MAX)
    names_add(packages->modules, path);
}

/* Nothing is known of the package but where it is. */
static void walk(struct packages *packages, const char *path, unsigned depth, unsigned *files) {
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char inner[PATH_MAX];
    if (*entry->d_name == '.' || depth == DEPTH_MAX || ++*files > FILES_MAX)
      continue;
    if (entry->d_type == DT_DIR &&
        snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) < PATH_MAX)
      walk(packages, inner, depth + 1, files);
    else if (is_shared_object(entry->d_name))
      add_module(packages, path, entry->d_name);
  }
  if (folder != NULL)
    closedir(folder);
}

static void walk_import(struct packages *packages, const struct names *folders, const char *name) {
  char path[PATH_MAX];
  unsigned files = 0;
  for (size_t i = 0; i < folders->count; i++)
    if (snprintf(path, sizeof path, "%s/%s", folders->items[i], name) < PATH_MAX)
      walk(packages, path, 0, &files);
}

/* The list of its files: name,hash,size. False without one. */
static bool read_record(struct packages *packages, const struct distribution *distribution) {
  char line[LINE_SIZE];
  FILE *file = open_note(distribution, "RECORD");
  if (file == NULL)
    return false;
  while (fgets(line, sizeof line, file) != NULL) {
    line[strcspn(line, ",\r\n")] = '\0';
    if (is_shared_object(line))
      add_module(packages, distribution->folder, line);
  }
  fclose(file);
  return true;
}

/* ---- what they require ---- */

static void take(struct packages *packages, struct distribution *distribution, bool first);

/* Packages of NVIDIA's libraries have nothing that is imported. */
static void take_required(struct packages *packages, const char *requirement, bool first) {
  char name[128];
  normalise(requirement, name);
  bool optional = strstr(requirement, "extra") != NULL;
  if (strncmp(name, "nvidia-", 7) == 0 || (optional && !(first && packages->extras)))
    return;
  for (size_t i = 0; i < packages->count; i++)
    if (strcmp(packages->all[i].name, name) == 0)
      take(packages, &packages->all[i], false);
}

static void take(struct packages *packages, struct distribution *distribution, bool first) {
  static const char field[] = "Requires-Dist: ";
  char line[LINE_SIZE];
  unsigned files = 0;
  if (distribution->taken)
    return;
  distribution->taken = true;
  if (!read_record(packages, distribution))
    for (size_t i = 0; i < distribution->modules.count; i++) {
      snprintf(line, sizeof line, "%.2000s/%.2000s", distribution->folder,
               distribution->modules.items[i]);
      walk(packages, line, 0, &files);
    }
  FILE *file = open_note(distribution, "METADATA");
  if (file == NULL)
    file = open_note(distribution, "PKG-INFO");
  /* The header ends with an empty line. */
  while (file != NULL && fgets(line, sizeof line, file) != NULL && *line != '\n')
    if (strncmp(line, field, strlen(field)) == 0)
      take_required(packages, line + strlen(field), first);
  if (file != NULL)
    fclose(file);
}

/* Found by their names alone: every module of the namespace jax_plugins (jax's xla_bridge.py). */
static const struct { const char *importer, *imported; } plugins[] = {{"jax", "jax_plugins"}};

static void take_import(struct packages *packages, const struct python *python, const char *name) {
  char normalised[128];
  bool found = false;
  normalise(name, normalised);
  for (size_t i = 0; i < packages->count; i++) {
    struct distribution *distribution = &packages->all[i];
    bool is_it = distribution->modules.count > 0 ? names_has(&distribution->modules, name)
                                                 : strcmp(distribution->name, normalised) == 0;
    if (!is_it)
      continue;
    take(packages, distribution, true);
    found = true;
  }
  if (found)
    return;
  walk_import(packages, &python->installed, name);
  walk_import(packages, &python->own, name);
}

/* nvidia/nccl/lib of CUDA 12, nvidia/cu13/lib of CUDA 13 */
static void find_libraries(const struct names *folders, struct names *libraries) {
  for (size_t i = 0; i < folders->count; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.3900s/nvidia", folders->items[i]);
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;)
      if (*entry->d_name != '.') {
        snprintf(path, sizeof path, "%.3800s/nvidia/%.255s/lib", folders->items[i], entry->d_name);
        names_add(libraries, path);
      }
    if (folder != NULL)
      closedir(folder);
  }
}

void packages_find(const struct python *python, bool extras, struct names *modules,
                   struct names *libraries) {
  struct packages packages = {.modules = modules, .extras = extras};
  if (python->packages.count > 0)
    read_installed(&packages, &python->installed);
  for (size_t i = 0; i < python->packages.count; i++) {
    const char *name = python->packages.items[i];
    take_import(&packages, python, name);
    for (size_t j = 0; j < sizeof plugins / sizeof plugins[0]; j++)
      if (strcmp(plugins[j].importer, name) == 0)
        take_import(&packages, python, plugins[j].imported);
  }
  find_libraries(&python->installed, libraries);
  for (size_t i = 0; i < packages.count; i++) {
    free(packages.all[i].notes);
    names_free(&packages.all[i].modules);
  }
  free(packages.all);
}
