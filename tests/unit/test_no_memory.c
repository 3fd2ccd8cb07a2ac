/* Where there is no memory: every function that allocates says so, whichever of its allocations it
 * is that fails, and gives back what it had (the address sanitizer's build sees to the latter). */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/overlap/overlap.h"
#include "core/p2p/peers.h"
#include "core/transport/plane_memory.h"
#include "core/transport/segment.h"
#include "core/team/team.h"
#include "core/report/trace.h"
#include "tests/unit/failing.h"
#include "tests/unit/segment_stage.h"

TestSuite(no_memory, .init = stage_set_up, .fini = stage_tear_down, .timeout = 300);

/* Makes the first allocation fail, then the second, and so on until there are not that many.
 * Returns how many there were. */
static int allocations_of(bool (*works)(void)) {
  for (int nth = 1;; nth++) {
    fail_call(CALL_ALLOCATION, nth, 1, ENOMEM);
    bool worked = works();
    bool failed = call_has_failed(CALL_ALLOCATION);
    fail_call(CALL_ALLOCATION, 0, 0, 0);
    cr_assert_neq(worked, failed, "allocation %d failed: %d, the function worked: %d", nth, failed,
                  worked);
    if (worked)
      return nth - 1;
  }
}

static struct plane_memory *memory;

static bool creates_team(void) {
  struct team *team = team_create(plane_memory_rank(memory, 0));
  bool created = team != NULL;
  team_destroy(team);
  return created;
}

Test(no_memory, a_team) {
  memory = plane_memory_create(2);
  cr_assert_not_null(plane_memory_rank(memory, 0));
  cr_expect_geq(allocations_of(creates_team), 7);
  plane_memory_destroy(memory);
}

static bool creates_plane(void) {
  struct plane_memory *plane = plane_memory_create(2);
  bool created = plane != NULL && plane_memory_rank(plane, 1) != NULL;
  plane_memory_destroy(plane);
  return created;
}

Test(no_memory, a_plane_in_memory) {
  cr_expect_eq(allocations_of(creates_plane), 6);
}

static bool creates_learner(void) {
  struct learner *learner = learner_create();
  bool created = learner != NULL;
  learner_destroy(learner);
  return created;
}

Test(no_memory, a_learner) {
  cr_expect_geq(allocations_of(creates_learner), 1);
}

static bool creates_table(void) {
  struct unit_table *table = unit_table_create();
  bool created = table != NULL;
  unit_table_destroy(table);
  return created;
}

Test(no_memory, a_unit_table) {
  cr_expect_geq(allocations_of(creates_table), 1);
}

static struct unit_table *table;
static struct member group[2] = {
    {.count = 1, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE},
    {.count = 2, .root = ROOT_NONE, .kind = MEMBER_ALLREDUCE},
};

static bool interns_group(void) {
  return unit_table_intern(table, (struct unit){group, 2}) != SYMBOL_NONE;
}

Test(no_memory, a_group_that_is_new_has_no_symbol_and_can_get_one_later) {
  table = unit_table_create();
  cr_expect_eq(allocations_of(interns_group), 1);
  unit_table_destroy(table);
}

/* Whoever cannot learn what the others learn would expect something else than they. */
Test(no_memory, a_rank_that_cannot_learn_a_unit_fails) {
  memory = plane_memory_create(1);
  struct team *team = team_create(plane_memory_rank(memory, 0));
  struct unit got;
  fail_call(CALL_ALLOCATION, 1, 1, ENOMEM);
  team_claim(team, (struct unit){group, 2}, 0, NULL);
  cr_assert_eq(team_poll(team, &got), TEAM_REAL);
  cr_assert(call_has_failed(CALL_ALLOCATION));
  team_claim(team, (struct unit){group, 1}, 0, NULL);
  cr_expect_eq(team_poll(team, &got), TEAM_FAILED);
  cr_expect_eq(team->failed.how, FAILURE_MEMORY);
  team_destroy(team);
  plane_memory_destroy(memory);
}

static bool attaches(void) {
  struct segment *segment = attach(1, 0, 0);
  bool attached = segment != NULL;
  cr_assert(attached || strstr(stage_reason, "no memory"), "%s", stage_reason);
  segment_detach(segment);
  return attached;
}

Test(no_memory, a_segment) {
  cr_expect_eq(allocations_of(attaches), 3);
}

static struct segment *segment;

static bool makes_plane(void) {
  return whole_plane(segment, 0, 1) != NULL;
}

Test(no_memory, a_plane_over_a_segment) {
  segment = attach(1, 0, 0);
  cr_assert_not_null(segment, "%s", stage_reason);
  cr_expect_eq(allocations_of(makes_plane), 3);
  segment_detach(segment);
}

static char folder[] = "/tmp/nccl-join-trace-XXXXXX";

static bool opens_trace(void) {
  struct trace *trace = trace_open(folder, 1 << 20, 0, 1, 1);
  bool opened = trace != NULL;
  trace_close(trace);
  return opened;
}

