/* A program that answers for its ranks without data itself: PyTorch's Join
 * (torch/distributed/algorithms/join.py).
 *
 * There a rank that is out of data calls what its peers call in their loop, from a loop of its own
 * (Join.__exit__). What it contributes says that it is out of data, or that all are to stop
 * (throw_on_early_termination). By its place it would be taken for a rank that has joined, and a
 * shadow says nothing. So nccl-join stands aside (interpose/comm/apart.h) from the first collective
 * on that this file calls. All ranks come to that at the same point, from their loop or without
 * one. Before it they agree on a mark, so that ranks that have been uneven until then are together.
 *
 * Where places cannot be seen nothing is recognised.
 */
#ifndef NCCL_JOIN_INTERPOSE_OWN_JOIN_H
#define NCCL_JOIN_INTERPOSE_OWN_JOIN_H

#include "interpose/park/wait.h"

/* Before the unit of a call is claimed: if that file calls it, MARK_OWN_JOIN takes its place, and
 * the unit is kept in request->kept. */
void own_join_recognise(struct request *request);

/* Of a request whose unit has settled: whether that was the mark, and all ranks are to stand aside
 * now. */
bool own_join_is_agreed(const struct request *request);

/* If a mark has taken the place of the call's unit, puts the unit back. */
void own_join_restore(struct request *request);

#endif
