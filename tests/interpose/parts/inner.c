/* A library that finds things from where it is, which is not where the program is: it is behind the
 * program, and has a RUNPATH of its own. The program (with PROGRAM) calls it.
 *
 * "name" is defined here and once more in the library behind it (BEHIND), and "owner" in the
 * program and in a library that only RUNPATH leads to (ONLY). */
#include <dlfcn.h>
#include <string.h>

#include "tests/interpose/parts/say.h"

#define EXPORTED __attribute__((visibility("default")))

#if defined(PROGRAM)
int find(const char *how);
EXPORTED const char *owner(void) {
  return "program";
}
int main(int argc, char **argv) {
  return argc == 2 ? find(argv[1]) : 99;
}
#elif defined(BEHIND)
EXPORTED const char *name(void) {
  return "behind";
}
#elif defined(ONLY)
EXPORTED const char *owner(void) {
  return "library";
}
EXPORTED const char *ask(void) {
  return owner();
}
#else
EXPORTED const char *name(void) {
  return "inner";
}

static int find_next(void) {
  const char *(*next)(void);
  *(void **)&next = dlsym(RTLD_NEXT, "name");
  say("next %s", next == NULL ? "nothing" : next());
  *(void **)&next = dlvsym(RTLD_NEXT, "name", "ANY_1.0");
  say("versioned next %s", next == NULL ? "nothing" : next());
  return 0;
}

static int open_only(int flags) {
  const char *(*ask)(void);
  void *handle = dlopen("libonly.so", RTLD_LAZY | flags);
  if (handle == NULL) {
    say("%s", dlerror());
    return 1;
  }
  *(void **)&ask = dlsym(handle, "ask");
  say("owner %s", ask());
  return 0;
}

EXPORTED int find(const char *how) {
  if (strcmp(how, "next") == 0)
    return find_next();
  return open_only(strcmp(how, "deepbind") == 0 ? RTLD_DEEPBIND : 0);
}
#endif
