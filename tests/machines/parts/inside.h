/* Commands on a machine of namespaces (tests/machines/start.c), beside its ranks: what a test needs
 * of somebody who is not in the job, or of who looks after the machine. */
#ifndef TESTS_MACHINES_INSIDE_H
#define TESTS_MACHINES_INSIDE_H

#include <sys/types.h>

/* Runs a command of sh(1) in the namespaces of a machine, whose process 1 is a child of `process`;
 * of 0, where the caller is: at the switch. It does not wait for it; the command is killed when the
 * caller ends. When the command has ended, "machines: has run COMMAND: STATUS" is said on stderr.
 */
void inside_run(pid_t process, const char *command);

/* Runs it where the caller is, and waits for it. MACHINE is the machine's number; -1: at the
 * switch. Whether its status was 0. */
int inside_prepare(const char *command, int machine);

#endif
