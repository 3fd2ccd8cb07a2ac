/* The launcher's commands: where it is found, what it puts in front, what it refuses. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/sandbox.h"

TestSuite(launcher, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)

/* ---- what is put in front ---- */

Test(launcher, the_preload_object_is_loaded_into_the_program) {
  struct result result = run("nccl-join run grep -c /lib/libnccl-join.so /proc/self/maps");
  cr_expect_eq(result.status, 0, "%s", result.err);
  cr_expect_str_neq(result.out, "0\n");
  result = run("nccl-join run -n 2 grep -c /lib/libnccl-join.so /proc/self/maps");
  cr_expect_eq(result.status, 0, "%s", result.err);
}

Test(launcher, an_existing_preload_is_kept_behind_it) {
  struct result result =
      run("LD_PRELOAD=libm.so.6:libdl.so.2 ASAN_OPTIONS=verify_asan_link_order=0 nccl-join run sh "
          "-c 'echo $LD_PRELOAD'");
  char expected[256];
  snprintf(expected, sizeof(expected), "%s/lib/libnccl-join.so:libm.so.6:libdl.so.2\n", sandbox());
  cr_expect_str_eq(result.out, expected);
}

Test(launcher, the_launcher_itself_runs_without_the_preload) {
  struct result result = run("nccl-join run -n 1 sh -c 'grep -c libnccl-join.so /proc/$PPID/maps'");
  cr_expect_str_eq(result.out, "[0] 0\n");
}

Test(launcher, no_join_leaves_the_preload_out) {
  struct result result = run("rm -r lib; nccl-join run --no-join sh -c 'echo \"<$LD_PRELOAD>\"'");
  cr_expect_str_eq(result.out, "<>\n");
  cr_expect_eq(result.status, 0);
}

Test(launcher, loopback_puts_the_stand_ins_in_front) {
  char expected[256];
  struct result result = run("nccl-join run --loopback sh -c 'echo $LD_LIBRARY_PATH'");
  snprintf(expected, sizeof(expected), "%s/loopback\n", sandbox());
  cr_expect_str_eq(result.out, expected, "%s", result.err);
  result = run("LD_LIBRARY_PATH=/a:/b nccl-join run --loopback sh -c 'echo $LD_LIBRARY_PATH'");
  snprintf(expected, sizeof(expected), "%s/loopback:/a:/b\n", sandbox());
  cr_expect_str_eq(result.out, expected, "%s", result.err);
  result = run("nccl-join run sh -c 'echo \"<$LD_LIBRARY_PATH>\"'");
  cr_expect_str_eq(result.out, "<>\n");
}

Test(launcher, without_n_it_becomes_the_program) {
  struct result result = run("sh -c 'echo $$; exec nccl-join run sh -c \"echo \\$\\$\"'");
  char *second = strchr(result.out, '\n') + 1;
  cr_expect_eq(strncmp(result.out, second, strlen(second)), 0, "%s", result.out);
  result = run("nccl-join run sh -c 'exit 5'");
  cr_expect_eq(result.status, 5);
}

Test(launcher, the_object_is_also_the_profiler_plugin_unless_there_is_one) {
  static const char show[] = "sh -c 'echo \"<$NCCL_PROFILER_PLUGIN>\"'";
  struct result result = run("unset NCCL_PROFILER_PLUGIN; nccl-join run %s", show);
  expect_in(result.out, "/lib/libnccl-join.so>\n");
  result = run("NCCL_PROFILER_PLUGIN=mine nccl-join run %s", show);
  cr_expect_str_eq(result.out, "<mine>\n");
  result = run("unset NCCL_PROFILER_PLUGIN; nccl-join run --no-join %s", show);
  cr_expect_str_eq(result.out, "<>\n");
}

Test(launcher, arguments_arrive_unchanged) {
  static const char *const options[] = {"", "-n 1 --no-prefix", "--loopback", "--no-join --"};
  for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
    struct result result =
        run("nccl-join run %s printf '<%%s>' 'a  b' '' '*' '$HOME' -n --loopback -- \"it's\"",
            options[i]);
    cr_expect_str_eq(result.out, "<a  b><><*><$HOME><-n><--loopback><--><it's>");
  }
}

