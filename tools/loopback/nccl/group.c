/* The thread's group, and its end. */
#include "group.h"

#include "connect.h"
#include "device.h"
#include "unit.h"
#include "report.h"

#include <stdlib.h>
#include <string.h>

enum group_mode { MODE_UNKNOWN = -1, MODE_NONBLOCKING = 0, MODE_BLOCKING = 1 };

/* What a group has collected. Units are ordered by communicator hash, as NCCL does, so that all
 * ranks launch those of different communicators in the same order. */
struct group_work {
  struct unit **units;
  size_t nunits, capacity;
  struct job *jobs, **last_job;
  pthread_t thread;    /* of a nonblocking group */
  _Atomic int holders; /* communicators that point here */
  _Atomic bool joined;
};

static _Thread_local struct {
  int depth;
  ncclResult_t error;
  enum group_mode mode;
  struct group_work *work; /* NULL until something is collected */
} group = {0, ncclSuccess, MODE_UNKNOWN, NULL};

void group_start(void) {
  group.depth++;
}

bool group_is_open(void) {
  return group.depth > 0;
}

ncclResult_t group_error(ncclResult_t result) {
  if (group.depth > 0 && result != ncclSuccess && result != ncclInProgress)
    group.error = result;
  return result;
}

static struct group_work *group_collect(void) {
  if (group.work == NULL) {
    group.work = calloc(1, sizeof *group.work);
    if (group.work != NULL)
      group.work->last_job = &group.work->jobs;
  }
  return group.work;
}

static ncclResult_t no_memory(void) {
  report_error("no memory");
  return ncclSystemError;
}

ncclResult_t group_add_job(struct job *job) {
  struct group_work *work = group_collect();
  if (work == NULL) {
    job->drop(job);
    return no_memory();
  }
  if (job->ends) {
    group.mode = MODE_BLOCKING;
  } else if (group.mode == MODE_UNKNOWN) {
    group.mode = (enum group_mode)job->comm->config.blocking;
  } else if (group.mode != (enum group_mode)job->comm->config.blocking) {
    report_error("Blocking and nonblocking communicators are not allowed in the same group.");
    job->drop(job);
    return ncclInvalidArgument;
  }
  job->next = NULL;
  *work->last_job = job;
  work->last_job = &job->next;
  return ncclSuccess;
}

ncclResult_t group_run_alone(struct job *job) {
  ncclResult_t result = job->run(job);
  job->drop(job);
  return result;
}

static struct unit *group_unit_of(struct group_work *work, struct ncclComm *comm) {
  size_t place = 0;
  for (size_t i = 0; i < work->nunits; i++) {
    if (work->units[i]->comm == comm)
      return work->units[i];
    if (work->units[i]->comm->hash <= comm->hash)
      place = i + 1;
  }
  if (work->nunits == work->capacity) {
    size_t capacity = work->capacity == 0 ? 4 : 2 * work->capacity;
    struct unit **grown = realloc(work->units, capacity * sizeof *grown);
    if (grown == NULL)
      return NULL;
    work->units = grown;
    work->capacity = capacity;
  }
  struct unit *unit = unit_create(comm);
  if (unit == NULL)
    return NULL;
  memmove(work->units + place + 1, work->units + place,
          (work->nunits - place) * sizeof *work->units);
  work->units[place] = unit;
  work->nunits++;
  return unit;
}

ncclResult_t group_add_operation(struct ncclComm *comm, const struct operation *operation) {
  struct group_work *work = group_collect();
  struct unit *unit = work != NULL ? group_unit_of(work, comm) : NULL;
  if (unit == NULL || !unit_append(unit, operation))
    return no_memory();
  group.mode = (enum group_mode)comm->config.blocking;
  return ncclSuccess;
}

static void work_free(struct group_work *work) {
  if (work == NULL)
    return;
  for (size_t i = 0; i < work->nunits; i++)
    unit_release(work->units[i]);
  for (struct job *job = work->jobs, *next; job != NULL; job = next) {
    next = job->next;
    job->drop(job);
  }
  free(work->units);
  free(work);
}

/* Applies tell to every communicator of the work that outlives it. */
static void work_each_comm(struct group_work *work,
                           void (*tell)(struct ncclComm *, struct group_work *, ncclResult_t),
                           ncclResult_t result) {
  for (struct job *job = work->jobs; job != NULL; job = job->next)
    if (!job->ends)
      tell(job->comm, work, result);
  for (size_t i = 0; i < work->nunits; i++)
    tell(work->units[i]->comm, work, result);
}

/* An error that came meanwhile stays. */
static void set_async(struct ncclComm *comm, struct group_work *work, ncclResult_t result) {
  (void)work;
  int expected = ncclInProgress;
  if (!comm->config.blocking &&
      !atomic_compare_exchange_strong(&comm->async_result, &expected, (int)result))
    communicator_fail(comm, result);
}

static void *job_thread(void *argument) {
  struct job *job = argument;
  job->result = job->run(job);
  return NULL;
}

/* All at once: they may wait for each other. Returns the first error. */
static ncclResult_t run_jobs(struct job *jobs) {
  if (jobs == NULL)
    return ncclSuccess;
  for (struct job *job = jobs->next; job != NULL; job = job->next) {
    job->detached = pthread_create(&job->thread, NULL, job_thread, job) == 0;
    if (!job->detached)
      job->result = no_memory();
  }
  job_thread(jobs);
  ncclResult_t result = jobs->result;
  for (struct job *job = jobs->next; job != NULL; job = job->next) {
    if (job->detached)
      pthread_join(job->thread, NULL);
    if (result == ncclSuccess)
      result = job->result;
  }
  return result;
}

