/* The functions of steps.h. */
#include "tests/interpose/parts/steps.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#pragma GCC visibility push(default)

long step_integers(long a, long b, long c, long d, long e, long f, long g, long h, long i) {
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i;
}

double step_doubles(double a, double b, double c, double d, double e, double f, double g, double h,
                    double i, double j, int k) {
  return k * (a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + 9 * i + 10 * j);
}

float step_float(float a, int b, float c) {
  return a * (float)b + c;
}

long double step_long_double(long double a, long double b) {
  return a / b;
}

double complex step_complex(double complex a) {
  return a * a;
}

struct large step_large(struct large a, int factor) {
  a.x *= factor;
  a.y *= factor;
  for (int i = 0; i < 4; i++)
    a.z[i] *= factor;
  return a;
}

double step_variadic(int count, ...) {
  va_list values;
  double sum = 0;
  va_start(values, count);
  for (int i = 1; i <= count; i++)
    sum += i * va_arg(values, double);
  va_end(values);
  return sum;
}

long step_variadic_integers(int count, ...) {
  va_list values;
  long sum = 0;
  va_start(values, count);
  for (int i = 1; i <= count; i++)
    sum += i * va_arg(values, long);
  va_end(values);
  return sum;
}

/* What it finds in errno, and another one behind it. */
const char *step_errno(int wanted) {
  const char *found = errno == wanted ? "kept" : "lost";
  errno = ENOTTY;
  return found;
}

int step_cc(int a) {
  return a + 1;
}

long step_between(long depth) {
  return depth * step_again(depth - 1);
}

/* Calls itself as others do: through the import table. */
long step_again(long depth) {
  return depth == 0 ? 1 : step_between(depth);
}

static int chosen(int a) {
  return a * 10;
}
static void *choose(void) {
  return (void *)chosen;
}
int step_chosen(int a) __attribute__((ifunc("choose")));

int step_of_old(int a) {
  return a + 1;
}
int step_of_new(int a) {
  return a + 2;
}
__asm__(".symver step_of_old, step_versioned@STEPS_1");
__asm__(".symver step_of_new, step_versioned@@STEPS_2");

int MPI_Step(int a) {
  return a + 3;
}

int MPI_Outer(int a) {
  return 2 * MPI_Step(a);
}

#ifdef __AVX__
eight_floats step_vector(eight_floats a, eight_floats b) {
  return a * b;
}
#endif
