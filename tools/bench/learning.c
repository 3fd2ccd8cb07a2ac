/* What the learner makes of the streams of units that training programs issue (the generators of
 * tests/unit/traces.h), and what a unit costs it. The whole trace is timed, learning included.
 *
 * Instructions are counted by valgrind over the whole of it: this program runs itself under it,
 * with the number of a trace as its argument.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/predict/learner.h"
#include "tests/unit/traces.h"
#include "tools/bench/area.h"
#include "tools/bench/rows.h"

#define SECTION "The learner, on streams of training programs"
#define ROUNDS_MAX 64

static struct learner *new_learner(void) {
  struct learner *learner = learner_create();
  if (learner == NULL) {
    fputs("no memory for a learner\n", stderr);
    exit(1);
  }
  return learner;
}

/* As a team does for each unit: is it expected, then learn it. Its own function, with this name,
 * for valgrind. Returns how many were expected in the second half. */
__attribute__((noinline)) static size_t feed_learner(struct learner *learner,
                                                     const struct trace *trace) {
  size_t expected = 0;
  for (size_t i = 0; i < trace->nunits; i++) {
    const struct trace_unit *unit = &trace->units[i];
    if (learner_expected(learner) == unit->symbol) {
      learner_step_expected(learner);
      expected += i >= trace->nunits / 2;
    } else {
      learner_step(learner, unit->symbol, unit->coarse);
    }
  }
  return expected;
}

static double time_trace(const struct trace *trace) {
  struct learner *learner = new_learner();
  uint64_t start = area_now();
  feed_learner(learner, trace);
  double nanoseconds = (double)(area_now() - start) / (double)trace->nunits;
  learner_destroy(learner);
  return nanoseconds;
}

/* Of one run under valgrind; ends the process if there is none. */
static double count_instructions(size_t number, const struct trace *trace) {
  char command[4096], line[256], program[2048] = "";
  if (readlink("/proc/self/exe", program, sizeof program - 1) < 0)
    exit(1);
  snprintf(command, sizeof command,
           "valgrind --tool=callgrind --callgrind-out-file=/dev/null "
           "--toggle-collect=feed_learner '%s' %zu 2>&1",
           program, number);
  FILE *valgrind = popen(command, "r"); /* NOLINT(cert-env33-c) */
  double instructions = -1;
  char *collected;
  while (valgrind != NULL && fgets(line, sizeof line, valgrind) != NULL)
    if ((collected = strstr(line, "Collected : ")) != NULL)
      instructions = strtod(collected + strlen("Collected : "), NULL);
  if (valgrind == NULL || pclose(valgrind) != 0 || instructions < 0) {
    fprintf(stderr, "valgrind counted nothing: %s\n", line);
    exit(1);
  }
  return instructions / (double)trace->nunits;
}

static void print(const struct trace_kind *kind, const char *what, const char *unit,
                  const char *goal, double *samples, size_t nsamples) {
  char name[128];
  snprintf(name, sizeof name, "%s, %s", kind->name, what);
  row_print(&(struct row){SECTION, name, unit, goal}, samples, nsamples);
}

static void measure_result(const struct trace_kind *kind, const struct trace *trace) {
  struct learner *learner = new_learner();
  size_t half = trace->nunits - trace->nunits / 2;
  double missed = 100 * (double)(half - feed_learner(learner, trace)) / (double)half;
  double body = learner_body_length(learner);
  char goal[32];
  snprintf(goal, sizeof goal, "%u", kind->body);
  print(kind, "body", "units", goal, &body, 1);
  snprintf(goal, sizeof goal, "at most %.2f", kind->misses / 100.0);
  print(kind, "missed in the second half", "%", goal, &missed, 1);
  learner_destroy(learner);
}

static void measure_trace(size_t number) {
  const struct trace_kind *kind = &trace_kinds[number];
  struct trace trace = trace_generate(kind);
  double samples[ROUNDS_MAX];
  size_t rounds = row_is_quick() ? 2 : 20;
  measure_result(kind, &trace);
  for (size_t round = 0; round < rounds; round++)
    samples[round] = time_trace(&trace);
  print(kind, "time per unit", "ns", "at most 40", samples, rounds);
  double instructions = count_instructions(number, &trace);
  print(kind, "instructions per unit", "instructions", NULL, &instructions, 1);
  trace_free(&trace);
}

int main(int argc, char **argv) {
  if (argc == 2) {
    struct trace trace = trace_generate(&trace_kinds[strtoul(argv[1], NULL, 10)]);
    time_trace(&trace);
    return 0;
  }
  for (size_t number = 0; number < (row_is_quick() ? 1 : TRACES_OF_THE_SURVEY); number++)
    measure_trace(number);
  return 0;
}
