/* What a loop's counter says of its round (native_counters.h). Which loops have one, and where it
 * lies, the program tests show (tests/join/rounds.c). */
#include <criterion/criterion.h>

#include <stdint.h>

#include "interpose/places/native/native_counters.h"

static void check(struct native_counter counter, uint64_t value, uint64_t limit, uint32_t number,
                  uint32_t total) {
  if (counter.limit_bits == 0)
    counter.limit_bits = counter.bits;
  struct place_round round = native_counter_says(&counter, value, limit);
  cr_expect(round.number == number && round.total == total,
            "step %lld, %llu of %llu: round %u of %u, not %u of %u", (long long)counter.step,
            (unsigned long long)value, (unsigned long long)limit, round.number, round.total, number,
            total);
}

Test(native_counters, that_go_up_say_their_round_and_how_many) {
  const struct native_counter by_one = {.step = 1, .bits = 32}, by_three = {.step = 3, .bits = 64};
  check(by_one, 0, 5, 1, 5);
  check(by_one, 4, 5, 5, 5);
  check((struct native_counter){.step = 1, .plus = 1, .bits = 32}, 4, 5, 4, 5);
  check(by_three, 3, 8, 2, 3);
  /* Ranks that begin with other numbers of as many. */
  check(by_three, 4, 8, 2, 3);
  /* What lies above the counter in its register, or behind it in memory, is none of it. */
  check(by_one, UINT64_C(0x700000002), UINT64_C(0x900000005), 3, 5);
  check((struct native_counter){.step = 1, .bits = 64, .limit_bits = 32}, 2, UINT64_C(0x900000005),
        3, 5);
}

Test(native_counters, of_other_loops_what_is_left_is_known) {
  const struct native_counter down = {.step = -1, .bits = 32}, over = {.step = 24, .bits = 64};
  const uint64_t address = UINT64_C(0x7ffff0001000);
  check(down, 5, 0, PLACE_EPOCHS_MAX - 7, PLACE_EPOCHS_MAX);
  check((struct native_counter){.step = -1, .plus = -1, .bits = 32}, 4, 0, PLACE_EPOCHS_MAX - 7,
        PLACE_EPOCHS_MAX);
  check(over, address, address + 3 * 24, PLACE_EPOCHS_MAX - 5, PLACE_EPOCHS_MAX);
  check(over, address + 2 * 24, address + 3 * 24, PLACE_EPOCHS_MAX - 3, PLACE_EPOCHS_MAX);
  /* A part of a step is a round, too. */
  const struct native_counter by_threes = {.step = -3, .bits = 32};
  check(by_threes, 9, 4, PLACE_EPOCHS_MAX - 4, PLACE_EPOCHS_MAX);
  check(by_threes, 6, 4, PLACE_EPOCHS_MAX - 3, PLACE_EPOCHS_MAX);
  check(by_threes, 3, 4, PLACE_EPOCHS_MAX - 2, PLACE_EPOCHS_MAX);
  /* By how it is compared the last one may seem to be over. */
  check(down, 1, 3, PLACE_EPOCHS_MAX, PLACE_EPOCHS_MAX);
}

/* What the first of two rounds sets is what the second one ends with. */
Test(native_counters, that_are_set_say_whether_it_is_the_second_round) {
  const struct native_counter set = {.step = 0, .bits = 32};
  check(set, 0, 1, 1, 2);
  check(set, UINT64_C(0x700000001), 1, 2, 2);
  check((struct native_counter){.step = 0, .is_first = true, .bits = 32}, 1, 1, 1, 2);
  /* A byte, such as a flag. */
  check((struct native_counter){.step = 0, .bits = 8}, 0x7701, 0x101, 2, 2);
}

/* Of more rounds than epochs are, and where the numbers fit nothing. */
Test(native_counters, that_cannot_be_believed_say_nothing) {
  const struct native_counter down = {.step = -1, .bits = 32}, up = {.step = 1, .bits = 64};
  check(down, PLACE_EPOCHS_MAX, 0, 0, 0);
  check(down, 2, 5, 0, 0);
  check(up, INT64_MAX, 5, 0, 0);
  check(down, 0x7fffffff, 0x80000001, 0, 0);
  check((struct native_counter){.step = -1, .bits = 64}, INT64_MAX, 0, 0, 0);
  check(up, (uint64_t)INT64_MIN, INT64_MAX, 0, 0);
  check((struct native_counter){.step = 1, .bits = 32}, UINT32_MAX, 3, 0, 0);
  check((struct native_counter){.step = INT64_MIN, .plus = INT64_MIN, .bits = 64}, INT64_MAX,
        INT64_MAX, 0, 0);
  check((struct native_counter){.step = -1, .bits = 64}, 0, (uint64_t)INT64_MIN, 0, 0);
  check(up, 3, 0, 0, 0);
  /* Too many to be said. */
  check(up, 7, UINT64_C(1) << 40, 8, 0);
}
