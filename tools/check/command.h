/* Command: what a command line starts, told from files alone. Scripts are followed to their
 * interpreters; of Python, what it is told to run. */
#ifndef NCCL_JOIN_TOOLS_CHECK_COMMAND_H
#define NCCL_JOIN_TOOLS_CHECK_COMMAND_H

#include <limits.h>
#include <stdbool.h>

enum command_kind {
  COMMAND_BINARY, /* anything but a script; perhaps not even an ELF file */
  COMMAND_PYTHON, /* Python, or a script for it */
  COMMAND_SCRIPT, /* for another interpreter */
};

struct command {
  enum command_kind kind;
  char file[PATH_MAX];        /* what is started: the program, or the script */
  char interpreter[PATH_MAX]; /* of scripts and of Python; "" none */
  /* Of COMMAND_PYTHON: one of the three, or none for an interactive one. */
  char script[PATH_MAX]; /* "" none */
  const char *module, *code;
  char *const *words; /* the whole command, ended by NULL; the caller's */
  bool isolated;      /* PYTHONPATH does not count (-I, -E) */
  bool without_user;  /* nor do the user's own packages (-I, -s) */
};

#define COMMAND_ERROR_SIZE 256

/* What `words` starts, as execvp would: the program, or the path of a library to be asked about,
 * and its arguments, ended by NULL; they stay the caller's. False with a text in error if there is
 * no such program or it may not be executed. */
bool command_read(struct command *command, char *const *words, char error[COMMAND_ERROR_SIZE]);

#endif
