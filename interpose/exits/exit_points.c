/* Leaving through functions that are not NCCL's (exit_points.h). */
#include "interpose/exits/exit_points.h"

#include <stdlib.h>

#include "core/report/log.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/gathering.h"
#include "interpose/self/environment.h"
#include "interpose/park/transaction.h"
#include "interpose/elf/trampolines.h"

/* ---- which ---- */

/* By their number, as environment.h has it. */
static struct import_name names[EXIT_POINTS_MAX];
static size_t nnames;

static void pass_through(const struct trampoline_call *call);

void exit_points_choose(void) {
  static atomic_flag chosen = ATOMIC_FLAG_INIT;
  const struct settings *settings = join_settings();
  if (settings == NULL || !settings->enabled || atomic_flag_test_and_set(&chosen))
    return;
  nnames = exit_points_read(settings);
  for (size_t i = 0; i < nnames; i++) {
    names[i].name = exit_point(i)->name;
    names[i].outside = exit_point(i)->of == EXIT_POINT_OF_MPI;
  }
  trampolines_choose(names, nnames, pass_through);
}

void exit_points_open(void) {
  static atomic_flag said = ATOMIC_FLAG_INIT;
  exit_points_choose();
  trampolines_place();
  if (atomic_flag_test_and_set(&said))
    return;
  for (size_t i = 0; i < nnames; i++) {
    const char *name = names[i].name;
    if (exit_point(i)->of == EXIT_POINT_OF_USER && !names[i].found && name != NULL)
      log_line(
          LOG_LEVEL_WARN,
          "NCCL_JOIN_EXIT_ON: nothing that is loaded now calls %s through an import table. "
          "Calls from libraries loaded later, and by dlsym from now on, are seen; calls of the "
          "program's own functions from within it never, within a library only if that "
          "exports the function (-fPIC): put it into a library",
          name);
  }
}

void exit_points_close(void) {
  trampolines_remove();
}

/* ---- a call ---- */

/* The last call that this thread has waited before. */
static _Thread_local struct {
  size_t number; /* of the function plus one; 0: none yet */
  uintptr_t stack, back;
  uint64_t passed; /* collectives since then: none inside of the function, so far */
} last;

/* Whether the function is still under way, and has called itself: further down on the stack, and
 * the address that it is to return to still there. */
static bool is_inside(const struct trampoline_call *call, uint64_t passed) {
  if (exit_point(call->name)->of != EXIT_POINT_OF_USER || last.number != call->name + 1 ||
      last.passed != passed || call->stack >= last.stack)
    return false;
#ifdef __x86_64__
  return *(const uintptr_t *)last.stack == last.back;
#else
  return true;
#endif
}

/* A communicator of this thread that others can be waiting in. */
static bool is_used(const struct communicator *comm) {
  return comm->state == COMM_JOINED && !comm->left && comm->end->state == RANK_PRESENT &&
         endpoint_is_own(comm->end) && atomic_load(&comm->end->inside) == 0;
}

static bool has_member(const struct endpoint *end, uint64_t identity) {
  for (uint32_t rank = 0; rank < end->team->plane->nranks; rank++)
    if (end->identities[rank] == identity)
      return true;
  return false;
}

/* Whether all that are in the team of `part` are in that of `whole`: waiting there is enough. Of
 * equal teams the one in front. */
static bool is_part(const struct endpoint *part, const struct endpoint *whole, bool before) {
  uint32_t nranks = part->team->plane->nranks;
  if (part->identity != whole->identity || nranks > whole->team->plane->nranks ||
      (nranks == whole->team->plane->nranks && before))
    return false;
  for (uint32_t rank = 0; rank < nranks; rank++)
    if (!has_member(whole, part->identities[rank]))
      return false;
  return true;
}

/* Where the thread is to wait: in the communicators of at most so many ranks. */
struct visit {
  struct request *requests;
  uint32_t nrequests;
  struct member mark;
};

static void add_request(struct visit *visit, struct endpoint *end) {
  for (uint32_t i = 0; i < visit->nrequests; i++)
    if (visit->requests[i].end == end)
      return;
  visit->requests[visit->nrequests++] = (struct request){.end = end, .unit = {&visit->mark, 1}};
}

/* One that has been left out is part of another that is still there, and so is what is part of it.
 */
static void leave_out_parts(struct visit *visit) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < visit->nrequests; i++) {
    bool part = false;
    for (uint32_t j = 0; j < visit->nrequests; j++)
      if (j < kept || j > i)
        part |= is_part(visit->requests[i].end, visit->requests[j].end, i < j);
    if (!part)
      visit->requests[kept++] = visit->requests[i];
  }
  visit->nrequests = kept;
}

/* How far the thread's ranks have come. */
static uint64_t passed_by_all(void) {
  uint64_t passed = 0;
  for (const struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next)
    if (is_used(comm))
      passed += team_passed(comm->end->team);
  return passed;
}

