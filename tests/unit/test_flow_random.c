/* The analysis of control flow on random graphs, against what the definitions give. */
#include <criterion/criterion.h>

#include "tests/unit/flow_graphs.h"

/* With sanitizers a quarter: more programs take the same paths more often. */
#ifdef __SANITIZE_ADDRESS__
enum { PROGRAMS = 5000 };
#else
enum { PROGRAMS = 20000 };
#endif

static void check(const struct graph_program *program, uint64_t round) {
  struct flow *flow = flow_analyse(&program->graph);
  cr_assert_not_null(flow);
  const char *bad = graph_check(program, flow);
  cr_assert_null(bad, "graph %lu: %s\n%s", round, bad, graph_text(program));
  flow_free(flow);
}

Test(flow_random, structured_programs_are_as_their_source_says) {
  struct graph_program program;
  for (uint64_t round = 1; round <= PROGRAMS; round++) {
    uint64_t state = round;
    graph_random_program(&program, &state);
    check(&program, round);
  }
}

Test(flow_random, any_graph_is_as_the_definitions_say) {
  struct graph_program program;
  for (uint64_t round = 1; round <= PROGRAMS; round++) {
    uint64_t state = round;
    graph_random_edges(&program, &state);
    check(&program, round);
  }
}
