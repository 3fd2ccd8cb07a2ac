/* Plug-ins (hooks/plugins.h): which are loaded, in which order they are called, and what an error
 * of one of them does. dlopen and dlsym are wrapped: a path that begins with PATH is a plug-in of
 * this file. What they are called with by ranks is in tests/join/hooks.c.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/report/log.h"
#include "hooks/plugins.h"

#define PATH "/plug-ins/"

/* What plug-ins were called with, in order: "a:init b:init". */
static char called[512];
static unsigned opened, closed;

static void note(const char *plugin, const char *function) {
  size_t length = strlen(called);
  snprintf(called + length, sizeof called - length, "%s%s:%s", length == 0 ? "" : " ", plugin,
           function);
}

#define assert_called(text)                                                                        \
  do {                                                                                             \
    cr_assert_str_eq(called, text);                                                                \
    called[0] = '\0';                                                                              \
  } while (0)

/* The log, which is a file in memory. */
static int log_memory;

static void open_log(void) {
  static struct settings settings = {.log_level = LOG_LEVEL_INFO};
  log_memory = memfd_create("log", 0);
  snprintf(settings.log_file, sizeof settings.log_file, "/proc/self/fd/%d", log_memory);
  log_open(&settings, 0);
}

TestSuite(plugins, .init = open_log);

static void assert_said(const char *text) {
  char said[4 * LOG_LINE_SIZE];
  ssize_t length = pread(log_memory, said, sizeof said - 1, 0);
  cr_assert_geq(length, 0);
  said[length] = '\0';
  cr_assert(strstr(said, text) != NULL, "no \"%s\" in \"%s\"", text, said);
}

/* ---- plug-ins ---- */

static ncclResult_t init_result, main_result, post_result, finalize_result;

static ncclResult_t init_a(void **context, int *wants, ncclJoinLog_t log) {
  cr_assert(*context == NULL && *wants == NCCL_JOIN_HOOK_OBSERVE);
  *context = called;
  note("a", "init");
  log(NCCL_JOIN_LOG_WARN, "a begins at %d o'clock", 13);
  return init_result;
}
static ncclResult_t main_a(void *context, const ncclJoinUnit_v1_t *unit) {
  cr_assert(context == called && unit->index == 7);
  note("a", "main");
  return main_result;
}
static ncclResult_t post_a(void *context, const ncclJoinReunion_v1_t *reunion) {
  cr_assert(context == called && reunion->rank == 2);
  note("a", "post");
  return post_result;
}
static ncclResult_t finalize_a(void *context) {
  cr_assert(context == called);
  note("a", "finalize");
  return finalize_result;
}

static ncclResult_t init_b(void **context, int *wants, ncclJoinLog_t log) {
  (void)context;
  (void)log;
  *wants = NCCL_JOIN_HOOK_FILL;
  note("b", "init");
  return ncclSuccess;
}
static ncclResult_t main_b(void *context, const ncclJoinUnit_v1_t *unit) {
  (void)context;
  (void)unit;
  note("b", "main");
  return ncclSuccess;
}
static ncclResult_t post_b(void *context, const ncclJoinReunion_v1_t *reunion) {
  (void)context;
  (void)reunion;
  note("b", "post");
  return ncclSystemError;
}
static ncclResult_t finalize_b(void *context) {
  (void)context;
  note("b", "finalize");
  return ncclSuccess;
}

/* By name of their file. "wants" has no main hook, and wants to fill all the same. */
static ncclResult_t init_wants(void **context, int *wants, ncclJoinLog_t log) {
  (void)context;
  (void)log;
  *wants = NCCL_JOIN_HOOK_FILL;
  return ncclSuccess;
}
/* "ends": the process ends while it is called. */
static ncclResult_t main_ends(void *context, const ncclJoinUnit_v1_t *unit) {
  (void)context;
  (void)unit;
  note("ends", "main");
  plugins_finalize();
  return ncclSuccess;
}
static ncclResult_t finalize_ends(void *context) {
  (void)context;
  note("ends", "finalize");
  return ncclSuccess;
}

