/* Who has left a loop of collectives for its sends and receives, and whom it waits for (peers.h).
 */
#include "core/p2p/linking.h"

/* Where the peer of what a rank has announced stands. Who has left the loop is linked, too. */
static enum peers_stand stand_of(struct linking *linking, uint32_t rank,
                                 const struct operation *announced) {
  struct peers *peers = linking->peers;
  uint32_t peer = announced->peer;
  struct operation other;
  /* Looked at first: what it has announced before it came to the index is to be seen then. */
  bool come = linked_has_come(linking, peer), left = peers_has_left(peers, peer, linking->index);
  /* It has left the loop for that, and has gone on since. Who has left a loop of which nothing can
   * be seen announces nothing. */
  if (!left && announced_find_posted(peers, rank, announced, linking->index, &other) &&
      (other.place == 0 || (other.flags & OPERATION_BEHIND)))
    return STAND_LEFT;
  if (left && peers->announced.held && rounds_is_ahead(linking, rank, announced))
    return rounds_stand_of_late(linking, peer,
                                announced_round(peers, rank, announced, linking->index) > 1);
  if (left) {
    peers->windows[peer].next_linked = linking->rest;
    linking->rest = peer;
    return STAND_LEFT;
  }
  if (!come)
    return log_state(log_of(peers->plane, peer)) == RANK_DONE ? STAND_LEFT : STAND_OPEN;
  enum peers_stand stand = linking->standing->of_unit(linking->standing->context, peer);
  if (stand == STAND_LEFT)
    stand = linking->standing->of_skipped(linking->standing->context, peer);
  if (stand == STAND_AHEAD)
    linking->ahead = peer;
  return stand;
}

/* Of a rank that has left, and its peers, the one that says most. */
static enum peers_stand stand_of_rank(struct linking *linking, uint32_t rank) {
  struct peers *peers = linking->peers;
  bool held = peers->announced.held, own = rank == peers->plane->rank;
  bool done = own || linked_announces_no_more(linking, rank), some = false, matched = true;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  enum peers_stand stand = STAND_LEFT;
  while (announcements_next(&all, &announced)) {
    /* What a rank does next it does behind what it has posted, and its device may wait. */
    if (announced.peer >= peers->plane->nranks ||
        (held && announced_is_through(peers, rank, &announced, linking->index)))
      continue;
    some = true;
    if (!announced_is_matched(peers, rank, &announced, linking->index)) {
      matched = false;
      if (!announced_is_posted(peers, rank, &announced, linking->index))
        peers->windows[announced.peer].awaited = true;
    }
    linking->rounds |= !held && rounds_is_kept_by(linking, rank, &announced);
    if (peers->windows[announced.peer].linked == peers->searches)
      continue;
    peers->windows[announced.peer].linked = peers->searches;
    enum peers_stand here = stand_of(linking, rank, &announced);
    stand = here > stand ? here : stand;
  }
  peers->windows[rank].walked = peers->searches;
  peers->windows[rank].stuck = !matched;
  if (done || (held && some))
    return stand;
  peers->windows[rank].next_open = linking->open;
  linking->open = rank;
  return stand;
}

/* ---- the ranks that go on ---- */

/* Whether a rank holds something back for one that does not go on. */
static bool is_stuck_by_another(const struct linking *linking, uint32_t rank) {
  const struct peers *peers = linking->peers;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  while (announcements_next(&all, &announced))
    if (announced.peer < peers->plane->nranks &&
        peers->windows[announced.peer].walked == peers->searches &&
        peers->windows[announced.peer].stuck &&
        !announced_is_through(peers, rank, &announced, linking->index))
      return true;
  return false;
}

/* Whether this rank waits for a peer that does something else first, and other ranks go on. Where
 * nobody does, NCCL's buffers are all that helps. */
static bool others_go_on(struct linking *linking) {
  struct peers *peers = linking->peers;
  struct window *windows = peers->windows;
  uint32_t nranks = peers->plane->nranks;
  bool some = false;
  for (bool moved = true; moved;) {
    moved = some = false;
    for (uint32_t rank = 0; rank < nranks; rank++) {
      if (windows[rank].walked != peers->searches || windows[rank].stuck)
        continue;
      windows[rank].stuck = is_stuck_by_another(linking, rank);
      moved |= windows[rank].stuck;
      some |= !windows[rank].stuck;
    }
  }
  return some && windows[peers->plane->rank].stuck;
}

