/* Where a rank was that has ended (job.h), for the launcher: the rank itself cannot say it, and its
 * peers may not have noticed. */
#include <string.h>

#include "tools/status/job.h"
#include "tools/status/segments.h"

/* Of several communicators the one in which it waited, or else in which it came furthest. */
static void take_better(const struct job *job, int ended, struct job_rank *best) {
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    if (rank->pid != ended || rank->unit[0] == '\0')
      continue;
    if (best->pid == 0 || rank->parked > best->parked ||
        (rank->parked == best->parked && rank->passed > best->passed))
      *best = *rank;
  }
}

void job_write_end(int ended, const int *peers, size_t npeers, char *text, size_t size) {
  struct segments segments = {0};
  struct job_rank best = {0};
  for (size_t i = 0; i < npeers && segments.count < SEGMENTS_MAX; i++)
    segments_of_process(&segments, peers[i]);
  for (size_t i = 0; i < segments.count; i++) {
    struct job job;
    char reason[ATTACHMENT_REASON_SIZE];
    if (!job_read(&job, segments.found[i].path, segments.found[i].name, reason))
      continue;
    take_better(&job, ended, &best);
    job_free(&job);
  }
  text[0] = '\0';
  if (best.pid != 0)
    snprintf(text, size, " %s %s%s%s", best.parked ? "in" : "after", best.unit,
             best.place[0] == '\0' ? "" : " at ", best.place);
}
