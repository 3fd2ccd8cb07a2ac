/* A plug-in that records how long each rank had joined: what uneven inputs cost.
 *
 *   NCCL_JOIN_HOOK=/usr/local/lib/nccl-join/hooks/joined_time.so JOINED_TIME_FILE=joined.csv \
 *     nccl-join run ...
 *
 * Each time that all ranks are together again, every rank appends one line to the file (to stderr
 * if JOINED_TIME_FILE is not set):
 *
 *   communicator,loop,rank,ranks,joined_seconds,shadows,last_joiner
 *
 * joined_seconds is the time from the rank's first shadow of that loop until all were together, on
 * the host; 0 for a rank that had data to the end. communicator is a number that tells those of one
 * process apart. Also the template for a plug-in of your own: see nccl_join_hook.h.
 */
#include <nccl_join_hook.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMUNICATORS 64 /* of one process; those beyond are not recorded */

/* One communicator, from one reunion to the next. */
struct record {
  ncclComm_t comm;
  unsigned loop;
  unsigned long long shadows;
  double begin; /* of the first shadow */
};

struct recorder {
  pthread_mutex_t lock; /* ranks of one process may be in several threads */
  int file;
  ncclJoinLog_t log;
  int ncomms;
  struct record records[COMMUNICATORS];
};

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static ncclResult_t begin(void **context, int *wants, ncclJoinLog_t log) {
  const char *path = getenv("JOINED_TIME_FILE");
  struct recorder *recorder = calloc(1, sizeof *recorder);
  *wants = NCCL_JOIN_HOOK_OBSERVE;
  if (recorder == NULL)
    return ncclSystemError;
  pthread_mutex_init(&recorder->lock, NULL);
  recorder->log = log;
  recorder->file = STDERR_FILENO;
  if (path != NULL && *path != '\0')
    recorder->file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (recorder->file < 0) {
    log(NCCL_JOIN_LOG_ERROR, "joined-time: cannot write JOINED_TIME_FILE=%s: %s", path,
        strerror(errno));
    free(recorder);
    return ncclSystemError;
  }
  *context = recorder;
  return ncclSuccess;
}

/* With the lock; NULL if there are too many. */
static struct record *record_of(struct recorder *recorder, ncclComm_t comm) {
  for (int i = 0; i < recorder->ncomms; i++)
    if (recorder->records[i].comm == comm)
      return &recorder->records[i];
  if (recorder->ncomms == COMMUNICATORS)
    return NULL;
  recorder->records[recorder->ncomms].comm = comm;
  return &recorder->records[recorder->ncomms++];
}

/* A unit may be of several communicators of the same ranks, of which a reunion names the first:
 * all are counted with the one that reunions name. */
static ncclResult_t count_shadow(void *context, const ncclJoinUnit_v1_t *unit) {
  struct recorder *recorder = context;
  pthread_mutex_lock(&recorder->lock);
  struct record *record = record_of(recorder, unit->reunionComm);
  if (record != NULL && record->shadows++ == 0)
    record->begin = now();
  pthread_mutex_unlock(&recorder->lock);
  return ncclSuccess;
}

static ncclResult_t write_record(void *context, const ncclJoinReunion_v1_t *reunion) {
  struct recorder *recorder = context;
  char line[160];
  pthread_mutex_lock(&recorder->lock);
  struct record *record = record_of(recorder, reunion->comm);
  if (record == NULL) {
    pthread_mutex_unlock(&recorder->lock);
    return ncclSuccess;
  }
  int length = snprintf(line, sizeof line, "%d,%u,%d,%d,%.6f,%llu,%d\n",
                        (int)(record - recorder->records), record->loop++, reunion->rank,
                        reunion->nRanks, record->shadows == 0 ? 0.0 : now() - record->begin,
                        record->shadows, reunion->lastJoiner);
  record->shadows = 0;
  pthread_mutex_unlock(&recorder->lock);
  /* One write: lines of several ranks do not mix. A full disk is no reason to stop training. */
  if (write(recorder->file, line, (size_t)length) != length)
    recorder->log(NCCL_JOIN_LOG_WARN, "joined-time: cannot write: %s", strerror(errno));
  return ncclSuccess;
}

static ncclResult_t end(void *context) {
  struct recorder *recorder = context;
  if (recorder->file != STDERR_FILENO)
    close(recorder->file);
  free(recorder);
  return ncclSuccess;
}

__attribute__((visibility("default"))) extern const ncclJoinHook_v1_t ncclJoinHook_v1;
const ncclJoinHook_v1_t ncclJoinHook_v1 = {
    .name = "joined-time",
    .init = begin,
    .mainHook = count_shadow,
    .postHook = write_record,
    .finalize = end,
};
