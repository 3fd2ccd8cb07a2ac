/* Where the kernel says no: what the log, the trace and the segments do and say when one of their
 * system calls fails. What a test cannot bring about by files and limits is brought about by
 * failing.h. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/report/log.h"
#include "core/transport/segment.h"
#include "core/report/trace.h"
#include "tests/text_file.h"
#include "tests/unit/failing.h"
#include "tests/unit/segment_stage.h"

static char folder[] = "/tmp/nccl-join-failures-XXXXXX";
static char said_path[PATH_MAX];
static struct settings settings;

/* stderr becomes a file. */
static void redirect(void) {
  cr_assert(mkdtemp(folder));
  snprintf(said_path, sizeof said_path, "%s/stderr", folder);
  fflush(stderr);
  cr_assert(freopen(said_path, "a", stderr));
  settings_defaults(&settings);
}

static void clean(void) {
  char command[PATH_MAX];
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

static const char *said(void) {
  return text_file_read(said_path);
}

#define expect_said(text) cr_expect(strstr(said(), text), "no \"%s\" in:\n%s", text, said())

/* ---- the log ---- */

TestSuite(log_failures, .init = redirect, .fini = clean, .timeout = 300);

static void open_log(const char *name) {
  snprintf(settings.log_file, sizeof settings.log_file, "%s/%s", folder, name);
  log_open(&settings, 0);
}

static const char *logged(const char *name) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return text_file_read(path);
}

Test(log_failures, a_write_that_a_signal_interrupts_is_made_again) {
  open_log("log");
  fail_call(CALL_WRITE, 1, 2, EINTR);
  log_line(LOG_LEVEL_WARN, "once");
  cr_expect(call_has_failed(CALL_WRITE));
  cr_expect(strstr(logged("log"), "once\n"));
  cr_expect_str_empty(said());
}

Test(log_failures, a_write_that_writes_nothing_means_no_room) {
  open_log("log");
  fail_call(CALL_WRITE, 1, 1, 0);
  log_line(LOG_LEVEL_WARN, "the line");
  expect_said("(No space left on device)");
  expect_said("the line\n");
}

Test(log_failures, a_file_that_cannot_be_asked_for_is_not_written_to) {
  open_log("log");
  fail_call(CALL_FSTAT, 1, 1, EIO);
  log_line(LOG_LEVEL_WARN, "the line");
  expect_said("the program closed its descriptor");
  cr_expect_str_empty(logged("log"));
}

Test(log_failures, a_file_of_which_nothing_is_known_is_not_written_to) {
  fail_call(CALL_FSTAT, 1, 1, EIO);
  open_log("log");
  log_line(LOG_LEVEL_WARN, "the line");
  expect_said("the line\n");
}

Test(log_failures, a_signal_of_the_program_stays_pending) {
  sigset_t limit, pending;
  struct rlimit none = {0, RLIM_INFINITY}, all = {RLIM_INFINITY, RLIM_INFINITY};
  sigemptyset(&limit);
  sigaddset(&limit, SIGXFSZ);
  open_log("log");
  sigprocmask(SIG_BLOCK, &limit, NULL);
  raise(SIGXFSZ);
  setrlimit(RLIMIT_FSIZE, &none);
  log_line(LOG_LEVEL_WARN, "the line");
  setrlimit(RLIMIT_FSIZE, &all);
  sigpending(&pending);
  cr_expect(sigismember(&pending, SIGXFSZ));
}

Test(log_failures, a_host_without_a_name_is_unknown) {
  fail_call(CALL_GETHOSTNAME, 1, 1, EFAULT);
  log_line(LOG_LEVEL_WARN, "the line");
  cr_expect_eq(strncmp(said(), "unknown:", 8), 0, "%s", said());
}

Test(log_failures, a_host_whose_name_means_something_in_paths) {
  char name[64];
  call_host("a/b%h.domain");
  log_host(name, sizeof name);
  cr_expect_str_eq(name, "a-b-h");
  open_log("%h");
  log_line(LOG_LEVEL_WARN, "the line");
  cr_expect(strstr(logged("a-b-h"), "the line"), "%s", said());
}

Test(log_failures, a_name_that_is_too_long_once_expanded) {
  char host[201];
  memset(host, 'h', 200);
  host[200] = '\0';
  call_host(host);
  for (int i = 0; i < 30; i++)
    strcat(settings.log_file, "%h/");
  log_open(&settings, 0);
  expect_said("(File name too long)");
}

