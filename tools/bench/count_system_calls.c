/* Preloaded to count, at full speed, the system calls made through syscall(), among them all that
 * wake or wait (futex): single steps would be too slow for a peer that only waits for a while.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

typedef long syscall_function(long number, ...);

EXPORTED extern uint64_t system_calls_counted;
EXPORTED syscall_function syscall;

uint64_t system_calls_counted;
static syscall_function *next;

__attribute__((constructor)) static void find(void) {
  *(void **)&next = dlsym(RTLD_NEXT, "syscall");
}

long syscall(long number, ...) {
  va_list list;
  long argument[6];
  va_start(list, number);
  for (int i = 0; i < 6; i++)
    argument[i] = va_arg(list, long);
  va_end(list);
  system_calls_counted++;
  return next(number, argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
}
