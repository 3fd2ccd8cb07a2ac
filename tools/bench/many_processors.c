/* Preloaded into a rank that is to wait as on a machine with more processors than ranks: it says
 * that the process may use 64 of them. A rank of nccl-join that waits then looks for a while before
 * it sleeps.
 */
#include <sched.h>
#include <string.h>

__attribute__((visibility("default"))) int sched_getaffinity(pid_t process, size_t size,
                                                             cpu_set_t *set);

int sched_getaffinity(pid_t process, size_t size, cpu_set_t *set) {
  (void)process;
  memset(set, 0, size);
  for (size_t processor = 0; processor < 64; processor++)
    CPU_SET_S(processor, size, set);
  return 0;
}
