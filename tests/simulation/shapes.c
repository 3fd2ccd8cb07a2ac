/* Writing a plan (plan.h) down as a tree. */
#include "tests/simulation/plan.h"
#include "tests/simulation/random.h"

struct writer {
  struct builder tree;
  const struct plan *plan;
  struct row row;
  uint64_t random; /* for what stands elsewhere */
  uint32_t loops;  /* open, but for that of epochs */
  uint8_t point;
};

static void open_loop(struct writer *writer, enum rounds rounds, uint32_t value) {
  tree_add(&writer->tree, NODE_LOOP, rounds, value);
  tree_open(&writer->tree);
  writer->loops += rounds != ROUNDS_EPOCHS;
}

static void close_loop(struct writer *writer) {
  tree_close(&writer->tree);
  writer->loops--;
}

static void open_branch(struct writer *writer, enum when when, uint32_t value) {
  tree_add(&writer->tree, NODE_BRANCH, when, value);
  tree_open(&writer->tree);
}

static void open_call(struct writer *writer, enum function function) {
  tree_add(&writer->tree, NODE_CALL, function, 0);
  tree_open(&writer->tree);
}

/* ---- units ---- */

static void put_unit(struct writer *writer, const struct slot *slot, uint32_t ordinal) {
  bool wrapped = writer->row.sight == SIGHT_WRAPPED;
  if (wrapped && !writer->plan->all_wrapped)
    wrapped = random_one_in(&writer->random, 2);
  struct node *node = tree_add(&writer->tree, NODE_UNIT, 0, 0);
  node->slot = *slot;
  node->point = writer->point;
  node->ordinal = (uint8_t)ordinal;
  node->wrapped = wrapped;
  node->by_engine = writer->row.sight == SIGHT_ENGINE && writer->loops > 0 && slot_is_bucket(slot);
}

/* One rank stands elsewhere. */
static void put_unit_by_rank(struct writer *writer, const struct slot *slot) {
  uint32_t odd = writer->plan->odd_rank, how = random_below(&writer->random, 3);
  open_branch(writer, how == 1 ? WHEN_NOT_RANK : WHEN_RANK, odd);
  if (how == 2)
    open_call(writer, FUNCTION_HELPER);
  put_unit(writer, slot, 0);
  if (how == 2)
    tree_close(&writer->tree);
  if (how == 1) {
    tree_close(&writer->tree);
    open_branch(writer, WHEN_RANK, odd);
  } else {
    tree_otherwise(&writer->tree);
  }
  put_unit(writer, slot, 0);
  tree_close(&writer->tree);
}

static bool stands_elsewhere(struct writer *writer) {
  enum sight sight = writer->loops > 0 ? SIGHT_BY_RANK_INSIDE : SIGHT_BY_RANK_OUTSIDE;
  return writer->row.sight == sight && random_one_in(&writer->random, 2);
}

static void write_unit(struct writer *writer, const struct slot *slot) {
  writer->point++;
  if (stands_elsewhere(writer)) {
    put_unit_by_rank(writer, slot);
    return;
  }
  if (writer->plan->branches && writer->loops > 0 && random_one_in(&writer->random, 2)) {
    open_branch(writer, WHEN_LOCAL, 2 + random_below(&writer->random, 6));
    put_unit(writer, slot, 0);
    tree_otherwise(&writer->tree);
    put_unit(writer, slot, 0);
    tree_close(&writer->tree);
    return;
  }
  put_unit(writer, slot, 0);
}

/* The unit so many times, in a loop; on one rank perhaps one after the other. */
static void write_repeated(struct writer *writer, const struct slot *slot, uint32_t times) {
  bool elsewhere = stands_elsewhere(writer);
  writer->point++;
  if (elsewhere) {
    open_branch(writer, random_one_in(&writer->random, 2) ? WHEN_RANK : WHEN_NOT_RANK,
                writer->plan->odd_rank);
    for (uint32_t i = 0; i < times; i++)
      put_unit(writer, slot, i);
    tree_otherwise(&writer->tree);
  }
  open_loop(writer, ROUNDS_FIXED, times);
  put_unit(writer, slot, 0);
  close_loop(writer);
  if (elsewhere)
    tree_close(&writer->tree);
}

