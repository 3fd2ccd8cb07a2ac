/* How a program begins, as far as nccl-join has to do with it: before main, weak references are
 * taken back; after it, the process is about to end (exits/process.h).
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "interpose/entry/lookups.h"
#include "interpose/exits/process.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int main_function(int argc, char **argv, char **envp);
typedef int start_function(main_function *main, int argc, char **argv, void (*init)(void),
                           void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static main_function *program_main;

/* The program's main as libc sees it. libc goes on to exit by itself, without the exit above. */
static int main_and_leave(int argc, char **argv, char **envp) {
  return process_leave(program_main(argc, argv, envp));
}

EXPORTED start_function __libc_start_main;

/* glibc calls it by two versions of the name; both are the same function, and both come here. */
int __libc_start_main(main_function *main, int argc, char **argv, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end) {
  start_function *start;
  *(void **)&start = dlsym(RTLD_NEXT, "__libc_start_main"); /* as dlsym(3) says it is to be done */
  if (start == NULL)
    abort();
  program_main = main;
  weak_take_back();
  return start(main_and_leave, argc, argv, init, fini, rtld_fini, stack_end);
}
