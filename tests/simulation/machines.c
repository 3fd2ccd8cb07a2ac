/* Machines of a simulation (machines.h). */
#include "tests/simulation/machines.h"

#include <stdlib.h>
#include <string.h>

#include "core/agent/agent.h"
#include "core/transport/logs.h"
#include "core/transport/plane_memory.h"
#include "tests/simulation/random.h"

#define MOMENT_MS 20
#define STILL_MS 2000 /* after which agents look for what they have not been told */

enum { PARENT = 0 }; /* its link's number; those of children follow */

struct sent {
  struct sent *next;
  size_t size;
  unsigned char bytes[];
};

/* One direction of a link. */
struct wire {
  struct sent *first, **last;
  uint32_t slowness, waits;
};

struct machine {
  struct machines *machines;
  uint32_t number;
  struct agent *agent;
  struct wire up, *down; /* towards the parent; towards this one's children, by child */
  uint32_t waiting;      /* ranks */
  bool due;
};

/* One machine's copy of a team. */
struct copy {
  struct plane_memory *memory; /* NULL: the machine has no part in the team */
  struct plane *plane;         /* of its first rank */
  uint32_t bell;
};

struct machines {
  const struct program *program;
  struct layout layout;
  uint64_t random;
  struct machine *all;
  struct copy *copies; /* by team, then by machine */
  bool *told_waits;    /* by number of the rank */
  struct traffic traffic;
  uint64_t now_ms;
  bool still; /* nothing has been under way since time went on */
};

static struct copy *copy_of(const struct machines *machines, uint32_t team, uint32_t machine) {
  return &machines->copies[team * machines->layout.nmachines + machine];
}

static uint32_t machine_of(const struct machines *machines, uint32_t team, uint32_t rank) {
  return machines->layout.machine_of[machines->program->teams[team].ranks[rank]];
}

static void *array(size_t count, size_t size) {
  void *memory = calloc(count > 0 ? count : 1, size);
  if (memory == NULL)
    abort();
  return memory;
}

/* ---- layouts ---- */

/* The first ranks are spread so that each machine has one, the others anyhow, or in blocks. */
static void spread(const struct program *program, struct layout *layout, uint64_t *random) {
  bool blocks = random_below(random, 2) == 0;
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    layout->machine_of[rank] = blocks ? (uint16_t)(rank * layout->nmachines / program->nranks)
                               : rank < layout->nmachines
                                   ? (uint16_t)rank
                                   : (uint16_t)random_below(random, layout->nmachines);
}

struct layout layout_random(const struct program *program, uint32_t nmachines, uint64_t seed) {
  uint64_t random = random_seeded(seed);
  static const uint32_t slownesses[] = {1, 4, 16, 64}, steps[] = {1, 2, 8, 32};
  struct layout layout = {.nmachines = nmachines < program->nranks ? nmachines : program->nranks};
  layout.fanout = 1 + random_below(&random, 4);
  layout.in_parts = random_below(&random, 4) != 0;
  layout.slowness = slownesses[random_below(&random, 4)];
  layout.ms_a_turn = random_below(&random, 2);
  layout.steps_a_turn = steps[random_below(&random, 4)];
  spread(program, &layout, &random);
  return layout;
}

/* ---- links ---- */

static struct wire *wire_to(struct machine *machine, uint32_t link) {
  return link == PARENT ? &machine->up : &machine->down[link - 1];
}

static void send_message(void *context, uint32_t link, const void *message, size_t size) {
  struct machine *machine = context;
  struct wire *wire = wire_to(machine, link);
  struct sent *sent = malloc(sizeof(*sent) + size);
  if (sent == NULL)
    abort();
  sent->next = NULL;
  sent->size = size;
  memcpy(sent->bytes, message, size);
  if (wire->first == NULL)
    wire->last = &wire->first;
  *wire->last = sent;
  wire->last = &sent->next;
  machine->machines->traffic.messages++;
  machine->machines->traffic.bytes += size;
}

static void receive(struct machine *machine, uint32_t link, struct wire *wire) {
  struct sent *sent = wire->first;
  wire->first = sent->next;
  if (!agent_receive(machine->agent, link, machine->machines->now_ms, sent->bytes, sent->size))
    abort();
  free(sent);
  machine->due = true;
}

static uint32_t parent_of(const struct machines *machines, uint32_t machine) {
  return (machine - 1) / machines->layout.fanout;
}

/* Takes the next message of a wire of the link above a machine to its end. */
static bool carry(struct machines *machines, uint32_t child, bool upwards, bool at_once) {
  struct machine *below = &machines->all[child];
  struct machine *above = &machines->all[parent_of(machines, child)];
  uint32_t link = (child - 1) % machines->layout.fanout + 1;
  struct wire *wire = upwards ? &below->up : &above->down[link - 1];
  if (wire->first == NULL)
    return false;
  if (!at_once && wire->waits++ % wire->slowness != wire->slowness - 1)
    return false;
  if (upwards)
    receive(above, link, wire);
  else
    receive(below, PARENT, wire);
  return true;
}

