/* Checks of user buffers. */
#include "buffer.h"

#include "device.h"
#include "meeting.h"

#include <stdio.h>

static _Noreturn void buffer_stop(struct ncclComm *comm, const struct unit *unit,
                                  const struct operation *operation, const char *complaint) {
  char what[256], text[1024];
  operation_describe(operation, what, sizeof what);
  snprintf(text, sizeof text, "BAD BUFFER on communicator %016llx, rank %d, %s #%llu, %s: %s",
           (unsigned long long)comm->hash, comm->rank, unit->collective ? "unit" : "p2p unit",
           (unsigned long long)unit->index, what, complaint);
  meeting_stop(&comm->segment, text);
}

void *buffer_find(struct ncclComm *comm, const struct unit *unit, const struct operation *operation,
                  const char *name, const void *pointer, size_t size) {
  static char nothing;
  if (size == 0)
    return &nothing;
  void *memory = device_memory(pointer, size);
  if (memory == NULL) {
    char complaint[256];
    snprintf(complaint, sizeof complaint,
             "%s %p, %zu bytes, is not wholly inside one allocation of device memory", name,
             pointer, size);
    buffer_stop(comm, unit, operation, complaint);
  }
  return memory;
}

void buffer_check_apart(struct ncclComm *comm, const struct unit *unit,
                        const struct operation *operation, const char *send, size_t send_size,
                        const char *recv, size_t recv_size) {
  if ((uintptr_t)send + send_size <= (uintptr_t)recv ||
      (uintptr_t)recv + recv_size <= (uintptr_t)send)
    return;
  buffer_stop(comm, unit, operation,
              "sendbuff and recvbuff overlap, and not as in-place operation wants it");
}
