/* What goes out to links (agent_private.h): items, gathered to messages. */
#include "core/agent/agent_private.h"

#include <string.h>

static unsigned char *put_number(unsigned char *at, uint64_t number) {
  for (; number >= 0x80; number >>= 7)
    *at++ = (unsigned char)(number | 0x80);
  *at++ = (unsigned char)number;
  return at;
}

static void send_link(struct agent *agent, uint32_t number) {
  struct agent_link *link = &agent->links[number];
  if (link->size == 0)
    return;
  agent->owner.send(agent->owner.context, number, link->bytes, link->size);
  link->size = 0;
}

void agent_flush(struct agent *agent, uint32_t links) {
  agent->urgent &= ~links;
  for (uint32_t number = 0; number < AGENT_LINKS_MAX; number++)
    if (links >> number & 1)
      send_link(agent, number);
}

static void put_item(struct agent_link *link, const struct agent_known *team,
                     const struct agent_head *head, const void *bytes, size_t size) {
  unsigned char *at = link->bytes + link->size;
  bool first = link->size == 0;
  if (first)
    *at++ = AGENT_VERSION;
  if (first)
    link->team = NO_TEAM;
  if (team != NULL && link->team != team->key) {
    *at++ = ITEM_TEAM;
    memcpy(at, &team->key, sizeof(team->key));
    at += sizeof(team->key);
    link->team = team->key;
  }
  *at++ = (unsigned char)head->item;
  for (uint32_t i = 0; i < head->nnumbers; i++)
    at = put_number(at, head->numbers[i]);
  if (size > 0)
    memcpy(at, bytes, size);
  link->size = (size_t)(at - link->bytes) + size;
}

/* What ranks do is sent when it is due (agent_stand.c), all else at once. */
void agent_put(struct agent *agent, uint32_t links, struct agent_known *team,
               const struct agent_head *head, const void *bytes, size_t size) {
  if (head->item == ITEM_FRAME)
    team->pending |= links;
  else if (head->item != ITEM_STAND)
    agent->urgent |= links;
  for (uint32_t number = 0; number < AGENT_LINKS_MAX; number++) {
    struct agent_link *link = &agent->links[number];
    if (!link->used || !(links >> number & 1))
      continue;
    if (link->size + size + AGENT_ITEM_HEAD > agent->owner.gathers)
      send_link(agent, number);
    put_item(link, team, head, bytes, size);
  }
}

void agent_tell_looks(struct agent *agent) {
  for (uint32_t number = 0; number < AGENT_LINKS_MAX; number++) {
    uint32_t bit = UINT32_C(1) << number;
    bool looks = agent->links[number].used && (agent->looks_here || (agent->looks & ~bit) != 0);
    if (looks == ((agent->told_looks & bit) != 0))
      continue;
    agent_put(agent, bit, NULL, &(struct agent_head){ITEM_LOOK, 1, {looks}}, NULL, 0);
    agent->told_looks ^= bit;
  }
}

void agent_tell_ended(struct agent *agent, struct agent_known *team, uint32_t slot,
                      struct plane_fate fate, bool lost, uint32_t but) {
  uint32_t links = but < AGENT_LINKS_MAX ? ALL_LINKS & ~(UINT32_C(1) << but) : ALL_LINKS;
  agent->emptied = true;
  agent_put(
      agent, links, team,
      &(struct agent_head){ITEM_ENDED, 4, {slot, (uint64_t)fate.how, (uint32_t)fate.number, lost}},
      NULL, 0);
}

void agent_tell_introduced(struct agent *agent, uint32_t links, struct agent_known *team,
                           uint32_t slot) {
  const struct agent_slot *of = &team->slots[slot];
  agent_put(agent, links, team, &(struct agent_head){ITEM_INTRODUCE, 2, {slot, of->said_bytes}},
            of->said, of->said_bytes);
}

void agent_tell_shared(struct agent *agent, struct agent_known *team, uint32_t links) {
  agent_put(agent, links, team,
            &(struct agent_head){
                ITEM_SHARED, 3, {team->shared.told, team->shared.posting, team->shared.apart}},
            NULL, 0);
}
