/* nccl-join-env: the settings, for `nccl-join env` and for the check before `nccl-join run`.
 *
 *   nccl-join-env              the table, with the values of this environment
 *   nccl-join-env --check      prints nothing if all settings are right
 *   nccl-join-env --markdown   the table of docs/settings.md
 *   nccl-join-env --man        the same for manual pages
 *   nccl-join-env --version
 *
 * Exit status 2 if a setting is wrong, with one line for each on stderr.
 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/settings/settings.h"
#include "tools/terminal.h"

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

/* Lines longer than 100 columns are hard to read. */
static int width(void) {
  int columns = terminal_width(stdout);
  return columns == 0 ? 80 : columns > 100 ? 100 : columns;
}

int main(int argc, char **argv) {
  static const struct option options[] = {{"check", no_argument, NULL, 'c'},
                                          {"markdown", no_argument, NULL, 'm'},
                                          {"man", no_argument, NULL, 'r'},
                                          {"version", no_argument, NULL, 'v'},
                                          {0}};
  opterr = 0;
  int what = getopt_long(argc, argv, "+", options, NULL), status = 0;
  if (what == '?' || optind < argc) {
    fprintf(stderr, "nccl-join: env takes no argument (see nccl-join env --help)\n");
    return 2;
  }
  if (what == 'v')
    puts("nccl-join " NCCL_JOIN_VERSION);
  else if (what == 'm')
    settings_print_markdown(stdout);
  else if (what == 'r')
    settings_print_man(stdout);
  else if (what == -1)
    settings_print(stdout, environ, width());
  fflush(stdout); /* before what is wrong */
  if (what == -1 || what == 'c')
    status = check();
  return terminal_finish() ? status : 1;
}
