/* Collectives on rings and trees, and sends and receives.
 *
 * A channel has a part of the data, and moves it chunk by chunk. All ranks go through the same
 * chunks in the same order, so that what one puts into a slot is what the next one takes out. */
#include "tests/nccl/mover.h"
#include "tests/nccl/task.h"

enum {
  GRAIN_LL = 16, /* chunks are multiples of these, in bytes */
  GRAIN_LL128 = 1920,
  GRAIN_SIMPLE = 512,
  RING_SLICES = 2, /* of a chunk of an all-reduce, all-gather or reduce-scatter on a ring */
  RING_STRIDE = 2, /* steps of such a slice */
  P2P_PART = 4096, /* parts of a send over several channels are multiples of that */
};

/* A work item, for one channel. Numbers are elements, size_t but where they may go below zero. */
struct job {
  const struct block *block;
  const struct function *function;
  const struct ncclDevWorkColl *work;
  struct mover mover;
  const char *input;
  char *output;
  int64_t total, offset, count, chunk;
  size_t element;
  int rank, nranks;
  int *ring; /* ranks, this one first */
};

static int64_t smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void find_part(struct job *job) {
  static const int64_t grains[] = {GRAIN_LL, GRAIN_LL128, GRAIN_SIMPLE};
  const struct ncclDevWorkColl *work = job->work;
  int64_t grain = grains[job->function->protocol] / (int64_t)job->element;
  int64_t between = (int64_t)work->channelHi - (int64_t)work->channelLo - 1;
  int64_t low = (int64_t)work->cbd.countLo, middle = (int64_t)work->cbd.countMid,
          high = (int64_t)work->cbd.countHi;
  job->total = low + (between > 0 ? between * middle : 0) + (between >= 0 ? high : 0);
  if (job->block->channel_id == (int)work->channelLo) {
    job->count = low;
    job->chunk = (int64_t)work->cbd.chunkGrainsLo * grain;
  } else if (job->block->channel_id == (int)work->channelHi) {
    job->offset = low + between * middle;
    job->count = high;
    job->chunk = (int64_t)work->cbd.chunkGrainsHi * grain;
  } else {
    job->offset = low + (job->block->channel_id - (int)work->channelLo - 1) * middle;
    job->count = middle;
    job->chunk = (int64_t)work->cbd.chunkGrainsMid * grain;
  }
}

/* What a step of a collective does, by element offsets in the two buffers; -1: not that one. */
struct step {
  int64_t from, to; /* in the program's buffers */
  bool receives, sends, last;
};

static void step(struct job *job, struct step step, int64_t count) {
  struct mover_chunk chunk = {.receives = step.receives, .sends = step.sends, .last = step.last};
  if (step.from >= 0)
    chunk.input = job->input + (size_t)step.from * job->element;
  if (step.to >= 0)
    chunk.output = job->output + (size_t)step.to * job->element;
  mover_move(&job->mover, chunk, count);
}

/* ---- rings ---- */

static void open_ring(struct job *job, int slices, int stride) {
  struct ncclRing *ring = &job->block->channel->ring;
  mover_open(&job->mover, &(struct mover_plan){.block = job->block,
                                               .reducer = job->mover.reducer,
                                               .protocol = job->function->protocol,
                                               .slices = slices,
                                               .stride = stride,
                                               .from = &ring->prev,
                                               .to = &ring->next,
                                               .nfrom = 1,
                                               .nto = 1});
  job->ring = DEVICE_ARRAY(ring->userRanks, job->nranks);
}

/* One loop of a ring all-reduce: as many chunks as ranks, of which each rank reduces one to its
 * end. */
static void all_reduce_loop(struct job *job, int64_t begin, int64_t rest, int64_t chunk) {
  int n = job->nranks, index = job->block->channel->ring.index;
  for (int i = 1; i <= 2 * n - 1; i++) {
    int number = (index + 2 * n - i) % n;
    int64_t first = number * chunk, at = begin + first;
    int64_t count = smaller(chunk, rest - first);
    if (i == 1)
      step(job, (struct step){.from = at, .to = -1, .sends = true}, count);
    else if (i < n)
      step(job, (struct step){.from = at, .to = -1, .receives = true, .sends = true}, count);
    else if (i == n)
      step(job, (struct step){at, at, .receives = true, .sends = true, .last = true}, count);
    else
      step(job, (struct step){-1, at, .receives = true, .sends = i < 2 * n - 1}, count);
  }
}

