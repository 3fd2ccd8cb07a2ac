/* Posting point to point operations (peers.h): the ring, the table of pairs, and what a look at
 * them comes to. */
#include "core/p2p/peers_private.h"

#include <stdlib.h>

/* Posts between two looks at which of them are done with. */
#define TIDY_EVERY 64u

bool peers_are_tracked(const struct plane *plane) {
  return plane_posting(plane) == POSTING_TRACKED;
}

struct peers *peers_create(struct plane *plane) {
  struct peers *peers = calloc(1, sizeof(*peers));
  if (peers == NULL)
    return NULL;
  peers->plane = plane;
  peers->own = log_of(plane, plane->rank);
  peers->tidy_at = TIDY_EVERY;
  pthread_mutex_init(&peers->lock, NULL);
  return peers;
}

void peers_destroy(struct peers *peers) {
  if (peers == NULL)
    return;
  pthread_mutex_destroy(&peers->lock);
  place_table_destroy(peers->described);
  free(peers->done);
  free(peers->windows);
  free(peers->operations);
  free(peers->places);
  free(peers);
}

/* ---- pairs ---- */

/* Enters the pairs of a group; false if there are too many of them. */
static bool enter_pairs(struct peers *peers, const struct member *members, uint32_t nmembers) {
  for (uint32_t i = 0; i < nmembers; i++) {
    if (pair_is_entered(peers->own, pair_key_of(&members[i])))
      continue;
    if (peers->npairs == PLANE_PAIRS / 4 * 3)
      return false;
    peers->npairs++;
    pair_enter(peers->own, pair_key_of(&members[i]));
  }
  return true;
}

/* ---- posting ---- */

void post_group(struct peers *peers, const struct posts *posts, uint64_t index) {
  struct plane_log *own = peers->own;
  const struct member *members = posts->members;
  uint32_t nmembers = posts->nmembers;
  peers->group++;
  /* An answer has no place. */
  bool behind = posts->place != 0 && announced_some(peers);
  for (uint32_t i = 0; i < nmembers; i++) {
    const struct member *member = &members[i];
    uint32_t pair = pair_place(own, pair_key_of(member));
    uint64_t ordinal = ++peers->counted[pair];
    uint8_t flags = places_come(peers, pair, posts->place);
    if (posts->place != 0 && !behind)
      peers->inside[pair] = posts->place;
    log_write_operation(
        own, peers->end++,
        &(struct operation){.count = member->count,
                            .index = index,
                            .comm = member->comm,
                            .ordinal = (uint32_t)ordinal,
                            .group = peers->group,
                            .peer = (uint32_t)member->root,
                            .place = posts->place,
                            .datatype = member->datatype,
                            .look = member->number & LOOK_BUFFER_MASK,
                            .receives = member->kind == MEMBER_RECEIVE,
                            .flags = (uint8_t)(flags | (behind ? OPERATION_BEHIND : 0) |
                                               (posts->exchanged ? OPERATION_EXCHANGED : 0))});
  }
  log_show_operations(own, peers->end);
  for (uint32_t i = 0; i < nmembers; i++) {
    uint32_t place = pair_place(own, pair_key_of(&members[i]));
    pair_count(own, place, peers->counted[place]);
  }
}

/* Lets go of operations that are not needed any more: they come to an end whatever happens. */
static void peers_tidy(struct peers *peers) {
  uint32_t rank = peers->plane->rank;
  peers->tidy_at = peers->end + TIDY_EVERY;
  if (!follow_operations(peers, NULL, NULL, 0))
    return;
  uint64_t announced = announced_begin(peers),
           end = announced < peers->done[rank] ? announced : peers->done[rank];
  if (end > log_operations_begin(peers->own))
    log_drop_operations(peers->own, end);
}

bool post_has_room(struct peers *peers, uint32_t nmembers) {
  struct plane_log *own = peers->own;
  uint64_t begin = log_operations_begin(own);
  if (peers->end >= peers->tidy_at || peers->end + nmembers - begin > PLANE_OPERATIONS)
    peers_tidy(peers);
  begin = log_operations_begin(own);
  uint64_t announced = announced_begin(peers),
           limit = announced < peers->end ? announced : peers->end;
  /* Where ranks are far apart: what has met its partner will come to an end sooner or later. */
  while (peers->end + nmembers - begin > PLANE_OPERATIONS && begin < limit) {
    struct operation operation;
    operation_read(own, begin, &operation);
    if (!operation_is_met(peers, peers->plane->rank, &operation))
      break;
    begin++;
  }
  log_drop_operations(own, begin);
  return peers->end + nmembers - begin <= PLANE_OPERATIONS;
}

void peers_begin(struct peers *peers) {
  plane_begin_posting(peers->plane);
}