/* ---- the loop of training ---- */

static void write_exits(struct writer *writer, uint32_t i) {
  const struct plan *plan = writer->plan;
  if (plan->exits[i] != 0) {
    open_branch(writer, WHEN_DATA_ENDS, plan->exits[i]);
    tree_add(&writer->tree, NODE_BREAK, 0, 0);
    tree_close(&writer->tree);
  }
  if (plan->skips[i]) {
    open_branch(writer, writer->row.imbalance == IMBALANCE_NONE ? WHEN_AGREED : WHEN_LOCAL, 5);
    tree_add(&writer->tree, NODE_CONTINUE, 0, 0);
    tree_close(&writer->tree);
  }
}

/* A function that is called twice is the same both times. */
static void write_step(struct writer *writer, const struct slot *slots, uint32_t first,
                       uint32_t nslots, bool exits) {
  uint64_t random = writer->random;
  writer->random = writer->plan->draws;
  if (writer->plan->in_step)
    open_call(writer, FUNCTION_STEP);
  for (uint32_t i = first; i < nslots; i++) {
    if (exits)
      write_exits(writer, i);
    if (writer->plan->layers[i] != 0)
      write_repeated(writer, &slots[i], writer->plan->layers[i]);
    else
      write_unit(writer, &slots[i]);
  }
  if (writer->plan->in_step)
    tree_close(&writer->tree);
  writer->random = random;
}

static void write_body(struct writer *writer) {
  const struct plan *plan = writer->plan;
  if (plan->losses)
    write_unit(writer, &plan->body[0]);
  if (plan->accumulate != 0)
    open_branch(writer, WHEN_UPDATES, plan->accumulate);
  if (plan->rebuilt) {
    open_branch(writer, WHEN_FIRST_STEP, 0);
    write_unit(writer, &plan->first_bucket);
    tree_otherwise(&writer->tree);
  }
  write_step(writer, plan->body, plan->losses, plan->nbody, true);
  if (plan->rebuilt)
    tree_close(&writer->tree);
  if (plan->accumulate != 0)
    tree_close(&writer->tree);
  if (plan->unfreeze != 0) {
    open_branch(writer, WHEN_EPOCH_FROM, plan->unfreeze);
    write_unit(writer, &plan->extra);
    tree_close(&writer->tree);
  }
}

static void write_front(struct writer *writer, enum front front) {
  const struct plan *plan = writer->plan;
  if (plan->front != front)
    return;
  open_branch(writer, plan->front_when, plan->front_value);
  write_unit(writer, &plan->in_front);
  tree_close(&writer->tree);
}

static void write_evaluation(struct writer *writer) {
  const struct plan *plan = writer->plan;
  if (plan->nevaluation == 0)
    return;
  write_front(writer, FRONT_OF_EVALUATION);
  if (plan->in_validate)
    open_call(writer, FUNCTION_VALIDATE);
  if (plan->nequal != 0) {
    write_repeated(writer, &plan->evaluation[0], plan->nequal);
  } else {
    open_loop(writer, ROUNDS_VALIDATION, 0);
    if (plan->shared_step)
      write_step(writer, plan->evaluation, 0, plan->nevaluation, false);
    for (uint32_t i = 0; i < plan->nevaluation && !plan->shared_step; i++)
      write_unit(writer, &plan->evaluation[i]);
    close_loop(writer);
  }
  if (plan->in_validate)
    tree_close(&writer->tree);
}

static void write_after(struct writer *writer) {
  for (uint32_t i = 0; i < writer->plan->nafter; i++)
    write_unit(writer, &writer->plan->after[i]);
}

/* All that an epoch has, as states of one loop. */
static void write_states(struct writer *writer) {
  const struct plan *plan = writer->plan;
  open_loop(writer, ROUNDS_STATES, plan->nevaluation);
  open_branch(writer, WHEN_TRAINS, 0);
  write_body(writer);
  tree_otherwise(&writer->tree);
  if (plan->nevaluation != 0) {
    open_branch(writer, WHEN_VALIDATES, 0);
    for (uint32_t i = 0; i < plan->nevaluation; i++)
      write_unit(writer, &plan->evaluation[i]);
    tree_otherwise(&writer->tree);
  }
  write_after(writer);
  if (plan->nevaluation != 0)
    tree_close(&writer->tree);
  tree_close(&writer->tree);
  close_loop(writer);
}

