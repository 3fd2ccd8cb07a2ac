/* What ranks have announced (peers.h), as it stands in the ring of operations of each.
 *
 * An announcement is an operation that counts for no pair: its ordinal is 0, so that it has been
 * met. In `count` stands which one of its pair the operation will be.
 */
#include "core/p2p/peers_private.h"

#include "core/transport/questions.h"

/* Since when a rank had issued nothing for real when it stood at an index, or stands now if it has
 * not come there. */
static uint64_t idle_since(const struct plane_log *log, uint64_t index) {
  uint64_t passed = log_passed(log), end = passed < index ? passed : index;
  if (end == 0)
    return 0;
  return log_is_real(log, end - 1) ? end : log_run_start(log, end - 1);
}

struct announcements announcements_of(const struct peers *peers, uint32_t rank, uint64_t index) {
  const struct plane_log *log = log_of(peers->plane, rank);
  uint64_t end = log_operations_end(log), begin = log_operations_begin(log);
  /* No further than a ring is long, whatever a log says. */
  if (begin > end || end - begin > PLANE_OPERATIONS)
    begin = end;
  return (struct announcements){log, begin, end, idle_since(log, index), index};
}

bool announcements_next(struct announcements *all, struct operation *operation) {
  while (all->at > all->begin) {
    operation_read(all->log, --all->at, operation);
    if (operation->index < all->since)
      return false;
    if (operation_is_announced(operation) && operation->index <= all->index)
      return true;
  }
  return false;
}

bool peers_has_left(const struct peers *peers, uint32_t rank, uint64_t index) {
  struct operation operation;
  /* Before, it may come to issue something for real. */
  if (log_passed(log_of(peers->plane, rank)) < index)
    return false;
  struct announcements all = announcements_of(peers, rank, index);
  return announcements_next(&all, &operation);
}

/* The operation of a rank, at an index or before it, that a number of its pair stands for. */
static bool find_posted(const struct plane_log *log, const struct operation *wanted, uint64_t index,
                        struct operation *operation) {
  uint64_t issued = pair_issued(log, pair_key(wanted->comm, wanted->peer, wanted->receives));
  if ((int32_t)((uint32_t)issued - wanted->ordinal) < 0)
    return false;
  uint64_t begin = log_operations_begin(log), at = log_operations_end(log);
  for (uint32_t reads = 0; at > begin && reads < PLANE_OPERATIONS; reads++) {
    operation_read(log, --at, operation);
    if (operation->peer == wanted->peer && operation->comm == wanted->comm &&
        operation->ordinal == wanted->ordinal && operation->receives == wanted->receives)
      return operation->index <= index;
  }
  return false;
}

bool announced_is_posted(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index) {
  struct operation wanted = *announced, own;
  wanted.ordinal = (uint32_t)announced->count;
  return find_posted(log_of(peers->plane, rank), &wanted, index, &own);
}

/* Whether it stands in the loop that this rank has left: its other side did, the last time that
 * this rank came to that. */
static bool announced_is_inside(const struct peers *peers, uint32_t rank,
                                const struct operation *operation) {
  uint64_t key = pair_key(operation->comm, rank, !operation->receives);
  if (operation->place == 0 || !pair_is_entered(peers->own, key) || peers->described == NULL)
    return false;
  const struct known_place *own =
      place_table_find(peers->described, peers->inside[pair_place(peers->own, key)]);
  const struct place *loop = &peers->announced.loop, *place = &peers->announced.place;
  /* In a loop around both that is further in than any that is around what comes behind. */
  return own != NULL && place_loop_around(loop, &own->place) > place_loop_around(loop, place);
}

bool announced_find_posted(const struct peers *peers, uint32_t rank,
                           const struct operation *announced, uint64_t index,
                           struct operation *other) {
  struct operation wanted = *announced;
  wanted.ordinal = (uint32_t)announced->count;
  wanted.peer = rank;
  wanted.receives = !announced->receives;
  /* What stands in the loop is answered, and has the number of what comes behind it until then. */
  return find_posted(log_of(peers->plane, announced->peer), &wanted, index, other) &&
         (rank != peers->plane->rank || (other->flags & OPERATION_BEHIND) ||
          !announced_is_inside(peers, announced->peer, other));
}

bool announced_find_side(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index,
                         struct operation *other) {
  struct announcements all = announcements_of(peers, announced->peer, index);
  while (announcements_next(&all, other))
    if (other->peer == rank && other->comm == announced->comm && other->count == announced->count &&
        other->receives != announced->receives)
      return true;
  return false;
}

