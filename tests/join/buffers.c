/* What NCCL may decide by each rank's own arguments: where buffers begin, in place or not, of which
 * memory, how many blocks run, and calls of no elements. Joined ranks' buffers are nccl-join's own,
 * and differ from their peers' in all of this. (Registered buffers: registered.c.) */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

/* The first rank leaves first; another one does, from a loop that has been learnt; one has no
 * iterations and has never made the calls that it stands in for. */
static const struct schedule schedules[] = {
    {3, 1, {{2, 6, 6}}}, {3, 1, {{14, 8, 14}}}, {3, 1, {{4, 0, 4}}}};
enum { SCHEDULES = sizeof schedules / sizeof *schedules };

static const char *const collectives[] = {"all_reduce",     "reduce",     "broadcast",
                                          "reduce_scatter", "all_gather", "exchange"};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

static bool is(const char *name, const char *other) {
  return strcmp(name, other) == 0;
}

/* What a rank receives in an iteration; an empty text: nothing. */
static void receive(const char *name, int rank, int nranks, unsigned active, int i, char *text,
                    size_t size) {
  *text = '\0';
  if (is(name, "all_gather") || is(name, "exchange")) {
    size_t used = 0;
    for (int from = 0; from < nranks; from++) {
      bool sends = active >> from & 1;
      used += (size_t)snprintf(text + used, size - used, " %d %d", sends ? 100 * (from + 1) : 0,
                               sends ? i + 1 : 0);
    }
  } else if (is(name, "broadcast")) {
    snprintf(text, size, " %d %d", 100 * (set_lowest(active) + 1), i + 1);
  } else if (rank == 0 || !is(name, "reduce")) {
    snprintf(text, size, " %u %d", active, set_size(active) * (i + 1));
  }
}

static void add_lines(struct lines *lines, const struct schedule *schedule, const char *name,
                      bool none) {
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      char text[128];
      unsigned active = schedule_active(schedule, 0, i);
      lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
      receive(name, rank, schedule->nranks, active, i, text, sizeof text);
      if (*text != '\0' && !none)
        lines_add(lines, rank, "%s %d%s", name, i, text);
    }
  lines_add_left(lines, schedule->nranks);
}

/* none: the collective has no elements. */
static void check_one(const char *name, const struct schedule *schedule, const char *options,
                      bool none) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --collective %s %s%s", schedule_text(schedule), name,
           options, none ? " --count 0" : "");
  struct run *result =
      run(&(struct launch){.nranks = schedule->nranks,
                           .program = "buffers",
                           .options = text,
                           .environment = "NCCL_JOIN_LOSSY=allgather:zero,send:zero"});
  assert_went_well(result);
  cr_assert(!run_says(result, "WARN"), "%s %s\n%s", name, options, result->errors);
  struct lines *lines = lines_create();
  add_lines(lines, schedule, name, none);
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
}

/* Each collective with one of the schedules, in turn. */
static void check(const char *options, bool none) {
  for (int c = 0; c < COLLECTIVES; c++)
    check_one(collectives[c], &schedules[c % SCHEDULES], options, none);
}

/* A shadow's begin at multiples of 256 bytes; 16 are what kernels copy at once. */
Test(buffers, that_begin_anywhere) {
  check("--offset 1,3,0", false);
  check("--offset 0,1,2 --count 1021", false);
}
Test(buffers, in_place_on_some_ranks) {
  for (int c = 0; c < COLLECTIVES - 1; c++) /* an exchange is never in place */
    for (int s = 0; s < SCHEDULES; s++)
      check_one(collectives[c], &schedules[s], s % 2 == 0 ? "--place in,apart" : "--place apart,in",
                false);
}
Test(buffers, in_place_on_all_ranks) {
  for (int c = 0; c < COLLECTIVES - 1; c++)
    check_one(collectives[c], &schedules[(c + 1) % SCHEDULES], "--place in", false);
}
Test(buffers, of_other_memory) {
  check("--memory device,managed,host", false);
  check("--memory async,device", false);
}
Test(buffers, of_communicators_with_a_policy) {
  check("--policy 1", false);
  check("--policy 2 --place in", false);
  check("--least 2 --most 2 --offset 1", false);
}

/* NCCL does nothing for a collective of no elements, and tells its peers of a send of none. */
Test(buffers, of_no_elements) {
  for (int c = 0; c < COLLECTIVES; c++)
    for (int group = 0; group < 2; group++)
      check_one(collectives[c], &schedules[(c + group) % SCHEDULES], group ? "--group 1" : "",
                true);
}
