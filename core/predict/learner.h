/* The learner: which unit comes next in a stream of units.
 *
 * It finds the loop body of a training program as a cyclic word of symbols (unit.h). It is online
 * and deterministic: integers only, no clock, no address, no randomness. Two learners fed the same
 * sequence are in the same state; that is what lets all ranks of a team expect the same unit
 * without asking (team.h).
 *
 * Units that come in between now and then (a log line's all-reduce, an evaluation) are inserts:
 * they leave the cursor where it is and are never expected. A longer body that explains the stream
 * better takes over. A new phase with a body of its own is learnt in turn.
 *
 * One learner belongs to one thread at a time.
 */
#ifndef NCCL_JOIN_CORE_LEARNER_H
#define NCCL_JOIN_CORE_LEARNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/unit.h"

/* A body is believed once it has been seen this many times in a row. */
#define LEARNER_REPEATS 3

/* Longest body, in units. */
#ifndef LEARNER_BODY_MAX /* tests/simulation/many.h */
#define LEARNER_BODY_MAX 32768
#endif

struct learner;

/* What a struct learner begins with, so that asking costs a load and no call. */
struct learner_next {
  symbol_t expected;
  bool firm;
};

/* Allocates at most 1 MiB; NULL if there is no memory. Owned by the caller. */
struct learner *learner_create(void);
void learner_destroy(struct learner *learner);

/* From now on runs of at least so many units and rounds count as long (learner_is_firm), instead of
 * LEARNER_RUN_MIN and LEARNER_RUN_ROUNDS. rounds: 2 or more. Before the first step. */
void learner_set_run(struct learner *learner, uint32_t units, uint32_t rounds);

/* Feeds the next unit of the stream: its symbol (not SYMBOL_NONE) and its coarse symbol (equal for
 * units that differ in counts only, and a function of the symbol). O(1) amortised, no allocation.
 */
void learner_step(struct learner *learner, symbol_t symbol, uint32_t coarse);

/* The same for the unit that is expected, which must not be SYMBOL_NONE: the fast path. Nearly
 * always one store to the history and a step of the cursor; what else there is to do is put off. */
void learner_step_expected(struct learner *learner);

/* The same, `count` times: learner_foresee has named that many units, and they came. Returns
 * whether that was no more than a copy and a move of the cursor: then the body is what it was. */
bool learner_steps_expected(struct learner *learner, uint32_t count);

/* How many more units may come as expected before there is something else to do. */
uint64_t learner_calm(const struct learner *learner);

/* Writes the unit expected next and those after it, should each come as expected, to symbols[0] to
 * symbols[n - 1], and returns n. Stops where what comes after cannot be told yet, and before a unit
 * that is not firm; n is at most `room`. */
uint32_t learner_foresee(const struct learner *learner, symbol_t *symbols, uint32_t room);

/* Does now what was put off. Optional, for moments with nothing else to do: changes nothing that
 * can be seen. */
void learner_catch_up(struct learner *learner);

/* The unit expected next, or SYMBOL_NONE when no body is believed. */
static inline symbol_t learner_expected(const struct learner *learner) {
  return ((const struct learner_next *)(const void *)learner)->expected;
}

/* Whether the expected unit may be issued without asking the other ranks. False where the body as
 * learnt says that a long run of repeats of something shorter ends here: that is where a rank with
 * less data would leave its loop, so the ranks had better meet. Runs of at least LEARNER_RUN_MIN
 * units and LEARNER_RUN_ROUNDS repeats count as long. False when nothing is expected. */
#define LEARNER_RUN_MIN 64
#define LEARNER_RUN_ROUNDS 4
static inline bool learner_is_firm(const struct learner *learner) {
  return ((const struct learner_next *)(const void *)learner)->firm;
}

/* Length in units of the body believed now, 0 if none. */
uint32_t learner_body_length(const struct learner *learner);

/* The position in the body of the unit expected next; 0 if no body is believed. */
uint32_t learner_body_position(const struct learner *learner);

/* The body's symbol at a position 0 to length - 1; position 0 is where the body was first seen to
 * begin. */
symbol_t learner_body_symbol(const struct learner *learner, uint32_t position);

/* Whether the program may stand between two iterations: no body is believed, or the unit that the
 * body begins with is expected next (at position 0 or, where the body holds several iterations,
 * elsewhere), or inserts have been seen here. */
bool learner_is_between_iterations(const struct learner *learner);

/* Whether an iteration may begin with the unit expected next, as far as that can be told: where the
 * program may stand between two iterations, and one unit further. Where the body was first seen to
 * begin is where the loop begins, unless what came before the loop happens to end with the unit
 * that the loop ends with: a barrier before it, say, and a metric as its last unit. And with each
 * unit that the body has more than once: where epochs are alike the body is one of them, and a
 * round of its loop may begin there. */
bool learner_may_begin_iteration(const struct learner *learner);

/* The symbol fed `back` + 1 steps ago, or SYMBOL_NONE if that is too long ago or before the first.
 */
symbol_t learner_symbol(const struct learner *learner, uint64_t back);

/* How many of the latest symbols are kept. */
#define LEARNER_HISTORY (2u * LEARNER_BODY_MAX)

/* The invariants of the structure; asserted in debug builds, checked in tests. */
bool learner_is_valid(const struct learner *learner);

#endif