static void ring_all_reduce(struct job *job) {
  open_ring(job, RING_SLICES, RING_STRIDE);
  int64_t unit = 16 / (int64_t)job->element, loop = job->nranks * job->chunk;
  for (int64_t done = 0; done < job->count; done += loop) {
    int64_t rest = job->count - done, chunk = job->chunk;
    if (rest < loop) {
      chunk = (rest + job->nranks - 1) / job->nranks;
      chunk = (chunk + unit - 1) / unit * unit;
    }
    all_reduce_loop(job, job->offset + done, rest, chunk);
  }
}

static void ring_all_gather(struct job *job) {
  open_ring(job, RING_SLICES, RING_STRIDE);
  int n = job->nranks;
  for (int64_t done = 0; done < job->count; done += job->chunk) {
    int64_t count = smaller(job->chunk, job->count - done), at = job->offset + done;
    step(job, (struct step){at, at + job->rank * job->total, .sends = true}, count);
    for (int i = 1; i < n; i++)
      step(job,
           (struct step){-1, at + job->ring[n - i] * job->total, .receives = true,
                         .sends = i < n - 1},
           count);
  }
}

static void ring_reduce_scatter(struct job *job) {
  open_ring(job, RING_SLICES, RING_STRIDE);
  int n = job->nranks;
  for (int64_t done = 0; done < job->count; done += job->chunk) {
    int64_t count = smaller(job->chunk, job->count - done), at = job->offset + done;
    for (int i = 1; i <= n; i++) {
      int64_t from = at + job->ring[n - i] * job->total;
      bool last = i == n;
      step(job,
           (struct step){from, last ? at : -1, .receives = i > 1, .sends = !last, .last = last},
           count);
    }
  }
}

static void ring_broadcast(struct job *job) {
  open_ring(job, 1, 1);
  int root = (int)job->work->root;
  bool sends = job->block->channel->ring.next != root;
  for (int64_t done = 0; done < job->count; done += job->chunk) {
    int64_t count = smaller(job->chunk, job->count - done), at = job->offset + done;
    if (job->rank == root)
      step(job, (struct step){at, at, .sends = true}, count);
    else
      step(job, (struct step){-1, at, .receives = true, .sends = sends}, count);
  }
}

static void ring_reduce(struct job *job) {
  open_ring(job, 1, 1);
  int root = (int)job->work->root;
  bool first = job->block->channel->ring.prev == root;
  for (int64_t done = 0; done < job->count; done += job->chunk) {
    int64_t count = smaller(job->chunk, job->count - done), at = job->offset + done;
    if (job->rank == root)
      step(job, (struct step){at, at, .receives = true, .last = true}, count);
    else
      step(job, (struct step){at, -1, .receives = !first, .sends = true}, count);
  }
}

/* ---- trees ---- */

static void open_tree(struct job *job, bool from_children, bool to_children) {
  struct ncclTree *tree = &job->block->channel->tree;
  mover_open(&job->mover, &(struct mover_plan){.block = job->block,
                                               .reducer = job->mover.reducer,
                                               .protocol = job->function->protocol,
                                               .slices = 1,
                                               .stride = 1,
                                               .from = from_children ? tree->down : &tree->up,
                                               .to = to_children ? tree->down : &tree->up,
                                               .nfrom = from_children ? LINKS_MAX : 1,
                                               .nto = to_children ? LINKS_MAX : 1});
}

static void each_chunk_of_tree(struct job *job, bool input, bool output, bool last) {
  for (int64_t done = 0; done < job->count; done += job->chunk) {
    int64_t at = job->offset + done;
    step(job,
         (struct step){input ? at : -1, output ? at : -1, job->mover.nfrom > 0, job->mover.nto > 0,
                       last},
         smaller(job->chunk, job->count - done));
  }
  mover_close(&job->mover);
}

