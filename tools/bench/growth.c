/* How the agreement grows with the number of ranks, 2 to 4,096: what one claim, one join and one
 * shadow unit cost all ranks of a team together.
 *
 * The ranks are simulated: coroutines over the plane in memory, each running the code of core/ as
 * it is, in rounds. In a round every rank that is awake does one thing: issues a unit, or looks at
 * the others until there is nothing more to follow, and sleeps. Who is rung in a round wakes in the
 * next. Between events all ranks come to rest, so every wait ends with a wake-up; ranks that spin
 * or never have to wait cost less.
 *
 * Counted, for all ranks together (traffic.h): reads of words that others write, messages (cache
 * lines of 64 bytes that came from another rank for that), bytes written for others, rings of the
 * bell (a system call each on one machine), and steps (rounds, from the first act to rest). Not
 * timed: the counts are the same on any machine.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "core/transport/plane_memory.h"
#include "core/team/team.h"
#include "tools/bench/rows.h"
#include "tools/bench/traffic.h"

enum {
  RANKS_MIN = 2,
  RANKS_MAX = 4096,
  QUICK_RANKS_MAX = 16,
  STACK_BYTES = 64 << 10,
  BODY = 2,       /* units in the loop body */
  REPEATS = 12,   /* of the body, until it is known and between events */
  REPETITIONS = 2 /* of an event */
};

/* Elements of the units. */
enum { BARRIER = 1, LOOP = 1000 };

struct simulated {
  struct team *team;
  struct plane *plane;
  ucontext_t context;
  char *stack;
  bool acting;          /* has a unit to issue, or is parked on it */
  struct member member; /* the unit */
  bool asleep;
  uint32_t heard; /* asleep: the bell as it was */
  uint64_t shadows;
};

static struct {
  ucontext_t scheduler;
  struct simulated *ranks, *running;
  struct plane_memory *memory;
  uint32_t nranks;
  uint32_t *order; /* in which the ranks of a round come */
} sim;

static _Noreturn void fail(const char *what) {
  fprintf(stderr, "growth: %u ranks: %s\n", sim.nranks, what);
  exit(1);
}

/* ---- a rank ---- */

static void yield(void) {
  struct simulated *me = sim.running;
  swapcontext(&me->context, &sim.scheduler);
}

/* The plane's wait. */
static void sleep_until_rung(struct plane *plane, uint32_t seen, unsigned milliseconds) {
  (void)plane;
  (void)milliseconds;
  sim.running->asleep = true;
  sim.running->heard = seen;
  yield();
}

/* As interpose/park/wait.c does it: look, follow what there is, wait. */
static void park(struct simulated *me) {
  for (;;) {
    struct unit unit;
    enum team_verdict verdict = team_poll(me->team, &unit);
    if (verdict == TEAM_PARKED)
      verdict = team_wait(me->team, &unit, 50);
    switch (verdict) {
    case TEAM_PARKED:
      break;
    case TEAM_SHADOW:
      me->shadows++;
      break;
    case TEAM_REAL:
      return;
    case TEAM_LEFT:
    case TEAM_REFUSED:
    case TEAM_STOPPED:
    case TEAM_FAILED:
    case TEAM_MIRROR: /* no rank here sends or receives */
    case TEAM_OUTSIDE:
      fail("a claim came to a wrong end");
    }
  }
}

static void live(void) {
  for (;;) {
    struct simulated *me = sim.running;
    struct unit unit = {&me->member, 1};
    if (!team_commit(me->team, unit)) {
      team_claim(me->team, unit, 0, NULL);
      park(me);
    }
    me->acting = false;
    yield();
  }
}

/* ---- all ranks ---- */

/* The same for every run; neighbours do not come one after the other. */
static void make_order(void) {
  uint64_t random = 1;
  for (uint32_t i = 0; i < sim.nranks; i++)
    sim.order[i] = i;
  for (uint32_t i = 1; i < sim.nranks; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
    uint32_t j = (uint32_t)((random >> 33) % (i + 1)), rank = sim.order[i];
    sim.order[i] = sim.order[j];
    sim.order[j] = rank;
  }
}

static void begin(uint32_t nranks) {
  sim.nranks = nranks;
  sim.memory = plane_memory_create(nranks);
  sim.ranks = calloc(nranks, sizeof *sim.ranks);
  sim.order = calloc(nranks, sizeof *sim.order);
  if (sim.memory == NULL || sim.ranks == NULL || sim.order == NULL)
    fail("no memory");
  traffic_begin(plane_memory_rank(sim.memory, 0));
  make_order();
  for (uint32_t rank = 0; rank < nranks; rank++) {
    struct simulated *simulated = &sim.ranks[rank];
    simulated->plane = plane_memory_rank(sim.memory, rank);
    simulated->plane->wait = sleep_until_rung;
    simulated->team = team_create(simulated->plane);
    simulated->stack = malloc(STACK_BYTES);
    if (simulated->team == NULL || simulated->stack == NULL)
      fail("no memory");
    getcontext(&simulated->context);
    simulated->context.uc_stack.ss_sp = simulated->stack;
    simulated->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&simulated->context, live, 0);
  }
}

static void end(void) {
  for (uint32_t rank = 0; rank < sim.nranks; rank++) {
    team_destroy(sim.ranks[rank].team);
    free(sim.ranks[rank].stack);
  }
  traffic_end();
  plane_memory_destroy(sim.memory);
  free(sim.ranks);
  free(sim.order);
}

