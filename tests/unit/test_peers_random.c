/* Random programs of sends, receives and collectives, uneven in all ways, through the agreed
 * sequence with its mirrors: nobody waits for ever, everything meets what belongs to it. A program
 * that fails is named by its seed. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "tests/unit/planes.h"
#include "core/team/team.h"
#include "tests/unit/peers_program.h"

enum mode { RUNNING, POSTING, PARKED, SYNCHRONISING, LEAVING, LEFT };

struct rank {
  struct team *team;
  struct peers_step *steps;
  size_t nsteps, next;
  enum mode mode;
};

static struct peers_program program;
static struct rank ranks[PEERS_RANKS_MAX];
static struct devices *devices;
static uint64_t mirrors, random_state;
static const char *wrong;

/* What there is of sends and receives in the next step, behind its unit. */
static bool post(uint32_t me) {
  struct rank *rank = &ranks[me];
  struct peers_step *step = &rank->steps[rank->next];
  rank->mode = POSTING;
  if (team_post(rank->team, &(struct posts){.members = step->posts, .nmembers = step->nposts}) !=
      POST_DONE)
    return false;
  if (step->nposts > 0)
    devices_issue(devices, me, step->posts, step->nposts, step->point);
  rank->next++;
  rank->mode = step->synchronises ? SYNCHRONISING : RUNNING;
  return true;
}

static void issue_unit(uint32_t me) {
  devices_issue_unit(devices, me, team_index(ranks[me].team));
  (void)post(me);
}

static bool begin(uint32_t me) {
  struct rank *rank = &ranks[me];
  if (rank->next == rank->nsteps) {
    team_claim_leave(rank->team);
    rank->mode = LEAVING;
    return true;
  }
  struct peers_step *step = &rank->steps[rank->next];
  struct unit unit = {&step->unit, 1};
  if (!step->has_unit)
    return post(me);
  if (team_commit(rank->team, unit)) {
    issue_unit(me);
    return true;
  }
  team_claim(rank->team, unit, 0, NULL);
  rank->mode = PARKED;
  return true;
}

static bool look(uint32_t me) {
  struct rank *rank = &ranks[me];
  struct unit unit;
  switch (team_poll(rank->team, &unit)) {
  case TEAM_PARKED:
    return false;
  case TEAM_REAL:
    issue_unit(me);
    return true;
  case TEAM_SHADOW:
    devices_issue_unit(devices, me, team_index(rank->team));
    return true;
  case TEAM_MIRROR:
    devices_issue(devices, me, unit.members, unit.nmembers, 0);
    mirrors += unit.nmembers;
    return true;
  case TEAM_LEFT:
    rank->mode = LEFT;
    return true;
  case TEAM_OUTSIDE:
  case TEAM_REFUSED:
  case TEAM_STOPPED:
  case TEAM_FAILED:
    break;
  }
  wrong = "a team has failed";
  rank->mode = LEFT;
  return true;
}

static bool step(uint32_t me) {
  struct rank *rank = &ranks[me];
  switch (rank->mode) {
  case RUNNING:
    return devices_waiting(devices, me) < program.run_ahead && begin(me);
  case POSTING:
    return post(me);
  case PARKED:
  case LEAVING:
    return look(me);
  case SYNCHRONISING:
    if (devices_waiting(devices, me) > 0)
      return false;
    rank->mode = RUNNING;
    return true;
  case LEFT:
    break;
  }
  return false;
}

static bool all_left(void) {
  for (uint32_t i = 0; i < program.nranks; i++)
    if (ranks[i].mode != LEFT)
      return false;
  return true;
}

static void schedule(void) {
  while (!all_left() && wrong == NULL) {
    bool moved = false;
    for (uint32_t turn = 0; turn < program.nranks; turn++) {
      uint32_t me = peers_random(&random_state, program.nranks);
      for (uint32_t burst = program.speed[me]; burst > 0; burst--)
        moved |= step(me);
      if (peers_random(&random_state, 2))
        devices_run(devices);
    }
    devices_run(devices);
    for (uint32_t me = 0; !moved && me < program.nranks; me++)
      moved = step(me);
    if (!moved)
      wrong = "nobody can move";
    if (devices_error(devices) != NULL)
      wrong = devices_error(devices);
  }
}

static void run(uint64_t seed) {
  peers_program_random(&program, seed);
  random_state = 2 * seed + 1;
  wrong = NULL;
  struct planes *memory = planes_create(program.nranks);
  devices = devices_create(program.nranks);
  for (uint32_t i = 0; i < program.nranks; i++) {
    ranks[i] = (struct rank){.team = team_create(planes_rank(memory, i))};
    ranks[i].nsteps = peers_program_steps(&program, i, &ranks[i].steps);
  }
  schedule();
  devices_run(devices);
  for (uint32_t i = 0; i < program.nranks; i++) {
    if (wrong == NULL && devices_waiting(devices, i) > 0)
      wrong = "a device is never done";
    free(ranks[i].steps);
    team_destroy(ranks[i].team);
  }
  devices_destroy(devices);
  planes_destroy(memory);
  cr_assert_null(wrong, "seed %lu: %s", seed, wrong);
}

/* With sanitizers a quarter. */
#ifdef __SANITIZE_ADDRESS__
#define PROGRAMS_PER_TEST 125
#else
#define PROGRAMS_PER_TEST 500
#endif

static void run_many(uint64_t first) {
  mirrors = 0;
  for (uint64_t seed = first; seed < first + PROGRAMS_PER_TEST; seed++)
    run(seed);
  cr_assert_gt(mirrors, 0);
}

Test(peers_random, programs_0) {
  run_many(0);
}
Test(peers_random, programs_1) {
  run_many(500);
}
Test(peers_random, programs_2) {
  run_many(1000);
}
Test(peers_random, programs_3) {
  run_many(1500);
}
