/* Several ranks on this machine: their variables, their output, their end. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/tools/workbench.h"

TestSuite(ranks, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

/* What is not waited for here sleeps for 100 s. */
#define expect_not_waited(result) cr_expect_lt((result).seconds, 90)

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)

/* ---- variables ---- */

Test(ranks, have_torchruns_variables) {
  struct result result = run(
      "RANK=9 MASTER_ADDR=elsewhere nccl-join run -n 3 sh -c 'echo $RANK $LOCAL_RANK $ROLE_RANK "
      "$GROUP_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $ROLE_WORLD_SIZE $GROUP_WORLD_SIZE $MASTER_ADDR'");
  cr_expect_eq(result.status, 0);
  for (int rank = 0; rank < 3; rank++) {
    char line[128];
    snprintf(line, sizeof(line), "[%d] %d %d %d 0 3 3 3 1 127.0.0.1\n", rank, rank, rank, rank);
    expect_in(result.out, line);
  }
}

Test(ranks, share_a_port_that_is_free) {
  struct result result = run("nccl-join run -n 2 --no-prefix sh -c 'echo $MASTER_PORT'");
  char *rest;
  long first = strtol(result.out, &rest, 10), second = strtol(rest, &rest, 10);
  cr_expect_eq(first, second);
  cr_expect(first > 1023 && first < 65536);
}

Test(ranks, only_rank_0_reads_what_is_piped_in) {
  struct result result =
      run("echo data | nccl-join run -n 3 sh -c '[ $RANK = 0 ] && sleep 0.3; echo \"<$(cat)>\"'");
  expect_in(result.out, "[0] <data>\n");
  expect_in(result.out, "[1] <>\n");
  expect_in(result.out, "[2] <>\n");
}

/* ---- output ---- */

Test(ranks, output_lines_are_marked_and_stay_on_their_stream) {
  struct result result = run("nccl-join run -n 2 sh -c 'echo to out; echo to err >&2'");
  cr_expect_eq(count(result.out, "\n"), 2);
  cr_expect_eq(count(result.err, "\n"), 2);
  for (int rank = 0; rank < 2; rank++) {
    char line[32];
    snprintf(line, sizeof(line), "[%d] to out\n", rank);
    expect_in(result.out, line);
    snprintf(line, sizeof(line), "[%d] to err\n", rank);
    expect_in(result.err, line);
  }
}

Test(ranks, lines_written_in_pieces_never_mix) {
  struct result result =
      run("nccl-join run -n 4 sh -c 'i=0; while [ $i -lt 500 ]; do "
          "printf \"$RANK-\"; printf \"$RANK-\"; echo \"$i\"; i=$((i+1)); done'");
  cr_assert_eq(count(result.out, "\n"), 2000);
  int next[4] = {0};
  for (const char *line = result.out; *line; line = strchr(line, '\n') + 1) {
    int rank = line[1] - '0';
    cr_assert(rank >= 0 && rank < 4);
    char expected[64];
    int size =
        snprintf(expected, sizeof(expected), "[%d] %d-%d-%d\n", rank, rank, rank, next[rank]++);
    cr_assert_eq(strncmp(line, expected, (size_t)size), 0, "%.40s", line);
  }
}

Test(ranks, long_lines_stay_whole) {
  struct result result = run("nccl-join run -n 3 sh -c 'for i in 1 2 3; do head -c 300000 "
                             "/dev/zero | tr \"\\0\" $RANK; echo; done'");
  cr_assert_eq(result.out_size, (size_t)9 * (300000 + 5));
  for (const char *line = result.out; *line; line += 300005)
    cr_assert(line[1] == line[4] && strspn(line + 4, (char[]){line[1], 0}) == 300000);
}

Test(ranks, a_line_without_end_is_passed_on_in_marked_pieces) {
  struct result result = run("nccl-join run -n 1 sh -c 'head -c 3000000 /dev/zero | tr \"\\0\" x'");
  size_t x = 0;
  for (const char *c = result.out; *c; c++)
    x += *c == 'x';
  cr_expect_eq(x, 3000000);
  cr_expect_eq(count(result.out, "[0] "), 3);
  cr_expect_eq(count(result.out, "\n"), 3);
}