static void write_training(struct writer *writer) {
  const struct plan *plan = writer->plan;
  if (plan->in_train)
    open_call(writer, FUNCTION_TRAIN);
  if (plan->states) {
    write_states(writer);
    if (plan->in_train)
      tree_close(&writer->tree);
    return;
  }
  if (plan->begins) {
    open_branch(writer, WHEN_HAS_DATA, 0);
    write_unit(writer, &plan->begin);
  }
  open_loop(writer, ROUNDS_TRAINING, 0);
  if (plan->shares && !plan->shares_epochs)
    open_branch(writer, WHEN_MINE, 0);
  write_body(writer);
  if (plan->log_every != 0) {
    open_branch(writer, plan->log_when, plan->log_every);
    write_unit(writer, &plan->log);
    tree_close(&writer->tree);
  }
  if (plan->evaluate_every != 0) {
    open_branch(writer, WHEN_STEPS, plan->evaluate_every);
    write_evaluation(writer);
    tree_close(&writer->tree);
  }
  if (plan->shares && !plan->shares_epochs)
    tree_close(&writer->tree);
  close_loop(writer);
  if (plan->begins)
    tree_close(&writer->tree);
  if (plan->in_train)
    tree_close(&writer->tree);
}

/* Both loops are the same, to the last point. */
static void write_two_trainings(struct writer *writer) {
  uint64_t random = writer->random;
  uint8_t point = writer->point;
  open_branch(writer, WHEN_RANK, writer->plan->odd_rank);
  write_training(writer);
  tree_otherwise(&writer->tree);
  writer->random = random;
  writer->point = point;
  write_training(writer);
  tree_close(&writer->tree);
}

/* ---- the rest ---- */

static void write_checkpoint(struct writer *writer) {
  const struct plan *plan = writer->plan;
  if (plan->ncheckpoint == 0)
    return;
  open_branch(writer, WHEN_EPOCHS, plan->checkpoint_every);
  open_call(writer, FUNCTION_SAVE);
  write_repeated(writer, &plan->checkpoint, plan->ncheckpoint);
  tree_close(&writer->tree);
  tree_close(&writer->tree);
}

static void write_epoch(struct writer *writer) {
  const struct plan *plan = writer->plan;
  write_front(writer, FRONT_OF_TRAINING);
  if (writer->row.sight == SIGHT_OTHER_LOOP)
    write_two_trainings(writer);
  else
    write_training(writer);
  if (plan->evaluate_every == 0 && !plan->states)
    write_evaluation(writer);
  if (!plan->states)
    write_after(writer);
  write_checkpoint(writer);
  if (plan->stops) {
    open_branch(writer, WHEN_EPOCH, plan->stop);
    tree_add(&writer->tree, NODE_BREAK, 0, 0);
    tree_close(&writer->tree);
  }
}

static void write_before(struct writer *writer) {
  const struct plan *plan = writer->plan;
  if (plan->ninit != 0)
    write_repeated(writer, &plan->init, plan->ninit);
  if (plan->nwarm_up != 0) {
    open_loop(writer, ROUNDS_FIXED, plan->nwarm_up);
    for (uint32_t i = 0; i < plan->warm_up; i++)
      write_unit(writer, &plan->body[i]);
    close_loop(writer);
  }
}

uint32_t program_random_tree(struct program *program, uint64_t *random) {
  struct plan plan;
  plan_random(program, &plan, random);
  struct writer writer = {.plan = &plan, .row = program->row, .random = plan.draws};
  tree_begin(&writer.tree, &program->tree);
  write_before(&writer);
  open_loop(&writer, ROUNDS_EPOCHS, 0);
  if (plan.shares_epochs)
    open_branch(&writer, WHEN_MINE, 0);
  write_epoch(&writer);
  if (plan.shares_epochs)
    tree_close(&writer.tree);
  tree_close(&writer.tree);
  for (uint32_t i = 0; i < plan.nlast; i++)
    write_unit(&writer, &plan.last);
  return plan.nexits;
}
