/* What random programs have (plan.h). */
#include "tests/simulation/plan.h"

#include <stddef.h>

#include "tests/simulation/random.h"

/* ---- units ---- */

static struct member all_reduce(uint64_t count, uint8_t datatype) {
  return (struct member){.count = count,
                         .root = ROOT_NONE,
                         .reduction = 0,
                         .kind = MEMBER_ALLREDUCE,
                         .datatype = datatype};
}

static struct slot one(enum axis axis, struct member member) {
  return (struct slot){axis, 1, {member}};
}

static struct slot broadcast(uint64_t count) {
  return one(AXIS_WORLD, (struct member){.count = count,
                                         .root = 0,
                                         .reduction = REDUCTION_NONE,
                                         .kind = MEMBER_BROADCAST,
                                         .datatype = DATATYPE_FLOAT32});
}

/* A loss that is summed, a barrier, a metric: one element. */
static struct slot scalar(void) {
  return one(AXIS_WORLD, all_reduce(1, DATATYPE_FLOAT32));
}

bool slot_is_bucket(const struct slot *slot) {
  return slot->members[0].count >= 1000;
}

static enum axis random_axis(const struct program *program, uint64_t *random) {
  enum axis axis;
  do
    axis = (enum axis)random_below(random, AXES);
  while (!program->has_axis[axis]);
  return axis;
}

/* ---- what all classes have ---- */

/* Forward and backward units of tensor parallel teams, then buckets of data parallel ones; where
 * there is one team, buckets. The second communicator takes its turn where there are two. */
static void plan_body(const struct program *program, struct plan *plan, uint64_t *random) {
  bool grid = program->has_axis[AXIS_TENSOR];
  plan->nbody = 1 + random_below(random, PLAN_BODY_MAX);
  uint32_t kinds = 1 + random_below(random, plan->nbody);
  uint32_t ntensor = grid ? random_below(random, plan->nbody + 1) : 0;
  for (uint32_t i = 0; i < plan->nbody; i++) {
    enum axis axis = i < ntensor                    ? AXIS_TENSOR
                     : program->has_axis[AXIS_DATA] ? AXIS_DATA
                                                    : AXIS_WORLD;
    if (program->kind == KIND_HALVES && random_one_in(random, 4))
      axis = AXIS_WORLD;
    struct slot slot =
        one(axis, all_reduce(UINT64_C(1000) << random_below(random, kinds), DATATYPE_FLOAT32));
    if (random_one_in(random, 8)) {
      slot.members[1] = all_reduce(77, DATATYPE_FLOAT32);
      slot.nmembers = 2;
    }
    for (uint32_t k = 0; program->kind == KIND_TWICE && k < slot.nmembers; k++)
      slot.members[k].comm = random_below(random, 2);
    plan->body[i] = slot;
  }
}

static struct slot random_metric(const struct program *program, uint64_t *random, uint32_t i) {
  enum axis axis = random_axis(program, random);
  return one(axis, all_reduce(2 + random_below(random, 8) * 8 + i, DATATYPE_INT32));
}

/* Buckets are large; what is logged and evaluated is small. Where no team has all ranks, one of
 * each axis marks the end of an epoch. */
static void plan_after(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->nafter = 1 + random_below(random, PLAN_AFTER_MAX);
  if (program->kind == KIND_GRID && plan->nafter == 1)
    plan->nafter = 2;
  for (uint32_t i = 0; i < plan->nafter; i++)
    plan->after[i] = random_metric(program, random, i);
  if (program->kind == KIND_GRID) {
    plan->after[0].axis = AXIS_TENSOR;
    plan->after[1].axis = AXIS_DATA;
  } else {
    plan->after[random_below(random, plan->nafter)].axis = AXIS_WORLD;
  }
}

static void plan_log(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->log = one(random_axis(program, random), all_reduce(1, DATATYPE_FLOAT32));
  plan->log_every = 1 + random_below(random, 12);
  plan->log_when = random_one_in(random, 2) ? WHEN_STEPS : WHEN_BATCHES;
}

