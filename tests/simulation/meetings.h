/* What met at the indices of one team, judged by what units mean: the truth, of which the agreement
 * knows nothing.
 *
 * An instance says what a unit means. Ranks should meet at equal ones, and only there.
 */
#ifndef NCCL_JOIN_TESTS_SIMULATION_MEETINGS_H
#define NCCL_JOIN_TESTS_SIMULATION_MEETINGS_H

#include <stdbool.h>
#include <stdint.h>

struct instance {
  uint8_t point; /* of the program: tree.h */
  uint8_t epoch; /* counts only epochs that something marks the end of */
  uint16_t inner;
  uint32_t iteration; /* below 2^24; inner: of a loop in it */
};

/* How a unit's instance differs from that of the first real one at its index. */
enum meeting { MEETING_SAME, MEETING_OTHER_ITERATION, MEETING_OTHER_EPOCH, MEETING_WRONG };

struct meetings;

/* Aborts without memory, as all here. */
struct meetings *meetings_create(void);
void meetings_destroy(struct meetings *meetings);

/* A rank has issued a unit of this signature, as a shadow if instance is NULL. *mismatch is set if
 * another has issued a unit of another signature there. */
enum meeting meetings_add(struct meetings *meetings, uint64_t index, uint64_t signature,
                          const struct instance *instance, bool *mismatch);

/* A WARN says that what was agreed on at an index is a guess. */
void meetings_told(struct meetings *meetings, uint64_t index);

struct meetings_sum {
  uint64_t indices;
  uint64_t met;   /* indices where all real units were of one instance */
  uint64_t wrong; /* where they were of different points; the next two: only of different */
  uint64_t other_epoch, other_iteration;
  uint64_t split; /* real units whose instance another rank has issued at another index before */
  /* Nothing was told at the first wrong index, or before it; the same of the first index where
   * only epochs or iterations differ. */
  bool silent, silent_apart;
};
struct meetings_sum meetings_sum(const struct meetings *meetings);

#endif
