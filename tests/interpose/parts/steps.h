/* libsteps.so: functions of every kind of signature, none of which nccl-join knows. */
#ifndef TESTS_INTERPOSE_STEPS_H
#define TESTS_INTERPOSE_STEPS_H

#include <complex.h>

struct large {
  double x, y;
  long z[4];
};

typedef float eight_floats __attribute__((vector_size(32)));

long step_integers(long a, long b, long c, long d, long e, long f, long g, long h, long i);
double step_doubles(double a, double b, double c, double d, double e, double f, double g, double h,
                    double i, double j, int k);
float step_float(float a, int b, float c);
long double step_long_double(long double a, long double b);
double complex step_complex(double complex a);
struct large step_large(struct large a, int factor);
double step_variadic(int count, ...);
long step_variadic_integers(int count, ...);
const char *step_errno(int wanted);
int step_cc(int a) __asm__("_Z7step_cci");
long step_again(long depth);
long step_between(long depth);
int step_chosen(int a);
int step_versioned(int a);
int MPI_Step(int a);
int MPI_Outer(int a); /* calls MPI_Step */

#ifdef __AVX__
eight_floats step_vector(eight_floats a, eight_floats b);
#endif

#endif