static void plan_evaluation(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->nevaluation = 1 + random_below(random, 4);
  for (uint32_t i = 0; i < plan->nevaluation; i++)
    plan->evaluation[i] =
        one(AXIS_WORLD, all_reduce(3 + random_below(random, plan->nevaluation), DATATYPE_FLOAT32));
  plan->nafter = random_below(random, 2);
  if (program_may_not_evaluate(program)) /* so that something tells epochs apart */
    plan->nafter = 1;
}

/* ---- what some have ---- */

static void plan_one_unit(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program, (void)random;
  plan->nbody = plan->nafter = 1;
  plan->body[0] = plan->after[0] = scalar();
}

static void plan_begins_like_after(const struct program *program, struct plan *plan,
                                   uint64_t *random) {
  (void)program, (void)random;
  plan->body[0] = scalar();
  plan->nafter = 1;
  plan->after[0] = scalar();
}

static void plan_loss_like_barrier(const struct program *program, struct plan *plan,
                                   uint64_t *random) {
  (void)program;
  if (plan->nbody == 1)
    plan->body[plan->nbody++] = scalar();
  plan->body[1 + random_below(random, plan->nbody - 1)] = scalar();
  plan->after[plan->nafter - 1] = scalar();
}

static void plan_equal_units(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  plan->nequal = 2 + random_below(random, PLAN_EQUAL_MAX - 1);
  plan->nevaluation = 1;
  plan->evaluation[0] = random_one_in(random, 2) ? scalar() : plan->body[plan->nbody - 1];
  plan->nafter = random_below(random, 2);
  if (random_one_in(random, 3)) {
    plan->nbody = 1;
    plan->body[0] = plan->evaluation[0];
  }
}

static void plan_like_training(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  plan->nevaluation = plan->nbody;
  for (uint32_t i = 0; i < plan->nbody; i++)
    plan->evaluation[i] = plan->body[i];
  plan->nafter = random_below(random, 2);
  plan->shared_step = random_one_in(random, 2);
}

/* What ranks without data come to instead. */
static void plan_for_no_data(const struct program *program, struct plan *plan, uint64_t *random) {
  switch (random_below(random, 8)) {
  case 0:
    plan_one_unit(program, plan, random);
    return;
  case 1:
    plan_begins_like_after(program, plan, random);
    return;
  case 2:
  case 3:
    plan_loss_like_barrier(program, plan, random);
    return;
  case 4:
    plan_equal_units(program, plan, random);
    return;
  case 5:
    plan_like_training(program, plan, random);
    return;
  case 6:
    plan_log(program, plan, random);
    return;
  default:
    return;
  }
}

static void plan_checkpoints(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  plan->checkpoint = broadcast(5000 << random_below(random, 2));
  plan->ncheckpoint = 1 + random_below(random, 4);
  plan->checkpoint_every = 1 + random_below(random, 3);
  if (random_one_in(random, 3))
    plan->nafter = 0;
}

static void plan_accumulation(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->accumulate = 2 + random_below(random, 4);
  plan->losses = plan->nbody > 1 && random_one_in(random, 2);
  if (plan->losses)
    plan->body[0] = scalar();
  if (random_one_in(random, 3))
    plan_log(program, plan, random);
}

static void plan_log_nearly_even(const struct program *program, struct plan *plan,
                                 uint64_t *random) {
  plan_log(program, plan, random);
  plan->log_every = random_one_in(random, 2) ? 10 : 5;
}

static void plan_warm_up(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  plan->nwarm_up = 1 + random_below(random, 6);
  plan->warm_up = 1 + random_below(random, plan->nbody);
}

static void plan_evaluation_in_loop(const struct program *program, struct plan *plan,
                                    uint64_t *random) {
  plan_evaluation(program, plan, random);
  plan->evaluate_every = 2 + random_below(random, 9);
  plan->nafter = 1;
}

static void plan_unfrozen(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->extra = plan->body[random_below(random, plan->nbody)];
  plan->extra.members[0].count <<= random_below(random, 2);
  plan->unfreeze = 1 + random_below(random, program->epochs);
}

static void plan_early_stop(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->stops = true;
  plan->stop = random_below(random, program->epochs);
  plan->nlast = random_below(random, 3);
  plan->last = random_one_in(random, 2) ? plan->body[0] : scalar();
}

