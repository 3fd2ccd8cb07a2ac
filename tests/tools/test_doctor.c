/* nccl-join doctor: what it says of a machine and an environment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/tools/workbench.h"

TestSuite(doctor, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)
#define expect_not_in(text, part) cr_expect_null(strstr(text, part), "'%s' in: %s", part, text)

static struct result doctor(const char *environment) {
  struct result result = run("unset NCCL_PROFILER_PLUGIN; %s nccl-join doctor", environment);
  return result;
}

Test(doctor, a_machine_where_all_is_well_has_status_0) {
  struct result result = doctor("");
  cr_expect_eq(result.status, 0, "%s%s", result.out, result.err);
  expect_in(result.out, "ok     nccl-join     0.");
  expect_in(result.out, "/lib/libnccl-join.so\n");
  expect_in(result.out, "ok     preload       a child process has it in front\n");
  expect_in(result.out, "ok     /dev/shm ");
  expect_in(result.out, "ok     settings      none is set");
  expect_not_in(result.out, "WRONG");
  cr_expect_str_empty(result.err);
}

Test(doctor, what_several_machines_need_is_looked_for) {
  run("rm -f lib/nccl-join-agent");
  struct result result = doctor("");
  cr_expect_eq(result.status, 0, "%s%s", result.out, result.err);
  expect_in(result.out, "note   machines      ranks of several machines cannot join from here: ");
  result = doctor("NCCL_JOIN_MACHINES=0");
  cr_expect_eq(result.status, 0, "%s%s", result.out, result.err);
  expect_in(result.out, "ok     machines      ranks of several machines do not join");
  result = doctor("NCCL_JOIN_MACHINES=1");
  cr_expect_eq(result.status, 1, "%s%s", result.out, result.err);
  expect_in(result.out, "WRONG  machines      ");
  expect_in(result.out, "there is no nccl-join-agent beside libnccl-join.so");
}

Test(doctor, a_secret_that_ranks_will_not_take_is_wrong) {
  run("head -c 32 /dev/zero >good && chmod 600 good && cp good open && chmod 644 open && head -c "
      "31 good "
      ">short && chmod 600 short");
  static const struct {
    const char *file, *why;
  } wrong[] = {
      {"missing", "No such file"}, {"open", "chmod 600"}, {"short", "32 bytes"}, {".", "no file"}};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct result result = run("NCCL_JOIN_MACHINES_SECRET=$PWD/%s nccl-join doctor", wrong[i].file);
    cr_expect_eq(result.status, 1, "%s: %s%s", wrong[i].file, result.out, result.err);
    expect_in(result.out, "WRONG  machines      NCCL_JOIN_MACHINES_SECRET=");
    expect_in(result.out, wrong[i].why);
  }
  struct result result =
      doctor("export NCCL_JOIN_MACHINES_SECRET=$PWD/good NCCL_JOIN_RENDEZVOUS=here:80;");
  expect_not_in(result.out, "WRONG");
  result = doctor("export NCCL_JOIN_RENDEZVOUS=here:80;");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "NCCL_JOIN_RENDEZVOUS is set without a secret");
}

Test(doctor, it_is_json_for_programs) {
  struct result result = run("NCCL_JOIN_TIMEOUT=x nccl-join doctor --json");
  cr_expect_eq(result.status, 1);
  cr_expect(is_json(result.out), "%s", result.out);
  expect_in(result.out, "{\"format\":1,\"good\":false,\"findings\":[");
  expect_in(result.out,
            "\"health\":\"wrong\",\"subject\":\"settings\",\"what\":\"NCCL_JOIN_TIMEOUT=x is");
  expect_in(run("nccl-join doctor --json").out, "{\"format\":1,\"good\":true,");
}

Test(doctor, an_object_that_cannot_be_preloaded_is_wrong) {
  run("echo text >lib/libnccl-join.so");
  struct result result = doctor("");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "WRONG  nccl-join     ");
  expect_in(result.out, "libnccl-join.so is not an ELF file\n");
  expect_in(result.out,
            "WRONG  preload       a child process does not have it in front: ERROR: ld.so: object");
  run("rm lib/libnccl-join.so");
  expect_in(doctor("").out, "libnccl-join.so cannot be read: No such file or directory\n");
  run("mkdir 'a b'; cp -r tools lib loopback 'a b'");
  result = run("'a b/tools/nccl-join' doctor");
  expect_in(result.out, "cannot take a path with a space, colon or semicolon: ");
}

/* They are looked at without being made. */
Test(doctor, paths_of_settings_that_cannot_be_opened_are_wrong) {
  write_file("text", "text\n");
  struct result result =
      doctor("NCCL_JOIN_HOOK=none/hook.so,./text,libelsewhere.so NCCL_JOIN_TRACE=text/traces "
             "NCCL_JOIN_REPORT=text/ NCCL_JOIN_DEBUG_FILE=none/log");
  cr_expect_eq(result.status, 1);
  expect_in(result.out,
            "WRONG  settings      NCCL_JOIN_HOOK: none/hook.so cannot be read: No such");
  expect_in(result.out, "WRONG  settings      NCCL_JOIN_HOOK: ./text is not an ELF file\n");
  expect_not_in(result.out, "WRONG  settings      NCCL_JOIN_HOOK: libelsewhere.so");
  expect_in(result.out, "WRONG  settings      NCCL_JOIN_TRACE=text/traces: text/traces cannot be "
                        "written to: Not a directory\n");
  expect_in(result.out, "WRONG  settings      NCCL_JOIN_REPORT=text/: text cannot be written to: ");
  expect_in(result.out, "WRONG  settings      NCCL_JOIN_DEBUG_FILE=none/log cannot be written to");
  result = doctor("NCCL_JOIN_HOOK=lib/libnccl-join.so NCCL_JOIN_TRACE=new/traces/here/ "
                  "NCCL_JOIN_REPORT=./new NCCL_JOIN_DEBUG_FILE=log.%p");
  cr_expect_eq(result.status, 0, "%s", result.out);
  cr_expect_neq(run("test -e new").status, 0);
}