static void reduce_upwards(void *argument) {
  struct job *job = argument;
  open_tree(job, true, false);
  each_chunk_of_tree(job, true, false, false);
}

static void broadcast_downwards(void *argument) {
  struct job *job = argument;
  open_tree(job, false, true);
  each_chunk_of_tree(job, false, true, false);
}

/* Both directions at the same time; at the root they are one. */
static void tree_all_reduce(struct job *job) {
  if (job->block->channel->tree.up < 0) {
    open_tree(job, true, true);
    each_chunk_of_tree(job, true, true, true);
    return;
  }
  struct task_group both = {0};
  struct job other = *job;
  task_spawn(&both, reduce_upwards, job);
  task_spawn(&both, broadcast_downwards, &other);
  task_join(&both);
}

/* ---- */

static uint64_t argument_of(const struct function *function, const struct ncclDevWorkColl *work,
                            size_t element) {
  if (function->reduction == DEVICE_SUM_POST_DIV)
    return kernel_divisor(function, work->redOpArg);
  if (!work->redOpArgIsPtr)
    return work->redOpArg;
  uint64_t argument = 0;
  const char *bytes = device_at((const void *)(uintptr_t)work->redOpArg, element);
  __builtin_memcpy(&argument, bytes, element);
  return argument;
}

void collective_run(const struct block *block, const struct function *function,
                    const struct ncclDevWorkColl *work) {
  struct job job = {.block = block,
                    .function = function,
                    .work = work,
                    .input = work->sendbuff,
                    .output = work->recvbuff,
                    .rank = block->communicator->rank,
                    .nranks = block->communicator->nRanks};
  struct reducer reducer = reducer_make(function->reduction, function->datatype, 0);
  reducer = reducer_make(function->reduction, function->datatype,
                         argument_of(function, work, reducer.element));
  job.mover.reducer = reducer;
  job.element = reducer.element;
  if (work->regUsed)
    DEVICE_REFUSE("a collective of registered buffers");
  find_part(&job);
  bool tree = function->algorithm == ALGORITHM_TREE;
  if (tree && function->kind != FUNCTION_ALL_REDUCE)
    DEVICE_REFUSE("a tree of another collective than all-reduce");
  switch (function->kind) {
  case FUNCTION_ALL_REDUCE:
    if (tree) {
      tree_all_reduce(&job);
      return;
    }
    ring_all_reduce(&job);
    break;
  case FUNCTION_ALL_GATHER:
    ring_all_gather(&job);
    break;
  case FUNCTION_REDUCE_SCATTER:
    ring_reduce_scatter(&job);
    break;
  case FUNCTION_BROADCAST:
    ring_broadcast(&job);
    break;
  case FUNCTION_REDUCE:
    ring_reduce(&job);
    break;
  case FUNCTION_SEND_RECV:
  case FUNCTION_ALL_GATHER_V:
    DEVICE_REFUSE("a work item that does not belong to its function");
  }
  mover_close(&job.mover);
}

/* ---- sends and receives ---- */

/* An 8-bit float: 5 bits of exponent, 3 of mantissa. */
static int chunk_size(uint8_t code) {
  int exponent = code >> 3, mantissa = code & 7;
  return exponent == 0 ? mantissa : (8 + mantissa) << (exponent - 1);
}

/* Parts are spread over channels in bit-reversed order, from the base on. */
static int part_of(const struct p2p_side *side) {
  const struct ncclDevWorkP2p *work = side->work;
  int delta = (side->block->channel_id - work->channelBase) & (work->nP2pChannels - 1), part = 0;
  for (int bit = 1; bit < work->nP2pChannels; bit <<= 1, delta >>= 1)
    part = part << 1 | (delta & 1);
  return part;
}

