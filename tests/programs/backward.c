/* Collectives from two threads in turn, as PyTorch issues them: those of the forward pass from the
 * main thread, those of the backward pass from another.
 *
 * Each iteration sums one bucket on the main thread, then two on the other, as a group where
 * --group is 1, on a second communicator where --communicators is 2.
 *
 * Results: "forward <iteration>" and "backward <iteration> <bucket>" with the mask of the ranks
 * that took part.
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <pthread.h>
#include <semaphore.h>

static const char *iterations = "3+1";
static int group = 0, communicators = 1;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--group", NULL, &group, "1: the buckets of the backward pass are one group"},
    {"--communicators", NULL, &communicators, "1, or 2: one for each thread"},
    {0},
};

enum { COUNT = 32, BUCKETS = 2 };

static struct ranks ranks;
static struct tape *tape;
static ncclComm_t forward_comm, backward_comm;
static float *forward_bucket, *buckets[BUCKETS];
static sem_t go, gone;
static int n;

static void sum(float *bucket, size_t count, ncclComm_t comm) {
  CHECK_NCCL(ncclAllReduce(bucket, bucket, count, ncclFloat, ncclSum, comm, ranks.stream));
}

static void go_back(int i) {
  for (int b = 0; b < BUCKETS; b++)
    tape_fill(tape, ncclFloat, buckets[b], COUNT + (size_t)b, 1 << ranks.rank, 0);
  if (group)
    CHECK_NCCL(ncclGroupStart());
  for (int b = 0; b < BUCKETS; b++)
    sum(buckets[b], COUNT + (size_t)b, backward_comm);
  if (group)
    CHECK_NCCL(ncclGroupEnd());
  for (int b = 0; b < BUCKETS; b++)
    tape_read(tape, ncclFloat, buckets[b], 1, 1, "backward %d %d", i, b);
}

static void *backward(void *unused) {
  for (int i = 0; i < n; i++) {
    sem_wait(&go);
    go_back(i);
    sem_post(&gone);
  }
  return unused;
}

static void prepare(void) {
  ranks_begin(&ranks);
  forward_comm = backward_comm = ranks_communicator(&ranks);
  if (communicators > 1)
    backward_comm = ranks_communicator(&ranks);
  tape = tape_create(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&forward_bucket, COUNT * sizeof(float)));
  for (int b = 0; b < BUCKETS; b++)
    CHECK_CUDA(cudaMalloc((void **)&buckets[b], (COUNT + (size_t)b) * sizeof(float)));
  sem_init(&go, 0, 0);
  sem_init(&gone, 0, 0);
  n = schedule_iterations(iterations, 0, ranks.rank);
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Collectives from two threads in turn.", options);
  prepare();
  pthread_t thread;
  pthread_create(&thread, NULL, backward, NULL);
  for (int i = 0; i < n; i++) {
    tape_fill(tape, ncclFloat, forward_bucket, COUNT, 1 << ranks.rank, 0);
    sum(forward_bucket, COUNT / 2, forward_comm);
    tape_read(tape, ncclFloat, forward_bucket, 1, 1, "forward %d", i);
    sem_post(&go);
    sem_wait(&gone);
    if (i % 16 == 15)
      tape_play(tape);
  }
  pthread_join(thread, NULL);
  tape_play(tape);
  return ranks_leave(&ranks, ENDING_FINALIZE);
}
