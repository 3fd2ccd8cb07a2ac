/* What becomes of all ranks when one ends, or when the launcher is told to stop (ranks_private.h).
 */
#include "tools/ranks_private.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "tools/launch_record.h"
#include "tools/status/job.h"

#define FIRST_MS 2000 /* for a rank that has failed first to end, too */

long ranks_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void ranks_signal(struct launch *launch, int number, bool only_running) {
  for (int i = 0; i < launch->options.nranks; i++) {
    struct rank *rank = &launch->ranks[i];
    if (rank->pid > 0 && !(only_running && rank->ended)) {
      rank->told |= !rank->ended;
      kill(-rank->pid, number);
      kill(-rank->pid, SIGCONT); /* a stopped process would not notice */
    }
  }
}

void ranks_stop(struct launch *launch, int number) {
  launch->stopping = true;
  launch->deadline_ms = ranks_now_ms() + RANKS_GRACE_MS;
  ranks_signal(launch, number, true);
}

bool ranks_have_ended(const struct launch *launch) {
  for (int i = 0; i < launch->options.nranks; i++) {
    if (launch->ranks[i].pid > 0 && !launch->ranks[i].ended)
      return false;
  }
  return true;
}

/* The processes of ranks that have not ended: they know what the others did (tools/status/job.h).
 */
static size_t find_running(const struct launch *launch, int pids[RANKS_MAX]) {
  size_t count = 0;
  for (int i = 0; i < launch->options.nranks; i++)
    if (launch->ranks[i].pid > 0 && !launch->ranks[i].ended)
      pids[count++] = launch->ranks[i].pid;
  return count;
}

static const char *write_where(const struct launch *launch, int number, char *where, size_t size) {
  int peers[RANKS_MAX];
  size_t npeers = find_running(launch, peers);
  job_write_end(launch->ranks[number].pid, peers, npeers, where, size);
  return where;
}

/* The rank that had failed when a rank did, and has yet to end; -1: none. */
static int find_first(const struct launch *launch, int number) {
  int peers[RANKS_MAX];
  size_t npeers = find_running(launch, peers);
  int pid = job_failed_before(launch->ranks[number].pid, peers, npeers);
  for (int i = 0; i < launch->options.nranks; i++)
    if (pid != 0 && launch->ranks[i].pid == pid)
      return i;
  return -1;
}

static void say_failed(struct launch *launch, int number) {
  const struct rank *rank = &launch->ranks[number];
  char where[512];
  if (rank->status > 128)
    snprintf(launch->why, sizeof(launch->why), "rank %d was ended by signal %d (%s)%s", number,
             rank->status - 128, strsignal(rank->status - 128),
             write_where(launch, number, where, sizeof(where)));
  else
    snprintf(launch->why, sizeof(launch->why), "rank %d ended with status %d", number,
             rank->status);
  say("%s%s", launch->why, ranks_have_ended(launch) ? "" : ": ending the others");
}

void ranks_record(const struct launch *launch) {
  const char *folder = getenv("NCCL_JOIN_TRACE");
  struct launch_end ends[RANKS_MAX];
  size_t count = 0;
  if (launch->why[0] == '\0' || folder == NULL || *folder == '\0' ||
      launch->options.preload == NULL)
    return;
  for (int i = 0; i < launch->options.nranks; i++)
    if (launch->ranks[i].pid > 0 && (launch->ranks[i].told || launch->ranks[i].status != 0))
      ends[count++] = (struct launch_end){launch->ranks[i].pid, !launch->ranks[i].told};
  launch_record(folder, launch->why, ends, count);
}

/* The rank gives the status, and ends the others. */
static void take_failure(struct launch *launch, int failed) {
  launch->awaiting = false;
  launch->status = launch->ranks[failed].status;
  say_failed(launch, failed);
  ranks_stop(launch, SIGTERM);
}

/* What a rank does while it ends may take longer than what others do that fail because of it. */
static void await_first(struct launch *launch, int failed, int first) {
  launch->awaiting = true;
  launch->failed = failed;
  launch->first = first;
  launch->deadline_ms = ranks_now_ms() + FIRST_MS;
}

void ranks_look(struct launch *launch, int first_pid) {
  int failed = -1;
  for (int i = 0; i < launch->options.nranks; i++) {
    struct rank *rank = &launch->ranks[i];
    siginfo_t info = {0};
    if (rank->pid <= 0 || rank->ended ||
        waitid(P_PID, (id_t)rank->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
      continue;
    rank->ended = true;
    rank->status = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
    if (rank->status != 0 && (failed < 0 || rank->pid == first_pid))
      failed = i;
  }
  if (launch->status != 0 || launch->stopping)
    return;
  if (launch->awaiting && launch->ranks[launch->first].ended)
    take_failure(launch, launch->ranks[launch->first].status != 0 ? launch->first : launch->failed);
  if (failed < 0 || launch->awaiting || launch->status != 0)
    return;
  int first = find_first(launch, failed);
  if (first < 0)
    take_failure(launch, failed);
  else
    await_first(launch, failed, first);
}

void ranks_take_signal(struct launch *launch, int number) {
  bool again = launch->stopping;
  if (launch->status == 0) {
    launch->status = 128 + number;
    snprintf(launch->why, sizeof(launch->why), "nccl-join run was told to stop by signal %d (%s)",
             number, strsignal(number));
  }
  ranks_stop(launch, again ? SIGKILL : number);
}

void ranks_late(struct launch *launch) {
  if (!launch->stopping) {
    take_failure(launch, launch->failed);
    return;
  }
  ranks_signal(launch, SIGKILL, true);
  launch->deadline_ms = ranks_now_ms() + RANKS_GRACE_MS;
}