/* ---- what agents ask ---- */

static void introduced(void *context, uint64_t team, uint32_t slot, const void *said, size_t size) {
  (void)context;
  (void)team;
  (void)slot;
  (void)said;
  (void)size;
}

static void ended(void *context, uint64_t team, uint32_t slot, struct plane_fate fate, bool lost) {
  struct machine *machine = context;
  (void)fate;
  (void)lost;
  struct copy *copy = copy_of(machine->machines, (uint32_t)team, machine->number);
  if (copy->memory != NULL)
    plane_memory_kill(copy->memory, slot);
}

/* ---- agents ---- */

static bool is_due(const struct machine *machine) {
  const struct machines *machines = machine->machines;
  for (uint32_t team = 0; team < machines->program->nteams && !machine->due; team++) {
    const struct copy *copy = copy_of(machines, team, machine->number);
    if (copy->memory != NULL && plane_bell(copy->plane) != copy->bell)
      return true;
  }
  return machine->due;
}

static void poll(struct machine *machine) {
  const struct machines *machines = machine->machines;
  for (uint32_t team = 0; team < machines->program->nteams; team++) {
    struct copy *copy = copy_of(machines, team, machine->number);
    if (copy->memory != NULL)
      copy->bell = plane_bell(copy->plane);
  }
  agent_say_waits(machine->agent, machine->waiting > 0);
  machine->due = false;
  agent_poll(machine->agent, machines->now_ms);
}

static bool step_once(struct machines *machines) {
  uint32_t nmachines = machines->layout.nmachines, at = random_below(&machines->random, nmachines);
  uint32_t what = random_below(&machines->random, 3);
  if (what != 0)
    return at > 0 && carry(machines, at, what == 1, false);
  if (!is_due(&machines->all[at]))
    return false;
  poll(&machines->all[at]);
  return true;
}

void machines_step(struct machines *machines) {
  machines->now_ms += machines->layout.ms_a_turn;
  if (machines->layout.nmachines > 1)
    for (uint32_t i = 0; i < machines->layout.steps_a_turn; i++)
      machines->still = !step_once(machines) && machines->still;
}

static bool drain_once(struct machines *machines) {
  bool moved = false;
  for (uint32_t at = 0; at < machines->layout.nmachines; at++) {
    bool due = is_due(&machines->all[at]);
    if (due)
      poll(&machines->all[at]);
    moved |= due;
    moved |= at > 0 && carry(machines, at, true, true);
    moved |= at > 0 && carry(machines, at, false, true);
  }
  return moved; /* ranks may go on with what there is */
}

/* Time goes on while nothing is under way. */
static bool let_time_pass(struct machines *machines, uint64_t ms) {
  bool any = false;
  machines->now_ms += ms;
  for (uint32_t at = 0; at < machines->layout.nmachines; at++)
    poll(&machines->all[at]);
  while (drain_once(machines))
    any = true;
  return any;
}

bool machines_drain(struct machines *machines) {
  if (machines->layout.nmachines == 1)
    return false;
  if (drain_once(machines)) {
    machines->still = false;
    return true;
  }
  if (machines->still)
    return false;
  if (let_time_pass(machines, MOMENT_MS))
    return true;
  machines->still = true;
  bool any = let_time_pass(machines, STILL_MS);
  machines->traffic.stills += any;
  return any;
}

/* ---- ranks ---- */

struct plane *machines_plane(struct machines *machines, uint32_t team, uint32_t rank) {
  return plane_memory_rank(copy_of(machines, team, machine_of(machines, team, rank))->memory, rank);
}

/* Calls for each team that a rank is in, with its rank there. */
static void in_teams(struct machines *machines, uint32_t number,
                     void (*call)(struct machines *, struct copy *, uint32_t team, uint32_t rank)) {
  const struct program *program = machines->program;
  for (uint32_t axis = 0; axis < AXES; axis++) {
    if (!program->has_axis[axis])
      continue;
    uint32_t team = program->team_of[axis][number];
    for (uint32_t rank = 0; rank < program->teams[team].nranks; rank++)
      if (program->teams[team].ranks[rank] == number)
        call(machines, copy_of(machines, team, machines->layout.machine_of[number]), team, rank);
  }
}

static void kill_in(struct machines *machines, struct copy *copy, uint32_t team, uint32_t rank) {
  plane_memory_kill(copy->memory, rank);
  if (machines->layout.nmachines > 1)
    agent_say_ended(machines->all[machine_of(machines, team, rank)].agent, team, rank,
                    (struct plane_fate){.how = END_SIGNAL, .number = 9});
}

void machines_say_waits(struct machines *machines, uint32_t number, bool waits) {
  if (machines->told_waits[number] == waits)
    return;
  machines->told_waits[number] = waits;
  struct machine *machine = &machines->all[machines->layout.machine_of[number]];
  machine->waiting += waits ? 1 : -1u;
  machine->due |= waits;
}

