/* Summary: what the tracks of a team say together. Numbers of collectives are of the agreed
 * sequence. */
#ifndef NCCL_JOIN_TOOLS_REPORT_SUMMARY_H
#define NCCL_JOIN_TOOLS_REPORT_SUMMARY_H

#include "tools/report/tracks.h"

/* From where all ranks were together to where they were again. */
struct epoch {
  uint64_t from, end; /* indices; end is not in it */
  uint64_t most, least;
  int most_rank, least_rank; /* own collectives in it; ranks as the job numbers them */
};

struct summary {
  const struct track *tracks; /* of one team */
  size_t count;
  uint64_t from, end;              /* indices of which there are records */
  uint64_t collectives;            /* of these, the program's: without marks */
  uint64_t start_ns, end_ns;       /* of all spans */
  uint64_t joined_ns;              /* of all ranks */
  uint64_t own;                    /* own collectives; of these those behind */
  uint64_t after_first, after_any; /* ... the first shadow of their epoch, and of the run */
  uint64_t shadows, answers;       /* of all ranks */
  uint64_t even; /* how many collectives it would have been if all had had as many in each epoch */
  const struct track *most, *least; /* by own collectives */
  struct epoch *epochs;
  size_t nepochs;
};

/* False: nothing has been recorded, not even a warning, or there is no memory. The caller frees. */
bool summary_make(struct summary *summary, const struct track *first, size_t count);
void summary_free(struct summary *summary);

uint64_t summary_joined_ns(const struct track *track);

/* How a rank of the team is shown: as the job numbers it. */
int summary_rank(const struct summary *summary, int rank);

/* Share of the collectives of which there are records, in percent. */
unsigned summary_percent(uint64_t part, uint64_t whole);

/* "12.3 s", "4.56 s", "78 ms", "0.9 ms": returns text. */
#define SUMMARY_TIME 24
const char *summary_time(uint64_t ns, char text[SUMMARY_TIME]);

/* Writes sentences, and returns how many: how the run ended, if that was not well, and what would
 * make the next one better, or cheaper. advice.c. */
enum { ADVICE_MAX = 8, ADVICE_SIZE = 400 };
size_t summary_advise(const struct summary *summary, char advice[ADVICE_MAX][ADVICE_SIZE]);

/* The summary as text (text.c); all summaries as a page, and as JSON, on stdout (page.c). False,
 * having said why on stderr, if the page cannot be written. */
void text_print(const struct summary *summary);
bool page_write(const char *path, const struct summary *summaries, size_t count);
void json_write(const struct summary *summaries, size_t count);

#endif
