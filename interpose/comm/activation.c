/* Teams out of introductions (endpoint.h). Everything here must come out alike on all ranks: it
 * uses only what all ranks see, the introductions that were complete before any rank left its
 * ncclCommInit….
 */
#include "interpose/comm/endpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/report/log.h"
#include "interpose/comm/apart.h"
#include "interpose/comm/clock.h"
#include "interpose/comm/communicator.h"
#include "interpose/comm/machines.h"
#include "interpose/self/environment.h"
#include "interpose/comm/lossy_policy.h"
#include "interpose/nccl/real.h"

/* ---- who is there ---- */

/* What a communicator's ranks have said of themselves, by rank. */
struct roster {
  uint32_t nranks;
  uint32_t *slot_of;
  struct introduction *ranks;
};

static void roster_free(struct roster *roster) {
  free(roster->slot_of);
  free(roster->ranks);
}

/* ncclCommSplit orders ranks by key, then by rank in the parent. Elsewhere keys are 0 and slots are
 * ranks. */
static int by_key_then_slot(const void *a, const void *b, void *context) {
  const uint32_t *x = a, *y = b;
  const struct roster *roster = context;
  int32_t kx = roster->ranks[*x].key, ky = roster->ranks[*y].key;
  if (kx != ky)
    return kx < ky ? -1 : 1;
  return (*x > *y) - (*x < *y);
}

/* Reads what the rank in every slot has said; slots that are not taken are left out, and not
 * counted in nranks. False: no memory. */
static bool roster_read(struct roster *roster, const struct communicator *comm) {
  struct introduction *by_slot = calloc(comm->slots, sizeof(*by_slot));
  *roster = (struct roster){.slot_of = calloc(comm->slots, sizeof(uint32_t)), .ranks = by_slot};
  if (by_slot == NULL || roster->slot_of == NULL)
    return false;
  for (uint32_t slot = 0; slot < comm->slots; slot++)
    if (attachment_read(comm->attachment, slot, &by_slot[slot]))
      roster->slot_of[roster->nranks++] = slot;
  qsort_r(roster->slot_of, roster->nranks, sizeof(uint32_t), by_key_then_slot, roster);
  struct introduction *by_rank = calloc(comm->slots, sizeof(*by_rank));
  if (by_rank == NULL)
    return false;
  for (uint32_t rank = 0; rank < roster->nranks; rank++)
    by_rank[rank] = by_slot[roster->slot_of[rank]];
  roster->ranks = by_rank;
  free(by_slot);
  return true;
}

static bool activation_lists(const struct introduction *rank, uint32_t tag) {
  for (uint32_t i = 0; i < rank->ncomms; i++)
    if (rank->comms[i] == tag)
      return true;
  return false;
}

static int rank_of_identity(const struct roster *roster, uint64_t identity) {
  int found = -1;
  for (uint32_t rank = 0; rank < roster->nranks; rank++) {
    if (roster->ranks[rank].identity != identity)
      continue;
    if (found >= 0)
      return -1; /* two ranks on one device of one process: they cannot be told apart */
    found = (int)rank;
  }
  return found;
}

/* ---- teams ---- */

/* The communicators that all ranks list have an order that all ranks see alike: that in which rank
 * 0 lists them. */
static struct communicator *find_listed(struct communicator *first, uint32_t tag,
                                        uint64_t identity) {
  for (struct communicator *other = first; other != NULL; other = other->next)
    if (other->tag == tag && atomic_load(&other->state) == COMM_JOINED &&
        other->end->identity == identity)
      return other;
  return NULL;
}

static struct endpoint *same_team(const struct communicator *comm, const struct roster *roster,
                                  struct communicator *first) {
  uint64_t mine = roster->ranks[comm->rank].identity;
  for (uint32_t i = 0; i < roster->ranks[0].ncomms; i++) {
    struct communicator *other = find_listed(first, roster->ranks[0].comms[i], mine);
    bool same = other != NULL && other->nranks == comm->nranks;
    for (int rank = 0; same && rank < comm->nranks; rank++)
      same = activation_lists(&roster->ranks[rank], other->tag) &&
             rank_of_identity(roster, other->end->identities[rank]) >= 0;
    if (same)
      return other->end;
  }
  return NULL;
}

