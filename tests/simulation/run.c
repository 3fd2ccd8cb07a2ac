/* Running many random programs (run.h). */
#include "tests/simulation/run.h"

const struct requirement requirements[REQUIREMENTS] = {
    {GROUP_ONE_CONSTANT, "one team, constant", 1},
    {GROUP_ONE_VARYING, "one team, varying", 0.99},
    {GROUP_ALIKE_CONSTANT, "a loss like the barrier, constant", 0.97},
    {GROUP_ALIKE_VARYING, "a loss like the barrier, varying", 0.93},
    {GROUP_SEVERAL_BY_REPLICA, "several teams, by replica", 0.95},
    {GROUP_SEVERAL_BY_RANK, "several teams, by rank", 0.95},
};

static void add_row(struct tally_row *row, const struct tally_row *more) {
  row->programs += more->programs;
  row->stuck += more->stuck;
  row->indices += more->indices;
  row->met += more->met;
  row->reals += more->reals;
  row->shadows += more->shadows;
  row->commits += more->commits;
  row->claims += more->claims;
  row->yields += more->yields;
  row->late_yields += more->late_yields;
  row->waits += more->waits;
}

void tally_add(struct tally *tally, const struct tally *more) {
  for (uint32_t row = 0; row < PROGRAM_ROWS; row++)
    add_row(&tally->rows[row], &more->rows[row]);
  tally->failures += more->failures;
}

const char *run_program(uint64_t seed, struct tally *tally) {
  static struct program program;
  program_random(&program, seed);
  struct simulation result = simulate(&program, seed, false);
  uint32_t row = program_row(&program);
  add_row(&tally->rows[row], &(struct tally_row){
                                 .programs = 1,
                                 .stuck = result.stuck_on_device,
                                 .indices = result.indices,
                                 .met = result.met,
                                 .reals = result.reals,
                                 .shadows = result.shadows,
                                 .commits = result.commits,
                                 .claims = result.claims,
                                 .yields = result.yields,
                                 .late_yields = result.late_yields,
                                 .waits = result.waits,
                             });
  const char *wrong = result.mismatch      ? "ranks issued different units at one index"
                      : result.deadlock    ? "nobody can move"
                      : result.wrong_order ? "a rank's real units are not its program"
                      : result.stuck_on_device && !program.hasty
                          ? "ranks wait for the device for ever"
                          : NULL;
  tally->failures += wrong != NULL;
  return wrong;
}

double row_share(const struct tally_row *row) {
  return row->indices == 0 ? 1 : (double)row->met / (double)row->indices;
}

struct tally_row group_sum(const struct tally *tally, enum program_group group) {
  struct tally_row sum = {0};
  for (uint32_t row = 0; row < PROGRAM_ROWS; row++)
    if (program_row_group(row) == group)
      add_row(&sum, &tally->rows[row]);
  return sum;
}
