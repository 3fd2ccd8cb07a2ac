/* Captures of CUDA graphs seen on their way to the runtime (capture.h). */
#include <criterion/criterion.h>

#include "tests/interpose/workshop.h"

#define CAPTURES(release)                                                                          \
  "capture begins\nruntime " release " begins in mode 7\ncapture ends\nreturned 1\n"               \
  "capture begins\nruntime " release " begins in mode 2\nruntime " release " ends\ncapture ends\n"

Test(capture, is_seen_in_a_plugin_opened_locally) {
  workshop_expect("env $J $W/host --open $W/capturer12.so now", 0, CAPTURES("12"));
}

Test(capture, goes_to_the_runtime_of_who_calls) {
  workshop_expect("env $J $W/host --open $W/capturer12.so now --open $W/capturer13.so now", 0,
                  CAPTURES("12") CAPTURES("13"));
  workshop_expect("env $J $W/host --open $W/capturer13.so now --open $W/capturer12.so now", 0,
                  CAPTURES("13") CAPTURES("12"));
}

Test(capture, is_seen_in_a_linked_program) {
  workshop_expect("env $J $W/capturing now", 0, CAPTURES("12"));
}

/* As CUDA says it of a function that a driver lacks. */
Test(capture, without_a_runtime_is_an_error) {
  workshop_expect("env $J $W/host --open $W/lonely_capturer.so now", 99, "returned 500\n");
}
