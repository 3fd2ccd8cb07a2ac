/* Trains a small model whose state lives on the device, and may say to nccl-join what
 * hooks/include/nccl_join.h lets a program say: where a loop begins and ends, and which buffers are
 * its state. Without nccl-join those words do nothing.
 *
 * Each iteration sums a gradient over all ranks; Adam does the rest, on the host, with weights and
 * state that are read from the device and written back. After an epoch the ranks meet: by
 * nccl_join_leave, or in a collective, as programs without words do.
 *
 * Results: "step <epoch> <iteration>" and "model <epoch>" with weights, moments and steps (the
 * latter after all have met), "last <epoch>" with the last joiner, "active <epoch> <iteration>"
 * with the ranks that took part, "met <epoch>" with the number of ranks that did, "wrong" with the
 * results of calls that are wrong.
 */
#include "hooks/include/nccl_join.h"
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { WEIGHTS = 4, PARTS = 4 };

static const char *iterations = "3+1", *say = "none", *state = "none", *lose = "keep",
                  *begin = "nothing", *end = "finalize";
static int ask = 0, wrong = 0, thread = 0, repeat = 0, after = 1, late = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank and epoch: 3,5,5 or 3+1 or 3,5/5,3"},
    {"--say", &say, NULL, "none, leave, or both (enter and leave); one, or one per rank"},
    {"--state", &state, NULL,
     "none, weights, all (with Adam's moments) or less (one fewer): registered; one, or one per "
     "rank"},
    {"--begin", &begin, NULL,
     "nothing, broadcast (weights and moments), group (the same as one), barrier (then broadcast), "
     "or late (broadcast after a sum)"},
    {"--lose", &lose, NULL,
     "what becomes of the weights' buffer in the first epoch: keep, free (they move), replace (at "
     "the same address if CUDA likes); one, or one per rank"},
    {"--ask", NULL, &ask, "1: which ranks are active, and who was last"},
    {"--meet", NULL, &after, "0: there is no collective after an epoch"},
    {"--late", NULL, &late,
     "1: the device is still at work on the weights when the ranks meet; 2: and rank 1 is killed"},
    {"--wrong", NULL, &wrong, "1: make some calls that are wrong"},
    {"--thread", NULL, &thread, "1: another thread asks and registers all the time"},
    {"--repeat", NULL, &repeat, "more buffers to register, all of one element"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

/* On the device: weights, mean, square (of WEIGHTS each), steps. */
struct trainer {
  struct ranks ranks;
  ncclComm_t comm;
  double *parts[PARTS];
  double *gradient, *more;
  int *count;
  int device;
};

static const size_t sizes[PARTS] = {WEIGHTS, WEIGHTS, WEIGHTS, 1};

struct model {
  double parts[PARTS][WEIGHTS];
};

static void read_model(const struct trainer *trainer, struct model *model) {
  for (int part = 0; part < PARTS; part++)
    CHECK_CUDA(cudaMemcpy(model->parts[part], trainer->parts[part], sizes[part] * sizeof(double),
                          cudaMemcpyDeviceToHost));
}

/* On the program's stream, and not waited for. */
static void write_model(const struct trainer *trainer, const struct model *model) {
  for (int part = 0; part < PARTS; part++)
    CHECK_CUDA(cudaMemcpyAsync(trainer->parts[part], model->parts[part],
                               sizes[part] * sizeof(double), cudaMemcpyHostToDevice,
                               trainer->ranks.stream));
}

static void report_model(const struct trainer *trainer, const char *what) {
  struct model model;
  ranks_synchronise((struct ranks *)&trainer->ranks);
  read_model(trainer, &model);
  const double *weights = model.parts[0], *mean = model.parts[1];
  ranks_result(&trainer->ranks, "%s %.17g %.17g %.17g %.17g %.17g %.17g %.17g", what, weights[0],
               weights[1], weights[2], weights[3], mean[0], model.parts[2][0], model.parts[3][0]);
}

/* ---- training ---- */

static void step_with_adam(struct model *model, const double *gradient) {
  double steps = model->parts[3][0] += 1;
  for (int w = 0; w < WEIGHTS; w++) {
    double *mean = &model->parts[1][w], *square = &model->parts[2][w];
    *mean = 0.9 * *mean + 0.1 * gradient[w];
    *square = 0.999 * *square + 0.001 * gradient[w] * gradient[w];
    model->parts[0][w] -=
        0.05 * (*mean / (1 - pow(0.9, steps))) / (sqrt(*square / (1 - pow(0.999, steps))) + 1e-8);
  }
}

static void ask_who_is_active(const struct trainer *trainer, int epoch, int i) {
  int count = -1, ranks[64] = {0};
  char list[256] = "";
  CHECK_NCCL(nccl_join_active_ranks(trainer->comm, &count, ranks));
  for (int k = 0; k < count; k++)
    snprintf(list + strlen(list), sizeof list - strlen(list), " %d", ranks[k]);
  ranks_result(&trainer->ranks, "active %d %d %d%s", epoch, i, count, list);
}

static void step(struct trainer *trainer, int epoch, int i) {
  struct model model;
  double gradient[WEIGHTS], sum[WEIGHTS];
  cudaStream_t stream = trainer->ranks.stream;
  for (int w = 0; w < WEIGHTS; w++)
    gradient[w] = (trainer->ranks.rank + 1) * (w + 1) - (i * (w + 2) + epoch) % 5;
  CHECK_CUDA(cudaMemcpyAsync(trainer->gradient, gradient, sizeof gradient, cudaMemcpyHostToDevice,
                             stream));
  CHECK_NCCL(ncclAllReduce(trainer->gradient, trainer->gradient, WEIGHTS, ncclDouble, ncclSum,
                           trainer->comm, stream));
  if (ask)
    ask_who_is_active(trainer, epoch, i);
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(sum, trainer->gradient, sizeof sum, cudaMemcpyDeviceToHost));
  read_model(trainer, &model);
  step_with_adam(&model, sum);
  write_model(trainer, &model);
  char what[64];
  snprintf(what, sizeof what, "step %d %d", epoch, i);
  report_model(trainer, what);
}

