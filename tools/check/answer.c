/* From a command to the answer (answer.h). */
#include "tools/check/answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/check/closure.h"
#include "tools/check/command.h"
#include "tools/check/python.h"
#include "tools/check/remarks.h"

#define CACHE_FILE "/etc/ld.so.cache"

struct question {
  struct command command;
  struct python python;
  struct names modules, libraries; /* of Python's packages */
  struct search search;
  struct closure closure;
  char *library_path; /* NULL: none */
  const struct circumstances *circumstances;
};

static char *join_paths(const char *first, const char *second) {
  size_t size = strlen(first) + strlen(second) + 2;
  char *both = more_memory(NULL, size);
  snprintf(both, size, "%s%s%s", first, *first != '\0' && *second != '\0' ? ":" : "", second);
  return both;
}

static void begin(struct question *question, const struct circumstances *circumstances) {
  const char *path = getenv("LD_LIBRARY_PATH"), *folder = circumstances->libraries;
  *question = (struct question){.circumstances = circumstances};
  question->library_path = join_paths(folder != NULL ? folder : "", path != NULL ? path : "");
  search_begin(&question->search, question->library_path, CACHE_FILE);
  question->search.folders = &question->libraries;
  question->closure.search = &question->search;
}

static void end(struct question *question) {
  closure_free(&question->closure);
  search_end(&question->search);
  python_free(&question->python);
  names_free(&question->modules);
  names_free(&question->libraries);
  free(question->library_path);
}

/* ---- Python ---- */

