/* What a rank does: it goes through the tree with its own data (program.h). */
#include "core/place/place_rounds.h"
#include "tests/simulation/program.h"
#include "tests/simulation/random.h"

#include <stdlib.h>
#include <string.h>

#define ALL_RANKS 64 /* draws for all alike: no rank of a random program has that number */

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

struct run {
  const struct program *program;
  uint32_t rank;
  struct step *steps;
  uint64_t count, room;

  uint32_t epoch;          /* of the program */
  uint32_t batch, batches; /* of the rank, in this epoch */
  uint32_t trained;        /* the same in all epochs */
  uint32_t updates;        /* WHEN_UPDATES: batches that belong to one; 0: not in such a branch */
  uint32_t loops;          /* open, but for that of epochs */
  uint32_t round[2];       /* of the two outermost of these */
  bool training;
  struct place_round said[TREE_DEPTH_MAX]; /* by loop around: what it says */
  uint32_t nsaid;
  /* Epochs with nothing between them are one. */
  uint32_t marked_epoch, batches_before;
  bool marked;
};

static struct instance instance_of(const struct run *run, const struct node *node) {
  struct instance instance = {
      .point = node->point,
      .epoch = (uint8_t)run->marked_epoch,
      .iteration = run->loops == 0 ? node->ordinal : run->round[0],
      .inner = (uint16_t)(run->loops > 1    ? run->round[1]
                          : run->loops == 1 ? node->ordinal
                                            : 0),
  };
  if (run->training)
    instance.iteration += run->batches_before;
  if (run->updates != 0)
    instance.iteration /= run->updates;
  return instance;
}

static void issue(struct run *run, uint16_t at) {
  const struct program *program = run->program;
  const struct node *node = &program->tree.nodes[at];
  static const struct place_node loop = {.flags = PLACE_LOOP};
  struct place_node loops[TREE_DEPTH_MAX];
  for (uint32_t i = 0; i < run->nsaid; i++)
    loops[i] = loop;
  if (run->count == run->room) {
    run->room = run->room ? 2 * run->room : 512;
    run->steps = realloc(run->steps, run->room * sizeof(*run->steps));
    if (run->steps == NULL)
      abort();
  }
  struct step *step = &run->steps[run->count++];
  *step = (struct step){
      .nmembers = node->slot.nmembers,
      .team = program->team_of[node->slot.axis][run->rank],
      .node = at,
      .synchronise = run->loops == 0 && program->sync_after,
      .instance = instance_of(run, node),
      .place = &program->places[at],
      .rounds = place_rounds_of(loops, run->nsaid, run->said),
  };
  for (uint32_t i = 0; i < step->nmembers; i++) {
    step->members[i] = node->slot.members[i];
    /* Tags are equal on all ranks of a communicator, and differ between communicators. */
    step->members[i].comm += 1 + 2u * step->team;
  }
  run->marked |= !run->training;
}

/* ---- data ---- */

static uint32_t draw(const struct run *run, uint32_t rank, uint32_t value) {
  uint64_t state = run->program->data.draws + ((uint64_t)rank << 48 | (uint64_t)run->epoch << 40 |
                                               (uint64_t)run->batch << 8 | value);
  state = random_seeded(state);
  return random_below(&state, value);
}

static bool is_taken(const struct run *run, const struct node *node) {
  uint32_t value = node->value, rank = run->rank;
  switch ((enum when)node->what) {
  case WHEN_STEPS:
    return (run->trained + 1) % value == 0;
  case WHEN_BATCHES:
    return (run->batch + 1) % value == 0;
  case WHEN_UPDATES:
    return (run->batch + 1) % value == 0 || run->batch + 1 == run->batches;
  case WHEN_FIRST_STEP:
    return run->trained == 0;
  case WHEN_EPOCHS:
    return (run->epoch + 1) % value == 0;
  case WHEN_EPOCH_FROM:
    return run->epoch >= value;
  case WHEN_EPOCH:
    return run->epoch == value;
  case WHEN_RANK:
    return rank == value;
  case WHEN_NOT_RANK:
    return rank != value;
  case WHEN_LOCAL:
    return draw(run, rank, value) == 0;
  case WHEN_AGREED:
    return draw(run, ALL_RANKS, value) == 0;
  case WHEN_TRAINS:
    return run->batch < run->batches;
  case WHEN_VALIDATES:
    return run->batch - run->batches < run->program->data.validation[run->epoch][rank];
  case WHEN_HAS_DATA:
    return run->program->data.training[run->epoch][rank] > 0;
  case WHEN_MINE:
    return true;
  case WHEN_DATA_ENDS:
    return run->batch + 1 == run->batches && run->program->data.exits[run->epoch][rank] == value;
  }
  abort();
}

