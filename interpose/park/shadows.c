/* The shadows of one round (shadows.h). */
#include "interpose/park/shadows.h"

#include <assert.h>
#include <stdlib.h>

#include "core/report/log.h"
#include "hooks/contribution.h"
#include "hooks/own_send.h"
#include "hooks/plugins.h"
#include "interpose/data/divisors.h"
#include "interpose/self/environment.h"
#include "interpose/data/lossy.h"
#include "interpose/nccl/real.h"
#include "interpose/park/rebuilt.h"
#include "interpose/comm/registered.h"
#include "interpose/comm/report.h"
#include "interpose/data/roots.h"

static bool shadows_reserve(struct shadows *shadows, uint32_t more) {
  if (shadows->nmembers + more <= shadows->room)
    return true;
  uint32_t room = 2 * (shadows->nmembers + more);
  struct member *members = realloc(shadows->members, room * sizeof(*members));
  if (members != NULL)
    shadows->members = members;
  struct shadow_member *targets = realloc(shadows->targets, room * sizeof(*targets));
  if (targets != NULL)
    shadows->targets = targets;
  if (members == NULL || targets == NULL)
    return false;
  shadows->room = room;
  return true;
}

/* Whether all NCCLs of the process leave what they have written to receive buffers alone. */
static bool may_alias(void) {
  bool may = join_settings()->shadow_memory == SHADOW_MEMORY_ALIAS;
  for (unsigned i = 0; may && i < real_count(); i++) {
    int version = 0;
    (void)real_libraries[i].functions.GetVersion(&version);
    may = version >= SHADOW_ALIAS_NCCL;
    if (!may)
      log_once(LOG_LEVEL_WARN,
               "NCCL_JOIN_SHADOW_MEMORY=alias is for NCCL 2.24.3 and later, and there is %d here: "
               "shadows get memory of their buffers' size. Use a newer NCCL, or leave it unset",
               version);
  }
  return may;
}

static struct shadow *endpoint_shadow(struct endpoint *end, char *reason) {
  if (end->shadow == NULL) {
    const struct cuda_driver *cuda = cuda_driver_get(reason);
    end->shadow = cuda == NULL ? NULL : shadow_create(cuda, end->device, reason);
    if (end->shadow != NULL && may_alias())
      shadow_alias(end->shadow);
  }
  return end->shadow;
}

bool shadows_finish(struct endpoint *end, const struct shadow_limit *limit, char *reason) {
  struct shadow *shadow = endpoint_shadow(end, reason);
  return shadow != NULL && shadow_synchronise_device(shadow, limit, reason) == ncclSuccess;
}

/* The rank in the communicator that a member is to be issued with; negative if there is none. */
static int root_of(struct communicator *comm, uint64_t index, struct unit unit,
                   const struct member *member) {
  if (member_elects_root(member->kind) && !contribution_gathers(unit, member->comm))
    return roots_elect(comm, index, member->root).root;
  if (!member_is_point_to_point(member->kind))
    return member->root;
  int rank = comm->nranks - 1;
  while (rank >= 0 && comm->team_rank_of[rank] != (uint32_t)member->root)
    rank--;
  return rank;
}

/* ---- resynchronised buffers ---- */

bool shadows_has(struct endpoint *end, const struct state_buffer *buffer) {
  const struct cuda_driver *cuda = cuda_driver_get(NULL);
  enum state_condition condition = cuda == NULL ? STATE_FREED : state_look(cuda, buffer);
  if (condition == STATE_THERE)
    return true;
  bool broadcast = (buffer->number & STATE_BROADCAST) != 0;
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "rank %u: the buffer of %llu elements at %p, which %s, %s: it is not resynchronised any "
      "more. %s",
      end->team->plane->rank, (unsigned long long)buffer->count, buffer->address,
      broadcast ? "the program broadcast at its start" : "was registered",
      condition == STATE_FREED ? "has been freed"
                               : "has been freed, and its memory is another buffer's now",
      broadcast ? "Register the buffers that are to be (nccl_join.h), with NCCL_JOIN_RESYNC=none"
                : "Call nccl_join_deregister_state before it is freed");
  state_drop(&end->buffers, buffer->comm, buffer->address);
  return false;
}

