/* Another process of the same user writes into the memory that a job's ranks share, at random
 * moments and places. Each rank ends with right results, or with an error: none crashes, and no
 * result is wrong. Nor is any left waiting, but for one case: what a rank has said of a collective
 * is gone while it is in that collective, so that its peers wait for one that seems to run its
 * program, as long as it lives. They name it after NCCL_JOIN_STALL_WARN.
 *
 * Not part of it: a process that truncates the file (SIGBUS, see core/transport/plane_shm.h). Once
 * all ranks have attached the file has no name, and only who may look into /proc/<pid>/fd, and so
 * might as well use ptrace(2), still reaches it.
 */
#include <criterion/criterion.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/transport/segment.h"
#include "tests/faults/place.h"
#include "tests/faults/watch.h"

enum { RANKS = 3, MISMATCH = RUN_LOOPBACK_STOPPED };

static const char *const jobs[] = {
    "--iterations 3,25,14 --wait 6 --barrier 1 --end finalize",
    "--iterations 20,2,20 --wait 6 --end destroy",
    "--iterations 12,12,0 --wait 8 --barrier 1 --end return",
};
enum { JOBS = sizeof jobs / sizeof *jobs };

/* Somewhere in a log, most often where it matters: the words that all ranks read. */
static size_t place_in_log(uint32_t slots) {
  size_t log = segment_log_offset(slots, (uint32_t)place_random(slots));
  switch (place_random(4)) {
  case 0:
    return log + place_random(offsetof(struct plane_log, entries));
  case 1:
    return log + offsetof(struct plane_log, entries) +
           place_random(96 * sizeof(struct plane_entry));
  case 2:
    return log + offsetof(struct plane_log, text) + place_random(1024);
  default:
    return log + place_random(sizeof(struct plane_log));
  }
}

static size_t place_to_scribble(uint32_t slots, size_t bytes) {
  switch (place_random(8)) {
  case 0:
    return place_random(bytes);
  case 1:
    return segment_team_offset(slots) + place_random(sizeof(struct plane_team));
  case 2:
    return place_random(segment_team_offset(slots));
  default:
    return place_in_log(slots);
  }
}

static void scribble(unsigned char *memory, size_t bytes) {
  size_t at = place_to_scribble(RANKS, bytes), length = 1 + place_random(32);
  bool zeros = place_random(4) == 0;
  for (size_t i = at; i < at + length && i < bytes; i++)
    ((volatile unsigned char *)memory)[i] = zeros ? 0 : (unsigned char)place_random(256);
}

static bool all_have_attached(struct watch *watch) {
  bool all = true;
  for (int rank = 0; rank < RANKS; rank++)
    all &= watch_state(watch, rank) != STATE_STARTING;
  return all;
}

/* Before all have attached the file may be taken for something else, which turns join off: then
 * uneven jobs hang, as they do without. */
static void scribble_for_a_while(struct running *running, struct watch *watch) {
  size_t bytes;
  while (!all_have_attached(watch) && run_goes_on(running, 0.001))
    ;
  unsigned char *memory = watch_memory(watch, &bytes);
  if (memory == NULL)
    return;
  run_goes_on(running, 0.001 * (double)(place_random(2) * place_random(60)));
  for (uint64_t n = 1 + place_random(60);
       n > 0 && run_goes_on(running, 0.001 * (double)place_random(4)); n--)
    scribble(memory, bytes);
}

static const char stalled[] = "nothing has moved in communicator";

static struct run *run_job(int job, struct watch *watch, bool disturb) {
  struct running *running = run_start(&(struct launch){.nranks = RANKS,
                                                       .program = "endings",
                                                       .options = jobs[job],
                                                       .environment = "NCCL_JOIN_TIMEOUT=2 "
                                                                      "NCCL_JOIN_STALL_WARN=20",
                                                       .enough = stalled,
                                                       .each = true});
  watch_begin(watch, running);
  if (disturb)
    scribble_for_a_while(running, watch);
  return run_finish(running);
}

/* The first result that a run without scribbles does not have, or NULL. Written into line. */
static const char *wrong_result(const struct run *run, const struct run *undisturbed, char *line,
                                size_t size) {
  for (const char *at = run->output; (at = strstr(at, "RESULT ")) != NULL; at++) {
    snprintf(line, size, "%.*s\n", (int)strcspn(at, "\n"), at);
    if (strstr(line, " error ") == NULL && strstr(undisturbed->output, line) == NULL)
      return line;
  }
  return NULL;
}

struct tally {
  int right, error, mismatch, stalled;
};

/* Whether the job had to be ended, after a line that names a rank that seems to run its program. */
static bool names_who_is_waited_for(const struct run *run) {
  const char *line = strstr(run->errors, stalled);
  const char *named = line == NULL ? NULL : strstr(line, " program");
  return named != NULL && named < strchr(line, '\n');
}

static void disturb_once(int job, const struct run *undisturbed, struct tally *tally) {
  struct watch *watch = watch_create(RANKS, 0);
  struct run *result = run_job(job, watch, true);
  char line[256];
  const char *wrong = wrong_result(result, undisturbed, line, sizeof line);
  bool waited = names_who_is_waited_for(result);
  for (int rank = 0; rank < RANKS; rank++)
    cr_assert(result->rank_status[rank] < 128 || waited, "rank %d crashes, status %d (%s)\n%s%s",
              rank, result->rank_status[rank], jobs[job], result->output, result->errors);
  cr_assert(!result->timed_out, "somebody is left waiting (%s)\n%s%s", jobs[job], result->output,
            result->errors);
  cr_assert(wrong == NULL, "a result is wrong (%s): %s%s%s", jobs[job], wrong, result->output,
            result->errors);
  tally->stalled += waited;
  tally->right += result->status == 0;
  tally->error += result->status == 1;
  tally->mismatch += result->status == MISMATCH;
  if (result->status == MISMATCH)
    fprintf(stderr, "%s\n%s", jobs[job], result->errors);
  run_free(result);
  watch_free(watch);
}

Test(scribbles, crash_nobody_and_spoil_no_result, .timeout = 1800) {
  place_try();
  struct run *undisturbed[JOBS];
  for (int job = 0; job < JOBS; job++) {
    struct watch *watch = watch_create(RANKS, 0);
    undisturbed[job] = run_job(job, watch, false);
    assert_went_well(undisturbed[job]);
    watch_free(watch);
  }
  struct tally tally = {0};
  int times = place_times(15, 300);
  for (int i = 0; i < times; i++)
    disturb_once(i % JOBS, undisturbed[i % JOBS], &tally);
  fprintf(stderr,
          "disturbed %d times: %d ended with right results, %d with an error, %d out of step, %d "
          "waited for a rank whose words were gone\n",
          times, tally.right, tally.error, tally.mismatch, tally.stalled);
  cr_assert(tally.stalled <= times / 3, "%d of %d jobs were left waiting", tally.stalled, times);
  for (int job = 0; job < JOBS; job++)
    run_free(undisturbed[job]);
  cr_assert(place_segments() == 0, "segments are left");
}
