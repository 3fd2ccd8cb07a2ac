/* Rows: how a benchmark says what it has measured. A benchmark is a program that is run without
 * arguments and prints its rows, one JSON object a line, on stdout, and nothing else there:
 *
 *   {"section": "…", "name": "…", "unit": "ns", "median": 12.5, "low": 12.1, "high": 13,
 *    "samples": 21, "goal": "at most 20"}
 *
 * low and high are the first and the third quartile of the samples; goal is left out where there is
 * none. report.c makes the tables and build/bench.json of all rows. A benchmark never
 * fails because something is slow. It ends with a status other than 0, and a line on stderr, if it
 * could not measure.
 *
 * Its environment: BENCH_BUILD, the build folder (absolute); BENCH_QUICK=1, the fewest samples that
 * show that it works.
 *
 * To add one, append it to BENCHMARKS in rules.mk.
 */
#ifndef NCCL_JOIN_TOOLS_BENCH_ROWS_H
#define NCCL_JOIN_TOOLS_BENCH_ROWS_H

#include <stdbool.h>
#include <stddef.h>

/* One thing measured. Texts may hold any characters. */
struct row {
  const char *section; /* heading of its table; several programs may print rows of one section */
  const char *name;    /* what was measured; occurs once in its section */
  const char *unit;    /* "ns", "instructions", "%" */
  const char *goal;    /* "at most 20"; NULL: none */
};

/* Prints the row with the median and the quartiles of at least one sample, which it sorts. */
void row_print(const struct row *row, double *samples, size_t nsamples);

/* The same for what is exact, such as a count. */
void row_print_exact(const struct row *row, double value);

/* The value below which the part (0 to 1) of the samples lies, between two samples in proportion;
 * 0.5 is the median. Sorts them. nsamples is at least 1. */
double row_quantile(double *samples, size_t nsamples, double part);

/* The mean of the middle half of at least four samples: as little moved by a few long ones as the
 * median, and finer where a clock counts in steps. Sorts them. */
double row_middle_mean(double *samples, size_t nsamples);

/* Whether BENCH_QUICK asks for few samples. */
bool row_is_quick(void);

#endif