/* NCCL refuses these when it schedules (enqueue.cc, scheduleP2pTasksToPlan). */
static ncclResult_t check_self_transfers(const struct unit *unit) {
  long sends = 0, receives = 0;
  for (size_t i = 0; i < unit->noperations; i++) {
    const struct operation *operation = &unit->operations[i];
    if (operation_is_collective(operation) || operation->root != unit->comm->rank)
      continue;
    sends += operation->kind == OPERATION_SEND;
    receives += operation->kind == OPERATION_RECV;
  }
  if (sends == receives)
    return ncclSuccess;
  report_error(sends > receives ? "Trying to send to self without a matching recv"
                                : "Trying to recv to self without a matching send");
  return ncclInvalidUsage;
}

/* The units of the same team as unit: all of them list these together in their descriptors. */
static ncclResult_t describe_unit(struct group_work *work, struct unit *unit) {
  struct unit **related = malloc(work->nunits * sizeof(struct unit *));
  if (related == NULL)
    return no_memory();
  size_t nrelated = 0;
  for (size_t i = 0; i < work->nunits; i++)
    if (work->units[i]->comm->team == unit->comm->team)
      related[nrelated++] = work->units[i];
  bool described = unit_describe(unit, related, nrelated);
  free(related);
  if (!described)
    return no_memory();
  struct ncclComm *comm = unit->comm;
  unit->epoch = atomic_load(&comm->epoch);
  return ncclSuccess;
}

static ncclResult_t launch_in_context(struct unit *unit) {
  CUcontext previous;
  ncclResult_t result = device_enter(unit->comm->context, &previous);
  if (result != ncclSuccess)
    return result;
  unit_hold(unit);
  result = unit_launch(unit);
  device_leave(previous);
  return result;
}

/* All say that they are there before any of them waits: one thread may drive several ranks. */
static ncclResult_t connect_units(struct group_work *work, unsigned phase) {
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < work->nunits; i++)
    connect_announce(work->units[i], phase);
  for (size_t i = 0; i < work->nunits && result == ncclSuccess; i++)
    result = connect_await(work->units[i], phase);
  return result;
}

static ncclResult_t launch_units(struct group_work *work) {
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; i < work->nunits && result == ncclSuccess; i++)
    result = check_self_transfers(work->units[i]);
  for (size_t i = 0; i < work->nunits && result == ncclSuccess; i++)
    result = describe_unit(work, work->units[i]);
  for (unsigned phase = 1; phase <= CONNECT_PHASES && result == ncclSuccess; phase++)
    result = connect_units(work, phase);
  for (size_t i = 0; i < work->nunits && result == ncclSuccess; i++)
    result = launch_in_context(work->units[i]);
  return result;
}

static ncclResult_t work_run(struct group_work *work) {
  ncclResult_t result = run_jobs(work->jobs);
  if (result != ncclSuccess)
    return result;
  for (size_t i = 0; i < work->nunits; i++)
    communicator_enter(work->units[i]->comm);
  result = launch_units(work);
  for (size_t i = 0; i < work->nunits; i++)
    communicator_exit(work->units[i]->comm);
  return result;
}

static void *work_thread(void *argument) {
  struct group_work *work = argument;
  work_each_comm(work, set_async, work_run(work));
  return NULL;
}

static void work_release(struct group_work *work) {
  if (atomic_fetch_sub(&work->holders, 1) == 1)
    work_free(work);
}

static void hold_work(struct ncclComm *comm, struct group_work *work, ncclResult_t result) {
  atomic_store(&comm->async_result, (int)result);
  struct group_work *none = NULL;
  if (atomic_compare_exchange_strong(&comm->work, &none, work))
    atomic_fetch_add(&work->holders, 1);
}

void group_work_complete(struct ncclComm *comm) {
  struct group_work *work = atomic_exchange(&comm->work, NULL);
  if (work == NULL)
    return;
  if (!atomic_exchange(&work->joined, true))
    pthread_join(work->thread, NULL);
  work_release(work);
}

static ncclResult_t work_run_in_background(struct group_work *work) {
  work_each_comm(work, hold_work, ncclInProgress);
  if (pthread_create(&work->thread, NULL, work_thread, work) == 0)
    return ncclInProgress;
  work_each_comm(work, set_async, no_memory());
  return ncclSystemError;
}

static ncclResult_t check_simulation(ncclSimInfo_t *simulation) {
  if (simulation->magic == 0x74685283) /* NCCL_SIM_INFO_INITIALIZER */
    return ncclSuccess;
  report_error("ncclSimInfo_t argument not initialized via NCCL_SIM_INFO_INITIALIZER");
  return ncclInvalidArgument;
}

ncclResult_t group_end(ncclSimInfo_t *simulation) {
  if (group.depth == 0) {
    report_error("ncclGroupEnd: not in a group call.");
    return ncclInvalidUsage;
  }
  if (--group.depth > 0)
    return ncclSuccess;

  ncclResult_t result = group.error;
  struct group_work *work = group.work;
  enum group_mode mode = group.mode;
  group.error = ncclSuccess;
  group.work = NULL;
  group.mode = MODE_UNKNOWN;
  if (result == ncclSuccess && simulation != NULL) {
    result = check_simulation(simulation);
    simulation->estimatedTime = result == ncclSuccess ? 0.0f : simulation->estimatedTime;
  }
  if (work == NULL)
    return result;
  if (result != ncclSuccess) {
    work_each_comm(work, set_async, result);
  } else if (simulation == NULL) {
    if (mode == MODE_NONBLOCKING)
      return work_run_in_background(work);
    result = work_run(work);
  }
  work_free(work);
  return result;
}
