/* That the truth is seen (meetings.h): doubles of the agreement, of which one knows all that a
 * program means, and one only what its units look like. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/simulation/ranks.h"
#include "tests/simulation/shrink.h"

static struct program program;

struct program_rank {
  struct step *steps;
  uint64_t nsteps, room, next;
};
static struct program_rank ranks[PROGRAM_RANKS_MAX];

static bool is_same_instance(const struct step *a, const struct step *b) {
  return memcmp(&a->instance, &b->instance, sizeof(a->instance)) == 0;
}

static bool is_alike(const struct step *a, const struct step *b) {
  return nccl_signature(step_unit(a)) == nccl_signature(step_unit(b));
}

/* Whether a rank will come to the instance, but not with its next unit. */
static bool comes_later(const struct program_rank *rank, const struct step *step) {
  for (uint64_t i = rank->next + 1; i < rank->nsteps; i++)
    if (is_same_instance(&rank->steps[i], step))
      return true;
  return false;
}

/* A unit that no rank will come to later on: there is one as long as there is any. */
static const struct step *next_known(void) {
  for (uint32_t rank = 0; rank < program.nranks; rank++) {
    const struct step *step = &ranks[rank].steps[ranks[rank].next];
    bool later = ranks[rank].next == ranks[rank].nsteps;
    for (uint32_t other = 0; other < program.nranks && !later; other++)
      later = comes_later(&ranks[other], step);
    if (!later)
      return step;
  }
  return NULL;
}

/* The next one of the rank that has most before it. */
static const struct step *next_seen(void) {
  const struct program_rank *most = &ranks[0];
  for (uint32_t rank = 1; rank < program.nranks; rank++)
    if (ranks[rank].nsteps - ranks[rank].next > most->nsteps - most->next)
      most = &ranks[rank];
  return most->next < most->nsteps ? &most->steps[most->next] : NULL;
}

/* Agrees on one unit after the other: of all ranks whose next unit is the same, by what they mean
 * or by what they look like. */
static struct meetings_sum agree(bool knows, bool *mismatch) {
  struct meetings *meetings = meetings_create();
  const struct step *step;
  for (uint32_t rank = 0; rank < program.nranks; rank++) {
    ranks[rank].nsteps = program_steps(&program, rank, &ranks[rank].steps, &ranks[rank].room);
    ranks[rank].next = 0;
  }
  for (uint64_t index = 0; (step = knows ? next_known() : next_seen()) != NULL; index++)
    for (uint32_t rank = 0; rank < program.nranks; rank++) {
      const struct step *own = &ranks[rank].steps[ranks[rank].next];
      bool real = ranks[rank].next < ranks[rank].nsteps &&
                  (knows ? is_same_instance(own, step) : is_alike(own, step));
      ranks[rank].next += real;
      meetings_add(meetings, index, nccl_signature(step_unit(step)), real ? &own->instance : NULL,
                   mismatch);
    }
  struct meetings_sum sum = meetings_sum(meetings);
  meetings_destroy(meetings);
  return sum;
}

/* Programs of few steps, as what the doubles do is not fast. */
static bool take(uint64_t seed, enum imbalance imbalance) {
  struct row row = row_of_seed(seed);
  if (row_has(row, TRAIT_SEVERAL | TRAIT_ANYHOW) || row.imbalance != imbalance)
    return false;
  program_random(&program, seed);
  return program.nranks <= 4 && program.epochs <= 3 && program.data.training[0][0] < 16;
}

Test(meetings, nothing_is_wrong_where_all_is_known) {
  bool mismatch = false;
  uint64_t programs = 0;
  for (uint64_t seed = 0; seed < 3 * ROWS; seed++) {
    if (!take(seed, IMBALANCE_VARYING))
      continue;
    struct meetings_sum sum = agree(true, &mismatch);
    cr_assert_eq(sum.met, sum.indices, "seed %lu", seed);
    cr_assert_eq(sum.wrong + sum.split, 0, "seed %lu", seed);
    cr_assert_not(mismatch, "seed %lu", seed);
    programs++;
  }
  cr_assert_gt(programs, 100);
}

