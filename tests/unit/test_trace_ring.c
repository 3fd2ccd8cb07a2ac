/* Traces in mapped files (core/report/ring.h): what a killed process, a long run and a full disk
 * leave.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/report/log.h"
#include "tests/unit/trace_files.h"

TestSuite(trace_ring, .init = trace_files_begin, .fini = trace_files_end);

static const char unit_text[] = "allreduce(sum, float32, 1024)";

/* Killed while it writes, many times over; the last record may be half there. */
Test(trace_ring, a_process_that_is_killed_leaves_all_its_records, .timeout = 300) {
  for (int round = 0; round < 10; round++) {
    _Atomic uint64_t *done =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (child == 0) {
      struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
      for (uint64_t i = 0;; i++) {
        trace_event(trace, TRACE_COMMIT, i, unit_text, -1);
        atomic_store(done, i + 1);
      }
    }
    while (atomic_load(done) < 1000 + 37 * (uint64_t)round)
      ;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    read_only_file();
    uint64_t records = 0;
    for (size_t i = 1; i < lines_with_something(); i++) {
      if (*lines[i] != '{')
        continue;
      check_object(lines[i]);
      cr_assert_eq(number(lines[i], "index"), records);
      records++;
    }
    cr_assert_geq(records, atomic_load(done));
    cr_assert_leq(records, atomic_load(done) + 1);
    cr_assert_eq(unlink(path_of(0, 1)), 0);
    munmap((void *)done, 4096);
  }
}

/* Records from some line on to the end, then from the first one on: those made last, each once. */
static void expect_last_records(uint64_t made, size_t at_least) {
  size_t n = lines_with_something(), first = 1;
  cr_assert_gt(n, at_least);
  cr_expect(has(lines[0], "nccl-join-trace"));
  for (size_t i = 2; i < n; i++)
    if (number(lines[i], "index") < number(lines[first], "index"))
      first = i;
  for (size_t i = 0; i < n - 1; i++) {
    const char *line = lines[1 + (first - 1 + i) % (n - 1)];
    check_object(line);
    cr_assert_eq(number(line, "index"), made - (n - 1) + i);
  }
}

Test(trace_ring, of_a_long_run_the_last_records_are_kept) {
  static const size_t limits[] = {RING_CHUNK, 1 << 20, (1 << 20) + 12345};
  for (size_t k = 0; k < 3; k++) {
    struct trace *trace = trace_open(folder, limits[k], 0, 1, 1);
    for (uint64_t i = 0; i < 30000; i++)
      trace_event(trace, TRACE_COMMIT, i, i % 3 == 0 ? unit_text : NULL, -1);
    trace_close(trace);
    struct stat status;
    cr_assert_eq(stat(path_of(0, 1), &status), 0);
    cr_expect_eq((size_t)status.st_size, limits[k]);
    read_only_file();
    expect_last_records(30000, limits[k] / 120);
    cr_assert_eq(unlink(path_of(0, 1)), 0);
  }
  cr_expect_str_empty(warnings());
}

/* A limit on the size of files fails as a full disk does. */
Test(trace_ring, a_full_disk_is_one_warning_and_the_last_records_are_kept) {
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, RLIM_INFINITY});
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_COMMIT, i, "allreduce(sum, float32, 1024)", -1);
  trace_close(trace);
  cr_expect(has(warnings(), "cannot grow (File too large): it keeps the last 64 KiB"), "%s",
            warnings());
  cr_expect_null(strchr(strchr(warnings(), '\n') + 1, '\n'), "%s", warnings());
  read_only_file();
  expect_last_records(20000, 400);
}

/* A real one: what is on it stays whole, and nobody gets a SIGBUS. */
Test(trace_ring, a_full_file_system) {
  char disk[64];
  snprintf(disk, sizeof(disk), "%s/disk", folder);
  cr_assert_eq(mkdir(disk, 0700), 0);
  if (mount("none", disk, "tmpfs", 0, "size=200k") != 0)
    cr_skip_test("only root can mount");
  char path[512], filler[128];
  struct trace *trace = trace_open(disk, LIMIT, 0, 1, 1);
  static char zeros[4096];
  snprintf(filler, sizeof(filler), "%s/filler", disk);
  int file = open(filler, O_CREAT | O_WRONLY, 0600);
  while (write(file, zeros, 4096) == 4096)
    ;
  close(file);
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_COMMIT, i, unit_text, -1);
  cr_expect(has(warnings(), "cannot grow (No space left on device): it keeps the last 64 KiB"),
            "%s", warnings());
  char host[256];
  log_host(host, sizeof(host));
  snprintf(path, sizeof(path), "%s/rank-0.%s.%d.jsonl", disk, host, (int)getpid());
  read_file(path);
  expect_last_records(20000, 400);
  cr_expect_null(trace_open(disk, LIMIT, 1, 2, 2), "no room for another one");
  cr_expect(has(warnings(), "this rank has no trace"));
  trace_close(trace);
  umount(disk);
}

/* What it had taken it keeps, which nobody will read. */
Test(trace_ring, a_file_that_was_removed_is_one_warning) {
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  cr_assert_eq(unlink(path_of(0, 1)), 0);
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  trace_flush(trace);
  trace_close(trace);
  cr_expect(has(warnings(), "cannot grow (No such file or directory)"), "%s", warnings());
  cr_expect_null(strchr(strchr(warnings(), '\n') + 1, '\n'), "%s", warnings());
}
