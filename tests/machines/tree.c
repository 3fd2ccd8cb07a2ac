/* Agents that stand in a tree: machines between two others that come to harm, and those that cannot
 * reach who is to be their parent. Where each agent has one child, the tree is a chain; who follows
 * whom is left to who comes first. */
#include "tests/machines/job.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MACHINES = 4, MANY = 40, MANY_MAX = 64 };

/* One rank each; rank 0 leaves early and shadows the others, which go on until they are stopped. */
static const struct machines_job endless = {
    .machines = "1,1,1,1",
    .program = "sum",
    .options = "--iterations 3,1000000,1000000,1000000 --count 16",
    .environment = "NCCL_JOIN_MACHINES_CHILDREN=1 NCCL_JOIN_MACHINES_SILENCE=3 LOOPBACK_HANG_S=0"};

static const struct schedule uneven = {.nranks = MACHINES, .epochs = 1, .n = {{3, 300, 200, 400}}};

/* ---- who stands where ---- */

/* The parent of each machine's agent; of the root: itself. */
static void find_parents(struct machines *machines, int nmachines, int *parents) {
  for (int machine = 0; machine < nmachines; machine++) {
    char text[128];
    snprintf(text, sizeof text, "run %d tests/machines/parts/parent %d", machine, machine);
    machines_order(machines, text);
    snprintf(text, sizeof text, "machines: has run tests/machines/parts/parent %d: 0", machine);
    machines_await(machines, text);
    parents[machine] = machine;
    for (int parent = 0; parent < nmachines; parent++) {
      snprintf(text, sizeof text, "PARENT %d of %d.", machine, parent);
      if (machines_say(machines, text))
        parents[machine] = parent;
    }
  }
}

static int depth_of(const int *parents, int machine) {
  int depth = 0;
  for (; parents[machine] != machine; machine = parents[machine])
    cr_assert(depth++ < MANY_MAX);
  return depth;
}

static int deepest(const int *parents, int nmachines) {
  int most = 0;
  for (int machine = 0; machine < nmachines; machine++)
    most = depth_of(parents, machine) > depth_of(parents, most) ? machine : most;
  return most;
}

/* A chain of four that goes on; who is the machine at each depth. */
static struct machines *begin_chain(const struct machines_job *job, int chain[MACHINES]) {
  int parents[MACHINES];
  struct machines *machines = machines_begin(job);
  machines_await(machines, "RESULT 1 sum 0 50 ");
  find_parents(machines, MACHINES, parents);
  int machine = deepest(parents, MACHINES);
  cr_assert_eq(depth_of(parents, machine), MACHINES - 1);
  for (int depth = MACHINES - 1; depth >= 0; depth--, machine = parents[machine])
    chain[depth] = machine;
  cr_assert_eq(chain[0], 0);
  return machines;
}

/* ---- right sums ---- */

/* With --value 1, as there are more ranks than bits. */
static void finish_counted(struct run *result, const struct schedule *schedule) {
  assert_went_well(result);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++) {
    int total = 0;
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      int active = 0;
      for (int other = 0; other < schedule->nranks; other++)
        active += i < schedule->n[0][other];
      lines_add(lines, rank, "sum 0 %d 0 %d %d", i, active, active * (i + 1));
      total += active;
    }
    lines_add(lines, rank, "total %d", total);
  }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static const char *counted(const struct schedule *schedule) {
  static char options[1100];
  snprintf(options, sizeof options, "%s --value 1", job_options(schedule));
  return options;
}

/* Machines of one rank each. */
static const char *of_one_rank(int nmachines) {
  static char counts[2 * MANY_MAX];
  memset(counts, '\0', sizeof counts);
  for (int machine = 0; machine < nmachines; machine++)
    strcat(counts, machine == 0 ? "1" : ",1");
  return counts;
}

/* Looks at the tree while one rank is stopped, so that nobody ends before. */
static struct run *run_and_look(const struct machines_job *job, int nmachines, int *parents) {
  struct machines *machines = machines_begin(job);
  machines_await(machines, "RESULT 1 sum 0 20 ");
  machines_order(machines, "rank 19 1");
  find_parents(machines, nmachines, parents);
  machines_order(machines, "rank 18 1");
  return machines_finish(machines);
}

