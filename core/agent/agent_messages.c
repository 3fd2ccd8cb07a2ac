/* What an agent hears from its links (agent_private.h): it is checked, applied, and passed on. */
#include <string.h>

#include "core/agent/agent_private.h"

struct reader {
  const unsigned char *at, *end;
  bool bad;
  struct agent_frames frames;
  uint32_t nsame;
};

static uint64_t get_number(struct reader *in, uint64_t most) {
  uint64_t number = 0;
  for (unsigned shift = 0; shift < 63 && in->at < in->end; shift += 7) {
    unsigned char byte = *in->at++;
    number |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80)
      continue;
    in->bad |= number > most;
    return in->bad ? 0 : number;
  }
  in->bad = true;
  return 0;
}

static const unsigned char *get_bytes(struct reader *in, uint64_t size) {
  const unsigned char *bytes = in->at;
  if (in->bad || size > (uint64_t)(in->end - in->at)) {
    in->bad = true;
    return NULL;
  }
  in->at += size;
  return bytes;
}

static bool is_behind(const struct agent_known *team, uint32_t link, uint32_t slot) {
  return slot < team->nslots && team->slots[slot].where == SLOT_THERE &&
         team->slots[slot].link == link;
}

/* The slot of an item, which is to be behind that link. */
static uint32_t get_slot(struct reader *in, const struct agent_known *team, uint32_t link) {
  uint32_t slot = (uint32_t)get_number(in, PLANE_RANKS_MAX - 1);
  in->bad = in->bad || !is_behind(team, link, slot);
  return slot;
}

/* To all but the link that it came from. */
static uint32_t agent_messages_others(uint32_t link) {
  return ALL_LINKS & ~(UINT32_C(1) << link);
}

static void hear_look(struct agent *agent, uint32_t link, struct reader *in) {
  uint32_t bit = UINT32_C(1) << link;
  bool looks = get_number(in, 1) != 0;
  agent->looks = looks ? agent->looks | bit : agent->looks & ~bit;
}

/* Of a slot that is behind that link. */
static void apply_frame(struct agent *agent, struct agent_known *team, uint32_t link,
                        uint64_t now_ms, uint32_t slot, struct reader *in,
                        const struct agent_frame *frame) {
  if (team->plane != NULL) {
    enum mirror_applied applied =
        mirror_apply(log_of(team->plane, slot), now_ms, frame->bytes, frame->size);
    team->heard = true;
    team->event |= applied == MIRROR_EVENT;
    in->bad |= applied == MIRROR_MALFORMED;
  }
  if (!in->bad)
    agent_put_frame(agent, team->links & agent_messages_others(link), team, slot, frame);
}

static void hear_frame(struct agent *agent, struct agent_known *team, uint32_t link,
                       uint64_t now_ms, struct reader *in) {
  uint32_t slot = get_slot(in, team, link);
  struct agent_frame frame = {.size = get_number(in, AGENT_FRAME_MAX)};
  frame.bytes = get_bytes(in, frame.size);
  if (in->bad)
    return;
  agent_keep_frame(&in->frames, &frame);
  apply_frame(agent, team, link, now_ms, slot, in, &frame);
}

static void hear_same(struct agent *agent, struct agent_known *team, uint32_t link, uint64_t now_ms,
                      struct reader *in) {
  uint32_t back = (uint32_t)get_number(in, AGENT_FRAMES_BACK - 1);
  uint32_t first = (uint32_t)get_number(in, PLANE_RANKS_MAX - 1);
  uint32_t count = (uint32_t)get_number(in, PLANE_RANKS_MAX - 1) + 1;
  in->bad |= back >= in->frames.count || count > AGENT_SAME_MAX - in->nsame;
  in->nsame += count;
  for (uint32_t slot = first; slot < first + count && !in->bad; slot++) {
    in->bad |= !is_behind(team, link, slot);
    if (!in->bad)
      apply_frame(agent, team, link, now_ms, slot, in,
                  &in->frames.last[(in->frames.count - 1 - back) % AGENT_FRAMES_BACK]);
  }
}

static void hear_shared(struct agent *agent, struct agent_known *team, uint32_t link,
                        struct reader *in) {
  struct mirror_team said = {.told = get_number(in, INT64_MAX),
                             .posting = (uint32_t)get_number(in, UINT32_MAX),
                             .apart = (uint32_t)get_number(in, 1)};
  bool event = false;
  if (in->bad || !mirror_team_is_less(&team->shared, &said))
    return;
  if (team->plane != NULL) {
    team->heard |= mirror_team_raise(plane_shared(team->plane), &said, &event);
    team->event |= event;
  }
  team->shared = (struct mirror_team){
      .told = said.told > team->shared.told ? said.told : team->shared.told,
      .posting = said.posting > team->shared.posting ? said.posting : team->shared.posting,
      .apart = said.apart > team->shared.apart ? said.apart : team->shared.apart};
  agent_tell_shared(agent, team, team->links & agent_messages_others(link));
}