static void plan_rebuilt(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program, (void)random;
  plan->rebuilt = true;
  plan->first_bucket = one(AXIS_WORLD, all_reduce(9000, DATATYPE_FLOAT32));
}

static void plan_log_like_barrier(const struct program *program, struct plan *plan,
                                  uint64_t *random) {
  plan_log(program, plan, random);
  plan->log_every += plan->log_every == 1;
  plan->after[plan->nafter - 1] = plan->log = scalar();
}

static void plan_nothing_after(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program, (void)random;
  plan->nafter = 0;
}

static void plan_exits(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  for (uint32_t i = 1; i < plan->nbody; i++)
    if (random_one_in(random, 2))
      plan->exits[i] = (uint8_t)++plan->nexits;
}

static void plan_skips(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  for (uint32_t i = 1; i < plan->nbody; i++)
    plan->skips[i] = random_one_in(random, 3);
}

static void plan_branches(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program, (void)random;
  plan->branches = true;
}

static void plan_end_in_branch(const struct program *program, struct plan *plan, uint64_t *random) {
  (void)program;
  plan->states = true;
  if (random_one_in(random, 2))
    plan->after[0] = plan->body[random_below(random, plan->nbody)];
}

static void plan_states(const struct program *program, struct plan *plan, uint64_t *random) {
  plan_evaluation(program, plan, random);
  plan->nafter = 1;
  plan_end_in_branch(program, plan, random);
  if (random_one_in(random, 2))
    plan->evaluation[0] = plan->body[random_below(random, plan->nbody)];
}

static void plan_begins(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->begins = true;
  plan->begin = broadcast(7000);
  if (random_one_in(random, 2))
    plan_evaluation(program, plan, random);
}

static void plan_in_front(const struct program *program, struct plan *plan, uint64_t *random) {
  plan_evaluation(program, plan, random);
  plan->front = (enum front)(1 + random_below(random, FRONTS - 1));
  plan->in_front = scalar();
  plan->front_value = 2 + random_below(random, 2);
  plan->front_when = WHEN_AGREED;
  if (program->row.imbalance != IMBALANCE_NONE)
    plan->front_when = random_one_in(random, 2) ? WHEN_RANK : WHEN_LOCAL;
  if (plan->front_when == WHEN_RANK)
    plan->front_value = random_below(random, program->nranks);
}

static void plan_shares(const struct program *program, struct plan *plan, uint64_t *random) {
  plan->shares = true;
  plan->shares_epochs = random_one_in(random, 2);
  if (random_one_in(random, 2))
    plan_log(program, plan, random);
  if (random_one_in(random, 3))
    plan_loss_like_barrier(program, plan, random);
  else if (random_one_in(random, 2))
    plan_evaluation(program, plan, random);
}

static void plan_several(const struct program *program, struct plan *plan, uint64_t *random) {
  if (random_one_in(random, 2))
    plan_log(program, plan, random);
  if (random_one_in(random, 4))
    plan->nafter = 0;
}

static void plan_exits_several(const struct program *program, struct plan *plan, uint64_t *random) {
  plan_several(program, plan, random);
  plan_exits(program, plan, random);
}

typedef void (*plan_function)(const struct program *program, struct plan *plan, uint64_t *random);

