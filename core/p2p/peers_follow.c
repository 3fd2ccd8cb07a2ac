/* How far the devices of all ranks will come (peers_private.h), given what has been posted.
 *
 * The model: a rank's device does its groups and units in the order in which the rank issued them,
 * one after the other. A group begins when the one before it is done and all ranks have issued and
 * begun the units before it; it is done when all partners of its operations have begun. That is
 * what NCCL promises for one communicator. Where a team has several, a device may do more at once
 * than the model does: a mirror then comes later than it could, and never too early.
 */
#include "core/p2p/peers_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- copying ---- */

static bool make_room(struct peers *peers, uint64_t more) {
  if (peers->noperations + more <= peers->room)
    return true;
  size_t room = 2 * (peers->noperations + more);
  struct operation *operations = realloc(peers->operations, room * sizeof(*operations));
  if (operations == NULL)
    return false;
  peers->operations = operations;
  peers->room = room;
  return true;
}

static bool copy_rank(struct peers *peers, uint32_t rank) {
  const struct plane_log *log = log_of(peers->plane, rank);
  struct window *window = &peers->windows[rank];
  /* In this order: what a rank has posted before it came to where it stands is there. */
  *window = (struct window){
      .head = log_passed(log),
      .claim = log_claimed(log),
      .answering = log_answering(log),
      .ended = log_state(log) == RANK_DONE,
      .last = log_operations_end(log),
      .at = peers->noperations,
      .left = peers->announced.inside && peers_has_left(peers, rank, log_passed(peers->own)),
      .awaited = window->awaited,
  };
  uint64_t begin = log_operations_begin(log);
  if (begin < peers->done[rank])
    begin = peers->done[rank];
  /* Never so in a log that is as it should be. */
  if (begin > window->last || window->last - begin > PLANE_OPERATIONS)
    begin = window->last;
  if (!make_room(peers, window->last - begin))
    return false;
  for (uint64_t i = begin; i < window->last; i++) {
    struct operation *operation = &peers->operations[peers->noperations++];
    operation_read(log, i, operation);
    if (operation->peer >= peers->plane->nranks)
      operation->peer = rank; /* nobody's */
  }
  uint64_t gone = log_operations_gone(log);
  window->first = window->next = begin;
  if (gone > begin)
    window->next = gone < window->last ? gone : window->last;
  return true;
}

/* ---- finding the other side of an operation ---- */

/* Who posted it is not in an operation; it is known by where the operation stands. */
static bool is_operation(const struct peers *peers, uint32_t at, uint32_t rank,
                         const struct operation *wanted) {
  const struct window *window = &peers->windows[rank];
  const struct operation *operation = &peers->operations[at];
  return at >= window->at && at - window->at < window->last - window->first &&
         operation->peer == wanted->peer && operation->comm == wanted->comm &&
         operation->receives == wanted->receives && operation->ordinal == wanted->ordinal;
}

/* Where an operation of a rank is entered, or would be. */
static uint32_t *find_place(const struct peers *peers, uint32_t rank,
                            const struct operation *wanted) {
  uint64_t hash = pair_key(wanted->comm, wanted->peer, wanted->receives) ^
                  ((uint64_t)wanted->ordinal << 20 | rank) * UINT64_C(0xd6e8feb86659fd93);
  size_t at = (size_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (peers->nplaces - 1);
  while (peers->places[at] != 0 && !is_operation(peers, peers->places[at] - 1, rank, wanted))
    at = (at + 1) & (peers->nplaces - 1);
  return &peers->places[at];
}

/* Of operations that are the same, which there are only in a log that is not as it should be, the
 * last is entered. */
static bool enter_all_places(struct peers *peers) {
  size_t nplaces = 64;
  while (nplaces < 2 * peers->noperations)
    nplaces *= 2;
  if (nplaces > peers->nplaces) {
    uint32_t *places = realloc(peers->places, nplaces * sizeof(*places));
    if (places == NULL)
      return false;
    peers->places = places;
    peers->nplaces = nplaces;
  }
  memset(peers->places, 0, peers->nplaces * sizeof(*peers->places));
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = 0; i < window->last - window->first; i++)
      *find_place(peers, rank, &peers->operations[window->at + i]) = (uint32_t)(window->at + i) + 1;
  }
  return true;
}

