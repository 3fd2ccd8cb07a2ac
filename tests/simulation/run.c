/* Running random programs, and counting what comes of them (run.h). */
#include "tests/simulation/run.h"

const char *const measures[MEASURES] = {
    [MEASURE_PROGRAMS] = "programs",
    [MEASURE_WITH_DATA] = "with_data",
    [MEASURE_WITHOUT] = "without_data",
    [MEASURE_WRONG] = "wrong",
    [MEASURE_WRONG_WITH_DATA] = "wrong_with_data",
    [MEASURE_WRONG_WITHOUT] = "wrong_without_data",
    [MEASURE_SILENT] = "silent",
    [MEASURE_TOLD] = "told",
    [MEASURE_TOLD_WHOLE] = "told_whole",
    [MEASURE_NEEDLESS] = "told_without_need",
    [MEASURE_APART] = "apart",
    [MEASURE_SILENT_APART] = "silent_apart",
    [MEASURE_HANGS] = "hangs",
    [MEASURE_MISMATCHES] = "mismatches",
    [MEASURE_SHADOWED] = "shadowed",
    [MEASURE_INDICES] = "indices",
    [MEASURE_UNMET] = "unmet_indices",
    [MEASURE_COMMON_INDICES] = "common_indices",
    [MEASURE_COMMON_UNMET] = "common_unmet_indices",
    [MEASURE_WRONG_INDICES] = "wrong_indices",
    [MEASURE_OTHER_EPOCH] = "other_epoch_indices",
    [MEASURE_OTHER_ITERATION] = "other_iteration_indices",
    [MEASURE_SPLIT] = "split",
    [MEASURE_REALS] = "reals",
    [MEASURE_SHADOWS] = "shadows",
    [MEASURE_CLAIMS] = "claims",
    [MEASURE_YIELDS] = "yields",
    [MEASURE_LATE_YIELDS] = "late_yields",
    [MEASURE_WAITS] = "waits",
    [MEASURE_MESSAGES] = "messages",
    [MEASURE_BYTES] = "bytes",
    [MEASURE_STILLS] = "stills",
};

static void add_row(struct tally_row *row, const struct tally_row *more) {
  for (uint32_t i = 0; i < MEASURES; i++) {
    row->count[i] += more->count[i];
    if (more->seed[i] != 0 && (row->seed[i] == 0 || more->seed[i] < row->seed[i]))
      row->seed[i] = more->seed[i];
  }
}

void tally_add(struct tally *tally, const struct tally *more) {
  for (uint32_t row = 0; row < ROWS; row++)
    add_row(&tally->rows[row], &more->rows[row]);
}

/* Whether every rank has at least one whole iteration in the first epoch: who leaves its only one
 * in the middle has not come to the rest of the loop. */
static bool has_data_first(const struct program *program) {
  bool all = true;
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    all &= program->data.training[0][rank] > (program->data.exits[0][rank] != 0 ? 1u : 0u);
  return all;
}

static bool has_data_always(const struct program *program) {
  bool all = true;
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++)
      all &= program->data.training[epoch][rank] > 0;
  return all;
}

static uint32_t machines = 1;

void run_on_machines(uint32_t nmachines) {
  machines = nmachines;
}

const char *run_this(const struct program *program, uint64_t seed, struct tally_row *row) {
  struct layout layout = layout_random(program, machines, seed);
  struct simulation result = simulate_on(program, &layout, seed, false);
  bool hangs = result.deadlock || (result.stuck_on_device && !program->hasty);
  bool wrong = result.wrong > 0, twins = tree_has_twins(&program->tree);
  bool with_data = has_data_first(program) && !twins;
  bool without_data = !has_data_first(program) && !twins;
  bool common = !tree_counts_own_steps(&program->tree) &&
                (has_data_always(program) || !tree_goes_from_loop_to_loop(&program->tree));
  struct tally_row one = {
      .count = {
          [MEASURE_PROGRAMS] = 1,
          [MEASURE_WITH_DATA] = with_data,
          [MEASURE_WITHOUT] = without_data,
          [MEASURE_WRONG] = wrong,
          [MEASURE_WRONG_WITH_DATA] = wrong && with_data,
          [MEASURE_WRONG_WITHOUT] = wrong && without_data,
          [MEASURE_SILENT] = result.silent,
          [MEASURE_TOLD] = result.told,
          [MEASURE_TOLD_WHOLE] = result.told && !tree_has_halves(&program->tree),
          [MEASURE_NEEDLESS] = result.told && result.met == result.indices,
          [MEASURE_APART] = result.other_epoch + result.other_iteration > 0,
          [MEASURE_SILENT_APART] = result.silent_apart,
          [MEASURE_HANGS] = hangs,
          [MEASURE_MISMATCHES] = result.mismatch || result.wrong_order,
          [MEASURE_SHADOWED] = result.shadows > 0,
          [MEASURE_INDICES] = result.indices,
          [MEASURE_UNMET] = result.indices - result.met,
          [MEASURE_COMMON_INDICES] = common ? result.indices : 0,
          [MEASURE_COMMON_UNMET] = common ? result.indices - result.met : 0,
          [MEASURE_WRONG_INDICES] = result.wrong,
          [MEASURE_OTHER_EPOCH] = result.other_epoch,
          [MEASURE_OTHER_ITERATION] = result.other_iteration,
          [MEASURE_SPLIT] = result.split,
          [MEASURE_REALS] = result.reals,
          [MEASURE_SHADOWS] = result.shadows,
          [MEASURE_CLAIMS] = result.claims,
          [MEASURE_YIELDS] = result.yields,
          [MEASURE_LATE_YIELDS] = result.late_yields,
          [MEASURE_WAITS] = result.waits,
          [MEASURE_MESSAGES] = result.traffic.messages,
          [MEASURE_BYTES] = result.traffic.bytes,
          [MEASURE_STILLS] =
              program->nteams == 1 && program->failing == FAILING_NEVER ? result.traffic.stills : 0,
      }};
  for (uint32_t i = 0; i < MEASURES; i++)
    one.seed[i] = one.count[i] != 0 ? seed + 1 : 0;
  add_row(row, &one);
  return result.mismatch      ? "ranks issued different units at one index"
         : result.deadlock    ? "nobody can move"
         : result.wrong_order ? "a rank's real units are not its program"
         : hangs              ? "ranks wait for the device for ever"
                              : NULL;
}

const char *run_program(uint64_t seed, struct tally *tally) {
  static struct program program;
  program_random(&program, seed);
  return run_this(&program, seed, &tally->rows[row_number(program.row)]);
}

double row_share(const struct tally_row *row, enum measure of, enum measure per) {
  return row->count[per] == 0 ? 0 : (double)row->count[of] / (double)row->count[per];
}

struct tally_row requirement_sum(const struct requirement *requirement, const struct tally *tally,
                                 struct row *worst) {
  struct tally_row sum = {0};
  double most = -1;
  for (uint32_t i = 0; i < ROWS; i++) {
    if (!requirement_is_of(requirement, row_of(i)))
      continue;
    const struct tally_row *row = &tally->rows[i];
    add_row(&sum, row);
    double share = row_share(row, requirement->of, requirement->per);
    if (share <= most)
      continue;
    most = share;
    *worst = row_of(i);
  }
  return sum;
}
