/* Launching units on streams, and running them there. */
#include "unit.h"

#include "exchange.h"
#include "communicator.h"
#include "device.h"
#include "report.h"

/* Nobody else is at work: units of a communicator run one after the other. */
static void number(struct ncclComm *comm, struct unit *unit) {
  unit->index = unit->collective ? comm->collective_units++ : comm->p2p_units++;
}

static enum meeting_result run_collectives(struct ncclComm *comm, const struct unit *unit) {
  if (!unit->collective)
    return MEETING_REACHED;
  struct exchange exchange = exchange_begin(comm, unit);
  for (size_t i = 0; i < unit->noperations; i++) {
    if (!operation_is_collective(&unit->operations[i]))
      continue;
    enum meeting_result result = collective_run(&exchange, &unit->operations[i]);
    if (result != MEETING_REACHED)
      return result;
  }
  return MEETING_REACHED;
}

static void unit_log(const struct ncclComm *comm, const struct unit *unit) {
  report_log("comm=%016llx rank=%d nranks=%d %s=%llu %s", (unsigned long long)comm->hash,
             comm->rank, comm->nranks, unit->collective ? "unit" : "p2p",
             (unsigned long long)unit->index, unit->log);
}

/* The host function: runs on the stream's worker. */
static void unit_run(void *argument) {
  struct unit *unit = argument;
  struct ncclComm *comm = unit->comm;
  communicator_enter(comm);
  if (communicator_is_alive(comm, unit->epoch)) {
    number(comm, unit);
    enum meeting_result result = run_collectives(comm, unit);
    if (result == MEETING_REACHED)
      result = transfers_run(comm, unit);
    switch (result) {
    case MEETING_REACHED:
      unit_log(comm, unit);
      break;
    case MEETING_CANCELLED:
      break;
    case MEETING_LOST:
      communicator_fail(comm, ncclRemoteError);
      break;
    }
  }
  communicator_exit(comm);
  communicator_unit_done(comm);
  unit_release(unit); /* with it, perhaps, the communicator */
}

/* Calls join for every stream of the unit but the first, once. */
static ncclResult_t each_other_stream(const struct unit *unit,
                                      ncclResult_t (*join)(const struct unit *, CUstream)) {
  for (size_t i = 1; i < unit->noperations; i++) {
    bool seen = false;
    for (size_t j = 0; j < i && !seen; j++)
      seen = unit->operations[j].stream == unit->operations[i].stream;
    if (seen)
      continue;
    ncclResult_t result = join(unit, unit->operations[i].stream);
    if (result != ncclSuccess)
      return result;
  }
  return ncclSuccess;
}

static ncclResult_t wait_for_stream(const struct unit *unit, CUstream stream) {
  return device_order(unit->comm->fork, stream, unit->operations[0].stream);
}

static ncclResult_t release_stream(const struct unit *unit, CUstream stream) {
  return device_wait(stream, unit->comm->order);
}

static ncclResult_t rejoin_stream(const struct unit *unit, CUstream stream) {
  return device_wait(stream, unit->comm->fork);
}

/* Everything of the launch that is on streams. The worker may be through with the unit before this
 * returns. */
static ncclResult_t put_on_streams(struct unit *unit) {
  struct ncclComm *comm = unit->comm;
  CUstream stream = unit->operations[0].stream;
  ncclResult_t result = ncclSuccess;
  if (comm->ordered && comm->last_stream != stream)
    result = device_wait(stream, comm->order);
  if (result == ncclSuccess)
    result = each_other_stream(unit, wait_for_stream);
  if (result == ncclSuccess)
    result = device_launch(stream, unit_run, unit);
  if (result != ncclSuccess) {
    communicator_unit_done(comm);
    unit_release(unit);
    return result;
  }
  comm->ordered = true;
  comm->last_stream = stream;
  result = device_record(comm->order, stream);
  return result == ncclSuccess ? each_other_stream(unit, release_stream) : result;
}

/* Once for each launch of the graph. */
static void unit_run_captured(void *argument) {
  struct unit *unit = argument;
  unit_hold(unit);
  communicator_unit_launched(unit->comm);
  unit_run(unit);
}

/* Other streams of the unit join the capture, as far as CUDA lets them. */
static ncclResult_t unit_capture(struct unit *unit) {
  struct ncclComm *comm = unit->comm;
  CUstream stream = unit->operations[0].stream;
  ncclResult_t result = each_other_stream(unit, wait_for_stream);
  if (result == ncclSuccess)
    result = device_launch(stream, unit_run_captured, unit);
  if (result != ncclSuccess) {
    unit_release(unit);
    return result;
  }
  unit->next_captured = comm->captured;
  comm->captured = unit;
  result = device_record(comm->fork, stream);
  return result == ncclSuccess ? each_other_stream(unit, rejoin_stream) : result;
}

/* NCCL takes all of a group or nothing (enqueue.cc, taskAppend; group.cc). */
static ncclResult_t find_capture(const struct unit *unit, bool *captured) {
  for (size_t i = 0; i < unit->noperations; i++) {
    bool capturing;
    ncclResult_t result = device_is_capturing(unit->operations[i].stream, &capturing);
    if (result != ncclSuccess)
      return result;
    if (i > 0 && capturing != *captured) {
      report_error("streams that are captured and streams that are not in one group");
      return ncclInvalidUsage;
    }
    *captured = capturing;
  }
  return ncclSuccess;
}

ncclResult_t unit_launch(struct unit *unit) {
  bool captured = false;
  ncclResult_t found = find_capture(unit, &captured);
  if (found != ncclSuccess || captured) {
    if (found == ncclSuccess)
      return unit_capture(unit);
    unit_release(unit);
    return found;
  }
  unit_hold(unit); /* for the worker */
  communicator_unit_launched(unit->comm);
  ncclResult_t result = put_on_streams(unit);
  unit_release(unit);
  return result;
}
