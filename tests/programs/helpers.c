/* A program with a second thread, which does what such threads do while the first one is in a
 * collective: forks, polls for errors, or gives the communicator up.
 *
 * The body sums one bucket. After it all ranks meet.
 *
 * Results: "sum <iteration>" and "barrier 0" with the mask of the ranks that took part; "helped
 * <times>"; "interrupted <ncclResult_t>" of a call that the helper has broken off, after which the
 * program ends with status 1. Times: "aborting", "aborted", "interrupted".
 */
#include "tests/programs/options.h"
#include "tests/programs/ranks.h"
#include "tests/programs/tape.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *iterations = "3+1", *helper = "none", *child = "nothing", *end = "finalize";
static int wait_ms = 0, helps = 0, after_ms = 0, walk = 0;

static const struct option options[] = {
    {"--iterations", &iterations, NULL, "per rank: 3,5,5 or 3+1"},
    {"--helper", &helper, NULL, "none, fork, poll or abort; one, or one per rank"},
    {"--child", &child, NULL, "what forked children do: nothing, _exit, exit, exec or call"},
    {"--helps", NULL, &helps, "how often to fork or poll, every two milliseconds"},
    {"--after", NULL, &after_ms, "milliseconds before the helper begins"},
    {"--walk", NULL, &walk, "1: another thread goes along the list of loaded objects all the time"},
    {"--wait", NULL, &wait_ms, "milliseconds before each iteration"},
    {"--end", &end, NULL, "finalize, destroy, abort, return, exit; one, or one per rank"},
    {0},
};

enum { COUNT = 64 };

static struct ranks ranks;
static ncclComm_t comm;
static atomic_bool aborted; /* nobody may use the communicator any more */

static void sleep_ms(int milliseconds) {
  for (; milliseconds > 0; milliseconds--)
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- the helper ---- */

static _Noreturn void be_a_child(void) {
  int version;
  ncclUniqueId id;
  if (strcmp(child, "exec") == 0)
    execl("/bin/sh", "sh", "-c", "exit 0", (char *)NULL);
  else if (strcmp(child, "call") == 0)
    _exit(ncclGetVersion(&version) != ncclSuccess || ncclGetUniqueId(&id) != ncclSuccess);
  else if (strcmp(child, "exit") == 0) {
    close(STDOUT_FILENO); /* the line that the first thread is just printing is not the child's */
    exit(0);
  } else if (strcmp(child, "nothing") == 0)
    kill(getpid(), SIGKILL);
  _exit(strcmp(child, "exec") == 0);
}

static bool help_by_forking(void) {
  pid_t pid = fork();
  if (pid == 0)
    be_a_child();
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid &&
         (status == 0 || (strcmp(child, "nothing") == 0 && WIFSIGNALED(status)));
}

static int see_object(struct dl_phdr_info *info, size_t size, void *unused) {
  (void)info, (void)size, (void)unused;
  sleep_ms(1); /* with the dynamic linker's lock */
  return 0;
}

static _Noreturn void *walk_objects(void *unused) {
  for (;;)
    dl_iterate_phdr(see_object, unused);
}

static bool help_by_polling(void) {
  ncclResult_t error = ncclSuccess;
  CHECK_NCCL(ncclCommGetAsyncError(comm, &error));
  return error == ncclSuccess;
}

static void abort_communicator(void) {
  ranks_time(&ranks, "aborting");
  atomic_store(&aborted, true);
  CHECK_NCCL(ncclCommAbort(comm));
  ranks_time(&ranks, "aborted");
}

static void *help(void *unused) {
  const char *how = list_item(helper, ranks.rank);
  int helped = 0;
  bool forks = strcmp(how, "fork") == 0, polls = strcmp(how, "poll") == 0;
  pthread_t walker;
  if (walk != 0 && pthread_create(&walker, NULL, walk_objects, NULL) == 0)
    pthread_detach(walker);
  sleep_ms(after_ms);
  for (int i = 0; i < helps && (forks || polls); i++, sleep_ms(2))
    helped += forks ? help_by_forking() : help_by_polling();
  if (strcmp(how, "abort") == 0)
    abort_communicator();
  ranks_result(&ranks, "helped %d", helped);
  return unused;
}

/* ---- the program ---- */

/* False if the helper has broken it off. */
static bool sum(struct tape *tape, float *data, size_t count, const char *name, int i) {
  tape_fill(tape, ncclFloat, data, count, 1 << ranks.rank, i + 1);
  ncclResult_t result = ncclAllReduce(data, data, count, ncclFloat, ncclSum, comm, ranks.stream);
  if (result != ncclSuccess && atomic_load(&aborted)) {
    ranks_time(&ranks, "interrupted");
    ranks_result(&ranks, "interrupted %d", (int)result);
    return false;
  }
  ranks_check_nccl(result, "ncclAllReduce", __FILE__, __LINE__);
  tape_read(tape, ncclFloat, data, 1, count, "%s %d", name, i);
  tape_play(tape);
  return true;
}

int main(int argc, char **argv) {
  (void)argc;
  options_read(argv, "Has a second thread.", options);
  ranks_begin(&ranks);
  comm = ranks_communicator(&ranks);
  struct tape *tape = tape_create(&ranks);
  float *data;
  CHECK_CUDA(cudaMalloc((void **)&data, COUNT * sizeof *data));
  pthread_t thread;
  pthread_create(&thread, NULL, help, NULL);
  bool whole = true;
  for (int i = 0; i < schedule_iterations(iterations, 0, ranks.rank) && whole; i++) {
    whole = sum(tape, data, COUNT, "sum", i);
    sleep_ms(wait_ms);
  }
  whole = whole && sum(tape, data, 1, "barrier", 0);
  pthread_join(thread, NULL);
  return whole ? ranks_leave(&ranks, ending_named(list_item(end, ranks.rank))) : 1;
}
