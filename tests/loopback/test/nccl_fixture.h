/* What the tests of the loopback NCCL share: ranks in processes or threads of their own, and what
 * became of them.
 *
 * Ranks always live in children of the test, forked before the first CUDA call. A child that gets
 * stuck is ended by an alarm. Inside a rank use EXPECT, not Criterion's assertions: those belong to
 * the test's own process.
 */
#ifndef TEST_NCCL_FIXTURE_H
#define TEST_NCCL_FIXTURE_H

#include <criterion/criterion.h>
#include <cuda.h>
#include <nccl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RANKS_MAX 8
#define OUTPUT_BYTES 65536

/* Memory that all ranks see, zero at first, for what a test has to say between them. */
struct blackboard {
  ncclUniqueId ids[4];
  _Atomic int number[16];
  int64_t long_number[16];
};

struct rank {
  int rank, nranks;
  ncclUniqueId id; /* the same on all */
  struct blackboard *blackboard;
  CUstream stream;
  ncclComm_t comm; /* set by rank_join */
};

typedef void rank_body(struct rank *rank);

struct run {
  int status[RANKS_MAX];     /* as from waitpid; of threads, the process's, in [0] */
  char output[OUTPUT_BYTES]; /* stdout and stderr of all, mixed */
  int names_left;            /* of the ids' communicators, in shared memory */
};

/* Runs body on nranks, each a process, or each a thread of one process, and waits. Device of a rank
 * is its number. */
void run_processes(struct run *run, int nranks, rank_body *body);
void run_threads(struct run *run, int nranks, rank_body *body);

/* Every rank ended with exit status 0. */
void expect_success(const struct run *run, int nranks);
/* Every rank ended with this exit status. */
void expect_status(const struct run *run, int nranks, int status);
void expect_output(const struct run *run, const char *text);

/* Both ways, success, and nothing left in shared memory. */
void run_both(int nranks, rank_body *body);

#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition))                                                                              \
      rank_fail(__FILE__, __LINE__, #condition);                                                   \
  } while (0)

#define EXPECT_RESULT(call, wanted) expect_result(__FILE__, __LINE__, #call, call, wanted)
#define OK(call) EXPECT_RESULT(call, ncclSuccess)

_Noreturn void rank_fail(const char *file, int line, const char *what);
void expect_result(const char *file, int line, const char *call, ncclResult_t result,
                   ncclResult_t wanted);

/* Creates rank->comm over all ranks with rank->id. */
void rank_join(struct rank *rank);

/* Makes the calling thread's device; rank bodies start with theirs. */
void use_device(int device);

CUstream stream_create(void);
void stream_wait(CUstream stream);

/* Device memory; contents NULL: zeros. */
void *device_new(const void *contents, size_t size);
void device_get(const void *device, void *host, size_t size);
void device_put(void *device, const void *host, size_t size);
void device_delete(void *device);

/* Milliseconds since some point. */
int64_t now_ms(void);

/* A rank meets nobody but waits until all nranks have called it, point by point; not through NCCL.
 */
void rank_barrier(struct rank *rank, int point);

#endif
