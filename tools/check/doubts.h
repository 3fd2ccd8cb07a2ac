/* Doubts: what keeps a "no NCCL calls" from being certain. Each says what it is that only a run can
 * tell, and turns the answer into "cannot tell" if no way to NCCL has been found. */
#ifndef NCCL_JOIN_TOOLS_CHECK_DOUBTS_H
#define NCCL_JOIN_TOOLS_CHECK_DOUBTS_H

#include "tools/check/answer.h"
#include "tools/check/closure.h"
#include "tools/check/command.h"
#include "tools/check/python.h"

/* Of a launcher or a script of which it cannot be told what it starts. */
void doubts_of_command(struct answer *answer, const struct command *command);

/* Of a program in machine code. */
void doubts_of_program(struct answer *answer, const struct closure *closure,
                       const struct command *command, struct image *program);

/* Of a Python program. `error` is why its Python could not be asked; NULL if it has been. */
void doubts_of_python(struct answer *answer, const struct closure *closure,
                      const struct command *command, const struct python *python,
                      const char *error);

#endif
