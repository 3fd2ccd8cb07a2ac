/* A plug-in that does what a variable of its name (HOOK_NAME, "FIRST" or "SECOND") says: words
 * separated by commas. Says what it is called with on stdout, "HOOK <name> ...".
 *
 *   fill         writes 1000 to every element (float64) that is about to be sent
 *   add          adds 1 to what is there, on the host, after the stream has come so far
 *   add-gathered the same to float32 that is gathered
 *   init-fails, main-fails, main-fails-later, post-fails
 *   broadcast    postHook broadcasts a number of the last joiner, by NCCL
 *   lend         wants buffers to write to, and leaves them as they are
 */
#include "hooks/include/nccl_join_hook.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 64 };

static double thousands[ELEMENTS_MAX];
static int shadows, posts;

static int does(const char *word) {
  const char *words = getenv(HOOK_NAME);
  size_t length = strlen(word);
  for (const char *at = words; at != NULL && (at = strstr(at, word)) != NULL; at++)
    if ((at == words || at[-1] == ',') && (at[length] == '\0' || at[length] == ','))
      return 1;
  return 0;
}

static ncclResult_t begin(void **context, int *wants, ncclJoinLog_t log) {
  *context = thousands;
  for (int i = 0; i < ELEMENTS_MAX; i++)
    thousands[i] = 1000;
  if (does("fill") || does("add") || does("add-gathered") || does("lend"))
    *wants = NCCL_JOIN_HOOK_FILL;
  if (does("init-fails")) {
    log(NCCL_JOIN_LOG_WARN, "%s: it is %d o'clock", HOOK_NAME, 13);
    return ncclSystemError;
  }
  return ncclSuccess;
}

/* All on the stream: a copy from the host that is not may come later than what is on it. */
static ncclResult_t add_one(const ncclJoinMember_v1_t *member, cudaStream_t stream) {
  double elements[ELEMENTS_MAX];
  float *floats = (float *)elements;
  size_t count =
      member->sendBytes / (member->datatype == ncclFloat ? sizeof(float) : sizeof(double));
  if (cudaMemcpyAsync(elements, member->sendBuffer, member->sendBytes, cudaMemcpyDeviceToHost,
                      stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess)
    return ncclUnhandledCudaError;
  for (size_t i = 0; i < count; i++) {
    if (member->datatype == ncclFloat)
      floats[i] += 1;
    else
      elements[i] += 1;
  }
  if (cudaMemcpyAsync(member->sendBuffer, elements, member->sendBytes, cudaMemcpyHostToDevice,
                      stream) != cudaSuccess ||
      cudaStreamSynchronize(stream) != cudaSuccess)
    return ncclUnhandledCudaError;
  return ncclSuccess;
}

static ncclResult_t fill_member(const ncclJoinMember_v1_t *member, cudaStream_t stream) {
  int is_gathered = member->datatype == ncclFloat && strcmp(member->function, "ncclAllGather") == 0;
  int is_mine = member->datatype == ncclDouble && member->sendBytes <= sizeof thousands;
  if (does("add-gathered") && is_gathered && member->sendBytes <= sizeof thousands)
    return add_one(member, stream);
  if (!is_mine || member->sendBuffer == NULL)
    return ncclSuccess;
  if (does("fill") && cudaMemcpyAsync(member->sendBuffer, thousands, member->sendBytes,
                                      cudaMemcpyHostToDevice, stream) != cudaSuccess)
    return ncclUnhandledCudaError;
  return does("add") ? add_one(member, stream) : ncclSuccess;
}

static ncclResult_t shadow(void *context, const ncclJoinUnit_v1_t *unit) {
  const ncclJoinMember_v1_t *first = unit->members;
  shadows++;
  printf("HOOK %s rank %d of %d shadows %llu: %d of %s, %zu elements, %zu bytes%s\n", HOOK_NAME,
         first->rank, first->nRanks, unit->index, unit->nMembers, first->function, first->count,
         first->sendBytes, context == thousands ? "" : ", without its context");
  fflush(stdout);
  if (does("main-fails") || (does("main-fails-later") && shadows == 3))
    return ncclInternalError;
  for (int i = 0; i < unit->nMembers; i++)
    if (fill_member(&unit->members[i], unit->stream) != ncclSuccess)
      return ncclUnhandledCudaError;
  return ncclSuccess;
}

static ncclResult_t share(const ncclJoinReunion_v1_t *reunion) {
  int number = 100 + reunion->rank, *device;
  cudaStream_t stream;
  if (cudaMalloc((void **)&device, sizeof *device) != cudaSuccess ||
      cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaMemcpyAsync(device, &number, sizeof number, cudaMemcpyHostToDevice, stream) !=
          cudaSuccess)
    return ncclUnhandledCudaError;
  ncclResult_t result =
      ncclBroadcast(device, device, 1, ncclInt, reunion->lastJoiner, reunion->comm, stream);
  if (result == ncclSuccess && cudaStreamSynchronize(stream) == cudaSuccess &&
      cudaMemcpy(&number, device, sizeof number, cudaMemcpyDeviceToHost) == cudaSuccess)
    printf("HOOK %s rank %d has %d\n", HOOK_NAME, reunion->rank, number);
  cudaFree(device);
  return result;
}

static ncclResult_t together(void *context, const ncclJoinReunion_v1_t *reunion) {
  (void)context;
  posts++;
  printf("HOOK %s rank %d of %d together at %llu: last %d, mine %d\n", HOOK_NAME, reunion->rank,
         reunion->nRanks, reunion->index, reunion->lastJoiner, reunion->isLastJoiner);
  fflush(stdout);
  if (does("post-fails"))
    return ncclInternalError;
  return does("broadcast") ? share(reunion) : ncclSuccess;
}

static ncclResult_t end(void *context) {
  (void)context;
  printf("HOOK %s ends after %d and %d\n", HOOK_NAME, shadows, posts);
  fflush(stdout);
  return ncclSuccess;
}

extern const ncclJoinHook_v1_t ncclJoinHook_v1;
const ncclJoinHook_v1_t ncclJoinHook_v1 = {HOOK_NAME, begin, shadow, together, end};
