/* ncclUniqueId: laid out as NCCL's (bootstrap.h): a random 64-bit magic, the creator's socket
 * address (a union of 28 bytes), padding, and zeros from byte 40 on. Nobody listens at that
 * address: ranks find each other by the hash of all 128 bytes, so whoever writes into the spare
 * ones must do so before the id travels. */
#ifndef LOOPBACK_NCCL_UNIQUE_ID_H
#define LOOPBACK_NCCL_UNIQUE_ID_H

#include <nccl.h>
#include <stdint.h>

/* With NCCL_COMM_ID=address:port set, NCCL's fixed magic and that address. */
ncclResult_t unique_id_create(ncclUniqueId *id);

/* Over all bytes of count ids, in order. */
uint64_t unique_id_hash(const ncclUniqueId *ids, int count);

#endif
