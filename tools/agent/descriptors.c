/* The limit of descriptors (descriptors.h): the soft one, which the kernel compares with the number
 * of a new one. */
#include "tools/agent/descriptors.h"

#include <sys/resource.h>

void descriptors_allow(uint32_t own) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return;
  rlim_t wanted = DESCRIPTORS_OF_LINKS + (rlim_t)own;
  limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
  (void)setrlimit(RLIMIT_NOFILE, &limit);
}
