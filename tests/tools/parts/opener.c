/* Opens libraries. FILE_NAME: the library's; FUNCTION: what is looked up in it. HOW: dlopen or
 * dlmopen. */
#include <dlfcn.h>
#include <stdio.h>

#ifndef FUNCTION
#define FUNCTION "ncclAllReduce"
#endif

#define OPEN_dlopen(name) dlopen(name, RTLD_NOW)
#define OPEN_dlmopen(name) dlmopen(LM_ID_NEWLM, name, RTLD_NOW)
#define OPEN(how, name) OPEN_(how, name)
#define OPEN_(how, name) OPEN_##how(name)

#ifdef STUB /* a function of NCCL's name that is not NCCL, as XLA has */
__attribute__((visibility("hidden"))) int ncclCommInitRank(void) {
  return 1;
}
#endif

int main(int argc, char **argv) {
  (void)argv;
#ifdef FILE_NAME
  const char *name = FILE_NAME;
#else
  char name[64];
  snprintf(name, sizeof name, "lib%s.so.%d", argc > 1 ? argv[1] : "other", 2);
#endif
  void *library = OPEN(HOW, name);
  return argc > 100 || (library != NULL && dlsym(library, FUNCTION) != NULL);
}
