/* nccl-join status: where the ranks of this user's jobs on this machine are, in this moment.
 *
 *   nccl-join-status [--json] [--watch] [PID | --all]
 *
 * Looks at the segments that processes have open (core/transport/segment_view.h): nothing is asked
 * of the ranks, which may be stopped. For each communicator, or several of the same ranks, one row
 * a rank: whether it runs its program or waits, in which call and for how long, whether it has
 * joined, or is stopped; then who waits for whom, also across communicators, and the last WARN of
 * each process. The status is 1 if there is no such job; with --watch, if there has been none.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tools/json_text.h"
#include "tools/status/job.h"
#include "tools/status/segments.h"
#include "tools/terminal.h"

static bool number_of(const char *text, long *number) {
  char *end;
  *number = strtol(text, &end, 10);
  return end != text && *end == '\0' && *number > 0 && *number <= INT_MAX;
}

/* All that can be read; what keeps others from being read is said, each reason once in a row. */
static size_t read_jobs(const struct segments *segments, struct job *jobs) {
  size_t njobs = 0;
  char said[ATTACHMENT_REASON_SIZE] = "";
  for (size_t i = 0; i < segments->count; i++) {
    const struct segment_found *found = &segments->found[i];
    char reason[ATTACHMENT_REASON_SIZE];
    if (job_read(&jobs[njobs], found->path, found->name, reason)) {
      njobs++;
      continue;
    }
    if (reason[0] != '\0' && strcmp(reason, said) != 0)
      fprintf(stderr, "nccl-join: a job is left out: %s\n", reason);
    memcpy(said, reason, sizeof said);
  }
  jobs_link(jobs, njobs);
  return njobs;
}

static void say_none(long pid) {
  if (pid == 0)
    printf("no job of this user runs with nccl-join on this machine\n");
  else if (kill((pid_t)pid, 0) == 0)
    printf("process %ld is not in a job with nccl-join: it has no communicator, or runs without. "
           "Name a rank; without a number all jobs are shown\n",
           pid);
  else
    printf(errno == ESRCH ? "there is no process %ld\n" : "process %ld is another user's\n", pid);
}

/* How many jobs there were. */
static size_t show(long pid, bool json) {
  static struct job jobs[SEGMENTS_MAX];
  static struct segments segments;
  segments.count = 0;
  if (pid != 0) {
    segments_of_process(&segments, pid);
    if (segments.count == 0)
      segments_of_children(&segments, pid);
  } else
    segments_of_all(&segments);
  size_t njobs = read_jobs(&segments, jobs);
  json_t *all = json ? json_array() : NULL;
  for (size_t i = 0; i < njobs; i++) {
    if (json)
      json_array_append_new(all, job_to_json(&jobs[i]));
    else
      job_print(stdout, &jobs[i]);
    job_free(&jobs[i]);
  }
  if (json)
    json_print(stdout, all);
  else if (njobs == 0)
    say_none(pid);
  return njobs;
}

static int usage(FILE *out, int status) {
  fprintf(out, "usage: nccl-join status [--json] [--watch] [PID | --all]\n");
  if (status == 0)
    fprintf(out, "  PID      the communicators of one rank, or of all that a launcher has started\n"
                 "  --all    those of all jobs of this user on this machine, as without a PID\n"
                 "  --watch  again and again, until none is left\n"
                 "  --json   one array, for other programs\n");
  return fflush(out) != 0 ? 1 : status;
}

int main(int argc, char **argv) {
  static char name[] = "nccl-join: status"; /* in what getopt says */
  static const struct option options[] = {{"json", no_argument, NULL, 'j'},
                                          {"watch", no_argument, NULL, 'w'},
                                          {"all", no_argument, NULL, 'a'},
                                          {"help", no_argument, NULL, 'h'},
                                          {NULL, 0, NULL, 0}};
  bool json = false, watch = false, seen = false;
  long pid = 0;
  argv[0] = name;
  for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
    if (option == 'h')
      return usage(stdout, 0);
    if (option == '?')
      return usage(stderr, 2);
    json |= option == 'j';
    watch |= option == 'w';
  }
  if (optind < argc - 1)
    return usage(stderr, 2);
  if (optind < argc && !number_of(argv[optind], &pid)) {
    fprintf(stderr, "nccl-join: status takes the number of a process, not %s\n", argv[optind]);
    return usage(stderr, 2);
  }
  while (watch) {
    if (terminal_width(stdout) != 0)
      fputs("\033[H\033[2J", stdout);
    size_t shown = show(pid, json);
    fflush(stdout);
    if (shown == 0 || ferror(stdout))
      return !terminal_finish() || !seen;
    seen = true;
    nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
  }
  bool none = show(pid, json) == 0;
  return !terminal_finish() || none;
}
