/* What an agreement takes over several machines, which are namespaces of this one with a rank each
 * (tests/machines/start.c), beside what their network takes.
 *
 *   epochs     two machines: leaving a loop, and going on
 *   claims     2, 4 and 8 machines: a unit outside of the loop
 *   following  two machines: from an active rank's call to the other's shadow, iterations of 10 ms
 *   quiet      two machines, nobody joined: what the agent of rank 0's machine uses
 *   network    two machines, without nccl-join: a message of 64 bytes over TCP, and back
 *   wakes      likewise: the way of a unit from rank to rank, with nothing in it but what wakes and carries (wakes.h)
 *
 * All of them share this machine's processors and its clock, and no cable is between them: a
 * network adds its own time for each hop.
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tools/bench/area.h"
#include "tools/bench/job.h"
#include "tools/bench/loop.h"
#include "tools/bench/wakes.h"
#include "tools/bench/rows.h"

#define CLAIM_SECTION "Machines: a unit outside of the loop, until all are in NCCL"
#define EPOCH_SECTION "Machines: the end of an uneven epoch, two machines"
#define DELAY_SECTION "Machines: from an active rank's call to the joined rank's shadow in NCCL"
#define WAKES "without nccl-join: a futex, a message of ZeroMQ's, a futex"
#define QUIET_SECTION "Machines: an agent while nobody has joined"
#define NETWORK_SECTION "Machines: the network between two of them"

struct member {
  struct area *area;
  int rank;
  ncclComm_t comm;
  uint64_t issued; /* collectives that are to have entered NCCL on this rank, shadows too */
};

static struct member begin(struct area *area, int rank) {
  struct member me = {area, rank, loop_communicator_of_machines(area, rank), 0};
  for (; me.issued < LOOP_LEARNT_UNITS; me.issued += LOOP_UNITS)
    loop_iteration(me.comm);
  return me;
}

/* When a rank's collective of that number, from 0, entered NCCL. */
static double stamp(const struct area *area, int rank, uint64_t number) {
  return (double)atomic_load(&area->ranks[rank].stamps[number % AREA_STAMPS]);
}

static double later(double a, double b) {
  return a > b ? a : b;
}

/* ---- claims ---- */

/* Each is of another size, after one to three iterations, so that none is ever expected. */
static void run_claims(struct member *me) {
  struct area *area = me->area;
  int claims = row_is_quick() ? 4 : 300;
  for (int claim = 0; claim < claims; claim++) {
    for (int i = 0; i <= claim * 7 % 11 % 3; i++, me->issued += LOOP_UNITS)
      loop_iteration(me->comm);
    area_meet(area);
    atomic_store(&area->ranks[me->rank].progress, area_now());
    loop_other(me->comm, 1 + (size_t)claim);
    me->issued++;
    area_meet(area);
    double called = 0, entered = 0;
    for (int other = 0; other < (int)area->nranks; other++) {
      called = later(called, (double)atomic_load(&area->ranks[other].progress));
      entered = later(entered, stamp(area, other, me->issued - 1));
    }
    if (me->rank == 0)
      area_add_sample(area, 0, (entered - called) / 1000);
  }
}

/* ---- epochs ---- */

enum { LONG_EPOCH = 20, SHORT_EPOCH = 12, SOON_US = 3000 /* in which a rank is parked */ };

/* Rank 1 has fewer batches. Its sample: from leaving the loop, where rank 0 waits to be told who
 * goes on, to the first shadow. That of rank 0: from the end of its epoch until both are in NCCL
 * with what comes next. */
static void run_epochs(struct member *me) {
  struct area *area = me->area;
  for (int epoch = 0; epoch < (row_is_quick() ? 3 : 100); epoch++) {
    int iterations = me->rank == 0 ? LONG_EPOCH : SHORT_EPOCH;
    for (int i = 0; i < iterations; i++, me->issued += LOOP_UNITS) {
      if (i == SHORT_EPOCH)
        area_meet(area);
      loop_iteration(me->comm);
    }
    uint64_t first_shadow = me->issued;
    if (me->rank == 0)
      area_wait_entered(area, 1, me->issued);
    else
      area_meet(area);
    area_sleep_us(SOON_US);
    uint64_t called = area_now();
    loop_other(me->comm, 1);
    me->issued += (uint64_t)(LONG_EPOCH - iterations) * LOOP_UNITS + 1;
    area_meet(area);
    double both = later(stamp(area, 0, me->issued - 1), stamp(area, 1, me->issued - 1));
    double sample = me->rank == 0 ? both : stamp(area, 1, first_shadow);
    area_add_sample(area, me->rank, (sample - (double)called) / 1000);
  }
}

