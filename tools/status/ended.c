/* Where a rank was that has ended, and who failed before it (job.h), for the launcher: the rank
 * itself cannot say it, and its peers may not have noticed. */
#include <string.h>

#include "tools/status/job.h"
#include "tools/status/segments.h"

/* Calls `take` with all jobs of which one of the peers has a segment open. */
static void each_job(const int *peers, size_t npeers, void (*take)(const struct job *, void *),
                     void *context) {
  struct segments segments = {0};
  for (size_t i = 0; i < npeers && segments.count < SEGMENTS_MAX; i++)
    segments_of_process(&segments, peers[i]);
  for (size_t i = 0; i < segments.count; i++) {
    struct job job;
    char reason[ATTACHMENT_REASON_SIZE];
    if (!job_read(&job, segments.found[i].path, segments.found[i].name, reason))
      continue;
    take(&job, context);
    job_free(&job);
  }
}

/* ---- where it was ---- */

struct where {
  int ended;
  struct job_rank best;
};

/* Of several communicators the one in which it waited, or else in which it came furthest. */
static void take_better(const struct job *job, void *context) {
  struct where *where = context;
  struct job_rank *best = &where->best;
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    if (rank->pid != where->ended || rank->unit[0] == '\0')
      continue;
    if (best->pid == 0 || rank->parked > best->parked ||
        (rank->parked == best->parked && rank->passed > best->passed))
      *best = *rank;
  }
}

void job_write_end(int ended, const int *peers, size_t npeers, char *text, size_t size) {
  struct where where = {.ended = ended};
  const struct job_rank *best = &where.best;
  each_job(peers, npeers, take_better, &where);
  text[0] = '\0';
  if (best->pid != 0)
    snprintf(text, size, " %s %s%s%s", best->parked ? "in" : "after", best->unit,
             best->place[0] == '\0' ? "" : " at ", best->place);
}

/* ---- who was first ---- */

struct first {
  int ended, pid;
};

static void take_first(const struct job *job, void *context) {
  struct first *first = context;
  bool followed = false;
  int pid = 0;
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    followed |= rank->pid == first->ended && rank->followed;
    if (rank->failed && !rank->followed)
      pid = rank->pid;
  }
  if (followed && pid != first->ended)
    first->pid = pid;
}

int job_failed_before(int ended, const int *peers, size_t npeers) {
  struct first first = {.ended = ended};
  each_job(peers, npeers, take_first, &first);
  for (size_t i = 0; i < npeers; i++)
    if (peers[i] == first.pid)
      return first.pid;
  return 0;
}