/* ---- where it is found ---- */

Test(launcher, it_runs_from_an_installed_prefix_through_links) {
  struct result result = run(
      "mkdir -p prefix/bin prefix/lib/nccl-join elsewhere; mv tools/nccl-join prefix/bin/;"
      "mv tools/* lib/* loopback prefix/lib/nccl-join/; ln -s ../prefix/bin/nccl-join elsewhere/a;"
      "ln -s a elsewhere/b; cd /; PATH=$PATH:%s/elsewhere; b --version && b env >/dev/null &&"
      "b run --loopback -n 1 --no-prefix sh -c 'echo $LD_PRELOAD; echo $LD_LIBRARY_PATH'",
      sandbox());
  cr_expect_eq(result.status, 0, "%s", result.err);
  expect_in(result.out, "/prefix/lib/nccl-join/libnccl-join.so\n");
  expect_in(result.out, "/prefix/lib/nccl-join/loopback\n");
}

Test(launcher, it_runs_from_the_checkout_after_make) {
  struct result result =
      run("mkdir -p checkout/build/tools checkout/tools; mv tools/nccl-join checkout/tools/;"
          "mv tools/* checkout/build/tools/; mv lib loopback checkout/build/;"
          "checkout/tools/nccl-join run sh -c 'echo $LD_PRELOAD'");
  expect_in(result.out, "/checkout/build/lib/libnccl-join.so\n");
}

Test(launcher, what_is_missing_is_said_with_what_to_do) {
  static const char *const missing[] = {"lib/libnccl-join.so", "tools/nccl-join-env",
                                        "loopback/libnccl.so.2"};
  for (size_t i = 0; i < sizeof(missing) / sizeof(missing[0]); i++) {
    struct result result =
        run("mv %s away; nccl-join run --loopback echo started; s=$?; mv away %s; exit $s",
            missing[i], missing[i]);
    cr_expect_eq(result.status, 1);
    expect_in(result.err, missing[i]);
    expect_in(result.err, "run make first");
    cr_expect_str_empty(result.out);
  }
}

/* The dynamic linker would go on without it. */
Test(launcher, a_preload_object_that_is_empty_is_refused) {
  struct result result = run(": >lib/libnccl-join.so; nccl-join run echo started");
  cr_expect_eq(result.status, 1);
  expect_in(result.err, "lib/libnccl-join.so is empty: run make");
  cr_expect_str_empty(result.out);
}

Test(launcher, a_path_that_the_dynamic_linker_would_split_is_refused) {
  static const char *const names[] = {"with space", "with:colon"};
  for (size_t i = 0; i < 2; i++) {
    struct result result =
        run("mkdir '%s'; cp -r tools lib loopback '%s'; '%s/tools/nccl-join' run echo started",
            names[i], names[i], names[i]);
    cr_expect_eq(result.status, 1);
    cr_expect_str_empty(result.out);
    expect_in(result.err, names[i]);
    expect_in(result.err, "colon");
    result = run("'%s/tools/nccl-join' run --no-join --loopback echo started", names[i]);
    cr_expect_eq(result.status, 1);
    result = run("'%s/tools/nccl-join' run --no-join echo started", names[i]);
    cr_expect_str_eq(result.out, "started\n");
  }
}

/* ---- usage ---- */

Test(launcher, wrong_usage_is_status_2_and_says_what_is_wrong) {
  static const struct {
    const char *arguments, *said;
  } wrong[] = {
      {"", "usage: nccl-join run"},
      {"walk ./x", "unknown command walk; known are run, check, doctor, status, env, "},
      {"statsu", "unknown command statsu; did you mean nccl-join status?"},
      {"doc", "unknown command doc; did you mean nccl-join doctor?"},
      {"run", "no program to run"},
      {"run --", "no program to run"},
      {"run -n 2", "no program to run"},
      {"run -n", "missing after -n"},
      {"run -n 0 true", "not 0"},
      {"run -n -1 true", "not -1"},
      {"run -n '' true", "-n takes a number"},
      {"run -n 2x true", "not 2x"},
      {"run -n 257 true", "not 257"},
      {"run -nfoo true", "not foo"},
      {"run -np 2 true", "-n N gives the number of ranks"},
      {"run --loopbak true", "unknown option --loopbak"},
      {"env --nonsense", "env takes no argument"},
      {"status nonsense", "status takes the number of a process, not nonsense"},
  };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    struct result result = run("nccl-join %s", wrong[i].arguments);
    cr_expect_eq(result.status, 2, "'%s' has status %d", wrong[i].arguments, result.status);
    expect_in(result.err, wrong[i].said);
    cr_expect_str_empty(result.out);
  }
}

