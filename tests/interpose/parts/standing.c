/* Calls that stand somewhere (placed.h), one way a word; each word prints the ids that it has come
 * to. What must be equal or different is checked here; that an id is right, by placed.c. Here are
 * calls through functions and frames of all kinds; standing_ways.c has the others. */
#include "tests/interpose/parts/standing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void expect(bool as_expected, const char *what) {
  if (as_expected)
    return;
  printf("not as expected: %s\n", what);
  fflush(stdout);
  _Exit(1);
}

void expect_known(uint32_t id) {
  expect(id != 0, "known");
}

uint32_t first_id, second_id;

int times(int number) {
  volatile int same = number;
  return same;
}

bool is_first(int iteration) {
  return times(iteration) == 0;
}

/* ---- wrappers ---- */

NOINLINE uint32_t wrapped(void) {
  uint32_t id = stand();
  STAY;
  return id;
}

NOINLINE uint32_t wrapped_twice(void) {
  uint32_t id = wrapped();
  STAY;
  return id;
}

static void stand_in_wrapper(void) {
  for (int i = 0; i < times(3); i++) {
    uint32_t a = wrapped_twice(), b = wrapped_twice(), c = wrapped();
    expect(a != b && b != c && a != c, "each caller has an id of its own");
    expect(is_first(i) || (a == first_id && b == second_id), "the same again");
    first_id = a;
    second_id = b;
  }
}

static NOINLINE uint32_t wrapped_thrice(void) {
  uint32_t id = wrapped_twice();
  STAY;
  return id;
}

