/* The table of programs that a file of generated source is. */
#ifndef GENERATED_RUNNER_H
#define GENERATED_RUNNER_H

#include "tests/generated/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

struct program {
  void (*run)(struct rank *rank);
  struct setup setup;
};

extern const struct program programs[];
extern const int nprograms;

#ifdef __cplusplus
}
#endif
#endif
