/* Four ranks that run a program with places (quartet.h). */
#include "tests/unit/quartet.h"

#include <criterion/criterion.h>
#include <stdio.h>

#include "core/transport/plane_memory.h"
#include "core/team/team_private.h"

static struct plane_memory *memory;
struct team *quartet[RANKS];
struct unit got;

void quartet_start(void) {
  memory = plane_memory_create(RANKS);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    quartet[rank] = team_create(plane_memory_rank(memory, rank));
}

void quartet_stop(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    team_destroy(quartet[rank]);
  plane_memory_destroy(memory);
}

struct place_node node(uint32_t id, uint16_t order, uint16_t loop) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = (uint16_t)(loop | PLACE_ORDERED)};
}

struct place place_of(uint32_t id) {
  struct place place = {.id = id, .nnodes = 2, .nodes = {node(1000, 1, 0)}};
  uint16_t order = (uint16_t)(10 + id);
  if (id == AFTER) {
    place.nodes[1] = node(2000 + id, order, 0);
  } else {
    place.nodes[1] = node(1001, 5, PLACE_LOOP);
    place.nodes[1].reach_from = place.nodes[1].reach_to = 10 + AFTER;
    place.nodes[place.nnodes++] = node(2000 + id, order, 0);
  }
  snprintf(place.text, sizeof(place.text), "train.py:%u", id);
  return place;
}

struct unit at(uint32_t place, uint64_t count) {
  static struct member members[2];
  static unsigned calls;
  struct member *member = &members[calls++ % 2];
  *member = (struct member){
      .count = count, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE, .datatype = 7, .number = place};
  return (struct unit){member, 1};
}

uint64_t hash_at(uint32_t place, uint64_t count) {
  return unit_hash(at(place, count));
}

void claim(uint32_t rank, uint32_t place, uint64_t count) {
  struct place where = place_of(place);
  team_claim(quartet[rank], at(place, count), 0, &where);
}

void claim_branches(uint32_t of_rank_0, uint32_t of_others) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, rank == 0 ? of_rank_0 : of_others, SUM);
}

void expect_verdict(uint32_t rank, enum team_verdict verdict) {
  enum team_verdict found = team_poll(quartet[rank], &got);
  cr_assert_eq(found, verdict, "rank %u: %d instead of %d, failure %d", rank, (int)found,
               (int)verdict, (int)quartet[rank]->failed.how);
}

void expect_all_real(void) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    expect_verdict(rank, TEAM_REAL);
}

void issue_at(const uint32_t *places, uint64_t count) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (!team_commit(quartet[rank], at(places[rank], count)))
      claim(rank, places[rank], count);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    if (quartet[rank]->claim.open)
      expect_verdict(rank, TEAM_REAL);
}

void all_issue_at(uint32_t place, uint64_t count) {
  issue_at((uint32_t[]){place, place, place, place}, count);
}

uint64_t hash_of(uint32_t rank, uint64_t index) {
  return atomic_load(&quartet[rank]->own->entries[index % PLANE_RING].hash);
}

uint32_t flags_of(uint32_t rank, uint64_t index) {
  return atomic_load(&quartet[rank]->own->entries[index % PLANE_RING].flags);
}

void expect_agreement(void) {
  for (uint64_t index = 0; index < quartet[0]->head; index++)
    for (uint32_t rank = 1; rank < RANKS; rank++)
      cr_assert_eq(hash_of(rank, index), hash_of(0, index), "index %lu, rank %u", index, rank);
}

void expect_same_tables(uint32_t places) {
  for (uint32_t id = 1; id <= places; id++) {
    const struct known_place *mine = team_known_place(quartet[0], id);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
      const struct known_place *known = team_known_place(quartet[rank], id);
      cr_assert_eq(known == NULL, mine == NULL, "place %u, rank %u", id, rank);
      if (known == NULL)
        continue;
      cr_assert_eq(memcmp(&known->place, &mine->place, sizeof(known->place)), 0,
                   "place %u, rank %u", id, rank);
      cr_assert_eq(known->common, mine->common);
      cr_assert_eq(known->met, mine->met);
    }
  }
}
