/* Criterion's tests without its library: what they need of it, in one file, and a main.
 * (CRITERION=1 links them with the library.)
 *
 * Criterion starts the program anew for each test, with all libraries that its own needs: 20 ms of
 * the processor's time for tests that mostly take less than one. Here a test is a forked child, and
 * how a child ends counts: one that loses memory under LeakSanitizer fails. It works with all
 * sanitizers. The assertions are Criterion's own headers, and so are the words that are printed
 * (tests/run reads them) and these options: -jN (N at a time, and up to twice as many as long as a
 * processor is idle), --fail-fast, --list, --color=never, --filter PATTERN, and --verbose, which
 * says of each test how long it took, and how much of the processor's time it and what it has
 * waited for had.
 *
 * Suites with .init, .fini, .signal, .exit_code, .timeout and .disabled, ReportHook of PRE_ALL and
 * POST_ALL; no theories, no parameters, and of criterion/new/assert.h nothing.
 */
#include <criterion/criterion.h>
#include <criterion/hooks.h>
#include <fnmatch.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern struct criterion_test *__start_cr_tst[], *__stop_cr_tst[];
extern struct criterion_suite *__start_cr_sts[], *__stop_cr_sts[];
extern f_report_hook __start_cr_pra[], __stop_cr_pra[], __start_cr_poa[], __stop_cr_poa[];
/* Of a program without a TestSuite, or a hook, the section is missing. */
#pragma weak __start_cr_sts
#pragma weak __stop_cr_sts
#pragma weak __start_cr_pra
#pragma weak __stop_cr_pra
#pragma weak __start_cr_poa
#pragma weak __stop_cr_poa

struct criterion_options criterion_options;

/* How a child ends that has passed, failed, or skipped its test. */
enum { PASSED = 0, FAILED = 99, SKIPPED = 98 };

/* ---- in the child ---- */

static jmp_buf aborted;
static bool has_failed;
static struct criterion_test *current;

static struct criterion_test_extra_data *suite_of(const struct criterion_test *test) {
  for (struct criterion_suite **suite = __start_cr_sts; suite < __stop_cr_sts; suite++)
    if (strcmp((*suite)->name, test->category) == 0)
      return (*suite)->data;
  return NULL;
}

void criterion_abort_test(void) {
  longjmp(aborted, 1);
}

void criterion_continue_test(void) {}

void criterion_skip_test(const char *format, ...) {
  (void)format;
  fflush(NULL);
  _exit(SKIPPED);
}

void criterion_send_assert(struct criterion_assert_stats *stats) {
  if (stats->passed)
    return;
  has_failed = true;
  printf("[----] %s:%u: Assertion Failed\n[----]   %s\n", stats->file, stats->line,
         stats->message == NULL ? "" : stats->message);
  fflush(stdout); /* the test may crash next */
}

void cri_asserts_passed_incr(void) {}

int cr_asprintf(char **text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(text, format, arguments);
  va_end(arguments);
  return length;
}

void cr_asprintf_free(char *text) {
  free(text);
}

/* What is said of an assertion without words of its own. The first argument is its expression; of
 * two strings that were compared, they follow. */
char *cr_translate_assert_msg(int index, ...) {
  static const char *const formats[] = {
      [CRITERION_ASSERT_MSG_EXPR_FALSE] = "false: %s",
      [CRITERION_ASSERT_MSG_EXPR_AS_STRINGS_FALSE] = "false, as strings: %s: \"%s\", \"%s\"",
      [CRITERION_ASSERT_MSG_IS_NULL] = "NULL: %s",
      [CRITERION_ASSERT_MSG_IS_NOT_NULL] = "not NULL: %s",
      [CRITERION_ASSERT_MSG_IS_EMPTY] = "empty: %s",
      [CRITERION_ASSERT_MSG_IS_NOT_EMPTY] = "not empty: %s: \"%s\""};
  const char *format = (size_t)index < sizeof formats / sizeof *formats ? formats[index] : NULL;
  char *text = NULL;
  va_list arguments;
  va_start(arguments, index);
  if (format == NULL || vasprintf(&text, format, arguments) < 0)
    text = strdup("");
  va_end(arguments);
  return text;
}

static void call(void (*function)(void)) {
  if (function != NULL && setjmp(aborted) == 0)
    function();
}