Test(no_memory, a_trace) {
  char command[64];
  cr_assert(mkdtemp(folder));
  cr_expect_eq(allocations_of(opens_trace), 1);
  snprintf(command, sizeof command, "rm -rf %s", folder);
  cr_assert_eq(system(command), 0); /* NOLINT(cert-env33-c) */
}

/* ---- several teams ---- */

static const uint64_t identities[] = {10, 11};

static bool creates_overlap(void) {
  struct overlap *overlap = overlap_create(10);
  bool created = overlap != NULL;
  overlap_destroy(overlap);
  return created;
}

static struct team *two_teams[2];
static struct plane_memory *planes[2];

static void start_teams(void) {
  for (uint32_t i = 0; i < 2; i++) {
    planes[i] = plane_memory_create(2);
    two_teams[i] = team_create(plane_memory_rank(planes[i], 0));
  }
}

static void stop_teams(void) {
  for (uint32_t i = 0; i < 2; i++) {
    team_destroy(two_teams[i]);
    plane_memory_destroy(planes[i]);
  }
}

Test(no_memory, the_teams_of_a_rank) {
  cr_expect_eq(allocations_of(creates_overlap), 1);
}

/* Without it the first is as it was: alone. */
Test(no_memory, a_second_team_of_a_rank) {
  bool failed = true;
  int nth = 1;
  for (; failed; nth++) {
    start_teams();
    struct overlap *overlap = overlap_create(10);
    cr_assert_not_null(overlap_add(overlap, two_teams[0], identities));
    fail_call(CALL_ALLOCATION, nth, 1, ENOMEM);
    bool added = overlap_add(overlap, two_teams[1], identities) != NULL;
    failed = call_has_failed(CALL_ALLOCATION);
    fail_call(CALL_ALLOCATION, 0, 0, 0);
    cr_expect_neq(added, failed, "allocation %d", nth);
    cr_expect_eq(overlap_nteams(overlap), added ? 2 : 1, "allocation %d", nth);
    overlap_remove(overlap, two_teams[0]);
    overlap_destroy(overlap);
    stop_teams();
  }
  cr_expect_geq(nth, 7);
}

/* Who is where is not known any more: each team is then on its own. */
Test(no_memory, a_team_that_ends) {
  start_teams();
  struct overlap *overlap = overlap_create(10);
  struct overlap_team *first = overlap_add(overlap, two_teams[0], identities);
  cr_assert_not_null(overlap_add(overlap, two_teams[1], identities));
  fail_call(CALL_ALLOCATION, 1, 1, ENOMEM);
  overlap_remove(overlap, two_teams[1]);
  cr_expect(call_has_failed(CALL_ALLOCATION));
  fail_call(CALL_ALLOCATION, 0, 0, 0);
  cr_expect_eq(overlap_nteams(overlap), 1);
  cr_expect_not(overlap_answers(first));
  overlap_destroy(overlap);
  stop_teams();
}

/* ---- point to point ---- */

static struct peers *peers[2];

static void start_peers(void) {
  memory = plane_memory_create(2);
  for (uint32_t rank = 0; rank < 2; rank++)
    peers[rank] = peers_create(plane_memory_rank(memory, rank));
  struct member send = {.count = 1, .comm = 7, .kind = MEMBER_SEND, .reduction = REDUCTION_NONE};
  cr_assert_eq(peers_post(peers[1], &(struct posts){.members = &send, .nmembers = 1}, 0),
               POST_DONE);
  plane_memory_rank(memory, 0)->logs[0]->answering = 1;
}

static void stop_peers(void) {
  for (uint32_t rank = 0; rank < 2; rank++)
    peers_destroy(peers[rank]);
  plane_memory_destroy(memory);
}

static bool is_asked(void) {
  return peers_is_asked_by(peers[0], 1, 0);
}

static bool mirrors(void) {
  struct member mirror[UNIT_MEMBERS_MAX];
  uint32_t nmirrors;
  enum peers_verdict verdict = peers_look(peers[0], 0, NULL, mirror, &nmirrors);
  cr_assert(verdict == PEERS_MIRROR ? nmirrors == 1 : verdict == PEERS_PASS && nmirrors == 0);
  return verdict == PEERS_MIRROR;
}

/* Each of the four allocations of a first look, of ranks that have none of them yet. */
static void fail_each(bool (*works)(void)) {
  for (int nth = 1; nth <= 5; nth++) {
    start_peers();
    fail_call(CALL_ALLOCATION, nth, 1, ENOMEM);
    cr_expect_eq(works(), nth == 5, "allocation %d", nth);
    cr_expect_eq(call_has_failed(CALL_ALLOCATION), nth < 5, "allocation %d", nth);
    fail_call(CALL_ALLOCATION, 0, 0, 0);
    stop_peers();
  }
}

Test(no_memory, who_cannot_see_what_is_posted_knows_of_no_question) {
  fail_each(is_asked);
}

Test(no_memory, who_cannot_see_what_is_posted_holds_nobody_up) {
  fail_each(mirrors);
}
