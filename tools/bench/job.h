/* Jobs: a benchmark starts itself again as the ranks of a job. What stands in front of NCCL, and
 * which NCCL it is, each rank's setup says. */
#ifndef NCCL_JOIN_TOOLS_BENCH_JOB_H
#define NCCL_JOIN_TOOLS_BENCH_JOB_H

#include <stdbool.h>

#include "tools/bench/area.h"
#include "tools/bench/steps.h"

/* What a rank runs with. Paths are below the build folder. */
struct rank_setup {
  const char *preload, *preload_too; /* LD_PRELOAD; NULL: none */
  const char *nccl;                  /* folder of libnccl.so.2: JOB_EMPTY or JOB_STAMPING */
  bool off;                          /* NCCL_JOIN=0 */
  const char *setting[2];            /* one more, name and value; NULL: none */
};

#define JOB_JOIN "lib/libnccl-join.so"
#define JOB_SHIM "bench/shim.so"
#define JOB_MANY_PROCESSORS "bench/many_processors.so"
#define JOB_COUNT_SYSTEM_CALLS "bench/count_system_calls.so"
#define JOB_EMPTY "bench/empty"
#define JOB_STAMPING "bench/stamping"

struct job {
  const char *scenario; /* argument of the ranks */
  uint32_t nranks;
  struct rank_setup setup[AREA_RANKS];
  bool
      on_machines; /* each rank on a machine of its own, of namespaces (tests/machines/start.c): all
                       ranks have the setup of job_enter_machine */
  bool pinned;     /* each rank on a processor of its own, as far as there are so many */
  struct steps_taken *steps; /* rank 0 is single-stepped between its marks; NULL: not */
};

/* The area for all jobs of a driver. Ends the process, with a line on stderr, if there is none. */
struct area *job_area(void);

/* Clears the area, runs the job and waits for its end. Ends the process, with a line on stderr, if
 * a rank fails, after two minutes, or without BENCH_BUILD in the environment. */
void job_run(const struct job *job, struct area *area);

/* On a machine of a job with on_machines: becomes the rank, with this setup, and does not return.
 * main calls it first. */
void job_enter_machine(int argc, char **argv, const struct rank_setup *setup);

/* All ranks alike. */
struct job job_alike(const char *scenario, uint32_t nranks, struct rank_setup setup);

/* Processors that ranks may be pinned to. */
uint32_t job_processors(void);

/* One process on every processor that does nothing but run; ends them. */
void job_load_begin(void);
void job_load_end(void);

#endif
