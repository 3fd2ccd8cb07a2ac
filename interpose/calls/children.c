/* Children of communicators (children.h). Which ranks will be in one, only NCCL knows: all that are
 * mark themselves in a segment with a slot for each rank of the parent.
 */
#include "interpose/calls/children.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/nccl/bypass.h"
#include "interpose/calls/group.h"
#include "interpose/calls/handlers.h"
#include "interpose/nccl/libraries.h"
#include "interpose/nccl/real.h"

struct birth {
  ncclComm_t parent;
  ncclComm_t *handle; /* where NCCL writes the child */
  struct arrival arrival;
  uint64_t driver;
  struct birth *next; /* of those under way */
};

/* Children of communicators that do not block: NCCL writes the handle when the program polls the
 * parent. Guarded by `lock`; the number is read without it, by every poll. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct birth *under_way;
static _Atomic int nunder_way;

/* `part`: what keeps children of one parent apart that are made at once. */
static void arrive(struct arrival *arrival, struct communicator *parent, const char *how, int part,
                   int key) {
  struct {
    char name[SEGMENT_NAME_SIZE];
    char how[8];
    uint32_t child;
    int32_t part;
  } seed;
  memset(&seed, 0, sizeof(seed)); /* the padding too is hashed */
  seed.child = parent->children;
  seed.part = part;
  memcpy(seed.name, parent->name, sizeof(seed.name));
  strncpy(seed.how, how, sizeof(seed.how) - 1);
  communicator_arrive(arrival, &seed, sizeof(seed), (uint32_t)parent->nranks,
                      (uint32_t)parent->rank, 0, key, parent->device);
  arrival->library = library_of(parent->handle);
}

/* ---- births ---- */

static bool birth_add(struct births *births, const struct birth *birth) {
  if (births->count == births->room) {
    size_t room = 2 * births->room + 4;
    struct birth *all = realloc(births->all, room * sizeof(*all));
    if (all == NULL)
      return false;
    births->all = all;
    births->room = room;
  }
  births->all[births->count++] = *birth;
  return true;
}

bool births_expect(struct births *births, const struct call *split) {
  struct communicator *parent = communicator_known(split->handle);
  struct birth birth = {.parent = split->handle, .handle = split->receive};
  parent->children++;
  if (split->root < 0)
    return true;
  arrive(&birth.arrival, parent, "split", split->root, split->reduction);
  if (birth_add(births, &birth))
    return true;
  communicator_depart(&birth.arrival);
  return false;
}

/* NCCL will write the handle: it is waited for where the program asks. */
static bool put_off(const struct birth *birth) {
  struct birth *later = malloc(sizeof(*later));
  if (later == NULL)
    return false;
  *later = *birth;
  pthread_mutex_lock(&lock);
  later->next = under_way;
  under_way = later;
  pthread_mutex_unlock(&lock);
  atomic_fetch_add(&nunder_way, 1);
  return true;
}

static void end_birth(struct birth *birth, ncclResult_t result) {
  if (result == ncclSuccess && *birth->handle != NULL)
    communicator_add(&birth->arrival, *birth->handle, birth->driver);
  else if (result != ncclInProgress || !put_off(birth))
    communicator_depart(&birth->arrival);
}

void births_end(struct births *births, ncclResult_t result) {
  uint64_t driver = births->count > 0 ? communicator_new_driver() : 0;
  for (size_t i = 0; i < births->count; i++) {
    births->all[i].driver = driver;
    end_birth(&births->all[i], result);
  }
  free(births->all);
  *births = (struct births){0};
}

void children_look(ncclComm_t parent, ncclResult_t state) {
  if (atomic_load_explicit(&nunder_way, memory_order_relaxed) == 0 || state == ncclInProgress)
    return;
  struct birth *born = NULL;
  pthread_mutex_lock(&lock);
  for (struct birth **link = &under_way; *link != NULL;) {
    struct birth *birth = *link;
    if (birth->parent != parent) {
      link = &birth->next;
      continue;
    }
    *link = birth->next;
    birth->next = born;
    born = birth;
    atomic_fetch_sub(&nunder_way, 1);
  }
  pthread_mutex_unlock(&lock);
  while (born != NULL) {
    struct birth *birth = born;
    born = birth->next;
    end_birth(birth, state);
    free(birth);
  }
}

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

void splits_release(struct call *calls, size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (calls[i].kind == MEMBER_SPLIT && calls[i].owned)
      free((void *)calls[i].send);
}

static ncclResult_t hold(struct call split) {
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
static struct birth begin_unagreed(struct communicator *parent, const char *how, int part, int key,
                                   ncclComm_t *newcomm) {
  struct birth birth = {.parent = parent->handle, .handle = newcomm};
  parent->children++;
  arrive(&birth.arrival, parent, how, part, key);
  return birth;
}

static ncclResult_t end_unagreed(struct birth *birth, ncclResult_t result) {
  if (group_is_open() && (result == ncclSuccess || result == ncclInProgress)) {
    group_expect(&birth->arrival, birth->handle);
    return result;
  }
  birth->driver = communicator_new_driver();
  end_birth(birth, result);
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
  struct birth birth =
      begin_unagreed(parent, "split", split->root, split->reduction, split->receive);
  return end_unagreed(&birth, call_issue(split));
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
    ncclResult_t result = group_enter_real();
    return result != ncclSuccess ? result : call_issue(&split);
  }
  if (atomic_load(&parent->end->state) != RANK_PRESENT)
    return split_unagreed(&split, parent);
  *newcomm = NULL;
  return group_is_open() ? hold(split) : group_issue_alone(&split);
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
  struct birth birth = begin_unagreed(parent, "shrink", excludeRanksCount, 0, newcomm);
  return end_unagreed(&birth, real.CommShrink(comm, excludeRanksList, excludeRanksCount, newcomm,
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
  log_once(LOG_LEVEL_WARN, "join is off for communicators made by ncclCommGrow");
  return real.CommGrow(comm, nRanks, uniqueId, rank, newcomm, config);
}
