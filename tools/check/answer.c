/* From a command to the answer (answer.h). */
#include "tools/check/answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/check/closure.h"
#include "tools/check/command.h"
#include "tools/check/doubts.h"
#include "tools/check/python.h"
#include "tools/check/remarks.h"

struct question {
  struct command command;
  struct python python;
  char python_error[COMMAND_ERROR_SIZE]; /* "" its Python has been asked */
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

/* Launchers have done by now what they do to the environment. */
static void begin_search(struct question *question) {
  const char *path = getenv("LD_LIBRARY_PATH"), *folder = question->circumstances->libraries;
  question->library_path = join_paths(folder != NULL ? folder : "", path != NULL ? path : "");
  search_begin(&question->search, question->library_path);
  question->search.folders = &question->python.folders;
  question->closure.search = &question->search;
}

static void end(struct question *question) {
  closure_free(&question->closure);
  search_end(&question->search);
  python_free(&question->python);
  command_free(&question->command);
  free(question->library_path);
}

/* ---- Python ---- */

static void add_modules(struct question *question, const struct names *names) {
  for (size_t i = 0; i < names->count; i++)
    closure_add(&question->closure, names->items[i], ROLE_MODULE, NULL);
}

static void read_python(struct question *question, enum python_depth depth) {
  struct python *python = &question->python;
  char path[PATH_MAX];
  if (!python_read(python, &question->command, depth, question->python_error))
    return;
  *question->python_error = '\0';
  add_modules(question, &python->objects);
  add_modules(question, &python->own);
  for (size_t i = 0; i < python->opens.count; i++)
    if (search_library(&question->search, python->opens.items[i], NULL, path))
      closure_add(&question->closure, path, ROLE_MODULE, NULL);
  closure_complete(&question->closure);
}

/* Something of that name may be anything: it is not run then. */
static void ask_python(struct question *question, const struct image *interpreter) {
  const struct command *command = &question->command;
  for (size_t i = 0; i < question->closure.count; i++)
    if (question->closure.images[i]->runs_python) {
      read_python(question, question->circumstances->brief ? PYTHON_BRIEF : PYTHON_OWN);
      return;
    }
  snprintf(question->python_error, COMMAND_ERROR_SIZE, "%.120s is no CPython: %s",
           interpreter->path,
           *command->script != '\0' ? "what the script imports is not known" : "it is not asked");
}

/* ---- the answer ---- */

static void find_ways(struct answer *answer, struct question *question) {
  ways_find(answer, &question->closure, question->circumstances->brief);
  for (size_t i = 0; i < question->python.name_nccl.count; i++)
    ways_add_source(answer, &question->closure, question->python.name_nccl.items[i]);
}

/* Sources of packages take longer to read, and count only where nothing else tells. */
static bool is_unclear(const struct answer *answer, const struct question *question) {
  const struct python *python = &question->python;
  return question->command.kind == COMMAND_PYTHON && !question->circumstances->brief &&
         answer->nways == 0 && python->not_found.count == 0 && python->decided.count == 0 &&
         *question->python_error == '\0' && python->imported.count > 0;
}

static void remark_dropped(struct answer *answer, const struct command *command) {
  if (command->drops == NULL || (answer->seen == SEEN_NO && answer->reach == REACH_NONE))
    return;
  answer->seen = SEEN_NO;
  remark(answer, "environment", answer->nways > 0 ? REMARK_WRONG : REMARK_DOUBT,
         "start nccl-join behind it: nccl-join run ./train",
         "%s takes LD_PRELOAD away from what it starts", command->drops);
}

static void judge(struct answer *answer, struct question *question, struct image *program) {
  const struct command *command = &question->command;
  find_ways(answer, question);
  if (is_unclear(answer, question)) {
    read_python(question, PYTHON_DEEP);
    find_ways(answer, question);
  }
  ways_judge(answer);
  if (command->kind == COMMAND_PYTHON)
    doubts_of_python(answer, &question->closure, command, &question->python,
                     *question->python_error != '\0' ? question->python_error : NULL);
  else
    doubts_of_program(answer, &question->closure, command, program);
  remark_auditors(answer, &question->closure);
  if (answer->is_doubtful && answer->seen == SEEN_YES)
    answer->seen = SEEN_UNKNOWN;
  const char *join = getenv("NCCL_JOIN");
  if (join != NULL && strcmp(join, "0") == 0) {
    answer->seen = SEEN_NO;
    remark(answer, "off", REMARK_DOUBT, "unset NCCL_JOIN", "NCCL_JOIN=0: nccl-join is off");
  }
  remark_dropped(answer, command);
  remark_program(answer, program);
  remark_sanitizer(answer, &question->closure);
  if (question->circumstances->driver)
    remark_driver(answer, &question->search);
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
  if (*command->script != '\0' && access(command->script, R_OK) != 0) {
    snprintf(error, ANSWER_ERROR_SIZE, "%.4000s: %s", command->script, strerror(errno));
    return false;
  }
  if (program->is_library)
    program->role = ROLE_MODULE;
  if (program->runs_here && (program->is_library || *program->interpreter != '\0')) {
    remark_preloads(answer, closure, question->circumstances->in_front || command->puts_in_front);
    closure_complete(closure);
    if (command->kind == COMMAND_PYTHON)
      ask_python(question, program);
  }
  judge(answer, question, program);
  return true;
}

bool answer_make(struct answer *answer, char *const *words,
                 const struct circumstances *circumstances, char error[ANSWER_ERROR_SIZE]) {
  struct question question = {.circumstances = circumstances};
  struct command *command = &question.command;
  *answer = (struct answer){.seen = SEEN_UNKNOWN, .reach = REACH_UNKNOWN};
  bool good = command_read(command, words, error);
  begin_search(&question);
  if (good) {
    copy_path(answer->file, command->kind == COMMAND_PYTHON && *command->script != '\0'
                                ? command->script
                                : command->file);
    for (size_t i = 0; i < command->launchers.count; i++)
      names_add(&answer->launchers, command->launchers.items[i]);
    if (command->kind == COMMAND_SCRIPT || command->kind == COMMAND_UNKNOWN)
      doubts_of_command(answer, command);
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
  names_free(&answer->launchers);
  *answer = (struct answer){0};
}