void machines_wait(struct machines *machines, uint32_t number) {
  machines->all[machines->layout.machine_of[number]].due = true;
}

void machines_kill(struct machines *machines, uint32_t number) {
  in_teams(machines, number, kill_in);
  machines->all[machines->layout.machine_of[number]].due = true;
}

struct traffic machines_traffic(const struct machines *machines) {
  return machines->traffic;
}

/* ---- life ---- */

static void make_copies(struct machines *machines) {
  const struct program *program = machines->program;
  for (uint32_t team = 0; team < program->nteams; team++)
    for (uint32_t rank = 0; rank < program->teams[team].nranks; rank++) {
      struct copy *copy = copy_of(machines, team, machine_of(machines, team, rank));
      if (copy->memory != NULL)
        continue;
      copy->memory = plane_memory_create(program->teams[team].nranks);
      if (copy->memory == NULL)
        abort();
      copy->plane = plane_memory_rank(copy->memory, rank);
    }
}

static bool spans_machines(const struct machines *machines, uint32_t team) {
  for (uint32_t rank = 1; rank < machines->program->teams[team].nranks; rank++)
    if (machine_of(machines, team, rank) != machine_of(machines, team, 0))
      return true;
  return false;
}

static void make_agent(struct machines *machines, uint32_t number) {
  struct machine *machine = &machines->all[number];
  struct agent_owner owner = {machine, machines->layout.in_parts ? 1 : 0, send_message, introduced,
                              ended};
  machine->number = number;
  machine->agent = agent_create(&owner);
  machine->down = array(machines->layout.fanout, sizeof(*machine->down));
  machine->up.slowness = 1 + random_below(&machines->random, machines->layout.slowness);
  for (uint32_t i = 0; i < machines->layout.fanout; i++)
    machine->down[i].slowness = 1 + random_below(&machines->random, machines->layout.slowness);
  if (machine->agent == NULL || (number > 0 && !agent_add_link(machine->agent, PARENT)) ||
      (number > 0 && !agent_add_link(machines->all[parent_of(machines, number)].agent,
                                     (number - 1) % machines->layout.fanout + 1)))
    abort();
}

static void add_teams(struct machines *machines) {
  for (uint32_t team = 0; team < machines->program->nteams; team++) {
    if (!spans_machines(machines, team))
      continue;
    for (uint32_t at = 0; at < machines->layout.nmachines; at++) {
      struct copy *copy = copy_of(machines, team, at);
      if (copy->memory != NULL &&
          !agent_add_team(machines->all[at].agent, &(struct agent_team){team, copy->plane}))
        abort();
    }
    for (uint32_t rank = 0; rank < machines->program->teams[team].nranks; rank++)
      if (!agent_introduce(machines->all[machine_of(machines, team, rank)].agent, team, rank,
                           machines->program->teams[team].ranks[rank], NULL, 0))
        abort();
  }
}

struct machines *machines_create(const struct program *program, const struct layout *layout,
                                 uint64_t seed) {
  struct machines *machines = array(1, sizeof(*machines));
  *machines = (struct machines){
      .program = program, .layout = *layout, .random = random_seeded(seed * 2 + 1), .now_ms = 1};
  machines->all = array(layout->nmachines, sizeof(*machines->all));
  machines->copies = array((size_t)program->nteams * layout->nmachines, sizeof(*machines->copies));
  machines->told_waits = array(program->nranks, sizeof(*machines->told_waits));
  for (uint32_t at = 0; at < layout->nmachines; at++)
    machines->all[at].machines = machines;
  make_copies(machines);
  for (uint32_t at = 0; at < layout->nmachines && layout->nmachines > 1; at++)
    make_agent(machines, at);
  if (layout->nmachines > 1)
    add_teams(machines);
  for (uint32_t at = 0; at < layout->nmachines; at++)
    machines->all[at].due = true;
  while (machines_drain(machines))
    ;
  machines->traffic = (struct traffic){0};
  return machines;
}

static void drop(struct wire *wire) {
  while (wire->first != NULL) {
    struct sent *sent = wire->first;
    wire->first = sent->next;
    free(sent);
  }
}

void machines_destroy(struct machines *machines) {
  for (uint32_t at = 0; at < machines->layout.nmachines; at++) {
    struct machine *machine = &machines->all[at];
    agent_destroy(machine->agent);
    drop(&machine->up);
    for (uint32_t i = 0; machine->down != NULL && i < machines->layout.fanout; i++)
      drop(&machine->down[i]);
    free(machine->down);
  }
  for (uint32_t i = 0; i < machines->program->nteams * machines->layout.nmachines; i++)
    plane_memory_destroy(machines->copies[i].memory);
  free(machines->all);
  free(machines->copies);
  free(machines->told_waits);
  free(machines);
}