static uint32_t rounds_of(const struct run *run, const struct node *node) {
  const struct data *data = &run->program->data;
  switch ((enum rounds)node->what) {
  case ROUNDS_EPOCHS:
    return run->program->epochs;
  case ROUNDS_TRAINING:
    return data->training[run->epoch][run->rank];
  case ROUNDS_VALIDATION:
    return data->validation[run->epoch][run->rank];
  case ROUNDS_FIXED:
    return node->value;
  case ROUNDS_STATES:
    return data->training[run->epoch][run->rank] +
           (node->value != 0 ? data->validation[run->epoch][run->rank] : 0) + 1u;
  }
  abort();
}

/* ---- the tree ---- */

static enum flow run_block(struct run *run, uint16_t first);

/* Whether the loop is over what all ranks share, each with rounds of its own. */
static bool is_shared(const struct run *run, const struct node *loop) {
  const struct node *nodes = run->program->tree.nodes;
  for (uint16_t at = loop->first; at != 0; at = nodes[at].next)
    if (nodes[at].kind == NODE_BRANCH && nodes[at].what == WHEN_MINE)
      return true;
  return false;
}

enum { SHARES_IN_TURN, SHARES_AS_IT_COMES, SHARES_SOME_LEFT_OUT, SHARES };

/* Which of the rounds that all ranks share the rank's are: one of each stretch of as many as there
 * are ranks, in turn or as it comes; or all but a few, which it leaves out. */
static uint32_t shared_round(const struct run *run, uint32_t round) {
  const struct program *program = run->program;
  uint64_t random = random_seeded(program->data.draws + run->rank);
  uint32_t how = (uint32_t)(program->data.draws >> 8) % SHARES, left_out = 0,
           in_stretch = run->rank;
  for (uint32_t i = 0; i <= round && how != SHARES_IN_TURN; i++) {
    in_stretch = random_below(&random, program->nranks);
    left_out += random_one_in(&random, 6);
  }
  return how == SHARES_SOME_LEFT_OUT ? round + (left_out < round ? left_out : round)
                                     : round * program->nranks + in_stretch;
}

/* What a loop says, if it does, in the rank's round of so many. */
static struct place_round say_round(const struct run *run, const struct node *loop, bool says,
                                    uint32_t round, uint32_t rounds) {
  const struct program *program = run->program;
  if (!says)
    return (struct place_round){0};
  if (!is_shared(run, loop))
    return (struct place_round){round + 1, rounds};
  for (uint32_t rank = 0; loop->what != ROUNDS_EPOCHS && rank < program->nranks; rank++)
    if (program->data.training[run->epoch][rank] > rounds)
      rounds = program->data.training[run->epoch][rank];
  return (struct place_round){shared_round(run, round) + 1, 2 * rounds * program->nranks};
}

static void run_epochs(struct run *run, const struct node *node) {
  struct place_round *said = &run->said[run->nsaid++];
  for (run->epoch = 0; run->epoch < run->program->epochs; run->epoch++) {
    run->marked = false;
    *said = say_round(run, node, run->program->counting != COUNTING_NONE, run->epoch,
                      run->program->epochs);
    enum flow flow = run_block(run, node->first);
    if (run->marked) {
      run->marked_epoch = run->epoch + 1;
      run->batches_before = 0;
    }
    if (flow == FLOW_BREAK)
      break;
  }
  run->epoch = run->epoch < run->program->epochs ? run->epoch : run->program->epochs - 1;
  run->nsaid--;
}