Test(machines_tree, uneven_sums_go_through_a_tree_of_depth_three) {
  NEED_MACHINES();
  static const struct schedule schedule = {
      .nranks = 9, .epochs = 1, .n = {{3, 300, 200, 5, 1, 250, 2, 100, 40}}};
  int parents[8], children[8] = {0};
  struct run *result =
      run_and_look(&(struct machines_job){.machines = "1,1,2,1,1,1,1,1",
                                          .program = "sum",
                                          .options = job_options(&schedule),
                                          .environment = "NCCL_JOIN_MACHINES_CHILDREN=2"},
                   8, parents);
  cr_assert_geq(depth_of(parents, deepest(parents, 8)), 3, "%s", result->errors);
  for (int machine = 1; machine < 8; machine++)
    children[parents[machine]]++;
  for (int machine = 0; machine < 8; machine++)
    cr_assert_leq(children[machine], 2, "machine %d\n%s", machine, result->errors);
  job_finish_right(result, &schedule);
}

/* A star has 33. */
Test(machines_tree, there_may_be_more_machines_than_an_agent_has_links) {
  NEED_MACHINES();
  struct schedule schedule = {.nranks = MANY, .epochs = 1};
  int parents[MANY], children = 0;
  for (int machine = 0; machine < MANY; machine++)
    schedule.n[0][machine] = machine == 1 ? 30 : 3 + machine % 7;
  struct run *result = run_and_look(&(struct machines_job){.machines = of_one_rank(MANY),
                                                           .program = "sum",
                                                           .options = counted(&schedule)},
                                    MANY, parents);
  for (int machine = 1; machine < MANY; machine++)
    children += parents[machine] == 0;
  cr_assert_eq(children, 16, "%s", result->errors);
  finish_counted(result, &schedule);
}

/* The first machine says how many children each has. */
Test(machines_tree, the_root_s_word_holds_for_all) {
  NEED_MACHINES();
  int parents[MACHINES];
  struct run *result = run_and_look(
      &(struct machines_job){.machines = "1,1,1,1",
                             .program = "sum",
                             .options = job_options(&uneven),
                             .launcher =
                                 "tests/machines/parts/alone 0 NCCL_JOIN_MACHINES_CHILDREN=1"},
      MACHINES, parents);
  cr_assert_eq(depth_of(parents, deepest(parents, MACHINES)), MACHINES - 1, "%s", result->errors);
  job_finish_right(result, &uneven);
}

/* ---- machines in the middle that come to harm ---- */

/* Every rank but one that has been killed has ended by itself, with an error of its own. Who is
 * named is on the machine or behind it: all of those are out of reach. */
static void finish_told(struct run *result, int killed) {
  cr_assert(!result->timed_out, "after %.0f s\n%s", result->seconds, result->errors);
  cr_assert(result->status != 0);
  for (int rank = 0; rank < MACHINES; rank++) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error ", rank);
    cr_assert(rank == killed || strstr(result->output, line) != NULL, "rank %d\n%s", rank,
              result->errors);
  }
  cr_assert(run_says_in_a_line(result, "failed", "on machine", "out of reach", NULL), "%s",
            result->errors);
  cr_assert(!run_says(result, "machines: left") || killed >= 0, "%s", result->errors);
  run_free(result);
}

static void order(struct machines *machines, const char *what, int machine) {
  char text[128];
  snprintf(text, sizeof text, "%s %d", what, machine);
  machines_order(machines, text);
}

Test(machines_tree, an_agent_in_the_middle_that_is_killed_ends_the_job) {
  NEED_MACHINES();
  int chain[MACHINES];
  struct machines *machines = begin_chain(&endless, chain);
  order(machines, "kill 9 nccl-join-agent", chain[1]);
  finish_told(machines_finish(machines), -1);
}

/* NCCL, which meets through a folder here, does not notice it first. */
Test(machines_tree, so_does_a_machine_in_the_middle_that_dies) {
  NEED_MACHINES();
  int chain[MACHINES];
  struct machines_job job = endless;
  job.environment = "NCCL_JOIN_MACHINES_CHILDREN=1 NCCL_JOIN_MACHINES_SILENCE=3 "
                    "LOOPBACK_HANG_S=0 LOOPBACK_DEATH=hang";
  struct machines *machines = begin_chain(&job, chain);
  order(machines, "cut", chain[2]);
  order(machines, "rank 9", chain[2]);
  order(machines, "kill 9 nccl-join-agent", chain[2]);
  finish_told(machines_finish(machines), chain[2]);
}

/* Of who is behind it, and before it: within the time that is set. */
static void check_told_in_time(const struct run *result, double since) {
  enum { SILENCE_S = 3, LOOKS_S = 2 };
  for (int rank = 0; rank < MACHINES; rank++) {
    double told = run_time(result, rank, "error") - since;
    cr_expect(told > 0 && told < (SILENCE_S + LOOKS_S) * run_slowness(),
              "rank %d: after %.3f s\n%s", rank, told, result->errors);
  }
}

