/* Random programs of sends and receives, and the devices they run on (peers_program.h). */
#include "tests/unit/peers_program.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/operation.h"

/* ---- programs ---- */

uint32_t peers_random(uint64_t *state, uint32_t bound) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return (uint32_t)((x * UINT64_C(2685821657736338717) >> 32) * bound >> 32);
}

static bool has_units(const struct peers_program *program) {
  for (uint32_t i = 0; i < program->nphases; i++)
    if (program->phases[i] >= PHASE_UNIT)
      return true;
  return false;
}

/* Where ranks meet after loops of varying lengths with units in them, they may take one place for
 * another (settle.h). Where there is nothing else in the loops, it must not begin with even ones:
 * what is learnt by then is that a lone unit is repeated. */
static void random_iterations(struct peers_program *program, uint64_t *state) {
  uint32_t most = 1 + peers_random(state, 20);
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++)
      program->iterations[epoch][rank] = epoch > 0 && program->meets && has_units(program)
                                             ? program->iterations[0][rank]
                                             : peers_random(state, most + 1);
  if (program->iterations[1][0] == program->iterations[1][1] && !has_units(program))
    program->iterations[1][0]++;
}

/* The first phase is one that all ranks post something of, so that all know of it. */
void peers_program_random(struct peers_program *program, uint64_t seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int i = 0; i < 4; i++)
    peers_random(&state, 2);
  *program = (struct peers_program){
      .nranks = 2 + peers_random(&state, PEERS_RANKS_MAX - 1),
      .epochs = 1 + peers_random(&state, PEERS_EPOCHS_MAX),
      .nphases = 1 + peers_random(&state, PEERS_PHASES_MAX),
      .meets = peers_random(&state, 2),
      .pipelined = peers_random(&state, 3) == 0,
      .run_ahead = 1 + peers_random(&state, 40),
  };
  for (uint32_t i = 0; i < program->nphases; i++) {
    program->phases[i] = (enum phase)peers_random(&state, i == 0 ? PHASE_PAIR : PHASES);
    program->pair[i][0] = peers_random(&state, program->nranks);
    program->pair[i][1] =
        (program->pair[i][0] + 1 + peers_random(&state, program->nranks - 1)) % program->nranks;
  }
  program->sync_phase = peers_random(&state, program->nphases);
  random_iterations(program, &state);
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    program->speed[rank] = 1 + peers_random(&state, 8);
}

enum { COMM = 77 };

static struct member post(uint8_t kind, uint32_t peer, uint32_t phase) {
  return operation_member(kind, COMM, peer, 10 + phase);
}

static struct member all_reduce(uint64_t count, uint8_t datatype) {
  return (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = datatype};
}

struct steps {
  struct peers_step *steps;
  size_t nsteps, room;
};

static struct peers_step *add(struct steps *steps, uint64_t point) {
  if (steps->nsteps == steps->room) {
    steps->room = 2 * steps->room + 64;
    steps->steps = realloc(steps->steps, steps->room * sizeof(*steps->steps));
    if (steps->steps == NULL)
      abort();
  }
  struct peers_step *step = &steps->steps[steps->nsteps++];
  *step = (struct peers_step){.point = point};
  return step;
}

static void add_post(struct peers_step *step, uint8_t kind, uint32_t peer, uint32_t phase) {
  step->posts[step->nposts++] = post(kind, peer, phase);
}

static void add_ring(const struct peers_program *program, struct peers_step *step, uint32_t rank,
                     uint32_t phase, bool both) {
  uint32_t right = (rank + 1) % program->nranks;
  uint32_t left = (rank + program->nranks - 1) % program->nranks;
  add_post(step, MEMBER_SEND, right, phase);
  add_post(step, MEMBER_RECEIVE, left, phase);
  if (!both)
    return;
  add_post(step, MEMBER_SEND, left, phase);
  add_post(step, MEMBER_RECEIVE, right, phase);
}

