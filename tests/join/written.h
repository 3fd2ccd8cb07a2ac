/* A folder of traces that a test writes, and what nccl-join report makes of it. */
#ifndef TESTS_JOIN_WRITTEN_H
#define TESTS_JOIN_WRITTEN_H

#include <string.h>

#include "tests/join/run.h"

extern char traces_folder[];

/* For the suite's begin and end: makes the folder, empty, and removes it; the C locale. */
void written_begin(void);
void written_end(void);

/* A file in the folder. */
void write_text(const char *name, const char *text);

/* The trace of a rank of a team of so many, in a process; header: more fields, each behind a comma.
 */
void write_member(const char *team, int ranks, int rank, int process, const char *header,
                  const char *records);

/* Of the process 100 + rank, in team 00ab of two ranks. */
void write_rank(int rank, const char *header, const char *records);

/* nccl-join report of the folder. */
struct run *report(const char *options);

#define AT(ms, event, index)                                                                       \
  "{\"t_ns\":" #ms "000000,\"event\":\"" event "\",\"index\":" #index "}\n"

#define expect_in(text, part) cr_expect(strstr(text, part) != NULL, "no '%s' in:\n%s", part, text)

/* Criterion: a text does not have this part. */
void expect_not_in(const char *text, const char *part);

/* Two collectives. */
#define TWO AT(1000, "commit", 0) AT(2000, "commit", 1)

#endif
