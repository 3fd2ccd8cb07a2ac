/* Point to point: rings of slots, moved along until every transfer of the unit is done. */
#include "exchange.h"

#include "buffer.h"
#include "datatype.h"
#include "oracle.h"
#include "registration.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct transfer {
  const struct operation *operation;
  struct segment_channel *channel;
  char *memory;
  size_t size;  /* bytes */
  size_t moved; /* bytes put into slots, or taken out */
  bool started; /* at least one slot moved: a message of 0 bytes has one too */
  bool finished;
  uint64_t last; /* of a send: slots written when all of it is */
};

struct transfers {
  struct ncclComm *comm;
  const struct unit *unit;
  struct transfer *transfer;
  size_t count, unfinished;
};

static bool same_direction(const struct transfer *a, const struct transfer *b) {
  return a->channel == b->channel && a->operation->kind == b->operation->kind;
}

/* Whether an earlier transfer of the same direction is still under way. */
static bool must_wait(const struct transfers *transfers, size_t index) {
  for (size_t i = 0; i < index; i++)
    if (!transfers->transfer[i].finished &&
        same_direction(&transfers->transfer[i], &transfers->transfer[index]))
      return true;
  return false;
}

static bool all_moved(const struct transfer *transfer) {
  return transfer->started && transfer->moved == transfer->size;
}

/* Each returns whether anything moved. */
static bool send_some(struct transfers *transfers, struct transfer *transfer) {
  struct segment *segment = &transfers->comm->segment;
  struct segment_channel *channel = transfer->channel;
  bool moved = false;
  while (!all_moved(transfer)) {
    uint64_t written = atomic_load(&channel->written);
    if (written - atomic_load(&channel->read) == SEGMENT_CHANNEL_SLOTS)
      return moved;
    size_t rest = transfer->size - transfer->moved;
    size_t part = rest < segment->slot_bytes ? rest : segment->slot_bytes;
    channel->slot[written % SEGMENT_CHANNEL_SLOTS] =
        (struct segment_slot){transfer->operation->count, (uint32_t)transfer->operation->datatype,
                              (uint32_t)part, transfer->operation->look};
    memcpy(segment_channel_data(segment, channel, written), transfer->memory + transfer->moved,
           part);
    transfer->moved += part;
    transfer->started = true;
    transfer->last = written + 1;
    atomic_store(&channel->written, written + 1);
    moved = true;
  }
  if (atomic_load(&channel->read) >= transfer->last) {
    transfer->finished = true;
    moved = true;
  }
  return moved;
}

static void compare(struct transfers *transfers, const struct transfer *transfer,
                    const struct segment_slot *slot) {
  const struct operation *operation = transfer->operation;
  if (slot->count == operation->count && slot->datatype == (uint32_t)operation->datatype &&
      slot->look == operation->look)
    return;
  int rank = transfers->comm->rank;
  struct operation sent = {.kind = OPERATION_SEND,
                           .count = slot->count,
                           .datatype = (ncclDataType_t)slot->datatype,
                           .root = rank};
  char mine[160], theirs[160], where[128];
  operation_describe(operation, mine, sizeof mine);
  operation_describe(&sent, theirs, sizeof theirs);
  if (slot->look != operation->look) {
    snprintf(mine + strlen(mine), sizeof mine - strlen(mine), ", %s",
             registration_look_name(operation->look));
    snprintf(theirs + strlen(theirs), sizeof theirs - strlen(theirs), ", %s",
             registration_look_name(slot->look));
  }
  snprintf(where, sizeof where, "send/recv, p2p unit #%llu of rank %d",
           (unsigned long long)transfers->unit->index, rank);
  oracle_mismatch(transfers->comm, where, rank, mine, operation->root, theirs);
}

static bool receive_some(struct transfers *transfers, struct transfer *transfer) {
  struct segment *segment = &transfers->comm->segment;
  struct segment_channel *channel = transfer->channel;
  bool moved = false;
  while (!all_moved(transfer)) {
    uint64_t read = atomic_load(&channel->read);
    if (atomic_load(&channel->written) == read)
      return moved;
    struct segment_slot slot = channel->slot[read % SEGMENT_CHANNEL_SLOTS];
    compare(transfers, transfer, &slot);
    memcpy(transfer->memory + transfer->moved, segment_channel_data(segment, channel, read),
           slot.bytes);
    transfer->moved += slot.bytes;
    transfer->started = true;
    atomic_store(&channel->read, read + 1);
    moved = true;
  }
  transfer->finished = true;
  return true;
}

/* Whether anything moved, or nothing is left to move. */
static bool move_some(void *subject) {
  struct transfers *transfers = subject;
  bool moved = false;
  for (size_t i = 0; i < transfers->count; i++) {
    struct transfer *transfer = &transfers->transfer[i];
    if (transfer->finished || must_wait(transfers, i))
      continue;
    moved |= transfer->operation->kind == OPERATION_SEND ? send_some(transfers, transfer)
                                                         : receive_some(transfers, transfer);
    transfers->unfinished -= transfer->finished;
  }
  if (moved)
    meeting_ring(&transfers->comm->segment);
  return moved || transfers->unfinished == 0;
}

static bool awaits(void *subject, int rank) {
  const struct transfers *transfers = subject;
  for (size_t i = 0; i < transfers->count; i++)
    if (!transfers->transfer[i].finished && transfers->transfer[i].operation->root == rank)
      return true;
  return false;
}

static bool is_cancelled(void *subject) {
  const struct transfers *transfers = subject;
  return atomic_load(&transfers->comm->epoch) != transfers->unit->epoch;
}

static void describe(void *subject, char *text, size_t size) {
  const struct transfers *transfers = subject;
  snprintf(text, size, "communicator %016llx, %s #%llu %s, %zu sends and receives unfinished",
           (unsigned long long)transfers->comm->hash,
           transfers->unit->collective ? "unit" : "p2p unit",
           (unsigned long long)transfers->unit->index, transfers->unit->log, transfers->unfinished);
}

static void transfer_begin(struct transfers *transfers, const struct operation *operation) {
  struct ncclComm *comm = transfers->comm;
  bool sends = operation->kind == OPERATION_SEND;
  size_t size = operation->count * datatype_size(operation->datatype);
  const void *pointer = sends ? operation->send : operation->recv;
  transfers->transfer[transfers->count++] = (struct transfer){
      .operation = operation,
      .channel = sends ? segment_channel(&comm->segment, comm->rank, operation->root)
                       : segment_channel(&comm->segment, operation->root, comm->rank),
      .memory = buffer_find(comm, transfers->unit, operation, "buff", pointer, size),
      .size = size,
  };
}

enum meeting_result transfers_run(struct ncclComm *comm, const struct unit *unit) {
  struct transfers transfers = {comm, unit, calloc(unit->noperations, sizeof(struct transfer)), 0,
                                0};
  if (transfers.transfer == NULL)
    meeting_stop(&comm->segment, "no memory for sends and receives");
  for (size_t i = 0; i < unit->noperations; i++)
    if (!operation_is_collective(&unit->operations[i]))
      transfer_begin(&transfers, &unit->operations[i]);
  transfers.unfinished = transfers.count;

  /* A wait for each step forward: only one without any is long. */
  struct vigil vigil = {&transfers, move_some, awaits, is_cancelled, describe};
  enum meeting_result result = MEETING_REACHED;
  while (transfers.unfinished > 0 && result == MEETING_REACHED)
    result = is_cancelled(&transfers) ? MEETING_CANCELLED : meeting_await(&comm->segment, &vigil);
  free(transfers.transfer);
  return result;
}
