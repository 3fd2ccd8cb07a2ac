/* Runs the tests of plain.h: all, or those whose names contain the first argument. */
#include "tests/loopback/test/plain.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern const struct plain_test *const __start_plain_tests[], *const __stop_plain_tests[];

static int run(const struct plain_test *test) {
  int status;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(300);
    test->body();
    exit(0);
  }
  waitpid(child, &status, 0);
  if (test->signal)
    return WIFSIGNALED(status) && WTERMSIG(status) == test->signal;
  return WIFEXITED(status) && WEXITSTATUS(status) == test->exit_code;
}

int main(int count, char **arguments) {
  int tested = 0, failed = 0;
  for (const struct plain_test *const *test = __start_plain_tests; test < __stop_plain_tests;
       test++) {
    if (count > 1 && !strstr((*test)->name, arguments[1]))
      continue;
    tested++;
    if (!run(*test)) {
      failed++;
      printf("[FAIL] %s\n", (*test)->name);
    }
  }
  printf("Tested: %d | Passing: %d | Failing: %d\n", tested, tested - failed, failed);
  return failed != 0;
}
