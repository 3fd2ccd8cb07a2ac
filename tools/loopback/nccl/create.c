/* Jobs that create communicators. */
#include "create.h"

#include "device.h"
#include "group.h"
#include "hash.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

/* A communicator being created, of this rank. */
struct creation {
  struct job job;        /* first */
  struct ncclComm *comm; /* the new one; NULL: this rank only takes part in the split */
  uint64_t hash;
  int nranks, rank;
  /* of a split or shrink */
  struct ncclComm *parent;
  ncclComm_t *child;
  int color, key;
  uint64_t number; /* among the parent's children */
};

static void creation_drop(struct job *job) {
  free(job);
}

static struct creation *creation_create(struct ncclComm *mode) {
  struct creation *creation = calloc(1, sizeof *creation);
  if (creation == NULL) {
    report_error("no memory");
    return NULL;
  }
  creation->job.comm = mode;
  creation->job.drop = creation_drop;
  return creation;
}

static ncclResult_t join_in_context(struct ncclComm *comm, uint64_t hash, int nranks, int rank) {
  CUcontext previous;
  ncclResult_t result = device_enter(comm->context, &previous);
  if (result != ncclSuccess)
    return result;
  communicator_enter(comm);
  result = communicator_join(comm, hash, nranks, rank);
  if (result == ncclSuccess)
    profiler_communicator(comm);
  communicator_exit(comm);
  device_leave(previous);
  return result;
}

static ncclResult_t run_from_ids(struct job *job) {
  struct creation *creation = (struct creation *)job;
  return join_in_context(creation->comm, creation->hash, creation->nranks, creation->rank);
}

ncclResult_t create_from_ids(ncclComm_t *comm, int nranks, const ncclUniqueId *ids, int nids,
                             int rank, const ncclConfig_t *config, const char *call) {
  if (nids <= 0 || nids > nranks) {
    report_error("improper usage of ncclCommInitRank: nId = %d, nranks=%d", nids, nranks);
    return ncclInvalidArgument;
  }
  if (comm == NULL) {
    report_error("%s : newcomm argument is NULL", call);
    return ncclInvalidArgument;
  }
  *comm = NULL;
  if (nranks < 1 || rank < 0 || rank >= nranks) {
    report_error("Invalid rank requested : %d/%d", rank, nranks);
    return ncclInvalidArgument;
  }
  ncclConfig_t parsed;
  ncclResult_t result = config_parse(config, &parsed);
  if (result != ncclSuccess)
    return result;
  struct ncclComm *created = communicator_allocate();
  struct creation *creation = creation_create(created);
  if (created == NULL || creation == NULL) {
    free(creation);
    return ncclSystemError;
  }
  created->config = parsed;
  result = device_current(&created->device, &created->context);
  if (result != ncclSuccess) {
    communicator_leave(created, true);
    free(creation);
    return result;
  }
  creation->job.run = run_from_ids;
  creation->comm = created;
  creation->hash = unique_id_hash(ids, nids);
  creation->nranks = nranks;
  creation->rank = rank;
  *comm = created;
  if (!group_is_open())
    return group_run_alone(&creation->job);
  result = group_add_job(&creation->job);
  if (result != ncclSuccess) {
    communicator_leave(created, true);
    *comm = NULL;
  }
  return result;
}

/* Where this rank will be in its child: by key, then by rank in the parent. */
static void place_in_child(struct creation *creation, const struct segment_agenda *all) {
  creation->nranks = creation->rank = 0;
  for (int rank = 0; rank < creation->parent->nranks; rank++) {
    if (all[rank].color != creation->color)
      continue;
    creation->nranks++;
    if (all[rank].key < creation->key ||
        (rank < creation->parent->rank && all[rank].key == creation->key))
      creation->rank++;
  }
}

static uint64_t child_hash(const struct creation *creation, uint64_t distinction) {
  uint64_t hash = hash_add_number(HASH_START, creation->parent->hash);
  hash = hash_add_number(hash, creation->number);
  return hash_finish(hash_add_number(hash, distinction));
}

static ncclResult_t run_split(struct job *job) {
  struct creation *creation = (struct creation *)job;
  struct ncclComm *parent = creation->parent;
  struct segment_agenda *all = calloc((size_t)parent->nranks, sizeof *all);
  if (all == NULL)
    return ncclSystemError;
  struct segment_agenda own = {.kind = AGENDA_SPLIT,
                               .color = creation->color,
                               .key = creation->key,
                               .number = creation->number};
  communicator_enter(parent);
  ncclResult_t result = agreement_reach(parent, own, all);
  communicator_exit(parent);
  if (result == ncclSuccess && creation->comm != NULL) {
    place_in_child(creation, all);
    result =
        join_in_context(creation->comm, child_hash(creation, (uint64_t)(int64_t)creation->color),
                        creation->nranks, creation->rank);
  }
  free(all);
  *creation->child = creation->comm;
  return result;
}

