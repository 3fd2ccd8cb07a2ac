/* nccl-join check of programs: each answer, and beside it what must not get that answer. */
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/tools/workbench.h"

TestSuite(check, .init = sandbox_make, .fini = sandbox_remove, .timeout = 300);

#define expect_in(text, part) cr_expect(strstr(text, part), "no '%s' in: %s", part, text)

enum { YES, NO, UNKNOWN };

/* ---- linked ---- */

Test(check, a_linked_program_is_seen) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o linked -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  struct result result = check("", "./linked");
  cr_expect_eq(result.status, YES, "%s", result.err);
  expect_in(result.out, "NCCL        linked\n");
  expect_in(result.out, "seen        yes");
  expect_in(result.out, "NCCL 2.28.9 in ");
  expect_in(result.out, "/nccl/libnccl.so.2\n");
  cr_expect_eq(count(result.out, "in the way"), 0);
  expect_answer("", "./linked with arguments", YES, "\"reached\":\"linked\"");
  expect_answer("", "true", NO, "\"reached\":\"none\"");
}

/* Nothing is said under --loopback, of a program without NCCL, or where there is a driver. */
Test(check, a_run_on_a_machine_without_a_gpu_is_told_of_the_stand_ins) {
  if (access("/proc/driver/nvidia", F_OK) == 0)
    cr_skip("this machine has a driver");
  build_nccl("nccl", "2.28.9");
  build("user", "-o linked -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  struct result result = run_until_warned("nccl-join run ./linked");
  expect_in(result.err, "./linked: there is no GPU driver on this machine");
  expect_in(result.err, "nccl-join run --loopback\n");
  cr_expect_str_empty(run("nccl-join run true").err);
  cr_expect_eq(count(run("nccl-join run --loopback ./linked").err, "GPU driver"), 0);
  run("echo 'int cuInit(void) { return 0; }' >cuda.c; gcc -shared -o libcuda.so.1 cuda.c");
  cr_expect_str_empty(run("LD_LIBRARY_PATH=. nccl-join run ./linked").err);
}

Test(check, a_program_whose_library_is_linked_is_seen) {
  build_nccl("nccl", "2.28.9");
  build("user", "-DLIBRARY -shared -o libframework.so -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  run("echo 'int use_nccl(void); int main(void) { return use_nccl(); }' >main.c;"
      "gcc -o main main.c -L. -lframework -Wl,-rpath,'$ORIGIN',-rpath-link,nccl");
  expect_answer("", "./main", YES, "\"reached\":\"linked\"");
  expect_answer("", "./main", YES, "/libframework.so\"");
}

Test(check, the_library_is_the_one_that_the_dynamic_linker_takes) {
  build_nccl("first", "2.28.9");
  build_nccl("second", "2.27.3");
  build("user", "-o runpath -Lfirst -lnccl -Wl,--enable-new-dtags,-rpath,'$ORIGIN/first'");
  build("user", "-o rpath -Lfirst -lnccl -Wl,--disable-new-dtags,-rpath,'${ORIGIN}/first'");
  build("user", "-o neither -Lfirst -lnccl");
  build("user", "-o second/inner -Lfirst -lnccl");
  expect_answer("", "./runpath", YES, "\"version\":\"2.28.9\"");
  expect_answer("", "./rpath", YES, "\"version\":\"2.28.9\"");
  expect_answer("LD_LIBRARY_PATH=nowhere:second", "./runpath", YES, "\"version\":\"2.27.3\"");
  expect_answer("LD_LIBRARY_PATH=second", "./rpath", YES, "\"version\":\"2.28.9\"");
  expect_answer("LD_LIBRARY_PATH=second\\;first", "./neither", YES, "\"version\":\"2.27.3\"");
  expect_answer("cd second; LD_LIBRARY_PATH=:", "./inner", YES, "\"version\":\"2.27.3\"");
  /* What is not for this machine is passed over. */
  run("mkdir third; echo text >third/libnccl.so.2");
  expect_answer("LD_LIBRARY_PATH=third:first", "./neither", YES, "\"version\":\"2.28.9\"");
}

Test(check, the_rpath_of_a_program_holds_for_its_libraries) {
  build_nccl("nccl", "2.28.9");
  build("user", "-DLIBRARY -shared -o libframework.so -Lnccl -lnccl");
  run("echo 'int use_nccl(void); int main(void) { return use_nccl(); }' >main.c;"
      "gcc -o rpath main.c -L. -lframework -Wl,--disable-new-dtags,-rpath,'$ORIGIN:$ORIGIN/nccl';"
      "gcc -o runpath main.c -L. -lframework -Wl,--enable-new-dtags,-rpath,'$ORIGIN:$ORIGIN/nccl',"
      "-rpath-link,nccl");
  expect_answer("", "./rpath", YES, "/nccl/libnccl.so.2\"");
  struct result result = check_json("", "./runpath");
  cr_expect_eq(count(result.out, "/nccl/libnccl.so.2\""), 0, "%s", result.out);
}

Test(check, a_library_that_is_not_found_is_no_answer) {
  build_nccl("nccl", "2.28.9");
  run("mv nccl/libnccl.so.2 nccl/libnccl_test.so; rm nccl/libnccl.so");
  build("nccl", "-shared -DSHOWN -Wl,-soname,libnccl_test.so -o nccl/libnccl_test.so");
  build("user", "-o program -Lnccl -lnccl_test");
  expect_answer("", "./program", UNKNOWN, "\"kind\":\"missing\"");
  expect_in(check("", "./program").out, "LD_LIBRARY_PATH");
  expect_answer("LD_LIBRARY_PATH=nccl", "./program", YES, "\"version\":\"2.28.9\"");
}

Test(check, releases_before_2_18_are_no_promise) {
  build_nccl("old", "2.17.1");
  build_nccl("new", "2.18.1");
  build("user", "-o program -Lold -lnccl");
  expect_answer("LD_LIBRARY_PATH=old", "./program", UNKNOWN, "\"kind\":\"old\"");
  expect_answer("LD_LIBRARY_PATH=new", "./program", YES, "\"remarks\":[]");
}

/* ---- opened at run time ---- */

Test(check, a_program_that_opens_nccl_is_seen) {
  build_nccl("nccl", "2.28.9");
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"libnccl.so.2\"' -o opener "
                  "-Wl,-rpath,'$ORIGIN/nccl'");
  expect_answer("", "./opener", YES, "\"reached\":\"opened\"");
  expect_answer("", "./opener", YES, "/nccl/libnccl.so.2\",\"version\":\"2.28.9\"");
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"%s/nccl/libnccl.so\"' -o opener", sandbox());
  expect_answer("", "./opener", YES, "\"version\":\"2.28.9\"");
}

