/* nccl-join-check: whether nccl-join will see a program's NCCL calls, for `nccl-join check` and for
 * the warning of `nccl-join run`. Nothing is executed.
 *
 *   nccl-join-check [--json] [--libraries FOLDER] [--] PROGRAM [ARG...]
 *   nccl-join-check --warn ...      prints one line, or nothing, and takes WARN_MS at most
 *
 * Exit status: 0 yes, 1 no, 2 it cannot be told, or an error. With --warn always 0.
 */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "tools/check/answer.h"
#include "tools/check/report.h"

/* With what the launcher itself takes, below 200 ms. */
#define WARN_MS 150

struct options {
  bool json, warn;
  const char *libraries;
  char *const *words;
};

static int usage(const char *problem, const char *argument) {
  fprintf(stderr, "nccl-join: check: %s%s (see nccl-join --help)\n", problem, argument);
  return SEEN_UNKNOWN;
}

/* 0 or the status to exit with. */
static int read_options(struct options *options, char *const *word) {
  *options = (struct options){0};
  for (word++; *word != NULL && **word == '-'; word++) {
    if (strcmp(*word, "--json") == 0) {
      options->json = true;
    } else if (strcmp(*word, "--warn") == 0) {
      options->warn = true;
    } else if (strcmp(*word, "--libraries") == 0 && word[1] != NULL) {
      options->libraries = *++word;
    } else if (strcmp(*word, "--") == 0) {
      word++;
      break;
    } else {
      return usage("unknown option ", *word);
    }
  }
  options->words = word;
  return *word != NULL ? 0 : usage("no program to check", "");
}

/* What is not known by now is not worth a delay: files on a slow disk. */
static void give_up(int number) {
  (void)number;
  _exit(0);
}

static void limit_time(void) {
  signal(SIGALRM, give_up);
  setitimer(ITIMER_REAL, &(struct itimerval){.it_value.tv_usec = WARN_MS * 1000L}, NULL);
}

static bool join_is_off(void) {
  const char *join = getenv("NCCL_JOIN");
  return join != NULL && strcmp(join, "0") == 0;
}

static int report(const struct options *options, const struct answer *answer) {
  if (options->warn)
    report_warning(stdout, answer);
  else if (options->json)
    report_json(stdout, answer);
  else
    report_print(stdout, answer);
  return options->warn ? 0 : (int)answer->seen;
}

static int report_error(const struct options *options, const char *error) {
  if (options->warn)
    return 0; /* starting it says the same */
  if (options->json)
    report_json_error(stdout, options->words[0], error);
  else
    fprintf(stderr, "nccl-join: check: %s\n", error);
  return SEEN_UNKNOWN;
}

int main(int argc, char **argv) {
  (void)argc;
  struct options options;
  struct answer answer;
  char error[ANSWER_ERROR_SIZE];
  int status = read_options(&options, argv);
  if (status != 0)
    return status;
  if (options.warn && join_is_off())
    return 0;
  if (options.warn)
    limit_time();
  struct circumstances circumstances = {
      .libraries = options.libraries, .in_front = options.warn, .brief = options.warn};
  status = answer_make(&answer, options.words, &circumstances, error)
               ? report(&options, &answer)
               : report_error(&options, error);
  answer_free(&answer);
  return fflush(stdout) != 0 ? SEEN_UNKNOWN : status;
}
