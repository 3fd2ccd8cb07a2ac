/* First use. NCCL connects ranks when a communicator is first used (NCCL_RUNTIME_CONNECT,
 * group.cc): the issuing thread blocks on the host until the others have issued their first
 * operation too. A program, or a library in front of it, that relies on ncclAllReduce returning at
 * once must not pass here. LOOPBACK_CONNECT=0 turns it off.
 *
 * LOOPBACK_NVLS=1: the same at each all-reduce, all-gather and reduce-scatter whose buffers are
 * registered, as on machines with NVLink SHARP (nvls.cc, ncclNvlsLocalRegisterBuffer): who has them
 * registered comes to a meeting on the host, who has not does not.
 */
#ifndef LOOPBACK_NCCL_CONNECT_H
#define LOOPBACK_NCCL_CONNECT_H

#include "unit.h"

/* Transfers are connected per peer, for all peers of a group together: ranks tell each other how,
 * connect, and tell each other that it is done. No rank is through before its peers are, and these
 * are not before theirs. So a rank that connects with one of several ranks that wait for each
 * other, and for it, waits for ever. */
enum { CONNECT_PHASES = 3 };

/* Says that this rank is at its first collective, or in a phase, from 1 on, of its first transfer
 * with each peer of the unit. Does not wait. */
void connect_announce(const struct unit *unit, unsigned phase);

/* Waits until all ranks (the peers, for transfers) are so far. ncclRemoteError: one is gone.
 * ncclInternalError: aborted meanwhile, as NCCL's sockets return. */
ncclResult_t connect_await(const struct unit *unit, unsigned phase);

#endif
