/* Communicators made and ended by the program. Those made from others are in children.c.
 *
 * Before a real creation the rank attaches (core/transport/attachment.h); afterwards the
 * communicator is listed. Before a real end the rank leaves its team: there it is parked until all
 * ranks have left.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/report/log.h"
#include "hooks/plugins.h"
#include "hooks/registrable.h"
#include "interpose/park/wait.h"
#include "interpose/nccl/bypass.h"
#include "interpose/calls/child_communicators.h"
#include "interpose/comm/communicator.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/machines.h"
#include "interpose/comm/registered.h"
#include "interpose/comm/report.h"
#include "interpose/data/membership.h"
#include "interpose/exits/exit_points.h"
#include "interpose/self/environment.h"
#include "interpose/calls/group.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/latecomers.h"
#include "interpose/exits/leaving.h"
#include "interpose/exits/process.h"
#include "interpose/nccl/libraries.h"
#include "interpose/nccl/real.h"

/* ---- creation ---- */

ncclResult_t join_GetUniqueId(ncclUniqueId *uniqueId) {
  ncclResult_t result = real.GetUniqueId(uniqueId);
  if (result == ncclSuccess && uniqueId != NULL)
    machines_mark(uniqueId);
  return result;
}

/* Wrong settings stop here, and plug-ins that cannot be loaded: a typo must not become a hang hours
 * later. */
static bool may_begin(int rank, int communicators) {
  const struct settings *settings = join_settings();
  if (settings == NULL) {
    last_error_is_ours(ncclInvalidUsage);
    return false;
  }
  bypass_expect(communicators);
  process_watch_fork();
  leaving_begins_anew();
  log_open(settings, rank);
  library_announce();
  exit_points_open();
  return plugins_load(settings->hooks);
}

/* After the real function: the communicator exists, is being made, or failed. */
static ncclResult_t lifecycle_made(struct arrival *arrival, ncclComm_t *handle,
                                   ncclResult_t result) {
  bool made = result == ncclSuccess || result == ncclInProgress;
  if (made && group_is_open()) {
    group_expect(arrival, handle);
    return result;
  }
  result = communicator_created(arrival, handle, result);
  if (result == ncclSuccess || result == ncclInProgress) {
    communicator_add(arrival, *handle, communicator_new_driver());
    process_watch_exit();
  } else {
    communicator_depart(arrival);
  }
  return result;
}

static void arrive_by_ids(struct arrival *arrival, const char *function, const ncclUniqueId *ids,
                          int nids, int nranks, int rank) {
  size_t size = (size_t)nids * sizeof(*ids) + sizeof(nranks);
  unsigned char *seed = malloc(size);
  *arrival = (struct arrival){0};
  if (seed == NULL)
    return;
  memcpy(seed, ids, (size_t)nids * sizeof(*ids));
  memcpy(seed + (size_t)nids * sizeof(*ids), &nranks, sizeof(nranks));
  communicator_arrive(arrival, seed, size, (uint32_t)nranks, (uint32_t)rank, (uint32_t)nranks, 0,
                      communicator_current_device());
  arrival->to_compare = true;
  arrival->has_job = machines_read(ids, &arrival->job);
  arrival->late = latecomers_watch(arrival, function);
  free(seed);
}

/* A rank does not attach for arguments that NCCL will refuse. */
static bool is_sane(const void *comm, int nranks, int rank) {
  return comm != NULL && nranks >= 1 && rank >= 0 && rank < nranks;
}

ncclResult_t join_CommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank) {
  if (!may_begin(rank, 1))
    return ncclInvalidUsage;
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess || !is_sane(comm, nranks, rank))
    return result != ncclSuccess ? result : real.CommInitRank(comm, nranks, commId, rank);
  struct arrival arrival;
  arrive_by_ids(&arrival, "ncclCommInitRank", &commId, 1, nranks, rank);
  return lifecycle_made(&arrival, comm, real.CommInitRank(comm, nranks, commId, rank));
}

ncclResult_t join_CommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank,
                                     ncclConfig_t *config) {
  if (!may_begin(rank, 1))
    return ncclInvalidUsage;
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess || !is_sane(comm, nranks, rank))
    return result != ncclSuccess ? result
                                 : real.CommInitRankConfig(comm, nranks, commId, rank, config);
  struct arrival arrival;
  arrive_by_ids(&arrival, "ncclCommInitRankConfig", &commId, 1, nranks, rank);
  return lifecycle_made(&arrival, comm,
                        real.CommInitRankConfig(comm, nranks, commId, rank, config));
}

ncclResult_t join_CommInitRankScalable(ncclComm_t *newcomm, int nranks, int myrank, int nId,
                                       ncclUniqueId *commIds, ncclConfig_t *config) {
  if (!may_begin(myrank, 1))
    return ncclInvalidUsage;
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess)
    return result;
  if (!is_sane(newcomm, nranks, myrank) || nId < 1 || commIds == NULL)
    return real.CommInitRankScalable(newcomm, nranks, myrank, nId, commIds, config);
  struct arrival arrival;
  arrive_by_ids(&arrival, "ncclCommInitRankScalable", commIds, nId, nranks, myrank);
  return lifecycle_made(&arrival, newcomm,
                        real.CommInitRankScalable(newcomm, nranks, myrank, nId, commIds, config));
}

