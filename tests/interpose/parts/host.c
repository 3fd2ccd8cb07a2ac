/* A program around client.c, which it is linked to or opens. Its arguments are taken one after the
 * other:
 *   --open FILE, --now FILE   opens the plug-in as Python opens an extension module, resolved
 *                             lazily or at once
 *   --deep FILE               opens the plug-in with RTLD_DEEPBIND
 *   --load FILE               opens a library alone, as ctypes does
 *   NAME                      calls the function
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "tests/interpose/parts/client.h"

#pragma weak client

int main(int argc, char **argv) {
  int (*run)(int, char **) = client;
  int answer = 0;
  for (int i = 1; i < argc; i++) {
    if (strncmp(argv[i], "--", 2) != 0) {
      answer = run(1, argv + i);
      continue;
    }
    const char *how = argv[i++];
    int now = strcmp(how, "--now") == 0 ? RTLD_NOW : RTLD_LAZY;
    int deep = strcmp(how, "--deep") == 0 ? RTLD_DEEPBIND : 0;
    void *handle = dlopen(argv[i], now | RTLD_LOCAL | deep);
    if (handle == NULL) {
      puts(dlerror());
      return 98;
    }
    if (strcmp(how, "--load") != 0)
      *(void **)&run = dlsym(handle, "client");
  }
  return answer;
}
