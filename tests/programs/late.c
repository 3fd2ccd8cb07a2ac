/* A loop, and then a communicator whose id all ranks have had since before the loop: so nothing is
 * sent on the way to it, and its ranks first meet inside of NCCL.
 *
 * Every iteration sums one buffer. Results: "sum <epoch> <iteration>" with the mask of the ranks
 * that took part and the sum of 1000 * epoch + iteration + 1 over them; "made <number>" with the
 * mask of those that have made the communicator of that number together, and their number times
 * 1000 * (number + 1); "left".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *iterations = "3+1", *slow = "none", *when = "end";
static int members = 0, deferred = 0, grouped = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--when", &when, NULL,
     "end: after all epochs; after each epoch; before it; inside: after each iteration"},
    {"--members", NULL, &members, "the first so many ranks make it; 0: all"},
    {"--slow", &slow, NULL,
     "RANK:NUMBER:MS: that rank comes to that one so many milliseconds later"},
    {"--deferred", NULL, &deferred, "1: by ncclCommInitRankConfig with blocking = 0"},
    {"--grouped", NULL, &grouped, "1: in a group"},
    {0},
};

enum { COUNT = 256, IDS_MAX = 32 };

static struct ranks ranks;
static struct tape *tape;
static float *data;
static ncclUniqueId ids[IDS_MAX];
static int made;

static void sleep_ms(long ms) {
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static void wait_until_made(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    sleep_ms(1);
    CHECK_NCCL(ncclCommGetAsyncError(comm, &state));
  }
  CHECK_NCCL(state);
}

static ncclComm_t create(int nranks) {
  ncclComm_t comm = NULL;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (grouped)
    CHECK_NCCL(ncclGroupStart());
  ncclResult_t result = deferred
                            ? ncclCommInitRankConfig(&comm, nranks, ids[made], ranks.rank, &config)
                            : ncclCommInitRank(&comm, nranks, ids[made], ranks.rank);
  CHECK_NCCL(result == ncclInProgress ? ncclSuccess : result);
  if (grouped)
    CHECK_NCCL(ncclGroupEnd());
  if (deferred)
    wait_until_made(comm);
  return comm;
}

static void make(void) {
  int nranks = members == 0 ? ranks.nranks : members, rank, number, ms;
  if (ranks.rank >= nranks)
    return;
  if (sscanf(slow, "%d:%d:%d", &rank, &number, &ms) == 3 && rank == ranks.rank && number == made)
    sleep_ms(ms);
  ncclComm_t comm = create(nranks);
  tape_fill(tape, ncclFloat, data, COUNT, 1 << ranks.rank, 1000 * (made + 1));
  CHECK_NCCL(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, ranks.stream));
  tape_read(tape, ncclFloat, data, 1, COUNT, "made %d", made);
  tape_play(tape);
  CHECK_NCCL(ncclCommDestroy(comm));
  made = (made + 1) % IDS_MAX;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Makes a communicator after its loop, without a word to the others.", options);
  ranks_begin(&ranks);
  tape = tape_create(&ranks);
  CHECK_CUDA(cudaMalloc((void **)&data, COUNT * sizeof *data));
  for (int i = 0; i < IDS_MAX && ranks.rank == 0; i++)
    CHECK_NCCL(ncclGetUniqueId(&ids[i]));
  ranks_share(&ranks, ids, sizeof ids);
  ncclComm_t comm = ranks_communicator(&ranks);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++) {
    if (strcmp(when, "before") == 0)
      make();
    for (int i = 0; i < schedule_iterations(iterations, epoch, ranks.rank); i++) {
      tape_fill(tape, ncclFloat, data, COUNT, 1 << ranks.rank, 1000 * epoch + i + 1);
      CHECK_NCCL(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, comm, ranks.stream));
      tape_read(tape, ncclFloat, data, 1, COUNT, "sum %d %d", epoch, i);
      tape_play(tape);
      if (strcmp(when, "inside") == 0)
        make();
    }
    if (strcmp(when, "after") == 0)
      make();
  }
  if (strcmp(when, "end") == 0)
    make();
  return ranks_leave(&ranks, ENDING_DESTROY);
}