static void say_where(const struct endpoint *end, void *name) {
  log_line_of(endpoint_subject(end), LOG_LEVEL_INFO,
              "rank %u has come to %s after %llu collectives; it answers for the others until all "
              "have left their loop",
              end->team->plane->rank, (const char *)name,
              (unsigned long long)team_passed(end->team));
}

/* What has gone wrong has been said; the function runs all the same. */
static void wait_for_all(struct visit *visit, const char *name) {
  (void)transaction_make(&(struct transaction){.kind = TRANSACTION_EXIT_POINT,
                                               .requests = visit->requests,
                                               .nrequests = visit->nrequests,
                                               .entered = say_where,
                                               .context = (void *)name});
}

/* In which teams the call is waited for. Without memory in none. */
static void exit_points_plan(struct visit *visit, const struct trampoline_call *call,
                             uint32_t nranks_max) {
  bool of_world = exit_point(call->name)->of == EXIT_POINT_OF_PYTORCH;
  uint32_t count = 0;
  *visit = (struct visit){.mark = mark_member((enum mark)exit_point(call->name)->mark)};
  communicator_endpoints();
  for (const struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next)
    count++;
  visit->requests = count == 0 ? NULL : calloc(count, sizeof *visit->requests);
  for (const struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next)
    if (visit->requests != NULL && visit->nrequests < count && is_used(comm) &&
        comm->end->team->plane->nranks <= nranks_max && (!of_world || comm->end->is_world))
      add_request(visit, comm->end);
  leave_out_parts(visit);
}

/* How many ranks the call is of: the library knows; one of the user's is of all. */
static uint32_t ranks_of(const struct trampoline_call *call) {
  const struct exit_point *point = exit_point(call->name);
  switch (point->of) {
  case EXIT_POINT_OF_USER:
    return UINT32_MAX;
  case EXIT_POINT_OF_MPI:
    return mpi_ranks(call->function, point->takes_communicator ? &call->argument : NULL);
  case EXIT_POINT_OF_PYTORCH:
    return pytorch_ranks((const void *)call->argument, (call->third & 0xff) != 0);
  }
  return 0;
}

/* The communicator of all ranks, if there is one that others may wait for this one in. */
static struct endpoint *find_world(void) {
  communicator_endpoints();
  for (const struct communicator *comm = communicator_first(); comm != NULL; comm = comm->next)
    if (comm->state == COMM_JOINED && !comm->left && comm->end->is_world &&
        comm->end->state == RANK_PRESENT && !apart_is_set(comm->end))
      return comm->end;
  return NULL;
}

static bool are_of(const struct endpoint *world, const uint32_t *ranks, uint32_t nranks,
                   uint32_t own) {
  for (uint32_t i = 0; i < nranks; i++)
    if (ranks[i] >= world->team->plane->nranks)
      return false;
  return own < nranks && ranks[own] == world->team->plane->rank;
}

/* PyTorch makes a communicator of some of the ranks: they are waited for, whichever thread is to
 * answer the others. */
static void exit_points_gather(const struct trampoline_call *call) {
  const void *group = (const void *)call->argument;
  uint32_t nranks = pytorch_ranks(group, (call->third & 0xff) != 0);
  struct endpoint *world = find_world(), *end = NULL;
  if (world == NULL || nranks < 2 || nranks >= world->team->plane->nranks)
    return;
  uint32_t *ranks = calloc(nranks, sizeof *ranks);
  uint32_t own = ranks == NULL ? nranks : pytorch_members(call->function, group, ranks, nranks);
  if (own < nranks && are_of(world, ranks, nranks, own))
    end = gathering_begin(world, ranks, nranks, own);
  free(ranks);
  if (end == NULL)
    return;
  struct member mark = mark_member((enum mark)exit_point(call->name)->mark);
  struct request request = {.end = end, .unit = {&mark, 1}};
  struct visit visit = {.requests = &request, .nrequests = 1};
  wait_for_all(&visit, exit_point_name(exit_point(call->name)->mark));
  gathering_end(end);
}

static void pass_through(const struct trampoline_call *call) {
  if (communicator_first() == NULL || !guard_is_open() || !guard_acts())
    return;
  guard_raise();
  struct visit visit;
  bool inside = is_inside(call, passed_by_all());
  exit_points_plan(&visit, call, inside ? 0 : ranks_of(call));
  if (visit.nrequests > 0) {
    wait_for_all(&visit, exit_point_name(exit_point(call->name)->mark));
    last.number = call->name + 1;
    last.stack = call->stack;
    last.back = *call->back;
    last.passed = passed_by_all();
  } else if (exit_point(call->name)->of == EXIT_POINT_OF_PYTORCH) {
    exit_points_gather(call);
  }
  free(visit.requests);
  guard_lower();
}