bool announced_is_matched(const struct peers *peers, uint32_t rank,
                          const struct operation *announced, uint64_t index) {
  struct operation other;
  return announced_find_side(peers, rank, announced, index, &other) ||
         announced_find_posted(peers, rank, announced, index, &other);
}

uint32_t announced_round(const struct peers *peers, uint32_t rank,
                         const struct operation *announced, uint64_t index) {
  struct operation other;
  uint32_t rounds = 0, group = 0;
  struct announcements all = announcements_of(peers, rank, index);
  while (announced->place != 0 && announcements_next(&all, &other)) {
    if (other.place != announced->place || other.peer != announced->peer ||
        other.comm != announced->comm || other.receives != announced->receives ||
        other.count > announced->count)
      continue;
    rounds += rounds == 0 || other.group != group;
    group = other.group;
  }
  return rounds;
}

bool announced_is_through(const struct peers *peers, uint32_t rank,
                          const struct operation *announced, uint64_t index) {
  struct operation other;
  return announced_is_posted(peers, rank, announced, index) ||
         (peers_has_left(peers, announced->peer, index) &&
          announced_find_posted(peers, rank, announced, index, &other));
}

bool announced_is_later(const struct peers *peers, uint32_t rank, const struct operation *announced,
                        uint64_t index) {
  struct operation other;
  struct announcements all = announcements_of(peers, rank, index);
  while (announcements_next(&all, &other))
    if ((int32_t)(announced->group - other.group) > 0)
      return true;
  return false;
}

bool announced_holds(const struct peers *peers, uint32_t rank, uint64_t index) {
  struct operation operation;
  struct announcements all = announcements_of(peers, rank, index);
  while (announcements_next(&all, &operation))
    if (operation.peer < peers->plane->nranks &&
        !announced_is_through(peers, rank, &operation, index))
      return true;
  return false;
}

bool announced_some(struct peers *peers) {
  struct peers_announced *announced = &peers->announced;
  announced->some =
      announced->some && announced->index >= idle_since(peers->own, log_passed(peers->own));
  return announced->some;
}

uint64_t announced_begin(struct peers *peers) {
  struct peers_announced *announced = &peers->announced;
  announced->kept =
      announced->kept && (announced_some(peers) || plane_slowest(peers->plane) <= announced->index);
  return announced->kept ? announced->begin : UINT64_MAX;
}

bool announced_is_answered(const struct peers *peers, uint32_t rank,
                           const struct operation *operation) {
  if (!peers->announced.held && !peers->announced.inside)
    return true;
  return !(operation->flags & OPERATION_BEHIND) &&
         (!peers->announced.inside ||
          ((peers->windows[rank].left || peers->windows[rank].awaited) &&
           announced_is_inside(peers, rank, operation)));
}

void announced_mirror(struct peers *peers, const struct member *mirrors, uint32_t nmirrors) {
  uint64_t end = peers->end;
  for (uint64_t at = peers->announced.begin; peers->announced.held && at < end; at++) {
    struct operation operation;
    uint64_t before = 0;
    operation_read(peers->own, at, &operation);
    if (!operation_is_announced(&operation) || operation.group != peers->announced.group)
      continue;
    uint64_t key = pair_key(operation.comm, operation.peer, operation.receives);
    for (uint32_t i = 0; i < nmirrors; i++)
      before += pair_key_of(&mirrors[i]) == key;
    if (before == 0 || operation.count <= peers->counted[pair_place(peers->own, key)] ||
        peers->end + nmirrors - log_operations_begin(peers->own) >= PLANE_OPERATIONS)
      continue;
    operation.count += before;
    log_write_operation(peers->own, peers->end++, &operation);
  }
  log_show_operations(peers->own, peers->end);
}

void announced_post(struct peers *peers, const struct member *members, uint32_t nmembers) {
  for (uint32_t i = 0; peers->announced.in_order && i < nmembers; i++)
    peers->ordered[pair_place(peers->own, pair_key_of(&members[i]))] = true;
  peers->announced.in_order = false;
}

void peers_hold(struct peers *peers) {
  pthread_mutex_lock(&peers->lock);
  peers->announced.held = true;
  pthread_mutex_unlock(&peers->lock);
}

void peers_release(struct peers *peers, bool in_order) {
  pthread_mutex_lock(&peers->lock);
  peers->announced.held = false;
  peers->announced.in_order = in_order;
  pthread_mutex_unlock(&peers->lock);
}