/* ---- following ---- */

/* Rank 1 leaves by its end at once. Samples are rank 1's: of the first unit of an iteration. */
static void run_following(struct member *me) {
  unsigned iterations = row_is_quick() ? 8 : 1000;
  const unsigned unmeasured = 50, pause_us = 10000;
  for (unsigned i = 0; me->rank == 0 && i < unmeasured + iterations; i++) {
    area_sleep_us(pause_us);
    uint64_t called = area_now(), first = me->issued;
    loop_iteration(me->comm);
    me->issued += LOOP_UNITS;
    area_wait_entered(me->area, 1, me->issued);
    if (i >= unmeasured)
      area_add_sample(me->area, 1, (stamp(me->area, 1, first) - (double)called) / 1000);
  }
}

/* ---- an agent at rest ---- */

/* Of the process of that name on this machine; -1 if there is none. */
static long process_named(const char *name) {
  DIR *folder = opendir("/proc");
  long found = -1;
  for (struct dirent *entry; folder != NULL && (entry = readdir(folder)) != NULL;) {
    char path[300], text[32] = "";
    snprintf(path, sizeof path, "/proc/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (file != NULL && fgets(text, sizeof text, file) != NULL && strstr(text, name) == text)
      found = strtol(entry->d_name, NULL, 10);
    if (file != NULL)
      fclose(file);
  }
  if (folder != NULL)
    closedir(folder);
  return found;
}

/* KiB that nobody shares; 0 if that cannot be read. */
static double own_memory(long process) {
  char path[64], line[256];
  double sum = 0, part;
  snprintf(path, sizeof path, "/proc/%ld/smaps_rollup", process);
  FILE *from = fopen(path, "r");
  while (from != NULL && fgets(line, sizeof line, from) != NULL)
    if (sscanf(line, "Private_Clean: %lf", &part) == 1 ||
        sscanf(line, "Private_Dirty: %lf", &part) == 1)
      sum += part;
  if (from != NULL)
    fclose(from);
  return sum;
}

/* Of all its threads. */
static uint64_t processor_ns(long process) {
  clockid_t clock;
  struct timespec used = {0};
  if (clock_getcpuclockid((pid_t)process, &clock) == 0)
    clock_gettime(clock, &used);
  return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

enum { SECOND = 900 }; /* iterations with a pause of 1 ms each */

/* Samples of rank 0: percent of a processor; of rank 1: KiB of memory of its own. */
static void run_quiet(struct member *me) {
  long agent = process_named("nccl-join-agent");
  if (agent < 0) {
    fputs("machines: there is no agent\n", stderr);
    exit(1);
  }
  for (int sample = 0; sample < (row_is_quick() ? 1 : 10); sample++) {
    uint64_t used = processor_ns(agent);
    uint64_t begun = area_now();
    for (int i = 0; i < SECOND; i++) {
      loop_iteration(me->comm);
      area_sleep_us(1000);
    }
    used = processor_ns(agent) - used;
    area_meet(me->area);
    if (me->rank == 0)
      area_add_sample(me->area, 0, 100 * (double)used / (double)(area_now() - begun));
    else
      area_add_sample(me->area, 1, own_memory(agent));
  }
}

/* ---- the network ---- */

static void exchange(int link, bool first, struct area *area) {
  char message[64] = "";
  for (int i = 0; i < (row_is_quick() ? 20 : 3000); i++) {
    uint64_t begun = area_now();
    bool sent = first && send(link, message, sizeof message, 0) == sizeof message;
    if (recv(link, message, sizeof message, MSG_WAITALL) != sizeof message ||
        (!first && send(link, message, sizeof message, 0) != sizeof message))
      exit(1);
    if (sent)
      area_add_sample(area, 0, (double)(area_now() - begun) / 1000);
  }
}

static int run_network(struct area *area, int rank) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(29501)};
  int link = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  const char *master = getenv("MASTER_ADDR");
  if (master == NULL || inet_pton(AF_INET, master, &address.sin_addr) != 1)
    return 1;
  const struct sockaddr *to = (const struct sockaddr *)&address;
  if (rank == 0 && (bind(link, to, sizeof address) != 0 || listen(link, 1) != 0))
    return 1;
  area_meet(area);
  if (rank == 0)
    link = accept4(link, NULL, NULL, SOCK_CLOEXEC);
  else if (connect(link, to, sizeof address) != 0)
    return 1;
  setsockopt(link, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  exchange(link, rank == 0, area);
  return link < 0;
}

/* ---- the driver ---- */

static const struct scenario {
  const char *name;
  void (*run)(struct member *member);
} scenarios[] = {
    {"epochs", run_epochs},
    {"claims", run_claims},
    {"following", run_following},
    {"quiet", run_quiet},
};

static int run_rank(struct area *area, int rank, const char *name) {
  if (strcmp(name, "network") == 0)
    return run_network(area, rank);
  if (strcmp(name, "wakes") == 0)
    return wakes_run(area, rank);
  for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
    if (strcmp(name, scenarios[i].name) == 0) {
      struct member me = begin(area, rank);
      scenarios[i].run(&me);
      ncclCommDestroy(me.comm);
      return 0;
    }
  return 1;
}

static void run(const char *scenario, uint32_t nranks, struct area *area) {
  struct job job = {.scenario = scenario, .nranks = nranks, .on_machines = true};
  job_run(&job, area);
}

/* Sorts them. */
static void print(const char *section, const char *name, const char *unit, const char *goal,
                  struct area_rank *rank) {
  row_print(&(struct row){section, name, unit, goal}, rank->samples, rank->nsamples);
}

static void print_late(const char *section, const char *name, struct area_rank *rank) {
  row_print_exact(&(struct row){section, name, "us", NULL},
                  row_quantile(rank->samples, rank->nsamples, 0.99));
}

static void measure_claims(struct area *area) {
  for (uint32_t machines = 2; machines <= AREA_RANKS; machines *= 2) {
    char name[64];
    run("claims", machines, area);
    snprintf(name, sizeof name, "%u machines", machines);
    print(CLAIM_SECTION, name, "us", machines == 4 ? "at most 300" : NULL, &area->ranks[0]);
    snprintf(name, sizeof name, "%u machines, 99 of 100 within", machines);
    print_late(CLAIM_SECTION, name, &area->ranks[0]);
  }
}

int main(int argc, char **argv) {
  const struct rank_setup setup = {
      .preload = JOB_JOIN, .nccl = JOB_STAMPING, .setting = {"NCCL_JOIN_MACHINES", "1"}};
  int rank;
  job_enter_machine(argc, argv, &setup);
  struct area *area = area_open(&rank);
  if (argc == 2 && area != NULL)
    return run_rank(area, rank, argv[1]);
  area = job_area();
  run("network", 2, area);
  print(NETWORK_SECTION, "64 bytes over TCP, and back", "us", NULL, &area->ranks[0]);
  run("epochs", 2, area); /* first: it cannot be measured if the ranks do not join */
  print(EPOCH_SECTION, "leaving the loop: from the call to the first shadow", "us", NULL,
        &area->ranks[1]);
  print(EPOCH_SECTION, "going on: from the last rank's call until both are in NCCL", "us", NULL,
        &area->ranks[0]);
  measure_claims(area);
  run("following", 2, area);
  print(DELAY_SECTION, "iterations of 10 ms", "us", "at most 150", &area->ranks[1]);
  print_late(DELAY_SECTION, "iterations of 10 ms, 99 of 100 within", &area->ranks[1]);
  run("wakes", 2, area);
  print(DELAY_SECTION, WAKES, "us", NULL, &area->ranks[1]);
  print_late(DELAY_SECTION, WAKES ", 99 of 100 within", &area->ranks[1]);
  run("quiet", 2, area);
  print(QUIET_SECTION, "processor time", "%", "none", &area->ranks[0]);
  print(QUIET_SECTION, "memory of its own", "KiB", NULL, &area->ranks[1]);
  return 0;
}
