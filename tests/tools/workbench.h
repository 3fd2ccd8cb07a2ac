/* Workbench: programs and libraries for the tests of nccl-join check, built in the sandbox by the
 * compiler from tests/tools/parts/, and fake installations of Python. */
#ifndef NCCL_JOIN_TESTS_TOOLS_WORKBENCH_H
#define NCCL_JOIN_TESTS_TOOLS_WORKBENCH_H

#include "tests/tools/sandbox.h"

/* Builds parts/<source>.c in the sandbox: the rest of a gcc command line, as "-o program -lx". */
void build(const char *source, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A library libnccl.so.2 of a version in a folder of the sandbox, with libnccl.so as a link. */
void build_nccl(const char *folder, const char *version);

/* Writes a file in the sandbox, with its folders. */
void write_file(const char *name, const char *text);

/* nccl-join check of a command line, after `environment` (assignments, or nothing). */
struct result check(const char *environment, const char *words);

/* The same with --json, which must be JSON. */
struct result check_json(const char *environment, const char *words);

/* The answer must have that status, and that text in it. */
void expect_answer(const char *environment, const char *words, int status, const char *text);

/* A folder venv/ in the sandbox, as python3 -m venv makes it, of this machine's own Python. */
void make_environment(void);

/* Adds a package to it, with these files: a Python source, and if `module` is not NULL that file of
 * the sandbox as its extension. requires: lines of its METADATA. */
void add_package(const char *name, const char *module, const char *requires);

/* An environment with three packages: frame has an extension that is linked to NCCL in the
 * environment's nvidia folder, as PyTorch's wheels are; plain has one that is not; pure is of
 * Python alone. */
void make_packages(void);

#endif