/* The weights go elsewhere, or are thought to be where they were. */
static void move_weights(struct trainer *trainer) {
  const char *how = list_item(lose, trainer->ranks.rank);
  double weights[WEIGHTS], *moved;
  if (strcmp(how, "keep") == 0)
    return;
  CHECK_CUDA(cudaMemcpy(weights, trainer->parts[0], sizeof weights, cudaMemcpyDeviceToHost));
  if (strcmp(how, "replace") == 0)
    CHECK_CUDA(cudaFree(trainer->parts[0]));
  CHECK_CUDA(cudaMalloc((void **)&moved, sizeof weights));
  if (strcmp(how, "free") == 0)
    CHECK_CUDA(cudaFree(trainer->parts[0]));
  trainer->parts[0] = moved;
  CHECK_CUDA(cudaMemcpy(moved, weights, sizeof weights, cudaMemcpyHostToDevice));
}

static bool says(const struct trainer *trainer, const char *word) {
  const char *mine = list_item(say, trainer->ranks.rank);
  return strcmp(mine, word) == 0 || (strcmp(mine, "both") == 0 && strcmp(word, "none") != 0);
}

static void wait_a_little(void *unused) {
  (void)unused;
  nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static void be_killed(void *unused) {
  wait_a_little(unused);
  raise(SIGKILL);
}

/* One more to each weight, when the device comes to it. */
static void add_late(struct trainer *trainer) {
  static double weights[WEIGHTS];
  CHECK_CUDA(cudaMemcpy(weights, trainer->parts[0], sizeof weights, cudaMemcpyDeviceToHost));
  for (int w = 0; w < WEIGHTS; w++)
    weights[w] += 1;
  CHECK_CUDA(cudaLaunchHostFunc(trainer->ranks.stream,
                                late == 2 && trainer->ranks.rank == 1 ? be_killed : wait_a_little,
                                NULL));
  CHECK_CUDA(cudaMemcpyAsync(trainer->parts[0], weights, sizeof weights, cudaMemcpyHostToDevice,
                             trainer->ranks.stream));
}

/* How many ranks are in a collective after the loop: all of them. */
static void meet(struct trainer *trainer, int epoch) {
  int one = 1;
  cudaStream_t stream = trainer->ranks.stream;
  CHECK_CUDA(cudaMemcpyAsync(trainer->count, &one, sizeof one, cudaMemcpyHostToDevice, stream));
  CHECK_NCCL(
      ncclAllReduce(trainer->count, trainer->count, 1, ncclInt, ncclSum, trainer->comm, stream));
  ranks_synchronise(&trainer->ranks);
  CHECK_CUDA(cudaMemcpy(&one, trainer->count, sizeof one, cudaMemcpyDeviceToHost));
  ranks_result(&trainer->ranks, "met %d %d", epoch, one);
}

static void train_epoch(struct trainer *trainer, int epoch) {
  char what[64];
  if (says(trainer, "enter"))
    CHECK_NCCL(nccl_join_enter(trainer->comm));
  for (int i = 0; i < schedule_iterations(iterations, epoch, trainer->ranks.rank); i++)
    step(trainer, epoch, i);
  if (epoch == 0)
    move_weights(trainer);
  if (late)
    add_late(trainer);
  if (says(trainer, "leave"))
    CHECK_NCCL(nccl_join_leave(trainer->comm));
  if (after)
    meet(trainer, epoch);
  if (ask) {
    int last = -1;
    CHECK_NCCL(nccl_join_last_joiner(trainer->comm, &last));
    ranks_result(&trainer->ranks, "last %d %d", epoch, last);
  }
  snprintf(what, sizeof what, "model %d", epoch);
  report_model(trainer, what);
}

/* ---- begin ---- */

static void broadcast_model(struct trainer *trainer) {
  for (int part = 0; part < PARTS; part++)
    CHECK_NCCL(ncclBroadcast(trainer->parts[part], trainer->parts[part], sizes[part], ncclDouble, 0,
                             trainer->comm, trainer->ranks.stream));
}

static void make_model(struct trainer *trainer) {
  struct model model = {.parts = {{1, -2, 3, -4}}};
  for (int part = 0; part < PARTS; part++)
    CHECK_CUDA(cudaMalloc((void **)&trainer->parts[part], sizes[part] * sizeof(double)));
  CHECK_CUDA(cudaMalloc((void **)&trainer->gradient, WEIGHTS * sizeof(double)));
  CHECK_CUDA(cudaMalloc((void **)&trainer->count, sizeof(int)));
  write_model(trainer, &model);
  if (strcmp(begin, "barrier") == 0 || strcmp(begin, "late") == 0) {
    size_t n = strcmp(begin, "late") == 0 ? WEIGHTS : 1;
    CHECK_NCCL(ncclAllReduce(trainer->gradient, trainer->gradient, n, ncclDouble, ncclMax,
                             trainer->comm, trainer->ranks.stream));
  }
  if (strcmp(begin, "nothing") == 0)
    return;
  bool group = strcmp(begin, "group") == 0;
  if (group)
    CHECK_NCCL(ncclGroupStart());
  broadcast_model(trainer);
  if (group)
    CHECK_NCCL(ncclGroupEnd());
}

static void register_state(struct trainer *trainer) {
  const char *what = list_item(state, trainer->ranks.rank);
  int parts = strcmp(what, "all") == 0       ? PARTS
              : strcmp(what, "less") == 0    ? PARTS - 1
              : strcmp(what, "weights") == 0 ? 1
                                             : 0;
  for (int part = 0; part < parts; part++)
    CHECK_NCCL(
        nccl_join_register_state(trainer->comm, trainer->parts[part], sizes[part], ncclDouble));
  if (repeat == 0)
    return;
  CHECK_CUDA(cudaMalloc((void **)&trainer->more, (size_t)repeat * sizeof(double)));
  for (int i = 0; i < repeat; i++)
    CHECK_NCCL(nccl_join_register_state(trainer->comm, trainer->more + i, 1, ncclDouble));
}

/* ---- calls that are wrong, calls of another thread ---- */

static void call_wrongly(struct trainer *trainer) {
  double host;
  ncclComm_t comm = trainer->comm;
  ncclResult_t results[] = {
      nccl_join_leave(NULL),
      nccl_join_last_joiner(comm, NULL),
      nccl_join_active_ranks(comm, NULL, NULL),
      nccl_join_register_state(comm, NULL, 1, ncclDouble),
      nccl_join_register_state(comm, &host, 1, ncclDouble),
      nccl_join_register_state(comm, trainer->parts[0], (size_t)1 << 40, ncclDouble),
      nccl_join_register_state(comm, trainer->parts[0], 1, (ncclDataType_t)99),
      nccl_join_deregister_state(comm, &host),
      ncclSuccess,
  };
  CHECK_NCCL(ncclGroupStart());
  results[8] = nccl_join_leave(comm);
  CHECK_NCCL(ncclGroupEnd());
  char text[128] = "wrong";
  for (size_t i = 0; i < sizeof results / sizeof *results; i++)
    snprintf(text + strlen(text), sizeof text - strlen(text), " %d", (int)results[i]);
  ranks_result(&trainer->ranks, "%s", text);
}

static atomic_bool stopping;

static void *ask_and_register(void *context) {
  struct trainer *trainer = context;
  double *mine;
  CHECK_CUDA(cudaSetDevice(trainer->device));
  CHECK_CUDA(cudaMalloc((void **)&mine, sizeof *mine));
  int calls = 0, last = -1;
  do {
    CHECK_NCCL(nccl_join_last_joiner(trainer->comm, &last));
    CHECK_NCCL(nccl_join_register_state(trainer->comm, mine, 1, ncclDouble));
    CHECK_NCCL(nccl_join_deregister_state(trainer->comm, mine));
  } while (++calls < 1000 || !atomic_load(&stopping));
  CHECK_CUDA(cudaFree(mine));
  return NULL;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Trains a model, and says so.", options);
  static struct trainer trainer;
  pthread_t asking;
  ranks_begin(&trainer.ranks);
  trainer.comm = ranks_communicator(&trainer.ranks);
  CHECK_CUDA(cudaGetDevice(&trainer.device));
  make_model(&trainer);
  register_state(&trainer);
  if (wrong)
    call_wrongly(&trainer);
  if (thread)
    pthread_create(&asking, NULL, ask_and_register, &trainer);
  for (int epoch = 0; epoch < schedule_epochs(iterations); epoch++)
    train_epoch(&trainer, epoch);
  atomic_store(&stopping, true);
  if (thread)
    pthread_join(asking, NULL);
  return ranks_leave(&trainer.ranks, ending_named(list_item(end, trainer.ranks.rank)));
}