static const struct library {
  const char *file, *symbol;
  ncclJoinHook_v1_t hook;
} libraries[] = {
    {"a", "ncclJoinHook_v1", {"A", init_a, main_a, post_a, finalize_a}},
    {"b", "ncclJoinHook_v1", {NULL, init_b, main_b, post_b, finalize_b}},
    {"empty", "ncclJoinHook_v1", {"EMPTY", NULL, NULL, NULL, NULL}},
    {"wants", "ncclJoinHook_v1", {"WANTS", init_wants, NULL, NULL, NULL}},
    {"ends", "ncclJoinHook_v1", {"ENDS", NULL, main_ends, NULL, finalize_ends}},
    {"v2", "ncclJoinHook_v2", {"V2", NULL, NULL, NULL, NULL}},
    {"v9", "ncclJoinHook_v9", {"V9", NULL, NULL, NULL, NULL}},
    {"v10", "ncclJoinHook_v10", {"V10", NULL, NULL, NULL, NULL}},
};
#define LIBRARIES (sizeof libraries / sizeof libraries[0])

static const struct library *as_library(const void *handle) {
  for (size_t i = 0; i < LIBRARIES; i++)
    if (handle == &libraries[i])
      return &libraries[i];
  return NULL;
}

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags) {
  if (path == NULL || strncmp(path, PATH, strlen(PATH)) != 0)
    return __real_dlopen(path, flags);
  for (size_t i = 0; i < LIBRARIES; i++)
    if (strcmp(path + strlen(PATH), libraries[i].file) == 0) {
      opened++;
      return (void *)&libraries[i];
    }
  return __real_dlopen(path, flags); /* which is not there */
}

void *__real_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
  const struct library *library = as_library(handle);
  if (library == NULL)
    return __real_dlsym(handle, name);
  return strcmp(name, library->symbol) == 0 ? (void *)&library->hook : NULL;
}

int __real_dlclose(void *handle);
int __wrap_dlclose(void *handle);
int __wrap_dlclose(void *handle) {
  if (as_library(handle) == NULL)
    return __real_dlclose(handle);
  closed++;
  return 0;
}

/* ---- loading ---- */

Test(plugins, none_are_wanted) {
  cr_assert(plugins_load(""));
  cr_assert(!plugins_observe() && !plugins_fill() && !plugins_have_post());
  plugins_finalize();
  assert_called("");
}

Test(plugins, are_begun_and_ended_in_order_and_once) {
  cr_assert(plugins_load(PATH "a,," PATH "b"));
  assert_called("a:init b:init");
  assert_said("NCCL-JOIN WARN a begins at 13 o'clock");
  assert_said("NCCL-JOIN INFO plug-in A (" PATH "a)\n");
  assert_said("NCCL-JOIN INFO plug-in " PATH "b (" PATH "b)\n");
  cr_assert(opened == 2 && closed == 0);
  cr_assert(plugins_load(PATH "empty"), "the first call counts");
  cr_assert_eq(opened, 2);
  plugins_finalize();
  assert_called("a:finalize b:finalize");
  plugins_finalize();
  assert_called("");
}

Test(plugins, one_without_functions_is_never_called) {
  cr_assert(plugins_load(PATH "empty"));
  cr_assert(!plugins_observe() && !plugins_fill() && !plugins_have_post());
  cr_assert(plugins_main(&(ncclJoinUnit_v1_t){.index = 7}));
  cr_assert_eq(plugins_post(&(ncclJoinReunion_v1_t){.rank = 2}), ncclSuccess);
  plugins_finalize();
}

Test(plugins, one_that_cannot_begin_ends_those_before_it) {
  init_result = ncclSystemError;
  cr_assert_not(plugins_load(PATH "b," PATH "a," PATH "empty"));
  assert_called("b:init a:init b:finalize");
  assert_said("NCCL_JOIN_HOOK: the plug-in A (" PATH "a) could not begin: its init returned 2");
  cr_assert(!plugins_observe() && !plugins_fill() && !plugins_have_post());
  cr_assert_not(plugins_load(PATH "b"), "nor does it later");
  plugins_finalize();
  assert_called("");
}

Test(plugins, the_first_one_that_cannot_begin_ends_nobody) {
  init_result = ncclInternalError;
  cr_assert_not(plugins_load(PATH "a"));
  assert_called("a:init");
  assert_said("its init returned 3");
}

Test(plugins, one_that_is_not_there_is_an_error) {
  cr_assert_not(plugins_load(PATH "absent"));
  assert_said("cannot load the plug-in " PATH "absent: " PATH "absent: cannot open shared object");
}

