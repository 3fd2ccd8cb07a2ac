/* What ranks have announced (peers.h), as it stands in the ring of operations of each.
 *
 * An announcement is an operation that counts for no pair: its ordinal is 0, so that it has been met. In
 * `count` stands which one of its pair the operation will be.
 */
#include "core/p2p/peers_private.h"

/* Since when a rank had issued nothing for real when it stood at an index, or stands now if it has not
 * come there. */
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
    if ((operation->flags & OPERATION_BEHIND) && operation->index <= all->index)
      return true;
  }
  return false;
}

static bool has_pair_of(const struct posts *posts, const struct operation *operation) {
  uint64_t key = pair_key(operation->comm, operation->peer, operation->receives);
  for (uint32_t i = 0; i < posts->nmembers; i++)
    if (pair_key_of(&posts->members[i]) == key)
      return true;
  return false;
}

uint32_t peers_announced_before(struct peers *peers, const struct posts *posts) {
  struct operation operation;
  uint32_t place = 0;
  pthread_mutex_lock(&peers->lock);
  struct announcements all = announcements_of(peers, peers->plane->rank, UINT64_MAX);
  while (place == 0 && announcements_next(&all, &operation))
    if (operation.place != posts->place && has_pair_of(posts, &operation))
      place = operation.place;
  pthread_mutex_unlock(&peers->lock);
  return place;
}

bool peers_has_left(const struct peers *peers, uint32_t rank, uint64_t index) {
  struct operation operation;
  /* Before, it may come to issue something for real. */
  if (log_passed(log_of(peers->plane, rank)) < index)
    return false;
  struct announcements all = announcements_of(peers, rank, index);
  return announcements_next(&all, &operation);
}

uint64_t announced_begin(struct peers *peers) {
  if (peers->announced.some &&
      peers->announced.index < idle_since(peers->own, log_passed(peers->own)))
    peers->announced.some = false;
  return peers->announced.some ? peers->announced.begin : UINT64_MAX;
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
