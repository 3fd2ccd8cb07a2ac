/* What the environment says for this process: its settings (environment.c), and which functions are
 * exit points (exit_point_names.c). */
#ifndef NCCL_JOIN_INTERPOSE_ENVIRONMENT_H
#define NCCL_JOIN_INTERPOSE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/settings/settings.h"

/* Read from the environment at first use. NULL if they are wrong: the error has been logged, and
 * communicators must not be created. Any thread. */
const struct settings *join_settings(void);

/* ---- exit points (exit_point_names.c): functions that are no NCCL calls and into which a program
 * leaves its loop. Here is which they are; what a call of one does is in exits/exit_points.h. ----
 */

struct exit_point {
  const char *name; /* as the dynamic linker knows it */
  uint32_t mark;    /* in the agreed sequence (core/unit/unit.h, enum mark) */
  enum exit_point_of { EXIT_POINT_OF_USER, EXIT_POINT_OF_MPI, EXIT_POINT_OF_PYTORCH } of;
  bool takes_communicator; /* of MPI, as its first argument */
};

/* Those that are built in (the table in exit_point_names.c), and the user's. */
#define EXIT_POINTS_MAX (5 + SETTINGS_NAMES_MAX)

/* Reads which they are, once in a process and before the functions below are called. Returns how
 * many there are. */
size_t exit_points_read(const struct settings *settings);

/* The exit point of a number, from 0 on. */
const struct exit_point *exit_point(size_t number);

/* What messages call the exit point of a mark; never NULL. */
const char *exit_point_name(uint32_t mark);

#endif