/* Where this rank has the buffer of a member, if it has it still; NULL: what comes is dropped. */
static void *buffer_of(struct endpoint *end, const struct member *member) {
  struct state_buffer buffer;
  uint32_t rank = end->team->plane->rank;
  if (!state_find(&end->buffers, member->comm, member->number, &buffer)) {
    log_once_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u has no buffer for one that is resynchronised (number %u, %llu elements): all "
        "ranks must register the same buffers in the same order",
        rank, member->number, (unsigned long long)member->count);
    return NULL;
  }
  if (buffer.count != member->count || buffer.datatype != member->datatype) {
    log_line_of(
        endpoint_subject(end), LOG_LEVEL_WARN,
        "rank %u: buffer %p of %llu elements is not resynchronised: the last joiner's has %llu "
        "elements, or another datatype. All ranks must register the same buffers in the same "
        "order",
        rank, buffer.address, (unsigned long long)buffer.count, (unsigned long long)member->count);
    return NULL;
  }
  return shadows_has(end, &buffer) ? buffer.address : NULL;
}

/* The program may have given the device work on its buffers that is not done yet. */
static bool begin_state(struct endpoint *end, struct shadow *shadow,
                        const struct shadow_limit *limit) {
  char reason[REASON_SIZE] = "";
  if (end->state_moved)
    return true;
  if (shadow_synchronise_device(shadow, limit, reason) != ncclSuccess) {
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "nothing can be resynchronised on rank %u: %s. The device must be done "
                "with what the program has given it before",
                end->team->plane->rank, reason);
    return false;
  }
  state_hold(&end->buffers);
  end->state_moved = true;
  return true;
}

/* ---- plug-ins ---- */

static ncclJoinMember_v1_t as_seen_by_plugins(const struct member *member,
                                              const struct shadow_member *target) {
  const void *send = plugins_fill() ? target->send : NULL; /* or it is the program's own */
  int reduction = member->reduction == REDUCTION_NONE        ? NCCL_JOIN_REDUCTION_NONE
                  : member->reduction == REDUCTION_PREMULSUM ? NCCL_JOIN_REDUCTION_PREMULSUM
                                                             : member->reduction;
  return (ncclJoinMember_v1_t){
      .function = kind_traits(member->kind)->function,
      .comm = target->comm,
      .rank = target->rank,
      .nRanks = target->nranks,
      .count = member->count,
      .datatype = (ncclDataType_t)member->datatype,
      .reduction = reduction,
      .root = target->root,
      .sendBuffer = (void *)send,
      .sendBytes = shadow_send_bytes(member, target),
  };
}

/* What would be sent without it is, and everybody hears of it. */
static void plugin_failed(struct endpoint *end, struct shadow_member *targets, const void **own,
                          uint32_t nmembers) {
  for (uint32_t i = 0; i < nmembers; i++)
    targets[i].send = own[i];
  end->hook_failed = true;
  team_report_lossy(end->team, LOSSY_HOOK);
}

/* Buffers that plug-ins may write to: with a copy of what is the program's own. */
static bool shadows_lend(struct unit unit, struct shadow_member *targets, const void **own,
                         const struct shadow_limit *limit, char *reason) {
  for (uint32_t i = 0; i < unit.nmembers; i++)
    targets[i].send = NULL;
  if (shadow_lend(unit, targets, limit, reason) != ncclSuccess)
    return false;
  for (uint32_t i = 0; i < unit.nmembers; i++)
    if (own[i] != NULL && !own_send_copy(targets[i].shadow, (void *)targets[i].send, own[i],
                                         shadow_send_bytes(&unit.members[i], &targets[i]), reason))
      return false;
  return true;
}

static void tell_no_shadow(const struct endpoint *end, const char *reason) {
  log_line_of(
      endpoint_subject(end), LOG_LEVEL_WARN,
      "no shadow can be issued: %s. Its peers get ncclRemoteError. If device memory is short, "
      "leave it more, or set NCCL_JOIN_SHADOW_MEMORY=alias",
      reason);
}

