/* For tests of traces: a folder for them, where stderr goes as well, and reading them back by a
 * small JSON reader. */
#ifndef TESTS_UNIT_TRACE_FILES_H
#define TESTS_UNIT_TRACE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/report/ring.h"
#include "core/report/trace.h"

enum { LIMIT = 16 << 20 };

/* Before and after each test. */
void trace_files_begin(void);
void trace_files_end(void);

/* What read_file has read. */
extern char folder[], *lines[];
extern size_t nlines;

void read_file(const char *path);
void read_only_file(void);

/* Leaves out empty lines, which a file has behind the last if no process has closed it. */
size_t lines_with_something(void);

/* The only trace file in the test's folder, or the i-th. */
const char *path_of(size_t i, size_t of);

/* Checks that the line is a flat JSON object of strings and whole numbers. */
void check_object(const char *line);

unsigned long long number(const char *line, const char *name);
bool has(const char *line, const char *part);
unsigned long long now_ns(void);

/* What has been said on stderr. */
const char *warnings(void);
void expect_one_warning(const char *part);

#endif
