/* Launchers and their options, as data (launchers.c reads them). */
#ifndef NCCL_JOIN_CHECK_LAUNCHER_TABLE_H
#define NCCL_JOIN_CHECK_LAUNCHER_TABLE_H

#include <stdbool.h>

enum way {
  BEHIND,    /* the command is what comes behind the options */
  VARIABLES, /* likewise, behind NAME=value */
  PYTHON,    /* a script, for the Python that the launcher is run by */
  MPI,       /* several commands with a colon between them */
  IN_FRONT,  /* nccl-join run */
  SHELL,     /* the text behind -c */
};

/* Options as words: "name" has no value, "name=" has one, "name==" two, "name?" one only behind an
 * equals sign (of two, the first has none in it). A letter of meaning may follow (launchers.c acts
 * on them): !p program, !m module, !u untold, !e empty, !s unset, !f folder, !x export, !a
 * assignment (NAME=value, or of two NAME and value), !n not in front. One-letter options are words
 * of one letter. */
struct launcher {
  const char *names, *modules; /* of the program; of the Python module; with spaces around each */
  enum way way;
  unsigned before; /* words before the command: a mask, a duration */
  bool one_dash;   /* long options may have one dash */
  const char *options;
};

/* Ends with one without names. */
extern const struct launcher launcher_table[];

#endif