static enum peers_stand stand_of_all(struct linking *linking) {
  struct peers *peers = linking->peers;
  uint32_t nobody = peers->plane->nranks, own = peers->plane->rank;
  enum peers_stand stand = STAND_LEFT;
  for (uint32_t rank = 0; rank < nobody; rank++)
    peers->windows[rank].awaited = false;
  peers->searches++;
  peers->windows[own].linked = peers->searches;
  peers->windows[own].next_linked = nobody;
  linking->rest = own;
  linking->open = nobody;
  while (linking->rest != nobody && stand != STAND_AHEAD) {
    uint32_t rank = linking->rest;
    linking->rest = peers->windows[rank].next_linked;
    enum peers_stand here = stand_of_rank(linking, rank);
    stand = here > stand ? here : stand;
  }
  if (stand == STAND_LEFT && !rounds_all_are_kept(linking))
    return STAND_OPEN;
  if (stand == STAND_LEFT && linking->rounds)
    return rounds_stand(linking);
  return stand == STAND_LEFT && peers->announced.held && others_go_on(linking) ? STAND_OPEN : stand;
}

enum peers_stand peers_stand(struct peers *peers, uint64_t index, const struct standing *standing,
                             uint32_t *ahead) {
  struct linking linking = {
      .peers = peers, .standing = standing, .index = index, .ahead = peers->plane->rank};
  pthread_mutex_lock(&peers->lock);
  enum peers_stand stand = windows_make(peers) ? stand_of_all(&linking) : STAND_LEFT;
  *ahead = linking.ahead;
  pthread_mutex_unlock(&peers->lock);
  return stand;
}

/* ---- announcing ---- */

bool peers_announce(struct peers *peers, const struct posts *posts, uint64_t index,
                    const struct place *loop) {
  bool room = false;
  peers_begin(peers);
  pthread_mutex_lock(&peers->lock);
  if (plane_posting(peers->plane) == POSTING_TRACKED && posts->nmembers <= PLANE_OPERATIONS / 2)
    room = post_has_room(peers, posts->nmembers);
  peers->group += room;
  if (room && announced_begin(peers) == UINT64_MAX)
    peers->announced.begin = peers->end;
  for (uint32_t i = 0; room && i < posts->nmembers; i++) {
    const struct member *member = &posts->members[i];
    uint64_t key = pair_key_of(member);
    bool known = pair_is_entered(peers->own, key);
    uint64_t before = known ? peers->counted[pair_place(peers->own, key)] : 0;
    log_write_operation(peers->own, peers->end++,
                        &(struct operation){.count = before + pair_earlier(posts->members, i) + 1,
                                            .index = index,
                                            .comm = member->comm,
                                            .group = peers->group,
                                            .peer = (uint32_t)member->root,
                                            .place = posts->place,
                                            .datatype = member->datatype,
                                            .receives = member->kind == MEMBER_RECEIVE,
                                            .flags = OPERATION_BEHIND});
  }
  if (room) {
    const struct known_place *known =
        peers->described == NULL ? NULL : place_table_find(peers->described, posts->place);
    peers->announced.place = peers->announced.loop = (struct place){0};
    if (known != NULL)
      peers->announced.place = known->place;
    if (known != NULL && loop != NULL)
      peers->announced.loop = *loop;
    peers->announced.some = peers->announced.kept = true;
    peers->announced.index = index;
    peers->announced.group = peers->group;
    log_show_operations(peers->own, peers->end);
  }
  pthread_mutex_unlock(&peers->lock);
  return room;
}

bool peers_are_ordered(struct peers *peers, bool in_order) {
  bool ordered = true;
  struct operation operation;
  pthread_mutex_lock(&peers->lock);
  struct announcements all = announcements_of(peers, peers->plane->rank, UINT64_MAX);
  while (ordered && announcements_next(&all, &operation)) {
    uint64_t key = pair_key(operation.comm, operation.peer, operation.receives);
    ordered = (in_order && operation.receives) ||
              (pair_is_entered(peers->own, key) && peers->ordered[pair_place(peers->own, key)]);
  }
  pthread_mutex_unlock(&peers->lock);
  return ordered;
}
