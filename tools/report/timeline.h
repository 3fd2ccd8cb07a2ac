/* The timeline of a team in a terminal: a row for each rank over the indices of the agreed
 * sequence, where it has issued collectives of its own, and where shadows for others; then a table
 * of who joined when. UTF-8 where the locale says so; colours on a terminal that has them, if the
 * user does. As wide as the terminal; 80 columns in a pipe.
 *
 * A column that stands for several indices shows what there is most of among them. Of a file that
 * was full, and has only the last collectives, the row begins where those do. */
#ifndef NCCL_JOIN_TOOLS_REPORT_TIMELINE_H
#define NCCL_JOIN_TOOLS_REPORT_TIMELINE_H

#include <stddef.h>

#include "tools/report/tracks.h"

/* To be called once, before anything is drawn. */
void timeline_begin(void);

/* The tracks of one team, to stdout. */
void timeline_draw(const struct track *first, size_t n);

#endif