Test(launcher, help_and_version_are_on_stdout) {
  struct result result = run("nccl-join --help");
  cr_expect_eq(result.status, 0);
  expect_in(result.out, "usage: nccl-join run [-n N] [--loopback]");
  result = run("nccl-join run --help");
  expect_in(result.out, "usage: nccl-join run");
  result = run("nccl-join --version");
  cr_expect_eq(result.status, 0);
  cr_expect_eq(strncmp(result.out, "nccl-join 0.", 12), 0);
}

Test(launcher, every_command_has_help) {
  static const char *const commands[] = {"run", "check",  "doctor", "status",
                                         "env", "config", "report", "timeline"};
  for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
    char usage[64], part[64];
    struct result result = run("nccl-join %s --help", commands[i]);
    cr_expect_eq(result.status, 0, "%s", result.err);
    cr_expect_str_empty(result.err);
    snprintf(usage, sizeof usage, "usage: nccl-join %s", commands[i]);
    cr_expect_eq(strncmp(result.out, usage, strlen(usage)), 0, "%s", result.out);
    for (size_t other = 0; other < sizeof(commands) / sizeof(commands[0]); other++) {
      snprintf(part, sizeof part, "\n%s ", commands[other]);
      cr_expect_eq(count(result.out, part), other == i, "%s", result.out);
    }
  }
}

/* Nothing that the launcher opens gets the number of a closed stream: what ranks write would go
 * there. */
Test(launcher, closed_streams_stay_closed) {
  struct result result = run("nccl-join run -n 2 echo lost >&-");
  cr_expect_eq(result.status, 1);
  cr_expect_neq(strstr(result.err, "cannot write the ranks' output: Bad file descriptor"), NULL,
                "%s", result.err);
  result = run("nccl-join run -n 2 sh -c 'echo out; echo lost >&2' 2>&-");
  cr_expect_eq(count(result.out, "out"), 2, "%s", result.out);
}

Test(launcher, a_program_that_is_not_there_is_127_and_one_that_cannot_run_126) {
  static const char *const options[] = {"", "-n 3"};
  for (size_t i = 0; i < 2; i++) {
    struct result result = run("nccl-join run %s ./not-there", options[i]);
    cr_expect_eq(result.status, 127);
    cr_expect_str_eq(result.err, "nccl-join: ./not-there: program not found\n");
    result = run("nccl-join run %s not-on-path", options[i]);
    cr_expect_eq(result.status, 127);
    cr_expect_str_eq(result.err, "nccl-join: not-on-path: program not found\n");
    result = run("echo > not-on-path; nccl-join run %s not-on-path; rm not-on-path", options[i]);
    cr_expect_neq(
        strstr(result.err, "not found in PATH; for the file of that name here say ./not-on-path"),
        NULL, "%s", result.err);
    result =
        run("echo '#!/not/there' > script; chmod +x script; nccl-join run %s ./script; rm script",
            options[i]);
    cr_expect_neq(strstr(result.err, "./script: what its first line names"), NULL, "%s",
                  result.err);
    result = run("nccl-join run %s NCCL_JOIN=0 true", options[i]);
    cr_expect_eq(result.status, 127);
    cr_expect_neq(strstr(result.err, "settings go in front of nccl-join"), NULL, "%s", result.err);
    result = run("echo > text; nccl-join run %s ./text", options[i]);
    cr_expect_eq(result.status, 126);
    cr_expect_str_eq(result.err,
                     "nccl-join: ./text: cannot be started: Permission denied: it is not "
                     "executable (chmod +x)\n");
    result = run("echo > text.py; nccl-join run %s ./text.py", options[i]);
    expect_in(result.err, "Say python in front of it");
    result = run("nccl-join run %s ./tools", options[i]);
    cr_expect_eq(result.status, 126);
    expect_in(result.err, ": it is a folder");
  }
}

