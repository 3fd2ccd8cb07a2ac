/* What is asked of a process group of PyTorch's legacy backend (exit_points.h). */
#include "interpose/exits/exit_points.h"

#include <stddef.h>

/* c10d::Backend begins with a pointer, what counts its references, and then the rank and how many
 * there are: one number of 8 bytes in PyTorch 2.15, two before. The second of those two is small
 * and positive, and so its upper half no number of ranks. */
static const size_t offsets[] = {2 * sizeof(uint64_t), 3 * sizeof(uint64_t)};

uint32_t pytorch_ranks(const void *group, bool of_two) {
  for (size_t i = 0; !of_two && group != NULL && i < sizeof offsets / sizeof offsets[0]; i++) {
    const int32_t *numbers = (const void *)((const char *)group + offsets[i]);
    int32_t rank = numbers[0], nranks = numbers[1];
    if (rank >= 0 && nranks > rank)
      return (uint32_t)nranks;
  }
  return 0;
}
