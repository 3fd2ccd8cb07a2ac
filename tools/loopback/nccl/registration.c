/* The list of registrations of a communicator. */
#include "registration.h"

#include "device.h"
#include "report.h"

#include <stdlib.h>

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
  char *begin = buffer;
  for (struct registration *known = comm->registrations; known != NULL; known = known->next) {
    if (known->begin <= begin && begin + size <= known->begin + known->size) {
      known->references++;
      *handle = known;
      return ncclSuccess;
    }
  }
  struct registration *registration = malloc(sizeof *registration);
  if (registration == NULL)
    return ncclSystemError;
  *registration = (struct registration){begin, size, 1, comm->registrations};
  comm->registrations = registration;
  *handle = registration;
  return ncclSuccess;
}

ncclResult_t registration_remove(struct ncclComm *comm, const void *handle) {
  for (struct registration **place = &comm->registrations; *place != NULL;
       place = &(*place)->next) {
    struct registration *found = *place;
    if (found != handle)
      continue;
    if (--found->references == 0) {
      *place = found->next;
      free(found);
    }
    return ncclSuccess;
  }
  report_error("Deregister: Could not find handle");
  return ncclInvalidUsage;
}

void registration_free_all(struct ncclComm *comm) {
  while (comm->registrations != NULL) {
    struct registration *first = comm->registrations;
    comm->registrations = first->next;
    free(first);
  }
}
