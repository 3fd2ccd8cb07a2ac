/* A generated program's calls: contributions, records, results (rank.h). */
#include "tests/generated/rank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/generated/buffers.h"

enum { STATUS_FAILED = 3 };

/* NCCL has returned an error, or CUDA: nothing after that means anything. */
static _Noreturn void fail(struct rank *rank, const char *what, int error) {
  fprintf(stderr, "rank %d: %s: %d\n", rank->rank, what, error);
  rank->record->error = error;
  exit(STATUS_FAILED);
}

static void check(struct rank *rank, cudaError_t error, const char *what) {
  if (error != cudaSuccess)
    fail(rank, what, (int)error);
}

/* ---- contributions ---- */

static size_t datatype_size(ncclDataType_t datatype) {
  return datatype == ncclFloat || datatype == ncclInt32 ? 4 : 8;
}

/* Whole numbers up to 2 to the power of these are exact, sums and averages of six too. */
static int datatype_bits(ncclDataType_t datatype) {
  switch (datatype) {
  case ncclFloat:
    return 22;
  case ncclInt32:
    return 30;
  case ncclInt64:
    return 62;
  default:
    return 48;
  }
}

static void put(void *buffer, size_t at, ncclDataType_t datatype, int64_t value) {
  switch (datatype) {
  case ncclFloat:
    ((float *)buffer)[at] = (float)value;
    break;
  case ncclInt32:
    ((int32_t *)buffer)[at] = (int32_t)value;
    break;
  case ncclInt64:
    ((int64_t *)buffer)[at] = value;
    break;
  default:
    ((double *)buffer)[at] = (double)value;
    break;
  }
}

static double get(const void *buffer, size_t at, ncclDataType_t datatype) {
  switch (datatype) {
  case ncclFloat:
    return (double)((const float *)buffer)[at];
  case ncclInt32:
    return (double)((const int32_t *)buffer)[at];
  default:
    return ((const double *)buffer)[at];
  }
}

/* An element of the result as the whole number that it must be; -1 if it is none. */
static int64_t get_whole(const void *buffer, size_t at, const struct point *point, int size) {
  if (point->datatype == ncclInt64)
    return ((const int64_t *)buffer)[at];
  double value = get(buffer, at, point->datatype);
  if (point->operation == ncclAvg && point->collective != BROADCAST)
    value *= size;
  double whole = nearbyint(value);
  double room = point->datatype == ncclFloat ? 0.01 : 0.3;
  return fabs(value - whole) < room && fabs(whole) < 4e18 ? (int64_t)whole : -1;
}

static int is_vector(const struct point *point, int size) {
  return point->count >= size;
}

static void fill(void *buffer, const struct point *point, int size, int me, int64_t number,
                 size_t elements) {
  memset(buffer, 0, elements * datatype_size(point->datatype));
  if (point->collective >= ALL_TO_ALL) {
    for (size_t j = 0; j < elements; j++)
      put(buffer, j, point->datatype, number);
    return;
  }
  if (is_vector(point, size)) {
    for (size_t j = 0; j < elements; j++)
      if ((int)(j % (size_t)point->count) % size == me)
        put(buffer, j, point->datatype, number);
    return;
  }
  for (size_t j = 0; j < elements; j++)
    put(buffer, j, point->datatype, number << (datatype_bits(point->datatype) / size * me));
}

/* Into numbers, by rank of the communicator; 0: not there. False if it is no possible result. */
static int decode(const void *buffer, const struct point *point, int size, int64_t *numbers) {
  int bits = datatype_bits(point->datatype) / size;
  for (int lane = 0; lane < size; lane++)
    numbers[lane] = -1;
  for (int j = 0; j < point->count; j++) {
    int64_t whole = get_whole(buffer, (size_t)j, point, size);
    if (whole < 0)
      return 0;
    for (int lane = 0; lane < size; lane++) {
      if (is_vector(point, size) && j % size != lane)
        continue;
      int64_t number =
          is_vector(point, size) ? whole : whole >> bits * lane & ((INT64_C(1) << bits) - 1);
      if (number > CALLS_MAX || (numbers[lane] >= 0 && numbers[lane] != number))
        return 0;
      numbers[lane] = number;
    }
    if (!is_vector(point, size) && whole >> bits * size != 0)
      return 0;
  }
  return 1;
}

