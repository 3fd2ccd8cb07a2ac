/* Units: growing, describing, hashing. */
#include "unit.h"

#include "communicator.h"
#include "datatype.h"
#include "hash.h"
#include "registration.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name;       /* NCCL's */
  const char *short_name; /* in descriptions */
  bool has_root, reduces;
} kinds[] = {
    [OPERATION_ALLREDUCE] = {"AllReduce", "allreduce", false, true},
    [OPERATION_BROADCAST] = {"Broadcast", "broadcast", true, false},
    [OPERATION_REDUCE] = {"Reduce", "reduce", true, true},
    [OPERATION_ALLGATHER] = {"AllGather", "allgather", false, false},
    [OPERATION_REDUCESCATTER] = {"ReduceScatter", "reducescatter", false, true},
    [OPERATION_ALLTOALL] = {"AlltoAll", "alltoall", false, false},
    [OPERATION_GATHER] = {"Gather", "gather", true, false},
    [OPERATION_SCATTER] = {"Scatter", "scatter", true, false},
    [OPERATION_SEND] = {"Send", "send", true, false},
    [OPERATION_RECV] = {"Recv", "recv", true, false},
};

bool operation_has_root(enum operation_kind kind) {
  return kinds[kind].has_root;
}

bool operation_reduces(enum operation_kind kind) {
  return kinds[kind].reduces;
}

const char *operation_name(enum operation_kind kind) {
  return kinds[kind].name;
}

void operation_describe(const struct operation *operation, char *text, size_t size) {
  char reduction[32] = "", root[32] = "";
  if (operation->reduction != REDUCTION_NONE)
    snprintf(reduction, sizeof reduction, "%s, ", reduction_name(operation->reduction));
  if (operation_has_root(operation->kind))
    snprintf(root, sizeof root, ", %s %d",
             operation->kind == OPERATION_SEND   ? "to"
             : operation->kind == OPERATION_RECV ? "from"
                                                 : "root",
             operation->root);
  snprintf(text, size, "%s(%s%s, %zu%s)", kinds[operation->kind].short_name, reduction,
           datatype_name(operation->datatype), operation->count, root);
}

struct unit *unit_create(struct ncclComm *comm) {
  struct unit *unit = calloc(1, sizeof *unit);
  if (unit == NULL)
    return NULL;
  unit->comm = comm;
  communicator_hold(comm);
  atomic_init(&unit->holders, 1);
  return unit;
}

void unit_hold(struct unit *unit) {
  atomic_fetch_add(&unit->holders, 1);
}

void unit_release(struct unit *unit) {
  if (atomic_fetch_sub(&unit->holders, 1) > 1)
    return;
  communicator_release(unit->comm);
  free(unit->operations);
  free(unit->text);
  free(unit->log);
  free(unit);
}

bool unit_append(struct unit *unit, const struct operation *operation) {
  if (unit->noperations == unit->capacity) {
    size_t capacity = unit->capacity == 0 ? 4 : 2 * unit->capacity;
    struct operation *grown = realloc(unit->operations, capacity * sizeof *grown);
    if (grown == NULL)
      return false;
    unit->operations = grown;
    unit->capacity = capacity;
  }
  unit->operations[unit->noperations++] = *operation;
  return true;
}

static uint64_t hash_add_operation(uint64_t hash, const struct operation *operation) {
  hash = hash_add_number(hash, operation->kind);
  hash = hash_add_number(hash, operation->count);
  hash = hash_add_number(hash, operation->datatype);
  hash = hash_add_number(hash, operation->reduction);
  return hash_add_number(hash, (uint64_t)(int64_t)operation->root);
}

/* Describes operations of one unit, "a; b", only collectives or all. Counts those described. hash:
 * not NULL: with what their buffers look like, which is added to it. */
static size_t describe_operations(const struct unit *unit, bool all, FILE *file, uint64_t *hash) {
  size_t described = 0;
  char text[128], look[128];
  for (size_t i = 0; i < unit->noperations; i++) {
    if (!all && !operation_is_collective(&unit->operations[i]))
      continue;
    operation_describe(&unit->operations[i], text, sizeof text);
    look[0] = '\0';
    if (hash != NULL) {
      registration_describe(unit->comm, &unit->operations[i], look, sizeof look);
      *hash = hash_add(*hash, look, strlen(look));
    }
    fprintf(file, "%s%s%s", described > 0 ? "; " : "", text, look);
    described++;
  }
  return described;
}

static bool describe_for_log(struct unit *unit) {
  size_t size;
  FILE *file = open_memstream(&unit->log, &size);
  if (file == NULL)
    return false;
  if (unit->noperations > 1)
    fprintf(file, "group{");
  describe_operations(unit, true, file, NULL);
  if (unit->noperations > 1)
    fprintf(file, "}");
  return fclose(file) == 0;
}

static bool has_collective(const struct unit *unit) {
  for (size_t i = 0; i < unit->noperations; i++)
    if (operation_is_collective(&unit->operations[i]))
      return true;
  return false;
}

static void look_at_transfers(struct unit *unit) {
  for (size_t i = 0; i < unit->noperations; i++) {
    struct operation *operation = &unit->operations[i];
    size_t size = operation->count * datatype_size(operation->datatype);
    if (!operation_is_collective(operation))
      operation->look = registration_look(
          unit->comm, operation->kind == OPERATION_SEND ? operation->send : operation->recv, size);
  }
}

bool unit_describe(struct unit *unit, struct unit *const *related, size_t nrelated) {
  unit->collective = has_collective(unit);
  look_at_transfers(unit);
  for (size_t i = 0; i < unit->noperations; i++)
    unit->meets += registration_meets(unit->comm, &unit->operations[i]);
  if (!describe_for_log(unit))
    return false;
  size_t size, communicators = 0, described = 0;
  FILE *file = open_memstream(&unit->text, &size);
  if (file == NULL)
    return false;
  uint64_t hash = HASH_START;
  for (size_t i = 0; i < nrelated && unit->collective; i++) {
    const struct unit *member = related[i];
    if (!has_collective(member))
      continue;
    fprintf(file, "%s", communicators++ > 0 ? "; " : "");
    if (member != unit)
      fprintf(file, "on %016llx: ", (unsigned long long)member->comm->hash);
    described += describe_operations(member, false, file, &hash);
    hash = hash_add_number(hash, member->comm->hash);
    for (size_t j = 0; j < member->noperations; j++)
      if (operation_is_collective(&member->operations[j]))
        hash = hash_add_operation(hash, &member->operations[j]);
  }
  unit->hash = hash_finish(hash_add_number(hash, described));
  if (fclose(file) != 0)
    return false;
  if (described > 1) {
    char *grouped;
    if (asprintf(&grouped, "group of %zu {%s}", described, unit->text) < 0)
      return false;
    free(unit->text);
    unit->text = grouped;
  }
  return true;
}
