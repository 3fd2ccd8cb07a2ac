/* Kernels: the work that an argument block describes, channel by channel.
 *
 * A block of the kernel is one channel of the channel mask. It begins with the batch of its own
 * number, takes the work items that the batch's bits name, from the argument block or from a
 * buffer, and goes on to the next batch until there is none. A batch that "extends" is one with
 * the next. */
#include "tests/nccl/device.h"
#include "tests/nccl/image.h"
#include "tests/nccl/task.h"

#include <string.h>
#include <time.h>

enum { ITEMS_MAX = 1024, CHANNELS_MAX = 64 };

/* Device functions, and the kernels that can run them, by the functions' numbers. */
static const void *const *functions, *const *kernels;
static size_t nfunctions;

bool kernel_prepare(void) {
  functions = image_address("ncclDevFuncTable", &nfunctions);
  kernels = image_address("ncclDevKernelForFunc", NULL);
  nfunctions /= sizeof *functions;
  return functions != NULL && kernels != NULL;
}

/* Up to 2.23 there are functions of signed integers for it. */
static bool has_signed_division(void) {
  static int has = -1;
  struct function function;
  for (size_t i = 0; i < nfunctions && has < 1; i++)
    has = function_parse(image_name(functions[i]), &function) &&
          function.reduction == DEVICE_SUM_POST_DIV && function.datatype == ncclInt32;
  return has == 1;
}

uint64_t kernel_divisor(const struct function *function, uint64_t argument) {
  if (!has_signed_division())
    return argument;
  bool is_signed = function->datatype == ncclInt8 || function->datatype == ncclInt32 ||
                   function->datatype == ncclInt64;
  return argument << 1 | is_signed;
}

static bool is_named(size_t number, struct function *function) {
  return function_parse(image_name(functions[number]), function);
}

/* Functions of 8-bit floats are not in the host's table, but their kernels are: those of one
 * datatype and algorithm stand together, LL, LL128 and Simple at the end, behind named ones of the
 * same collective and reduction. */
static bool find_function(size_t number, struct function *function) {
  if (number >= nfunctions)
    return false;
  if (is_named(number, function))
    return true;
  struct function other;
  size_t last = number, before = number;
  while (last + 1 < nfunctions && kernels[last + 1] == kernels[number] &&
         !is_named(last + 1, &other))
    last++;
  while (before > 0 && !is_named(before, function))
    before--;
  if (last - number > PROTOCOL_SIMPLE)
    return false;
  function->protocol = (enum function_protocol)(PROTOCOL_SIMPLE - (last - number));
  return function_of_kernel(image_name(kernels[number]), function);
}

struct launch {
  const struct ncclDevKernelArgs *arguments;
  const struct ncclDevWorkBatch *batches;
  layout_communicator *communicator;
};

struct channel_task {
  struct block block;
  const struct launch *launch;
  int number; /* of the block in the kernel */
};

/* The items of a batch, and of those that it extends to. */
struct items {
  int count;
  unsigned type;
  const void *items[ITEMS_MAX];
};

static size_t item_size(unsigned type) {
  switch (type) {
  case LAYOUT_ncclDevWorkTypeP2p:
    return sizeof(struct ncclDevWorkP2p);
  case LAYOUT_ncclDevWorkTypeColl:
    return sizeof(struct ncclDevWorkColl);
#ifdef LAYOUT_ncclDevWorkTypeBcast
  case LAYOUT_ncclDevWorkTypeBcast:
    return sizeof(struct ncclDevWorkBcast);
#endif
  default:
    DEVICE_REFUSE("work of type %u (registered buffers)", type);
  }
}

static const void *item_at(const struct launch *launch, size_t offset, size_t size) {
  const struct ncclDevKernelArgs *arguments = launch->arguments;
  if (arguments->workStorageType == LAYOUT_ncclDevWorkStorageTypeArgs)
    return (const char *)arguments + offset;
  return device_at((const char *)arguments->workBuf + (offset & arguments->workMask), size);
}

static void take_items(const struct launch *launch, const struct ncclDevWorkBatch *batch,
                       struct items *items) {
  size_t size = item_size(batch->workType);
  for (int i = 0; i < 64; i++) {
    if (!(batch->offsetBitset >> i & 1))
      continue;
    if (items->count == ITEMS_MAX)
      DEVICE_REFUSE("a batch of more than %d work items", ITEMS_MAX);
    items->items[items->count++] = item_at(launch, batch->offsetBase + (size_t)i * size, size);
  }
}

/* ---- what the host hears of it ---- */

#ifdef HAS_communicator_workConsumed
/* The host may write over what has been read of its buffer. */
static void say_consumed(const struct channel_task *task, const struct ncclDevWorkBatch *batch) {
  const struct launch *launch = task->launch;
  if (launch->arguments->workStorageType != LAYOUT_ncclDevWorkStorageTypeFifo ||
      !batch->offsetBitset)
    return;
  uint32_t *consumed = DEVICE_ARRAY(launch->communicator->workConsumed, CHANNELS_MAX);
  unsigned items = 64 - (unsigned)__builtin_clzll(batch->offsetBitset);
  ((volatile uint32_t *)consumed)[task->block.channel_id] =
      batch->offsetBase + items * (uint32_t)item_size(batch->workType);
}
#else
static void say_consumed(const struct channel_task *task, const struct ncclDevWorkBatch *batch) {
  (void)task, (void)batch;
}
#endif

