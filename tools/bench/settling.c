/* What takes an agreement: a unit outside of the loop, claimed by 2, 4 and 8 ranks, and the end of
 * an uneven epoch, where one rank leaves its loop before the other and goes on with it afterwards.
 * Times are those of the calls and of NCCL's entry, on one clock.
 */
#include <stdio.h>
#include <string.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/rows.h"

#define CLAIM_SECTION "A unit outside of the loop: from the last rank's call until all are in NCCL"
#define EPOCH_SECTION "The end of an uneven epoch, two ranks"
#define CLAIMS "claims"
#define EPOCHS "epochs"

struct member {
  struct area *area;
  int rank;
  ncclComm_t comm;
  uint64_t issued; /* collectives that are to have entered NCCL on this rank, shadows too */
};

static struct member begin(struct area *area, int rank) {
  struct member me = {area, rank, loop_communicator(area->nranks, rank), 0};
  for (; me.issued < LOOP_LEARNT_UNITS; me.issued += LOOP_UNITS)
    loop_iteration(me.comm);
  return me;
}

/* When a rank's collective of that number, from 0, entered NCCL. */
static double stamp(const struct area *area, int rank, uint64_t number) {
  return (double)atomic_load(&area->ranks[rank].stamps[number % AREA_STAMPS]);
}

static void set_progress(const struct member *me, uint64_t progress) {
  atomic_store(&me->area->ranks[me->rank].progress, progress);
}

static double later(double a, double b) {
  return a > b ? a : b;
}

/* ---- claims ---- */

/* Each is of another size, after one to three iterations, so that none is ever expected. */
static int run_claims(struct area *area, int rank) {
  struct member me = begin(area, rank);
  int claims = row_is_quick() ? 4 : 300;
  for (int claim = 0; claim < claims; claim++) {
    for (int i = 0; i <= claim * 7 % 11 % 3; i++, me.issued += LOOP_UNITS)
      loop_iteration(me.comm);
    area_meet(area);
    set_progress(&me, area_now());
    loop_other(me.comm, 1 + (size_t)claim);
    me.issued++;
    area_meet(area);
    double called = 0, entered = 0;
    for (int other = 0; other < (int)area->nranks; other++) {
      called = later(called, (double)atomic_load(&area->ranks[other].progress));
      entered = later(entered, stamp(area, other, me.issued - 1));
    }
    if (rank == 0)
      area_add_sample(area, 0, (entered - called) / 1000);
  }
  ncclCommDestroy(me.comm);
  return 0;
}

/* ---- epochs ---- */

/* Rank 1 has fewer iterations than rank 0, which is ahead when rank 1 leaves the loop. */
#define LONG_EPOCH 20
#define SHORT_EPOCH 12
#define AHEAD 14
/* At most: rank 0 is held at its next collective where the loop is not known. */
#define AHEAD_NS 5000000u

static void iterate(struct member *me, int iterations) {
  for (int i = 0; i < iterations; i++, me->issued += LOOP_UNITS)
    loop_iteration(me->comm);
}

/* The sample: from leaving the loop to the first shadow. */
static void leave_early(struct member *me, uint64_t epoch) {
  iterate(me, SHORT_EPOCH);
  uint64_t until = area_now() + AHEAD_NS;
  while (atomic_load(&me->area->ranks[0].progress) < epoch && area_now() < until)
    area_sleep_us(50);
  uint64_t first_shadow = me->issued, called = area_now();
  loop_other(me->comm, 1);
  me->issued = first_shadow + (uint64_t)(LONG_EPOCH - SHORT_EPOCH) * LOOP_UNITS + 1;
  area_meet(me->area);
  area_add_sample(me->area, 1, (stamp(me->area, 1, first_shadow) - (double)called) / 1000);
}

/* The sample: from the end of the epoch until both are in NCCL with it. */
static void leave_late(struct member *me, uint64_t epoch) {
  iterate(me, AHEAD);
  set_progress(me, epoch);
  iterate(me, LONG_EPOCH - AHEAD);
  area_wait_entered(me->area, 1, me->issued);
  area_sleep_us(300);
  uint64_t called = area_now();
  loop_other(me->comm, 1);
  me->issued++;
  area_meet(me->area);
  double entered = later(stamp(me->area, 0, me->issued - 1), stamp(me->area, 1, me->issued - 1));
  area_add_sample(me->area, 0, (entered - (double)called) / 1000);
}

static int run_epochs(struct area *area, int rank) {
  struct member me = begin(area, rank);
  for (uint64_t epoch = 1; epoch <= (row_is_quick() ? 3u : 100u); epoch++) {
    area_meet(area);
    if (rank == 0)
      leave_late(&me, epoch);
    else
      leave_early(&me, epoch);
  }
  ncclCommDestroy(me.comm);
  return 0;
}

/* ---- the driver ---- */

static struct job make_job(const char *scenario, uint32_t nranks) {
  return job_alike(scenario, nranks,
                   (struct rank_setup){.preload = JOB_JOIN, .nccl = JOB_STAMPING});
}

static void measure_claims(struct area *area) {
  for (uint32_t nranks = 2; nranks <= AREA_RANKS; nranks *= 2) {
    struct job job = make_job(CLAIMS, nranks);
    job_run(&job, area);
    char name[64];
    snprintf(name, sizeof name, "%u ranks", nranks);
    row_print(&(struct row){CLAIM_SECTION, name, "us", NULL}, area->ranks[0].samples,
              area->ranks[0].nsamples);
  }
}

static void measure_epochs(struct area *area) {
  struct job job = make_job(EPOCHS, 2);
  job_run(&job, area);
  row_print(&(struct row){EPOCH_SECTION, "leaving the loop: from the call to the first shadow",
                          "us", NULL},
            area->ranks[1].samples, area->ranks[1].nsamples);
  row_print(&(struct row){EPOCH_SECTION,
                          "going on: from the last rank's call until both are in NCCL", "us", NULL},
            area->ranks[0].samples, area->ranks[0].nsamples);
}

int main(int argc, char **argv) {
  int rank;
  struct area *area = area_open(&rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], CLAIMS) == 0)
    return run_claims(area, rank);
  if (argc == 2 && area != NULL && strcmp(argv[1], EPOCHS) == 0)
    return run_epochs(area, rank);
  area = job_area();
  measure_claims(area);
  measure_epochs(area);
  return 0;
}
