/* Rows as JSON lines (rows.h). */
#include "tools/bench/rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double row_quantile(double *samples, size_t nsamples, double part) {
  qsort(samples, nsamples, sizeof *samples, by_value);
  double position = part * (double)(nsamples - 1);
  size_t below = (size_t)position;
  size_t above = below + 1 < nsamples ? below + 1 : below;
  return samples[below] + (position - (double)below) * (samples[above] - samples[below]);
}

double row_middle_mean(double *samples, size_t nsamples) {
  qsort(samples, nsamples, sizeof *samples, by_value);
  size_t quarter = nsamples / 4;
  double sum = 0;
  for (size_t i = quarter; i < nsamples - quarter; i++)
    sum += samples[i];
  return sum / (double)(nsamples - 2 * quarter);
}

bool row_is_quick(void) {
  const char *quick = getenv("BENCH_QUICK");
  return quick != NULL && strcmp(quick, "1") == 0;
}

static void print_text(const char *name, const char *text) {
  printf("\"%s\": \"", name);
  for (; *text != '\0'; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < ' ')
      printf("\\u%04x", c);
    else
      printf(c == '"' || c == '\\' ? "\\%c" : "%c", c);
  }
  printf("\", ");
}

/* Nine digits are more than any of this is good for. JSON has no infinities. */
static void print_number(const char *name, double value) {
  printf("\"%s\": %.9g, ", name, isfinite(value) ? value : 0);
}

void row_print(const struct row *row, double *samples, size_t nsamples) {
  putchar('{');
  print_text("section", row->section);
  print_text("name", row->name);
  print_text("unit", row->unit);
  print_number("median", row_quantile(samples, nsamples, 0.5));
  print_number("low", row_quantile(samples, nsamples, 0.25));
  print_number("high", row_quantile(samples, nsamples, 0.75));
  if (row->goal != NULL)
    print_text("goal", row->goal);
  printf("\"samples\": %zu}\n", nsamples);
  fflush(stdout);
}

void row_print_exact(const struct row *row, double value) {
  row_print(row, &value, 1);
}