Test(ranks, a_missing_last_newline_is_added) {
  struct result result = run("nccl-join run -n 1 printf 'one\\ntwo'");
  cr_expect_str_eq(result.out, "[0] one\n[0] two\n");
}

Test(ranks, empty_lines_are_marked_and_no_output_is_none) {
  struct result result = run("nccl-join run -n 1 printf '\\n\\nx\\n'");
  cr_expect_str_eq(result.out, "[0] \n[0] \n[0] x\n");
  result = run("nccl-join run -n 2 true");
  cr_expect_eq(result.out_size + result.err_size, 0);
}

Test(ranks, bytes_are_left_as_they_are) {
  struct result result = run("nccl-join run -n 1 printf 'a\\000b\\377\\r\\033[1m\\n'");
  cr_expect_eq(result.out_size, 14);
  cr_expect_eq(memcmp(result.out, "[0] a\0b\377\r\033[1m\n", 14), 0);
}

Test(ranks, no_prefix_leaves_the_output_alone) {
  struct result result = run("nccl-join run -n 2 --no-prefix printf 'x'");
  cr_expect_str_eq(result.out, "xx");
  result = run("nccl-join run -n 1 --no-prefix sh -c 'readlink /proc/$PPID/fd/1 /proc/self/fd/1'");
  const char *second = strchr(result.out, '\n') + 1;
  cr_expect_eq(strncmp(result.out, second, strlen(second)), 0, "not the same descriptor");
}

Test(ranks, a_reader_that_goes_away_ends_the_run) {
  struct result result = run("nccl-join run -n 2 sh -c 'echo $$ >> pids; yes' | head -n 1");
  cr_expect_eq(count(result.out, "\n"), 1);
  expect_not_waited(result);
  cr_expect(all_gone("pids"));
}

/* ---- status and end ---- */

Test(ranks, that_all_end_well_are_a_success_whenever_each_ends) {
  struct result result = run("nccl-join run -n 3 sh -c 'sleep 0.$RANK; echo done'");
  cr_expect_eq(result.status, 0);
  cr_expect_eq(count(result.out, "done"), 3);
  cr_expect_str_empty(result.err);
}

Test(ranks, the_first_that_fails_gives_the_status_and_ends_the_others) {
  struct result result =
      run("nccl-join run -n 4 sh -c '"
          "echo $$ >> pids; [ $RANK = 2 ] && sleep 0.3 && exit 42; exec sleep 100'");
  cr_expect_eq(result.status, 42);
  expect_not_waited(result);
  cr_expect_str_eq(result.err, "nccl-join: rank 2 ended with status 42: ending the others\n");
  cr_expect(all_gone("pids"));
}

/* Rank 2 fails, and then rank 0, while the launcher does not look. */
Test(ranks, of_several_that_have_failed_the_first_is_named) {
  struct result result =
      run("cat >rank.sh <<'EOF'\n"
          "ended() { grep -q '^State:.Z' /proc/$(cat pid.$1)/status; }\n"
          "echo $$ >new.$RANK && mv new.$RANK pid.$RANK\n"
          "until [ -s pid.0 ] && [ -s pid.1 ] && [ -s pid.2 ]; do sleep 0.01; done\n"
          "case $RANK in\n"
          "2) kill -STOP $PPID; exit 42 ;;\n"
          "0) until ended 2; do sleep 0.01; done; exit 3 ;;\n"
          "1) until ended 2 && ended 0; do sleep 0.01; done; kill -CONT $PPID; exec sleep 100 ;;\n"
          "esac\n"
          "EOF\n"
          "nccl-join run -n 3 sh rank.sh");
  cr_expect_eq(result.status, 42);
  cr_expect_str_eq(result.err, "nccl-join: rank 2 ended with status 42: ending the others\n");
}