/* The object here needs a function of a glibc that is not there yet. */
Test(doctor, the_release_of_glibc_that_is_needed_is_found) {
  write_file("future.c", "void of_the_future(void) {}\n");
  write_file("future.map", "GLIBC_2.2.5 {}; GLIBC_9.75 { of_the_future; } GLIBC_2.2.5;\n");
  write_file("user.c", "void of_the_future(void); void f(void) { of_the_future(); }\n");
  struct result result =
      run("mkdir f; gcc -shared -fPIC -nostdlib -Wl,-soname,libc.so.6,--version-script=future.map "
          "-o f/libc.so.6 "
          "future.c && gcc -shared -fPIC -nostdlib -o lib/libnccl-join.so user.c f/libc.so.6");
  cr_assert_eq(result.status, 0, "%s", result.err);
  result = doctor("");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "WRONG  glibc ");
  expect_in(result.out, "libnccl-join.so needs 9.75\n");
  expect_in(result.out, "to do: build nccl-join on this machine, or on an older one\n");
}

Test(doctor, settings_that_are_wrong_or_nearly_right_are_told) {
  struct result result = doctor("NCCL_JOIN_LOSY=zero NCCL_JOIN_DEBUG=LOUD");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "WRONG  settings      NCCL_JOIN_LOSY is not known to this version of "
                        "nccl-join. Did you mean NCCL_JOIN_LOSSY?");
  expect_in(result.out, "NCCL_JOIN_DEBUG=LOUD is not accepted");
  result = doctor("NCCL_JION_TIMEOUT=5 nccl_join_debug=INFO NCCLJOIN=0 NCCL_DEBUG=INFO");
  cr_expect_eq(result.status, 0);
  expect_in(result.out, "note   settings      NCCL_JION_TIMEOUT is no setting of nccl-join\n");
  expect_in(result.out, "to do: if NCCL_JOIN_DEBUG is meant, say so\n");
  expect_in(result.out, "to do: if NCCL_JOIN is meant, say so\n");
  cr_expect_eq(count(result.out, "is no setting"), 3, "%s", result.out);
  result = doctor("NCCL_JOIN_TIMEOUT=77 NCCL_JOIN_DEBUG=INFO");
  expect_in(result.out, "ok     settings      NCCL_JOIN_TIMEOUT=77, NCCL_JOIN_DEBUG=INFO\n");
  result = doctor("NCCL_JOIN=0");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "NCCL_JOIN=0: nccl-join is off\n");
}

