/* Reads the digits. */
#include "tests/programs/digits.h"

#include <stdio.h>
#include <stdlib.h>

/* One row; false at the end of the file. */
static int read_row(FILE *file, float *pixels, int *label) {
  for (int p = 0; p < DIGITS_PIXELS; p++) {
    int pixel;
    if (fscanf(file, "%d,", &pixel) != 1)
      return 0;
    pixels[p] = (float)pixel / 16;
  }
  return fscanf(file, "%d", label) == 1 && *label >= 0 && *label < DIGITS_CLASSES;
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