static void list_names(const struct names *names, char *text, size_t size) {
  size_t used = 0;
  *text = '\0';
  for (size_t i = 0; i < names->count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", i > 0 ? ", " : "", names->items[i]);
}

static void remark_python(struct answer *answer, const struct question *question) {
  const struct python *python = &question->python;
  const struct command *command = &question->command;
  char list[256];
  if (*command->script == '\0' && command->module == NULL && command->code == NULL) {
    answer->reach = REACH_UNKNOWN;
    answer->seen = SEEN_UNKNOWN;
    remark(answer, "script", REMARK_DOUBT, "name the script behind it",
           "what Python is to run is not said");
  } else if (answer->nways == 0 && python->not_found.count > 0) {
    answer->reach = REACH_UNKNOWN;
    answer->seen = SEEN_UNKNOWN;
    list_names(&python->not_found, list, sizeof list);
    remark(answer, "import", REMARK_DOUBT,
           "check with the Python, and in the environment, that the job runs with",
           "imported, but not found by %s: %s", command->interpreter, list);
  }
  if (python->bind_deep.count > 0)
    remark(answer, "deepbind", REMARK_HARMLESS, "nothing",
           "%s opens libraries with RTLD_DEEPBIND, past what is preloaded: nccl-join takes the "
           "flag away where it would hide NCCL",
           python->bind_deep.items[0]);
}

static bool read_python(struct question *question, char error[ANSWER_ERROR_SIZE]) {
  struct python *python = &question->python;
  python_find(python, &question->command);
  if (!python_follow(python, &question->command, error))
    return false;
  packages_find(python, !question->circumstances->brief, &question->modules, &question->libraries);
  for (size_t i = 0; i < question->modules.count; i++)
    closure_add(&question->closure, question->modules.items[i], ROLE_MODULE, NULL);
  return true;
}

/* ---- programs ---- */

/* Libraries of the system open others of the system. */
static bool is_of_system(const struct image *image) {
  static const char *const folders[] = {"/lib", "/usr/lib"};
  for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
    if (strncmp(image->path, folders[i], strlen(folders[i])) == 0)
      return true;
  return false;
}

static void remark_missing(struct answer *answer, const struct closure *closure) {
  for (size_t i = 0; i < closure->nmissing; i++) {
    const struct missing *missing = &closure->missing[i];
    if (missing->wanted_by == NULL)
      continue;
    if (answer->nways == 0) {
      answer->reach = REACH_UNKNOWN;
      answer->seen = SEEN_UNKNOWN;
    }
    remark(answer, "missing", answer->nways == 0 ? REMARK_DOUBT : REMARK_HARMLESS,
           "set LD_LIBRARY_PATH as it is where the program runs, and check again",
           "%s, which %s needs, %s", missing->name, missing->wanted_by->path, missing->why);
    return;
  }
}

static void remark_unnamed(struct answer *answer, const struct closure *closure) {
  for (size_t i = 0; answer->nways == 0 && i < closure->count; i++) {
    const struct image *image = closure->images[i];
    if (image->role == ROLE_PRELOAD || !(image->opens || image->opens_apart) ||
        (image->role != ROLE_PROGRAM && is_of_system(image)))
      continue;
    answer->reach = REACH_UNKNOWN;
    answer->seen = SEEN_UNKNOWN;
    remark(answer, "plugins", REMARK_DOUBT,
           "check the plug-ins, or run it: with NCCL_JOIN_DEBUG=INFO nccl-join names the NCCL that "
           "it is in front of",
           "%s opens libraries at run time whose names are not in it", image->path);
    return;
  }
}

/* The first argument that is the path of a program; NULL if there is none. */
static const char *find_other_program(char *const *words) {
  struct stat status;
  for (char *const *word = words + 1; *word != NULL; word++)
    if (strchr(*word, '/') != NULL && stat(*word, &status) == 0 && S_ISREG(status.st_mode) &&
        access(*word, X_OK) == 0)
      return *word;
  return NULL;
}

static void remark_other_programs(struct answer *answer, char *const *words) {
  if (answer->nways != 0 || answer->seen == SEEN_YES)
    return;
  const char *other = find_other_program(words);
  if (other == NULL) {
    remark(answer, "starts", REMARK_HARMLESS, "check that one: nccl-join check ./train",
           "if it starts another program, as mpirun and srun do, this says nothing of that one");
    return;
  }
  answer->reach = REACH_UNKNOWN;
  answer->seen = SEEN_UNKNOWN;
  remark(answer, "starts", REMARK_DOUBT, "check that one; what it starts inherits LD_PRELOAD",
         "it may start %s, of which this says nothing", other);
}

/* Whether the dynamic linker of this machine takes part. */
static bool has_linker(const struct image *program) {
  return program->runs_here && (program->is_library || *program->interpreter != '\0');
}

static void judge(struct answer *answer, struct question *question, const struct image *program) {
  struct closure *closure = &question->closure;
  bool is_python = question->command.kind == COMMAND_PYTHON;
  ways_find(answer, closure, question->circumstances->brief);
  for (size_t i = 0; i < question->python.name_nccl.count; i++)
    ways_add_source(answer, closure, question->python.name_nccl.items[i]);
  ways_judge(answer);
  if (is_python) {
    remark_python(answer, question);
  } else if (has_linker(program)) {
    remark_missing(answer, closure);
    remark_unnamed(answer, closure);
  }
  remark_auditors(answer, closure);
  if (answer->is_doubtful && answer->seen == SEEN_YES)
    answer->seen = SEEN_UNKNOWN;
  const char *join = getenv("NCCL_JOIN");
  if (join != NULL && strcmp(join, "0") == 0) {
    answer->seen = SEEN_NO;
    remark(answer, "off", REMARK_DOUBT, "unset NCCL_JOIN", "NCCL_JOIN=0: nccl-join is off");
  }
  remark_program(answer, program);
  if (!is_python)
    remark_other_programs(answer, question->command.words);
}

static void judge_script(struct answer *answer, const struct command *command) {
  answer->reach = REACH_UNKNOWN;
  answer->seen = SEEN_UNKNOWN;
  remark(answer, "script", REMARK_DOUBT,
         "check the program that it starts: nccl-join check ./train; what it starts inherits "
         "LD_PRELOAD",
         "it is a script for %s: what that starts is only known when it runs",
         command->interpreter);
}

static bool answer_binary(struct answer *answer, struct question *question,
                          char error[ANSWER_ERROR_SIZE]) {
  const struct command *command = &question->command;
  struct closure *closure = &question->closure;
  const char *file = command->kind == COMMAND_PYTHON ? command->interpreter : command->file;
  struct image *program = closure_add(closure, file, ROLE_PROGRAM, NULL);
  if (program == NULL) {
    snprintf(error, ANSWER_ERROR_SIZE, "%s %s", file, closure->missing[0].why);
    return false;
  }
  if (program->is_library)
    program->role = ROLE_MODULE;
  if (has_linker(program)) {
    remark_preloads(answer, closure, question->circumstances->in_front);
    if (command->kind == COMMAND_PYTHON && !read_python(question, error))
      return false;
    closure_complete(closure);
  }
  judge(answer, question, program);
  return true;
}

bool answer_make(struct answer *answer, char *const *words,
                 const struct circumstances *circumstances, char error[ANSWER_ERROR_SIZE]) {
  struct question question;
  *answer = (struct answer){.seen = SEEN_UNKNOWN, .reach = REACH_UNKNOWN};
  begin(&question, circumstances);
  bool good = command_read(&question.command, words, error);
  if (good) {
    const struct command *command = &question.command;
    copy_path(answer->file, command->kind == COMMAND_PYTHON && *command->script != '\0'
                                ? command->script
                                : command->file);
    if (command->kind == COMMAND_SCRIPT)
      judge_script(answer, command);
    else
      good = answer_binary(answer, &question, error);
  }
  end(&question);
  return good;
}

void answer_free(struct answer *answer) {
  for (size_t i = 0; i < answer->nremarks; i++) {
    free(answer->remarks[i].what);
    free(answer->remarks[i].remedy);
  }
  free(answer->remarks);
  free(answer->ways);
  *answer = (struct answer){0};
}