/* A run to compare with is one without, whatever is set; other objects stay. */
Test(launcher, without_join_the_preload_is_taken_out_of_what_is_set) {
  struct result result =
      run("LD_PRELOAD='/not/libnccl-join.so libm.so.6:/not/there/libnccl-join.so' "
          "NCCL_PROFILER_PLUGIN=/not/libnccl-join.so nccl-join run --no-join sh -c "
          "'echo $LD_PRELOAD,$NCCL_PROFILER_PLUGIN' 2>/dev/null");
  cr_expect_str_eq(result.out, "libm.so.6,\n");
  result = run("LD_PRELOAD=/not/libnccl-join.so NCCL_PROFILER_PLUGIN=mine nccl-join run --no-join "
               "sh -c 'echo ${LD_PRELOAD-none},$NCCL_PROFILER_PLUGIN' 2>/dev/null");
  cr_expect_str_eq(result.out, "none,mine\n");
}

/* ---- settings ---- */

Test(launcher, env_prints_the_settings) {
  struct result result = run("NCCL_JOIN_TIMEOUT=77 nccl-join env");
  cr_expect_eq(result.status, 0);
  expect_in(result.out, "\nNCCL_JOIN_TIMEOUT            environment  77\n");
  expect_in(result.out, "\nNCCL_JOIN_DEBUG              default      WARN\n");
}

Test(launcher, env_shows_wrong_settings_and_has_status_2) {
  struct result result = run("NCCL_JOIN_TIMEOUT=x NCCL_JOIN_LOSY=zero nccl-join env");
  cr_expect_eq(result.status, 2);
  expect_in(result.out, "\nNCCL_JOIN_TIMEOUT            WRONG        x\n");
  expect_in(result.err,
            "nccl-join: NCCL_JOIN_TIMEOUT=x is not accepted. Accepted: 1 to 31536000 seconds\n");
  expect_in(result.err, "nccl-join: NCCL_JOIN_LOSY is not known");
}

Test(launcher, a_mistyped_setting_stops_run_before_the_program_starts) {
  static const char *const options[] = {"", "-n 4"};
  for (size_t i = 0; i < 2; i++) {
    struct result result = run("NCCL_JOIN_LOSY=zero nccl-join run %s echo started", options[i]);
    cr_expect_eq(result.status, 2);
    cr_expect_str_empty(result.out);
    cr_expect_eq(count(result.err, "Did you mean NCCL_JOIN_LOSSY?"), 1);
  }
  struct result result = run("NCCL_JOIN_LOSY=zero nccl-join run --no-join echo started");
  cr_expect_str_eq(result.out, "started\n");
}

Test(launcher, an_output_that_is_full_is_not_a_success) {
  struct result result = run("nccl-join env >/dev/full");
  cr_expect_neq(result.status, 0);
}

Test(launcher, ranks_go_on_where_their_output_is_full) {
  static const char *const streams[] = {"", "2"};
  for (size_t i = 0; i < 2; i++) {
    struct result result = run(
        "nccl-join run -n 2 sh -c 'for i in 1 2 3; do echo line; echo line >&2; sleep 0.1; done; "
        ">ended$RANK' %s>/dev/full; code=$?; ls ended0 ended1 && rm ended0 ended1 && exit $code",
        streams[i]);
    cr_expect_eq(result.status, 1, "%s%s", result.out, result.err);
    cr_expect(strstr(result.out, "ended1"), "%s", result.out);
    if (i == 0)
      cr_expect_eq(count(result.err, "cannot write the ranks' output: No space left on device"), 1);
  }
}

Test(launcher, what_is_wrong_comes_behind_the_table_of_settings) {
  struct result result = run("NCCL_JOIN_TIMEOUT=0 nccl-join env 2>&1 | tail -1");
  cr_expect(strncmp(result.out, "nccl-join: ", 11) == 0, "%s", result.out);
}
