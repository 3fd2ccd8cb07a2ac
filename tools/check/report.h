/* Report: the answer for people, for programs, and as a warning. */
#ifndef NCCL_JOIN_TOOLS_CHECK_REPORT_H
#define NCCL_JOIN_TOOLS_CHECK_REPORT_H

#include <stdio.h>

#include "tools/check/answer.h"

/* At most 24 lines, before a terminal breaks long ones. */
void report_print(FILE *out, const struct answer *answer);

/* One object of JSON in one line: program, seen (yes, no, unknown), reached (linked, exported,
 * opened, hidden, none, unknown), launchers, ways and remarks. `format` is this form's version. */
void report_json(FILE *out, const struct answer *answer);

/* One line if something is wrong for certain; otherwise nothing. */
void report_warning(FILE *out, const struct answer *answer);

/* An error as JSON. */
void report_json_error(FILE *out, const char *program, const char *error);

#endif
