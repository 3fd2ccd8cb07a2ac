/* Reads that come again are made at once, and never say what was so before (python_ahead.h). */
#include <criterion/criterion.h>

#include "interpose/places/python/python_ahead.h"

#include <string.h>
#include <sys/mman.h>

enum { WORDS = 4096, PAGE = 4096 };

static uint64_t words[WORDS];

static void number_words(uint64_t first) {
  for (uint64_t i = 0; i < WORDS; i++)
    words[i] = first + i;
}

static uint64_t word(struct python_ahead *ahead, size_t i) {
  return python_ahead_word(ahead, (uint64_t)&words[i]);
}

/* Whether words i, step words apart, are read as they are. */
static void expect_words(struct python_ahead *ahead, size_t step, uint64_t first) {
  for (size_t i = 0; i < WORDS; i += step)
    cr_assert_eq(word(ahead, i), first + i, "word %zu", i);
}

static void look(size_t step, uint64_t first) {
  struct python_ahead *ahead = python_ahead_begin();
  cr_assert_not_null(ahead);
  expect_words(ahead, step, first);
  python_ahead_end(ahead);
}

/* Side by side, and so far apart that each is a piece, with more of them than there is room for. */
Test(python_ahead, words_are_read_as_they_are_when_it_begins, .timeout = 60) {
  for (size_t step = 1; step <= 1024; step *= 4)
    for (uint64_t round = 0; round < 3; round++) {
      number_words(1000 * round);
      look(step, 1000 * round);
    }
}

Test(python_ahead, what_was_read_the_last_time_is_as_old_as_the_beginning, .timeout = 60) {
  number_words(5);
  look(WORDS / 2, 5);
  struct python_ahead *ahead = python_ahead_begin();
  number_words(7);
  cr_assert_eq(word(ahead, WORDS / 2), 5 + WORDS / 2);
  cr_assert_eq(word(ahead, 1000), 1007, "not read the last time");
  python_ahead_end(ahead);
}

Test(python_ahead, parts_of_a_piece_are_found_in_it, .timeout = 60) {
  number_words(0);
  for (int round = 0; round < 2; round++) {
    struct python_ahead *ahead = python_ahead_begin();
    uint64_t copy[6];
    cr_assert(python_ahead_read(ahead, copy, (uint64_t)&words[10], sizeof(copy)));
    cr_assert(python_ahead_read(ahead, copy, (uint64_t)&words[4], sizeof(copy)));
    cr_assert_eq(memcmp(copy, &words[4], sizeof(copy)), 0);
    cr_assert_eq(word(ahead, 13), 13);
    python_ahead_end(ahead);
  }
}

/* What has been unmapped meanwhile costs a system call for each of the others. */
Test(python_ahead, memory_that_has_gone_is_not_read, .timeout = 60) {
  uint64_t *gone = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(gone, MAP_FAILED);
  gone[0] = 3;
  number_words(0);
  struct python_ahead *ahead = python_ahead_begin();
  cr_assert_eq(python_ahead_word(ahead, (uint64_t)gone), 3);
  cr_assert_eq(word(ahead, 8), 8);
  python_ahead_end(ahead);
  munmap(gone, PAGE);
  number_words(1);
  ahead = python_ahead_begin();
  uint64_t copy;
  cr_assert_not(python_ahead_read(ahead, &copy, (uint64_t)gone, sizeof(copy)));
  cr_assert_eq(word(ahead, 8), 9);
  python_ahead_end(ahead);
}

Test(python_ahead, one_at_a_time_and_the_others_read_by_themselves, .timeout = 60) {
  number_words(0);
  struct python_ahead *ahead = python_ahead_begin();
  cr_assert_null(python_ahead_begin());
  expect_words(NULL, 64, 0);
  python_ahead_end(NULL);
  cr_assert_null(python_ahead_begin());
  python_ahead_end(ahead);
  look(64, 0);
}
