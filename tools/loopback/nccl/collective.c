/* Collectives. All kinds are the same loop: stage a chunk of what this rank gives, meet, take what
 * this rank gets. What differs is in the table of shapes. */
#include "exchange.h"

#include "buffer.h"
#include "datatype.h"

#include <string.h>

/* A block is count elements. */
struct shape {
  bool root_gives; /* only the root gives anything */
  bool root_takes; /* only the root gets anything */
  bool gives_all;  /* gives a block for every rank, else one for all */
  bool takes_all;  /* gets a block from every rank, else one: reduced, or the root's */
};

static struct shape collective_shape(enum operation_kind kind) {
  switch (kind) {
  case OPERATION_ALLREDUCE:
    return (struct shape){0};
  case OPERATION_BROADCAST:
    return (struct shape){.root_gives = true};
  case OPERATION_REDUCE:
    return (struct shape){.root_takes = true};
  case OPERATION_ALLGATHER:
    return (struct shape){.takes_all = true};
  case OPERATION_REDUCESCATTER:
    return (struct shape){.gives_all = true};
  case OPERATION_ALLTOALL:
    return (struct shape){.gives_all = true, .takes_all = true};
  case OPERATION_GATHER:
    return (struct shape){.root_takes = true, .takes_all = true};
  case OPERATION_SCATTER:
    return (struct shape){.root_gives = true, .gives_all = true};
  case OPERATION_SEND:
  case OPERATION_RECV:
    break;
  }
  __builtin_unreachable();
}

/* One operation under way on this rank. */
struct collective {
  struct exchange *exchange;
  const struct operation *operation;
  struct shape shape;
  int rank, nranks;
  size_t element; /* bytes */
  bool gives, takes;
  const char *send; /* host addresses; NULL if this rank gives, or takes, nothing */
  char *recv;
  union scalar factor;
};

static void stage_chunk(const struct collective *collective, size_t done, size_t chunk) {
  const struct operation *operation = collective->operation;
  char *stage = exchange_own_stage(collective->exchange);
  size_t blocks = collective->shape.gives_all ? (size_t)collective->nranks : 1;
  for (size_t block = 0; block < blocks; block++) {
    const char *from = collective->send + (block * operation->count + done) * collective->element;
    char *to = stage + block * chunk * collective->element;
    if (operation->premultiplied)
      reduction_premultiply(operation->datatype, from, collective->factor, to, chunk);
    else
      memcpy(to, from, chunk * collective->element);
  }
}

/* Where the chunk for this rank lies in what rank staged. */
static const void *staged_by(const struct collective *collective, int rank, size_t chunk) {
  size_t block = collective->shape.gives_all ? (size_t)collective->rank : 0;
  return (const char *)exchange_stage_of(collective->exchange, rank) +
         block * chunk * collective->element;
}

static void take_chunk(const struct collective *collective, size_t done, size_t chunk) {
  const struct operation *operation = collective->operation;
  char *to = collective->recv + done * collective->element;
  size_t block = operation->count * collective->element;
  if (operation->reduction != REDUCTION_NONE) {
    const void *inputs[SEGMENT_RANKS_MAX];
    for (int rank = 0; rank < collective->nranks; rank++)
      inputs[rank] = staged_by(collective, rank, chunk);
    reduction_combine(operation->reduction, operation->datatype, inputs, collective->nranks, to,
                      chunk);
  } else if (collective->shape.takes_all) {
    for (int rank = 0; rank < collective->nranks; rank++)
      memcpy(to + (size_t)rank * block, staged_by(collective, rank, chunk),
             chunk * collective->element);
  } else {
    memcpy(to, staged_by(collective, operation->root, chunk), chunk * collective->element);
  }
}

/* Host addresses of the buffers this rank uses, checked. */
static void find_buffers(struct collective *collective) {
  const struct operation *operation = collective->operation;
  struct exchange *exchange = collective->exchange;
  size_t block = operation->count * collective->element;
  size_t all = (size_t)collective->nranks * block;
  size_t send_size = collective->shape.gives_all ? all : block;
  size_t recv_size = collective->shape.takes_all ? all : block;
  if (collective->gives)
    collective->send = buffer_find(exchange->comm, exchange->unit, operation, "sendbuff",
                                   operation->send, send_size);
  if (collective->takes)
    collective->recv = buffer_find(exchange->comm, exchange->unit, operation, "recvbuff",
                                   operation->recv, recv_size);
  if (collective->gives && collective->takes) {
    size_t own = (size_t)collective->rank * block;
    bool in_place = false;
    if (collective->shape.gives_all != collective->shape.takes_all)
      in_place = collective->shape.gives_all ? collective->recv == collective->send + own
                                             : collective->send == collective->recv + own;
    else if (!collective->shape.gives_all)
      in_place = collective->send == collective->recv;
    if (!in_place)
      buffer_check_apart(exchange->comm, exchange->unit, operation, collective->send, send_size,
                         collective->recv, recv_size);
  }
  collective->factor = operation->factor;
  if (operation->factor_pointer != NULL)
    memcpy(collective->factor.bytes,
           buffer_find(exchange->comm, exchange->unit, operation, "the factor of its reduction",
                       operation->factor_pointer, collective->element),
           collective->element);
}

enum meeting_result collective_run(struct exchange *exchange, const struct operation *operation) {
  struct ncclComm *comm = exchange->comm;
  struct collective collective = {
      .exchange = exchange,
      .operation = operation,
      .shape = collective_shape(operation->kind),
      .rank = comm->rank,
      .nranks = comm->nranks,
      .element = datatype_size(operation->datatype),
  };
  collective.gives = !collective.shape.root_gives || comm->rank == operation->root;
  collective.takes = !collective.shape.root_takes || comm->rank == operation->root;
  find_buffers(&collective);

  size_t blocks = collective.shape.gives_all ? (size_t)comm->nranks : 1;
  size_t largest = comm->segment.stage_bytes / (blocks * collective.element);
  for (size_t done = 0; done < operation->count;) {
    size_t chunk = operation->count - done < largest ? operation->count - done : largest;
    if (collective.gives)
      stage_chunk(&collective, done, chunk);
    enum meeting_result result = exchange_meet(exchange);
    if (result != MEETING_REACHED)
      return result;
    if (collective.takes)
      take_chunk(&collective, done, chunk);
    done += chunk;
  }
  return MEETING_REACHED;
}