static void end_of_batch(struct run *run) {
  uint32_t every = run->program->sync_every;
  if (every != 0 && run->trained % every == 0 && run->count > 0)
    run->steps[run->count - 1].synchronise = true;
  run->trained++;
}

static void run_loop(struct run *run, const struct node *node) {
  if (node->what == ROUNDS_EPOCHS) {
    run_epochs(run, node);
    return;
  }
  bool training = node->what == ROUNDS_TRAINING || node->what == ROUNDS_STATES;
  uint32_t rounds = rounds_of(run, node), level = run->loops++;
  run->training |= training;
  if (training)
    run->batches = run->program->data.training[run->epoch][run->rank];
  struct place_round *said = &run->said[run->nsaid++];
  for (uint32_t round = 0; round < rounds; round++) {
    *said = say_round(run, node, run->program->counting == COUNTING_ALL, round, rounds);
    if (level < 2)
      run->round[level] = round;
    if (training)
      run->batch = round;
    enum flow flow = run_block(run, node->first);
    if (training && round < run->batches)
      end_of_batch(run);
    if (flow == FLOW_BREAK)
      break;
  }
  if (training) {
    run->training = false;
    run->batches_before += run->batches;
  }
  run->loops--;
  run->nsaid--;
}

/* What stands in another state than training means what it would behind the loop of training. */
static enum flow run_other_state(struct run *run, const struct node *node) {
  uint32_t loops = run->loops, round = run->round[0];
  bool validates = node->what == WHEN_VALIDATES && is_taken(run, node);
  run->training = false;
  run->loops = validates ? 1 : 0;
  run->round[0] = run->batch - run->batches;
  enum flow flow = run_block(run, validates ? node->first : node->otherwise);
  run->training = true;
  run->loops = loops;
  run->round[0] = round;
  return flow;
}

static enum flow run_branch(struct run *run, const struct node *node) {
  if (node->what == WHEN_VALIDATES || (node->what == WHEN_TRAINS && !is_taken(run, node)))
    return run_other_state(run, node);
  bool updates = node->what == WHEN_UPDATES;
  bool taken = is_taken(run, node);
  run->updates = updates && taken ? node->value : run->updates;
  enum flow flow = run_block(run, taken ? node->first : node->otherwise);
  run->updates = updates ? 0 : run->updates;
  return flow;
}

static enum flow run_block(struct run *run, uint16_t first) {
  const struct node *nodes = run->program->tree.nodes;
  enum flow flow = FLOW_ON;
  for (uint16_t at = first; at != 0 && flow == FLOW_ON; at = nodes[at].next)
    switch ((enum node_kind)nodes[at].kind) {
    case NODE_UNIT:
      issue(run, at);
      break;
    case NODE_LOOP:
      run_loop(run, &nodes[at]);
      break;
    case NODE_BRANCH:
      flow = run_branch(run, &nodes[at]);
      break;
    case NODE_CALL:
      run_block(run, nodes[at].first);
      break;
    case NODE_BREAK:
      flow = FLOW_BREAK;
      break;
    case NODE_CONTINUE:
      flow = FLOW_CONTINUE;
      break;
    }
  return flow;
}

uint64_t program_steps(const struct program *program, uint32_t rank, struct step **steps,
                       uint64_t *room) {
  struct run run = {.program = program, .rank = rank, .steps = *steps, .room = *room};
  run_block(&run, program->tree.nodes[0].first);
  *steps = run.steps;
  *room = run.room;
  return run.count;
}

static bool is_same_step(const struct step *a, const struct step *b) {
  return a->team == b->team && a->nmembers == b->nmembers &&
         memcmp(a->members, b->members, a->nmembers * sizeof(a->members[0])) == 0;
}

bool program_is_even(const struct program *program) {
  struct step *first = NULL, *other = NULL;
  uint64_t room_first = 0, room_other = 0;
  bool even = true;
  uint64_t nfirst = program_steps(program, 0, &first, &room_first);
  for (uint32_t rank = 1; rank < program->nranks && even; rank++) {
    even = program_steps(program, rank, &other, &room_other) == nfirst;
    for (uint64_t i = 0; i < nfirst && even; i++)
      even = is_same_step(&first[i], &other[i]);
  }
  free(first);
  free(other);
  return even;
}
