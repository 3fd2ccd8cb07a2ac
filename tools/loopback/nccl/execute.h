/* Units on their stream: what the worker does when a unit's turn comes. */
#ifndef LOOPBACK_NCCL_EXECUTE_H
#define LOOPBACK_NCCL_EXECUTE_H

#include "unit.h"

/* Puts the unit on its streams, behind earlier units of the communicator whatever their stream.
 * With operations on several streams it runs on the first; it waits for what is on the others, and
 * they wait for it. Takes the unit, also on error. On the issuing thread, with the communicator's
 * context current. */
ncclResult_t unit_launch(struct unit *unit);

#endif
