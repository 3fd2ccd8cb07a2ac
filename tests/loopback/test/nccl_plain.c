/* The runner that goes with nccl_plain/criterion/criterion.h; empty with the real Criterion. */
#include <criterion/criterion.h>

#ifdef PLAIN_CRITERION_H
#include <sys/wait.h>
#include <unistd.h>

static struct plain_test *tests;

void plain_register(struct plain_test *test) {
  test->next = tests;
  tests = test;
}

void plain_fail(const char *file, int line, const char *what) {
  fprintf(stderr, "%s:%d: %s failed\n", file, line, what);
  _exit(1);
}

/* Runs all tests, or those whose "suite/name" contains the argument. */
int main(int argc, char **argv) {
  int passed = 0, failed = 0;
  setvbuf(stdout, NULL, _IONBF, 0); /* children inherit what is buffered */
  for (struct plain_test *test = tests; test != NULL; test = test->next) {
    char name[256];
    snprintf(name, sizeof name, "%s/%s", test->suite, test->name);
    if (argc > 1 && strstr(name, argv[1]) == NULL)
      continue;
    int status;
    pid_t child = fork();
    if (child == 0) {
      test->body();
      exit(0);
    }
    waitpid(child, &status, 0);
    passed += status == 0;
    failed += status != 0;
    if (status != 0)
      printf("FAIL %s: wait status %x\n", name, (unsigned)status);
  }
  printf("Tested: %d | Passing: %d | Failing: %d\n", passed + failed, passed, failed);
  return failed != 0;
}
#endif