static bool ask_plugins(struct endpoint *end, uint64_t index, struct unit unit,
                        struct shadow_member *targets, const struct shadow_limit *limit) {
  char reason[REASON_SIZE] = "out of memory";
  assert(unit.nmembers > 0);
  ncclJoinMember_v1_t *seen = calloc(unit.nmembers, sizeof *seen);
  const void **own = calloc(unit.nmembers, sizeof *own);
  for (uint32_t i = 0; own != NULL && i < unit.nmembers; i++)
    own[i] = targets[i].send;
  if (seen == NULL || own == NULL ||
      (plugins_fill() && !shadows_lend(unit, targets, own, limit, reason))) {
    tell_no_shadow(end, reason);
    free(seen);
    free(own);
    return false;
  }
  for (uint32_t i = 0; i < unit.nmembers; i++)
    seen[i] = as_seen_by_plugins(&unit.members[i], &targets[i]);
  const ncclJoinUnit_v1_t asked = {.index = index,
                                   .nMembers = (int)unit.nmembers,
                                   .members = seen,
                                   .reunionComm = endpoint_eldest(end)->handle,
                                   .cudaDevice = end->device,
                                   .stream = shadow_stream(targets->shadow)};
  if (!plugins_main(&asked))
    plugin_failed(end, targets, own, unit.nmembers);
  free(seen);
  free(own);
  return true;
}

/* ---- collecting ---- */

/* of: its comm is found here. */
static bool collect_member(struct shadows *shadows, struct lossy_member *of, uint64_t index,
                           cudaStream_t program, const look_t *looks) {
  struct endpoint *end = of->end;
  const struct member *member = &of->unit.members[of->position];
  struct communicator *comm = endpoint_communicator(end, member->comm);
  of->comm = comm;
  if (comm == NULL) {
    log_line_of(endpoint_subject(end), LOG_LEVEL_WARN,
                "a peer uses a communicator that this rank has destroyed already: no shadow can be "
                "issued. Destroy it on all ranks, after the loop");
    return false;
  }
  if (comm->unfit != NULL && member->kind != MEMBER_SPLIT) {
    log_line_of(communicator_subject(comm), LOG_LEVEL_WARN,
                "no shadow can be issued on communicator %08x after %s: its peers get "
                "ncclRemoteError. Give all ranks as many iterations, or stop them together "
                "(NCCL_JOIN_EARLY_EXIT=throw)",
                comm->tag, comm->unfit);
    return false;
  }
  int root = root_of(comm, index, of->unit, member);
  if (root < 0 && member->root != ROOT_NONE)
    return false;
  struct shadow_member target = {
      end->shadow, comm->handle, comm->rank, comm->nranks,
      root,        NULL,         NULL,       looks == NULL ? 0 : looks[of->position]};
  if (member->kind == MEMBER_STATE) {
    target.send = target.receive = buffer_of(end, member);
    if (target.send == NULL && root == comm->rank)
      return false; /* it has gone in this moment, and zeros are nobody's model */
  }
  if (target.send == NULL)
    target.send = lossy_send(of, end->shadow, program);
  if (member->kind == MEMBER_SPLIT)
    comm->children++;
  shadows->members[shadows->nmembers] = *member;
  shadows->targets[shadows->nmembers++] = target;
  return true;
}

/* Gives what was collected last the operators of the active ranks. If they refuse it, takes it
 * back, and false. */
static bool shadows_divide(struct shadows *shadows, uint32_t first, const struct endpoint *end) {
  for (uint32_t i = first; i < shadows->nmembers; i++) {
    struct member *member = &shadows->members[i];
    if (divisors_shadow(member, endpoint_communicator(end, member->comm)))
      continue;
    shadows->nmembers = first;
    return false;
  }
  return true;
}

/* Whether what is sent from the program's own memory does not look as its peers' does: the rank has
 * taken its registration back, or has never had it. */
static bool looks_otherwise(const struct endpoint *end, const struct member *member,
                            const struct shadow_member *target) {
  struct communicator *comm = endpoint_communicator(end, member->comm);
  return target->send != NULL && target->look != 0 && comm != NULL &&
         registered_look(comm, target->send, shadow_send_bytes(member, target)) !=
             look_send(target->look);
}

/* Then a copy is sent, from memory that does. Plug-ins that fill are given one anyhow. */
static bool copy_what_looks_otherwise(const struct endpoint *end, struct unit unit,
                                      struct shadow_member *targets,
                                      const struct shadow_limit *limit) {
  char reason[REASON_SIZE] = "out of memory";
  bool any = false;
  for (uint32_t i = 0; i < unit.nmembers && !plugins_fill(); i++)
    any |= looks_otherwise(end, &unit.members[i], &targets[i]);
  if (!any)
    return true;
  const void **own = calloc(unit.nmembers, sizeof *own);
  for (uint32_t i = 0; own != NULL && i < unit.nmembers; i++)
    own[i] = targets[i].send;
  bool lent = own != NULL && shadows_lend(unit, targets, own, limit, reason);
  if (!lent)
    tell_no_shadow(end, reason);
  free(own);
  return lent;
}

