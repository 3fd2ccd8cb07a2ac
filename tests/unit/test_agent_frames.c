/* What ranks do alike is told once (ITEM_SAME, core/agent/agent_private.h): three machines in a
 * row, of which the one in the middle passes on what it hears. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"
#include "core/transport/plane_memory.h"
#include "tests/simulation/random.h"

enum { EACH = 24, MACHINES = 3, RANKS = EACH * MACHINES, TEAM = 7, DOWN = 0, UP = 1 };

/* A machine, and what it has sent up since it was last asked (told). */
static struct machine {
  struct plane_memory *memory;
  struct agent *agent;
  uint32_t number;
  size_t messages, bytes;
} machines[MACHINES];

static struct plane_log *log_at(uint32_t machine, uint32_t rank) {
  return log_of(plane_memory_rank(machines[machine].memory, rank), rank);
}

static void carry(void *context, uint32_t link, const void *message, size_t size) {
  struct machine *machine = context;
  machine->messages += link == UP;
  machine->bytes += link == UP ? size : 0;
  struct machine *other = &machines[link == UP ? machine->number + 1 : machine->number - 1];
  cr_assert(agent_receive(other->agent, 1 - link, 1, message, size));
}
static void no_introduced(void *context, uint64_t team, uint32_t slot, const void *said,
                          size_t size) {
  (void)context, (void)team, (void)slot, (void)said, (void)size;
}
static void no_ended(void *context, uint64_t team, uint32_t slot, struct plane_fate fate,
                     bool lost) {
  (void)context, (void)team, (void)slot, (void)fate, (void)lost;
}

static void poll_all(void) {
  for (uint32_t i = 0; i < MACHINES; i++)
    agent_poll(machines[i].agent, 1);
}

static void begin_machine(uint32_t number) {
  struct machine *machine = &machines[number];
  *machine = (struct machine){.memory = plane_memory_create(RANKS), .number = number};
  machine->agent = agent_create(&(struct agent_owner){
      .context = machine, .send = carry, .introduced = no_introduced, .ended = no_ended});
  cr_assert(number == 0 || agent_add_link(machine->agent, DOWN));
  cr_assert(number == MACHINES - 1 || agent_add_link(machine->agent, UP));
  struct agent_team team = {TEAM, plane_memory_rank(machine->memory, EACH * number)};
  cr_assert(agent_add_team(machine->agent, &team));
}

static void begin(void) {
  for (uint32_t i = 0; i < MACHINES; i++)
    begin_machine(i);
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    cr_assert(agent_introduce(machines[rank / EACH].agent, TEAM, rank, rank, NULL, 0));
    log_begin(log_at(rank / EACH, rank));
  }
  for (uint32_t i = 0; i < MACHINES; i++)
    agent_say_waits(machines[i].agent, true);
  for (uint32_t round = 0; round < 4; round++)
    poll_all();
  for (uint32_t i = 0; i < MACHINES; i++)
    machines[i].messages = machines[i].bytes = 0;
}

static void end(void) {
  for (uint32_t i = 0; i < MACHINES; i++) {
    agent_destroy(machines[i].agent);
    plane_memory_destroy(machines[i].memory);
  }
}

/* At index 0. */
static void claim(uint32_t rank, uint64_t hash) {
  struct plane_log *own = log_at(rank / EACH, rank);
  log_write_claim(own, &(struct log_claim){.hash = hash, .signature = hash, .bytes = 4});
  log_claim(own, 0);
}

TestSuite(agent_frames, .init = begin, .fini = end);

/* The claims of the first machine are one message, and those of the second with them: how long that
 * is. */
static size_t bytes_of_claims(uint64_t (*hash_of)(uint32_t rank)) {
  for (uint32_t rank = 0; rank < 2 * EACH; rank++)
    claim(rank, hash_of(rank));
  poll_all();
  for (uint32_t rank = 0; rank < 2 * EACH; rank++)
    cr_assert(log_claims(log_at(2, rank), 0) && log_at(2, rank)->claim_hash == hash_of(rank),
              "rank %u", rank);
  cr_assert_eq(machines[0].messages, 1);
  cr_assert_eq(machines[1].messages, 1);
  return machines[1].bytes;
}

static uint64_t one(uint32_t rank) {
  (void)rank;
  return 5;
}
static uint64_t its_own(uint32_t rank) {
  return 1000000 + rank;
}
static uint64_t by_threes(uint32_t rank) {
  return 1000000 + rank % 3;
}

