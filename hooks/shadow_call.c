/* Where the data of a shadow's members lies, and their calls (shadow_call.h). */
#include "hooks/shadow_call.h"

#include <assert.h>

#include "core/unit/look.h"
#include "hooks/contribution.h"

/* What one member reads and writes on this rank. */
struct extent {
  uint64_t pattern;
  size_t send_bytes, receive_bytes; /* 0: not used on this rank */
};

static struct member shadow_rooted(const struct member *member, const struct shadow_member *here) {
  struct member copy = *member;
  if (copy.root != ROOT_NONE)
    copy.root = here->root;
  return copy;
}

static size_t bytes_of(uint64_t count, uint8_t size) {
  size_t bytes = 0;
  return __builtin_mul_overflow(count, (uint64_t)size, &bytes) ? SIZE_MAX : bytes;
}

static struct extent extent_of(const struct member *member, const struct shadow_member *here) {
  struct member real = shadow_rooted(member, here);
  struct fill fill = contribution_fill(&real);
  uint32_t rank = (uint32_t)here->rank;
  uint32_t nranks = (uint32_t)here->nranks;
  return (struct extent){
      .pattern = contribution_pattern(fill),
      .send_bytes = bytes_of(contribution_send_count(&real, rank, nranks), fill.size),
      .receive_bytes = bytes_of(contribution_recv_count(&real, rank, nranks), fill.size),
  };
}

size_t call_send_bytes(const struct member *member, const struct shadow_member *here) {
  return extent_of(member, here).send_bytes;
}

/* ---- where it lies ---- */

/* Where one of the two buffers lies in the other, in place. */
struct layout {
  bool possible;
  size_t send_at, receive_at;
};

/* As nccl.h says it of each collective. */
static struct layout layout_of(const struct member *member, const struct shadow_member *here) {
  size_t block = bytes_of(member->count, contribution_fill(member).size);
  size_t own = block == SIZE_MAX ? 0 : (size_t)here->rank * block;
  switch (kind_traits(member->kind)->in_place) {
  case KIND_WHOLE:
    return (struct layout){.possible = true};
  case KIND_SENDS_PART:
    return (struct layout){.possible = true, .send_at = own};
  case KIND_RECEIVES_PART:
    return (struct layout){.possible = true, .receive_at = own};
  case KIND_APART:
    break;
  }
  return (struct layout){.possible = false};
}

/* From where a member sends and to where it receives. */
struct buffers {
  struct extent extent;
  struct layout layout; /* .possible: both are one area, which is laid down anew each time */
  bool pattern;         /* sends from the buffer of its pattern */
  bool over;            /* receives over what it has been given to send */
  size_t area;          /* bytes of the receive area */
  unsigned send_look, receive_look;
};

static struct buffers buffers_of(const struct member *member, const struct shadow_member *here) {
  struct buffers buffers = {.extent = extent_of(member, here),
                            .send_look = look_send(here->look),
                            .receive_look = look_receive(here->look)};
  const struct extent *extent = &buffers.extent;
  buffers.layout = layout_of(member, here);
  buffers.layout.possible &= look_is_in_place(here->look) && here->receive == NULL;
  if (buffers.layout.possible)
    buffers.send_look = buffers.receive_look;
  /* Where each rank has a buffer of its own to send, in place or not is the same to NCCL. */
  buffers.over = buffers.layout.possible && here->send != NULL && extent->receive_bytes != 0 &&
                 extent->send_bytes >= extent->receive_bytes && buffers.layout.receive_at == 0;
  buffers.layout.possible &= here->send == NULL;
  buffers.pattern = !buffers.layout.possible && here->send == NULL && extent->send_bytes != 0;
  if (buffers.layout.possible)
    buffers.area =
        extent->send_bytes > extent->receive_bytes ? extent->send_bytes : extent->receive_bytes;
  else if (!buffers.over && here->receive == NULL)
    buffers.area = extent->receive_bytes;
  return buffers;
}

/* Kinds that do not look at one of the buffers have it in what there is. */
bool call_needs(const struct member *member, const struct shadow_member *here) {
  struct buffers buffers = buffers_of(member, here);
  struct memory *send = device_memory(here->shadow, buffers.send_look);
  struct memory *receive = device_memory(here->shadow, buffers.receive_look);
  if (send == NULL || receive == NULL)
    return false;
  if (buffers.pattern)
    device_needs_send(send, buffers.extent.pattern, buffers.extent.send_bytes);
  if (buffers.area != 0)
    device_needs_receive(receive, buffers.area);
  return true;
}

struct memory *call_lends(const struct member *member, const struct shadow_member *here,
                          uint64_t *pattern, size_t *bytes) {
  struct buffers buffers = buffers_of(member, here);
  *pattern = buffers.extent.pattern;
  *bytes = buffers.extent.send_bytes;
  return *bytes == 0 || here->send != NULL ? NULL : device_memory(here->shadow, buffers.send_look);
}

