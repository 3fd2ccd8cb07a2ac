/* Says what main got, and who called it. */
#include <execinfo.h>
#include <stdlib.h>
#include <string.h>

#include "tests/interpose/parts/say.h"

int main(int argc, char **argv, char **envp) {
  for (int i = 1; i < argc; i++)
    say("%s", argv[i]);
  say("end %d environment %d", argv[argc] == NULL, envp == environ);
  void *frames[16];
  int depth = backtrace(frames, 16);
  char **names = backtrace_symbols(frames, depth);
  /* The last is the program's own start, which called __libc_start_main. */
  say("outermost frame %s", depth > 0 && strstr(names[depth - 1], "_start") ? "_start" : "lost");
  free(names);
  return 0;
}