/* Of messages: each is the sender's number, all over. What nobody has sent is negative still. */
static int decode_messages(const void *buffer, const struct point *point, int size, int me,
                           int64_t own, int64_t *numbers) {
  memset(numbers, 0, (size_t)size * sizeof *numbers);
  int first = point->collective == ALL_TO_ALL ? 0 : me + (point->collective == BACKWARD ? 1 : -1);
  int last = point->collective == ALL_TO_ALL ? size - 1 : first;
  if (point->collective == RING)
    first = last = (me + size - 1) % size;
  for (int from = first; from <= last; from++) {
    if (from < 0 || from >= size)
      continue;
    size_t at = (size_t)(from - first) * (size_t)point->count;
    for (size_t j = at; j < at + (size_t)point->count; j++) {
      int64_t number = get_whole(buffer, j, point, size);
      if (number < 0 || number > CALLS_MAX || (j > at && number != numbers[from]))
        return 0;
      numbers[from] = number;
    }
  }
  if (point->collective != ALL_TO_ALL)
    numbers[me] = own;
  return 1;
}

/* ---- a call ---- */

static uint32_t said(void) {
  struct stat state;
  return fstat(STDERR_FILENO, &state) == 0 ? (uint32_t)state.st_size : 0;
}

/* On the stream of the collective: others are not ordered with it. */
static void copy_in(struct rank *rank, void *device, size_t size) {
  check(rank,
        cudaMemcpyAsync(device, rank->buffers->host, size, cudaMemcpyHostToDevice, rank->stream),
        "cudaMemcpyAsync");
}