Test(ranks, one_ended_by_a_signal_is_128_and_the_signal) {
  struct result result =
      run("nccl-join run -n 2 sh -c '[ $RANK = 1 ] && kill -SEGV $$; exec sleep 100'");
  cr_expect_eq(result.status, 128 + SIGSEGV);
  expect_in(result.err, "nccl-join: rank 1 was ended by signal 11 (Segmentation fault)");
}

Test(ranks, what_a_rank_says_while_it_is_ended_is_passed_on) {
  struct result result =
      run("nccl-join run -n 2 sh -c '"
          "if [ $RANK = 1 ]; then while [ ! -e ready ]; do sleep 0.01; done; exit 9; fi;"
          "trap \"echo good bye; exit 0\" TERM; >ready; while :; do sleep 0.1; done'");
  cr_expect_eq(result.status, 9);
  expect_in(result.out, "[0] good bye\n");
}

Test(ranks, one_that_ignores_being_ended_is_killed_after_the_grace_time) {
  struct result result =
      run("nccl-join run -n 2 sh -c '"
          "echo $$ >> pids;"
          "if [ $RANK = 1 ]; then while [ ! -e ready ]; do sleep 0.01; done; exit 4; fi;"
          "trap \"\" TERM; >ready; while :; do sleep 1; done'");
  cr_expect_eq(result.status, 4);
  cr_expect_gt(result.seconds, 4.5, "%f s", result.seconds);
  cr_expect(all_gone("pids"));
}

Test(ranks, processes_started_by_ranks_are_ended_with_them) {
  struct result result = run("nccl-join run -n 2 sh -c 'sleep 100 & echo $! >> pids;"
                             "[ $RANK = 1 ] && sleep 0.3 && exit 4; wait'");
  cr_expect_eq(result.status, 4);
  cr_expect(all_gone("pids"));
}

Test(ranks, processes_left_behind_by_ranks_that_ended_well_are_ended) {
  struct result result = run("nccl-join run -n 2 sh -c 'sleep 100 & echo $! >> pids; echo said'");
  cr_expect_eq(result.status, 0);
  expect_not_waited(result);
  cr_expect_eq(count(result.out, "said"), 2);
  cr_expect(all_gone("pids"));
}

/* For as long as a machine without much to do takes: so not each time. */
Test(ranks, a_process_that_left_its_rank_is_heard_but_not_waited_for) {
  bool heard = false;
  for (int i = 0; i < 20 && !heard; i++) {
    struct result result =
        run("rm -f pids; nccl-join run -n 1 sh -c 'setsid sh -c \"echo \\$\\$ >> pids; sleep 0.1;"
            "echo late; exec sleep 100\" & while [ ! -s pids ]; do sleep 0.01; done'");
    cr_assert_eq(result.status, 0);
    expect_not_waited(result);
    heard = strcmp(result.out, "[0] late\n") == 0;
    run("kill $(cat pids)");
  }
  cr_expect(heard);
}

Test(ranks, a_flood_of_output_does_not_keep_a_failure_waiting) {
  struct result result = run("nccl-join run -n 2 sh -c '[ $RANK = 1 ] && sleep 0.5 && exit 6; exec "
                             "yes' | tail -n 1; exit 0");
  expect_not_waited(result);
  expect_in(result.err, "rank 1 ended with status 6");
}

static void check_told_to_stop(int number) {
  pid_t launcher =
      start("exec nccl-join run -n 3 sh -c 'echo $$ >> pids; sleep 100 & echo $! >> pids; wait'");
  wait_for_lines("pids", 6);
  kill(launcher, number);
  struct result result = wait_for(launcher);
  cr_expect_eq(result.status, 128 + number, "status %d", result.status);
  expect_not_waited(result);
  cr_expect(all_gone("pids"));
}

Test(ranks, interrupting_the_launcher_ends_everything) {
  check_told_to_stop(SIGINT);
}

Test(ranks, terminating_the_launcher_ends_everything) {
  check_told_to_stop(SIGTERM);
}

