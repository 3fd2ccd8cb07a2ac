/* Who waits for whom (job.h). */
#include "tools/status/job.h"

static bool is_stopped(const struct job_rank *rank) {
  return rank->stopped && rank->doing != DOING_ENDED && rank->doing != DOING_LEFT;
}

static bool any_stopped(const struct job *job) {
  for (uint32_t i = 0; i < job->nranks; i++)
    if (is_stopped(&job->ranks[i]))
      return true;
  return false;
}

/* A collective is done only when all ranks have issued it, and none of the next ones can be while
 * one of them is stopped. */
static bool is_ahead(const struct job *job, const struct job_rank *rank, bool *issued) {
  bool ahead = false;
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *other = &job->ranks[i];
    ahead |= is_stopped(other) && other->passed <= rank->passed;
    *issued |= is_stopped(other) && other->passed < rank->passed;
  }
  return ahead;
}

void job_find_waits(struct job *job) {
  bool stopped = any_stopped(job);
  for (uint32_t i = 0; i < job->nranks; i++) {
    struct job_rank *rank = &job->ranks[i];
    bool runs = rank->doing == DOING_RUNS, issued = false;
    rank->holds = stopped ? is_stopped(rank) : runs;
    rank->held = !rank->holds &&
                 (rank->doing == DOING_WAITS || (runs && stopped && is_ahead(job, rank, &issued)));
    rank->on_device = rank->held && runs && issued;
  }
}
