/* The trace: its format, read back by a small JSON reader, and what happens when it cannot be
 * written. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/report/log.h"
#include "tests/unit/trace_files.h"

TestSuite(trace, .init = trace_files_begin, .fini = trace_files_end);

Test(trace, header_and_records_are_as_documented) {
  unsigned long long before = now_ns();
  struct trace *trace = trace_open(folder, LIMIT, 2, 4, 0x00c0ffee00c0ffeeu);
  cr_assert(trace);
  char name[512], host[256];
  log_host(host, sizeof(host));
  snprintf(name, sizeof(name), "%s/rank-2.%s.%d.jsonl", folder, host, (int)getpid());
  cr_expect_str_eq(path_of(0, 1), name);
  trace_event(trace, TRACE_COMMIT, 17, "allreduce(sum, float32, 1024)", -1);
  trace_event(trace, TRACE_SHADOW, 18446744073709551615u, NULL, 0);
  trace_close(trace);

  read_only_file();
  cr_assert_eq(nlines, 3);
  for (size_t i = 0; i < nlines; i++)
    check_object(lines[i]);
  cr_expect(has(lines[0], "{\"format\":\"nccl-join-trace\",\"version\":1,\"rank\":2,\"ranks\":4,"
                          "\"team\":\"00c0ffee00c0ffee\",\"host\":\""),
            "%s", lines[0]);
  cr_expect_eq(number(lines[0], "pid"), getpid());
  cr_expect_geq(number(lines[0], "start_ns"), before);
  cr_expect_gt(number(lines[0], "start_unix_ns"), 1700000000000000000u);
  cr_expect_geq(number(lines[1], "t_ns"), number(lines[0], "start_ns"));
  cr_expect_leq(number(lines[2], "t_ns"), now_ns());
  cr_expect(has(lines[1], ",\"event\":\"commit\",\"index\":17,"
                          "\"unit\":\"allreduce(sum, float32, 1024)\"}"),
            "%s", lines[1]);
  cr_expect(has(lines[2], ",\"event\":\"shadow\",\"index\":18446744073709551615,\"peer\":0}"), "%s",
            lines[2]);
}

/* What the launchers of this and other machines set; what is no number is none. */
Test(trace, the_header_has_the_rank_that_the_launcher_gave) {
  static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
                                      "SLURM_PROCID"};
  char text[64], command[128];
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    unsetenv(names[i]);
  for (int i = (int)(sizeof(names) / sizeof(names[0])); i >= -1; i--) {
    if (i >= 0 && i < 5) {
      snprintf(text, sizeof(text), "%d", 10 + i);
      setenv(names[i], text, 1);
    }
    if (i < 0)
      setenv("RANK", "1x", 1);
    snprintf(command, sizeof(command), "rm -f %s/*.jsonl", folder);
    cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
    trace_close(trace_open(folder, LIMIT, 2, 4, 7));
    read_only_file();
    if (i == 5)
      snprintf(text, sizeof(text), ",\"group\":%d,\"start_ns\":", (int)getpgrp());
    else
      snprintf(text, sizeof(text), ",\"group\":%d,\"job_rank\":%d,\"start_ns\":", (int)getpgrp(),
               i < 0 ? 11 : 10 + i);
    cr_expect(has(lines[0], text), "%s in %s", text, lines[0]);
  }
}

Test(trace, every_event_has_its_name) {
  static const char *const names[] = {"commit", "claim", "park", "shadow", "settle",
                                      "join",   "leave", "done", "fail",   "stop"};
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  for (int event = TRACE_COMMIT; event <= TRACE_STOP; event++)
    trace_event(trace, (enum trace_event)event, (uint64_t)event, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 1 + sizeof(names) / sizeof(names[0]));
  for (size_t i = 1; i < nlines; i++) {
    char text[64];
    snprintf(text, sizeof(text), "\"event\":\"%s\",\"index\":%zu}", names[i - 1], i - 1);
    cr_expect(has(lines[i], text), "%s", lines[i]);
  }
}

Test(trace, any_text_becomes_valid_json) {
  char all[256];
  for (int i = 0; i < 255; i++)
    all[i] = (char)(i + 1);
  all[255] = '\0';
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  trace_event(trace, TRACE_COMMIT, 0, all, -1);
  trace_event(trace, TRACE_COMMIT, 1, "", -1);
  trace_event(trace, TRACE_COMMIT, 2, "h\u00e9 \u20ac \U0001F600", -1);
  trace_event(trace, TRACE_COMMIT, 3, "\xc0\x80 \xed\xa0\x80 \xf4\x90\x80\x80 \xe2\x82", -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 5);
  check_object(lines[1]);
  cr_expect(has(lines[1], "\\u0001") && has(lines[1], "\\u00ff") && has(lines[1], "!\\\"#"));
  cr_expect(has(lines[2], "\"unit\":\"\""));
  cr_expect(has(lines[3], "\"unit\":\"h\u00e9 \u20ac \U0001F600\""));
  /* Longer than need be, a surrogate, beyond the last one, cut off. */
  cr_expect(has(lines[4], "\"\\u00c0\\u0080 \\u00ed\\u00a0\\u0080 "
                          "\\u00f4\\u0090\\u0080\\u0080 \\u00e2\\u0082\""));
}

Test(trace, a_huge_unit_is_cut_off) {
  static char text[100000];
  memset(text, 1, sizeof(text) - 1); /* the longest when escaped */
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  for (int i = 0; i < 10; i++)
    trace_event(trace, TRACE_COMMIT, 0, text, 3);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 11);
  for (size_t i = 1; i < nlines; i++) {
    check_object(lines[i]);
    cr_expect(has(lines[i], "\"peer\":3}"));
    cr_expect_lt(strlen(lines[i]), 6 * TRACE_UNIT_MAX + 256);
  }
}