Test(check, a_message_with_the_name_of_nccl_is_not_the_opening_of_it) {
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"cannot find libnccl.so.2\"' -o message");
  expect_answer("", "./message", UNKNOWN, "\"kind\":\"plugins\"");
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"/lib/not-libnccl.so.2\"' -o other");
  expect_answer("", "./other", UNKNOWN, "\"kind\":\"plugins\"");
  run("echo 'int puts(const char *); int main(void) { return puts(\"libnccl.so.2\"); }' >main.c;"
      "gcc -o names main.c");
  expect_answer("", "./names", NO, "\"reached\":\"none\"");
}

/* XLA puts the file's name together. */
Test(check, functions_that_are_looked_up_tell_as_well) {
  build("opener", "-DHOW=dlopen -DFUNCTION='\"ncclCommInitRankConfig\"' -o looks_up");
  expect_answer("", "./looks_up", YES, "\"reached\":\"opened\"");
  build("opener", "-DHOW=dlopen -DFUNCTION='\"ncclSomethingElse\"' -o other");
  expect_answer("", "./other", UNKNOWN, "\"reached\":\"unknown\"");
}

Test(check, a_stub_of_nccl_is_not_nccl) {
  build("opener", "-DHOW=dlopen -DSTUB -DFILE_NAME='\"libnccl.so.2\"' -o stub");
  expect_answer("", "./stub", YES, "\"reached\":\"opened\"");
  build("opener", "-DHOW=dlopen -DSTUB -DFILE_NAME='\"libother.so.2\"' -o inside");
  expect_answer("", "./inside", NO, "\"reached\":\"hidden\"");
}