/* Far less than a byte a rank. */
Test(agent_frames, a_unit_that_all_claim_takes_no_more_for_more_ranks) {
  cr_expect_lt(bytes_of_claims(one), 2 * EACH + 40);
}

Test(agent_frames, claims_of_several_units_are_told_once_each) {
  cr_expect_lt(bytes_of_claims(by_threes), 3 * 40 + 2 * EACH * 5);
}

Test(agent_frames, units_of_their_own_are_all_told) {
  cr_expect_gt(bytes_of_claims(its_own), 2 * EACH * 16);
}

/* Up to more different ones than a message can refer to. */
Test(agent_frames, whatever_they_do_arrives) {
  uint64_t random = random_seeded(11), hashes[RANKS], head = 0;
  for (uint32_t round = 0; round < 400; round++) {
    uint32_t kinds = 1 + random_below(&random, 2 * AGENT_FRAMES_BACK);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      struct plane_log *own = log_at(rank / EACH, rank);
      hashes[rank] = 1 + random_below(&random, kinds);
      log_write_claim(own, &(struct log_claim){.hash = hashes[rank], .bytes = round});
      log_claim(own, head);
      if (random_one_in(&random, 8))
        agent_poll(machines[rank / EACH].agent, 1);
    }
    for (uint32_t polls = 0; polls < 4; polls++)
      poll_all();
    for (uint32_t rank = 0; rank < RANKS; rank++)
      for (uint32_t at = 0; at < MACHINES; at++)
        cr_assert(log_claims(log_at(at, rank), head) &&
                      log_at(at, rank)->claim_hash == hashes[rank],
                  "round %u, rank %u on machine %u", round, rank, at);
    for (uint32_t rank = 0; rank < RANKS; rank++)
      log_pass(log_at(rank / EACH, rank), head,
               &(struct log_entry){
                   .hash = hashes[rank], .reals = (uint32_t)head + 1, .flags = ENTRY_REAL});
    head++;
  }
}

/* ---- what is no message ---- */

/* A claim of slot 0 of the first machine, and who says the same. */
static bool middle_hears(const unsigned char *same, size_t size) {
  static const unsigned char frame[] = {ITEM_FRAME, 0, 2, 1, 8}; /* MIRROR_VERSION, PART_TAKEN */
  unsigned char message[256] = {AGENT_VERSION, ITEM_TEAM, TEAM}, *at = message + 10;
  memcpy(at, frame, sizeof(frame));
  memcpy(at + sizeof(frame), same, size);
  return agent_receive(machines[1].agent, DOWN, 1, message, 10 + sizeof(frame) + size);
}
#define HEARS(...)                                                                                 \
  middle_hears((const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

Test(agent_frames, slots_of_the_link_may_say_the_same) {
  cr_expect(HEARS(ITEM_SAME, 0, 1, EACH - 2));
}

Test(agent_frames, nobody_says_what_no_frame_has_said) {
  cr_expect_not(HEARS(ITEM_SAME, 1, 1, 0));
}

Test(agent_frames, nobody_says_what_was_said_too_long_ago) {
  cr_expect_not(HEARS(ITEM_SAME, AGENT_FRAMES_BACK, 1, 0));
}

Test(agent_frames, slots_of_other_links_say_nothing_there) {
  cr_expect_not(HEARS(ITEM_SAME, 0, 1, EACH - 1));
  cr_expect_not(HEARS(ITEM_SAME, 0, EACH, 0));
  cr_expect_not(HEARS(ITEM_SAME, 0, 0xff, 0x7f, 0));
}

/* So few bytes could else keep an agent busy for long. */
Test(agent_frames, a_message_speaks_of_so_many_slots_at_most) {
  enum { ITEMS = AGENT_SAME_MAX / (EACH - 1) };
  static unsigned char same[(ITEMS + 1) * 4];
  static unsigned char message[10 + 5 + sizeof(same)] = {AGENT_VERSION, ITEM_TEAM, TEAM};
  memcpy(message + 10, (const unsigned char[]){ITEM_FRAME, 0, 2, 1, 8}, 5);
  for (uint32_t i = 0; i <= ITEMS; i++)
    memcpy(message + 15 + (size_t)4 * i, (const unsigned char[]){ITEM_SAME, 0, 1, EACH - 2}, 4);
  cr_expect(agent_receive(machines[1].agent, DOWN, 1, message, sizeof(message) - 4));
  cr_expect_not(agent_receive(machines[1].agent, DOWN, 1, message, sizeof(message)));
}
