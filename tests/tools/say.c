/* Shell commands whose output is looked at (say.h). */
#include "tests/tools/say.h"

#include <criterion/criterion.h>
#include <stdio.h>

char said[1 << 16];

int say(const char *command) {
  FILE *output = popen(command, "r");
  cr_assert_not_null(output);
  said[fread(said, 1, sizeof said - 1, output)] = '\0';
  return pclose(output);
}
