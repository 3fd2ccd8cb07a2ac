/* A program that answers for its ranks without data itself: PyTorch's Join
 * (torch/distributed/algorithms/join.py).
 *
 * A rank that is out of data calls there what its peers call in their loop, from a loop of its own
 * (Join.__exit__); what it contributes says that it is out of data, or that all are to stop
 * (throw_on_early_termination). By its place it would be taken for a rank that has joined, and a
 * shadow says nothing. So nccl-join stands aside where a program does that (interpose/comm/apart.h):
 * from the first collective on that is called by that file, which all ranks come to at the same
 * point, from their loop or without one. Before it they agree on a mark, so that ranks that have
 * been uneven until then are together.
 *
 * Where places cannot be seen nothing is recognised.
 */
#ifndef NCCL_JOIN_INTERPOSE_OWN_JOIN_H
#define NCCL_JOIN_INTERPOSE_OWN_JOIN_H

#include "interpose/park/wait.h"

/* Before the unit of a call is claimed: if it is called there, the mark takes its place, and the
 * unit is kept in request->kept. */
void own_join_recognise(struct request *request);

/* The request's unit has settled. If it was the mark, all ranks are to stand aside now: true. */
bool own_join_is_agreed(const struct request *request);

/* The unit again that the call is of, if a mark has taken its place. */
void own_join_restore(struct request *request);

#endif
