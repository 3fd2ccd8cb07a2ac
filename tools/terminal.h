/* Terminal: how wide it is, whether it has colours, and texts that are broken into its lines. What
 * goes into a pipe or a file is neither coloured nor broken. */
#ifndef NCCL_JOIN_TOOLS_TERMINAL_H
#define NCCL_JOIN_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stdio.h>

/* Columns of the terminal that `out` is; 0 if it is none. COLUMNS, if it is set to a number, counts
 * first, also for a pipe. At least 40. */
int terminal_width(FILE *out);

/* Whether `out` is a terminal that shows colours and the user has them: TERM is set, and not to
 * "dumb", and NO_COLOR is not set (https://no-color.org). */
bool terminal_has_colours(FILE *out);

/* Writes a text and a newline. `column` is where it begins; further lines are indented by `indent`.
 */
void terminal_print(FILE *out, int column, int indent, const char *text);

/* At the end of a program: writes out what is left. False, having said so on stderr, if not all
 * that was printed to stdout could be written. */
bool terminal_finish(void);

#endif
