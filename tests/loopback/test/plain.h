/* As much of Criterion as these tests use, for ThreadSanitizer: Criterion's own threads do not
 * survive in its builds. One process a test, one after the other; plain.c is the runner. */
#ifndef LOOPBACK_TEST_PLAIN_H
#define LOOPBACK_TEST_PLAIN_H

#pragma GCC system_header /* Test(suite, name) leaves out the variable arguments */

#include <stdio.h>
#include <stdlib.h>

struct plain_test {
  const char *name;
  void (*body)(void);
  int signal;    /* that ends the test, or 0 */
  int exit_code; /* with which it ends, if not 0 */
};

#define Test(suite, test, ...)                                                                     \
  static void suite##_##test(void);                                                                \
  static const struct plain_test plain_##suite##_##test = {#suite "::" #test, suite##_##test,      \
                                                           __VA_ARGS__};                           \
  __attribute__((used, section("plain_tests"))) static const struct plain_test                     \
      *const plain_pointer_##suite##_##test = &plain_##suite##_##test;                             \
  static void suite##_##test(void)

/* plain.c has one time limit for all. */
#define TestSuite(suite, ...) struct plain_suite_##suite

#define cr_assert(condition, ...)                                                                  \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                              \
      _Exit(99);                                                                                   \
    }                                                                                              \
  } while (0)
#define eq(type, a, b) ((a) == (b))
#define ne(type, a, b) ((a) != (b))
#define ge(type, a, b) ((a) >= (b))
#define lt(type, a, b) ((a) < (b))

#endif