Test(meetings, what_merges_all_that_looks_alike_is_found_out) {
  bool mismatch = false;
  uint64_t wrong[CLASSES] = {0}, silent = 0, all = 0;
  for (uint64_t seed = 0; seed < 8 * ROWS; seed++) {
    if (!take(seed, IMBALANCE_VARYING))
      continue;
    struct meetings_sum sum = agree(false, &mismatch);
    wrong[program.row.class] += sum.wrong > 0;
    silent += sum.silent;
    all += sum.wrong > 0;
  }
  cr_assert_not(mismatch);
  cr_assert_gt(all, 100);
  cr_assert_eq(silent, all, "nothing was told");
  static const enum class looking_alike[] = {CLASS_EVALUATION_LIKE_TRAINING_EVEN,
                                             CLASS_ONE_UNIT,
                                             CLASS_BEGINS_LIKE_AFTER,
                                             CLASS_LOSS_LIKE_BARRIER,
                                             CLASS_LOG_LIKE_BARRIER,
                                             CLASS_NO_DATA_FIRST};
  for (uint32_t i = 0; i < sizeof(looking_alike) / sizeof(looking_alike[0]); i++)
    cr_expect_gt(wrong[looking_alike[i]], 0, "%s", classes[looking_alike[i]].name);
}

Test(meetings, even_programs_meet_however_they_are_known) {
  bool mismatch = false;
  for (uint64_t seed = 0; seed < 2 * ROWS; seed++) {
    if (!take(seed, IMBALANCE_NONE))
      continue;
    struct meetings_sum sum = agree(false, &mismatch);
    cr_assert_eq(sum.met, sum.indices, "seed %lu", seed);
    cr_assert_eq(sum.split, 0, "seed %lu", seed);
  }
}

/* ---- by hand ---- */

static struct meetings *meetings;

static void setup(void) {
  meetings = meetings_create();
}
static void teardown(void) {
  meetings_destroy(meetings);
}
TestSuite(meetings_by_hand, .init = setup, .fini = teardown);

static enum meeting add(uint64_t index, struct instance instance) {
  bool mismatch = false;
  enum meeting meeting = meetings_add(meetings, index, 77, &instance, &mismatch);
  cr_assert_not(mismatch);
  return meeting;
}

Test(meetings_by_hand, points_epochs_and_iterations_are_told_apart) {
  add(0, (struct instance){.point = 1, .epoch = 2, .iteration = 3});
  cr_expect_eq(add(0, (struct instance){.point = 1, .epoch = 2, .iteration = 3}), MEETING_SAME);
  cr_expect_eq(add(0, (struct instance){.point = 1, .epoch = 2, .iteration = 4}),
               MEETING_OTHER_ITERATION);
  cr_expect_eq(add(0, (struct instance){.point = 1, .epoch = 1, .iteration = 3}),
               MEETING_OTHER_EPOCH);
  cr_expect_eq(add(0, (struct instance){.point = 2, .epoch = 2, .iteration = 3}), MEETING_WRONG);
  struct meetings_sum sum = meetings_sum(meetings);
  cr_expect_eq(sum.wrong, 1);
  cr_expect_eq(sum.other_epoch + sum.other_iteration + sum.met, 0);
}

Test(meetings_by_hand, a_warn_counts_from_its_index_on) {
  add(5, (struct instance){.point = 1});
  add(5, (struct instance){.point = 2});
  cr_expect(meetings_sum(meetings).silent);
  meetings_told(meetings, 6);
  cr_expect(meetings_sum(meetings).silent);
  meetings_told(meetings, 5);
  cr_expect_not(meetings_sum(meetings).silent);
}

Test(meetings_by_hand, shadows_mean_nothing_but_have_a_signature) {
  bool mismatch = false;
  add(0, (struct instance){.point = 1});
  cr_expect_eq(meetings_add(meetings, 0, 77, NULL, &mismatch), MEETING_SAME);
  cr_expect_not(mismatch);
  meetings_add(meetings, 0, 78, NULL, &mismatch);
  cr_expect(mismatch);
}

Test(meetings_by_hand, who_misses_the_others_is_counted) {
  for (uint32_t i = 0; i < 1000; i++)
    add(i, (struct instance){.point = 1, .iteration = i});
  cr_expect_eq(meetings_sum(meetings).split, 0);
  add(1000, (struct instance){.point = 1, .iteration = 7});
  cr_expect_eq(meetings_sum(meetings).split, 1);
}

/* ---- making programs smaller ---- */

Test(shrink, a_smaller_program_shows_the_same) {
  static struct program smaller;
  for (uint64_t seed = 0; seed < ROWS; seed++) {
    struct row row = row_of_seed(seed);
    if (row.class != CLASS_PLAIN || row.imbalance == IMBALANCE_NONE)
      continue;
    program_random(&program, seed);
    smaller = program;
    program_shrink(&smaller, seed, MEASURE_SHADOWED);
    if (!program_shows(&program, seed, MEASURE_SHADOWED))
      continue;
    cr_assert(program_shows(&smaller, seed, MEASURE_SHADOWED));
    cr_assert_eq(smaller.nranks, 2, "seed %lu", seed);
    cr_assert_eq(smaller.epochs, 1, "seed %lu", seed);
  }
}
