/* A program around client.c: linked to it, or, if its first arguments are --open FILE, opening it as Python opens an
 * extension module; --load FILE first opens another library alone, as ctypes does.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/parts/client.h"

#pragma weak client

int main(int argc, char **argv) {
  int (*run)(int, char **) = client;
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
    int now = strcmp(argv[i], "--now") == 0 || strcmp(argv[i], "--load") == 0;
    void *handle = dlopen(argv[i + 1], (now ? RTLD_NOW : RTLD_LAZY) | RTLD_LOCAL);
    if (handle == NULL) {
      puts(dlerror());
      return 98;
    }
    if (strcmp(argv[i], "--load") != 0)
      *(void **)&run = dlsym(handle, "client");
  }
  return run(argc - i, argv + i);
}
