/* The ranks of a program, from fork to record (job.h). */
#include "tests/generated/job.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/generated/buffers.h"

enum { STATUS_START = 4, TEXT_MAX = 16384 };
static const double release_s = 3; /* for the others, after a rank has failed */

struct job {
  struct setup setup;
  struct record records[RANKS_MAX];
  ncclUniqueId ids[AXES_MAX][RANKS_MAX];
  atomic_int id_ready[AXES_MAX][RANKS_MAX];
  int errors[RANKS_MAX]; /* a file in memory for each rank's stderr */
  /* Filled in by job_watch. */
  int hung, statuses[RANKS_MAX];
};

/* The parent waits for the end of a rank by that signal; ranks have it as any program does. */
static void block_child_signals(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigprocmask(how, &set, NULL);
}

/* Until a child ends, but at most that long. */
static void wait_for_child(long us) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigtimedwait(&set, NULL, &(struct timespec){.tv_nsec = us * 1000});
}

struct job *job_make(void) {
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* ends with who runs it */
  block_child_signals(SIG_BLOCK);
  struct job *job =
      mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (job == MAP_FAILED)
    return NULL;
  for (int i = 0; i < RANKS_MAX; i++)
    job->errors[i] = memfd_create("stderr", MFD_CLOEXEC);
  return job;
}

void job_reset(struct job *job, const struct setup *setup) {
  job->setup = *setup;
  job->hung = 0;
  memset(job->id_ready, 0, sizeof job->id_ready);
  for (int i = 0; i < RANKS_MAX; i++) {
    job->records[i].ncalls = 0;
    job->records[i].finished = 0;
    job->records[i].error = 0;
    if (ftruncate(job->errors[i], 0) != 0 || lseek(job->errors[i], 0, SEEK_SET) != 0)
      perror("ftruncate");
  }
}

/* ---- a rank ---- */

static _Noreturn void cannot_start(const char *what) {
  fprintf(stderr, "cannot start: %s\n", what);
  _exit(STATUS_START);
}

static void sleep_us(long us) {
  nanosleep(&(struct timespec){.tv_nsec = us * 1000}, NULL);
}

/* GENERATED_MACHINES, if it is set, is how many; ranks of other machines have another folder in
 * GENERATED_SHARED for their /dev/shm. */
static void enter_machine(int number, int nranks) {
  const char *machines = getenv("GENERATED_MACHINES"), *shared = getenv("GENERATED_SHARED");
  char path[512];
  if (machines == NULL || shared == NULL)
    return;
  snprintf(path, sizeof path, "%s/%d", shared, number * atoi(machines) / nranks);
  if ((mkdir(path, 0700) != 0 && errno != EEXIST) || unshare(CLONE_NEWNS) != 0 ||
      mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount(path, "/dev/shm", NULL, MS_BIND, NULL) != 0)
    cannot_start("a machine");
}

/* The ranks of a rank's communicator on an axis. */
static void arrange(struct rank *rank, int axis) {
  const struct setup *setup = rank->setup;
  int first = 0, step = 1, size = rank->nranks;
  if (setup->arrangement == ARRANGED_GRID && axis == 1) {
    first = rank->rank / setup->tensor * setup->tensor;
    size = setup->tensor;
  }
  if (setup->arrangement == ARRANGED_GRID && axis == 2) {
    first = rank->rank % setup->tensor;
    step = setup->tensor;
    size = rank->nranks / setup->tensor;
  }
  rank->axes[axis].size = size;
  for (int i = 0; i < size; i++) {
    rank->axes[axis].ranks[i] = first + i * step;
    if (rank->axes[axis].ranks[i] == rank->rank)
      rank->axes[axis].me = i;
  }
}

static void connect_axis(struct job *job, struct rank *rank, int axis) {
  int size = rank->axes[axis].size, me = rank->axes[axis].me, first = rank->axes[axis].ranks[0];
  ncclUniqueId *id = &job->ids[axis][first];
  if (rank->setup->split && axis > 0) {
    if (ncclCommSplit(rank->comms[0], first, rank->rank, &rank->comms[axis], NULL) != ncclSuccess)
      cannot_start("ncclCommSplit");
    return;
  }
  if (me == 0) {
    if (ncclGetUniqueId(id) != ncclSuccess)
      cannot_start("ncclGetUniqueId");
    atomic_store(&job->id_ready[axis][first], 1);
  }
  while (!atomic_load(&job->id_ready[axis][first]))
    sleep_us(50);
  if (ncclCommInitRank(&rank->comms[axis], size, *id, me) != ncclSuccess)
    cannot_start("ncclCommInitRank");
}

