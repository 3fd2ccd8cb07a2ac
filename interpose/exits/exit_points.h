/* Exit points: functions that are no NCCL calls and into which a program leaves its loop. They are
 * those of NCCL_JOIN_EXIT_ON, MPI's that wait for all of its ranks, and one of PyTorch's legacy
 * backend. That backend makes a group's communicator with the group's first collective, and the
 * function waits for the communicator's id.
 *
 * A thread that calls an exit point waits before it, and answers the others, until all ranks of its
 * communicators have come to an exit point or to something that marks the end of a loop
 * (core/unit/unit.h, enum mark), or have left for good. Then the function runs, with its arguments
 * and its result as they are.
 *
 * The function just runs, and nobody is waited for:
 *   - where the calling thread is not the one that uses the communicators, or in an open group, or
 *     inside of NCCL or of nccl-join;
 *   - where there is no communicator of more than one rank, or none any more;
 *   - of MPI's: on an MPI communicator that does not have all ranks of MPI_COMM_WORLD, where that
 *     has fewer ranks than the communicator of NCCL, and in an MPI that is not known (mpi.c);
 *   - of PyTorch's: where there is no communicator of all ranks, or that is not known (WORLD_SIZE,
 *     RANK). Of a group of some of the ranks only these are waited for (gathering.h);
 *   - of the user's: inside of another call of the same function on the same thread. (A tail call
 *     of itself, which is a jump, looks like a call of its own.)
 */
#ifndef NCCL_JOIN_INTERPOSE_EXIT_POINTS_H
#define NCCL_JOIN_INTERPOSE_EXIT_POINTS_H

#include <stdbool.h>
#include <stdint.h>

/* Reads which functions they are. Any thread, any number of times; nothing with NCCL_JOIN=0. */
void exit_points_choose(void);

/* Puts trampolines in front of them (trampolines.h): a communicator is about to be made. Says,
 * once, which functions that the user has named are nowhere called. */
void exit_points_open(void);

/* Takes them away: all communicators are gone. */
void exit_points_close(void);

/* ---- of how many ranks a call is, as its library knows: mpi.c, pytorch.c ---- */

/* How many ranks MPI_COMM_WORLD has; 0 if `communicator` has fewer of them, or that is not known.
 * Asks the MPI library that the program calls, on the calling thread. function: the one that the
 * program calls, between MPI_Init and the end of MPI_Finalize. communicator: as the program has
 * passed it; NULL: MPI_COMM_WORLD.
 *
 * MPI is not linked to, and its header is not needed. An MPI_Comm is a pointer in Open MPI and its
 * relatives, a number in MPICH and its relatives (MPICH ABI initiative: Intel MPI, MVAPICH, Cray
 * MPICH); either fits into the register that it is passed in. */
uint32_t mpi_ranks(void *function, const uintptr_t *communicator);

/* How many ranks a process group of PyTorch's legacy backend has; 0 if what is there does not look
 * like one, or `of_two`: the communicator is to be one of two of them. group: the object. */
uint32_t pytorch_ranks(const void *group, bool of_two);

/* Which ranks of all those are, in the group's order: the library of `function` is asked. Returns
 * this process's rank in the group; nranks if that cannot be told. */
uint32_t pytorch_members(void *function, const void *group, uint32_t *ranks, uint32_t nranks);

#endif
