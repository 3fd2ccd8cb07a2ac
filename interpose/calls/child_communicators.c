/* Children of communicators on their way (child_communicators.h). */
#include "interpose/calls/child_communicators.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/libraries.h"

/* Children of communicators that do not block: NCCL writes the handle when the program polls the
 * parent. Guarded by `lock`; the number is read without it, by every poll. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct child *under_way;
static _Atomic int nunder_way;

void child_arrive(struct arrival *arrival, struct communicator *parent, const char *how, int part,
                  int key) {
  struct {
    char name[ATTACHMENT_NAME_SIZE];
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
  arrival->has_job = parent->has_job;
  arrival->job = parent->job;
}

static bool child_add(struct children *children, const struct child *child) {
  if (children->count == children->room) {
    size_t room = 2 * children->room + 4;
    struct child *all = realloc(children->all, room * sizeof(*all));
    if (all == NULL)
      return false;
    children->all = all;
    children->room = room;
  }
  children->all[children->count++] = *child;
  return true;
}

bool children_expect(struct children *children, const struct call *split) {
  struct communicator *parent = communicator_known(split->handle);
  struct child child = {.parent = split->handle, .handle = split->receive};
  parent->children++;
  if (split->root < 0)
    return true;
  child_arrive(&child.arrival, parent, "split", split->root, split->reduction);
  if (child_add(children, &child))
    return true;
  communicator_depart(&child.arrival);
  return false;
}

/* NCCL will write the handle: it is waited for where the program asks. */
static bool put_off(const struct child *child) {
  struct child *later = malloc(sizeof(*later));
  if (later == NULL)
    return false;
  *later = *child;
  pthread_mutex_lock(&lock);
  later->next = under_way;
  under_way = later;
  pthread_mutex_unlock(&lock);
  atomic_fetch_add(&nunder_way, 1);
  return true;
}

void child_end(struct child *child, ncclResult_t result) {
  if (result == ncclSuccess && *child->handle != NULL)
    communicator_meet(&child->arrival, *child->handle);
  if (result == ncclSuccess && *child->handle != NULL)
    communicator_add(&child->arrival, *child->handle, child->driver);
  else if (result != ncclInProgress || !put_off(child))
    communicator_depart(&child->arrival);
}

void children_end(struct children *children, ncclResult_t result) {
  uint64_t driver = children->count > 0 ? communicator_new_driver() : 0;
  for (size_t i = 0; i < children->count; i++) {
    children->all[i].driver = driver;
    child_end(&children->all[i], result);
  }
  free(children->all);
  *children = (struct children){0};
}

void children_look(ncclComm_t parent, ncclResult_t state) {
  if (atomic_load_explicit(&nunder_way, memory_order_relaxed) == 0 || state == ncclInProgress)
    return;
  struct child *born = NULL;
  pthread_mutex_lock(&lock);
  for (struct child **link = &under_way; *link != NULL;) {
    struct child *child = *link;
    if (child->parent != parent) {
      link = &child->next;
      continue;
    }
    *link = child->next;
    child->next = born;
    born = child;
    atomic_fetch_sub(&nunder_way, 1);
  }
  pthread_mutex_unlock(&lock);
  while (born != NULL) {
    struct child *child = born;
    born = child->next;
    child_end(child, state);
    free(child);
  }
}

void splits_release(struct call *calls, size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (calls[i].kind == MEMBER_SPLIT && calls[i].owned)
      free((void *)calls[i].send);
}
