/* Streams of units as training programs make them, for the learner's tests and benchmark.
 *
 * The first nine are those on which the learner's rules were chosen; their lengths and bodies are
 * fixed.
 * Generators are deterministic: a trace is the same on every machine.
 */
#ifndef NCCL_JOIN_TESTS_UNIT_TRACES_H
#define NCCL_JOIN_TESTS_UNIT_TRACES_H

#include <stddef.h>
#include <stdint.h>

#include "core/predict/learner.h"

struct trace_unit {
  symbol_t symbol;
  uint32_t coarse;
};

struct trace {
  const char *name;
  struct trace_unit *units; /* allocated, owned by the trace */
  size_t nunits, room;
};

/* What a learner is to make of a trace. */
struct trace_kind {
  const char *name;
  void (*generate)(struct trace *trace);
  uint32_t body;      /* length believed at the end; 0: whatever it may be */
  uint32_t misses;    /* wrong or no expectations in the second half, at most, in 1/10000 */
  uint32_t locked_at; /* units after which that body is believed for good, at most; 0: any */
};

/* The nine first, then more. */
extern const struct trace_kind trace_kinds[];
extern const size_t trace_kind_count;
#define TRACES_OF_THE_SURVEY 9

struct trace trace_generate(const struct trace_kind *kind);
void trace_free(struct trace *trace);

/* Appends one unit. Units of the same operation have the same coarse symbol, whatever their count.
 */
void trace_add(struct trace *trace, uint32_t operation, uint32_t count);

/* A small generator of pseudo-random numbers (xorshift64*); the state must not be 0. */
uint32_t trace_random(uint64_t *state, uint32_t below);

#endif