void rank_before(struct rank *rank, int point, int epoch, int iteration) {
  struct record *record = rank->record;
  const struct point *what = &rank->setup->points[point];
  int size = rank->axes[what->axis].size;
  struct buffers *buffers = rank->buffers;
  size_t block = (size_t)what->count * datatype_size(what->datatype);
  size_t receives = what->collective == ALL_TO_ALL ? block * (size_t)size : block;
  size_t sends = what->collective == REDUCE_SCATTER ? block * (size_t)size : receives;
  if (record->ncalls == CALLS_MAX)
    fail(rank, "more calls than there is room for", 0);
  if (buffers_full(buffers, sends + receives))
    rank_synchronise(rank);
  struct pending *pending = buffers_take(buffers, sends, receives);
  pending->call = &record->calls[record->ncalls];
  *pending->call = (struct call){.point = (uint16_t)point,
                                 .epoch = (uint16_t)epoch,
                                 .iteration = (uint16_t)iteration,
                                 .axis = (uint8_t)what->axis};
  record->ncalls++;
  int me = rank->axes[what->axis].me;
  fill(buffers->host, what, size, me, record->ncalls, sends / datatype_size(what->datatype));
  copy_in(rank, pending->send, sends);
  if (what->collective >= ALL_TO_ALL) {
    check(rank, cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
    fill(buffers->host, what, size, me, -1, receives / datatype_size(what->datatype));
  }
  copy_in(rank, pending->receive, receives);
  rank->send = pending->send;
  rank->receive = pending->receive;
}

void rank_begin(struct rank *rank) {
  rank_before(rank, rank->next.point, rank->next.epoch, rank->next.iteration);
}

void rank_after(struct rank *rank, ncclResult_t result) {
  struct pending *pending = &rank->buffers->pending[rank->buffers->npending - 1];
  pending->call->said = said();
  if (result != ncclSuccess) {
    pending->call->state = CALL_FAILED;
    fail(rank, "an NCCL call returned", (int)result);
  }
  if (!rank->setup->run_ahead)
    rank_synchronise(rank);
}

/* FNV-1a. */
static uint64_t digest(const void *bytes, size_t size) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < size; i++)
    hash = (hash ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* For the tests of the tests: the result of this call of each rank is spoilt. */
static uint32_t tampered_call(void) {
  static long call = -1;
  const char *text = getenv("GENERATED_TAMPER");
  if (call < 0)
    call = text != NULL ? strtol(text, NULL, 10) : 0;
  return (uint32_t)call;
}

static void look_at_result(struct rank *rank, const struct pending *pending) {
  struct call *call = pending->call;
  const struct point *point = &rank->setup->points[call->point];
  int size = rank->axes[point->axis].size, me = rank->axes[point->axis].me;
  void *host = rank->buffers->host;
  check(rank, cudaMemcpy(host, pending->receive, pending->receives, cudaMemcpyDeviceToHost),
        "cudaMemcpy");
  uint32_t number = (uint32_t)(call - rank->record->calls) + 1;
  if (tampered_call() == number)
    put(host, 0, point->datatype, 1 + (int64_t)get(host, 0, point->datatype));
  call->digest = digest(host, pending->receives);
  int64_t numbers[RANKS_MAX];
  if (point->collective == REDUCE && me != point->root) {
    call->digest = 0; /* undefined */
    call->seen[rank->rank] = (int16_t)number;
  } else if (point->collective >= ALL_TO_ALL
                 ? decode_messages(host, point, size, me, number, numbers)
                 : decode(host, point, size, numbers)) {
    rank->value = rank->met = 0;
    for (int lane = 0; lane < size; lane++) {
      rank->value += (int)numbers[lane];
      rank->met += numbers[lane] != 0;
    }
    for (int lane = 0; lane < size; lane++)
      call->seen[rank->axes[point->axis].ranks[lane]] = (int16_t)numbers[lane];
  } else {
    call->state = CALL_GARBAGE;
    return;
  }
  call->state = CALL_DONE;
}

void rank_synchronise(struct rank *rank) {
  check(rank, cudaStreamSynchronize(rank->stream), "cudaStreamSynchronize");
  for (int i = 0; i < rank->buffers->npending; i++)
    look_at_result(rank, &rank->buffers->pending[i]);
  buffers_empty(rank->buffers);
}

void rank_load(struct rank *rank) {
  rank->step++;
  if (rank->setup->pauses_us[rank->rank] != 0)
    usleep((useconds_t)rank->setup->pauses_us[rank->rank]);
}

void rank_log(struct rank *rank, int what) {
  rank->step += what & 1;
}

static struct batch lists[BATCHES_MAX + 1][BATCHES_MAX];
static int arrays[BATCHES_MAX + 1][BATCHES_MAX + 1];

__attribute__((constructor)) static void make_batches(void) {
  for (int count = 0; count <= BATCHES_MAX; count++) {
    for (int at = 0; at < count; at++) {
      lists[count][at] = (struct batch){at + 1 < count ? &lists[count][at + 1] : NULL, at};
      arrays[count][at] = at;
    }
    arrays[count][count] = -1;
  }
}

static int at_most(int count) {
  if (count <= BATCHES_MAX)
    return count;
  fprintf(stderr, "generated: a loop of %d batches, of at most %d\n", count, BATCHES_MAX);
  exit(STATUS_FAILED);
}

const struct batch *rank_batches(int count) {
  return count > 0 ? lists[at_most(count)] : NULL;
}

int rank_known(int number) {
  return number;
}

const int *rank_numbers(int count) {
  return arrays[count > 0 ? at_most(count) : 0];
}

const int *rank_numbers_end(int count) {
  return rank_numbers(count) + (count > 0 ? count : 0);
}

int rank_value(struct rank *rank) {
  rank_synchronise(rank);
  return rank->value;
}

int rank_met(struct rank *rank) {
  rank_synchronise(rank);
  return rank->met;
}

int rank_draw(const struct rank *rank, int own, int a, int b, int salt) {
  uint32_t hash = (uint32_t)((((own ? rank->rank : 0) * 31 + a) * 101 + b) * 13 + salt);
  hash *= UINT32_C(2654435761);
  return (int)(hash >> 13 & 1023);
}

int rank_data(const struct rank *rank, int epoch, int iteration, int salt) {
  uint32_t hash = (uint32_t)(((rank->rank * 31 + epoch) * 101 + iteration) * 13 + salt);
  hash *= UINT32_C(2654435761);
  return hash >> 17 & 1;
}
