/* A folder of a test's own. */
#ifndef TESTS_JOIN_FOLDER_H
#define TESTS_JOIN_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

/* Makes it. name: a path that ends with XXXXXX, which becomes its own. */
static inline void folder_make(char *name) {
  cr_assert_not_null(mkdtemp(name));
}

/* Removes it, with all that is in it. */
static inline void folder_remove(const char *name) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf %s", name);
  cr_assert_eq(system(command), 0); // NOLINT(cert-env33-c)
}

#endif
