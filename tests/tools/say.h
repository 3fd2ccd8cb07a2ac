/* What a shell command says, for tests of the repository's own scripts. Run from the top of the
 * repository, as `make check` does.
 */
#ifndef NCCL_JOIN_TESTS_TOOLS_SAY_H
#define NCCL_JOIN_TESTS_TOOLS_SAY_H

/* Runs the command; its status as wait(2) has it. */
int say(const char *command);

/* What the last one wrote to its standard output, up to 64 KiB. */
extern char said[1 << 16];

#endif