static int naxes(const struct setup *setup) {
  static const int axes[] = {1, 2, 3};
  return axes[setup->arrangement];
}

struct rank *job_enter(struct job *job, int number) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  block_child_signals(SIG_UNBLOCK);
  dup2(job->errors[number], STDERR_FILENO);
  enter_machine(number, job->setup.nranks);
  static struct rank rank;
  static struct buffers buffers;
  rank = (struct rank){.rank = number,
                       .nranks = job->setup.nranks,
                       .setup = &job->setup,
                       .record = &job->records[number],
                       .buffers = &buffers};
  int devices;
  buffers.host = malloc(BUFFERS_BYTES);
  if (buffers.host == NULL || cudaGetDeviceCount(&devices) != cudaSuccess ||
      cudaSetDevice(number % devices) != cudaSuccess ||
      cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking) != cudaSuccess ||
      cudaMalloc((void **)&buffers.device, BUFFERS_BYTES) != cudaSuccess)
    cannot_start("CUDA");
  for (int axis = 0; axis < naxes(rank.setup); axis++) {
    arrange(&rank, axis);
    connect_axis(job, &rank, axis);
  }
  return &rank;
}

int job_leave(struct rank *rank) {
  rank_synchronise(rank);
  rank->record->finished = 1;
  const struct setup *setup = rank->setup;
  if (setup->ending == ENDING_EXIT)
    exit(0);
  if (setup->ending == ENDING_RETURN)
    return 0;
  int result = 0;
  for (int axis = naxes(setup) - 1; axis >= 0; axis--) {
    if (setup->ending == ENDING_FINALIZE)
      result += ncclCommFinalize(rank->comms[axis]) != ncclSuccess;
    result += ncclCommDestroy(rank->comms[axis]) != ncclSuccess;
  }
  return result != 0;
}

/* ---- the process that runs them ---- */

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static uint64_t calls_made(const struct job *job) {
  uint64_t calls = 0;
  for (int i = 0; i < job->setup.nranks; i++)
    calls += ((const volatile struct record *)&job->records[i])->ncalls;
  return calls;
}

void job_watch(struct job *job, const pid_t *ranks, double limit_s) {
  int nranks = job->setup.nranks, left = nranks;
  bool ended[RANKS_MAX] = {false};
  double last = now_s();
  uint64_t calls = 0;
  while (left > 0) {
    for (int i = 0; i < nranks; i++) {
      if (ended[i] || waitpid(ranks[i], &job->statuses[i], WNOHANG) != ranks[i])
        continue;
      ended[i] = true;
      left--;
      last = now_s();
      if (job->statuses[i] != 0 && limit_s > release_s)
        limit_s = release_s;
    }
    if (left == 0)
      break;
    wait_for_child(20000);
    if (calls_made(job) != calls) {
      calls = calls_made(job);
      last = now_s();
    }
    if (now_s() - last < limit_s)
      continue;
    job->hung = 1;
    for (int i = 0; i < nranks; i++)
      if (!ended[i])
        kill(ranks[i], SIGKILL);
    limit_s = 1e9;
  }
}

static bool write_all(int file, const void *bytes, size_t size) {
  for (const char *at = bytes; size > 0;) {
    ssize_t n = write(file, at, size);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
    size -= (size_t)n;
  }
  return true;
}

int job_write(struct job *job, int program, int file) {
  uint32_t header[] = {JOB_MAGIC, (uint32_t)program, (uint32_t)job->setup.nranks,
                       (uint32_t)job->hung};
  bool well = write_all(file, header, sizeof header);
  for (int i = 0; well && i < job->setup.nranks; i++) {
    const struct record *record = &job->records[i];
    static char text[TEXT_MAX];
    ssize_t said = pread(job->errors[i], text, sizeof text, 0);
    uint32_t head[] = {record->ncalls, (uint32_t)record->finished, (uint32_t)record->error,
                       (uint32_t)job->statuses[i], said > 0 ? (uint32_t)said : 0};
    well = write_all(file, head, sizeof head) &&
           write_all(file, record->calls, record->ncalls * sizeof *record->calls) &&
           write_all(file, text, head[4]);
  }
  return well;
}
