/* What must hold with every release of NCCL: its answers are the program's, configurations go
 * through as they are whatever their size, names that it lacks do no harm, and none that it has go
 * past us unknown. The real NCCL is the one of NCCL_LIBRARY; `make check-versions` runs this with
 * one release after the other.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "tests/interpose/workshop.h"

#define LENGTH 16384

/* Where the headers are that this was compiled with. */
#define INCLUDE "${NCCL_INCLUDE:-$(sed -n 's/^NCCL_INCLUDE = //p' .deps/paths.mk)}"

static void skip_without_nccl(void) {
  if (!workshop_has_nccl())
    cr_skip("NCCL_LIBRARY names no real NCCL");
}

static void skip_without_product(void) {
  if (!workshop_has_product())
    cr_skip("no libnccl-join.so in the build folder");
}

/* Runs a command of the workshop as it is and in front of the product, in an environment; what is
 * said and how it ends is the same. */
static struct outcome expect_the_same(const char *environment, const char *command) {
  char text[1024];
  snprintf(text, sizeof text, "env %s %s", environment, command);
  struct outcome bare = workshop_run(text);
  snprintf(text, sizeof text, "env %s QUIET=1 $J %s", environment, command);
  workshop_expect(text, bare.status, bare.output);
  skip_without_product();
  snprintf(text, sizeof text, "env %s NCCL_JOIN_DEBUG=ERROR $P %s", environment, command);
  workshop_expect(text, bare.status, bare.output);
  return bare;
}

Test(versions, what_nccl_answers_is_what_the_program_gets) {
  skip_without_nccl();
  struct outcome outcome = expect_the_same("LD_LIBRARY_PATH=$L", "$W/asker");
  static const char *const answers[] = {"version 2", "result 7: ", "ids: filled, different",
                                        "left as they were: 7 0 0", "now split nothing"};
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
    cr_expect_not_null(strstr(outcome.output, answers[i]), "not said: %s\n%s", answers[i],
                       outcome.output);
}

/* ---- configurations ---- */

/* Of these, and only these: the five functions that make communicators, and the eight collectives.
 */
#define LAYOUTS 6
#define LAYOUTS_OF_COLLECTIVES 3

static unsigned count(const char *text, const char *what) {
  unsigned times = 0;
  for (; (text = strstr(text, what)) != NULL; text++)
    times++;
  return times;
}

Test(versions, configurations_of_every_size_go_through_bit_for_bit) {
  struct outcome outcome = expect_the_same("NCCL_JOIN=1", "$W/configs all");
  cr_assert_eq(outcome.status, 0, "%s", outcome.output);
  cr_expect_eq(count(outcome.output, "magic cafebeef"), 5 * LAYOUTS + 8 * LAYOUTS_OF_COLLECTIVES);
  cr_expect_eq(count(outcome.output, "Config: size 120,"), 1, "%s", outcome.output);
  cr_expect_eq(count(outcome.output, "then 0 after 3 questions"),
               5 * LAYOUTS + 8 * LAYOUTS_OF_COLLECTIVES, "ncclInProgress:\n%s", outcome.output);
  cr_expect_eq(count(outcome.output, "was changed"), 0, "%s", outcome.output);
}

Test(versions, configurations_go_through_when_switched_off) {
  expect_the_same("NCCL_JOIN=0", "$W/configs all");
}

Test(versions, the_headers_own_configuration_has_a_size_that_is_tried) {
  struct outcome outcome = workshop_run("$W/configs size");
  cr_assert_eq(outcome.status, 0,
               "version and sizeof(ncclConfig_t): %sare not in tests/interpose/parts/configs.c",
               outcome.output);
}

Test(versions, the_headers_own_configuration_in_front_of_the_real_nccl) {
  skip_without_nccl();
  struct outcome outcome = expect_the_same("LD_LIBRARY_PATH=$L", "$W/configs header");
  cr_assert_eq(outcome.status, 0, "%s", outcome.output);
  cr_expect_not_null(strstr(outcome.output, "ncclCommInitRankConfig: "), "%s", outcome.output);
}

/* ---- names ---- */

