/* What stands in for the parts of places that this build does not have: nothing is known. */
#include "interpose/native_code.h"
#include "interpose/python_frames.h"

#define ABSENT __attribute__((weak))

ABSENT uint32_t native_code_nodes(const void *function_start, size_t function_size, const void *pc,
                                  uint32_t function_id, struct place_node *nodes, uint32_t room) {
  (void)function_start, (void)function_size, (void)pc, (void)function_id, (void)nodes, (void)room;
  return 0;
}

ABSENT bool python_is_present(void) {
  return false;
}

ABSENT uint32_t python_id(void) {
  return 0;
}

ABSENT uint32_t python_nodes(struct place_node *nodes, uint32_t room) {
  (void)nodes, (void)room;
  return 0;
}

ABSENT uint32_t python_text(char *text, size_t size) {
  if (size > 0)
    text[0] = '\0';
  return 0;
}

ABSENT uint32_t python_waiting_id(void) {
  return 0;
}

ABSENT uint32_t python_waiting_nodes(struct place_node *nodes, uint32_t room) {
  (void)nodes, (void)room;
  return 0;
}
