/* What is asked of a process group of PyTorch's legacy backend (exit_points.h). */
#include "interpose/exits/exit_points.h"

#include <dlfcn.h>
#include <stddef.h>

#include "interpose/elf/linker.h"

/* c10d::Backend begins with a pointer, what counts its references, and then the rank and how many
 * there are: one number of 8 bytes in PyTorch 2.15, two before. The second of those two is small
 * and positive, and so its upper half no number of ranks. */
static const size_t offsets[] = {2 * sizeof(uint64_t), 3 * sizeof(uint64_t)};

static const int32_t *find_numbers(const void *group) {
  for (size_t i = 0; group != NULL && i < sizeof offsets / sizeof offsets[0]; i++) {
    const int32_t *numbers = (const void *)((const char *)group + offsets[i]);
    if (numbers[0] >= 0 && numbers[1] > numbers[0])
      return numbers;
  }
  return NULL;
}

uint32_t pytorch_ranks(const void *group, bool of_two) {
  const int32_t *numbers = of_two ? NULL : find_numbers(group);
  return numbers == NULL ? 0 : (uint32_t)numbers[1];
}

/* What ProcessGroupNCCL::groupRanks() returns a reference to: a std::vector of libstdc++. */
struct group_ranks {
  const uint64_t *begin, *end;
};
typedef const struct group_ranks *group_ranks_function(const void *group);
#define GROUP_RANKS "_ZNK4c10d16ProcessGroupNCCL10groupRanksEv"

static group_ranks_function *find_function(void *beside) {
  Dl_info object;
  void *handle = dladdr(beside, &object) != 0 && object.dli_fname[0] == '/'
                     ? linker_dlopen(object.dli_fname, RTLD_NOLOAD | RTLD_LAZY)
                     : NULL;
  group_ranks_function *found = NULL;
  if (handle == NULL)
    return NULL;
  *(void **)&found = linker_dlsym(handle, GROUP_RANKS); /* as dlsym(3) says */
  dlclose(handle); /* it stays as long as its function is called */
  return found;
}

uint32_t pytorch_members(void *function, const void *group, uint32_t *ranks, uint32_t nranks) {
  const int32_t *numbers = find_numbers(group);
  group_ranks_function *asks = numbers == NULL ? NULL : find_function(function);
  const struct group_ranks *found = asks == NULL ? NULL : asks(group);
  if (found == NULL || found->begin == NULL || found->end - found->begin != (ptrdiff_t)nranks)
    return nranks;
  for (uint32_t i = 0; i < nranks; i++) {
    if (found->begin[i] > UINT32_MAX)
      return nranks;
    ranks[i] = (uint32_t)found->begin[i];
  }
  return (uint32_t)numbers[0];
}
