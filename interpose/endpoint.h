/* Making teams of the marks that ranks have left, and ending them. Called by communicator.c with
 * its lock held.
 */
#ifndef NCCL_JOIN_INTERPOSE_ENDPOINT_H
#define NCCL_JOIN_INTERPOSE_ENDPOINT_H

#include "interpose/communicator.h"

/* Joins a pending communicator to its team, or turns it off, with one line that says why. first:
 * all communicators of the process in order of creation. A communicator whose creation is still in
 * progress is waited for: all ranks are creating it. */
void endpoint_activate(struct communicator *comm, struct communicator *first,
                       struct endpoint **endpoints);

/* Takes the communicator out of its team; with the last one, this rank's end of the team goes as
 * `how`. Also lets go of what a communicator that never joined has. */
void endpoint_drop(struct communicator *comm, struct endpoint **endpoints, enum rank_state how);

#endif
