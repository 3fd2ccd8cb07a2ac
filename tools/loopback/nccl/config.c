/* Reading a communicator's configuration. Only `blocking` changes what the loopback does; the
 * others are checked. */
#include "create.h"

#include "report.h"

#include <stdlib.h>
#include <string.h>

#define CONFIG_MAGIC 0xcafebeef
#define CHANNELS_MAX 64

struct range {
  const char *name;
  const int *value;
  int least, most;
};

static ncclResult_t check_ranges(const struct range *ranges, size_t count) {
  for (size_t i = 0; i < count; i++) {
    int value = *ranges[i].value;
    if (value == NCCL_CONFIG_UNDEF_INT || (ranges[i].least <= value && value <= ranges[i].most))
      continue;
    report_error("Invalid config %s attribute value %d", ranges[i].name, value);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

static void set_default(int *value, int standard) {
  if (*value == NCCL_CONFIG_UNDEF_INT)
    *value = standard;
}

ncclResult_t config_parse(const ncclConfig_t *given, ncclConfig_t *config) {
  ncclConfig_t parsed = NCCL_CONFIG_INITIALIZER;
  if (given != NULL) {
    size_t size = given->size < sizeof parsed ? given->size : sizeof parsed;
    parsed.magic = 0;
    memcpy(&parsed, given, size);
    if (parsed.magic != CONFIG_MAGIC) {
      report_error("ncclConfig_t argument not initialized via NCCL_CONFIG_INITIALIZER");
      return ncclInvalidArgument;
    }
    if (parsed.version < NCCL_VERSION(2, 14, 0))
      parsed.blocking = NCCL_CONFIG_UNDEF_INT;
  }
  const struct range ranges[] = {
      {"blocking", &parsed.blocking, 0, 1},
      {"cgaClusterSize", &parsed.cgaClusterSize, 0, INT_MAX},
      {"minCTAs", &parsed.minCTAs, 1, INT_MAX},
      {"maxCTAs", &parsed.maxCTAs, 1, INT_MAX},
      {"splitShare", &parsed.splitShare, 0, 1},
      {"collnetEnable", &parsed.collnetEnable, 0, 1},
      {"policy", &parsed.CTAPolicy, NCCL_CTA_POLICY_DEFAULT, NCCL_CTA_POLICY_ZERO},
      {"shrinkShare", &parsed.shrinkShare, 0, 1},
      {"nvlsCTAs", &parsed.nvlsCTAs, 1, INT_MAX},
      {"nChannelsPerNetPeer", &parsed.nChannelsPerNetPeer, 1, CHANNELS_MAX},
      {"nvlinkCentricSched", &parsed.nvlinkCentricSched, 0, 1},
  };
  ncclResult_t result = check_ranges(ranges, sizeof ranges / sizeof ranges[0]);
  if (result != ncclSuccess)
    return result;
  if (parsed.minCTAs > parsed.maxCTAs) {
    report_error("Invalid config min/max channels attribute value %d/%d", parsed.minCTAs,
                 parsed.maxCTAs);
    return ncclInvalidArgument;
  }
  set_default(&parsed.blocking, 1);
  set_default(&parsed.splitShare, 0);
  set_default(&parsed.shrinkShare, 0);
  const char *blocking = getenv("NCCL_COMM_BLOCKING");
  if (blocking != NULL && (strcmp(blocking, "0") == 0 || strcmp(blocking, "1") == 0))
    parsed.blocking = *blocking - '0';
  *config = parsed;
  return ncclSuccess;
}
