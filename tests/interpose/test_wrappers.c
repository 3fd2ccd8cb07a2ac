/* The wrappers: each call of the program reaches its handler once, and nothing that NCCL calls
 * itself does. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "interpose/nccl/api.h"
#include "tests/interpose/workshop.h"

#define LENGTH 8192

Test(wrappers, every_function_of_the_table_is_handled_as_the_table_says) {
  char command[LENGTH] = "env $J $W/linked";
  char expected[LENGTH] = "";
#define EXPECT_HANDLED(name) "join nccl" #name "\nreal nccl" #name "\n"
#define EXPECT_FAST EXPECT_HANDLED
#define EXPECT_UNFIT(name) "unfit nccl" #name "\nreal nccl" #name "\n"
#define EXPECT_OBSERVED(name) "real nccl" #name "\nsaw nccl" #name "\n"
#define EXPECT_CREATES EXPECT_HANDLED
#define EXPECT_GROUPS EXPECT_HANDLED
#define EXPECT_SPLITS EXPECT_HANDLED
#define EXPECT_CALLED(name) ""
#define EXPECT_ASKED EXPECT_CALLED
#define EXPECT(since, name, parameters, arguments, handling)                                       \
  /* These three do more; tests of their own below. */                                             \
  if (strcmp(#name, "Bcast") != 0 && strcmp(#name, "Reduce") != 0 &&                               \
      strncmp(#name, "CommInit", 8) != 0 && EXPECT_##handling(name)[0] != '\0') {                  \
    workshop_append(command, sizeof command, " " #name);                                           \
    workshop_append(expected, sizeof expected, EXPECT_##handling(name));                           \
  }
  NCCL_API(EXPECT)
  workshop_expect(command, 0, expected);
}

Test(wrappers, functions_that_call_themselves_through_us_are_counted_once) {
  workshop_expect("env $J $W/linked Bcast", 0,
                  "join ncclBcast\nreal ncclBcast\nreal ncclBroadcast\n");
}

Test(wrappers, functions_that_call_others_through_us_are_counted_once) {
  workshop_expect("env $J LEAVE=no $W/linked CommInitAll Broadcast", 0,
                  "join ncclCommInitAll\nreal ncclCommInitAll\nreal ncclGetUniqueId\n"
                  "real ncclGroupStart\nreal ncclGroupEnd\n"
                  "join ncclBroadcast\nreal ncclBroadcast\n"
                  "leave 0\nreal ncclGroupStart\n");
}

Test(wrappers, a_handler_that_calls_nccl_by_name_reaches_the_real_one) {
  workshop_expect("env $J $W/linked Reduce AllReduce", 0,
                  "join ncclReduce\nreal ncclAllReduce\nreal ncclReduce\n"
                  "join ncclAllReduce\nreal ncclAllReduce\n");
}

Test(wrappers, switched_off_every_call_goes_straight_through) {
  workshop_expect(
      "env $J NCCL_JOIN=0 $W/linked AllReduce CommInitAll CommGetAsyncError CommRegister", 0,
      "real ncclAllReduce\nreal ncclCommInitAll\nreal ncclGetUniqueId\n"
      "real ncclGroupStart\nreal ncclGroupEnd\nreal ncclCommGetAsyncError\nreal "
      "ncclCommRegister\n");
}

Test(wrappers, switched_on_by_name_is_the_default) {
  workshop_expect("env $J NCCL_JOIN=1 $W/linked AllReduce", 0,
                  "join ncclAllReduce\nreal ncclAllReduce\n");
}

Test(wrappers, a_wrong_setting_does_not_switch_off) {
  workshop_expect("env $J NCCL_JOIN=maybe $W/linked AllReduce", 0,
                  "join ncclAllReduce\nreal ncclAllReduce\n");
}
