/* Reads the digits. */
#include "tests/programs/digits.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROW_SIZE = 512, PIXEL_MAX = 16 };

/* One row; false at the end of the file, or where a row is not as it should be. */
static bool read_row(FILE *file, float *pixels, int *label) {
  char row[ROW_SIZE], *rest = row;
  if (fgets(row, sizeof row, file) == NULL)
    return false;
  for (int p = 0; p < DIGITS_PIXELS; p++) {
    pixels[p] = (float)strtol(rest, &rest, 10) / PIXEL_MAX;
    if (*rest++ != ',')
      return false;
  }
  *label = (int)strtol(rest, &rest, 10);
  return *label >= 0 && *label < DIGITS_CLASSES;
}

struct digits *digits_read(const char *path) {
  struct digits *digits = calloc(1, sizeof *digits);
  FILE *file = fopen(path, "r");
  if (file == NULL || digits == NULL) {
    fprintf(stderr, "cannot read the digits in %s: make the target programs first\n", path);
    exit(1);
  }
  while (digits->n < DIGITS_MAX &&
         read_row(file, digits->pixels[digits->n], &digits->labels[digits->n]))
    digits->n++;
  fclose(file);
  if (digits->n < 1000) {
    fprintf(stderr, "%s holds %d digits only\n", path, digits->n);
    exit(1);
  }
  return digits;
}
