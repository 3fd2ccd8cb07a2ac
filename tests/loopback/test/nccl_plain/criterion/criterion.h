/* As much of Criterion as the tests of the loopback NCCL use, for ThreadSanitizer: Criterion's
 * runner maps its memory where that needs its own ("Could not initialize inheritable arena"). Each
 * test is a child process here too. nccl.mk puts this in front of the real header; nccl_plain.c is
 * the runner.
 */
#ifndef PLAIN_CRITERION_H
#define PLAIN_CRITERION_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct plain_test {
  const char *suite, *name;
  void (*body)(void);
  struct plain_test *next;
};

void plain_register(struct plain_test *test);
_Noreturn void plain_fail(const char *file, int line, const char *what);

#define Test(suite_, name_)                                                                        \
  static void suite_##_##name_(void);                                                              \
  __attribute__((constructor)) static void suite_##_##name_##_register(void) {                     \
    static struct plain_test test = {#suite_, #name_, suite_##_##name_, NULL};                     \
    plain_register(&test);                                                                         \
  }                                                                                                \
  static void suite_##_##name_(void)

#define PLAIN_TEXT(...) fprintf(stderr, " " __VA_ARGS__)
#define cr_assert(condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      PLAIN_TEXT(__VA_ARGS__);                                                                     \
      plain_fail(__FILE__, __LINE__, #condition);                                                  \
    }                                                                                              \
  } while (0)
#define cr_assert_eq(a, b, ...) cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...) cr_assert((a) != (b), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) cr_assert(strcmp(a, b) == 0, __VA_ARGS__)

#endif
