/* The settings of this process. */
#ifndef NCCL_JOIN_INTERPOSE_ENVIRONMENT_H
#define NCCL_JOIN_INTERPOSE_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "core/settings/settings.h"

/* Read from the environment at first use. NULL if they are wrong: the error has been logged, and
 * communicators must not be created. Any thread. */
const struct settings *join_settings(void);

/* Exit points: functions that are no NCCL calls and into which a program leaves its loop. Those
 * that the user names (NCCL_JOIN_EXIT_ON), MPI's that wait for all of its ranks, and the one in
 * which PyTorch's legacy backend makes a communicator. Which they are, out of the settings; what a
 * call of one does is in exits/exit_points.h.
 */

struct exit_point {
  const char *name;
  uint32_t mark; /* in the agreed sequence (core/unit/unit.h, enum mark) */
  enum exit_point_of { EXIT_POINT_OF_USER, EXIT_POINT_OF_MPI, EXIT_POINT_OF_PYTORCH } of;
  bool takes_communicator; /* of MPI, as its first argument */
};

/* MPI's, by both of their names, PyTorch's, and the user's. */
#define EXIT_POINTS_MAX (5 + SETTINGS_NAMES_MAX)

/* Reads them, once in a process and before the others are called. How many there are. */
size_t exit_points_read(const struct settings *settings);

/* By their number, from 0 on. */
const struct exit_point *exit_point(size_t number);

/* The name of the one with this mark, for messages. */
const char *exit_point_name(uint32_t mark);

#endif
