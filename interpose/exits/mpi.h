/* What has to be known of MPI, asked of the MPI library that the program calls. It is not linked
 * to, and its header is not needed: an MPI_Comm is a pointer in Open MPI and its relatives, a
 * number in MPICH and its relatives (MPICH ABI initiative: Intel MPI, MVAPICH, Cray MPICH), and
 * either fits into the register that it is passed in.
 */
#ifndef NCCL_JOIN_INTERPOSE_MPI_H
#define NCCL_JOIN_INTERPOSE_MPI_H

#include <stdint.h>

/* How many ranks MPI_COMM_WORLD has; 0 if `communicator` has fewer of them, or that is not known.
 * `function`: the one that the program calls, between MPI_Init and the end of MPI_Finalize. On the
 * calling thread, which is one that may call MPI. communicator: as the program has passed it; NULL:
 * MPI_COMM_WORLD. */
uint32_t mpi_ranks(void *function, const uintptr_t *communicator);

#endif