static const plan_function plan_functions[CLASSES] = {
    [CLASS_LOG] = plan_log,
    [CLASS_LOG_NEARLY_EVEN] = plan_log_nearly_even,
    [CLASS_EVALUATION_EVEN] = plan_evaluation,
    [CLASS_EVALUATION_UNEVEN] = plan_evaluation,
    [CLASS_EVALUATION_IN_LOOP] = plan_evaluation_in_loop,
    [CLASS_EVALUATION_EQUAL_UNITS] = plan_equal_units,
    [CLASS_EVALUATION_LIKE_TRAINING_EVEN] = plan_like_training,
    [CLASS_EVALUATION_LIKE_TRAINING_UNEVEN] = plan_like_training,
    [CLASS_ACCUMULATION] = plan_accumulation,
    [CLASS_WARM_UP] = plan_warm_up,
    [CLASS_UNFROZEN] = plan_unfrozen,
    [CLASS_EARLY_STOP] = plan_early_stop,
    [CLASS_CHECKPOINTS] = plan_checkpoints,
    [CLASS_REBUILT] = plan_rebuilt,
    [CLASS_NO_DATA_FIRST] = plan_for_no_data,
    [CLASS_NO_DATA_LATER] = plan_for_no_data,
    [CLASS_LOSS_LIKE_BARRIER] = plan_loss_like_barrier,
    [CLASS_ONE_UNIT] = plan_one_unit,
    [CLASS_BEGINS_LIKE_AFTER] = plan_begins_like_after,
    [CLASS_LOG_LIKE_BARRIER] = plan_log_like_barrier,
    [CLASS_NOTHING_AFTER] = plan_nothing_after,
    [CLASS_BREAK] = plan_exits,
    [CLASS_CONTINUE] = plan_skips,
    [CLASS_LOCAL_BRANCHES] = plan_branches,
    [CLASS_END_IN_BRANCH] = plan_end_in_branch,
    [CLASS_STATES] = plan_states,
    [CLASS_BEGINS] = plan_begins,
    [CLASS_IN_FRONT] = plan_in_front,
    [CLASS_SHARES] = plan_shares,
    [CLASS_HALVES_BY_REPLICA] = plan_several,
    [CLASS_GRID_BY_REPLICA] = plan_several,
    [CLASS_GRID_WORLD_BY_REPLICA] = plan_several,
    [CLASS_HALVES_BY_RANK] = plan_several,
    [CLASS_GRID_BY_RANK] = plan_several,
    [CLASS_GRID_WORLD_BY_RANK] = plan_several,
    [CLASS_BREAK_SEVERAL] = plan_exits_several,
    [CLASS_HASTY] = plan_several,
    [CLASS_FAILING] = plan_several,
};

/* Some of the units get the signature of others: any of the program's, of the same team. */
static void plan_collisions(struct plan *plan, uint64_t *random) {
  struct slot *all[PLAN_BODY_MAX + PLAN_AFTER_MAX + PLAN_BODY_MAX + 4];
  uint32_t n = 0;
  for (uint32_t i = 0; i < plan->nbody; i++)
    all[n++] = &plan->body[i];
  for (uint32_t i = 0; i < plan->nafter; i++)
    all[n++] = &plan->after[i];
  for (uint32_t i = 0; i < plan->nevaluation; i++)
    all[n++] = &plan->evaluation[i];
  if (plan->log_every != 0)
    all[n++] = &plan->log;
  if (plan->front != FRONT_OF_NONE)
    all[n++] = &plan->in_front;
  for (uint32_t i = 0; i < n; i++) {
    const struct slot *other = all[random_below(random, n)];
    if (random_one_in(random, 2) && other->axis == all[i]->axis)
      *all[i] = *other;
  }
}

void plan_random(const struct program *program, struct plan *plan, uint64_t *random) {
  *plan = (struct plan){0};
  plan_body(program, plan, random);
  plan_after(program, plan, random);
  if (plan_functions[program->row.class] != NULL)
    plan_functions[program->row.class](program, plan, random);
  if (random_one_in(random, 3))
    plan_collisions(plan, random);
  if (program->nteams == 1 && random_one_in(random, 2)) {
    plan->ninit = 1 + random_below(random, 3);
    plan->init = random_one_in(random, 3) ? plan->body[0] : broadcast(5000);
  }
  if (program->nteams == 1 && plan->nlast == 0 && random_one_in(random, 4)) {
    plan->nlast = 1;
    plan->last = scalar();
  }
  for (uint32_t i = plan->losses; i < plan->nbody && random_one_in(random, 3); i++)
    plan->layers[i] = random_one_in(random, 3) ? 2 + random_below(random, 3) : 0;
  bool leaves = row_has(program->row, TRAIT_INSIDE); /* not out of a function */
  plan->in_train = random_one_in(random, 2);
  plan->in_step = !leaves && (plan->shared_step || random_one_in(random, 3));
  plan->in_validate = random_one_in(random, 2);
  plan->odd_rank = random_one_in(random, 2) ? 0 : random_below(random, program->nranks);
  plan->all_wrapped = random_one_in(random, 2);
  plan->draws = random_next(random);
}
