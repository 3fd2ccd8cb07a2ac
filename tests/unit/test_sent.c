/* Which buffer a rank sends from next, by those that it has sent from. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>

#include "core/p2p/sent.h"
#include "tests/unit/failing.h"

static struct sent *sent;
static bool told;

static void begin(void) {
  sent = sent_create();
}
static void end(void) {
  sent_destroy(sent);
  sent = NULL; /* what is still there is lost */
}
TestSuite(sent, .init = begin, .fini = end);

static char memory[256];

/* Calls of key 1 from buffers with names of one letter. */
static void note(const char *letters) {
  for (; *letters != '\0'; letters++)
    sent_note(sent, 1, &memory[(unsigned char)*letters]);
}

static char next(void) {
  const char *address = sent_next(sent, 1, &told);
  return address == NULL ? '-' : (char)(address - memory);
}

/* What comes next, and whether all of it is told. */
static void expect_next(const char *letters) {
  for (const char *letter = letters; *letter != '\0'; letter++) {
    char got = next();
    cr_expect_eq(got, *letter, "%c, not %c, at %d of %s", got, *letter, (int)(letter - letters),
                 letters);
    cr_expect(told);
  }
}

Test(sent, a_rank_that_has_never_called_has_no_buffer) {
  cr_expect_null(sent_next(sent, 1, &told));
  sent_note(sent, 2, memory);
  cr_expect_null(sent_next(sent, 1, &told));
}

Test(sent, one_buffer_is_used_again_and_again) {
  note("a");
  expect_next("aaa");
  note("aaaa");
  expect_next("aaa");
}

Test(sent, another_buffer_takes_its_place) {
  note("aaabbb");
  expect_next("bbb");
}

Test(sent, layers_of_one_size_follow_each_other) {
  note("abcabc");
  expect_next("abcabcabc");
}

/* The rank has joined in the middle of an iteration. */
Test(sent, a_round_goes_on_where_it_was_left) {
  note("abcdabcdab");
  expect_next("cdabcdab");
}

Test(sent, the_halves_of_a_double_buffer_take_turns) {
  note("ababa");
  expect_next("baba");
}

Test(sent, a_buffer_twice_in_a_round_is_told_by_what_came_before) {
  note("abacabac");
  expect_next("abacabac");
  note("aba");
  expect_next("cabac");
}

/* After as many rounds as now, the rank did something else the last time. The others do not: they
 * are in the loop. */
Test(sent, a_loop_goes_on_although_something_else_came_after_it_before) {
  note("ababab");
  note("xyz");
  note("ababab");
  expect_next("abab");
}

/* Twice the same in a row is no loop yet. */
Test(sent, what_came_after_the_same_calls_comes_again) {
  note("aabaab");
  expect_next("aab");
  note("aa");
  expect_next("baab");
}

Test(sent, a_call_of_its_own_ends_what_was_told) {
  note("abcabc");
  expect_next("ab");
  note("a");
  expect_next("bca");
}

Test(sent, nothing_tells_between_buffers_that_have_been_used_once) {
  note("abc");
  cr_expect_eq(next(), 'c', "the last one");
  cr_expect_not(told);
  note("a");
  expect_next("bcabca");
}

Test(sent, keys_are_kept_apart) {
  note("ab");
  sent_note(sent, 1 + SENT_SETS, &memory['x']);
  note("ab");
  expect_next("ab");
  cr_expect_eq(sent_next(sent, 1 + SENT_SETS, &told), &memory['x']);
}

Test(sent, of_too_many_keys_the_one_not_used_for_longest_is_forgotten) {
  for (uint64_t i = 0; i < SENT_WAYS; i++)
    sent_note(sent, 1 + i * SENT_SETS, &memory[i]);
  cr_expect_not_null(sent_next(sent, 1, &told), "used again");
  sent_note(sent, 1 + SENT_WAYS * SENT_SETS, &memory['x']);
  cr_expect_eq(sent_next(sent, 1, &told), &memory[0]);
  cr_expect_null(sent_next(sent, 1 + SENT_SETS, &told));
  cr_expect_eq(sent_next(sent, 1 + SENT_WAYS * SENT_SETS, &told), &memory['x']);
}

/* Longer than what is kept, so that the beginning is written over. */
Test(sent, long_rounds_are_followed_for_ever) {
  enum { ROUND = SENT_CALLS / 2 - 10, ROUNDS = 7 };
  static char buffers[ROUND];
  for (int i = 0; i < ROUNDS * ROUND + 100; i++)
    sent_note(sent, 1, &buffers[i % ROUND]);
  for (int i = 100; i < 3 * ROUND; i++) {
    cr_assert_eq(sent_next(sent, 1, &told), &buffers[i % ROUND]);
    cr_assert(told);
  }
}

Test(sent, without_memory_a_call_is_forgotten) {
  fail_call(CALL_ALLOCATION, 1, 1, ENOMEM);
  note("a");
  cr_assert(call_has_failed(CALL_ALLOCATION));
  cr_expect_null(sent_next(sent, 1, &told));
  note("b");
  expect_next("b");
}