/* Into the folder of the traces, if there is one; of a run that ends well, nothing. */
Test(ranks, how_a_run_ended_is_left_for_the_report) {
  run("mkdir traces; NCCL_JOIN_TRACE=traces nccl-join run -n 2 true;"
      "NCCL_JOIN_TRACE=traces nccl-join run --no-join -n 2 false;"
      "NCCL_JOIN_TRACE=none nccl-join run -n 2 false");
  cr_expect_str_empty(run("ls traces; ls | grep none").out);
  pid_t launcher = start("NCCL_JOIN_TRACE=traces exec nccl-join run -n 2 sh -c 'echo $$ >> pids; "
                         "exec sleep 100'");
  wait_for_lines("pids", 2);
  kill(launcher, SIGINT);
  wait_for(launcher);
  struct result result =
      run("cat traces/launch.$(hostname | sed 's/[.].*//').%d; sort pids", (int)launcher);
  int first = 0, second = 0;
  cr_assert_eq(sscanf(result.out,
                      "nccl-join-launch 1\nwhy nccl-join run was told to stop by signal 2 "
                      "(Interrupt)\nended %d\nended %d\n",
                      &first, &second),
               2, "%s", result.out);
  char last[64];
  snprintf(last, sizeof last, "\n%d\n", second);
  expect_in(result.out, last);
}

/* Who waits for the grace time takes 5 s each time. */
Test(ranks, interrupting_twice_does_not_wait_for_the_grace_time) {
  double least = 100;
  for (int i = 0; i < 5 && least > 4.5; i++) {
    pid_t launcher = start("exec nccl-join run -n 2 sh -c 'trap \"\" INT TERM; echo $$ >> pids%d; "
                           "while :; do sleep 1; done'",
                           i);
    char pids[16];
    snprintf(pids, sizeof pids, "pids%d", i);
    wait_for_lines(pids, 2);
    kill(launcher, SIGINT);
    usleep(200 * 1000);
    kill(launcher, SIGINT);
    struct result result = wait_for(launcher);
    cr_expect_eq(result.status, 130);
    cr_expect(all_gone(pids));
    least = result.seconds < least ? result.seconds : least;
  }
  cr_expect_lt(least, 4.5);
}

/* Ranks that cannot be started end the others, however few files may be open. */
Test(ranks, too_few_open_files_are_told_and_end_the_run) {
  int told = 0;
  for (int files = 13; files < 40; files += 2) {
    struct result result =
        run("ulimit -n %d; timeout -k 1 10 nccl-join run --no-join -n 8 sleep 0.1", files);
    cr_expect(result.status != 124 && result.status != 137, "%d files: it hangs", files);
    /* The shell itself wants some, and with more all ranks start. */
    if (result.status != 126)
      continue;
    told++;
    cr_expect_not_null(strstr(result.err, "Allow more open files (ulimit -n)"), "%d files: %s",
                       files, result.err);
  }
  cr_expect_geq(told, 3);
}

Test(ranks, ranks_die_with_a_launcher_that_is_killed) {
  pid_t launcher = start("exec nccl-join run -n 3 sh -c 'echo $$ >> pids; exec sleep 100'");
  wait_for_lines("pids", 3);
  kill(launcher, SIGKILL);
  cr_expect_eq(wait_for(launcher).status, 128 + SIGKILL);
  cr_expect(all_gone("pids"));
}

Test(ranks, start_with_the_signals_of_the_launchers_caller) {
  struct result plain = run("grep -E '^Sig(Blk|Ign)' /proc/self/status");
  char expected[256];
  snprintf(expected, sizeof(expected), "%s", plain.out);
  struct result result =
      run("nccl-join run --no-prefix -n 1 grep -E '^Sig(Blk|Ign)' /proc/self/status");
  cr_expect_str_eq(result.out, expected);
}

/* ---- being suspended ---- */

