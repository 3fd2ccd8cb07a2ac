/* Communicators made from another one: ncclCommSplit, ncclCommShrink, ncclCommGrow
 * (child_communicators.h). */

#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/nccl/bypass.h"
#include "interpose/calls/child_communicators.h"
#include "interpose/calls/group.h"
#include "interpose/calls/handlers.h"
#include "interpose/calls/issue.h"
#include "interpose/nccl/real.h"
#include "interpose/places/places.h"

/* ---- splits ---- */

/* A group's split is issued at its end, when the caller's configuration may be gone. What is no
 * configuration is left for NCCL to refuse. */
#define CONFIG_BYTES_MAX 4096
static const ncclConfig_t *keep_config(const ncclConfig_t *config, bool *kept) {
  size_t size = config == NULL ? 0 : config->size;
  *kept = size >= sizeof(size) && size <= CONFIG_BYTES_MAX;
  if (!*kept)
    return config;
  void *copy = malloc(size);
  if (copy != NULL)
    memcpy(copy, config, size);
  return copy;
}

static ncclResult_t children_hold(struct call split) {
  bool kept;
  split.send = keep_config(split.send, &kept);
  split.owned = kept;
  if ((kept && split.send == NULL) || (group_is_full() && !group_grow())) {
    splits_release(&split, 1);
    return ncclSystemError;
  }
  group_calls.long_way = true;
  *group_hold() = split;
  return ncclSuccess;
}

/* ---- what is not agreed on ---- */

/* The real call is about to be made, and what it returns is to be handed to end_unagreed. */
static struct child begin_unagreed(struct communicator *parent, const char *how, int part, int key,
                                   ncclComm_t *newcomm) {
  struct child child = {.parent = parent->handle, .handle = newcomm};
  parent->children++;
  child_arrive(&child.arrival, parent, how, part, key);
  return child;
}

static ncclResult_t end_unagreed(struct child *child, ncclResult_t result) {
  if (group_is_open() && (result == ncclSuccess || result == ncclInProgress)) {
    group_expect(&child->arrival, child->handle);
    return result;
  }
  child->driver = communicator_new_driver();
  child_end(child, result);
  return result;
}

/* Where the team has failed nobody answers, nor must anybody be waited for: the ranks that are left
 * may go on with a communicator of their own. */
static ncclResult_t split_unagreed(const struct call *split, struct communicator *parent) {
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess)
    return result;
  if (split->root < 0) {
    parent->children++;
    return call_issue(split);
  }
  struct child child =
      begin_unagreed(parent, "split", split->root, split->reduction, split->receive);
  return end_unagreed(&child, call_issue(split));
}

ncclResult_t join_CommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                            ncclConfig_t *config) {
  bypass_expect(1);
  struct call split = {.kind = MEMBER_SPLIT,
                       .handle = comm,
                       .receive = newcomm,
                       .send = config,
                       .root = color,
                       .reduction = key};
  struct communicator *parent = newcomm == NULL ? NULL : communicator_find(comm);
  if (parent == NULL) {
    if (communicator_is_refused(comm))
      return ncclInvalidUsage;
    ncclResult_t result = group_enter_real();
    return result != ncclSuccess ? result : call_issue(&split);
  }
  if (atomic_load(&parent->end->state) != RANK_PRESENT)
    return split_unagreed(&split, parent);
  *newcomm = NULL;
  return group_is_open() ? children_hold(split) : issue_group(&split, 1, places_here());
}

/* Called by the ranks that stay, perhaps because another has failed: those that are left out do not
 * come, and nobody can tell from here whether they ever would. */
ncclResult_t join_CommShrink(ncclComm_t comm, int *excludeRanksList, int excludeRanksCount,
                             ncclComm_t *newcomm, ncclConfig_t *config, int shrinkFlags) {
  bypass_expect(1);
  ncclResult_t result = group_enter_real();
  struct communicator *parent = result == ncclSuccess ? communicator_find(comm) : NULL;
  if (result != ncclSuccess)
    return result;
  if (parent == NULL || newcomm == NULL)
    return real.CommShrink(comm, excludeRanksList, excludeRanksCount, newcomm, config, shrinkFlags);
  struct child child = begin_unagreed(parent, "shrink", excludeRanksCount, 0, newcomm);
  return end_unagreed(&child, real.CommShrink(comm, excludeRanksList, excludeRanksCount, newcomm,
                                              config, shrinkFlags));
}

/* New ranks know nothing of the old ones' team, nor do they have a name in common: the new
 * communicator is passed through. */
ncclResult_t join_CommGrow(ncclComm_t comm, int nRanks, const ncclUniqueId *uniqueId, int rank,
                           ncclComm_t *newcomm, ncclConfig_t *config) {
  bypass_expect(1);
  ncclResult_t result = group_enter_real();
  if (result != ncclSuccess)
    return result;
  log_once(LOG_LEVEL_WARN,
           "join is off for communicators made by ncclCommGrow: their ranks wait for each other as "
           "without nccl-join");
  return real.CommGrow(comm, nRanks, uniqueId, rank, newcomm, config);
}
