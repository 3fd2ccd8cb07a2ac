/* The ranks of the target `segment`, and what spoils their logs. */
#ifndef TESTS_FUZZ_SEGMENT_JOB_H
#define TESTS_FUZZ_SEGMENT_JOB_H

#include "core/team/team.h"
#include "core/transport/plane_memory.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/segment_file.h"

enum { SEGMENT_UNITS = 8 };

/* Of one member, of several, of as many as can be described and of one more; 2 and 3 cannot be
 * shadowed without spoiling them. */
extern struct unit segment_units[SEGMENT_UNITS];

struct segment_rank {
  struct plane plane;
  struct team *team; /* NULL: hostile */
  struct unit claim;
  uint32_t position; /* in the loop that a step makes all ranks run */
  bool ended;
};

struct segment_job {
  struct segment_rank ranks[SEGMENT_FILE_SLOTS];
  uint32_t nranks, rounds;
  bool all_honest;
  struct plane_memory *memory;
  struct segment *segment;
};

/* Writes into the log of a rank, which is hostile from here on, or what all share. */
void segment_spoil(struct segment_job *job, struct input *input);

/* The same for what is point to point. */
void segment_spoil_posts(struct segment_job *job, struct input *input);

/* The whole ring of a hostile rank is one entry, and its head is anywhere. */
void segment_flood(struct segment_job *job, struct input *input);

#endif
