/* ncclConfig_t: reading what the caller gave, of any version, as NCCL does (init.cc,
 * parseCommConfig). */
#ifndef LOOPBACK_NCCL_CONFIG_H
#define LOOPBACK_NCCL_CONFIG_H

#include <nccl.h>

/* Fills config with the given one (NULL: all defaults): its fields up to its size, defaults for the
 * undefined ones, then NCCL_COMM_BLOCKING. ncclInvalidArgument: not initialized, or a value out of
 * range. */
ncclResult_t config_parse(const ncclConfig_t *given, ncclConfig_t *config);

#endif