bool peers_are_apart(struct peers *peers, uint32_t place) {
  pthread_mutex_lock(&peers->lock);
  bool apart = place != 0 && peers->apart[place % PEERS_PLACES] == place;
  pthread_mutex_unlock(&peers->lock);
  return apart;
}

enum post_result peers_post(struct peers *peers, const struct posts *posts, uint64_t index) {
  const struct member *members = posts->members;
  uint32_t nmembers = posts->nmembers;
  if (nmembers == 0)
    return POST_DONE;
  peers_begin(peers);
  enum post_result result = POST_DONE;
  pthread_mutex_lock(&peers->lock);
  if (plane_posting(peers->plane) == POSTING_LOST) {
    result = POST_LOST;
  } else if (nmembers > PLANE_OPERATIONS || !enter_pairs(peers, members, nmembers)) {
    plane_give_up_posting(peers->plane);
    result = POST_LOST;
  } else if (!post_has_room(peers, nmembers)) {
    result = POST_FULL;
  } else {
    post_group(peers, posts, index);
    announced_post(peers, members, nmembers);
    if (posts->unequal != NULL) {
      posts->unequal->end = peers->end;
      operations_find_unequal(peers, nmembers, posts->unequal);
    }
    if (!posts->exchanged)
      peers->posted_from[posts->place % PEERS_PLACES] = posts->place;
  }
  pthread_mutex_unlock(&peers->lock);
  return result;
}

void peers_look_again(struct peers *peers, const struct posts *posts) {
  pthread_mutex_lock(&peers->lock);
  operations_find_unequal(peers, posts->nmembers, posts->unequal);
  pthread_mutex_unlock(&peers->lock);
}

/* ---- what is asked ---- */

/* Whether a rank that is parked at an index may still send for itself. left: it has announced that.
 */
static bool may_send(const struct plane_log *log, uint64_t index, uint32_t comm, bool unit,
                     bool left) {
  struct log_claim claim;
  struct member exchange = exchange_member(comm, 0);
  if (!log_read_claim(log, index, &claim))
    return unit || left;
  if (claim.flags & CLAIM_YIELD)
    return left;
  return claim.signature == unit_signature((struct unit){&exchange, 1});
}

int peers_find_lossy(struct peers *peers, const struct member *members, uint32_t nmembers,
                     uint64_t index, bool unit) {
  int found = -1;
  pthread_mutex_lock(&peers->lock);
  for (uint32_t i = 0; i < nmembers && found < 0; i++) {
    if (members[i].kind != MEMBER_RECEIVE || members[i].count == 0)
      continue;
    uint32_t peer = (uint32_t)members[i].root;
    const struct plane_log *log = log_of(peers->plane, peer);
    uint64_t at = log_answering(log);
    /* In this order: what it has sent before it claimed is to be seen then. */
    bool waits = at > index && at == log_passed(log) + 1 &&
                 !may_send(log, at - 1, members[i].comm, unit, peers_has_left(peers, peer, at - 1));
    uint64_t sent = pair_issued(log, pair_key(members[i].comm, peers->plane->rank, false));
    uint64_t needed = pair_issued(peers->own, pair_key_of(&members[i])) + pair_earlier(members, i);
    /* Still there after we have looked at what it has sent: it has not done so in between. */
    if (waits && sent <= needed && at == log_answering(log))
      found = (int)i;
  }
  pthread_mutex_unlock(&peers->lock);
  return found;
}

static bool all_have_come(const struct peers *peers, uint64_t index) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    if (rank != peers->plane->rank && window->head <= index && !window->ended &&
        window->claim != index + 1 && window->answering != index + 1)
      return false;
  }
  return true;
}

/* All that is left for this rank before an index, whether it comes to an end at once or not: no
 * more can come. */
static uint32_t mirror_the_rest(struct peers *peers, uint64_t index, struct member *mirrors,
                                uint32_t limit) {
  uint32_t nmirrors = 0;
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last && nmirrors < limit; i++) {
      struct operation *operation = &peers->operations[window->at + (i - window->first)];
      if (operation->index <= index && operation->peer == peers->plane->rank &&
          !operation_is_met(peers, rank, operation) &&
          announced_is_answered(peers, rank, operation))
        nmirrors += operation_mirror(peers, rank, operation, mirrors, nmirrors);
    }
  }
  return nmirrors;
}

/* Whether a rank that answers at the index still has something before it to answer. */
static bool somebody_is_asked(const struct peers *peers, uint64_t index) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last; i++) {
      const struct operation *operation = &peers->operations[window->at + (i - window->first)];
      if (operation->index <= index && peers->windows[operation->peer].answering == index + 1 &&
          !operation_is_met(peers, rank, operation))
        return true;
    }
  }
  return false;
}