#define CALLER(name, of)                                                                           \
  static NOINLINE uint32_t name(void) {                                                            \
    uint32_t id = of();                                                                            \
    __asm__ volatile("# " #name); /* or what is alike is made one */                               \
    return id;                                                                                     \
  }
CALLER(caller_1, wrapped)
CALLER(caller_2, wrapped)
CALLER(caller_3, wrapped_twice)
CALLER(caller_4, wrapped_twice)
CALLER(caller_5, wrapped_thrice)
CALLER(caller_6, wrapped_thrice)

/* In no order, so that what came last before is no help: they differ in one frame, of one size. */
static void stand_in_disorder(void) {
  uint32_t (*const callers[])(void) = {caller_1, caller_2, caller_3, caller_4, caller_5, caller_6};
  uint32_t ids[6] = {0}, random = 1;
  for (int i = 0; i < times(600); i++) {
    random = random * 1664525 + 1013904223;
    unsigned which = (random >> 16) % 6;
    uint32_t id = callers[which]();
    expect(ids[which] == 0 || id == ids[which], "the same again");
    ids[which] = id;
  }
  for (int i = 0; i < 6; i++)
    for (int j = 0; j < 4 && j < i; j++)
      expect(ids[i] != ids[j], "each caller has an id of its own");
  first_id = ids[0];
}

static void stand_in_pointer(void) {
  uint32_t (*volatile functions[])(void) = {wrapped, wrapped_twice, stand};
  uint32_t ids[3];
  for (int round = 0; round < times(3); round++)
    for (int i = 0; i < times(3); i++) {
      uint32_t id = functions[i]();
      expect(is_first(round) || id == ids[i], "the same again");
      ids[i] = id;
    }
  expect(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "as many as functions");
  first_id = ids[0];
}

/* A loop is learnt: nothing is searched for any more. */
static void stand_in_loop(void) {
  unsigned long searches = 0;
  for (int i = 0; i < times(5); i++) {
    if (times(i) == 3)
      searches = stand_searches();
    first_id = stand();
    second_id = stand();
    expect(first_id != second_id, "two calls");
  }
  /* Not where a program aligns its frames. */
  if (getenv("FRAMES_ARE_SIMPLE") != NULL)
    expect(stand_searches() == searches, "found without a search");
}

/* Two calls come after the one in the inner loop. */
static void stand_in_rounds(void) {
  unsigned long searches = 0;
  for (int i = 0; i < times(6); i++) {
    if (times(i) == 4)
      searches = stand_searches();
    for (int k = 0; k < times(3); k++)
      first_id = stand();
    second_id = stand();
    expect(first_id != second_id, "two calls");
  }
  if (getenv("FRAMES_ARE_SIMPLE") != NULL)
    expect(stand_searches() == searches, "found without a search");
}

/* ---- frames of all sizes ---- */

static NOINLINE uint32_t on_more(size_t size) {
  volatile char array[size];
  array[0] = 1;
  uint32_t id = stand();
  array[size - 1] = 2;
  return id;
}

static NOINLINE uint32_t on_more_of_first(size_t size) {
  uint32_t id = on_more(size);
  STAY;
  return id;
}

static NOINLINE uint32_t on_more_of_second(size_t size) {
  uint32_t id = on_more(size);
  STAY;
  return id;
}

/* Old frames lie below, with return addresses where those of smaller frames would be. */
static void stand_in_alloca(void) {
  for (size_t i = 0; i < (size_t)times(64); i++) {
    size_t size = i % 3 == 0 ? 16 : 16 * (1 + i * 7 % 40);
    uint32_t a = on_more_of_first(size), b = on_more_of_second(4 * size);
    expect(a != b && (is_first(i) || (a == first_id && b == second_id)), "by caller, not by size");
    first_id = a;
    second_id = b;
  }
}

static NOINLINE uint32_t aligned(int n) {
  _Alignas(64) volatile char array[256];
  array[n] = 1;
  expect((uintptr_t)array % 64 == 0, "aligned");
  uint32_t id = wrapped();
  array[n + 1] = 2;
  return id;
}

static NOINLINE uint32_t aligned_and_more(size_t size) {
  _Alignas(64) volatile char array[64];
  volatile char more[size];
  array[0] = more[0] = 1;
  uint32_t id = aligned(3);
  array[1] = more[size - 1] = 2;
  return id;
}

static void stand_in_aligned(void) {
  for (int i = 0; i < times(4); i++) {
    first_id = aligned(i);
    second_id = aligned_and_more(8 * (size_t)(i + 1));
    expect(first_id != second_id, "two callers");
  }
}

static NOINLINE uint32_t deep(unsigned depth) {
  uint32_t id = depth == 0 ? wrapped() : deep(depth - 1);
  STAY;
  return id;
}

static void stand_in_deep(void) {
  uint32_t before = deep(600), near = deep(10), other = deep(10);
  first_id = deep(5000);
  expect(before == first_id, "by the innermost frames");
  expect(near != other, "by who calls what all calls go through");
  near = deep(100), other = deep(100);
  expect(near != other, "however deep");
  for (unsigned depth = 0; depth < (unsigned)times(100); depth++)
    expect_known(deep(depth));
}

/* Who has called Python's own frames is what Python's chain says. */
static void stand_in_told(void) {
  stand_untraced();
  stand_in_python(true);
  first_id = deep(10);
  second_id = deep(10);
  expect((first_id == second_id) == (getenv("DOUBLE_CONTAINED") != NULL), "up to Python's frames");
}

/* ---- the words ---- */

static const struct {
  const char *word;
  void (*act)(void);
} words[] = {
    {"wrapper", stand_in_wrapper}, {"disorder", stand_in_disorder},
    {"pointer", stand_in_pointer}, {"loop", stand_in_loop},
    {"rounds", stand_in_rounds},   {"alloca", stand_in_alloca},
    {"aligned", stand_in_aligned}, {"deep", stand_in_deep},
    {"longjmp", stand_in_longjmp}, {"handler", stand_in_handler},
    {"threads", stand_in_threads}, {"child", stand_in_child},
    {"context", stand_in_context}, {"generated", stand_in_generated},
    {"garbage", stand_in_garbage}, {"closed", stand_in_closed},
    {"engine", stand_in_engine},   {"description", stand_in_description},
    {"tails", stand_in_tails},     {"hook", stand_in_hook},
    {"told", stand_in_told},
};

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    for (size_t word = 0; word < sizeof(words) / sizeof(words[0]); word++)
      if (strcmp(argv[i], words[word].word) == 0) {
        words[word].act();
        printf("%s %08x %08x\n", argv[i], first_id, second_id);
        fflush(stdout);
      }
  return 0;
}
