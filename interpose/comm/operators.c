/* A list of operators (operators.h). Programs have few, and make them for a call or for good. */
#include "interpose/comm/operators.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "hooks/contribution.h"

struct known_operator {
  ncclComm_t comm;
  ncclRedOp_t number;
  uint64_t scalar;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the list */
static struct known_operator *list;
static size_t count, room;

static struct known_operator *operators_find(ncclComm_t comm, ncclRedOp_t number) {
  for (size_t i = 0; i < count; i++)
    if (list[i].comm == comm && list[i].number == number)
      return &list[i];
  return NULL;
}

static void take_out(struct known_operator *known) {
  *known = list[--count];
}

static bool make_room(void) {
  if (count < room)
    return true;
  size_t more = room == 0 ? 8 : 2 * room;
  struct known_operator *grown = realloc(list, more * sizeof(*grown));
  if (grown == NULL)
    return false;
  list = grown;
  room = more;
  return true;
}

/* Without memory the operator is one that the host does not know. */
void operators_add(ncclComm_t comm, ncclRedOp_t number, const void *scalar, ncclDataType_t datatype,
                   ncclScalarResidence_t residence) {
  uint8_t size = contribution_one((uint8_t)datatype).size;
  pthread_mutex_lock(&lock);
  struct known_operator *known = operators_find(comm, number);
  if (known != NULL)
    take_out(known);
  if (residence == ncclScalarHostImmediate && size != 0 && make_room()) {
    known = &list[count++];
    *known = (struct known_operator){.comm = comm, .number = number};
    memcpy(&known->scalar, scalar, size); /* little-endian, as all hosts of CUDA */
  }
  pthread_mutex_unlock(&lock);
}

void operators_remove(ncclComm_t comm, ncclRedOp_t number) {
  pthread_mutex_lock(&lock);
  struct known_operator *known = operators_find(comm, number);
  if (known != NULL)
    take_out(known);
  pthread_mutex_unlock(&lock);
}

void operators_forget(ncclComm_t comm) {
  pthread_mutex_lock(&lock);
  for (size_t i = count; i > 0; i--)
    if (list[i - 1].comm == comm)
      take_out(&list[i - 1]);
  pthread_mutex_unlock(&lock);
}

bool operators_scalar(ncclComm_t comm, ncclRedOp_t number, uint64_t *bits) {
  pthread_mutex_lock(&lock);
  const struct known_operator *known = operators_find(comm, number);
  if (known != NULL)
    *bits = known->scalar;
  pthread_mutex_unlock(&lock);
  return known != NULL;
}
