/* Waiting for a device in pauses (hooks/shadow_device.h): how long they are, and when it ends. */
#include <criterion/criterion.h>
#include <time.h>

#include "hooks/shadow_device.h"

static bool gives_up(void *context) {
  return *(bool *)context;
}

Test(pause, pauses_grow_to_a_millisecond) {
  const struct shadow_limit limit = {.until_ns = UINT64_MAX};
  uint64_t pause_ns = 0;
  for (uint64_t expected = 2000; expected < 2000000; expected *= 2) {
    cr_assert(limit_pause(&limit, &pause_ns));
    cr_assert_eq(pause_ns, expected < 1000000 ? expected : 1000000);
  }
}

Test(pause, there_is_none_after_its_end) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  const struct shadow_limit limit = {.until_ns =
                                         (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec};
  uint64_t pause_ns = 0;
  cr_assert_not(limit_pause(&limit, &pause_ns));
  cr_assert_eq(pause_ns, 0);
}

Test(pause, nor_for_who_gives_up) {
  bool gone = false;
  const struct shadow_limit limit = {.until_ns = UINT64_MAX, .give_up = gives_up, .context = &gone};
  uint64_t pause_ns = 0;
  cr_assert(limit_pause(&limit, &pause_ns));
  gone = true;
  cr_assert_not(limit_pause(&limit, &pause_ns));
}