bool shadows_collect(struct shadows *shadows, struct endpoint *end, struct unit unit,
                     cudaStream_t program, const struct shadow_limit *limit) {
  char reason[REASON_SIZE] = "out of memory";
  /* Mirrors stand before the next unit. */
  bool mirrors = unit.nmembers > 0 && member_is_point_to_point(unit.members[0].kind);
  bool state = unit_is_state(unit);
  uint64_t index = mirrors ? end->team->head : team_index(end->team);
  if (!state)
    report_shadow(end, index, unit);
  rebuilt_shadowed(end, unit);
  struct shadow *shadow = endpoint_shadow(end, reason);
  if (shadow == NULL || !shadows_reserve(shadows, unit.nmembers)) {
    tell_no_shadow(end, reason);
    return false;
  }
  if (state && !begin_state(end, shadow, limit))
    return false;
  uint32_t first = shadows->nmembers;
  struct lossy_member of = {
      .end = end, .unit = unit, .hash = end->sent != NULL ? unit_signature(unit) : 0};
  for (; of.position < unit.nmembers; of.position++)
    if (!collect_member(shadows, &of, index, program, team_looks(end->team)))
      return false;
  if (!shadows_divide(shadows, first, end))
    return true;
  struct unit issued = {shadows->members + first, unit.nmembers};
  if (state)
    return true;
  if (!copy_what_looks_otherwise(end, issued, shadows->targets + first, limit))
    return false;
  return !plugins_observe() || ask_plugins(end, index, issued, shadows->targets + first, limit);
}

static struct nccl_calls real_calls(void) {
  real_resolve();
  struct nccl_calls calls = {
#define REAL(with, KIND, NAME, ...) .NAME = real.NAME,
      NCCL_COLLECTIVES(REAL, )
#undef REAL
          .Send = real.Send,
      .Recv = real.Recv,
      .CommSplit = real.CommSplit,
      .GroupStart = real.GroupStart,
      .GroupEnd = real.GroupEnd,
      .RedOpCreatePreMulSum = real.RedOpCreatePreMulSum,
      .RedOpDestroy = real.RedOpDestroy,
      .CommGetAsyncError = real.CommGetAsyncError,
      .CommRegister = real.CommRegister,
      .CommDeregister = real.CommDeregister,
  };
  return calls;
}

/* Of units of several endpoints, the first. */
static struct log_subject subject_of(const struct member *member,
                                     const struct shadow_member *target) {
  return (struct log_subject){target->comm, target->rank, target->nranks, member->comm};
}

bool shadows_issue(struct shadows *shadows, const struct shadow_limit *limit) {
  if (shadows->nmembers == 0)
    return true;
  struct nccl_calls calls = real_calls();
  struct unit unit = {shadows->members, shadows->nmembers};
  char reason[REASON_SIZE] = "";
  ncclResult_t result = shadow_issue(&calls, unit, shadows->targets, limit, reason);
  if (result != ncclSuccess)
    report_shadow_failure(subject_of(&unit.members[0], &shadows->targets[0]), unit, reason);
  shadows->nmembers = 0;
  return result == ncclSuccess;
}

void shadows_rehearse(struct shadows *shadows, const struct endpoint *end, struct unit unit) {
  assert(shadows->nmembers == 0);
  if (end->shadow == NULL || unit.nmembers == 0 || unit.nmembers > shadows->room)
    return;
  const look_t *looks = team_looks(end->team);
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    const struct member *member = &unit.members[i];
    struct communicator *comm = endpoint_communicator(end, member->comm);
    if (!kind_traits(member->kind)->reduces || comm == NULL || comm->unfit != NULL)
      return;
    shadows->members[i] = *member;
    shadows->targets[i] = (struct shadow_member){
        end->shadow,  comm->handle, comm->rank, comm->nranks,
        member->root, NULL,         NULL,       looks == NULL ? 0 : looks[i]};
    if (!divisors_shadow(&shadows->members[i], comm))
      return;
  }
  struct nccl_calls calls = real_calls();
  shadow_rehearse(&calls, (struct unit){shadows->members, unit.nmembers}, shadows->targets);
}

void shadows_free(struct shadows *shadows) {
  free(shadows->members);
  free(shadows->targets);
}