Test(check, what_is_opened_by_dlmopen_is_not_seen) {
  build("opener", "-DHOW=dlmopen -DFILE_NAME='\"libnccl.so.2\"' -o apart");
  expect_answer("", "./apart", NO, "\"kind\":\"dlmopen\"");
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"libnccl.so.2\"' -o together");
  expect_answer("", "./together", YES, "\"remarks\":[]");
}

/* ---- linked statically ---- */

Test(check, nccl_inside_a_library_is_seen_if_others_can_come_first) {
  build("nccl", "-shared -DSHOWN tests.c -o libdummy.so 2>/dev/null || :");
  run("echo 'int ncclCommInitRank(void); int ncclAllReduce(void); int use_nccl(void) { return "
      "ncclCommInitRank() + ncclAllReduce(); }' >use.c; echo 'int use_nccl(void); int main(void) { "
      "return use_nccl(); }' >main.c");
  static const struct {
    const char *options, *answer;
    int status;
  } libraries[] = {
      {"", "\"reached\":\"exported\",\"ways\":[{\"reached\":\"exported\",\"seen\":\"yes\"", YES},
      {"-Wl,-Bsymbolic", "\"kind\":\"bound\"", NO},
      {"-Wl,-Bsymbolic-functions", "\"kind\":\"bound\"", NO},
  };
  for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
    build("nccl", "use.c -shared -DSHOWN -o libframework.so %s", libraries[i].options);
    cr_assert_eq(run("gcc -o main main.c -L. -lframework -Wl,-rpath,'$ORIGIN'").status, 0);
    expect_answer("", "./main", libraries[i].status, libraries[i].answer);
    expect_answer("", "./main", libraries[i].status, "\"version\":\"2.28.9\"");
  }
}

Test(check, nccl_inside_the_program_is_not_seen) {
  run("echo 'int ncclCommInitRank(void); int ncclAllReduce(void); int main(void) { return "
      "ncclCommInitRank() + ncclAllReduce(); }' >main.c");
  build("nccl", "main.c -DSHOWN -rdynamic -o exported");
  expect_answer("", "./exported", NO, "\"reached\":\"exported\"");
  expect_in(check("", "./exported").out, "linked statically into ./exported");
}

Test(check, hidden_nccl_is_found_by_its_symbols_and_without_them_by_its_texts) {
  run("echo 'int ncclAllReduce(void); int use_nccl(void) { return ncclAllReduce(); }' >use.c;"
      "echo 'int use_nccl(void); int main(void) { return use_nccl(); }' >main.c");
  build("nccl", "use.c -DWITHOUT_TEXTS -shared -o libframework.so");
  run("gcc -o main main.c -L. -lframework -Wl,-rpath,'$ORIGIN'");
  expect_answer("", "./main", NO, "\"reached\":\"hidden\"");
  run("strip libframework.so");
  expect_answer("", "./main", NO, "\"reached\":\"none\"");
  /* NCCL opens its network plug-ins. */
  run("echo '#include <dlfcn.h>' >>use.c; echo 'void *net(char *n) { return dlopen(n, 2); }' "
      ">>use.c");
  build("nccl", "use.c -shared -s -o libframework.so");
  expect_answer("", "./main", NO, "\"reached\":\"hidden\"");
  expect_answer("", "./main", NO, "\"version\":\"2.28.9\"");
  build("nccl", "use.c -DWITHOUT_TEXTS -shared -s -o libframework.so");
  expect_answer("", "./main", UNKNOWN, "\"reached\":\"unknown\"");
}