static void check_version(const char *path, const char *said) {
  cr_assert_not(plugins_load(path));
  assert_said(said);
  cr_assert(opened == 1 && closed == 1);
}
Test(plugins, one_of_the_next_version_is_named) {
  check_version(PATH "v2", "exports ncclJoinHook_v2, but");
}
Test(plugins, one_of_a_much_later_version_is_named) {
  check_version(PATH "v9", "exports ncclJoinHook_v9, but");
}
Test(plugins, what_exports_nothing_known_is_no_plug_in) {
  check_version(PATH "v10", "exports no ncclJoinHook_v1: it is no plug-in");
}

/* ---- calling ---- */

static const ncclJoinMember_v1_t member = {.rank = 2, .nRanks = 3};
static const ncclJoinUnit_v1_t shadow = {.index = 7, .nMembers = 1, .members = &member};
static const ncclJoinReunion_v1_t reunion = {.rank = 2, .nRanks = 3};

Test(plugins, say_what_they_want) {
  cr_assert(plugins_load(PATH "empty," PATH "a"));
  cr_assert(plugins_observe() && !plugins_fill() && plugins_have_post());
}
Test(plugins, one_of_several_wants_to_fill) {
  cr_assert(plugins_load(PATH "a," PATH "b"));
  cr_assert(plugins_observe() && plugins_fill() && plugins_have_post());
}
Test(plugins, without_a_main_hook_nothing_is_filled) {
  cr_assert(plugins_load(PATH "wants"));
  cr_assert(!plugins_observe() && !plugins_fill());
}

Test(plugins, are_called_in_order) {
  cr_assert(plugins_load(PATH "a," PATH "empty," PATH "b"));
  assert_called("a:init b:init");
  cr_assert(plugins_main(&shadow));
  assert_called("a:main b:main");
}

Test(plugins, a_main_hook_that_fails_is_not_called_again) {
  cr_assert(plugins_load(PATH "a," PATH "b"));
  assert_called("a:init b:init");
  main_result = ncclInternalError;
  cr_assert_not(plugins_main(&shadow));
  assert_called("a:main b:main");
  assert_said("mainHook of the plug-in A (" PATH "a) returned 3 for the shadow at collective 7");
  assert_said("rank 2 nranks 3]");
  cr_assert(plugins_main(&shadow));
  assert_called("b:main");
}
Test(plugins, the_only_main_hook_fails_and_nobody_observes) {
  cr_assert(plugins_load(PATH "a"));
  main_result = ncclInternalError;
  cr_assert_not(plugins_main(&shadow));
  cr_assert_not(plugins_observe());
}

Test(plugins, all_post_hooks_are_called_and_the_first_error_counts) {
  cr_assert(plugins_load(PATH "a," PATH "empty," PATH "b"));
  assert_called("a:init b:init");
  cr_assert_eq(plugins_post(&reunion), ncclSystemError);
  assert_called("a:post b:post");
  assert_said("postHook of the plug-in " PATH "b (" PATH "b) returned 2 on rank 2");
  assert_said("rank 2 nranks 3]");
  post_result = ncclInternalError;
  cr_assert_eq(plugins_post(&reunion), ncclInternalError);
  assert_called("a:post b:post");
  plugins_finalize();
  assert_called("a:finalize b:finalize");
}

/* ---- ending ---- */

Test(plugins, an_error_at_the_end_is_told) {
  cr_assert(plugins_load(PATH "a"));
  finalize_result = ncclRemoteError;
  plugins_finalize();
  assert_said("finalize of the plug-in A (" PATH "a) returned 6");
}

Test(plugins, none_is_called_once_they_have_ended) {
  cr_assert(plugins_load(PATH "a"));
  plugins_finalize();
  assert_called("a:init a:finalize");
  cr_assert(plugins_main(&shadow));
  cr_assert_eq(plugins_post(&reunion), ncclSuccess);
  assert_called("");
}

/* A call may be under way in another thread, and never come back. Here it is the one that ends
 * them. */
Test(plugins, none_is_ended_while_one_is_at_work) {
  cr_assert(plugins_load(PATH "ends"));
  cr_assert(plugins_main(&shadow));
  assert_called("ends:main");
  assert_said("the process ends while a plug-in of NCCL_JOIN_HOOK is at work: none is finalised");
  plugins_finalize();
  assert_called("ends:finalize");
}