static struct outcome names(const char *filter) {
  char command[512];
  snprintf(command, sizeof command,
           "tests/interpose/parts/names.sh \"$N\" \"" INCLUDE "\" | %s || true", filter);
  return workshop_run(command);
}

Test(versions, no_collective_of_the_real_nccl_goes_past_us) {
  skip_without_nccl();
  struct outcome outcome = names("grep -v '^wrapped\\|^asked\\|^passed\\|^lacking'");
  cr_assert_null(strstr(outcome.output, "bypassing "),
                 "unknown to interpose/nccl/api.h, with a communicator and a stream:\n%s",
                 outcome.output);
  if (outcome.output[0] != '\0')
    fprintf(stderr, "tests/interpose: neither in interpose/nccl/api.h nor in passed.txt:\n%s",
            outcome.output);
}

Test(versions, the_names_are_looked_at) {
  skip_without_nccl();
  struct outcome outcome = names("grep -cx 'wrapped ncclAllReduce\\|asked ncclGetVersion\\|passed "
                                 "ncclGetErrorString'");
  cr_assert_str_eq(outcome.output, "3\n", "%s", outcome.output);
}

/* As one of a release to come would be. */
Test(versions, a_collective_that_nobody_knows_is_told_from_a_question) {
  workshop_expect(
      "mkdir -p $W/future; cd $W/future; echo '/* A (comment). */ ncclResult_t ncclAllToSome(void "
      "*b,"
      " ncclComm_t comm,\n cudaStream_t s); int ncclHowMany(ncclComm_t comm); void "
      "ncclMemAlloc(cudaStream_t s, ncclComm_t c);' >nccl.h;"
      "for name in ncclAllToSome ncclHowMany ncclMemAlloc pncclSend; do echo \"void $name(void) "
      "{}\"; done | ${CC:-gcc} -w -shared -fPIC -x c -o libnccl.so.2 -; cd - >/dev/null;"
      "tests/interpose/parts/names.sh $W/future/libnccl.so.2 $W/future | grep -v ^lacking",
      0, "bypassing ncclAllToSome\npassed ncclMemAlloc\nunknown ncclHowMany\nwrapped ncclSend\n");
}

/* Called all the same, as by a weak reference that the program has not looked at. */
Test(versions, names_that_the_real_nccl_lacks_are_invalid_usage_and_no_more) {
  skip_without_nccl();
  skip_without_product();
  struct outcome lacking = names("sed -n 's/^lacking nccl//p' | tr '\\n' ' '");
  char command[LENGTH] = "env $P LD_LIBRARY_PATH=$L $W/linked GroupStart GroupEnd ";
  char expected[LENGTH] = "";
  workshop_append(command, sizeof command, lacking.output);
  workshop_append(command, sizeof command, "2>/dev/null | cut -d' ' -f1,2");
  for (char *name = strtok(lacking.output, " "); name != NULL; name = strtok(NULL, " ")) {
    char line[128];
    snprintf(line, sizeof line, "nccl%s: 5\n", name);
    workshop_append(expected, sizeof expected, line);
  }
  workshop_expect(command, 0, expected);
}

/* ---- collectives with a configuration, NCCL 2.31 ---- */

Test(versions, a_collective_without_a_configuration_is_the_plain_one) {
  skip_without_product();
  workshop_expect("env $P $W/linked AllReduceConfig BroadcastConfig ReduceConfig AllGatherConfig "
                  "ReduceScatterConfig AlltoAllConfig GatherConfig ScatterConfig",
                  0,
                  "real ncclAllReduce\nreal ncclBroadcast\nreal ncclReduce\nreal ncclAllGather\n"
                  "real ncclReduceScatter\nreal ncclAlltoAll\nreal ncclGather\nreal ncclScatter\n");
}

Test(versions, a_collective_with_a_configuration_makes_its_communicator_unfit) {
  skip_without_product();
  struct outcome outcome = workshop_run("env $P $W/configs all");
  cr_expect_eq(
      count(outcome.output, "NCCL-JOIN WARN ncclAllReduceConfig: the collectives of communicator"),
      1, "%s", outcome.output);
}
