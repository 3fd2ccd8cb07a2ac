/* Tables (report.h). */
#include "tests/simulation/report.h"

#include "tests/simulation/shrink.h"

void report_rows(FILE *file, const struct tally *tally) {
  fputs("class\timbalance\tplaces", file);
  for (uint32_t i = 0; i < MEASURES; i++)
    fprintf(file, "\t%s", measures[i]);
  fputs("\tseed_wrong\tseed_silent\tseed_apart\n", file);
  for (uint32_t at = 0; at < ROWS; at++) {
    static const char *const imbalances[IMBALANCES] = {"even", "constant", "varying"};
    const struct tally_row *row = &tally->rows[at];
    struct row name = row_of(at);
    if (row->count[MEASURE_PROGRAMS] == 0)
      continue;
    fprintf(file, "%s\t%s\t%s", classes[name.class].name, imbalances[name.imbalance],
            sights[name.sight]);
    for (uint32_t i = 0; i < MEASURES; i++)
      fprintf(file, "\t%llu", (unsigned long long)row->count[i]);
    fprintf(file, "\t%lld\t%lld\t%lld\n", (long long)row->seed[MEASURE_WRONG] - 1,
            (long long)row->seed[MEASURE_SILENT] - 1, (long long)row->seed[MEASURE_APART] - 1);
  }
}

/* ---- classes ---- */

/* Of a class: rows with these imbalances and sights, as bit sets. */
static struct tally_row sum_of(const struct tally *tally, enum class class, uint32_t imbalances,
                               uint32_t seen) {
  const struct requirement all = {.sights = seen, .imbalances = imbalances};
  struct tally_row sum = {0};
  for (uint32_t at = 0; at < ROWS; at++)
    if (row_of(at).class == class && requirement_is_of(&all, row_of(at)))
      for (uint32_t i = 0; i < MEASURES; i++)
        sum.count[i] += tally->rows[at].count[i];
  return sum;
}

static double percent(const struct tally_row *row, enum measure of, enum measure per) {
  return 100 * row_share(row, of, per);
}

static void print_class(FILE *file, const struct tally *tally, enum class class) {
  uint32_t uneven = 1u << IMBALANCE_CONSTANT | 1u << IMBALANCE_VARYING;
  struct tally_row all = sum_of(tally, class, UINT32_MAX, UINT32_MAX);
  if (all.count[MEASURE_PROGRAMS] == 0)
    return;
  fprintf(file, "%-31s", classes[class].name);
  for (uint32_t sight = 0; sight < SIGHTS; sight++) {
    struct tally_row row = sum_of(tally, class, uneven, 1u << sight);
    fprintf(file, " %6.2f %6.2f |", percent(&row, MEASURE_WRONG, MEASURE_PROGRAMS),
            percent(&row, MEASURE_SILENT, MEASURE_PROGRAMS));
  }
  struct tally_row row = sum_of(tally, class, uneven, 1u << SIGHT_VISIBLE);
  struct tally_row even = sum_of(tally, class, 1u << IMBALANCE_NONE, UINT32_MAX);
  fprintf(file, " %7.3f %6.2f %6.2f %6.3f %6.2f | %6.2f %llu\n",
          100 - percent(&row, MEASURE_COMMON_UNMET, MEASURE_COMMON_INDICES),
          percent(&row, MEASURE_APART, MEASURE_PROGRAMS),
          percent(&row, MEASURE_SILENT_APART, MEASURE_PROGRAMS),
          percent(&row, MEASURE_SPLIT, MEASURE_REALS), percent(&row, MEASURE_CLAIMS, MEASURE_REALS),
          percent(&even, MEASURE_CLAIMS, MEASURE_REALS),
          (unsigned long long)even.count[MEASURE_SHADOWS]);
}

void report_classes(FILE *file, const struct tally *tally) {
  fprintf(file, "%-31s", "of uneven programs, in percent");
  for (uint32_t sight = 0; sight < SIGHTS; sight++)
    fprintf(file, " %-13.13s |", sights[sight]);
  fprintf(file, " %-35s | even\n", "visible");
  fprintf(file, "%-31s", "");
  for (uint32_t sight = 0; sight < SIGHTS; sight++)
    fprintf(file, " %6s %6s |", "wrong", "silent");
  fprintf(file, " %7s %6s %6s %6s %6s | %6s %s\n", "met", "apart", "silent", "split", "claims",
          "claims", "shadows");
  for (uint32_t class = 0; class < CLASSES; class ++)
    print_class(file, tally, (enum class) class);
  fputs("\nwrong: programs in which units of different points met; silent: no WARN by then\n"
        "met: of indices, those where all real units were of one point, epoch and iteration;\n"
        "     without programs in which ranks issue something by counts of their own steps\n"
        "apart: programs in which units of one point, but of different epochs or iterations met\n"
        "split: of real units, those that missed their like\n"
        "claims: of real units, those that ranks had to agree on\n\n",
        file);
}

/* ---- requirements ---- */

/* The program that breaks it, as small as it can be made. */
static void print_culprit(uint64_t seed, enum measure measure) {
  static struct program program;
  char name[ROW_NAME_SIZE];
  program_random(&program, seed);
  printf("\nseed %llu, %s, %s:\n", (unsigned long long)seed, row_name(program.row, name),
         measures[measure]);
  program_shrink(&program, seed, measure);
  program_print(&program);
}

bool report_requirements(FILE *file, const struct tally *tally) {
  uint64_t culprits[REQUIREMENTS] = {0};
  bool all = true;
  fprintf(file, "%-42s %12s %12s %9s %9s\n", "", "", "of", "share", "at most");
  for (uint32_t i = 0; i < REQUIREMENTS; i++) {
    const struct requirement *requirement = &requirements[i];
    struct row worst = {0};
    char name[ROW_NAME_SIZE];
    struct tally_row sum = requirement_sum(requirement, tally, &worst);
    double share = row_share(&sum, requirement->of, requirement->per);
    bool holds = share <= requirement_limit(requirement);
    fprintf(file, "%-42s %12llu %12llu %8.4f%% %8.4f%% %s", requirement->name,
            (unsigned long long)sum.count[requirement->of],
            (unsigned long long)sum.count[requirement->per], 100 * share, 100 * requirement->goal,
            share <= requirement->goal ? "yes"
            : holds                    ? "not yet"
                                       : "NO");
    if (share > requirement->goal) {
      const struct tally_row *row = &tally->rows[row_number(worst)];
      fprintf(file, ": %s (%.3f%%), seed %llu", row_name(worst, name),
              percent(row, requirement->of, requirement->per),
              (unsigned long long)row->seed[requirement->of] - 1);
      culprits[i] = holds ? 0 : row->seed[requirement->of];
    }
    fputc('\n', file);
    all &= holds;
  }
  for (uint32_t i = 0; i < REQUIREMENTS; i++)
    if (culprits[i] != 0)
      print_culprit(culprits[i] - 1, requirements[i].of);
  return all;
}
