/* Many threads whose first call of NCCL comes at the same time, as in a program with a thread for
 * each GPU. */
#include <pthread.h>

#include "interpose/nccl/nccl_compat.h"
#include "tests/interpose/parts/say.h"

#define THREADS 16

static pthread_barrier_t together;

static void *call(void *result) {
  pthread_barrier_wait(&together);
  *(ncclResult_t *)result = ncclAllReduce(NULL, NULL, 1, ncclFloat, ncclSum, NULL, NULL);
  return NULL;
}

int main(void) {
  pthread_t threads[THREADS];
  ncclResult_t results[THREADS];
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++)
    pthread_create(&threads[i], NULL, call, &results[i]);
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    if (results[i] != ncclSuccess)
      say("thread %d: %d", i, results[i]);
  }
  return 0;
}
