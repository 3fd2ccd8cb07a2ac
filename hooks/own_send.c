/* The program's memory, asked of the driver, and the order of streams, by events (own_send.h). */
#include "hooks/own_send.h"

#include <stdint.h>
#include <stdio.h>

#include "hooks/shadow_device.h"

/* Memory is one piece as programs allocate it, but may be mapped in several (cuMemMap): from here
 * to the end of the piece. 0: none, or another device's. */
static size_t known_from(const struct shadow *shadow, CUdeviceptr address) {
  const struct cuda_driver *cuda = shadow->cuda;
  CUdeviceptr start = 0;
  size_t size = 0;
  int device = -1;
  unsigned type = 0;
  if (cuda->PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) != CUDA_SUCCESS ||
      cuda->PointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) !=
          CUDA_SUCCESS ||
      cuda->PointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS ||
      address < start || address - start >= size)
    return 0;
  if (type == CU_MEMORYTYPE_DEVICE &&
      (cuda->PointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address) !=
           CUDA_SUCCESS ||
       device != shadow->number))
    return 0;
  return size - (size_t)(address - start);
}

bool own_send_is_there(const struct shadow *shadow, const void *address, size_t bytes) {
  struct device_entry entry;
  CUdeviceptr at = (CUdeviceptr)(uintptr_t)address;
  size_t known = 1;
  if (device_enter(shadow, &entry) != CUDA_SUCCESS)
    return false;
  while (bytes > 0 && known > 0) {
    known = known_from(shadow, at);
    at += known;
    bytes -= known < bytes ? known : bytes;
  }
  device_leave(shadow, &entry);
  return known > 0;
}

/* What comes into the second stream from now on waits for what is in the first. An event may be
 * destroyed while it is waited for (cuEventDestroy). */
static CUresult own_send_chain(const struct cuda_driver *cuda, CUstream first, CUstream second) {
  CUevent event = NULL;
  CUresult result = cuda->EventCreate(&event, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS)
    return result;
  result = cuda->EventRecord(event, first);
  if (result == CUDA_SUCCESS)
    result = cuda->StreamWaitEvent(second, event, 0);
  (void)cuda->EventDestroy(event);
  return result;
}

static void own_send_explain(const struct shadow *shadow, const char *what, CUresult result,
                             char *reason) {
  char number[CUDA_ERROR_TEXT];
  if (result != CUDA_SUCCESS && reason != NULL)
    (void)snprintf(reason, REASON_SIZE, "cannot %s on CUDA device %d: %s", what, shadow->number,
                   cuda_driver_error(shadow->cuda, result, number));
}

bool own_send_copy(struct shadow *shadow, void *to, const void *from, size_t bytes, char *reason) {
  struct device_entry entry;
  CUresult result = device_enter(shadow, &entry);
  if (result == CUDA_SUCCESS) {
    result = shadow->cuda->MemcpyDtoDAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                           bytes, shadow->stream);
    device_leave(shadow, &entry);
  }
  own_send_explain(shadow, "copy what a rank is to send", result, reason);
  return result == CUDA_SUCCESS;
}

static bool put_in_order(struct shadow *shadow, cudaStream_t program, bool program_first,
                         char *reason) {
  struct device_entry entry;
  CUresult result = device_enter(shadow, &entry);
  if (result == CUDA_SUCCESS) {
    CUstream other = (CUstream)program;
    result = program_first ? own_send_chain(shadow->cuda, other, shadow->stream)
                           : own_send_chain(shadow->cuda, shadow->stream, other);
    device_leave(shadow, &entry);
  }
  own_send_explain(shadow, "put the program's stream and that of shadows in order", result, reason);
  return result == CUDA_SUCCESS;
}

bool own_send_follows(struct shadow *shadow, cudaStream_t program, char *reason) {
  return put_in_order(shadow, program, true, reason);
}

bool own_send_precedes(struct shadow *shadow, cudaStream_t program, char *reason) {
  return put_in_order(shadow, program, false, reason);
}
