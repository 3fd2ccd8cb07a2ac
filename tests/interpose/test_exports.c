/* The preload object as a file: what it exports, needs and does when it is loaded. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "tests/interpose/workshop.h"

#define LENGTH 16384
#define NAMES_MAX 128

static int by_name(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names that the table exports, sorted, one a line. */
static void exports_of_table(char *text) {
  const char *names[NAMES_MAX];
  size_t count = 0;
#define NAME_HANDLED(name) "nccl" #name
#define NAME_FAST NAME_HANDLED
#define NAME_UNFIT(name) "nccl" #name
#define NAME_OBSERVED(name) "nccl" #name
#define NAME_CREATES NAME_HANDLED
#define NAME_GROUPS NAME_HANDLED
#define NAME_SPLITS NAME_HANDLED
#define NAME_CALLED(name) NULL
#define NAME_ASKED NAME_CALLED
#define NAME(since, name, parameters, arguments, handling) names[count++] = NAME_##handling(name);
#define PLAIN_NAME(name) names[count++] = #name;
#define CAPTURE_NAME(name, parameters, arguments, begins) names[count++] = #name;
  NCCL_API(NAME)
  JOIN_API(PLAIN_NAME)
  ERROR_API(PLAIN_NAME)
  PROCESS_API(PLAIN_NAME)
  LOOKUP_API(PLAIN_NAME)
  PROFILER_API(PLAIN_NAME)
  CAPTURE_FUNCTIONS(CAPTURE_NAME)
  size_t kept = 0;
  for (size_t i = 0; i < count; i++) {
    if (names[i] != NULL)
      names[kept++] = names[i];
  }
  qsort(names, kept, sizeof names[0], by_name);
  text[0] = '\0';
  for (size_t i = 0; i < kept; i++) {
    workshop_append(text, LENGTH, names[i]);
    workshop_append(text, LENGTH, "\n");
  }
}

/* Both objects are made by the same rules; the double is always there. */
static void expect_of_both(const char *command, const char *output) {
  char text[LENGTH];
  snprintf(text, sizeof text, "F=$W/double.so; %s", command);
  workshop_expect(text, 0, output);
  if (!workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder: only the test's double was looked at");
  snprintf(text, sizeof text, "F=$B/lib/libnccl-join.so; %s", command);
  workshop_expect(text, 0, output);
}

Test(exports, are_exactly_the_table) {
  char expected[LENGTH];
  exports_of_table(expected);
  expect_of_both("nm -D --defined-only $F | awk '{print $3}' | LC_ALL=C sort", expected);
}

Test(exports, have_no_versions) {
  expect_of_both("nm -D --defined-only --with-symbol-versions $F | grep -c @ || true", "0\n");
}

Test(exports, nothing_is_needed_but_libc) {
  expect_of_both(
      "readelf -d $F | sed -n 's/.*(NEEDED).*\\[\\(.*\\)\\]/\\1/p' | grep -v '^ld-linux'",
      "libc.so.6\n");
}

Test(exports, nothing_runs_when_it_is_loaded) {
  /* One pointer: gcc's frame_dummy, and one for its counterpart. */
  expect_of_both("readelf -SW $F | awk '{for (i = 1; i < NF; i++) if ($i ~ "
                 "/^\\.(init|fini|preinit)_array|^\\.ctors/)"
                 " print $i, $(i + 4)}'",
                 ".init_array 000008\n.fini_array 000008\n");
}

Test(exports, no_text_is_relocated) {
  expect_of_both("readelf -d $F | grep -c TEXTREL || true", "0\n");
}

Test(exports, thread_local_storage_is_initial_exec) {
  /* The other models call __tls_get_addr or need a descriptor. */
  expect_of_both(
      "readelf -d $F | grep -c STATIC_TLS; readelf -rW $F | grep -c 'TLSDESC\\|DTPMOD' || true;"
      "nm -D $F | grep -c tls_get_addr || true",
      "1\n0\n0\n");
}

Test(exports, the_product_is_bound_at_start_and_stays) {
  if (!workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder");
  workshop_expect("readelf -d $B/lib/libnccl-join.so | grep -o "
                  "'NOW\\|NODELETE\\|\\[libnccl-join.so\\]' | sort -u;"
                  "readelf -lW $B/lib/libnccl-join.so | grep -c GNU_RELRO",
                  0, "NODELETE\nNOW\n[libnccl-join.so]\n1\n");
}

/* What the table says of releases, held against the one that is there. */
Test(exports, the_real_nccl_has_what_the_table_says) {
  if (!workshop_has_nccl())
    cr_skip("NCCL_LIBRARY names no real NCCL");
  struct outcome outcome =
      workshop_run("env TELL=1 LD_LIBRARY_PATH=$L $W/linked GetVersion | sed -n 's/^version //p'");
  long newest = strtol(outcome.output, NULL, 10) / 100 * 100 + 99;
  cr_assert_gt(newest, 20000, "%s", outcome.output);
  char expected[LENGTH] = "";
#define EXPECT(since, name, parameters, arguments, handling)                                       \
  if ((since) <= newest)                                                                           \
    workshop_append(expected, sizeof expected, "nccl" #name "\n");
  NCCL_API(EXPECT)
  char command[LENGTH] = "nm -D --defined-only $N | awk '{print $3}' > $W/has; for f in";
#define ASK(since, name, parameters, arguments, handling)                                          \
  workshop_append(command, sizeof command, " nccl" #name);
  NCCL_API(ASK)
  workshop_append(command, sizeof command, "; do grep -x $f $W/has || true; done");
  workshop_expect(command, 0, expected);
}