bool endpoint_enter_overlap(struct endpoint *end, struct endpoint *others) {
  for (struct endpoint *other = others; other != NULL; other = other->next)
    if (other->identity == end->identity)
      end->overlap = other->overlap;
  bool alone = end->overlap == NULL;
  if (alone)
    end->overlap = overlap_create(end->identity);
  if (end->overlap == NULL)
    return false;
  end->in_overlap = overlap_add(end->overlap, end->team, end->identities);
  if (end->in_overlap == NULL && alone)
    overlap_destroy(end->overlap);
  /* Where a rank has several teams, none of them is committed to without looking at the others. */
  for (struct endpoint *other = others; other != NULL; other = other->next)
    if (other->overlap == end->overlap)
      endpoint_end_plain(other);
  return end->in_overlap != NULL;
}

/* Whether the calling thread is the one whose program sends and receives here: it answers for that
 * while it is parked, and nobody else does. For team.is_answering. */
static bool is_poster(void *context) {
  struct endpoint *end = context;
  const struct thread *poster = atomic_load(&end->poster);
  return poster == NULL || poster == endpoint_this_thread();
}

static bool is_world(const struct roster *roster) {
  for (uint32_t rank = 0; rank < roster->nranks; rank++)
    if (roster->ranks[rank].world != roster->nranks || roster->slot_of[rank] != rank)
      return false;
  return true;
}

struct endpoint *endpoint_create(struct attachment *attachment, struct plane *plane,
                                 const uint64_t *identities) {
  struct endpoint *end = plane == NULL ? NULL : calloc(1, sizeof(*end));
  if (end == NULL)
    return NULL;
  end->attachment = attachment;
  end->creator = endpoint_this_thread();
  end->made_ms = now_ms();
  end->state = RANK_PRESENT;
  pthread_mutex_init(&end->turn, NULL);
  state_init(&end->buffers);
  end->last_joiner = plane->nranks - 1;
  end->identity = identities[plane->rank];
  end->identities = calloc(plane->nranks, sizeof(uint64_t));
  end->team = team_create(plane);
  if (lossy_remembers())
    end->sent = sent_create();
  if (end->identities == NULL || end->team == NULL || (lossy_remembers() && end->sent == NULL)) {
    endpoint_empty(end);
    return NULL;
  }
  memcpy(end->identities, identities, plane->nranks * sizeof(uint64_t));
  end->team->owner.may_mix = join_settings()->epochs == EPOCHS_MIX;
  end->team->owner.is_lossy = lossy_is_spoilt_by;
  end->team->owner.is_lossy_context = end;
  end->team->owner.is_answering = is_poster;
  end->team->owner.is_answering_context = end;
  return end;
}

static struct endpoint *new_team(struct communicator *comm, const struct roster *roster) {
  uint64_t *identities = calloc(roster->nranks, sizeof(uint64_t));
  if (identities == NULL)
    return NULL;
  for (uint32_t rank = 0; rank < roster->nranks; rank++)
    identities[rank] = roster->ranks[rank].identity;
  struct plane *plane =
      attachment_plane(comm->attachment, (uint32_t)comm->rank, roster->nranks, roster->slot_of);
  struct endpoint *end = endpoint_create(comm->attachment, plane, identities);
  free(identities);
  if (end == NULL)
    return NULL;
  end->tag = comm->tag;
  end->creator = comm->creator;
  end->device = comm->device;
  end->is_world = is_world(roster);
  const struct settings *settings = join_settings();
  if (settings->trace_folder[0] != '\0')
    end->trace = trace_open(settings->trace_folder, settings->trace_mib << 20, comm->rank,
                            comm->nranks, comm->tag);
  return end;
}

