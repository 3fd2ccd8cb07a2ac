/* The list of registrations of a communicator. */
#include "registration.h"

#include "datatype.h"
#include "device.h"
#include "report.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all lists: any thread registers */

struct registration {
  char *begin;
  size_t size;
  int references;
  struct registration *next;
};

ncclResult_t registration_add(struct ncclComm *comm, void *buffer, size_t size, void **handle) {
  if (handle == NULL || buffer == NULL || size == 0 || device_memory(buffer, size) == NULL) {
    report_error("ncclCommRegister : buffer %p, %zu bytes, is not device memory", buffer, size);
    return ncclInvalidArgument;
  }
  const char *local = getenv("NCCL_LOCAL_REGISTER");
  if (local != NULL && strcmp(local, "0") == 0) {
    *handle = NULL;
    return ncclSuccess;
  }
  char *begin = buffer;
  pthread_mutex_lock(&lock);
  for (struct registration *known = comm->registrations; known != NULL; known = known->next) {
    if (known->begin <= begin && begin + size <= known->begin + known->size) {
      known->references++;
      *handle = known;
      pthread_mutex_unlock(&lock);
      return ncclSuccess;
    }
  }
  struct registration *registration = malloc(sizeof *registration);
  if (registration != NULL) {
    *registration = (struct registration){begin, size, 1, comm->registrations};
    comm->registrations = registration;
    *handle = registration;
  }
  pthread_mutex_unlock(&lock);
  return registration != NULL ? ncclSuccess : ncclSystemError;
}

ncclResult_t registration_remove(struct ncclComm *comm, const void *handle) {
  pthread_mutex_lock(&lock);
  struct registration **place = &comm->registrations;
  while (*place != NULL && *place != handle)
    place = &(*place)->next;
  struct registration *found = *place;
  bool last = found != NULL && --found->references == 0;
  if (last)
    *place = found->next;
  pthread_mutex_unlock(&lock);
  if (last)
    free(found);
  if (found == NULL)
    report_error("Deregister: Could not find handle");
  return found != NULL ? ncclSuccess : ncclInvalidUsage;
}

/* Whole pages, as in NCCL (register.cc, ncclRegister). */
static bool holds(const struct registration *registration, const void *buffer, size_t size) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)buffer;
  uintptr_t begin = (uintptr_t)registration->begin / page * page;
  uintptr_t end = ((uintptr_t)registration->begin + registration->size + page - 1) / page * page;
  return at >= begin && at < end && size <= end - at;
}

/* What is mapped in several pieces is not shared, as memory that cannot be (2.28: p2p.cc,
 * ncclIpcLocalRegisterBuffer). */
static bool is_in_pieces(const void *buffer, size_t size) {
  CUdeviceptr begin, at = (CUdeviceptr)(uintptr_t)buffer;
  size_t mapped;
  return cuMemGetAddressRange(&begin, &mapped, at) == CUDA_SUCCESS && at + size > begin + mapped;
}

unsigned registration_look(const struct ncclComm *comm, const void *buffer, size_t size) {
  CUmemGenericAllocationHandle memory;
  CUmemAllocationProp properties;
  pthread_mutex_lock(&lock);
  const struct registration *found = comm->registrations;
  while (found != NULL && !holds(found, buffer, size))
    found = found->next;
  pthread_mutex_unlock(&lock);
  if (found == NULL)
    return 0;
  if (is_in_pieces(buffer, size) ||
      cuMemRetainAllocationHandle(&memory, (void *)(uintptr_t)buffer) != CUDA_SUCCESS)
    return LOOK_REGISTERED;
  bool exports = cuMemGetAllocationPropertiesFromHandle(&properties, memory) == CUDA_SUCCESS &&
                 properties.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  cuMemRelease(memory);
  return LOOK_REGISTERED | LOOK_MAPPED | (exports ? LOOK_EXPORTS : 0);
}

/* Which of the buffers NCCL looks at on all ranks (coll_reg.cc; 2.28 to 2.30: enqueue.cc for
 * AlltoAll). In place counts where a tree or a ring would go another way. */
static const struct {
  bool send, recv, in_place;
} looked_at[] = {
    [OPERATION_ALLREDUCE] = {true, true, true},      [OPERATION_BROADCAST] = {false, true, false},
    [OPERATION_REDUCE] = {true, false, false},       [OPERATION_ALLGATHER] = {true, true, false},
    [OPERATION_REDUCESCATTER] = {true, true, false}, [OPERATION_ALLTOALL] = {true, true, false},
    [OPERATION_GATHER] = {true, false, false},       [OPERATION_SCATTER] = {false, true, false},
};

const char *registration_look_name(unsigned look) {
  if ((look & LOOK_REGISTERED) == 0)
    return "not registered";
  if ((look & LOOK_MAPPED) == 0)
    return "registered";
  return (look & LOOK_EXPORTS) != 0 ? "registered cuMem" : "registered cuMem, not exportable";
}

bool registration_meets(const struct ncclComm *comm, const struct operation *operation) {
  size_t block = operation->count * datatype_size(operation->datatype);
  size_t all = block * (size_t)comm->nranks;
  if (operation->premultiplied && operation->reduction == REDUCTION_PREMULSUM)
    return false;
  switch (operation->kind) {
  case OPERATION_ALLREDUCE:
    return registration_look(comm, operation->send, block) != 0 &&
           registration_look(comm, operation->recv, block) != 0;
  case OPERATION_ALLGATHER:
    return registration_look(comm, operation->recv, all) != 0;
  case OPERATION_REDUCESCATTER:
    return registration_look(comm, operation->send, all) != 0;
  default:
    return false;
  }
}

void registration_describe(const struct ncclComm *comm, const struct operation *operation,
                           char *text, size_t size) {
  size_t block = operation->count * datatype_size(operation->datatype);
  size_t all = block * (size_t)comm->nranks;
  bool gives_all =
      operation->kind == OPERATION_REDUCESCATTER || operation->kind == OPERATION_ALLTOALL;
  bool takes_all = operation->kind == OPERATION_ALLGATHER || operation->kind == OPERATION_ALLTOALL;
  unsigned send = 0, recv = 0;
  *text = '\0';
  if (looked_at[operation->kind].send)
    send = registration_look(comm, operation->send, gives_all ? all : block);
  if (looked_at[operation->kind].recv)
    recv = registration_look(comm, operation->recv, takes_all ? all : block);
  if (send == 0 && recv == 0)
    return;
  snprintf(text, size, " (%s%s%s%s%s%s)", looked_at[operation->kind].send ? "send " : "",
           looked_at[operation->kind].send ? registration_look_name(send) : "",
           looked_at[operation->kind].send && looked_at[operation->kind].recv ? ", " : "",
           looked_at[operation->kind].recv ? "receive " : "",
           looked_at[operation->kind].recv ? registration_look_name(recv) : "",
           !looked_at[operation->kind].in_place ? ""
           : operation->send == operation->recv ? ", in place"
                                                : ", out of place");
}

void registration_free_all(struct ncclComm *comm) {
  while (comm->registrations != NULL) {
    struct registration *first = comm->registrations;
    comm->registrations = first->next;
    free(first);
  }
}
