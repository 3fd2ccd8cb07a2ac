/* Creating communicators: from ids, and from another communicator. Each call adds a job to the
 * thread's group, or, for create_from_ids outside of any group, runs it at once, as NCCL does. */
#ifndef LOOPBACK_NCCL_CREATE_H
#define LOOPBACK_NCCL_CREATE_H

#include <stdint.h>
#include <nccl.h>
#include "communicator.h"

/* One rank of a new communicator on the calling thread's device. *comm is set at once; it is NULL
 * on an error that is known at once. call names the API function in messages. */
ncclResult_t create_from_ids(ncclComm_t *comm, int nranks, const ncclUniqueId *ids, int nids,
                             int rank, const ncclConfig_t *config, const char *call);

/* *child is set when the job has run: NULL for NCCL_SPLIT_NOCOLOR. */
ncclResult_t create_by_split(struct ncclComm *parent, int color, int key, ncclComm_t *child,
                             const ncclConfig_t *config);

/* For the ranks that stay. excluded is sorted in place, as NCCL does. */
ncclResult_t create_by_shrink(struct ncclComm *parent, int *excluded, int nexcluded,
                              ncclComm_t *child, const ncclConfig_t *config);

/* ---- agreement.c: what all ranks of a communicator do together on the host, outside their streams
 * (split, window registration). Each rank brings an agenda, waits for the others, and reads theirs.
 * As with units, a difference in what they are about ends the run. ---- */

enum agenda_kind { AGENDA_SPLIT = 1, AGENDA_WINDOW = 2 };

/* Waits until every rank has brought an agenda of the same kind and number, and copies them to
 * all[nranks]. color and key may differ. ncclInternalError: aborted. ncclRemoteError: a rank is
 * gone. */
ncclResult_t agreement_reach(struct ncclComm *comm, struct segment_agenda own,
                             struct segment_agenda *all);

/* ---- profiler.c ---- */

/* The communicator has met its peers: tells the profiler plug-in that NCCL_PROFILER_PLUGIN names,
 * as NCCL does (plugin/profiler.cc, ncclProfilerPluginInit), by `init` of its ncclProfiler_v5 or
 * ncclProfiler_v4, on the calling thread, which makes the communicator. There are no events: a
 * plug-in that asks for any gets none. */
void profiler_communicator(const struct ncclComm *comm);

/* ---- unique_id.c ---- */

/* An id, laid out as NCCL's (bootstrap.h): a random 64-bit magic, the creator's socket address (a
 * union of 28 bytes), padding, and zeros from byte 40 on. With NCCL_COMM_ID=address:port set,
 * NCCL's fixed magic and that address. Nobody listens at the address: ranks find each other by the
 * hash of all 128 bytes, so whoever writes into the spare ones must do so before the id travels. */
ncclResult_t unique_id_create(ncclUniqueId *id);

/* Over all bytes of count ids, in order. */
uint64_t unique_id_hash(const ncclUniqueId *ids, int count);

/* ---- config.c ---- */

/* Fills config with the given one, of any version (NULL: all defaults), as NCCL does (init.cc,
 * parseCommConfig): its fields up to its size, defaults for the undefined ones, then
 * NCCL_COMM_BLOCKING. ncclInvalidArgument: not initialized, or a value out of range. */
ncclResult_t config_parse(const ncclConfig_t *given, ncclConfig_t *config);

#endif