/* All ranks are in this process: nobody else needs to know the name. */
ncclResult_t join_CommInitAll(ncclComm_t *comm, int ndev, const int *devlist) {
  if (!may_begin(0, ndev))
    return ncclInvalidUsage;
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess)
    return result;
  uint64_t seed[2];
  struct arrival *arrivals =
      comm != NULL && ndev > 1 ? calloc((size_t)ndev, sizeof(*arrivals)) : NULL;
  if (arrivals == NULL || getrandom(seed, sizeof(seed), 0) != sizeof(seed)) {
    free(arrivals);
    return real.CommInitAll(comm, ndev, devlist);
  }
  for (int rank = 0; rank < ndev; rank++)
    communicator_arrive(&arrivals[rank], seed, sizeof(seed), (uint32_t)ndev, (uint32_t)rank,
                        (uint32_t)ndev, 0, devlist == NULL ? rank : devlist[rank]);
  result = real.CommInitAll(comm, ndev, devlist);
  uint64_t driver = communicator_new_driver();
  for (int rank = 0; rank < ndev; rank++)
    if (result == ncclSuccess || result == ncclInProgress)
      communicator_add(&arrivals[rank], comm[rank], driver);
    else
      communicator_depart(&arrivals[rank]);
  if (result == ncclSuccess || result == ncclInProgress)
    process_watch_exit();
  free(arrivals);
  return result;
}

/* ---- the end ---- */

/* The rank leaves before the real group is opened for the call, where there is one: shadows cannot
 * be issued into it.
 *
 * After a failure nobody is left to finalize with. */
ncclResult_t join_CommFinalize(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  ncclResult_t notice = ncclSuccess;
  ncclResult_t result = comm != NULL ? leave_communicator(comm, &notice) : ncclSuccess;
  if (comm != NULL && leaving_has_given_up(comm))
    return ncclSuccess; /* what follows is its end */
  if (result == ncclSuccess)
    result = group_enter_real();
  if (result == ncclSuccess)
    result = real.CommFinalize(handle);
  return result == ncclSuccess ? notice : result;
}

/* Nor to destroy with: the communicator is aborted then, as NCCL asks for after an error, and the
 * caller told. Where all ranks stop (ncclInvalidUsage) nobody has failed, and nothing is under way:
 * the others may destroy theirs, and that of NCCL 2.32 waits for this one. */
ncclResult_t join_CommDestroy(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  ncclResult_t notice = ncclSuccess;
  ncclResult_t left = comm != NULL ? leave_communicator(comm, &notice) : ncclSuccess;
  bool given_up = comm != NULL && leaving_has_given_up(comm);
  if (comm != NULL)
    communicator_remove(comm, given_up ? RANK_FAILED : RANK_DONE);
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess)
    return result;
  if (given_up || (left != ncclSuccess && left != ncclInvalidUsage)) {
    real.CommAbort(handle);
    return given_up ? ncclSuccess : left;
  }
  result = real.CommDestroy(handle);
  if (comm != NULL && result == ncclSuccess)
    communicator_free_shadows(comm->device);
  if (result == ncclSuccess)
    result = left;
  return result == ncclSuccess ? notice : result;
}

ncclResult_t join_CommAbort(ncclComm_t handle) {
  struct communicator *comm = communicator_known(handle);
  ncclResult_t left = ncclSuccess;
  if (comm != NULL)
    communicator_remove(comm, leave_by_abort(comm, &left));
  ncclResult_t result = group_enter_real();
  if (result == ncclSuccess)
    result = real.CommAbort(handle);
  return left != ncclSuccess ? left : result;
}

/* What is in flight is given up: nobody can be shadowed for it. The communicator itself stays, for
 * Split, Shrink and Destroy. */
ncclResult_t join_CommRevoke(ncclComm_t handle, int revokeFlags) {
  struct communicator *comm = communicator_known(handle);
  if (comm != NULL)
    leave_failed(comm);
  ncclResult_t result = group_enter_real();
  return result != ncclSuccess ? result : real.CommRevoke(handle, revokeFlags);
}

/* ---- what cannot be shadowed ---- */

/* Such a call is local: ranks come to it at different places of the agreed sequence. So the
 * communicator stays in its team, and programs whose ranks stay even notice nothing. Only its
 * collectives are never shadowed: what a shadow without the same registration would do to its peers
 * is undefined. */
void join_unfit(ncclComm_t handle, const char *function) {
  struct communicator *comm = communicator_known(handle);
  if (comm != NULL && comm->unfit == NULL) {
    comm->unfit = function;
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "%s: the collectives of communicator %08x cannot be shadowed from here on; if its "
        "ranks join unevenly, the job stops with an error. Do without it, or give all ranks "
        "as many iterations",
        function, comm->tag);
  }
  if (group_is_open())
    group_open_real();
}