bool windows_make(struct peers *peers) {
  if (peers->windows == NULL)
    peers->windows = calloc(peers->plane->nranks, sizeof(*peers->windows));
  return peers->windows != NULL;
}

static bool copy_all(struct peers *peers) {
  uint32_t nranks = peers->plane->nranks;
  if (peers->done == NULL)
    peers->done = calloc(nranks, sizeof(*peers->done));
  if (!windows_make(peers) || peers->done == NULL)
    return false;
  peers->noperations = 0;
  for (uint32_t rank = 0; rank < nranks; rank++)
    if (!copy_rank(peers, rank))
      return false;
  return enter_all_places(peers);
}

/* ---- following ---- */

/* What a look is for. */
struct look {
  struct peers *peers;
  struct member *mirrors; /* NULL: this rank is like any other */
  uint32_t nmirrors, limit;
};

static struct operation *operation_at(const struct peers *peers, const struct window *window,
                                      uint64_t position) {
  return &peers->operations[window->at + (position - window->first)];
}

static uint64_t end_of_group(const struct peers *peers, struct window *window) {
  uint64_t end = window->next;
  if (window->group_end > end)
    return window->group_end;
  uint32_t group = operation_at(peers, window, end)->group;
  while (end < window->last && operation_at(peers, window, end)->group == group)
    end++;
  window->group_end = end;
  return end;
}

/* Whether the units before an index will be done: all ranks have issued them, and nothing that
 * stands before them is still to be done. A rank that mirrors answers whatever comes. */
static bool units_are_done(const struct look *look, uint64_t index) {
  const struct peers *peers = look->peers;
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    if (window->head < index)
      return false;
    if (look->mirrors != NULL && rank == peers->plane->rank)
      continue;
    if (window->next < window->last && operation_at(peers, window, window->next)->index < index)
      return false;
  }
  return true;
}

static bool group_begins(const struct look *look, const struct window *window) {
  return units_are_done(look, operation_at(look->peers, window, window->next)->index);
}

/* Whether the partner of a rank's post has begun. next: gets whether it is in the next group of its
 * rank, so that it has not come to its end. */
static bool partner_begins(const struct look *look, uint32_t rank,
                           const struct operation *operation, bool *next) {
  const struct peers *peers = look->peers;
  struct window *other = &peers->windows[operation->peer];
  *next = false;
  if (operation_is_announced(operation))
    return true; /* it is posted behind that */
  if (!operation_is_met(peers, rank, operation))
    return false;
  /* Counted after we copied: its place is not known yet. */
  if (log_operations_end(log_of(peers->plane, operation->peer)) != other->last)
    return false;
  uint64_t waiting = other->next;
  if (waiting < other->last && group_begins(look, other))
    waiting = end_of_group(peers, other);
  struct operation side = {.comm = operation->comm,
                           .peer = rank,
                           .receives = !operation->receives,
                           .ordinal = operation->ordinal};
  uint32_t place = *find_place(peers, operation->peer, &side);
  *next = place != 0 && place - 1 - other->at >= other->next - other->first;
  return place == 0 || place - 1 - other->at < waiting - other->first;
}

/* Whether another rank that is parked will answer an operation, as this one would. */
static bool another_answers(const struct peers *peers, uint32_t rank,
                            const struct operation *operation) {
  const struct window *other = &peers->windows[operation->peer];
  bool answers = other->answering == other->head + 1 && other->answering > operation->index;
  return (answers || (peers->announced.inside && other->left)) &&
         !operation_is_met(peers, rank, operation);
}

/* Goes from a rank's next group to those of its partners: puts them in front of `rest`, a list of
 * ranks that ends with the number of ranks. False if one of them has not begun. */
