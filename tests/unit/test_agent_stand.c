/* When agents tell each other what their ranks do (core/agent/agent_stand.c): two machines of two
 * ranks. How little they tell in all: tests/simulation/test_machines.c. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"
#include "core/transport/plane_memory.h"

enum { EACH = 2, RANKS = 2 * EACH, TEAM = 7 };

/* A side's machine, and what it has said since it was last asked (said). */
static struct side {
  struct plane_memory *memory;
  struct agent *agent;
  uint32_t number, messages, looks;
  struct side *other;
} sides[2];

static struct plane_log *log_at(uint32_t side, uint32_t rank) {
  return log_of(plane_memory_rank(sides[side].memory, rank), rank);
}

static void carry(void *context, uint32_t link, const void *message, size_t size) {
  struct side *side = context;
  (void)link;
  side->messages++;
  side->looks += ((const unsigned char *)message)[1] == ITEM_LOOK;
  cr_assert(agent_receive(side->other->agent, 0, 1, message, size));
}
static void no_introduced(void *context, uint64_t team, uint32_t slot, const void *said,
                          size_t size) {
  (void)context, (void)team, (void)slot, (void)said, (void)size;
}
static void no_ended(void *context, uint64_t team, uint32_t slot, struct plane_fate fate,
                     bool lost) {
  (void)context, (void)team, (void)slot, (void)fate, (void)lost;
}

/* Polls a side; how many messages it sends. */
static uint32_t said(uint32_t side, uint64_t now_ms) {
  sides[side].messages = 0;
  agent_poll(sides[side].agent, now_ms);
  return sides[side].messages;
}

static void begin(void) {
  for (uint32_t i = 0; i < 2; i++) {
    struct side *side = &sides[i];
    *side =
        (struct side){.memory = plane_memory_create(RANKS), .number = i, .other = &sides[1 - i]};
    side->agent = agent_create(&(struct agent_owner){
        .context = side, .send = carry, .introduced = no_introduced, .ended = no_ended});
    cr_assert(agent_add_link(side->agent, 0));
    cr_assert(agent_add_team(
        side->agent, &(struct agent_team){TEAM, plane_memory_rank(side->memory, EACH * i)}));
  }
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert(agent_introduce(sides[rank / EACH].agent, TEAM, rank, rank, NULL, 0));
    log_begin(log_at(rank / EACH, rank));
  }
  for (uint32_t round = 0; round < 4; round++)
    (void)said(round % 2, 1);
  for (uint32_t side = 0; side < 2; side++)
    agent_say_waits(sides[side].agent, true);
}

static void end(void) {
  for (uint32_t side = 0; side < 2; side++) {
    agent_destroy(sides[side].agent);
    plane_memory_destroy(sides[side].memory);
  }
}

static void claim(uint32_t rank, uint64_t index) {
  struct plane_log *own = log_at(rank / EACH, rank);
  log_write_claim(own, &(struct log_claim){.hash = 5, .signature = 5, .bytes = 4});
  log_claim(own, index);
}

static void commit(uint32_t rank, uint64_t index) {
  log_pass(log_at(rank / EACH, rank), index,
           &(struct log_entry){.hash = 5, .reals = 1, .flags = ENTRY_REAL | ENTRY_EXPECTED});
}

TestSuite(agent_stand, .init = begin, .fini = end);

Test(agent_stand, the_claims_of_a_machine_are_one_message) {
  claim(0, 0);
  cr_expect_eq(said(0, 2), 0);
  claim(1, 0);
  cr_expect_eq(said(0, 2), 1);
  cr_expect(log_claims(log_at(1, 0), 0) && log_claims(log_at(1, 1), 0));
  cr_expect_eq(said(0, 2), 0);
}

Test(agent_stand, who_answers_is_told_once) {
  for (uint32_t rank = 0; rank < RANKS; rank++)
    claim(rank, 0);
  cr_expect_eq(said(0, 2), 1);
  cr_expect_eq(said(1, 2), 1);
  for (uint32_t rank = 0; rank < RANKS; rank++)
    commit(rank, 0);
  cr_expect_eq(said(0, 2) + said(1, 2), 0, "both know that it has settled");
}

Test(agent_stand, a_unit_is_told_to_who_is_parked_before_it) {
  claim(0, 0);
  claim(1, 0);
  (void)said(0, 2);
  commit(2, 0);
  cr_expect_eq(said(1, 2), 1);
  cr_expect_eq(log_passed(log_at(0, 2)), 1);
  commit(2, 1);
  cr_expect_eq(said(1, 2), 0, "until it has followed");
}

Test(agent_stand, nothing_is_told_to_a_machine_with_a_rank_at_work) {
  claim(0, 0);
  (void)said(0, 2);
  commit(2, 0);
  commit(3, 0);
  cr_expect_eq(said(1, 2), 0);
}

/* It would wait for a machine that is not dry: sends, averages and several teams need more than
 * that. */
Test(agent_stand, all_is_told_while_a_rank_waits_without_a_claim) {
  agent_say_waits(sides[0].agent, false);
  cr_expect_eq(said(0, 2), 0);
  log_say_awaits(log_at(1, 2), true);
  (void)said(1, 2);
  cr_expect_eq(sides[1].looks, 1);
  commit(0, 0);
  cr_expect_eq(said(0, 2), 1);
  cr_expect_eq(log_passed(log_at(1, 0)), 1);
}

/* It may sleep in a team of another job, whose agent alone is told that it waits. */
Test(agent_stand, so_is_it_while_a_rank_of_several_teams_is_parked) {
  agent_say_waits(sides[1].agent, false);
  log_say_busy(log_at(1, 3), 9);
  (void)said(1, 2);
  cr_expect_eq(sides[1].looks, 1);
}

Test(agent_stand, and_where_nothing_has_moved_for_a_second) {
  claim(2, 0);
  (void)said(1, 2);
  (void)said(1, AGENT_STILL_MS);
  cr_expect_eq(sides[1].looks, 0);
  (void)said(1, AGENT_STILL_MS + 1);
  cr_expect_eq(sides[1].looks, 1);
}