/* Local, too, and no part of the agreed sequence: how the buffers of a call look is told with its
 * claim. A handle of NULL: NCCL registers nothing (NCCL_LOCAL_REGISTER=0). */
void saw_CommRegister(ncclResult_t result, ncclComm_t handle, void *buff, size_t size,
                      void **registration) {
  struct communicator *comm = communicator_known(handle);
  int version = 0;
  if (result != ncclSuccess || comm == NULL || registration == NULL || *registration == NULL)
    return;
  (void)real.GetVersion(&version);
  if (version < REGISTRABLE_NCCL || !registered_add(comm, buff, size, *registration))
    join_unfit(handle, "ncclCommRegister");
}

void saw_CommDeregister(ncclResult_t result, ncclComm_t handle, void *registration) {
  struct communicator *comm = communicator_known(handle);
  if (result == ncclSuccess && comm != NULL && registration != NULL)
    registered_remove(comm, registration);
}

/* Whether it is time to look: programs ask while they wait, some of them all the time. */
static bool may_look(struct endpoint *end) {
  uint64_t now = now_ms(), asked = atomic_load(&end->asked_ms);
  return end->state == RANK_PRESENT && now >= asked + LOOK_FOR_DEAD_MS &&
         atomic_compare_exchange_strong(&end->asked_ms, &asked, now);
}

/* Tells the program of an error of its own that it has not heard of. */
static bool look_for_own_error(struct endpoint *end) {
  if (!membership_own_error(end))
    return false;
  atomic_store(&end->told_failed, ncclInvalidUsage);
  return true;
}

/* The program does not come to the call that would tell it: it waits for its device, and that for a
 * rank that has been told, and lives on without issuing its part. */
static void look_for_unheard(struct endpoint *end) {
  uint64_t now = now_ms(), passed = team_passed(end->team);
  bool unheard = membership_is_unheard(end);
  if (unheard && atomic_load(&end->unheard_ms) != 0 &&
      atomic_load(&end->unheard_passed) == passed) {
    if (now >= atomic_load(&end->unheard_ms) + MEMBERSHIP_REFUSED_MS)
      (void)look_for_own_error(end);
    return;
  }
  atomic_store(&end->unheard_passed, passed);
  atomic_store(&end->unheard_ms, unheard ? now : 0);
}

/* A rank has failed before it came to what this one waits for: the program is to be told. Where
 * NCCL has noticed it the rank may have issued as much: its device has not done it. */
static void look_for_lost(struct endpoint *end, bool noticed) {
  uint32_t rank;
  uint64_t issued;
  team_look_for_the_dead(end->team);
  uint64_t units = noticed ? UINT64_MAX : team_passed(end->team);
  if (!team_find_lost(end->team, units, &rank, &issued)) {
    look_for_unheard(end);
    return;
  }
  if (look_for_own_error(end))
    return;
  report_lost(end, rank, issued);
  last_error_is_final(ncclRemoteError);
  atomic_store(&end->told_failed, ncclRemoteError);
}

/* What the program has been told of a failure, or is to be now: as NCCL would, had it seen that
 * itself; or `noticed`, since it has. */
static ncclResult_t failure_of(ncclComm_t handle, bool noticed) {
  struct communicator *comm = communicator_known(handle);
  if (comm == NULL || comm->state != COMM_JOINED)
    return ncclSuccess;
  if (atomic_load(&comm->end->told_failed) == ncclSuccess && (noticed || may_look(comm->end))) {
    communicator_hold();
    comm = communicator_known(handle); /* another thread may have ended it */
    if (comm != NULL && comm->state == COMM_JOINED &&
        (!noticed || !look_for_own_error(comm->end))) {
      if (noticed)
        endpoint_await_death(comm->end, false);
      look_for_lost(comm->end, noticed);
    }
    communicator_release_endpoints();
  }
  return comm == NULL || comm->end == NULL ? ncclSuccess : atomic_load(&comm->end->told_failed);
}

/* Frees a thread that is parked on the communicator: what it waits for will not come. */
void saw_CommGetAsyncError(ncclResult_t result, ncclComm_t handle, ncclResult_t *asyncError) {
  if (result != ncclSuccess || asyncError == NULL)
    return;
  if (*asyncError != ncclInProgress && communicator_is_refused(handle)) {
    *asyncError = ncclInvalidUsage;
    return;
  }
  children_look(handle, *asyncError);
  if (*asyncError == ncclSuccess && (*asyncError = failure_of(handle, false)) != ncclSuccess)
    return;
  if (*asyncError == ncclRemoteError && failure_of(handle, true) == ncclInvalidUsage)
    *asyncError = ncclInvalidUsage;
  struct communicator *comm = communicator_known(handle);
  if (*asyncError == ncclSuccess || *asyncError == ncclInProgress)
    return;
  if (comm != NULL && comm->state == COMM_JOINED)
    atomic_store(&comm->end->broken, *asyncError);
}