static ncclResult_t run_shrink(struct job *job) {
  struct creation *creation = (struct creation *)job;
  ncclResult_t result =
      join_in_context(creation->comm, creation->hash, creation->nranks, creation->rank);
  *creation->child = creation->comm;
  return result;
}

/* The child's communicator, on the parent's device. */
static ncclResult_t child_allocate(struct creation *creation, const ncclConfig_t *config) {
  ncclConfig_t parsed = creation->parent->config;
  ncclResult_t result = config != NULL ? config_parse(config, &parsed) : ncclSuccess;
  if (result != ncclSuccess)
    return result;
  creation->comm = communicator_allocate();
  if (creation->comm == NULL)
    return ncclSystemError;
  creation->comm->config = parsed;
  creation->comm->device = creation->parent->device;
  creation->comm->context = creation->parent->context;
  return ncclSuccess;
}

static ncclResult_t begin_child(struct ncclComm *parent, ncclComm_t *child,
                                struct creation **creation) {
  ncclResult_t result = communicator_ensure_ready(parent);
  if (result != ncclSuccess)
    return result;
  *child = NULL;
  *creation = creation_create(parent);
  if (*creation == NULL)
    return ncclSystemError;
  (*creation)->parent = parent;
  (*creation)->child = child;
  (*creation)->number = ++parent->children;
  return ncclSuccess;
}

/* The last step of a split or shrink; result is that of the steps before. */
static ncclResult_t add_child(struct creation *creation, ncclResult_t result) {
  struct ncclComm *comm = creation->comm;
  if (result != ncclSuccess) {
    free(creation);
    return result;
  }
  result = group_add_job(&creation->job);
  if (result != ncclSuccess && comm != NULL)
    communicator_leave(comm, true);
  return result;
}

static ncclResult_t check_child(const struct ncclComm *parent, const ncclComm_t *child,
                                const char *call) {
  ncclResult_t result = communicator_check(parent, call);
  if (result == ncclSuccess && child == NULL) {
    report_error("%s : newcomm argument is NULL", call);
    result = ncclInvalidArgument;
  }
  return result;
}

ncclResult_t create_by_split(struct ncclComm *parent, int color, int key, ncclComm_t *child,
                             const ncclConfig_t *config) {
  struct creation *creation;
  ncclResult_t result = check_child(parent, child, "ncclCommSplit");
  if (result == ncclSuccess)
    result = begin_child(parent, child, &creation);
  if (result != ncclSuccess)
    return result;
  creation->job.run = run_split;
  creation->color = color;
  creation->key = key;
  if (color != NCCL_SPLIT_NOCOLOR)
    result = child_allocate(creation, config);
  return add_child(creation, result);
}

static int compare_ranks(const void *a, const void *b) {
  int left = *(const int *)a, right = *(const int *)b;
  return (left > right) - (left < right);
}

static ncclResult_t check_excluded(const struct ncclComm *parent, int *excluded, int nexcluded) {
  if (excluded == NULL || nexcluded <= 0) {
    report_error("ncclCommShrink : excludeRanksList is empty");
    return ncclInvalidArgument;
  }
  qsort(excluded, (size_t)nexcluded, sizeof *excluded, compare_ranks);
  for (int i = 0; i < nexcluded; i++) {
    if (excluded[i] == parent->rank || excluded[i] < 0 || excluded[i] >= parent->nranks ||
        (i > 0 && excluded[i] == excluded[i - 1])) {
      report_error(
          "ncclCommShrink : excluded rank %d is this rank, twice in the list, or none of 0..%d",
          excluded[i], parent->nranks - 1);
      return ncclInvalidArgument;
    }
  }
  return ncclSuccess;
}

ncclResult_t create_by_shrink(struct ncclComm *parent, int *excluded, int nexcluded,
                              ncclComm_t *child, const ncclConfig_t *config) {
  struct creation *creation;
  ncclResult_t result = check_child(parent, child, "ncclCommShrink");
  if (result == ncclSuccess)
    result = check_excluded(parent, excluded, nexcluded);
  if (result == ncclSuccess)
    result = begin_child(parent, child, &creation);
  if (result != ncclSuccess)
    return result;
  creation->job.run = run_shrink;
  creation->nranks = parent->nranks - nexcluded;
  creation->rank = parent->rank;
  for (int i = 0; i < nexcluded; i++)
    creation->rank -= excluded[i] < parent->rank;
  creation->hash = child_hash(
      creation, hash_finish(hash_add(HASH_START, excluded, (size_t)nexcluded * sizeof *excluded)));
  result = child_allocate(creation, config);
  return add_child(creation, result);
}
