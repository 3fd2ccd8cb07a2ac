/* Collectives, in chunks through the staging buffers. */
#ifndef LOOPBACK_NCCL_COLLECTIVE_H
#define LOOPBACK_NCCL_COLLECTIVE_H

#include "exchange.h"

/* Performs operation with the other ranks of the exchange. On the worker. A buffer that is not
 * wholly inside one allocation of device memory, or that overlaps the other one other than in
 * place, ends the run. */
enum meeting_result collective_run(struct exchange *exchange, const struct operation *operation);

#endif
