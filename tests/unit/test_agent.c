/* What agents of other machines may make an agent know (core/agent/agent.h). */
#include "core/agent/agent.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"

enum { LINK = 3 };

static uint32_t introduced_slots, ended_slots;

static void send_nothing(void *context, uint32_t link, const void *message, size_t size) {
  (void)context;
  (void)link;
  (void)message;
  (void)size;
}
static void count_introduced(void *context, uint64_t team, uint32_t slot, const void *said,
                             size_t size) {
  (void)context;
  (void)team;
  (void)slot;
  (void)said;
  (void)size;
  introduced_slots++;
}
static void count_ended(void *context, uint64_t team, uint32_t slot, struct plane_fate fate,
                        bool lost) {
  (void)context;
  (void)team;
  (void)slot;
  (void)fate;
  (void)lost;
  ended_slots++;
}

static struct agent *new_agent(void) {
  struct agent *agent = agent_create(&(struct agent_owner){
      .send = send_nothing, .introduced = count_introduced, .ended = count_ended});
  cr_assert(agent != NULL && agent_add_link(agent, LINK));
  introduced_slots = ended_slots = 0;
  return agent;
}

/* A message that names teams, and of each introduces a slot, if it is not -1; ends: and ends it. */
static bool hear(struct agent *agent, uint64_t first, uint32_t count, int32_t slot, bool ends) {
  unsigned char *message = malloc(1 + (size_t)count * 32), *at = message;
  *at++ = AGENT_VERSION;
  for (uint64_t key = first; key < first + count; key++) {
    *at++ = ITEM_TEAM;
    memcpy(at, &key, sizeof(key));
    at += sizeof(key);
    const unsigned char number[] = {(unsigned char)(slot | 0x80), (unsigned char)(slot >> 7)};
    if (slot >= 0) {
      *at++ = ITEM_INTRODUCE;
      memcpy(at, number, sizeof(number));
      memcpy(at + sizeof(number), "\x01x", 2);
      at += sizeof(number) + 2;
    }
    if (slot >= 0 && ends) {
      *at++ = ITEM_ENDED;
      memcpy(at, number, sizeof(number));
      memcpy(at + sizeof(number), "\x01\x00\x00", 3);
      at += sizeof(number) + 3;
    }
  }
  bool heard = agent_receive(agent, LINK, 1, message, (size_t)(at - message));
  free(message);
  return heard;
}

Test(agent, a_team_that_is_only_named_is_not_kept) {
  struct agent *agent = new_agent();
  cr_assert(hear(agent, 1, 1000, -1, false));
  cr_assert_eq(agent->nteams, 0);
  agent_destroy(agent);
}

Test(agent, as_many_teams_as_there_may_be) {
  struct agent *agent = new_agent();
  cr_assert(hear(agent, 1, AGENT_TEAMS_MAX, 0, false));
  cr_assert_eq(introduced_slots, AGENT_TEAMS_MAX);
  cr_assert(!hear(agent, AGENT_TEAMS_MAX + 1, 1, 0, false));
  cr_assert(hear(agent, 7, 1, 1, false), "one that is known already");
  agent_cut_link(agent, LINK);
  cr_assert_eq(ended_slots, AGENT_TEAMS_MAX + 1);
  agent_poll(agent, 1);
  cr_assert_eq(agent->nteams, 0);
  cr_assert_eq(agent->nslots, 0);
  agent_destroy(agent);
}

Test(agent, as_many_slots_as_there_may_be) {
  struct agent *agent = new_agent();
  enum { TEAMS = AGENT_SLOTS_MAX / PLANE_RANKS_MAX };
  cr_assert(hear(agent, 1, TEAMS, PLANE_RANKS_MAX - 1, false));
  cr_assert(!hear(agent, TEAMS + 1, 1, 0, false));
  agent_destroy(agent);
}

/* A long job makes and ends many communicators. */
Test(agent, a_team_whose_slots_have_ended_is_forgotten) {
  struct agent *agent = new_agent();
  for (uint32_t round = 0; round < 3; round++) {
    cr_assert(hear(agent, 1 + round * AGENT_TEAMS_MAX, AGENT_TEAMS_MAX, 0, true));
    agent_poll(agent, 1);
    cr_assert_eq(agent->nteams, 0);
  }
  cr_assert(hear(agent, 1, 1, -1, false), "what is still said of it is no mistake");
  agent_destroy(agent);
}

Test(agent, nobody_is_introduced_to_a_team_whose_ranks_are_all_there) {
  struct agent *agent = new_agent();
  cr_assert(hear(agent, 1, 1, 0, false));
  cr_assert(agent_say_ranks(agent, 1, 1, &(uint32_t){0}));
  cr_assert(!hear(agent, 1, 1, 1, false));
  cr_assert_eq(introduced_slots, 1);
  agent_destroy(agent);
}