#if defined HAS_ncclDevProfiler_data && defined HAS_ncclDevChannel_workCounter
static bool is_profiled(const struct items *items, int i) {
  if (items->type == LAYOUT_ncclDevWorkTypeP2p)
    return ((const struct ncclDevWorkP2p *)items->items[i])->profilerEnabled;
  if (items->type == LAYOUT_ncclDevWorkTypeColl)
    return ((const struct ncclDevWorkColl *)items->items[i])->profilerEnabled;
  return false;
}

/* A counter and a time for each work item, which NCCL's profiler thread looks at. */
static void say_progress(const struct channel_task *task, const struct items *items,
                         struct ncclDevProfiler *of_channels) {
  uint64_t counter = task->block.channel->workCounter;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  for (int i = 0; i < items->count; i++) {
    counter++;
    if (!is_profiled(items, i) || of_channels == NULL)
      continue;
    struct ncclDevProfiler *channel = DEVICE_OBJECT(&of_channels[task->block.channel_id]);
    size_t entries = sizeof channel->data / sizeof channel->data[0];
    channel->data[counter % entries].timestamp =
        (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    __atomic_store_n(&channel->data[counter % entries].counter, counter, __ATOMIC_RELEASE);
  }
}

static void say_started(const struct channel_task *task, const struct items *items) {
  say_progress(task, items, task->launch->communicator->workStarted);
}

static void say_completed(const struct channel_task *task, const struct items *items) {
  say_progress(task, items, task->launch->communicator->workCompleted);
  task->block.channel->workCounter += (uint64_t)items->count;
}
#else
static void say_started(const struct channel_task *task, const struct items *items) {
  (void)task, (void)items;
}
static void say_completed(const struct channel_task *task, const struct items *items) {
  (void)task, (void)items;
}
#endif

/* ---- running it ---- */

/* All at the same time: a group's sends and receives wait for each other in any order. */
static void run_p2p(const struct block *block, const struct items *items) {
  struct p2p_side sides[2 * 64];
  struct task_group group = {0};
  if (items->count > 64)
    DEVICE_REFUSE("a batch of %d sends and receives", items->count);
  for (int i = 0; i < 2 * items->count; i++) {
    sides[i] = (struct p2p_side){block, items->items[i / 2], i % 2 == 0};
    task_spawn(&group, p2p_run, &sides[i]);
  }
  task_join(&group);
}

static void run_items(const struct block *block, unsigned number, const struct items *items) {
  struct function function;
  if (items->type == LAYOUT_ncclDevWorkTypeP2p) {
    run_p2p(block, items);
    return;
  }
  if (!find_function(number, &function))
    DEVICE_REFUSE("device function %u", number);
#ifdef LAYOUT_ncclDevWorkTypeBcast
  if (items->type == LAYOUT_ncclDevWorkTypeBcast) {
    all_gather_v_run(block, &function, (struct ncclDevWorkBcast *const *)items->items,
                     items->count);
    return;
  }
#endif
  for (int i = 0; i < items->count; i++)
    collective_run(block, &function, items->items[i]);
}

static void run_channel(void *argument) {
  struct channel_task *task = argument;
  const struct ncclDevWorkBatch *batch = &task->launch->batches[task->number];
  for (;; batch += batch->nextJump) {
    const struct ncclDevWorkBatch *first = batch;
    struct items items = {.type = first->workType};
    take_items(task->launch, batch, &items);
    while (batch->nextExtends) {
      batch += batch->nextJump;
      take_items(task->launch, batch, &items);
    }
    say_started(task, &items);
    run_items(&task->block, first->funcId, &items);
    say_completed(task, &items);
    say_consumed(task, batch);
    if (batch->nextJump == 0)
      break;
  }
}

static void run_blocks(void *argument) {
  const struct launch *launch = argument;
  struct channel_task tasks[CHANNELS_MAX];
  struct task_group group = {0};
  int number = 0;
  for (int id = 0; id < CHANNELS_MAX; id++) {
    if (!(launch->arguments->channelMask >> id & 1))
      continue;
    tasks[number] = (struct channel_task){
        {launch->communicator, DEVICE_OBJECT(&launch->communicator->channels[id]), id},
        launch,
        number};
    task_spawn(&group, run_channel, &tasks[number++]);
  }
  task_join(&group);
}

void kernel_run(const void *arguments) {
  const struct ncclDevKernelArgs *block = arguments;
  struct launch launch = {block, (const struct ncclDevWorkBatch *)(block + 1),
                          DEVICE_OBJECT(block->comm)};
  tasks_run(run_blocks, &launch,
            DEVICE_OBJECT((const uint32_t *)(uintptr_t)launch.communicator->abortFlag));
}
