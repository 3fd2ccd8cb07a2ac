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

/* Room for an item with so many bytes, in this message or in a new one; and its team is named. */
static unsigned char *begin_item(struct agent *agent, uint32_t number,
                                 const struct agent_known *team, size_t size) {
  struct agent_link *link = &agent->links[number];
  if (link->size + size + AGENT_ITEM_HEAD > agent->owner.gathers)
    send_link(agent, number);
  unsigned char *at = link->bytes + link->size;
  if (link->size == 0) {
    *at++ = AGENT_VERSION;
    link->team = NO_TEAM;
    link->frames.count = link->nsame = 0;
  }
  if (team != NULL && link->team != team->key) {
    *at++ = ITEM_TEAM;
    memcpy(at, &team->key, sizeof(team->key));
    at += sizeof(team->key);
    link->team = team->key;
  }
  link->same.at = 0;
  return at;
}

static void put_item(struct agent *agent, uint32_t number, const struct agent_known *team,
                     const struct agent_head *head, const void *bytes, size_t size) {
  struct agent_link *link = &agent->links[number];
  unsigned char *at = begin_item(agent, number, team, size);
  *at++ = (unsigned char)head->item;
  for (uint32_t i = 0; i < head->nnumbers; i++)
    at = put_number(at, head->numbers[i]);
  if (size > 0)
    memcpy(at, bytes, size);
  if (head->item == ITEM_FRAME)
    agent_keep_frame(&link->frames, &(struct agent_frame){at, size});
  link->size = (size_t)(at - link->bytes) + size;
}

/* ---- frames ---- */

/* The number of one of the last frames of the message that is equal; the count of all: none is. */
static uint32_t find_frame(const struct agent_link *link, const struct agent_frame *frame) {
  uint32_t count = link->size == 0 ? 0 : link->frames.count;
  uint32_t first = count > AGENT_FRAMES_BACK ? count - AGENT_FRAMES_BACK : 0;
  for (uint32_t number = count; number-- > first;) {
    const struct agent_frame *other = &link->frames.last[number % AGENT_FRAMES_BACK];
    if (other->size == frame->size && memcmp(other->bytes, frame->bytes, frame->size) == 0)
      return number;
  }
  return link->frames.count;
}

/* Writes link->same where it says. */
static void write_same(struct agent_link *link) {
  const struct agent_same *same = &link->same;
  unsigned char *at = link->bytes + same->at;
  *at++ = ITEM_SAME;
  at = put_number(at, link->frames.count - 1 - same->frame);
  at = put_number(at, same->first);
  at = put_number(at, same->count - 1);
  link->size = (size_t)(at - link->bytes);
}

/* Of a slot that says the same as another of the message. False: none does. */
static bool put_same(struct agent *agent, uint32_t number, const struct agent_known *team,
                     uint32_t slot, const struct agent_frame *frame) {
  struct agent_link *link = &agent->links[number];
  uint32_t equal = find_frame(link, frame);
  if (link->size == 0 || equal == link->frames.count ||
      link->size + AGENT_ITEM_HEAD > agent->owner.gathers || link->nsame == AGENT_SAME_MAX)
    return false;
  struct agent_same *same = &link->same;
  if (same->at != 0 && link->team == team->key && same->frame == equal &&
      slot == same->first + same->count) {
    same->count++;
  } else {
    const unsigned char *at = begin_item(agent, number, team, 0);
    *same = (struct agent_same){equal, slot, 1, (size_t)(at - link->bytes)};
  }
  link->nsame++;
  write_same(link);
  return true;
}

void agent_put_frame(struct agent *agent, uint32_t links, struct agent_known *team, uint32_t slot,
                     const struct agent_frame *frame) {
  team->pending |= links;
  for (uint32_t number = 0; number < AGENT_LINKS_MAX; number++)
    if (agent->links[number].used && links >> number & 1 &&
        !put_same(agent, number, team, slot, frame))
      put_item(agent, number, team, &(struct agent_head){ITEM_FRAME, 2, {slot, frame->size}},
               frame->bytes, frame->size);
}

/* ---- all else ---- */

/* What ranks do is sent when it is due (agent_stand.c), all else at once. */
void agent_put(struct agent *agent, uint32_t links, struct agent_known *team,
               const struct agent_head *head, const void *bytes, size_t size) {
  if (head->item != ITEM_STAND)
    agent->urgent |= links;
  for (uint32_t number = 0; number < AGENT_LINKS_MAX; number++)
    if (agent->links[number].used && links >> number & 1)
      put_item(agent, number, team, head, bytes, size);
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