Test(machines_tree, so_does_an_agent_in_the_middle_that_is_stopped) {
  NEED_MACHINES();
  enum { LIMIT_S = 40 };
  int chain[MACHINES];
  struct machines *machines = begin_chain(&endless, chain);
  double stopped = machines_now();
  order(machines, "kill 19 nccl-join-agent", chain[1]);
  for (int rank = 0; rank < MACHINES; rank++) {
    char said[32];
    snprintf(said, sizeof said, "RESULT %d error ", rank);
    while (!machines_say(machines, said) && machines_now() < stopped + LIMIT_S)
      machines_let(machines, 0.1);
  }
  order(machines, "kill 18 nccl-join-agent", chain[1]);
  struct run *result = machines_finish(machines);
  check_told_in_time(result, stopped);
  finish_told(result, -1);
}

/* The two reach all others, and not each other. */
Test(machines_tree, so_does_a_link_in_the_middle_that_is_cut) {
  NEED_MACHINES();
  int chain[MACHINES];
  char text[128];
  struct machines *machines = begin_chain(&endless, chain);
  double cut = machines_now();
  snprintf(text, sizeof text, "run %d ip route add blackhole 10.77.0.%d/32", chain[2],
           chain[1] + 1);
  machines_order(machines, text);
  struct run *result = machines_finish(machines);
  check_told_in_time(result, cut);
  finish_told(result, -1);
}

static void check_stopped(const char *stop, const char *go_on, int depth) {
  NEED_MACHINES();
  int chain[MACHINES];
  struct machines_job job = endless;
  job.options = job_options(&uneven);
  job.environment = "NCCL_JOIN_MACHINES_CHILDREN=1 NCCL_JOIN_MACHINES_SILENCE=20 LOOPBACK_HANG_S=0";
  struct machines *machines = begin_chain(&job, chain);
  order(machines, stop, chain[depth]);
  machines_let(machines, 1.5);
  order(machines, go_on, chain[depth]);
  job_finish_right(machines_finish(machines), &uneven);
}

Test(machines_tree, an_agent_in_the_middle_that_is_stopped_for_a_while) {
  check_stopped("kill 19 nccl-join-agent", "kill 18 nccl-join-agent", 1);
}

Test(machines_tree, a_rank_behind_others_that_is_late) {
  check_stopped("rank 19", "rank 18", MACHINES - 1);
}

/* ---- who cannot reach its parent ---- */

/* Machines but the first reach the first alone, as firewalls between them have it. */
static const char star[] =
    "[ $MACHINE -lt 1 ] || for i in $(seq 2 64); do [ $i = $((MACHINE + 1)) ] || "
    "ip route add blackhole 10.77.0.$i/32 || exit 1; done";

Test(machines_tree, who_does_not_reach_its_parent_becomes_the_root_s_child) {
  NEED_MACHINES();
  int parents[MACHINES];
  struct run *result =
      run_and_look(&(struct machines_job){.machines = "1,1,1,1",
                                          .program = "sum",
                                          .options = job_options(&uneven),
                                          .environment = "NCCL_JOIN_MACHINES_CHILDREN=1",
                                          .prepare = star},
                   MACHINES, parents);
  for (int machine = 0; machine < MACHINES; machine++)
    cr_assert_eq(parents[machine], 0, "machine %d\n%s", machine, result->errors);
  job_finish_right(result, &uneven);
}

/* The root has 32 links, and one of these machines is left. */
Test(machines_tree, while_it_has_links_to_spare) {
  NEED_MACHINES();
  enum { ALL = 34 };
  struct schedule even = {.nranks = ALL, .epochs = 1};
  for (int machine = 0; machine < ALL; machine++)
    even.n[0][machine] = 4;
  struct run *result = machines_run(&(struct machines_job){
      .machines = of_one_rank(ALL),
      .program = "sum",
      .options = counted(&even),
      .environment = "NCCL_JOIN_MACHINES_CHILDREN=1 NCCL_JOIN_MACHINES_WAIT=12",
      .prepare = star});
  cr_assert(run_says_in_a_line(result, "does not reach the agent of machine", "firewall", NULL),
            "%s", result->errors);
  cr_assert(run_says(result, "1 of its 34 ranks has not been heard of"), "%s", result->errors);
  finish_counted(result, &even);
}