Test(log_failures, a_delete_character_is_a_blank) {
  log_line(LOG_LEVEL_WARN, "a\x7f\x1f"
                           "b");
  expect_said(" a  b\n");
}

Test(log_failures, a_disabled_log_does_not_open) {
  log_disable();
  open_log("log");
  log_line(LOG_LEVEL_ERROR, "the line");
  cr_expect_str_empty(logged("log"));
  cr_expect_str_empty(said());
  cr_expect_not(log_enabled(LOG_LEVEL_ERROR));
}

Test(log_failures, a_descriptor_that_is_another_file_by_now_is_not_closed) {
  open_log("log");
  int ours = dup(0);
  close(ours);
  cr_assert_eq(dup2(0, ours - 1), ours - 1); /* the log's number */
  log_reset();
  cr_expect_neq(fcntl(ours - 1, F_GETFD), -1);
}

/* ---- the trace ---- */

TestSuite(trace_failures, .init = redirect, .fini = clean, .timeout = 300);

Test(trace_failures, a_file_that_cannot_be_cut_off_keeps_empty_lines) {
  struct trace *trace = trace_open(folder, 1 << 20, 0, 1, 1);
  cr_assert_not_null(trace);
  trace_event(trace, TRACE_COMMIT, 1, NULL, -1);
  fail_call(CALL_FTRUNCATE, 1, 1, EIO);
  trace_flush(trace);
  cr_expect(call_has_failed(CALL_FTRUNCATE));
  trace_event(trace, TRACE_COMMIT, 2, NULL, -1);
  trace_close(trace);
  cr_expect_str_empty(said());
}

Test(trace_failures, a_disk_without_room_for_a_file) {
  struct rlimit before, limit = {60000, RLIM_INFINITY};
  getrlimit(RLIMIT_FSIZE, &before);
  setrlimit(RLIMIT_FSIZE, &limit);
  cr_expect_null(trace_open(folder, 1 << 20, 0, 1, 1));
  setrlimit(RLIMIT_FSIZE, &before);
  expect_said("(File too large): this rank has no trace");
  cr_expect_eq(rmdir(folder), -1); /* the file with what was said is in it */
}

Test(trace_failures, who_has_no_room_is_told_to_make_some) {
  for (int i = 0; i < 2; i++) {
    fail_call(CALL_OPEN, 1, 1, i == 0 ? ENOSPC : EDQUOT);
    cr_expect_null(trace_open(folder, 1 << 20, 0, 1, 1));
    expect_said(i == 0 ? "(No space left on device)" : "(Disk quota exceeded)");
    expect_said("Make room, or set NCCL_JOIN_TRACE to another folder");
    cr_assert_eq(truncate(said_path, 0), 0);
  }
}

Test(trace_failures, a_folder_that_is_no_more_here) {
  cr_assert_eq(chdir(folder), 0);
  fail_call(CALL_GETCWD, 1, 1, ENOENT);
  cr_expect_null(trace_open("traces", 1 << 20, 0, 1, 1));
  expect_said("(No such file or directory)");
}

Test(trace_failures, a_path_that_is_too_long) {
  char path[PATH_MAX];
  memset(path, '/', sizeof path - 1);
  path[sizeof path - 1] = '\0';
  cr_expect_null(trace_open(path, 1 << 20, 0, 1, 1));
  expect_said("(File name too long)");
}

Test(trace_failures, a_process_that_is_no_rank_any_more_writes_nothing) {
  struct trace *trace = trace_open(folder, 1 << 20, 0, 1, 1);
  log_disable();
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_flush(trace);
  cr_expect_null(trace_open(folder, 1 << 20, 0, 1, 1));
  trace_close(trace);
  cr_expect_str_empty(said());
}

/* ---- segments ---- */