/* A chain over the ranks, in their order or against it. */
static void add_chain(const struct peers_program *program, struct steps *steps, uint32_t rank,
                      uint32_t phase, uint64_t point, bool backward) {
  bool first = rank == 0, last = rank == program->nranks - 1;
  if (backward ? !last : !first)
    add_post(add(steps, point), MEMBER_RECEIVE, backward ? rank + 1 : rank - 1, phase);
  if (backward ? !first : !last)
    add_post(add(steps, point), MEMBER_SEND, backward ? rank - 1 : rank + 1, phase);
}

static void add_phase(const struct peers_program *program, struct steps *steps, uint32_t rank,
                      uint32_t phase, uint64_t point) {
  struct peers_step *step;
  switch (program->phases[phase]) {
  case PHASE_RING:
  case PHASE_HALO:
    add_ring(program, add(steps, point), rank, phase, program->phases[phase] == PHASE_HALO);
    break;
  case PHASE_PIPELINE:
  case PHASE_BACKWARD:
    add_chain(program, steps, rank, phase, point, program->phases[phase] == PHASE_BACKWARD);
    break;
  case PHASE_PAIR:
    if (rank == program->pair[phase][0])
      add_post(add(steps, point), MEMBER_SEND, program->pair[phase][1], phase);
    if (rank == program->pair[phase][1])
      add_post(add(steps, point), MEMBER_RECEIVE, program->pair[phase][0], phase);
    break;
  case PHASE_UNIT:
  case PHASE_UNIT_GROUP:
    step = add(steps, point);
    step->has_unit = true;
    step->unit = all_reduce(100 + phase, DATATYPE_FLOAT32);
    if (program->phases[phase] == PHASE_UNIT_GROUP)
      add_ring(program, step, rank, phase, false);
    break;
  case PHASES:
    break;
  }
}

size_t peers_program_steps(const struct peers_program *program, uint32_t rank,
                           struct peers_step **steps_out) {
  struct steps steps = {0};
  uint64_t iteration = 0;
  uint64_t marked = 0;
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++) {
    for (uint32_t i = 0; i < program->iterations[epoch][rank]; i++, iteration++)
      for (uint32_t phase = 0; phase < program->nphases; phase++) {
        size_t before = steps.nsteps;
        add_phase(program, &steps, rank, phase, marked << 48 | (iteration + 1) << 8 | phase);
        if (!program->pipelined && phase == program->sync_phase && steps.nsteps > before)
          steps.steps[steps.nsteps - 1].synchronises = true;
      }
    if (!program->meets)
      continue;
    struct peers_step *step = add(&steps, ++marked << 48);
    step->has_unit = step->synchronises = true;
    step->unit = all_reduce(1, DATATYPE_INT32);
    iteration = 0;
  }
  *steps_out = steps.steps;
  return steps.nsteps;
}

/* ---- devices ---- */

struct operation {
  struct member member;
  uint64_t point;
  size_t item; /* which of its rank's items it is in */
};

struct post {
  struct member member;
  size_t ordinal; /* in its line */
};

struct item {
  bool is_unit;
  uint64_t index; /* of a unit */
  uint32_t nposts;
  struct post posts[];
};

struct line {
  struct operation *operations;
  size_t n, room;
};

struct devices {
  uint32_t nranks;
  struct item **items[PEERS_RANKS_MAX];
  size_t nitems[PEERS_RANKS_MAX], rooms[PEERS_RANKS_MAX], next[PEERS_RANKS_MAX];
  uint64_t units[PEERS_RANKS_MAX];                        /* units begun */
  struct line lines[PEERS_RANKS_MAX][PEERS_RANKS_MAX][2]; /* by rank, peer, whether it receives */
  const char *error;
};

struct devices *devices_create(uint32_t nranks) {
  struct devices *devices = calloc(1, sizeof(*devices));
  if (devices == NULL)
    abort();
  devices->nranks = nranks;
  return devices;
}

