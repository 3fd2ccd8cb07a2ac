/* The settings as they are shown, to people, in pages, and to other ranks. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/settings/settings.h"

static struct settings settings;
static char error[SETTINGS_ERROR_SIZE];

/* Reads the given entries; the array ends with NULL. */
#define READ(...) settings_read(&settings, (char *[]){__VA_ARGS__, NULL}, error, sizeof(error))

/* What a function prints, in a buffer that the next call overwrites. */
static const char *printed(void (*print)(FILE *)) {
  static char text[16384];
  FILE *out = fmemopen(text, sizeof(text), "w");
  print(out);
  fclose(out);
  return text;
}

static void print_some(FILE *out) {
  settings_print(out, (char *[]){"NCCL_JOIN_TIMEOUT=60", "NCCL_JOIN_LOSSY=nix", NULL}, 60);
}

Test(settings_shown, people_are_shown_values_and_where_they_are_from) {
  const char *text = printed(print_some);
  cr_expect(strstr(text, "\nNCCL_JOIN_TIMEOUT            environment  60\n"), "%s", text);
  cr_expect(strstr(text, "\nNCCL_JOIN_SKEW_WARN          default      1000\n"), "%s", text);
  cr_expect(strstr(text, "\nNCCL_JOIN_LOSSY              WRONG        nix\n"), "%s", text);
  cr_expect(strstr(text, "\nNCCL_JOIN_TRACE              default      (none)\n"), "%s", text);
  cr_expect(strstr(text, "\n    accepted: 1 to 31536000 seconds; default: 1800\n"), "%s", text);
}

Test(settings_shown, what_people_are_shown_fits_the_width) {
  for (const char *line = printed(print_some); *line != '\0'; line = strchr(line, '\n') + 1)
    cr_expect_leq(strcspn(line, "\n"), 60, "%.*s", (int)strcspn(line, "\n"), line);
}

static void print_controls(FILE *out) {
  settings_print(out, (char *[]){"NCCL_JOIN_TRACE=a\nb", NULL}, 80);
}

Test(settings_shown, a_value_is_in_one_line) {
  const char *text = printed(print_controls);
  cr_expect(strstr(text, "\nNCCL_JOIN_TRACE              environment  a?b\n"), "%s", text);
}

Test(settings_shown, the_table_for_the_readme_is_markdown) {
  const char *text = printed(settings_print_markdown);
  cr_expect(strstr(text, "| `NCCL_JOIN_LOSSY` | `error` | `error`, `zero`, `last`, or "
                         "`kind:value,...` | yes | what the active"),
            "%s", text);
  for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
    size_t bars = 0;
    for (const char *c = line; *c != '\n'; c++)
      bars += *c == '|';
    cr_expect_eq(bars, 6, "not five columns: %s", line);
  }
}

Test(settings_shown, the_manual_page_says_what_each_means) {
  const char *text = printed(settings_print_man);
  cr_expect(strstr(text,
                   ".TP\n.B NCCL_JOIN_TIMEOUT\nhow long a rank waits for the others before it "
                   "gives up.\n.br\nDefault: 1800. Accepted: 1 to 31536000 seconds.\n"),
            "%s", text);
}

/* Between two markers. Run from the checkout. */
Test(settings_shown, the_page_has_the_table_of_the_code) {
  FILE *page = fopen("docs/settings.md", "r");
  cr_assert_not_null(page, "docs/settings.md is missing");
  char text[256 * 1024];
  size_t size = fread(text, 1, sizeof(text) - 1, page);
  text[size] = '\0';
  fclose(page);
  char *start = strstr(text, "<!-- settings -->\n");
  cr_assert_not_null(start, "docs/settings.md has no table");
  start += strlen("<!-- settings -->\n");
  const char *table = printed(settings_print_markdown);
  while (*start == '\n')
    start++;
  cr_expect_eq(strncmp(start, table, strlen(table)), 0,
               "docs/settings.md differs; put this behind its marker:\n%s", table);
}

/* ---- what ranks must have alike ---- */

/* The value of a setting in what READ has read. */
static const char *alike_value(const char *name) {
  static char text[SETTINGS_ALIKE_SIZE];
  settings_alike(&settings, text);
  char *value = text;
  for (size_t line = 0; strcmp(settings_alike_name(line), name) != 0; line++)
    value = strchr(value, '\n') + 1;
  *strchr(value, '\n') = '\0';
  return value;
}

Test(settings_shown, values_that_mean_the_same_are_alike) {
  cr_expect(READ("NCCL_JOIN_LOSSY=Scatter:last,allgather:ZERO,send:error",
                 "NCCL_JOIN_DIVISOR_MIN=0077", "NCCL_JOIN_EARLY_EXIT=THROW"));
  cr_expect_str_eq(alike_value("NCCL_JOIN_LOSSY"), "allgather:zero,scatter:last");
  cr_expect_str_eq(alike_value("NCCL_JOIN_DIVISOR_MIN"), "77");
  cr_expect_str_eq(alike_value("NCCL_JOIN_EARLY_EXIT"), "throw");
  cr_expect_str_eq(alike_value("NCCL_JOIN_PLACES"), "1");
  cr_expect_str_eq(alike_value("NCCL_JOIN_EXIT_ON"), "");
  cr_expect(
      READ("NCCL_JOIN_LOSSY=allgather:zero,alltoall:zero,gather:zero,scatter:zero,send:zero"));
  cr_expect_str_eq(alike_value("NCCL_JOIN_LOSSY"), "zero");
}

/* At their longest the settings still have a line each, and a list of names that is cut is told
 * from another one that begins alike. */
Test(settings_shown, the_text_of_alike_settings_is_bounded) {
  char entry[SETTINGS_PATH_SIZE + 32], first[SETTINGS_ALIKE_SIZE], second[SETTINGS_ALIKE_SIZE];
  memset(entry, 'f', sizeof(entry));
  memcpy(entry, "NCCL_JOIN_EXIT_ON=", strlen("NCCL_JOIN_EXIT_ON="));
  entry[SETTINGS_PATH_SIZE + 10] = '\0';
  static char *const longest[] = {
      "NCCL_JOIN_LOSSY=allgather:zero,alltoall:last,gather:zero,scatter:last,send:zero",
      "NCCL_JOIN_DIVISOR=active-sum",
      "NCCL_JOIN_DIVISOR_MIN=1000000000",
      "NCCL_JOIN_RESYNC=broadcasts",
      "NCCL_JOIN_EARLY_EXIT=throw",
      "NCCL_JOIN_UNSURE=stop",
  };
  cr_expect(READ(entry, longest[0], longest[1], longest[2], longest[3], longest[4], longest[5]));
  settings_alike(&settings, first);
  entry[SETTINGS_PATH_SIZE + 9] = 'g';
  cr_expect(READ(entry, longest[0], longest[1], longest[2], longest[3], longest[4], longest[5]));
  settings_alike(&settings, second);
  cr_expect_str_neq(first, second);
  cr_expect_str_eq(alike_value("NCCL_JOIN_UNSURE"), "stop");
  cr_expect_eq(second[SETTINGS_ALIKE_SIZE - 1], '\0');
  size_t lines = 0;
  for (const char *c = second; *c != '\0'; c++)
    lines += *c == '\n';
  cr_expect_null(settings_alike_name(lines));
  cr_expect_not_null(settings_alike_name(lines - 1));
}