void p2p_run(void *argument) {
  const struct p2p_side *side = argument;
  const struct ncclDevWorkP2p *work = side->work;
  const layout_communicator *communicator = side->block->communicator;
  int peer = side->sends ? work->sendRank : work->recvRank;
  char *buffer = side->sends ? work->sendAddr : work->recvAddr;
  size_t size = side->sends ? work->sendBytes : work->recvBytes;
  int parts = side->sends ? work->nSendChannels : work->nRecvChannels, part = part_of(side);
  if (parts == 0 || part >= parts)
    return;
  size_t unit = (size + (size_t)parts - 1) / (size_t)parts;
  unit = (unit + P2P_PART - 1) / P2P_PART * P2P_PART;
  size_t begin = unit * (size_t)part < size ? unit * (size_t)part : size;
  size_t left = size - begin < unit ? size - begin : unit;
  buffer += begin;
  if (peer == communicator->rank) { /* the receiving side does it */
    if (!side->sends && left > 0 && work->sendAddr != work->recvAddr)
      __builtin_memcpy(device_at(buffer, left), device_at((char *)work->sendAddr + begin, left),
                       left);
    return;
  }
  bool ll = side->sends ? work->sendProtoLL : work->recvProtoLL;
  size_t chunk =
      (size_t)chunk_size(side->sends ? work->sendChunkSize_u32fp8 : work->recvChunkSize_u32fp8);
  struct mover mover;
  mover_open(&mover, &(struct mover_plan){.block = side->block,
                                          .reducer = reducer_make(DEVICE_SUM, ncclInt8, 0),
                                          .protocol = ll ? PROTOCOL_LL : PROTOCOL_SIMPLE,
                                          .slices = 1,
                                          .stride = 1,
                                          .index = 1,
                                          .from = &peer,
                                          .to = &peer,
                                          .nfrom = !side->sends,
                                          .nto = side->sends,
                                          .step_size = (size_t)communicator->p2pChunkSize});
  do {
    size_t now = left < chunk ? left : chunk;
    struct mover_chunk move = {.receives = !side->sends, .sends = side->sends};
    if (side->sends)
      move.input = buffer;
    else
      move.output = buffer;
    mover_move(&mover, move, (int64_t)now);
    buffer += now;
    left -= now;
  } while (left > 0);
  mover_close(&mover);
}

/* ---- broadcasts from several roots in one ring ---- */

#ifdef HAS_ncclDevWorkBcast_bytes
/* One chunk of a broadcast; the root is so many steps away on the ring. */
static void broadcast_chunk(struct mover *mover, const struct ncclDevWorkBcast *work, size_t done,
                            int nranks) {
  size_t left = work->bytes - done, chunk = (size_t)work->chunkSize;
  size_t at = work->bytes_done + done;
  struct mover_chunk move = {.output = (char *)work->recvbuff + at,
                             .receives = work->ringDepth > 0,
                             .sends = work->ringDepth < nranks - 1};
  if (work->ringDepth == 0)
    move.input = (char *)work->sendbuff + at;
  mover_move(mover, move, (int64_t)(left < chunk ? left : chunk));
}

/* They take turns, a chunk each, until all have come to their ends. */
void all_gather_v_run(const struct block *block, const struct function *function,
                      struct ncclDevWorkBcast *const *works, int count) {
  struct ncclRing *ring = &block->channel->ring;
  struct mover mover;
  mover_open(&mover, &(struct mover_plan){.block = block,
                                          .reducer = reducer_make(DEVICE_SUM, ncclInt8, 0),
                                          .protocol = function->protocol,
                                          .slices = 1,
                                          .stride = 1,
                                          .from = &ring->prev,
                                          .to = &ring->next,
                                          .nfrom = 1,
                                          .nto = 1});
  size_t done[64] = {0}; /* work items stay as they are: a graph launches them again */
  if (count > 64)
    DEVICE_REFUSE("%d broadcasts in one batch", count);
  for (bool more = true; more;) {
    more = false;
    for (int i = 0; i < count; i++) {
      if (done[i] >= works[i]->bytes)
        continue;
      broadcast_chunk(&mover, works[i], done[i], block->communicator->nRanks);
      done[i] += (size_t)works[i]->chunkSize;
      more |= done[i] < works[i]->bytes;
    }
  }
  mover_close(&mover);
}
#endif