static bool enter_team(struct communicator *comm, const struct roster *roster,
                       struct communicator *first, _Atomic(struct endpoint *) *endpoints) {
  comm->team_rank_of = calloc(roster->nranks, sizeof(uint32_t));
  if (comm->team_rank_of == NULL)
    return false;
  struct endpoint *end = same_team(comm, roster, first);
  bool shared = end != NULL;
  if (!shared && (end = new_team(comm, roster)) == NULL)
    return false;
  if (!shared && !endpoint_enter_overlap(end, *endpoints)) {
    endpoint_empty(end);
    return false;
  }
  if (!shared)
    apart_watch(end);
  for (uint32_t team_rank = 0; team_rank < roster->nranks; team_rank++)
    comm->team_rank_of[shared ? (uint32_t)rank_of_identity(roster, end->identities[team_rank])
                              : team_rank] = team_rank;
  if (shared) {
    attachment_detach(comm->attachment);
    comm->attachment = NULL;
  } else {
    end->next = *endpoints;
    *endpoints = end;
  }
  comm->end = end;
  comm->next_in_team = end->comms;
  end->comms = comm;
  atomic_store(&comm->state, COMM_JOINED); /* last: it is read without the lock */
  log_line_of(communicator_subject(comm), LOG_LEVEL_INFO,
              "communicator %08x, rank %d of %d on device %d: join is on%s", comm->tag, comm->rank,
              comm->nranks, comm->device, shared ? ", in the team of an earlier one" : "");
  return true;
}

/* ---- activation ---- */

int communicator_rank_of(const struct communicator *comm, uint32_t team_rank) {
  int rank = comm->nranks - 1;
  while (rank > 0 && comm->team_rank_of[rank] != team_rank)
    rank--;
  return rank;
}

/* One rank says it for all: the first that is there. */
static void say_who_is_missing(const struct communicator *comm, const struct roster *roster) {
  char missing[128] = "";
  size_t used = 0;
  for (int rank = 0, here = 0; rank < comm->nranks; rank++) {
    if ((uint32_t)here < roster->nranks && roster->slot_of[here] == (uint32_t)rank) {
      here++;
      continue;
    }
    int wrote = snprintf(missing + used, sizeof(missing) - used, "%s%d", used ? ", " : "", rank);
    if (wrote < 0 || (size_t)wrote >= sizeof(missing) - used - 4) {
      memcpy(missing + used, "...", 4);
      break;
    }
    used += (size_t)wrote;
  }
  bool speaker = roster->nranks > 0 && roster->slot_of[0] == comm->slot;
  log_line_of(communicator_subject(comm), speaker ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
              "join is off for communicator %08x: rank %s of %d runs without libnccl-join.so, with "
              "NCCL_JOIN=0, or on another machine%s%s. %s; even ranks need nothing",
              comm->tag, missing, comm->nranks,
              comm->unmet[0] != '\0' ? ", where it is not found: " : "", comm->unmet,
              machines_advice(comm->has_job, comm->unmet));
}

static bool try_to_join(struct communicator *comm, struct communicator *first,
                        _Atomic(struct endpoint *) *endpoints) {
  if (real.CommCount(comm->handle, &comm->nranks) != ncclSuccess ||
      real.CommUserRank(comm->handle, &comm->rank) != ncclSuccess || comm->nranks < 2)
    return false;
  if (real.CommCuDevice(comm->handle, &comm->device) != ncclSuccess)
    return false;
  log_set_device(comm->device);
  struct roster roster;
  bool joined = false, read = roster_read(&roster, comm);
  bool complete =
      read && roster.nranks == (uint32_t)comm->nranks && roster.slot_of[comm->rank] == comm->slot;
  if (complete)
    joined = enter_team(comm, &roster, first, endpoints);
  else if (read)
    say_who_is_missing(comm, &roster);
  if (!joined && read == complete)
    log_line_of(
        communicator_subject(comm), LOG_LEVEL_WARN,
        "join is off for communicator %08x: out of memory. Leave the process more host memory",
        comm->tag);
  roster_free(&roster);
  return joined;
}

void endpoint_activate(struct communicator *comm, struct communicator *first,
                       _Atomic(struct endpoint *) *endpoints) {
  bool joined = try_to_join(comm, first, endpoints);
  if (comm->attachment != NULL)
    attachment_complete(comm->attachment);
  if (joined)
    return;
  comm->state = COMM_OFF;
  free(comm->team_rank_of);
  comm->team_rank_of = NULL;
  attachment_detach(comm->attachment);
  comm->attachment = NULL;
}
