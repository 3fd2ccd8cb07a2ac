/* Command: what a command line starts, told from files alone. Launchers are followed to what they
 * start, and scripts to their interpreters; of Python, what it is told to run. */
#ifndef NCCL_JOIN_TOOLS_CHECK_COMMAND_H
#define NCCL_JOIN_TOOLS_CHECK_COMMAND_H

#include <limits.h>
#include <stdbool.h>

#include "tools/check/names.h"

enum command_kind {
  COMMAND_BINARY,  /* anything but a script; perhaps not even an ELF file */
  COMMAND_PYTHON,  /* Python, or a script for it */
  COMMAND_SCRIPT,  /* for another interpreter */
  COMMAND_UNKNOWN, /* a launcher of which it cannot be told what it starts */
};

/* A launcher starts a launcher at most so many times; more is a mistake. */
#define COMMAND_LAUNCHERS_MAX 16

#define COMMAND_ERROR_SIZE 256

struct command {
  enum command_kind kind;
  char file[PATH_MAX];        /* what is started: the program, or the script */
  char interpreter[PATH_MAX]; /* of scripts and of Python; "" none */
  /* Of COMMAND_PYTHON: one of the three, or none for an interactive one. */
  char script[PATH_MAX]; /* "" none */
  const char *module, *code;
  char *const *arguments; /* of that, ended by NULL */
  char *const *words;     /* its whole command, ended by NULL */
  bool isolated;          /* PYTHONPATH does not count (-I, -E) */
  bool without_user;      /* nor do the user's own packages (-I, -s) */
  bool safe_path;         /* nor does the folder of the script (-I, -P) */

  /* The launchers on the way, outermost first. What they do to the environment has been done to
   * that of this process. */
  struct names launchers;
  bool puts_in_front; /* `nccl-join run` is one of them */
  const char *drops; /* one that takes LD_PRELOAD away, and nothing behind it sets it; NULL: none */
  char why[COMMAND_ERROR_SIZE];       /* of COMMAND_UNKNOWN */
  char **made[COMMAND_LAUNCHERS_MAX]; /* commands that launchers start */
  unsigned nmade;
};

/* What `words` starts, as execvp would: the program, or the path of a library to be asked about,
 * and its arguments, ended by NULL; they stay the caller's. False with a text in error if there is
 * no such program or it may not be executed. command_free is to be called in any case. */
bool command_read(struct command *command, char *const *words, char error[COMMAND_ERROR_SIZE]);

void command_free(struct command *command);

/* ---- launchers ---- */

enum launched {
  LAUNCHED_NONE,    /* it is no launcher */
  LAUNCHED_COMMAND, /* it starts another command */
  LAUNCHED_UNKNOWN, /* why says why it cannot be told what it starts */
};

/* Whether the command that has been read is a launcher; `started` is the command that it starts. */
enum launched launcher_read(struct command *command, char *const **started);

#endif