Test(doctor, other_things_of_the_environment_are_noted) {
  struct result result = doctor("LD_PRELOAD=libm.so.6 LD_AUDIT=/none.so NCCL_PROFILER_PLUGIN=mine");
  expect_in(result.out, "LD_PRELOAD=libm.so.6 is preloaded as well\n");
  expect_in(result.out, "LD_AUDIT=/none.so can lead calls past nccl-join\n");
  expect_in(result.out, "NCCL_PROFILER_PLUGIN=mine is NCCL's profiler plug-in\n");
  expect_not_in(doctor("").out, "note   environment");
}

Test(doctor, nccl_is_found_where_programs_find_it) {
  build_nccl("nccl", "2.27.3");
  expect_in(doctor("LD_LIBRARY_PATH=nccl").out, "ok     NCCL          2.27.3, ");
  build_nccl("old", "2.17.1");
  struct result result = doctor("LD_LIBRARY_PATH=old");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "older than what nccl-join is made for, 2.18\n");
  make_environment();
  build_nccl("venv/lib/python3.11/site-packages/nvidia/nccl/lib", "2.26.2");
  expect_in(doctor("PATH=$PWD/venv/bin:$PATH").out, "2.26.2, ");
  expect_in(doctor("PATH=$PWD/venv/bin:$PATH").out, "libnccl.so.2, of the packages of python3\n");
}

Test(doctor, a_dev_shm_that_is_read_only_is_told) {
  if (run("unshare -m mount -t tmpfs -o ro t /dev/shm").status != 0)
    cr_skip("may not mount a file system");
  struct result result =
      run("unshare -m sh -c 'mount -t tmpfs -o ro t /dev/shm; nccl-join doctor'");
  cr_expect_eq(result.status, 1);
  expect_in(result.out, "WRONG  /dev/shm      it is read-only");
  expect_in(result.out, "remount,rw");
}

Test(doctor, a_small_dev_shm_is_told) {
  if (run("unshare -m mount -t tmpfs -o size=64k t /dev/shm").status != 0)
    cr_skip("may not mount a file system");
  struct result result =
      run("unshare -m sh -c 'mount -t tmpfs -o size=64k t /dev/shm; nccl-join doctor'");
  cr_expect_eq(result.status, 1);
  expect_in(result.out,
            "WRONG  /dev/shm      64 of 64 KiB are free; a communicator of 8 ranks takes ");
  expect_in(result.out, "--shm-size=1g");
  result = run("unshare -m sh -c 'mount -t tmpfs -o size=64m t /dev/shm; nccl-join doctor'");
  cr_expect_eq(result.status, 0);
  expect_in(result.out, "note   /dev/shm      64 MiB: enough for nccl-join");
  result = run("unshare -m sh -c 'mount -t tmpfs t /dev/shm; touch /dev/shm/nccl-join-$(id -u)-x; "
               "nccl-join doctor'");
  expect_in(result.out,
            "1 communicator is being made by a running job, or was left by a killed one");
}

/* Lines of a terminal end between words; a pipe's are whole. */
Test(doctor, lines_fit_the_terminal) {
  struct result result = run("COLUMNS=60 nccl-join doctor");
  for (const char *line = result.out; *line != '\0'; line = strchr(line, '\n') + 1) {
    size_t size = strcspn(line, "\n");
    cr_expect(size <= 60 || memchr(line + 21, ' ', size - 21) == NULL, "%.*s", (int)size, line);
  }
  result = run("TERM=xterm script -qec 'stty cols 80; nccl-join doctor' log >/dev/null; cat log");
  expect_in(result.out, "\033[32mok   \033[0m  preload");
  result = run("TERM=xterm NO_COLOR=1 script -qec 'nccl-join doctor' log >/dev/null; cat log");
  expect_not_in(result.out, "\033[");
  result = run("TERM=dumb script -qec 'nccl-join doctor' log >/dev/null; cat log");
  expect_not_in(result.out, "\033[");
  expect_not_in(doctor("TERM=xterm").out, "\033[");
}

Test(doctor, it_takes_no_other_argument) {
  struct result result = run("nccl-join doctor --what");
  cr_expect_eq(result.status, 2);
  expect_in(result.err, "nccl-join: doctor takes no argument but --json");
  cr_expect_eq(run("nccl-join doctor now").status, 2);
}
