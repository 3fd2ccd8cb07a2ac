/* The handwritten digits of tests/data, as numbers. */
#ifndef PROGRAMS_DIGITS_H
#define PROGRAMS_DIGITS_H

enum { DIGITS_PIXELS = 64, DIGITS_CLASSES = 10, DIGITS_MAX = 2000 };

struct digits {
  int n;
  float pixels[DIGITS_MAX][DIGITS_PIXELS]; /* 0 to 1 */
  int labels[DIGITS_MAX];                  /* 0 to 9 */
};

/* Reads rows of 64 pixels (0 to 16) and the digit, separated by commas. Ends the program if it
 * cannot. The caller frees it. */
struct digits *digits_read(const char *path);

#endif