void devices_destroy(struct devices *devices) {
  for (uint32_t rank = 0; rank < devices->nranks; rank++) {
    for (size_t i = devices->next[rank]; i < devices->nitems[rank]; i++)
      free(devices->items[rank][i]);
    free(devices->items[rank]);
    for (uint32_t peer = 0; peer < devices->nranks; peer++)
      for (int receives = 0; receives < 2; receives++)
        free(devices->lines[rank][peer][receives].operations);
  }
  free(devices);
}

static struct item *add_item(struct devices *devices, uint32_t rank, uint32_t nposts) {
  struct item *item = calloc(1, sizeof(*item) + nposts * sizeof(*item->posts));
  if (devices->nitems[rank] == devices->rooms[rank]) {
    devices->rooms[rank] = 2 * devices->rooms[rank] + 64;
    devices->items[rank] =
        realloc(devices->items[rank], devices->rooms[rank] * sizeof(*devices->items[rank]));
  }
  if (item == NULL || devices->items[rank] == NULL)
    abort();
  item->nposts = nposts;
  devices->items[rank][devices->nitems[rank]++] = item;
  return item;
}

void devices_issue_unit(struct devices *devices, uint32_t rank, uint64_t index) {
  struct item *item = add_item(devices, rank, 0);
  item->is_unit = true;
  item->index = index;
}

/* The other side of an operation, if it has been issued. */
static const struct operation *partner(const struct devices *devices, uint32_t rank,
                                       const struct member *member, size_t ordinal) {
  const struct line *line = &devices->lines[member->root][rank][member->kind != MEMBER_RECEIVE];
  return ordinal < line->n ? &line->operations[ordinal] : NULL;
}

void devices_issue(struct devices *devices, uint32_t rank, const struct member *posts,
                   uint32_t nposts, uint64_t point) {
  struct item *item = add_item(devices, rank, nposts);
  for (uint32_t i = 0; i < nposts; i++) {
    struct line *line = &devices->lines[rank][posts[i].root][posts[i].kind == MEMBER_RECEIVE];
    if (line->n == line->room) {
      line->room = 2 * line->room + 64;
      line->operations = realloc(line->operations, line->room * sizeof(*line->operations));
      if (line->operations == NULL)
        abort();
    }
    item->posts[i] = (struct post){posts[i], line->n};
    line->operations[line->n++] = (struct operation){posts[i], point, devices->nitems[rank] - 1};
    const struct operation *other = partner(devices, rank, &posts[i], item->posts[i].ordinal);
    if (other == NULL)
      continue;
    if (other->member.count != posts[i].count || other->member.datatype != posts[i].datatype)
      devices->error = "a send has met a receive of another size or type";
    if (point != 0 && other->point != 0 && point != other->point)
      devices->error = "a send has met a receive of another place of the program";
    if (point == 0 && other->point == 0)
      devices->error = "a mirror has met a mirror";
  }
}

/* Whether the item at the head of a rank's queue comes to its end now. */
static bool is_done(const struct devices *devices, uint32_t rank) {
  const struct item *item = devices->items[rank][devices->next[rank]];
  for (uint32_t other = 0; item->is_unit && other < devices->nranks; other++)
    if (devices->units[other] <= item->index)
      return false;
  for (uint32_t i = 0; i < item->nposts; i++) {
    const struct post *post = &item->posts[i];
    const struct operation *other = partner(devices, rank, &post->member, post->ordinal);
    if (other == NULL || other->item > devices->next[post->member.root])
      return false;
  }
  return true;
}

void devices_run(struct devices *devices) {
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < devices->nranks; rank++) {
      if (devices->next[rank] == devices->nitems[rank])
        continue;
      struct item *item = devices->items[rank][devices->next[rank]];
      if (item->is_unit)
        devices->units[rank] = item->index + 1;
      if (!is_done(devices, rank))
        continue;
      free(item);
      devices->next[rank]++;
      moved = true;
    }
  }
}

size_t devices_waiting(const struct devices *devices, uint32_t rank) {
  return devices->nitems[rank] - devices->next[rank];
}

const char *devices_error(const struct devices *devices) {
  return devices->error;
}
