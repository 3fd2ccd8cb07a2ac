/* libmeeting.so: a barrier of the ranks of one machine that has nothing to do with NCCL.
 */
#ifndef PROGRAMS_MEETING_H
#define PROGRAMS_MEETING_H

/* Waits until all ranks have called it. Returns how often this one has; a rank that cannot meet the
 * others in 30 seconds ends with status 1. They find each other by MASTER_PORT. */
long meeting_of_all(int rank, int nranks);

/* The same, after a function of this library and itself have called each other so many times. */
long meeting_by_steps(int rank, int nranks, int steps);
long meeting_next_step(int rank, int nranks, int steps);

/* What one rank does before it meets the others, and the others do not. */
long meeting_prepare(int rank, int nranks);

#endif
