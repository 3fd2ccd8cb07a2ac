/* Time in which a process is stopped, beside that in which it waits. */
#include <criterion/criterion.h>

#include "interpose/comm/clock.h"

Test(clock, time_between_two_looks_of_a_wait_is_no_stop) {
  uint64_t looked = 0;
  cr_assert_eq(clock_stopped(&looked, 10000), 0);
  cr_assert_eq(clock_stopped(&looked, 10000 + CLOCK_STOPPED_MS - 1), 0);
  cr_assert_eq(clock_stopped(&looked, 20000 + CLOCK_STOPPED_MS - 1), 10000);
}

/* Who looks at 10,000, is stopped for 7 s in the midst of that look, notes then that something has
 * moved, and looks again: what it has noted is not in the future. */
Test(clock, what_was_noted_after_a_stop_was_not_before_it) {
  uint64_t looked = 10000, noted = 17000, now = 17050;
  uint64_t stopped = clock_stopped(&looked, now);
  cr_assert_eq(stopped, 7050);
  cr_assert_eq(clock_without(noted, stopped, now), now);
  cr_assert_eq(clock_without(9000, stopped, now), 16050);
}
