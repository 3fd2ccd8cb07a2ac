/* libmeeting.so: a barrier of the ranks of one machine that has nothing to do with NCCL.
 */
#ifndef PROGRAMS_MEETING_H
#define PROGRAMS_MEETING_H

#include <stdbool.h>
#include <stdint.h>

/* Waits until all ranks have called it. Returns how often this one has; a rank that cannot meet the
 * others in 30 seconds ends with status 1. They find each other by MASTER_PORT. */
long meeting_of_all(int rank, int nranks);

/* The same, after a function of this library and itself have called each other so many times. */
long meeting_by_steps(int rank, int nranks, int steps);
long meeting_next_step(int rank, int nranks, int steps);

/* As meeting_of_all, under the name and with the arguments of what PyTorch's legacy backend
 * (ProcessGroupNCCL) calls when it makes a communicator; but the key says who meets. NULL: nobody
 * does. */
struct meeting_ranks {
  int rank, nranks;
  int part; /* which of several parts of the ranks that meet each for itself; 0: all */
};
void meeting_of_group(const void *group, void *id, bool of_two, const struct meeting_ranks *key,
                      int rank_of_two) __asm__("_ZN4c10d16ProcessGroupNCCL21broadcastUniqueNCCLIDEP"
                                               "12ncclUniqueIdbRKNSt7__cxx1112basic_"
                                               "stringIcSt11char_traitsIcESaIcEEEi");

/* As ProcessGroupNCCL::groupRanks: which of all ranks the group's are, a std::vector behind what
 * such a group begins with. */
struct meeting_group {
  void *table;
  uint64_t references;
  int32_t rank, nranks;
  const uint64_t *begin, *end;
};
const void *
meeting_ranks_of_group(const void *group) __asm__("_ZNK4c10d16ProcessGroupNCCL10groupRanksEv");

/* What one rank does before it meets the others, and the others do not. */
long meeting_prepare(int rank, int nranks);

#endif
