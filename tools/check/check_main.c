/* nccl-join-check: whether nccl-join will see a program's NCCL calls, for `nccl-join check` and for
 * the warning of `nccl-join run`. Nothing of the program is run.
 *
 *   nccl-join-check [--json] [--libraries FOLDER] [--] PROGRAM [ARG...]
 *   nccl-join-check --warn MS ...   prints one line, or nothing, and takes so many milliseconds at
 *                                   most
 *                   --driver        also if there is no GPU driver
 *
 * Exit status: 0 yes, 1 no (or there are none), 2 it cannot be told, or an error. With --warn
 * always 0.
 */
#include <fcntl.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tools/check/answer.h"
#include "tools/check/report.h"
#include "tools/terminal.h"

#define LINE_SIZE ((size_t)4 * PATH_MAX)

struct options {
  bool json, driver;
  long warn; /* for how many milliseconds; 0: no warning is asked for */
  const char *libraries;
  char *const *words;
};

static int usage(const char *problem, const char *argument) {
  fprintf(stderr, "nccl-join: check: %s%s (see nccl-join --help)\n", problem, argument);
  return SEEN_UNKNOWN;
}

/* 0 or the status to exit with. */
static int read_options(struct options *options, int argc, char **argv) {
  static const struct option known[] = {{"help", no_argument, NULL, 'h'},
                                        {"json", no_argument, NULL, 'j'},
                                        {"warn", required_argument, NULL, 'w'},
                                        {"driver", no_argument, NULL, 'd'},
                                        {"libraries", required_argument, NULL, 'l'},
                                        {0}};
  *options = (struct options){0};
  opterr = 0;
  for (int option; (option = getopt_long(argc, argv, "+:h", known, NULL)) != -1;) {
    if (option == 'h') {
      puts("usage: nccl-join check [--json] [--] PROGRAM [ARG...]");
      exit(0);
    }
    if (option == '?' || option == ':')
      return usage(option == '?' ? "unknown option " : "a value is missing after ",
                   argv[optind - 1]);
    if (option == 'j')
      options->json = true;
    else if (option == 'd')
      options->driver = true;
    else if (option == 'w')
      options->warn = strtol(optarg, NULL, 10);
    else
      options->libraries = optarg;
  }
  options->words = argv + optind;
  return *options->words != NULL ? 0 : usage("no program to check", "");
}

static bool join_is_off(void) {
  const char *join = getenv("NCCL_JOIN");
  return join != NULL && strcmp(join, "0") == 0;
}

static int report(const struct options *options, const struct answer *answer) {
  if (options->warn > 0)
    report_warning(stdout, answer);
  else if (options->json)
    report_json(stdout, answer);
  else
    report_print(stdout, answer);
  return options->warn > 0 ? 0 : (int)answer->seen;
}

static int report_error(const struct options *options, const char *error) {
  if (options->warn > 0)
    return 0; /* starting it says the same */
  if (options->json)
    report_json_error(stdout, options->words[0], error);
  else
    fprintf(stderr, "nccl-join: check: %s\n", error);
  return SEEN_UNKNOWN;
}

static int answer(const struct options *options) {
  struct answer answer;
  char error[ANSWER_ERROR_SIZE];
  struct circumstances circumstances = {.libraries = options->libraries,
                                        .in_front = options->warn > 0,
                                        .brief = options->warn > 0,
                                        .driver = options->driver};
  int status = answer_make(&answer, options->words, &circumstances, error)
                   ? report(options, &answer)
                   : report_error(options, error);
  answer_free(&answer);
  return terminal_finish() ? status : SEEN_UNKNOWN;
}

/* ---- the warning ---- */

static long now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Reads until the other side is done. False if that is not before the deadline. */
static bool read_line(int source, char *line, size_t size, long deadline) {
  for (size_t used = 0; used + 1 < size;) {
    long left = deadline - now_ms();
    struct pollfd polled = {.fd = source, .events = POLLIN};
    if (left <= 0 || poll(&polled, 1, (int)left) <= 0)
      return false;
    ssize_t got = read(source, line + used, size - used - 1);
    used += got > 0 ? (size_t)got : 0;
    line[used] = '\0';
    if (got <= 0)
      return got == 0;
  }
  return false;
}

/* A process that reads from a slow disk cannot be interrupted, so another one does that, and is
 * left behind. */
static void warn(const struct options *options) {
  static char line[LINE_SIZE];
  int ends[2];
  pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
  if (child < 0)
    return;
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO); /* the launcher waits until its own is closed */
    _exit(answer(options));
  }
  close(ends[1]);
  if (read_line(ends[0], line, sizeof line, now_ms() + options->warn))
    fputs(line, stdout);
  else
    kill(child, SIGKILL);
  close(ends[0]);
}

int main(int argc, char **argv) {
  struct options options;
  int status = read_options(&options, argc, argv);
  if (status != 0 || (options.warn > 0 && join_is_off()))
    return status;
  if (options.warn == 0)
    return answer(&options);
  warn(&options);
  return terminal_finish() ? 0 : SEEN_UNKNOWN;
}
