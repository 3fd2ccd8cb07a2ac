/* Agreements on the host: what all ranks of a communicator do together outside their streams
 * (split, window registration). Each rank brings an agenda, waits for the others, and reads theirs.
 * As with units, a difference in what they are about ends the run. */
#ifndef LOOPBACK_NCCL_AGREEMENT_H
#define LOOPBACK_NCCL_AGREEMENT_H

#include "communicator.h"

enum agenda_kind { AGENDA_SPLIT = 1, AGENDA_WINDOW = 2 };

/* Waits until every rank has brought an agenda of the same kind and number, and copies them to
 * all[nranks]. color and key may differ. ncclInternalError: aborted. ncclRemoteError: a rank is
 * gone. */
ncclResult_t agreement_reach(struct ncclComm *comm, struct segment_agenda own,
                             struct segment_agenda *all);

#endif