Test(trace, nothing_is_lost_or_reordered_over_many_buffers) {
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  for (uint64_t i = 0; i < 20000; i++)
    trace_event(trace, TRACE_COMMIT, i, "allreduce(sum, float32, 1024)", -1);
  trace_close(trace);
  read_only_file();
  cr_assert_eq(nlines, 20001);
  for (size_t i = 1; i < nlines; i++) {
    check_object(lines[i]);
    cr_assert_eq(number(lines[i], "index"), i - 1);
    cr_assert(i < 2 || number(lines[i], "t_ns") >= number(lines[i - 1], "t_ns"));
  }
}

Test(trace, every_record_is_there_at_once) {
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  for (uint64_t i = 0; i < 5; i++) {
    trace_event(trace, TRACE_COMMIT, i, NULL, -1);
    read_only_file();
    cr_expect_eq(lines_with_something(), 2 + i);
    cr_expect_eq(number(lines[1 + i], "index"), i);
  }
  trace_flush(trace);
  read_only_file();
  cr_expect_eq(nlines, 6, "what is not used has been given back");
  trace_event(trace, TRACE_COMMIT, 5, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 7);
}

Test(trace, no_folder_is_no_trace) {
  cr_expect_null(trace_open("", LIMIT, 0, 1, 1));
  trace_event(NULL, TRACE_FAIL, 0, "x", 1);
  trace_flush(NULL);
  trace_close(NULL);
}

Test(trace, missing_folders_are_made) {
  char missing[64];
  snprintf(missing, sizeof(missing), "%s/new/and/newer", folder);
  struct trace *trace = trace_open(missing, LIMIT, 0, 1, 1);
  cr_expect(trace);
  trace_close(trace);
}

Test(trace, a_second_trace_of_the_same_rank_has_its_own_file) {
  struct trace *first = trace_open(folder, LIMIT, 0, 1, 1),
               *second = trace_open(folder, LIMIT, 0, 1, 2);
  trace_event(first, TRACE_COMMIT, 11, NULL, -1);
  trace_event(second, TRACE_COMMIT, 22, NULL, -1);
  trace_close(first);
  trace_close(second);
  for (size_t i = 0; i < 2; i++) {
    read_file(path_of(i, 2));
    cr_expect_eq(nlines, 2);
    cr_expect_eq(has(lines[0], "\"team\":\"0000000000000002\""), has(lines[1], "\"index\":22"));
  }
}

/* Where a program has closed its standard input, that is the first descriptor to be had. */
Test(trace, a_program_may_have_no_standard_input) {
  cr_assert_eq(close(STDIN_FILENO), 0);
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  cr_assert_not_null(trace, "%s", warnings());
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}

Test(trace, a_program_may_change_its_folder) {
  cr_assert_eq(chdir(folder), 0);
  struct trace *trace = trace_open(".", LIMIT, 0, 1, 1);
  cr_assert_eq(chdir("/"), 0);
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}

Test(trace, an_unwritable_folder_is_one_warning_and_no_trace) {
  cr_expect_null(trace_open("/proc/nowhere", LIMIT, 0, 1, 1));
  expect_one_warning("/proc/nowhere/rank-0.");
}

/* The kernel lets nobody make a folder there. */
Test(trace, a_folder_that_cannot_be_made_is_the_reason) {
  if (mkdir("/sys/nccl-join", 0777) == 0)
    cr_skip("a file system that is none of the kernel's");
  char reason[64];
  snprintf(reason, sizeof(reason), "(%s)", strerror(errno));
  if (errno == ENOENT)
    cr_skip("no /sys here");
  cr_expect_null(trace_open("/sys/nccl-join/traces", LIMIT, 0, 1, 1));
  expect_one_warning(reason);
}

Test(trace, a_file_in_place_of_the_folder_is_one_warning) {
  char stderr_path[64];
  snprintf(stderr_path, sizeof(stderr_path), "%s/stderr", folder);
  cr_expect_null(trace_open(stderr_path, LIMIT, 0, 1, 1));
  expect_one_warning("Not a directory");
}

Test(trace, no_descriptor_is_held) {
  int before = dup(0);
  close(before);
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  int after = dup(0);
  close(after);
  cr_expect_eq(before, after);
  trace_close(trace);
}

Test(trace, errno_is_kept) {
  errno = ERANGE;
  cr_expect_null(trace_open("/proc/nowhere", LIMIT, 0, 1, 1));
  cr_expect_eq(errno, ERANGE);
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  unlink(path_of(0, 1));
  errno = ERANGE;
  trace_event(trace, TRACE_JOIN, 0, NULL, -1);
  cr_expect_eq(errno, ERANGE);
  trace_close(trace);
}

Test(trace, a_forked_child_writes_nothing) {
  struct trace *trace = trace_open(folder, LIMIT, 0, 1, 1);
  trace_event(trace, TRACE_COMMIT, 0, NULL, -1);
  pid_t child = fork();
  if (child == 0) {
    log_disable();
    trace_event(trace, TRACE_JOIN, 0, NULL, -1);
    trace_flush(trace);
    trace_close(trace);
    _exit(trace_open(folder, LIMIT, 5, 6, 7) != NULL);
  }
  int status;
  waitpid(child, &status, 0);
  cr_expect_eq(status, 0);
  read_only_file();
  cr_expect_eq(lines_with_something(), 2);
  trace_close(trace);
  read_only_file();
  cr_expect_eq(nlines, 2);
}
