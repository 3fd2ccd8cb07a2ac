/* Sandbox: a folder in /tmp with a launcher in it, and runs of it. Used by the launcher's tests.
 *
 * The folder has the layout of the build folder: tools/ with copies of the launcher and its
 * helpers, lib/libnccl-join.so and loopback/libnccl.so.2, both empty shared objects, so that the
 * tests need neither NCCL nor the real preload object. Each Criterion test is a process of its own
 * and makes its own sandbox. A failed step fails the test.
 */
#ifndef NCCL_JOIN_TESTS_TOOLS_SANDBOX_H
#define NCCL_JOIN_TESTS_TOOLS_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define OUTPUT_MAX ((size_t)16 * 1024 * 1024)

struct result {
  int status; /* as a shell gives it */
  double seconds;
  const char *out, *err; /* terminated; valid until the next run */
  size_t out_size, err_size;
};

void sandbox_make(void);
void sandbox_remove(void);
const char *sandbox(void); /* its path */

/* Runs a shell command in the sandbox, with nccl-join on PATH, no settings and no LD_ variables.
 * stdin is empty. */
struct result run(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same until it says something to stderr, or a hundred times: `nccl-join run` gives the check
 * that it does first 150 ms, which on a busy machine may be too little. */
struct result run_until_warned(const char *command);

/* The same without waiting; then waiting for it. */
pid_t start(const char *format, ...) __attribute__((format(printf, 1, 2)));
struct result wait_for(pid_t pid);

/* Waits until the file in the sandbox has that many lines; fails after 50 s. */
void wait_for_lines(const char *file, int lines);

/* Waits until none of the processes whose ids are the lines of the file is there; false after 30
 * s. */
int all_gone(const char *file);

/* Whether a text is JSON, and nothing else. */
bool is_json(const char *text);

/* How often part occurs in text. */
int count(const char *text, const char *part);

#endif
