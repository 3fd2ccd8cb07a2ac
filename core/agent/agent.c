/* An agent's life, and what its owner tells it (agent.h). */
#include "core/agent/agent.h"

#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"

struct agent *agent_create(const struct agent_owner *owner) {
  struct agent *agent = calloc(1, sizeof(*agent));
  if (agent == NULL)
    return NULL;
  agent->owner = *owner;
  if (owner->gathers == 0 || owner->gathers > AGENT_MESSAGE_MAX)
    agent->owner.gathers = AGENT_MESSAGE_MAX;
  agent->frame = malloc(AGENT_FRAME_MAX);
  if (agent->frame == NULL) {
    free(agent);
    return NULL;
  }
  return agent;
}

void agent_destroy(struct agent *agent) {
  if (agent == NULL)
    return;
  for (uint32_t i = 0; i < agent->nteams; i++)
    agent_free_team(agent->teams[i]);
  for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++)
    free(agent->links[link].bytes);
  free(agent->teams);
  free(agent->telling);
  free(agent->frame);
  free(agent);
}

/* ---- teams ---- */

bool agent_add_team(struct agent *agent, const struct agent_team *added) {
  struct agent_known *team = agent_know(agent, added->key);
  if (added->key == NO_TEAM || team == NULL || team->plane != NULL ||
      team->nslots > added->plane->nranks)
    return false;
  team->plane = added->plane;
  team->calm = plane_calm(plane_shared(team->plane));
  return true;
}

/* What other machines have said of it stays: it may be passed on. */
void agent_remove_team(struct agent *agent, uint64_t key) {
  struct agent_known *team = agent_find(agent, key);
  if (team == NULL)
    return;
  while (team->nhere > 0) {
    uint32_t slot = team->here[0];
    agent_tell_ended(agent, team, slot, team->slots[slot].fate, false, AGENT_LINKS_MAX);
    agent_free_slot(team, slot);
  }
  team->plane = NULL;
  agent->emptied = true;
}

bool agent_say_ranks(struct agent *agent, uint64_t key, uint32_t nranks, const uint32_t *slot_of) {
  struct agent_known *team = agent_find(agent, key);
  uint32_t *copy = calloc(nranks > 0 ? nranks : 1, sizeof(*copy));
  if (team == NULL || copy == NULL) {
    free(copy);
    return false;
  }
  memcpy(copy, slot_of, nranks * sizeof(*copy));
  free(team->slot_of);
  team->slot_of = copy;
  team->nranks = nranks;
  return true;
}

/* ---- slots ---- */

static bool make_room(struct agent *agent) {
  uint32_t here = 1;
  for (uint32_t i = 0; i < agent->nteams; i++)
    here += agent->teams[i]->nhere;
  if (here <= agent->room)
    return true;
  size_t room = 2 * (size_t)here;
  struct agent_telling *telling = realloc(agent->telling, room * sizeof(*telling));
  if (telling == NULL)
    return false;
  agent->telling = telling;
  agent->room = (uint32_t)room;
  return true;
}

bool agent_introduce(struct agent *agent, uint64_t key, uint32_t number, uint64_t identity,
                     const void *said, size_t size) {
  struct agent_known *team = agent_find(agent, key);
  struct agent_slot *slot = team == NULL ? NULL : agent_slot(agent, team, number);
  if (slot == NULL || slot->where != SLOT_FREE || size > AGENT_INTRODUCTION_MAX ||
      !make_room(agent))
    return false;
  slot->mirror = mirror_create();
  if (slot->mirror == NULL || !agent_keep_said(slot, said, size) ||
      !agent_use_slot_here(team, number)) {
    agent_free_slot(team, number);
    return false;
  }
  slot->identity = identity;
  agent_tell_introduced(agent, ALL_LINKS, team, number);
  return true;
}

void agent_say_ended(struct agent *agent, uint64_t key, uint32_t number, struct plane_fate fate) {
  struct agent_known *team = agent_find(agent, key);
  if (team == NULL || number >= team->nslots || team->slots[number].where != SLOT_HERE)
    return;
  team->slots[number].ending = true;
  team->slots[number].fate = fate;
}

void agent_say_waits(struct agent *agent, bool waits) {
  agent->waits = waits;
}

bool agent_is_awake(const struct agent *agent) {
  bool wanted = false;
  for (uint32_t i = 0; i < agent->nteams; i++)
    wanted |= agent->teams[i]->wants != 0;
  return agent->waits || wanted || agent_looks(agent);
}

/* ---- links ---- */

bool agent_add_link(struct agent *agent, uint32_t number) {
  struct agent_link *link = &agent->links[number];
  link->bytes = malloc(AGENT_MESSAGE_MAX);
  if (link->bytes == NULL)
    return false;
  link->used = true;
  link->size = 0;
  for (uint32_t i = 0; i < agent->nteams; i++)
    for (uint32_t slot = 0; slot < agent->teams[i]->nslots; slot++)
      if (agent->teams[i]->slots[slot].where != SLOT_FREE)
        agent_tell_introduced(agent, UINT32_C(1) << number, agent->teams[i], slot);
  return true;
}

void agent_cut_link(struct agent *agent, uint32_t number) {
  agent->looks &= ~(UINT32_C(1) << number);
  agent->told_looks &= ~(UINT32_C(1) << number);
  free(agent->links[number].bytes);
  agent->links[number] = (struct agent_link){.used = false};
  agent->emptied = true;
  for (uint32_t i = 0; i < agent->nteams; i++) {
    struct agent_known *team = agent->teams[i];
    team->there[number] = team->told[number] = (struct agent_stand){0};
    team->pending &= ~(UINT32_C(1) << number);
    team->wants &= ~(UINT32_C(1) << number);
    for (uint32_t slot = 0; slot < team->nslots; slot++) {
      if (team->slots[slot].where != SLOT_THERE || team->slots[slot].link != number)
        continue;
      struct plane_fate fate = {.how = END_UNKNOWN};
      agent_end_there(agent, team, slot, fate, true);
      agent_tell_ended(agent, team, slot, fate, true, number);
    }
    agent_wake(team);
  }
}

/* ---- turns ---- */

/* Whether a rank of this machine waits for what is not told where a side is dry: it has several
 * teams, and may sleep in one that another job's agent has, sends and receives, or waits for others
 * without a claim. */
static bool waits_for_all(const struct agent_known *team, bool waits) {
  if (team->plane == NULL)
    return false;
  if (waits && mirror_team_read(plane_shared(team->plane)).posting != 0)
    return true;
  for (uint32_t i = 0; i < team->nhere; i++) {
    const struct plane_log *log = log_of(team->plane, team->here[i]);
    if (log_busy_until(log) != 0 || log_awaits(log))
      return true;
  }
  return false;
}

static void look_around(struct agent *agent, uint64_t now_ms) {
  if (!agent->waits)
    agent->moved_ms = now_ms;
  agent->looks_here = agent->waits && now_ms - agent->moved_ms >= AGENT_STILL_MS;
  for (uint32_t i = 0; !agent->looks_here && i < agent->nteams; i++)
    agent->looks_here = waits_for_all(agent->teams[i], agent->waits);
}

void agent_poll(struct agent *agent, uint64_t now_ms) {
  look_around(agent, now_ms);
  agent_tell_looks(agent);
  uint32_t due = agent_tell_ranks(agent, now_ms);
  agent_flush(agent, due | agent->urgent);
  agent_forget_teams(agent);
}