/* The team of which somebody is introduced; NULL: it is too much, or all of its ranks are there. */
static struct agent_known *team_to_enter(struct agent *agent, struct agent_known *team,
                                         uint32_t number) {
  uint32_t more = number < team->nslots ? 0 : number + 1 - team->nslots;
  if (team->slot_of != NULL || agent->nslots + more > AGENT_SLOTS_MAX ||
      (team == &agent->unknown && agent->nteams >= AGENT_TEAMS_MAX))
    return NULL;
  return team == &agent->unknown ? agent_know(agent, team->key) : team;
}

static void hear_introduced(struct agent *agent, struct agent_known **of, uint32_t link,
                            struct reader *in) {
  uint32_t number = (uint32_t)get_number(in, PLANE_RANKS_MAX - 1);
  uint64_t size = get_number(in, AGENT_INTRODUCTION_MAX);
  const unsigned char *said = get_bytes(in, size);
  struct agent_known *team = in->bad ? NULL : team_to_enter(agent, *of, number);
  *of = team != NULL ? team : *of;
  struct agent_slot *slot = team == NULL ? NULL : agent_slot(agent, team, number);
  if (slot == NULL || slot->where != SLOT_FREE || !agent_keep_said(slot, said, size)) {
    in->bad = true;
    return;
  }
  agent_use_slot_there(team, number, link);
  agent->owner.introduced(agent->owner.context, team->key, number, said, size);
  agent_tell_introduced(agent, agent_messages_others(link), team, number);
}

static void hear_ended(struct agent *agent, struct agent_known *team, uint32_t link,
                       struct reader *in) {
  uint32_t slot = get_slot(in, team, link);
  struct plane_fate fate = {.how = (enum plane_end)get_number(in, END_SIGNAL)};
  fate.number = (int)(uint32_t)get_number(in, UINT32_MAX);
  bool lost = get_number(in, 1) != 0;
  if (in->bad)
    return;
  agent_end_there(agent, team, slot, fate, lost);
  agent_tell_ended(agent, team, slot, fate, lost, link);
}

static void hear_stand(struct agent_known *team, uint32_t link, struct reader *in) {
  struct agent_stand stand = {.top = get_number(in, INT64_MAX), .slow = get_number(in, INT64_MAX)};
  stand.dry = get_number(in, 1) != 0;
  stand.asks = get_number(in, 1) != 0;
  if (!in->bad)
    agent_hear_stand(team, link, &stand);
}

static void hear_team(struct agent *agent, struct agent_known **team, struct reader *in) {
  uint64_t key = NO_TEAM;
  const unsigned char *name = get_bytes(in, sizeof(key));
  if (name != NULL)
    memcpy(&key, name, sizeof(key));
  if (*team != NULL)
    agent_wake(*team);
  *team = agent_find(agent, key);
  if (*team == NULL) {
    agent->unknown = (struct agent_known){.key = key};
    *team = &agent->unknown;
  }
  in->bad |= key == NO_TEAM;
}

static void hear_item(struct agent *agent, struct agent_known **team, uint32_t link,
                      uint64_t now_ms, struct reader *in) {
  enum agent_item item = (enum agent_item) * in->at++;
  in->bad |= item > ITEM_TEAM && *team == NULL;
  if (in->bad)
    return;
  switch (item) {
  case ITEM_LOOK:
    hear_look(agent, link, in);
    break;
  case ITEM_TEAM:
    hear_team(agent, team, in);
    break;
  case ITEM_FRAME:
    hear_frame(agent, *team, link, now_ms, in);
    break;
  case ITEM_SAME:
    hear_same(agent, *team, link, now_ms, in);
    break;
  case ITEM_SHARED:
    hear_shared(agent, *team, link, in);
    break;
  case ITEM_INTRODUCE:
    hear_introduced(agent, team, link, in);
    break;
  case ITEM_ENDED:
    hear_ended(agent, *team, link, in);
    break;
  case ITEM_STAND:
    hear_stand(*team, link, in);
    break;
  default:
    in->bad = true;
  }
}

bool agent_receive(struct agent *agent, uint32_t link, uint64_t now_ms, const void *message,
                   size_t size) {
  struct reader in = {
      .at = message, .end = (const unsigned char *)message + size, .bad = size == 0};
  struct agent_known *team = NULL;
  agent->moved_ms = now_ms;
  in.bad = in.bad || !agent->links[link].used || *in.at++ != AGENT_VERSION;
  while (!in.bad && in.at < in.end)
    hear_item(agent, &team, link, now_ms, &in);
  if (team != NULL)
    agent_wake(team);
  return !in.bad;
}