static void resume(struct simulated *rank) {
  rank->asleep = false;
  sim.running = rank;
  traffic_set_rank(rank->plane->rank);
  swapcontext(&sim.scheduler, &rank->context);
}

/* Whether any rank had something to do. Who is rung now wakes in the next round. */
static bool do_round(void) {
  uint32_t bell = plane_bell(plane_memory_rank(sim.memory, 0));
  bool moved = false;
  for (uint32_t i = 0; i < sim.nranks; i++) {
    struct simulated *rank = &sim.ranks[sim.order[i]];
    if (!rank->acting || (rank->asleep && rank->heard == bell))
      continue;
    moved = true;
    resume(rank);
  }
  return moved;
}

static uint64_t rest(void) {
  uint64_t rounds = 0;
  while (do_round())
    rounds++;
  return rounds;
}

static struct member all_reduce(uint64_t count) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7};
}

static void want(struct simulated *rank, struct member member) {
  rank->acting = true;
  rank->member = member;
}

static void tell_all_but(const struct simulated *other, struct member member) {
  for (uint32_t rank = 0; rank < sim.nranks; rank++)
    if (&sim.ranks[rank] != other)
      want(&sim.ranks[rank], member);
}

/* The loop, by all ranks but one. */
static void go_round(const struct simulated *other, int units) {
  for (int i = 0; i < units; i++) {
    tell_all_but(other, all_reduce(LOOP + i % BODY));
    rest();
  }
}

static bool all_stand_together(void) {
  for (uint32_t rank = 0; rank < sim.nranks; rank++)
    if (sim.ranks[rank].team->head != sim.ranks[0].team->head)
      return false;
  return true;
}

/* ---- what is counted ---- */

struct cost {
  struct traffic traffic;
  uint64_t steps, rings;
};

static struct cost cost_now(void) {
  return (struct cost){traffic_so_far(), 0, plane_memory_rings(sim.memory)};
}

static void add_since(struct cost *cost, struct cost before, uint64_t steps) {
  struct cost now = cost_now();
  cost->traffic.reads += now.traffic.reads - before.traffic.reads;
  cost->traffic.messages += now.traffic.messages - before.traffic.messages;
  cost->traffic.bytes += now.traffic.bytes - before.traffic.bytes;
  cost->rings += now.rings - before.rings;
  cost->steps += steps;
}

static void print(const char *section, const struct cost *cost, double times) {
  const struct {
    const char *name;
    uint64_t value;
  } counts[] = {{"steps", cost->steps},
                {"reads", cost->traffic.reads},
                {"messages", cost->traffic.messages},
                {"bytes", cost->traffic.bytes},
                {"rings", cost->rings}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
    char name[64];
    snprintf(name, sizeof name, "%s, %u ranks", counts[i].name, sim.nranks);
    row_print_exact(&(struct row){section, name, "count", NULL}, (double)counts[i].value / times);
  }
}

/* All ranks come, one after the other, to a unit that is not of the loop. Steps count from the last
 * one's claim. */
static void measure_claim(void) {
  struct cost cost = {0};
  for (int i = 0; i < REPETITIONS; i++) {
    struct cost before = cost_now();
    for (uint32_t k = 0; k + 1 < sim.nranks; k++) {
      want(&sim.ranks[sim.order[k]], all_reduce(BARRIER));
      resume(&sim.ranks[sim.order[k]]);
    }
    want(&sim.ranks[sim.order[sim.nranks - 1]], all_reduce(BARRIER));
    add_since(&cost, before, rest());
    if (!all_stand_together())
      fail("a claim has not settled for all");
    go_round(NULL, BODY * (REPEATS + i)); /* of several lengths: nothing to get used to */
  }
  print("Growth: a claim that all ranks make", &cost, REPETITIONS);
}

/* One rank comes to that unit while the others issue the next one of the loop: until it has
 * followed that, and rests. Then the same for every unit that it shadows. In the end all come. */
static void measure_join(void) {
  struct simulated *joined = &sim.ranks[sim.order[0]];
  struct cost join = {0}, shadow = {0}, before = cost_now();
  want(joined, all_reduce(BARRIER));
  tell_all_but(joined, all_reduce(LOOP));
  add_since(&join, before, rest());
  print("Growth: a join", &join, 1);
  for (int i = 1; i < BODY * REPEATS; i++) {
    tell_all_but(joined, all_reduce(LOOP + i % BODY));
    before = cost_now();
    add_since(&shadow, before, rest());
  }
  if (joined->shadows != (uint64_t)BODY * REPEATS || !all_stand_together())
    fail("a rank that has joined does not follow");
  print("Growth: a unit that one joined rank shadows", &shadow, BODY * REPEATS - 1);
  tell_all_but(joined, all_reduce(BARRIER));
  rest();
  if (joined->acting || !all_stand_together())
    fail("a rank that has joined does not come back");
}

int main(void) {
  uint32_t most = row_is_quick() ? QUICK_RANKS_MAX : RANKS_MAX;
  for (uint32_t nranks = RANKS_MIN; nranks <= most; nranks *= 2) {
    begin(nranks);
    go_round(NULL, BODY * REPEATS);
    measure_join();
    go_round(NULL, BODY * REPEATS);
    measure_claim();
    end();
  }
  return 0;
}
