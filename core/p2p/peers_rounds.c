/* Ranks that have gone round a loop, or past one, to what they announce without a unit (linking.h):
 * who waits for whom then. */
#include "core/p2p/linking.h"

bool linked_has_come(const struct linking *linking, uint32_t rank) {
  const struct plane_log *log = log_of(linking->peers->plane, rank);
  return log_passed(log) > linking->index || log_claims(log, linking->index);
}

static bool linked_is_answering(const struct linking *linking, uint32_t rank) {
  return log_answering(log_of(linking->peers->plane, rank)) == linking->index + 1;
}

bool linked_announces_no_more(const struct linking *linking, uint32_t rank) {
  return linked_has_come(linking, rank) || linked_is_answering(linking, rank);
}

bool rounds_is_ahead(const struct linking *linking, uint32_t rank,
                     const struct operation *announced) {
  const struct peers *peers = linking->peers;
  return linked_announces_no_more(linking, announced->peer) &&
         !announced_is_matched(peers, rank, announced, linking->index) &&
         announced_is_later(peers, rank, announced, linking->index) &&
         !announced_holds(peers, announced->peer, linking->index);
}

bool rounds_is_kept_by(const struct linking *linking, uint32_t rank,
                       const struct operation *announced) {
  return announced->peer < linking->peers->plane->nranks &&
         rounds_is_ahead(linking, rank, announced) &&
         !announced_is_posted(linking->peers, rank, announced, linking->index);
}

enum peers_stand rounds_stand_of_late(struct linking *linking, uint32_t peer, bool again) {
  const struct plane_log *log = log_of(linking->peers->plane, peer);
  const struct standing *standing = linking->standing;
  struct log_claim claim;
  if (!linked_has_come(linking, peer))
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

/* Whether a rank that holds something back is ahead of its peer, or waits for a rank that is so: it
 * announces nothing more before that peer has shown its claim. */
static bool is_kept(const struct linking *linking, uint32_t rank) {
  const struct peers *peers = linking->peers;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  while (announcements_next(&all, &announced))
    if (rounds_is_kept_by(linking, rank, &announced) ||
        (announced.peer < peers->plane->nranks &&
         peers->windows[announced.peer].kept == peers->searches &&
         !announced_is_posted(peers, rank, &announced, linking->index)))
      return true;
  return false;
}

bool rounds_all_are_kept(struct linking *linking) {
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

/* What a rank has announced up to its round is behind what this one has: so are the rounds in which
 * its peers have announced the other sides. */
static bool follow_rounds_of(struct linking *linking, uint32_t rank) {
  struct peers *peers = linking->peers;
  struct window *windows = peers->windows;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced, other;
  bool moved = false;
  while (announcements_next(&all, &announced)) {
    uint32_t here = announced_round(peers, rank, &announced, linking->index);
    if (announced.peer >= peers->plane->nranks || here > windows[rank].round ||
        !announced_find_side(peers, rank, &announced, linking->index, &other))
      continue;
    uint32_t round = announced_round(peers, announced.peer, &other, linking->index);
    if (round <= windows[announced.peer].round)
      continue;
    moved = true;
    windows[announced.peer].round = round;
    windows[announced.peer].shift = windows[rank].shift + (int32_t)(round - here);
  }
  return moved;
}

/* Up to which round of each rank this one stands behind it: it stands behind all that it has
 * announced itself. */
static void follow_rounds(struct linking *linking) {
  const struct plane *plane = linking->peers->plane;
  struct window *windows = linking->peers->windows;
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    windows[rank].round = rank == plane->rank ? UINT32_MAX : 0;
    windows[rank].shift = 0;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t rank = 0; rank < plane->nranks; rank++)
      moved |= windows[rank].round != 0 && follow_rounds_of(linking, rank);
  }
}

/* Whether what a rank has announced is of a later round than this one has been in: they have come
 * to the same place, and the rank more often, as it counts rounds. */
static bool is_beyond_own(const struct linking *linking, uint32_t rank,
                          const struct operation *announced, uint32_t round) {
  const struct peers *peers = linking->peers;
  uint32_t own = peers->plane->rank, most = 0;
  struct announcements all = announcements_of(peers, own, linking->index);
  struct operation other;
  while (announcements_next(&all, &other)) {
    if (other.place != announced->place)
      continue;
    uint32_t here = announced_round(peers, own, &other, linking->index);
    most = here > most ? here : most;
  }
  return most != 0 && (int32_t)(most - round) + peers->windows[rank].shift < 0;
}

/* Whether a rank holds something back for this one, which has not come to that: so it stands behind
 * what the rank waits for, and not before. */
static bool is_kept_by_own(const struct linking *linking, uint32_t rank) {
  struct announcements all = announcements_of(linking->peers, rank, linking->index);
  struct operation announced;
  while (announcements_next(&all, &announced))
    if (announced.peer == linking->peers->plane->rank &&
        rounds_is_kept_by(linking, rank, &announced))
      return true;
  return false;
}

/* Where those stand for which a rank is kept. skips: one of them may be in a loop that this rank
 * has passed by. */
static enum peers_stand stand_of_keepers(struct linking *linking, uint32_t rank, bool skips) {
  const struct peers *peers = linking->peers;
  struct announcements all = announcements_of(peers, rank, linking->index);
  struct operation announced;
  enum peers_stand stand = STAND_LEFT;
  while (announcements_next(&all, &announced)) {
    uint32_t round = announced_round(peers, rank, &announced, linking->index);
    bool again = round > 1;
    if ((again
             ? round > peers->windows[rank].round || is_beyond_own(linking, rank, &announced, round)
             : !skips) ||
        !rounds_is_kept_by(linking, rank, &announced))
      continue;
    enum peers_stand here = rounds_stand_of_late(linking, announced.peer, again);
    stand = here > stand ? here : stand;
  }
  return stand;
}

enum peers_stand rounds_stand(struct linking *linking) {
  const struct plane *plane = linking->peers->plane;
  enum peers_stand stand = STAND_LEFT;
  /* For whom others are kept, they wait for its claim: it waits for none. */
  bool skips = linking->standing->skips;
  for (uint32_t rank = 0; rank < plane->nranks && skips; rank++)
    skips = rank == plane->rank || !is_kept_by_own(linking, rank);
  follow_rounds(linking);
  for (uint32_t rank = 0; rank < plane->nranks; rank++) {
    if (rank == plane->rank || linking->peers->windows[rank].round == 0 ||
        is_kept_by_own(linking, rank))
      continue;
    enum peers_stand here = stand_of_keepers(linking, rank, skips);
    stand = here > stand ? here : stand;
  }
  return stand;
}