/* Whether all processes whose ids are in the file are stopped (or all are not). */
static bool all_are(const char *file, bool stopped) {
  for (int i = 0; i < 3000; i++) {
    struct result result =
        run("for pid in $(cat %s); do sed 's/.*) //' /proc/$pid/stat; done", file);
    if (count(result.out, "T ") == (stopped ? count(result.out, "\n") : 0))
      return true;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
  return false;
}

Test(ranks, stop_with_their_launcher_and_go_on_with_it) {
  pid_t pid = start("exec nccl-join run -n 3 --no-prefix sh -c 'trap \"\" TSTP; echo $$ >>pids; "
                    "sleep 30 & echo $! >>pids; wait'");
  wait_for_lines("pids", 6);
  kill(pid, SIGTSTP);
  cr_expect(all_are("pids", true));
  int status;
  cr_expect_eq(waitpid(pid, &status, WUNTRACED), pid);
  cr_expect(WIFSTOPPED(status));
  kill(pid, SIGCONT);
  cr_expect(all_are("pids", false));
  kill(pid, SIGTERM);
  cr_expect_eq(wait_for(pid).status, 128 + SIGTERM);
}

static void write_keys(void) {
  write_file("rank", "echo >>started\n"
                     "for i in $(seq 1200); do [ -e go ] && exit; sleep 0.05; done\n");
  write_file("keys",
             "wait_for() { for i in $(seq 1200); do eval \"$1\" && return; sleep 0.05; done; }\n"
             "wait_for '[ \"$(wc -l <started)\" = 2 ]'\n"
             "printf '\\032'\n"
             "wait_for 'grep -q went log'\n"
             ">go\n"
             "wait_for 'grep -q ended log'\n");
}

/* As a user does it, at a terminal: the keys come once the ranks run, and these end once it has
 * gone on. */
Test(ranks, stop_at_ctrl_z_and_go_on_at_fg) {
  write_keys();
  struct result result = run(">started; >log; sh keys | script -qefc 'bash --norc -ic \"set -m; "
                             "nccl-join run -n 2 --no-prefix sh rank; "
                             "echo went on: \\$?; fg; echo ended: \\$?\"' log >/dev/null; cat log");
  expect_in(result.out, "went on: 14"); /* 148 if it comes before the ranks are started */
  expect_in(result.out, "ended: 0");
}

/* ---- devices ---- */

Test(ranks, more_than_there_are_devices_is_said) {
  struct result result = run("CUDA_VISIBLE_DEVICES=0,1 nccl-join run -n 3 true");
  cr_expect_eq(result.status, 0);
  expect_in(result.err,
            "nccl-join: 3 ranks, but CUDA_VISIBLE_DEVICES names 2 GPUs: NCCL needs one for");
  expect_in(result.err, "To do: -n 2, or --loopback");
  cr_expect_str_empty(run("CUDA_VISIBLE_DEVICES=0,1 nccl-join run -n 2 true").err);
  cr_expect_str_empty(run("CUDA_VISIBLE_DEVICES=0 nccl-join run --loopback -n 2 true").err);
  cr_expect_str_empty(run("CUDA_VISIBLE_DEVICES=0 nccl-join run true").err);
  cr_expect_str_empty(run("CUDA_VISIBLE_DEVICES=-1 nccl-join run -n 2 true").err);
  expect_in(run("CUDA_VISIBLE_DEVICES=0,-1,1 nccl-join run -n 2 true").err, "names 1 GPU:");
}

Test(ranks, that_they_share_devices_may_be_what_nccl_is_told) {
  cr_expect_str_empty(
      run("NCCL_MULTI_RANK_GPU_ENABLE=1 CUDA_VISIBLE_DEVICES=0 nccl-join run -n 2 true").err);
  expect_in(run("NCCL_MULTI_RANK_GPU_ENABLE=0 CUDA_VISIBLE_DEVICES=0 nccl-join run -n 2 true").err,
            "names 1 GPU:");
  cr_expect_str_empty(run("NCCL_HOSTID=a CUDA_VISIBLE_DEVICES=0 nccl-join run -n 2 true").err);
}