static ncclResult_t register_buffers(const struct nccl_calls *nccl, const struct buffers *buffers,
                                     const struct shadow_member *here) {
  struct shadow *device = here->shadow;
  ncclResult_t result = ncclSuccess;
  if (nccl->CommRegister == NULL || nccl->CommDeregister == NULL)
    return ncclInvalidUsage;
  if (buffers->send_look != 0 && buffers->extent.send_bytes != 0)
    result = device_register(device, nccl, device_memory(device, buffers->send_look),
                             buffers->pattern ? &buffers->extent.pattern : NULL, here->comm);
  if (result == ncclSuccess && buffers->receive_look != 0 && buffers->area != 0)
    result = device_register(device, nccl, device_memory(device, buffers->receive_look), NULL,
                             here->comm);
  return result;
}

ncclResult_t call_prepare(const struct nccl_calls *nccl, const struct member *member,
                          const struct shadow_member *here, const char **where) {
  struct buffers buffers = buffers_of(member, here);
  struct shadow *device = here->shadow;
  if (here->look != 0) {
    *where = "ncclCommRegister";
    ncclResult_t result = register_buffers(nccl, &buffers, here);
    if (result != ncclSuccess)
      return result;
  }
  if (buffers.area == 0)
    return ncclSuccess;
  void *area = device_receive(device_memory(device, buffers.receive_look), buffers.area);
  if (!buffers.layout.possible)
    return ncclSuccess;
  struct device_entry entry;
  *where = "cuMemsetD32Async";
  if (device_enter(device, &entry) != CUDA_SUCCESS)
    return ncclUnhandledCudaError;
  CUresult filled = device_fill(device, area, buffers.area, buffers.extent.pattern);
  device_leave(device, &entry);
  return filled == CUDA_SUCCESS ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- one member's call ---- */

bool call_is_available(const struct nccl_calls *nccl, uint8_t kind, const char **name) {
  *name = kind_traits(kind)->function;
  switch ((enum member_kind)kind) {
#define IS_AVAILABLE(with, KIND, NAME, ...)                                                        \
  case MEMBER_##KIND:                                                                              \
    return nccl->NAME != NULL;
    NCCL_COLLECTIVES(IS_AVAILABLE, )
#undef IS_AVAILABLE
  case MEMBER_STATE:
    return nccl->Broadcast != NULL;
  case MEMBER_SEND:
    return nccl->Send != NULL;
  case MEMBER_RECEIVE:
    return nccl->Recv != NULL;
  case MEMBER_SPLIT:
    return nccl->CommSplit != NULL;
  case MEMBER_EXCHANGE:
  case MEMBER_MARK:
    break;
  }
  *name = "collective of a kind unknown here";
  return false;
}

/* Addresses, given that the memory is there; the receive area is handed out by this. */
static void find_buffers(const struct member *member, const struct shadow_member *here,
                         const void **send, void **receive) {
  struct buffers buffers = buffers_of(member, here);
  struct shadow *device = here->shadow;
  char *area = NULL;
  *receive = here->receive;
  if (buffers.area != 0)
    area = device_receive(device_memory(device, buffers.receive_look), buffers.area);
  if (buffers.layout.possible) {
    *send = area + buffers.layout.send_at;
    *receive = area + buffers.layout.receive_at;
    return;
  }
  if (*receive == NULL)
    *receive = buffers.over ? (void *)here->send : area;
  /* What a rank does not send need only be a valid address: NCCL_CHECK_POINTERS looks at it. */
  *send = *receive;
  if (here->send != NULL)
    *send = here->send;
  else if (buffers.pattern)
    *send = device_send(device_memory(device, buffers.send_look), buffers.extent.pattern);
  if (*receive == NULL && kind_traits(member->kind)->receives == KIND_ROOT_ALL)
    *receive = (void *)*send;
}

ncclResult_t call_make(const struct nccl_calls *nccl, const struct member *member,
                       const struct shadow_member *here, ncclRedOp_t reduction) {
  struct shadow *device = here->shadow;
  const void *send;
  void *recv;
  find_buffers(member, here, &send, &recv);
  size_t count = member->count;
  ncclDataType_t datatype = (ncclDataType_t)member->datatype;
  cudaStream_t stream = (cudaStream_t)device->stream;
  switch ((enum member_kind)member->kind) {
#define MAKE(with, KIND, NAME, ROOT, REDUCTION, ...)                                               \
  case MEMBER_##KIND:                                                                              \
    return nccl->NAME COLLECTIVE_FORM(ROOT, REDUCTION, send, recv, count, datatype, reduction,     \
                                      here->root, here->comm, stream);
    NCCL_COLLECTIVES(MAKE, )
#undef MAKE
  case MEMBER_STATE:
    return nccl->Broadcast(send, recv, count, datatype, here->root, here->comm, stream);
  case MEMBER_SEND:
    return nccl->Send(send, count, datatype, here->root, here->comm, stream);
  case MEMBER_RECEIVE:
    return nccl->Recv(recv, count, datatype, here->root, here->comm, stream);
  case MEMBER_SPLIT:
    return nccl->CommSplit(here->comm, NCCL_SPLIT_NOCOLOR, 0, &device->no_child, NULL);
  case MEMBER_EXCHANGE:
  case MEMBER_MARK:
    break;
  }
  return ncclInternalError;
}
