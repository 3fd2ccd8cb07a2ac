/* Children of communicators on their way (births.h). */
#include "interpose/calls/births.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "interpose/nccl/libraries.h"

/* Children of communicators that do not block: NCCL writes the handle when the program polls the
 * parent. Guarded by `lock`; the number is read without it, by every poll. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct birth *under_way;
static _Atomic int nunder_way;

/* `part`: what keeps children of one parent apart that are made at once. */
void birth_arrive(struct arrival *arrival, struct communicator *parent, const char *how, int part,
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
  birth_arrive(&birth.arrival, parent, "split", split->root, split->reduction);
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

void birth_end(struct birth *birth, ncclResult_t result) {
  if (result == ncclSuccess && *birth->handle != NULL)
    communicator_add(&birth->arrival, *birth->handle, birth->driver);
  else if (result != ncclInProgress || !put_off(birth))
    communicator_depart(&birth->arrival);
}

void births_end(struct births *births, ncclResult_t result) {
  uint64_t driver = births->count > 0 ? communicator_new_driver() : 0;
  for (size_t i = 0; i < births->count; i++) {
    births->all[i].driver = driver;
    birth_end(&births->all[i], result);
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
    birth_end(birth, state);
    free(birth);
  }
}

void splits_release(struct call *calls, size_t ncalls) {
  for (size_t i = 0; i < ncalls; i++)
    if (calls[i].kind == MEMBER_SPLIT && calls[i].owned)
      free((void *)calls[i].send);
}