Test(check, of_two_nccls_one_of_which_is_not_seen_it_cannot_be_told) {
  build_nccl("nccl", "2.28.9");
  build("user", "-DLIBRARY -shared -o libseen.so -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  build("nccl", "-shared -o libhidden.so");
  run("echo 'int main(void) { return 0; }' >main.c; gcc -o both main.c -L. -Wl,--no-as-needed "
      "-lseen -lhidden -Wl,-rpath,'$ORIGIN',-rpath-link,nccl; gcc -o one main.c -L. "
      "-Wl,--no-as-needed -lseen -Wl,-rpath,'$ORIGIN',-rpath-link,nccl");
  expect_answer("", "./both", UNKNOWN, "\"kind\":\"hidden\"");
  expect_in(check("", "./both").out, "libhidden.so");
  expect_answer("", "./one", YES, "\"remarks\":[]");
}

Test(check, static_programs_cannot_be_preloaded_into) {
  run("echo 'int ncclAllReduce(void); int main(void) { return ncclAllReduce(); }' >main.c;"
      "echo 'int main(void) { return 0; }' >plain.c; gcc -static -o plain plain.c");
  build("nccl", "main.c -static -o with");
  build("nccl", "main.c -static-pie -s -o stripped");
  expect_answer("", "./with", NO, "\"reached\":\"hidden\"");
  expect_answer("", "./with", NO, "\"kind\":\"static\"");
  expect_answer("", "./stripped", NO, "\"reached\":\"hidden\"");
  expect_answer("", "./plain", NO, "\"reached\":\"none\"");
  expect_answer("", "./plain -n 2 ./plain", UNKNOWN, "it may start ./plain");
  expect_answer("", "./plain -n 2 ./absent", NO, "\"reached\":\"none\"");
}

/* glibc lets them. */
Test(check, static_programs_may_open_nccl) {
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"libnccl.so.2\"' -static -o opener 2>log");
  expect_answer("", "./opener", NO, "\"reached\":\"opened\"");
  expect_answer("", "./opener", NO, "\"kind\":\"static\"");
  build("opener", "-DHOW=dlopen -DFILE_NAME='\"libother.so.2\"' -static -o other 2>log");
  expect_answer("", "./other", NO, "\"reached\":\"none\"");
}

/* As the answers about programs that open libraries advise. */
Test(check, libraries_can_be_asked_about) {
  build_nccl("nccl", "2.28.9");
  build("user", "-DLIBRARY -shared -o plugin.so -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  build("nccl", "-shared -o hidden.so");
  run("chmod -x plugin.so hidden.so");
  expect_answer("", "./plugin.so", YES, "\"version\":\"2.28.9\"}],\"remarks\":[]");
  expect_answer("", "./hidden.so", NO, "\"kind\":\"hidden\"");
}

/* ---- what is in the way ---- */

static void write_header(const char *name, unsigned char class, unsigned short machine) {
  char path[256];
  snprintf(path, sizeof path, "%s/%s", sandbox(), name);
  Elf32_Ehdr narrow = {.e_ident = {0x7f, 'E', 'L', 'F', class, ELFDATA2LSB, EV_CURRENT},
                       .e_type = ET_EXEC,
                       .e_machine = machine,
                       .e_version = EV_CURRENT,
                       .e_ehsize = sizeof narrow};
  Elf64_Ehdr wide = {
      .e_type = ET_EXEC, .e_machine = machine, .e_version = EV_CURRENT, .e_ehsize = sizeof wide};
  memcpy(wide.e_ident, narrow.e_ident, sizeof wide.e_ident);
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file);
  if (class == ELFCLASS32)
    fwrite(&narrow, sizeof narrow, 1, file);
  else
    fwrite(&wide, sizeof wide, 1, file);
  fclose(file);
  run("chmod +x %s", name);
}

Test(check, programs_for_other_machines_are_not_seen) {
  write_header("narrow", ELFCLASS32, EM_386);
  expect_answer("", "./narrow", NO, "\"kind\":\"32-bit\"");
  write_header("other", ELFCLASS64, EM_RISCV);
  expect_answer("", "./other", NO, "\"kind\":\"architecture\"");
  struct result result = check_json("", "/bin/true");
  cr_expect_eq(count(result.out, "\"32-bit\"") + count(result.out, "\"architecture\""), 0);
}

Test(check, programs_for_another_libc_are_not_seen) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o musl -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl' "
                "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1");
  expect_answer("", "./musl", NO, "\"kind\":\"libc\"");
}

Test(check, programs_with_the_rights_of_others_are_not_seen) {
  if (getuid() != 0)
    cr_skip("only root can give files to others");
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  run("chown 65534 program; chmod u+s program");
  expect_answer("", "./program", NO, "\"kind\":\"setuid\"");
  run("chown 0 program; chmod u+s program"); /* its own rights */
  expect_answer("", "./program", YES, "\"remarks\":[]");
  run("chgrp 65534 program; chmod u-s,g+s program");
  expect_answer("", "./program", NO, "\"kind\":\"setuid\"");
  run("chmod g-s program");
  expect_answer("", "./program", YES, "\"remarks\":[]");
}

