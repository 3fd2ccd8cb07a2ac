/* nccl-join-env: the settings, for `nccl-join env` and for the check before `nccl-join run`.
 *
 *   nccl-join-env              the table, with the values of this environment
 *   nccl-join-env --check      prints nothing if all settings are right
 *   nccl-join-env --markdown   the table of docs/settings.md
 *   nccl-join-env --version
 *
 * Exit status 2 if a setting is wrong, with one line for each on stderr.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/settings/settings.h"

static int check(void) {
  struct settings settings;
  char error[SETTINGS_ERROR_SIZE];
  if (settings_read(&settings, environ, error, sizeof(error)))
    return 0;
  for (char *line = error, *rest; line; line = rest) {
    rest = strchr(line, '\n');
    if (rest)
      *rest++ = '\0';
    fprintf(stderr, "nccl-join: %s\n", line);
  }
  return 2;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (argc > 2 || (*what && strcmp(what, "--check") != 0 && strcmp(what, "--markdown") != 0 &&
                   strcmp(what, "--version") != 0)) {
    fprintf(stderr, "nccl-join: env takes no argument, --check, --markdown or --version\n");
    return 2;
  }
  if (strcmp(what, "--version") == 0)
    return puts("nccl-join " NCCL_JOIN_VERSION) < 0;
  if (strcmp(what, "--markdown") == 0)
    settings_print_markdown(stdout);
  else if (!*what)
    settings_print(stdout, environ);
  int status = *what == '\0' || strcmp(what, "--check") == 0 ? check() : 0;
  return fflush(stdout) != 0 ? 1 : status;
}
