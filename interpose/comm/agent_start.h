/* Starting the agent of this machine out of a program that is to notice nothing of it: no child of which it
 * hears, no handler that runs, nothing of its own that the agent inherits but its environment, without the
 * preload object. */
#ifndef NCCL_JOIN_INTERPOSE_AGENT_START_H
#define NCCL_JOIN_INTERPOSE_AGENT_START_H

#include <stdbool.h>

/* Runs a file with one argument. False, with errno: it cannot be started. Any thread. */
bool agent_start(const char *file, const char *argument);

#endif
