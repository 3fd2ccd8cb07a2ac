/* Where in the program this rank's sends and receives stand, and what each of them says of the way
 * to it (peers_private.h): who has left a loop is told by that from those who go round it. */
#include "core/p2p/peers_private.h"

bool peers_know_place(struct peers *peers, uint32_t place) {
  _Atomic uint32_t *known = &peers->known[place % PEERS_PLACES];
  if (place == 0 || atomic_load_explicit(known, memory_order_relaxed) == place)
    return true;
  pthread_mutex_lock(&peers->lock);
  bool found = peers->described != NULL && place_table_find(peers->described, place) != NULL;
  if (found)
    atomic_store_explicit(known, place, memory_order_relaxed);
  pthread_mutex_unlock(&peers->lock);
  return found;
}

void peers_learn_place(struct peers *peers, const struct place *place) {
  pthread_mutex_lock(&peers->lock);
  if (peers->described == NULL)
    peers->described = place_table_create();
  /* Without memory nothing is known of it, and it is not asked for again. */
  if (peers->described != NULL)
    (void)place_table_add(peers->described, place);
  atomic_store_explicit(&peers->known[place->id % PEERS_PLACES], place->id, memory_order_relaxed);
  pthread_mutex_unlock(&peers->lock);
}

bool peers_place(struct peers *peers, uint32_t id, struct place *place) {
  pthread_mutex_lock(&peers->lock);
  const struct known_place *known =
      peers->described == NULL ? NULL : place_table_find(peers->described, id);
  if (known != NULL)
    *place = known->place;
  pthread_mutex_unlock(&peers->lock);
  return known != NULL;
}

static uint8_t look_at_way(const struct peers *peers, uint32_t from, uint32_t to) {
  if (peers->described == NULL)
    return 0;
  const struct known_place *first = place_table_find(peers->described, from);
  const struct known_place *second = place_table_find(peers->described, to);
  if (first == NULL || second == NULL)
    return 0;
  if (place_goes_round(&first->place, &second->place))
    return OPERATION_ROUND;
  return place_leaves_loop(&first->place, &second->place) ? OPERATION_LEFT : 0;
}

uint8_t places_come(struct peers *peers, uint32_t pair, uint32_t place) {
  uint32_t from = peers->stands[pair];
  if (place == 0)
    return 0; /* an answer, or a place that cannot be seen */
  peers->stands[pair] = place;
  if (from == 0)
    return 0;
  struct peers_way *way = &peers->ways[(from * UINT32_C(0x9e3779b1) ^ place) % (4 * PEERS_PLACES)];
  if (way->from != from || way->to != place)
    *way = (struct peers_way){from, place, look_at_way(peers, from, place)};
  return way->flags;
}
