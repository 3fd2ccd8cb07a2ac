/* What only a run can tell (doubts.h). */
#include "tools/check/doubts.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/remarks.h"

#define RUN_IT "run it: with NCCL_JOIN_DEBUG=INFO nccl-join names the NCCL that it is in front of"

/* To be called before the remark that says why. */
static void cannot_tell(struct answer *answer) {
  answer->reach = REACH_UNKNOWN;
  answer->seen = SEEN_UNKNOWN;
}

void doubts_of_command(struct answer *answer, const struct command *command) {
  cannot_tell(answer);
  if (command->kind == COMMAND_UNKNOWN)
    remark(answer, "starts", REMARK_DOUBT,
           "check what it starts: nccl-join check PROGRAM, from the folder where that runs; it "
           "inherits LD_PRELOAD",
           "%s", command->why);
  else
    remark(answer, "script", REMARK_DOUBT,
           "check the program that it starts: nccl-join check PROGRAM; what it starts inherits "
           "LD_PRELOAD",
           "it is a script for %s: what that starts is only known when it runs",
           command->interpreter);
}

/* ---- machine code ---- */

/* Libraries of the system open others of the system. */
static bool is_of_system(const struct image *image) {
  static const char *const folders[] = {"/lib", "/usr/lib"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    if (strncmp(image->path, folders[i], strlen(folders[i])) == 0)
      return true;
  return false;
}

static void doubt_missing(struct answer *answer, const struct closure *closure) {
  for (size_t i = 0; i < closure->nmissing; i++) {
    const struct missing *missing = &closure->missing[i];
    if (missing->wanted_by == NULL)
      continue;
    if (answer->nways == 0)
      cannot_tell(answer);
    remark(answer, "missing", answer->nways == 0 ? REMARK_DOUBT : REMARK_HARMLESS,
           "set LD_LIBRARY_PATH as it is where the program runs, and check again",
           "%s, which %s needs, %s", missing->name, missing->wanted_by->path, missing->why);
    return;
  }
}

static void doubt_plugins(struct answer *answer, const struct closure *closure,
                          const struct names *only) {
  for (size_t i = 0; answer->nways == 0 && i < closure->count; i++) {
    const struct image *image = closure->images[i];
    if (image->role == ROLE_PRELOAD || !(image->opens || image->opens_apart) ||
        (only != NULL ? !names_has(only, image->path)
                      : image->role != ROLE_PROGRAM && is_of_system(image)))
      continue;
    cannot_tell(answer);
    remark(answer, "plugins", REMARK_DOUBT, "check the plug-ins, or " RUN_IT,
           "%s opens libraries at run time whose names are not in it", image->path);
    return;
  }
}

static void doubt_python_inside(struct answer *answer, const struct closure *closure) {
  for (size_t i = 0; answer->nways == 0 && i < closure->count; i++) {
    const struct image *image = closure->images[i];
    if (image->role == ROLE_PRELOAD || !image->runs_python)
      continue;
    cannot_tell(answer);
    remark(answer, "embeds", REMARK_DOUBT, RUN_IT,
           "%s runs Python inside: what that imports is only known when it runs", image->path);
    return;
  }
}

/* The first argument that is the path of a program; NULL if there is none. */
static const char *find_other_program(char *const *words) {
  struct stat status;
  for (char *const *word = words; *word != NULL; word++)
    if (strchr(*word, '/') != NULL && stat(*word, &status) == 0 && S_ISREG(status.st_mode) &&
        access(*word, X_OK) == 0)
      return *word;
  return NULL;
}

/* That of the program, and of the libraries that come with it. */
static const struct image *find_starter(const struct closure *closure) {
  for (size_t i = 0; i < closure->count; i++) {
    struct image *image = closure->images[i];
    if (image->role == ROLE_PRELOAD || (image->role != ROLE_PROGRAM && is_of_system(image)))
      continue;
    image_find_starts(image);
    if (image->starts)
      return image;
  }
  return NULL;
}

static void doubt_others(struct answer *answer, const struct closure *closure,
                         const struct command *command) {
  if (answer->nways != 0 || answer->seen != SEEN_NO)
    return;
  const char *other = find_other_program(command->arguments);
  const struct image *starter = other == NULL ? find_starter(closure) : NULL;
  if (other == NULL && starter == NULL)
    return;
  cannot_tell(answer);
  if (other != NULL)
    remark(answer, "starts", REMARK_DOUBT, "check that one; what it starts inherits LD_PRELOAD",
           "it may start %s, of which this says nothing", other);
  else
    remark(answer, "starts", REMARK_DOUBT,
           "if it starts the program that uses NCCL, check that one: nccl-join check PROGRAM",
           "it makes no NCCL calls itself, but %s %s", starter->path,
           starter->role == ROLE_PROGRAM && *starter->interpreter == '\0'
               ? "is static, and what it starts cannot be seen"
               : "can start other programs");
}

void doubts_of_program(struct answer *answer, const struct closure *closure,
                       const struct command *command, struct image *program) {
  bool has_linker = program->runs_here && (program->is_library || *program->interpreter != '\0');
  if (has_linker) {
    doubt_missing(answer, closure);
    doubt_plugins(answer, closure, NULL);
    doubt_python_inside(answer, closure);
  }
  if (program->runs_here && !program->is_library)
    doubt_others(answer, closure, command);
}

/* ---- Python ---- */

static void list_names(const struct names *names, char *text, size_t size) {
  size_t used = 0;
  *text = '\0';
  for (size_t i = 0; i < names->count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", names->items[i]);
}

static void doubt_imports(struct answer *answer, const struct command *command,
                          const struct python *python) {
  char list[256];
  list_names(&python->not_found, list, sizeof list);
  cannot_tell(answer);
  remark(answer, "import", REMARK_DOUBT,
         "check with the Python, and in the environment, that the job runs with",
         "imported, but not found by %s: %s", command->interpreter, list);
}

static void doubt_decided(struct answer *answer, const struct python *python) {
  cannot_tell(answer);
  for (size_t i = 0; i < python->decided.count; i++)
    remark(answer, "dynamic", REMARK_DOUBT, i == 0 ? RUN_IT : "the same", "%s",
           python->decided.items[i]);
}

/* What a package decides when it runs matters only where something that is installed calls NCCL. */
static void doubt_packages(struct answer *answer, const struct closure *closure,
                           const struct python *python) {
  struct closure installed = {.search = closure->search};
  struct answer all = {0};
  for (size_t i = 0; i < python->installed.count; i++)
    closure_add(&installed, python->installed.items[i], ROLE_MODULE, NULL);
  ways_find(&all, &installed, false);
  if (all.nways > 0) {
    cannot_tell(answer);
    remark(answer, "dynamic", REMARK_DOUBT, RUN_IT, "%s; and %s, which is installed, calls NCCL",
           python->packages.items[0], all.ways[0].object);
  }
  answer_free(&all);
  closure_free(&installed);
}

static void doubt_opened(struct answer *answer, const struct closure *closure,
                         const struct python *python) {
  char path[PATH_MAX];
  for (size_t i = 0; i < python->opens.count; i++)
    if (!search_library(closure->search, python->opens.items[i], NULL, path)) {
      cannot_tell(answer);
      remark(answer, "opens", REMARK_DOUBT,
             "set LD_LIBRARY_PATH as it is where the program runs, and check again",
             "it opens %s, which is not found", python->opens.items[i]);
      return;
    }
}

/* Console scripts lie beside their Python. */
static bool is_installed_program(const struct command *command) {
  size_t size = (size_t)(base_name(command->interpreter) - command->interpreter);
  return command->module != NULL ||
         (size > 0 && strncmp(command->script, command->interpreter, size) == 0 &&
          base_name(command->script) == command->script + size);
}

void doubts_of_python(struct answer *answer, const struct closure *closure,
                      const struct command *command, const struct python *python,
                      const char *error) {
  const char *other = is_installed_program(command) ? find_other_program(command->arguments) : NULL;
  if (*command->script == '\0' && command->module == NULL && command->code == NULL) {
    cannot_tell(answer);
    remark(answer, "script", REMARK_DOUBT, "name the script behind it",
           "what Python is to run is not said");
  } else if (error != NULL && answer->nways == 0) {
    cannot_tell(answer);
    remark(answer, "python", REMARK_DOUBT, RUN_IT, "%s", error);
  } else if (other != NULL) {
    cannot_tell(answer);
    remark(answer, "starts", REMARK_DOUBT, "check that one; what it starts inherits LD_PRELOAD",
           "it may start %s, of which this says nothing", other);
  } else if (answer->nways == 0) {
    if (python->not_found.count > 0)
      doubt_imports(answer, command, python);
    if (python->decided.count > 0)
      doubt_decided(answer, python);
    if (answer->seen == SEEN_NO)
      doubt_opened(answer, closure, python);
    if (answer->seen == SEEN_NO && python->packages.count > 0)
      doubt_packages(answer, closure, python);
    doubt_plugins(answer, closure, &python->own);
  }
  if (python->bind_deep.count > 0)
    remark(answer, "deepbind", REMARK_HARMLESS, "nothing",
           "%s opens libraries with RTLD_DEEPBIND, past what is preloaded: nccl-join takes the "
           "flag away where it would hide NCCL",
           python->bind_deep.items[0]);
}
