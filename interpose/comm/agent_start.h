/* Starting the agent of this machine out of a program that is to notice nothing of it:
 *   - it hears of no child: no signal comes, and waiting for any child does not find it,
 *   - no handler of its own runs,
 *   - the agent inherits nothing but the environment, without the preload object: no descriptor but
 *     those of stdin, stdout and stderr, no handling of signals, no session.
 *
 * What is started is to leave for another process, and to end its first one, at once: that one is
 * waited for. */
#ifndef NCCL_JOIN_INTERPOSE_AGENT_START_H
#define NCCL_JOIN_INTERPOSE_AGENT_START_H

#include <stdbool.h>

/* Runs a file with one argument, under the name nccl-join-agent. False, with errno: there is no
 * memory, it cannot be started, or its first process has ended with an error (EIO). Any thread.
 *
 * Takes as long as that process does. */
bool agent_start(const char *file, const char *argument);

#endif
