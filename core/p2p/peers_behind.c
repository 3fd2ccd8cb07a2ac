/* Who has left a loop of collectives for its sends and receives, and whom it waits for (peers.h). */
#include "core/p2p/peers_private.h"

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

/* Whether a rank had posted what it has announced when it stood at an index. */
static bool is_posted(const struct peers *peers, uint32_t rank, const struct operation *announced,
                      uint64_t index) {
  struct operation wanted = *announced, own;
  wanted.ordinal = (uint32_t)announced->count;
  return find_posted(log_of(peers->plane, rank), &wanted, index, &own);
}

/* The other side of what a rank has announced, if its peer had posted that. */
static bool find_other_side(const struct peers *peers, uint32_t rank,
                            const struct operation *announced, uint64_t index,
                            struct operation *other) {
  struct operation wanted = *announced;
  wanted.ordinal = (uint32_t)announced->count;
  wanted.peer = rank;
  wanted.receives = !announced->receives;
  return find_posted(log_of(peers->plane, announced->peer), &wanted, index, other);
}

/* Whether the peer has at least announced it. */
static bool is_matched(const struct peers *peers, uint32_t rank, const struct operation *announced,
                       uint64_t index) {
  struct operation other;
  struct announcements all = announcements_of(peers, announced->peer, index);
  while (announcements_next(&all, &other))
    if (other.peer == rank && other.comm == announced->comm && other.count == announced->count &&
        other.receives != announced->receives)
      return true;
  return find_other_side(peers, rank, announced, index, &other);
}

/* ---- the ranks that wait for each other ---- */

struct linking {
  struct peers *peers;
  const struct standing *standing;
  uint64_t index;
  uint32_t rest; /* the first rank yet to be looked at, in windows[].next_linked; nranks: none */
  uint32_t ahead;
  bool matched;     /* all that this rank holds back has been announced by its peers, too */
  bool others_move; /* so it is with another rank: it goes on */
};

/* Whether a rank has come to what it issues at the index, or is parked. */
static bool has_come(const struct linking *linking, uint32_t rank) {
  const struct plane_log *log = log_of(linking->peers->plane, rank);
  return log_passed(log) > linking->index || log_claims(log, linking->index);
}

static bool announces_nothing_more(const struct linking *linking, uint32_t rank) {
  return has_come(linking, rank) ||
         log_answering(log_of(linking->peers->plane, rank)) == linking->index + 1;
}

/* Where the peer of what a rank has announced stands. Who has left the loop is linked, too. */
static enum peers_stand stand_of(struct linking *linking, uint32_t rank,
                                 const struct operation *announced) {
  struct peers *peers = linking->peers;
  uint32_t peer = announced->peer;
  struct operation other;
  /* Looked at first: what it has announced before it came to the index is to be seen then. */
  bool come = has_come(linking, peer), left = peers_has_left(peers, peer, linking->index);
  /* What it does next it does behind that, and its device may wait. Who has left a loop of which
   * nothing can be seen announces nothing. */
  if (find_other_side(peers, rank, announced, linking->index, &other) &&
      (left ? peers->announced.held : other.place == 0))
    return STAND_LEFT;
  if (left) {
    peers->windows[peer].next_linked = linking->rest;
    linking->rest = peer;
    return STAND_LEFT;
  }
  if (!come)
    return log_state(log_of(peers->plane, peer)) == RANK_DONE ? STAND_LEFT : STAND_OPEN;
  enum peers_stand stand = linking->standing->of_unit(linking->standing->context, peer);
  if (stand == STAND_AHEAD)
    linking->ahead = peer;
  return stand;
}

/* Of a rank that has left, and its peers, the one that says most. */
static enum peers_stand stand_of_rank(struct linking *linking, uint32_t rank) {
  struct peers *peers = linking->peers;
  bool held = peers->announced.held, own = rank == peers->plane->rank;
  bool done = own || announces_nothing_more(linking, rank), some = false, matched = true;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  enum peers_stand stand = STAND_LEFT;
  while (announcements_next(&all, &announced)) {
    if (announced.peer >= peers->plane->nranks ||
        (held && is_posted(peers, rank, &announced, linking->index)))
      continue;
    some = true;
    matched = matched && is_matched(peers, rank, &announced, linking->index);
    if (peers->windows[announced.peer].linked == peers->searches)
      continue;
    peers->windows[announced.peer].linked = peers->searches;
    enum peers_stand here = stand_of(linking, rank, &announced);
    stand = here > stand ? here : stand;
  }
  if (own)
    linking->matched = matched;
  else
    linking->others_move |= some && matched;
  /* It may be about to announce more. */
  return stand == STAND_LEFT && !done && !(held && some) ? STAND_OPEN : stand;
}

enum peers_stand peers_stand(struct peers *peers, uint64_t index, const struct standing *standing,
                             uint32_t *ahead) {
  enum peers_stand stand = STAND_LEFT;
  pthread_mutex_lock(&peers->lock);
  uint32_t nobody = peers->plane->nranks, own = peers->plane->rank;
  struct linking linking = {
      .peers = peers, .standing = standing, .index = index, .rest = own, .ahead = own};
  if (windows_make(peers)) {
    peers->searches++;
    peers->windows[own].linked = peers->searches;
    peers->windows[own].next_linked = nobody;
    while (linking.rest != nobody && stand != STAND_AHEAD) {
      uint32_t rank = linking.rest;
      linking.rest = peers->windows[rank].next_linked;
      enum peers_stand here = stand_of_rank(&linking, rank);
      stand = here > stand ? here : stand;
    }
  }
  *ahead = linking.ahead;
  /* Where nobody goes on each waits for a peer that does something else first: NCCL's buffers are all
   * that helps there. */
  if (peers->announced.held && stand == STAND_LEFT && !linking.matched && linking.others_move)
    stand = STAND_OPEN;
  pthread_mutex_unlock(&peers->lock);
  return stand;
}

/* ---- announcing ---- */

bool peers_announce(struct peers *peers, const struct posts *posts, uint64_t index) {
  bool room = false;
  peers_begin(peers);
  pthread_mutex_lock(&peers->lock);
  if (plane_posting(peers->plane) == POSTING_TRACKED && posts->nmembers <= PLANE_OPERATIONS / 2)
    room = post_has_room(peers, posts->nmembers);
  peers->group += room;
  if (room && !peers->announced.some)
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
    peers->announced.some = true;
    peers->announced.index = index;
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