void criterion_internal_test_setup(void) {
  const struct criterion_test_extra_data *suite = suite_of(current);
  call(suite == NULL ? NULL : suite->init);
  call(current->data->init);
}

void criterion_internal_test_main(void (*function)(void)) {
  if (!has_failed)
    call(function);
}

void criterion_internal_test_teardown(void) {
  const struct criterion_test_extra_data *suite = suite_of(current);
  call(current->data->fini);
  call(suite == NULL ? NULL : suite->fini);
}

/* ---- the runner ---- */

enum { CHILDREN_MAX = 128 };

struct child {
  const struct criterion_test *test; /* NULL: none */
  pid_t process;
  double begun, limit;
};

static bool fails_fast, is_verbose, has_to_stop;
static sigset_t child_ends, usual; /* SIGCHLD; what was blocked before it */
static unsigned tested, passing, failing, crashing, skipped;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double seconds(struct timeval time) {
  return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

/* In seconds; 0: none. */
static double limit_of(const struct criterion_test *test) {
  const struct criterion_test_extra_data *suite = suite_of(test);
  double limit = test->data->timeout;
  return limit != 0 ? limit : suite != NULL ? suite->timeout : 0;
}

static void start(struct child *child, struct criterion_test *test) {
  *child = (struct child){.test = test, .begun = now(), .limit = limit_of(test)};
  if (is_verbose)
    printf("[RUN ] %s::%s\n", test->category, test->name);
  fflush(NULL);
  child->process = fork();
  if (child->process == 0) {
    (void)setsid();
    sigprocmask(SIG_SETMASK, &usual, NULL);
    current = test;
    test->test();
    exit(has_failed ? FAILED : PASSED);
  }
  if (child->process < 0) {
    perror("tests/runner");
    exit(2);
  }
}

static void judge(const struct child *child, int status, bool late) {
  const struct criterion_test_extra_data *data = child->test->data, *suite = suite_of(child->test);
  int wanted_signal = data->signal != 0 || suite == NULL ? data->signal : suite->signal;
  int wanted = data->exit_code != 0 || suite == NULL ? data->exit_code : suite->exit_code;
  bool ended = WIFEXITED(status);
  tested++;
  if (!late && (ended ? wanted_signal == 0 && WEXITSTATUS(status) == wanted
                      : WTERMSIG(status) == wanted_signal)) {
    passing++;
    return;
  }
  if (ended && WEXITSTATUS(status) == SKIPPED) {
    tested--;
    skipped++;
    return;
  }
  failing++;
  crashing += !ended && !late;
  printf("[FAIL] %s::%s: ", child->test->category, child->test->name);
  if (late)
    printf("Timed out. ");
  else if (!ended)
    printf("CRASH! (%s) ", strsignal(WTERMSIG(status)));
  else if (WEXITSTATUS(status) != FAILED)
    printf("ended with status %d ", WEXITSTATUS(status));
  printf("(%.2fs)\n", now() - child->begun);
  has_to_stop = fails_fast;
}

/* Takes the children that have ended, or waited for too long, from the list; waits for one. */
static void reap(struct child children[CHILDREN_MAX]) {
  struct timespec tick = {.tv_nsec = 100000000}; /* how late a limit may be noticed */
  sigtimedwait(&child_ends, NULL, &tick);
  for (unsigned i = 0; i < CHILDREN_MAX; i++) {
    struct child *child = &children[i];
    if (child->test == NULL)
      continue;
    int status;
    struct rusage used;
    pid_t ended = wait4(child->process, &status, WNOHANG, &used);
    bool late = ended == 0 && child->limit != 0 && now() - child->begun > child->limit;
    if (late) {
      kill(child->process, SIGKILL);
      ended = wait4(child->process, &status, 0, &used);
    }
    if (ended != child->process)
      continue;
    if (is_verbose)
      printf("[DONE] %s::%s: %.2f s, %.3f s of processor time\n", child->test->category,
             child->test->name, now() - child->begun,
             seconds(used.ru_utime) + seconds(used.ru_stime));
    kill(-child->process, SIGKILL); /* what it has started */
    judge(child, status, late);
    child->test = NULL;
  }
}

static bool is_wanted(const struct criterion_test *test, const char *filter) {
  char name[512];
  const struct criterion_test_extra_data *suite = suite_of(test);
  snprintf(name, sizeof name, "%s/%s", test->category, test->name);
  return !test->data->disabled && !(suite != NULL && suite->disabled) &&
         fnmatch(filter, name, FNM_EXTMATCH) == 0;
}

/* Those that have a limit first, the longest before: they may take long, and no other would be left
 * to run beside them. */
static int in_order(const void *a, const void *b) {
  const struct criterion_test *x = *(struct criterion_test *const *)a,
                              *y = *(struct criterion_test *const *)b;
  if (limit_of(x) != limit_of(y))
    return limit_of(x) > limit_of(y) ? -1 : 1;
  int by = strcmp(x->category, y->category);
  return by != 0 ? by : strcmp(x->name, y->name);
}

static void run_hooks(f_report_hook *from, const f_report_hook *to, void *what) {
  for (; from < to; from++)
    if (*from != NULL)
      (*from)(what);
}

/* Whether a processor has nothing to do: tests wait, for time to pass or for each other. */
static bool is_idle(void) {
  unsigned runnable = UINT_MAX; /* this process among them */
  FILE *load = fopen("/proc/loadavg", "r");
  if (load != NULL) {
    if (fscanf(load, "%*f %*f %*f %u", &runnable) != 1)
      runnable = UINT_MAX;
    fclose(load);
  }
  return runnable <= (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

/* The next test that is wanted; NULL: there is none. */
static struct criterion_test *take_next(size_t *next, const char *filter) {
  size_t ntests = (size_t)(__stop_cr_tst - __start_cr_tst);
  while (*next < ntests && !has_to_stop) {
    struct criterion_test *test = __start_cr_tst[(*next)++];
    if (is_wanted(test, filter))
      return test;
  }
  return NULL;
}

/* So many at a time; of several, as long as a processor is idle, one more at each end or tick, up
 * to twice as many. */
static void run_all(unsigned jobs, const char *filter) {
  struct child children[CHILDREN_MAX] = {{.test = NULL}};
  struct criterion_test *test = NULL;
  unsigned running = 0;
  size_t next = 0;
  sigemptyset(&child_ends);
  sigaddset(&child_ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_ends, &usual);
  do {
    bool more = jobs > 1 && running >= jobs && running < 2 * jobs && is_idle();
    unsigned most = more ? running + 1 : jobs;
    running = 0;
    for (unsigned i = 0; i < CHILDREN_MAX; i++)
      running += children[i].test != NULL;
    for (unsigned i = 0; i < CHILDREN_MAX && running < most; i++)
      if (children[i].test == NULL && (test = take_next(&next, filter)) != NULL) {
        start(&children[i], test);
        running++;
      }
    if (running > 0)
      reap(children);
  } while (running > 0);
}

static void list_all(const char *filter) {
  for (struct criterion_test **test = __start_cr_tst; test < __stop_cr_tst; test++)
    if (is_wanted(*test, filter))
      printf("%s/%s\n", (*test)->category, (*test)->name);
}

int main(int argc, char **argv) {
  unsigned jobs = 1;
  bool lists = false;
  const char *filter = "*/*";
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "-j", 2) == 0)
      jobs = (unsigned)atoi(argv[i] + 2);
    fails_fast |= strcmp(argv[i], "--fail-fast") == 0;
    is_verbose |= strcmp(argv[i], "--verbose") == 0;
    lists |= strcmp(argv[i], "--list") == 0;
    if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc)
      filter = argv[++i];
  }
  qsort(__start_cr_tst, (size_t)(__stop_cr_tst - __start_cr_tst), sizeof(*__start_cr_tst),
        in_order);
  if (lists) {
    list_all(filter);
    return 0;
  }
  run_hooks(__start_cr_pra, __stop_cr_pra, NULL);
  run_all(jobs < 1 ? 1 : jobs > CHILDREN_MAX / 2 ? CHILDREN_MAX / 2 : jobs, filter);
  struct criterion_global_stats stats = {.nb_tests = tested,
                                         .tests_skipped = skipped,
                                         .tests_failed = failing,
                                         .tests_crashed = crashing,
                                         .tests_passed = passing};
  run_hooks(__start_cr_poa, __stop_cr_poa, &stats);
  printf("[====] Synthesis: Tested: %u | Passing: %u | Failing: %u | Crashing: %u \n", tested,
         passing, failing, crashing);
  return failing != 0;
}
