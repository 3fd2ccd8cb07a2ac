/* A job: the ranks of one program, as children of the process that runs many of them.
 *
 *   job_make; fork for each rank: in the child job_enter, the program, job_leave; in the parent
 *   job_watch, then job_write.
 *
 * The parent never calls CUDA or NCCL, so that its children may.
 */
#ifndef GENERATED_JOB_H
#define GENERATED_JOB_H

#include <stdio.h>
#include <sys/types.h>

#include "tests/generated/rank.h"

#define JOB_MAGIC UINT32_C(0x4a4f4231)

#pragma GCC visibility push(default) /* for Python */

/* The memory that parent and ranks share, and each rank's stderr. Reused from program to program.
 * NULL without memory. */
struct job *job_make(void);

/* For the next program. */
void job_reset(struct job *job, const struct setup *setup);

/* In the child: stderr, device, stream, communicators. Ends the process if that fails. */
struct rank *job_enter(struct job *job, int rank);

/* In the child, after the program: ends as the setup says. What main shall return, if it returns.
 */
int job_leave(struct rank *rank);

/* Waits until all have ended. Ranks that make no call for limit_s seconds, or that are left when
 * another has failed, are killed. */
void job_watch(struct job *job, const pid_t *ranks, double limit_s);

/* Appends what is known to a file: see verdict.py for the format. False if it cannot. */
int job_write(struct job *job, int program, int file);

#pragma GCC visibility pop

#endif
