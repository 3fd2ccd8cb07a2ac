/* A program in which something stands in front of a loop. See front.h. */
#include "tests/unit/front.h"

struct place front, in_loop, behind;

struct place_node front_node(uint32_t id, uint16_t order, uint16_t flags) {
  return (struct place_node){.id = id,
                             .order = order,
                             .since = order,
                             .until = order,
                             .flags = (uint16_t)(PLACE_ORDERED | flags)};
}

void front_program(void) {
  front = (struct place){.id = FRONT,
                         .nnodes = 3,
                         .nodes = {{.id = MAIN},
                                   front_node(EPOCHS, 1, PLACE_LOOP | PLACE_ALWAYS),
                                   front_node(FRONT, 2, 0)}};
  behind = in_loop = front;
  in_loop.id = IN_LOOP;
  in_loop.nodes[2] = front_node(BATCHES, 3, PLACE_LOOP | PLACE_ALWAYS);
  in_loop.nodes[in_loop.nnodes++] = front_node(IN_LOOP, 4, PLACE_ALWAYS);
  behind.id = BEHIND;
  behind.nodes[2] = front_node(BEHIND, 5, 0);
}
