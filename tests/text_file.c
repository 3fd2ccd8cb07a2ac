/* Small files of tests (text_file.h). */
#include "tests/text_file.h"

#include <criterion/criterion.h>
#include <limits.h>
#include <stdio.h>

void text_file_write(const char *folder, const char *name, const char *text) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file, "%s", path);
  fputs(text, file);
  cr_assert_eq(fclose(file), 0, "%s", path);
}

const char *text_file_read(const char *path) {
  static char text[TEXT_FILE_MAX + 1];
  FILE *file = fopen(path, "r");
  size_t size = file != NULL ? fread(text, 1, TEXT_FILE_MAX, file) : 0;
  text[size] = '\0';
  if (file != NULL)
    fclose(file);
  return text;
}