TestSuite(segment_failures, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

static void expect_refused(enum call call, int error, const char *why) {
  fail_call(call, 1, 1, error);
  struct segment *segment = attach(2, 0, 0);
  cr_expect(call_has_failed(call));
  cr_expect_null(segment);
  cr_expect(strstr(stage_reason, why), "no \"%s\" in: %s", why, stage_reason);
  cr_expect_not(exists(stage_path), "%s is left behind", stage_path);
  segment_detach(segment);
}

Test(segment_failures, a_file_that_cannot_be_opened) {
  expect_refused(CALL_OPEN, EMFILE, "too many open files");
  expect_refused(CALL_OPEN, EACCES, "no permission to use");
  expect_refused(CALL_OPEN, EROFS, "is read-only");
  expect_refused(CALL_OPEN, ELOOP, "is a symbolic link");
  expect_refused(CALL_OPEN, ENOENT, "does not exist");
  fail_call(CALL_ACCESS, 1, 1, EACCES);
  expect_refused(CALL_OPEN, EPERM, "no permission to write in");
}

Test(segment_failures, a_file_without_room) {
  expect_refused(CALL_POSIX_FALLOCATE, ENOSPC, "is full");
  expect_refused(CALL_POSIX_FALLOCATE, EDQUOT, "is full");
  expect_refused(CALL_FTRUNCATE, EFBIG, "the limit on file sizes");
  expect_refused(CALL_MMAP, ENOMEM, "Cannot allocate memory");
}

Test(segment_failures, room_that_a_signal_delays) {
  fail_call(CALL_POSIX_FALLOCATE, 1, 2, EINTR);
  struct segment *segment = attach(2, 0, 0);
  cr_expect_not_null(segment, "%s", stage_reason);
  segment_detach(segment);
}

Test(segment_failures, no_room_for_a_log) {
  fail_call(CALL_POSIX_FALLOCATE, 2, 1, ENOSPC);
  cr_expect_null(attach(2, 0, 0));
  cr_expect(strstr(stage_reason, "is full"), "%s", stage_reason);
  cr_expect_not(exists(stage_path));
}

/* The file is there then, empty: whoever comes next lays it out. */
Test(segment_failures, locks_that_the_file_system_does_not_have) {
  fail_call(CALL_FCNTL, 1, 1, ENOLCK);
  cr_expect_null(attach(2, 0, 0));
  cr_expect(strstr(stage_reason, "No locks available"), "%s", stage_reason);
  struct segment *segment = attach(2, 0, 0);
  cr_expect_not_null(segment, "%s", stage_reason);
  fail_call(CALL_FCNTL, 1, 1, ENOLCK);
  cr_expect_null(attach(2, 1, 0), "the gate of a file that this process has open");
  cr_expect(strstr(stage_reason, "No locks available"), "%s", stage_reason);
  segment_detach(segment);
}

Test(segment_failures, a_file_that_cannot_be_asked_for) {
  fail_call(CALL_FSTAT, 1, 1, EIO);
  cr_expect_null(attach(2, 0, 0));
  cr_expect(strstr(stage_reason, "Input/output error"), "%s", stage_reason);
}

/* Nobody else holds it, so it is taken for a dead job's, and replaced. */
Test(segment_failures, a_file_whose_size_is_not_known) {
  fail_call(CALL_FSTAT, 2, 1, EIO);
  struct segment *segment = attach(2, 0, 0);
  cr_expect(call_has_failed(CALL_FSTAT));
  cr_expect_not_null(segment, "%s", stage_reason);
  segment_detach(segment);
}

Test(segment_failures, a_header_that_cannot_be_read) {
  pid_t other = start_staying(2);
  fail_call(CALL_PREAD, 1, 1, EIO);
  cr_expect_null(attach(2, 1, 0));
  cr_expect(strstr(stage_reason, "is not a segment"), "%s", stage_reason);
  kill_and_reap(other);
}

Test(segment_failures, names_that_are_none) {
  char reason[ATTACHMENT_REASON_SIZE];
  struct introduction me = {0};
  cr_expect_null(segment_attach("00112233445566778899aabbccddeefg", 1, 0, 0, &me, reason));
  cr_expect_null(segment_attach("00112233445566778899aabbccddee", 1, 0, 0, &me, reason));
}

/* What is not known to be dead counts as alive. */
Test(segment_failures, a_rank_of_which_nothing_can_be_found_out_is_alive) {
  struct segment *segment = attach(2, 0, 0);
  cr_expect_not(segment_slot_is_held(segment->map, 1));
  fail_call(CALL_FCNTL, 1, 1, ENOLCK);
  cr_expect(segment_slot_is_held(segment->map, 1));
  segment_detach(segment);
}

/* As in a forked child, but here where it can be looked at. */
Test(segment_failures, what_is_forgotten_is_inert) {
  struct segment *segment = attach(2, 0, 0), *second = attach(2, 1, 0);
  cr_assert(segment && second);
  segment_forget_all();
  cr_expect_eq(segment_attached(segment), 0);
  segment_unlink(segment);
  cr_expect(exists(stage_path));
  segment_detach(segment);
  segment_detach(second);
  segment_forget_all();
}

Test(segment_failures, a_gate_that_somebody_holds_is_not_waited_for_longer_than_said) {
  pid_t other = start_staying(2);
  struct segment *segment = attach(2, 1, 0);
  char reason[ATTACHMENT_REASON_SIZE] = "";
  cr_assert_not_null(segment, "%s", stage_reason);
  fail_call(CALL_FCNTL, 1, 1000, EAGAIN);
  cr_expect_not(segment_gate_enter(segment->map, segment_now() + 1000000, reason));
  fail_call(CALL_FCNTL, 0, 0, 0);
  cr_expect(strstr(reason, "stays locked"), "%s", reason);
  fail_call(CALL_FCNTL, 1, 1000, EACCES);
  cr_expect_not(segment_gate_enter(segment->map, 0, reason));
  fail_call(CALL_FCNTL, 0, 0, 0);
  kill_and_reap(other);
  segment_detach(segment);
}

/* ---- other names, other files ---- */

Test(segment_failures, another_number_of_slots_in_one_process) {
  struct segment *segment = attach(2, 0, 0);
  cr_expect_null(attach(3, 1, 0));
  cr_expect(strstr(stage_reason, "has 2 slots, this rank wants 3"), "%s", stage_reason);
  segment_detach(segment);
}

Test(segment_failures, a_name_that_somebody_has_removed_is_made_again) {
  struct segment *segment = attach(2, 0, 0);
  cr_assert_eq(unlink(stage_path), 0);
  struct segment *other = attach(2, 1, 0);
  cr_assert_not_null(other, "%s", stage_reason);
  cr_expect_eq(segment_attached(other), 1, "a segment of its own");
  segment_unlink(segment); /* no longer its name */
  cr_expect(exists(stage_path));
  segment_unlink(other);
  segment_unlink(other);
  cr_expect_not(exists(stage_path));
  segment_detach(segment);
  segment_detach(other);
}

static bool nothing_is_open(dev_t device, ino_t inode) {
  (void)device;
  (void)inode;
  return false;
}

Test(segment_failures, cleaning_up_leaves_what_it_cannot_open_and_what_is_no_file) {
  char own[] = "/tmp/nccl-join-clean-XXXXXX";
  stage_move("/nonexistent");
  segment_remove_dead(nothing_is_open); /* and has nothing to say */
  cr_assert(mkdtemp(own));
  stage_move(own);
  kill_and_reap(start_staying(2));
  fail_call(CALL_OPEN, 1, 1, EACCES);
  segment_remove_dead(nothing_is_open);
  cr_expect(call_has_failed(CALL_OPEN) && exists(stage_path));
  segment_remove_dead(nothing_is_open);
  cr_expect_not(exists(stage_path));
  cr_assert_eq(mkdir(stage_path, 0700), 0);
  segment_remove_dead(nothing_is_open);
  cr_expect(exists(stage_path));
  cr_assert(rmdir(stage_path) == 0 && rmdir(own) == 0);
}

/* ---- spinning ---- */

/* Whether one of two ranks spins, and that it ends. */
static bool spins(void) {
  struct segment *segment = attach(2, 0, 0), *other = attach(2, 1, 0);
  cr_assert(segment && other, "%s", stage_reason);
  struct plane *plane = whole_plane(segment, 0, 2);
  uint64_t since = 0;
  bool spun = plane->spin(plane, &since);
  int64_t begin = segment_now();
  while (plane->spin(plane, &since))
    cr_assert_lt(milliseconds_since(begin), 100000u, "spins for ever");
  segment_detach(segment);
  segment_detach(other);
  return spun;
}

Test(segment_failures, a_rank_without_a_processor_of_its_own_does_not_spin) {
  fail_call(CALL_SCHED_GETAFFINITY, 1, 1, EINVAL);
  cr_expect_not(spins(), "although only one processor is known of");
}

Test(segment_failures, a_rank_with_a_processor_of_its_own_spins_for_a_moment) {
  if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
    cr_skip_test("one processor");
  cr_expect(spins());
}