/* Whether a peer has posted, before an index, what this rank's own group is the other side of. */
static bool is_met_outside(struct peers *peers, uint64_t index, const struct posts *pending) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->first; i < window->last; i++) {
      const struct operation *operation = &peers->operations[window->at + (i - window->first)];
      if (operation->index > index || !operation_meets(peers, rank, operation, pending))
        continue;
      if (operation->place != pending->place)
        peers->apart[pending->place % PEERS_PLACES] = pending->place;
      return true;
    }
  }
  return false;
}

/* Room for so many mirrors. */
static uint32_t mirror_room(struct peers *peers) {
  (void)post_has_room(peers, UNIT_MEMBERS_MAX);
  uint64_t used = peers->end - log_operations_begin(peers->own);
  uint32_t room = PLANE_OPERATIONS - (uint32_t)used;
  return room < UNIT_MEMBERS_MAX ? room : UNIT_MEMBERS_MAX;
}

/* False if there are none after all. */
static bool post_mirrors(struct peers *peers, uint64_t index, const struct member *mirrors,
                         uint32_t *nmirrors) {
  if (*nmirrors > 0 && !enter_pairs(peers, mirrors, *nmirrors)) {
    plane_give_up_posting(peers->plane);
    *nmirrors = 0;
  }
  if (*nmirrors == 0)
    return false;
  log_say_mirrored(peers->own, index);
  announced_mirror(peers, mirrors, *nmirrors);
  post_group(peers, &(struct posts){.members = mirrors, .nmembers = *nmirrors}, index);
  return true;
}

enum peers_verdict peers_look(struct peers *peers, uint64_t index, const struct posts *pending,
                              struct member *mirrors, uint32_t *nmirrors) {
  enum peers_verdict verdict = PEERS_HOLD;
  *nmirrors = 0;
  pthread_mutex_lock(&peers->lock);
  uint32_t limit = mirror_room(peers);
  if (!follow_operations(peers, mirrors, nmirrors, limit)) {
    verdict = PEERS_PASS;
  } else if (pending != NULL && is_met_outside(peers, index, pending)) {
    *nmirrors = 0;
    verdict = PEERS_MET;
  } else {
    bool come = all_have_come(peers, index);
    if (come && *nmirrors == 0)
      *nmirrors = mirror_the_rest(peers, index, mirrors, limit);
    if (post_mirrors(peers, index, mirrors, nmirrors))
      verdict = PEERS_MIRROR;
    else if (come && !somebody_is_asked(peers, index))
      verdict = PEERS_PASS;
  }
  pthread_mutex_unlock(&peers->lock);
  return verdict;
}

/* Whether something of the loop is left to be answered: its rank's device is not there yet. */
static bool is_asked_inside(const struct peers *peers) {
  for (uint32_t rank = 0; rank < peers->plane->nranks; rank++) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last; i++) {
      const struct operation *operation = &peers->operations[window->at + (i - window->first)];
      if (operation->index <= log_passed(peers->own) && operation->peer == peers->plane->rank &&
          !operation_is_met(peers, rank, operation) &&
          announced_is_answered(peers, rank, operation))
        return true;
    }
  }
  return false;
}

bool peers_are_asked_inside(struct peers *peers) {
  pthread_mutex_lock(&peers->lock);
  peers->announced.inside = true;
  bool asked = follow_operations(peers, NULL, NULL, 0) && is_asked_inside(peers);
  peers->announced.inside = false;
  pthread_mutex_unlock(&peers->lock);
  return asked;
}

enum peers_verdict peers_look_inside(struct peers *peers, struct member *mirrors,
                                     uint32_t *nmirrors) {
  enum peers_verdict verdict = PEERS_PASS;
  *nmirrors = 0;
  pthread_mutex_lock(&peers->lock);
  uint32_t limit = mirror_room(peers);
  peers->announced.inside = true;
  if (follow_operations(peers, mirrors, nmirrors, limit)) {
    if (post_mirrors(peers, log_passed(peers->own), mirrors, nmirrors))
      verdict = PEERS_MIRROR;
    else if (is_asked_inside(peers))
      verdict = PEERS_HOLD;
  }
  peers->announced.inside = false;
  pthread_mutex_unlock(&peers->lock);
  return verdict;
}

bool peers_is_asked_by(struct peers *peers, uint32_t rank, uint64_t index) {
  bool asked = false;
  pthread_mutex_lock(&peers->lock);
  if (follow_operations(peers, NULL, NULL, 0)) {
    const struct window *window = &peers->windows[rank];
    for (uint64_t i = window->next; i < window->last && !asked; i++) {
      const struct operation *operation = &peers->operations[window->at + (i - window->first)];
      asked = operation->peer == peers->plane->rank && operation->index <= index &&
              !operation_is_met(peers, rank, operation);
    }
  }
  pthread_mutex_unlock(&peers->lock);
  return asked;
}
