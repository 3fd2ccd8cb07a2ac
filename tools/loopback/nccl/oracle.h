/* The oracle: no collective is performed unless all ranks mean the same one.
 *
 * Real NCCL compares nothing: a mismatch there is a hang or silent corruption. Here each rank
 * publishes the descriptor of the whole unit before the first exchange of data, and compares after
 * it. A difference ends the run on every rank, with both descriptions. Sends and receives are not
 * symmetric: they are compared pairwise (transfer.c).
 */
#ifndef LOOPBACK_NCCL_ORACLE_H
#define LOOPBACK_NCCL_ORACLE_H

#include "communicator.h"
#include "unit.h"

/* Before this rank arrives at the first exchange of a collective unit. On the worker. */
void oracle_publish(struct ncclComm *comm, const struct unit *unit);

/* After that exchange. Returns only if all ranks published the same descriptor. */
void oracle_compare(struct ncclComm *comm, const struct unit *unit);

/* Ends the run over two descriptions that differ: "MISMATCH on communicator H, WHERE" and a line
 * for each. With LOOPBACK_MISMATCH=hang says so, and never returns. */
_Noreturn void oracle_mismatch(struct ncclComm *comm, const char *where, int rank_a, const char *a,
                               int rank_b, const char *b);

#endif
