/* Options: what nccl-join-ranks is told (ranks.c), and what of it can be seen to go wrong before a
 * rank is started. */
#ifndef NCCL_JOIN_TOOLS_RANKS_OPTIONS_H
#define NCCL_JOIN_TOOLS_RANKS_OPTIONS_H

#include <stdbool.h>

#define RANKS_MAX 256 /* two pipes each fit into the usual limit of 1024 descriptors */
#define STATUS_USAGE 2

struct options {
  int nranks; /* 0: become the program */
  bool prefix;
  const char *preload, *libraries; /* NULL: none */
  char **program;                  /* with its arguments */
};

/* One line on stderr, in one write. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Fills options; 0 or the status to exit with. */
int options_read(struct options *options, int argc, char **argv);

/* Says so if there are more ranks than GPUs that they can use: NCCL takes one for each rank.
 * Nothing is said where no GPU is seen, where NCCL is told that ranks share one, or with the
 * stand-ins, which have as many as they are told.
 */
void options_warn_of_devices(const struct options *options);

#endif