Test(check, auditors_may_lead_calls_elsewhere) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  run("echo 'unsigned la_version(unsigned v) { return v; }' >quiet.c; cp quiet.c loud.c;"
      "echo 'char *la_objsearch(char *n) { return n; }' >>loud.c;"
      "gcc -shared -fPIC -o quiet.so quiet.c; gcc -shared -fPIC -o loud.so loud.c");
  char environment[128];
  snprintf(environment, sizeof environment, "LD_AUDIT=%s/loud.so", sandbox());
  expect_answer(environment, "./program", UNKNOWN, "\"kind\":\"audit\"");
  snprintf(environment, sizeof environment, "LD_AUDIT=%s/quiet.so", sandbox());
  expect_answer(environment, "./program", YES, "\"remarks\":[]");
  build("user", "-o audited -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl',--audit,%s/loud.so", sandbox());
  expect_answer("", "./audited", UNKNOWN, "\"kind\":\"audit\"");
}

Test(check, another_preload_is_in_the_way_if_it_comes_first) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  build("nccl", "-shared -DSHOWN -o tool.so");
  char environment[256];
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s/tool.so", sandbox());
  expect_answer(environment, "./program", YES, "\"kind\":\"preload\",\"harmless\":true");
  snprintf(environment, sizeof environment, "LD_PRELOAD=%s/lib/libnccl-join.so:%s/tool.so",
           sandbox(), sandbox());
  expect_answer(environment, "./program", YES, "\"kind\":\"preload\",\"harmless\":true");
  snprintf(environment, sizeof environment, "LD_PRELOAD='%s/tool.so %s/lib/libnccl-join.so'",
           sandbox(), sandbox());
  expect_answer(environment, "./program", UNKNOWN, "\"kind\":\"preload\",\"harmless\":false");
  expect_answer("LD_PRELOAD=libm.so.6", "./program", YES, "\"remarks\":[]");
}

Test(check, switched_off_nothing_is_seen) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  expect_answer("NCCL_JOIN=0", "./program", NO, "\"kind\":\"off\"");
  expect_answer("NCCL_JOIN=1", "./program", YES, "\"remarks\":[]");
}

/* ---- the command itself ---- */

Test(check, shell_scripts_cannot_be_told) {
  write_file("script", "#!/bin/sh\nexec ./train\n");
  run("chmod +x script");
  expect_answer("", "./script", UNKNOWN, "\"kind\":\"script\"");
}

Test(check, what_cannot_be_read_has_status_2) {
  expect_answer("", "./not-there", UNKNOWN, "program not found");
  write_file("text", "no program\n");
  expect_answer("", "text", UNKNOWN, "for the file of that name here say ./");
  expect_answer("", "./text", UNKNOWN, "permission to execute");
  run("chmod +x text");
  expect_answer("", "./text", UNKNOWN, "is not an ELF file");
  struct result result = check("", "./text");
  cr_expect_eq(result.status, UNKNOWN);
  expect_in(result.err, "nccl-join: check: ./text is not an ELF file\n");
  cr_expect_str_empty(result.out);
  expect_in(check("", "").err, "no program to check");
  expect_in(check("", "--jsn sh").err, "unknown option --jsn");
  expect_in(check("", "--help").out, "usage: nccl-join check [--json]");
}

Test(check, names_of_any_bytes_are_json) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'%s/nccl'", sandbox());
  run("cp program 'quote\" back\\slash\ttab'; cp program \"$(printf 'bytes\\377\\303\\050')\"");
  struct result result = check_json("", "./quote*");
  cr_expect_eq(result.status, YES);
  expect_in(result.out, "./quote\\\" back\\\\slash\\ttab\"");
  expect_in(check_json("", "./bytes*").out, "./bytes\xef\xbf\xbd\xef\xbf\xbd(\"");
}

Test(check, the_answer_fits_a_screen) {
  build("nccl", "-shared -DSHOWN -Wl,-Bsymbolic -o lib0.so");
  run("echo 'int main(void) { return 0; }' >main.c; for i in 1 2 3 4 5 6 7 8 9; do cp lib0.so "
      "lib$i.so; done; gcc -o main main.c -Wl,--no-as-needed ./lib?.so");
  struct result result = check("", "./main");
  cr_expect_eq(result.status, NO, "%s", result.err);
  cr_expect_leq(count(result.out, "\n"), 24, "%s", result.out);
  expect_in(result.out, "more files (see --json)");
  cr_expect_eq(count(check_json("", "./main").out, "\"kind\":\"bound\""), 10);
}