static bool link_partners(const struct look *look, uint32_t rank, uint32_t *rest) {
  struct peers *peers = look->peers;
  struct window *window = &peers->windows[rank];
  uint64_t end = end_of_group(peers, window);
  for (uint64_t i = window->next; i < end; i++) {
    const struct operation *operation = operation_at(peers, window, i);
    struct window *other = &peers->windows[operation->peer];
    if (operation->peer == peers->plane->rank || another_answers(peers, rank, operation))
      continue;
    bool next;
    if (!partner_begins(look, rank, operation, &next))
      return false;
    if (!next || other->linked == peers->searches)
      continue;
    other->linked = peers->searches;
    other->next_linked = *rest;
    *rest = operation->peer;
  }
  return true;
}

/* Whether a rank's next group, and all that are linked to it by their partners, have been posted
 * and begin. NCCL connects the ranks of a group on the host, all of them at once: who answered one
 * of these groups before the others have come would wait there for that rank, which waits for them,
 * and they for the answer. Nothing is lost by the wait: the group is not done before they are
 * there.
 */
static bool linked_groups_begin(const struct look *look, uint32_t rank) {
  struct peers *peers = look->peers;
  uint32_t nobody = peers->plane->nranks, rest = nobody;
  peers->windows[rank].linked = ++peers->searches;
  while (link_partners(look, rank, &rest)) {
    if (rest == nobody)
      return true;
    rank = rest;
    rest = peers->windows[rank].next_linked;
  }
  return false;
}

/* Whether a rank's next group has something for this rank to answer. */
static bool is_asked(const struct peers *peers, uint32_t rank, uint64_t end) {
  const struct window *window = &peers->windows[rank];
  for (uint64_t i = window->next; i < end; i++) {
    const struct operation *operation = operation_at(peers, window, i);
    if (operation->peer == peers->plane->rank && !operation->mirrored &&
        !operation_is_met(peers, rank, operation) && announced_is_answered(peers, rank, operation))
      return true;
  }
  return false;
}

/* False if there is no room for it, or it cannot be what it says. */
static bool peers_mirror(struct look *look, uint32_t rank, struct operation *operation) {
  if (operation->mirrored || operation_is_met(look->peers, rank, operation))
    return true;
  if (look->nmirrors == look->limit || !announced_is_answered(look->peers, rank, operation) ||
      !operation_mirror(look->peers, rank, operation, look->mirrors, look->nmirrors))
    return false;
  look->nmirrors++;
  return true;
}

/* Moves a rank past its next group if that comes to an end. */
static bool follow_group(struct look *look, uint32_t rank) {
  struct peers *peers = look->peers;
  struct window *window = &peers->windows[rank];
  if (window->next == window->last || !group_begins(look, window))
    return false;
  uint64_t end = end_of_group(peers, window);
  if (look->mirrors != NULL && is_asked(peers, rank, end) && !linked_groups_begin(look, rank))
    return false;
  bool done = true, next;
  for (uint64_t i = window->next; i < end; i++) {
    struct operation *operation = operation_at(peers, window, i);
    if (look->mirrors != NULL && operation->peer == peers->plane->rank)
      done &= peers_mirror(look, rank, operation);
    else
      done &= partner_begins(look, rank, operation, &next);
  }
  if (done)
    window->next = end;
  return done;
}

bool follow_operations(struct peers *peers, struct member *mirrors, uint32_t *nmirrors,
                       uint32_t limit) {
  struct look look = {peers, mirrors, 0, limit};
  if (!copy_all(peers))
    return false;
  bool moved = true;
  while (moved) {
    moved = false;
    for (uint32_t rank = 0; rank < peers->plane->nranks; rank++)
      while ((mirrors == NULL || rank != peers->plane->rank) && follow_group(&look, rank))
        moved = true;
  }
  /* What a mirror of this look has been supposed for is only known once that has been posted. */
  if (look.nmirrors == 0 && mirrors == NULL)
    for (uint32_t rank = 0; rank < peers->plane->nranks; rank++)
      peers->done[rank] = peers->windows[rank].next;
  if (nmirrors != NULL)
    *nmirrors = look.nmirrors;
  return true;
}
