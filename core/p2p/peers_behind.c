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

/* The other side, if the peer has announced it. */
static bool find_announced(const struct peers *peers, uint32_t rank,
                           const struct operation *announced, uint64_t index,
                           struct operation *other) {
  struct announcements all = announcements_of(peers, announced->peer, index);
  while (announcements_next(&all, other))
    if (other->peer == rank && other->comm == announced->comm && other->count == announced->count &&
        other->receives != announced->receives)
      return true;
  return false;
}

/* Whether the peer has at least announced it. */
static bool is_matched(const struct peers *peers, uint32_t rank, const struct operation *announced,
                       uint64_t index) {
  struct operation other;
  return find_announced(peers, rank, announced, index, &other) ||
         find_other_side(peers, rank, announced, index, &other);
}

/* How often a rank has come to the place of what it has announced, for the same pair: who comes there
 * again has gone round a loop around both since, without a unit. 0: the place is not known. */
static uint32_t round_of(const struct peers *peers, uint32_t rank,
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

/* Whether a rank holds something back for its peer no more: it has posted it, or is about to, for its
 * peer has left the loop and posted the other side. */
static bool is_through(const struct peers *peers, uint32_t rank, const struct operation *announced,
                       uint64_t index) {
  struct operation other;
  return is_posted(peers, rank, announced, index) ||
         (peers_has_left(peers, announced->peer, index) &&
          find_other_side(peers, rank, announced, index, &other));
}

static bool is_not_the_first(const struct peers *peers, uint32_t rank,
                             const struct operation *announced, uint64_t index) {
  struct operation other;
  struct announcements all = announcements_of(peers, rank, index);
  while (announcements_next(&all, &other))
    if ((int32_t)(announced->group - other.group) > 0)
      return true;
  return false;
}

static bool holds_something(const struct peers *peers, uint32_t rank, uint64_t index) {
  struct operation operation;
  struct announcements all = announcements_of(peers, rank, index);
  while (announcements_next(&all, &operation))
    if (operation.peer < peers->plane->nranks && !is_through(peers, rank, &operation, index))
      return true;
  return false;
}

/* ---- the ranks that wait for each other ---- */

struct linking {
  struct peers *peers;
  const struct standing *standing;
  uint64_t index;
  uint32_t rest; /* the first rank yet to be looked at, in windows[].next_linked; nranks: none */
  uint32_t open; /* likewise, of those that may be about to announce more, in windows[].next_open */
  bool rounds;   /* a rank has gone round without a peer */
  uint32_t ahead;
};

/* Whether a rank has come to what it issues at the index, or is parked. */
static bool has_come(const struct linking *linking, uint32_t rank) {
  const struct plane_log *log = log_of(linking->peers->plane, rank);
  return log_passed(log) > linking->index || log_claims(log, linking->index);
}

static bool is_answering(const struct linking *linking, uint32_t rank) {
  return log_answering(log_of(linking->peers->plane, rank)) == linking->index + 1;
}

static bool announces_nothing_more(const struct linking *linking, uint32_t rank) {
  return has_come(linking, rank) || is_answering(linking, rank);
}

/* Whether a peer does something else before it comes to what a rank has announced, although it has left
 * the loop: the rank has announced something before, and has gone on from there, past loops or round one
 * around both, without a unit. */
static bool is_ahead_of_peer(const struct linking *linking, uint32_t rank,
                             const struct operation *announced) {
  const struct peers *peers = linking->peers;
  return announces_nothing_more(linking, announced->peer) &&
         !is_matched(peers, rank, announced, linking->index) &&
         is_not_the_first(peers, rank, announced, linking->index) &&
         !holds_something(peers, announced->peer, linking->index);
}

/* And whether it waits for that peer: what is posted its device waits for. */
static bool is_kept_by(const struct linking *linking, uint32_t rank,
                       const struct operation *announced) {
  return announced->peer < linking->peers->plane->nranks &&
         is_ahead_of_peer(linking, rank, announced) &&
         !is_posted(linking->peers, rank, announced, linking->index);
}

/* Where such a peer stands. again: the rank has come to the same place before. */
static enum peers_stand stand_of_late(struct linking *linking, uint32_t peer, bool again) {
  const struct plane_log *log = log_of(linking->peers->plane, peer);
  const struct standing *standing = linking->standing;
  struct log_claim claim;
  if (!has_come(linking, peer))
    return STAND_OPEN; /* it shows its claim as soon as it sees that a rank waits for that */
  enum peers_stand stand = STAND_LEFT;
  if (log_read_claim(log, linking->index, &claim) && (claim.flags & CLAIM_YIELD))
    stand = STAND_AHEAD;
  else if (again)
    stand = standing->of_unit(standing->context, peer);
  if (stand == STAND_LEFT)
    stand = standing->of_skipped(standing->context, peer);
  if (stand == STAND_AHEAD)
    linking->ahead = peer;
  return stand;
}

/* Where the peer of what a rank has announced stands. Who has left the loop is linked, too. */
static enum peers_stand stand_of(struct linking *linking, uint32_t rank,
                                 const struct operation *announced) {
  struct peers *peers = linking->peers;
  uint32_t peer = announced->peer;
  struct operation other;
  /* Looked at first: what it has announced before it came to the index is to be seen then. */
  bool come = has_come(linking, peer), left = peers_has_left(peers, peer, linking->index);
  /* Who has left a loop of which nothing can be seen announces nothing. */
  if (!left && find_other_side(peers, rank, announced, linking->index, &other) && other.place == 0)
    return STAND_LEFT;
  if (left && peers->announced.held && is_ahead_of_peer(linking, rank, announced))
    return stand_of_late(linking, peer, round_of(peers, rank, announced, linking->index) > 1);
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
  bool done = own || announces_nothing_more(linking, rank), some = false, matched = true;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  enum peers_stand stand = STAND_LEFT;
  while (announcements_next(&all, &announced)) {
    /* What a rank does next it does behind what it has posted, and its device may wait. */
    if (announced.peer >= peers->plane->nranks ||
        (held && is_through(peers, rank, &announced, linking->index)))
      continue;
    some = true;
    matched = matched && is_matched(peers, rank, &announced, linking->index);
    linking->rounds |= !held && is_kept_by(linking, rank, &announced);
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

/* ---- the ranks that may announce more ---- */

/* Whether a rank that holds something back is ahead of its peer, or waits for a rank that is so: it
 * announces nothing more before that peer has shown its claim. */
static bool is_kept(const struct linking *linking, uint32_t rank) {
  const struct peers *peers = linking->peers;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  while (announcements_next(&all, &announced))
    if (is_kept_by(linking, rank, &announced) ||
        (announced.peer < peers->plane->nranks &&
         peers->windows[announced.peer].kept == peers->searches &&
         !is_posted(peers, rank, &announced, linking->index)))
      return true;
  return false;
}

/* Whether all those are kept. */
static bool all_are_kept(struct linking *linking) {
  struct window *windows = linking->peers->windows;
  uint32_t nobody = linking->peers->plane->nranks;
  bool found = true;
  while (linking->open != nobody && found) {
    uint32_t *at = &linking->open;
    found = false;
    while (*at != nobody) {
      uint32_t rank = *at;
      if (is_kept(linking, rank)) {
        windows[rank].kept = linking->peers->searches;
        *at = windows[rank].next_open;
        found = true;
      } else {
        at = &windows[rank].next_open;
      }
    }
  }
  return linking->open == nobody;
}

/* What a rank has announced up to its round is behind what this one has: so are the rounds in which its
 * peers have announced the other sides. */
static bool follow_rounds_of(struct linking *linking, uint32_t rank) {
  struct peers *peers = linking->peers;
  struct window *windows = peers->windows;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced, other;
  bool moved = false;
  while (announcements_next(&all, &announced)) {
    if (announced.peer >= peers->plane->nranks ||
        round_of(peers, rank, &announced, linking->index) > windows[rank].round ||
        !find_announced(peers, rank, &announced, linking->index, &other))
      continue;
    uint32_t round = round_of(peers, announced.peer, &other, linking->index);
    moved |= round > windows[announced.peer].round;
    if (round > windows[announced.peer].round)
      windows[announced.peer].round = round;
  }
  return moved;
}

/* Up to which round of each rank this one stands behind it: it stands behind all that it has announced
 * itself. */
static void follow_rounds(struct linking *linking) {
  const struct plane *plane = linking->peers->plane;
  struct window *windows = linking->peers->windows;
  for (uint32_t rank = 0; rank < plane->nranks; rank++)
    windows[rank].round = rank == plane->rank ? UINT32_MAX : 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < plane->nranks; rank++)
      moved |= windows[rank].round != 0 && follow_rounds_of(linking, rank);
  }
}

/* Whether a rank for which another one is kept goes on before what this one has claimed. */
static enum peers_stand stand_in_rounds(struct linking *linking) {
  struct peers *peers = linking->peers;
  enum peers_stand stand = STAND_LEFT;
  follow_rounds(linking);
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    uint32_t round = rank == peers->plane->rank ? 0 : peers->windows[rank].round;
    struct announcements all = announcements_of(peers, rank, linking->index);
    struct operation announced;
    while (round != 0 && announcements_next(&all, &announced)) {
      uint32_t its = round_of(peers, rank, &announced, linking->index);
      bool again = its > 1;
      if ((again ? its > round : !linking->standing->skips) ||
          announced.peer == peers->plane->rank || !is_kept_by(linking, rank, &announced))
        continue;
      enum peers_stand here = stand_of_late(linking, announced.peer, again);
      stand = here > stand ? here : stand;
    }
  }
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
        !is_through(peers, rank, &announced, linking->index))
      return true;
  return false;
}

/* Whether this rank waits for a peer that does something else first, and other ranks go on. Where nobody
 * does, NCCL's buffers are all that helps. */
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
  if (stand == STAND_LEFT && !all_are_kept(linking))
    return STAND_OPEN;
  if (stand == STAND_LEFT && linking->rounds)
    return stand_in_rounds(linking);
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