Test(check, no_calls_are_not_calls_that_are_not_seen) {
  static const char none[] = "NCCL        not at all\nseen        no: it makes no NCCL calls\n",
                    unseen[] = "seen        no: nccl-join will not see its NCCL calls\n";
  struct result result = check("", "/bin/ls");
  cr_expect_eq(result.status, NO);
  expect_in(result.out, none);
  make_environment();
  result = check("", "venv/bin/python -c pass");
  cr_expect_eq(result.status, NO);
  expect_in(result.out, none);
  expect_in(check("NCCL_JOIN=0", "/bin/ls").out, none);
  build_nccl("nccl", "2.28.9");
  build("user", "-o program -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  expect_in(check("NCCL_JOIN=0", "./program").out, unseen);
  build("nccl", "-shared -o hidden.so");
  expect_in(check("", "./hidden.so").out, unseen);
  /* The calls of other machines' programs are not looked for. */
  write_header("other", ELFCLASS64, EM_RISCV);
  result = check("", "./other");
  cr_expect_eq(result.status, NO);
  expect_in(result.out, "NCCL        unknown\n");
  expect_in(result.out, unseen);
}

/* ---- the warning of nccl-join run ---- */

Test(check, run_warns_in_one_line_of_calls_that_it_cannot_see) {
  run("echo 'int ncclAllReduce(void); int main(void) { return ncclAllReduce() + 7; }' >main.c");
  build("nccl", "main.c -o inside");
  struct result result = run_until_warned("nccl-join run ./inside");
  cr_expect_eq(result.status, 7);
  cr_expect_eq(count(result.err, "\n"), 1, "%s", result.err);
  expect_in(result.err, "nccl-join: ./inside: NCCL is linked statically into ./inside");
  expect_in(result.err, "To do: link");
  result = run_until_warned("nccl-join run -n 3 ./inside");
  cr_expect_eq(count(result.err, "NCCL is linked statically"), 1, "%s", result.err);
  cr_expect_str_empty(run("nccl-join run --no-join ./inside").err);
  cr_expect_str_empty(run("NCCL_JOIN=0 nccl-join run ./inside").err);
}

Test(check, run_warns_of_dlmopen) {
  build("opener", "-DHOW=dlmopen -DFILE_NAME='\"libnccl.so.2\"' -o apart");
  struct result result = run_until_warned("nccl-join run ./apart");
  cr_expect_eq(count(result.err, "./apart opens NCCL with dlmopen"), 1, "%s", result.err);
}

Test(check, run_is_silent_where_nothing_is_wrong) {
  build_nccl("nccl", "2.28.9");
  build("user", "-o linked -Lnccl -lnccl -Wl,-rpath,'$ORIGIN/nccl'");
  build("user", "-o lacks -Lnccl -lnccl");
  write_file("script", "#!/bin/sh\n:\n");
  run("chmod +x script; echo 'int main(void) { return 0; }' >main.c; gcc -static -o static main.c");
  run("echo 'int cuInit(void) { return 0; }' >cuda.c; gcc -shared -o nccl/libcuda.so.1 cuda.c");
  static const char *const programs[] = {"./linked", "./script", "./static", "true",
                                         "--loopback true"};
  for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++)
    cr_expect_str_empty(run("LD_LIBRARY_PATH=nccl nccl-join run %s", programs[i]).err, "of %s",
                        programs[i]);
  struct result result = run("nccl-join run ./not-there");
  cr_expect_eq(result.status, 127);
  cr_expect_str_eq(result.err, "nccl-join: ./not-there: program not found\n");
}

Test(check, run_does_without_the_checker) {
  run("rm tools/nccl-join-check");
  struct result result = run("nccl-join run sh -c 'exit 3'");
  cr_expect_eq(result.status, 3);
  cr_expect_str_empty(result.err);
  result = run("printf '#!/bin/sh\\necho noise >&2; exit 127\\n' >tools/nccl-join-check; chmod +x "
               "tools/nccl-join-check; nccl-join run sh -c 'exit 3'");
  cr_expect_eq(result.status, 3);
  cr_expect_str_empty(result.err);
}
