/* The API: device communicators. The loopback has no device code, so what would make one is
 * ncclInvalidUsage; teams are plain arithmetic on ranks and are answered. Declared here and not
 * through nccl_device.h, which is C++. */
#include "report.h"
#include "communicator.h"

/* nccl_device/core.h: three ints, returned by value. */
typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;

static ncclResult_t no_device_api(const char *call) {
  report_error("%s : the loopback NCCL has no device API", call);
  return ncclInvalidUsage;
}

#define REFUSED(name, ...)                                                                         \
  API_EXPORT ncclResult_t pnccl##name(__VA_ARGS__);                                                \
  ncclResult_t pnccl##name(__VA_ARGS__) {                                                          \
    return no_device_api("nccl" #name);                                                            \
  }                                                                                                \
  API_ALIAS(name)

#pragma GCC diagnostic ignored "-Wunused-parameter"
REFUSED(DevCommCreate, ncclComm_t comm, const void *requirements, void *devComm);
REFUSED(DevCommDestroy, ncclComm_t comm, const void *devComm);
REFUSED(GinBarrierCreateRequirement, ncclTeam_t team, int nBarriers, void *handle,
        void *requirements);
REFUSED(LsaBarrierCreateRequirement, ncclTeam_t team, int nBarriers, void *handle,
        void *requirements);
REFUSED(LLA2ACreateRequirement, int nBlocks, int nSlots, void *handle, void *requirements);

API_EXPORT int pncclLLA2ACalcSlots(int maxElts, int maxEltSize);
int pncclLLA2ACalcSlots(int maxElts, int maxEltSize) {
  (void)no_device_api("ncclLLA2ACalcSlots");
  return 0;
}
API_ALIAS(LLA2ACalcSlots);

API_EXPORT ncclTeam_t pncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm) {
  return (ncclTeam_t){comm->nranks, comm->rank, 1};
}
API_ALIAS(TeamWorld);

/* One node: everyone can load from and store to everyone. */
API_EXPORT ncclTeam_t pncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm) {
  return ncclTeamWorld(comm);
}
API_ALIAS(TeamLsa);

API_EXPORT ncclTeam_t pncclTeamRail(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm) {
  return (ncclTeam_t){1, 0, ncclTeamLsa(comm).nRanks};
}
API_ALIAS(TeamRail);

API_EXPORT int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank) {
  return ncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
API_ALIAS(TeamRankToWorld);

API_EXPORT int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank) {
  return ncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}
API_ALIAS(TeamRankToLsa);
