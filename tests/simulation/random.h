/* Random numbers for the simulation: xorshift64*, so that a seed means the same everywhere. */
#ifndef NCCL_JOIN_TESTS_SIMULATION_RANDOM_H
#define NCCL_JOIN_TESTS_SIMULATION_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

static inline uint64_t random_next(uint64_t *state) {
  uint64_t x = *state;
  x ^= x >> 12;
  x ^= x << 25;
  x ^= x >> 27;
  *state = x;
  return x * UINT64_C(2685821657736338717);
}

/* 0 to bound - 1; bound: at least 1. */
static inline uint32_t random_below(uint64_t *state, uint32_t bound) {
  return (uint32_t)((random_next(state) >> 32) * bound >> 32);
}

static inline bool random_one_in(uint64_t *state, uint32_t n) {
  return random_below(state, n) == 0;
}

/* The beginning of the sequence that belongs to a seed. */
static inline uint64_t random_seeded(uint64_t seed) {
  uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
  for (int i = 0; i < 4; i++)
    random_next(&state);
  return state;
}

#endif
