/* The broadcasts with which a program begins, for NCCL_JOIN_RESYNC=broadcasts: what is broadcast
 * before anything else is the model, which all ranks have to begin with.
 */
#ifndef NCCL_JOIN_INTERPOSE_STARTUP_H
#define NCCL_JOIN_INTERPOSE_STARTUP_H

#include "interpose/park/wait.h"
#include "interpose/comm/call.h"

/* A unit of the program has been issued for real, at request->index: if it consists of broadcasts,
 * and only such units came before it, its receive buffers are the program's state. Barriers (units
 * in which no count is above 1) may come in between. calls: those of the unit, in its order. The
 * caller has entered the endpoint. */
void startup_issued(const struct request *request, const struct call *const *calls);

/* Whether that is asked for at all. */
bool startup_is_watched(const struct endpoint *end);

#endif
