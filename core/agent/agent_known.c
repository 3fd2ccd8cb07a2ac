/* Who is known to an agent (agent_private.h): teams, and their slots. */
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"

void agent_free_slot(struct agent_slot *slot) {
  mirror_destroy(slot->mirror);
  free(slot->said);
  *slot = (struct agent_slot){.where = SLOT_FREE};
}

void agent_free_team(struct agent_known *team) {
  for (uint32_t slot = 0; slot < team->nslots; slot++)
    agent_free_slot(&team->slots[slot]);
  free(team->slots);
  free(team->slot_of);
  free(team);
}

struct agent_known *agent_find(const struct agent *agent, uint64_t key) {
  for (uint32_t i = 0; i < agent->nteams; i++)
    if (agent->teams[i]->key == key)
      return agent->teams[i];
  return NULL;
}

struct agent_known *agent_know(struct agent *agent, uint64_t key) {
  struct agent_known *team = agent_find(agent, key);
  if (team != NULL)
    return team;
  struct agent_known **teams =
      realloc(agent->teams, (agent->nteams + 1) * sizeof(struct agent_known *));
  if (teams == NULL)
    return NULL;
  agent->teams = teams;
  team = calloc(1, sizeof(*team));
  if (team == NULL)
    return NULL;
  team->key = key;
  teams[agent->nteams++] = team;
  return team;
}

static bool is_empty(const struct agent_known *team) {
  bool empty = team->plane == NULL;
  for (uint32_t slot = 0; empty && slot < team->nslots; slot++)
    empty = team->slots[slot].where == SLOT_FREE;
  return empty;
}

void agent_forget_teams(struct agent *agent) {
  uint32_t kept = 0;
  for (uint32_t i = 0; agent->emptied && i < agent->nteams; i++) {
    struct agent_known *team = agent->teams[i];
    if (!is_empty(team)) {
      agent->teams[kept++] = team;
      continue;
    }
    agent->nslots -= team->nslots;
    agent_free_team(team);
  }
  agent->nteams = agent->emptied ? kept : agent->nteams;
  agent->emptied = false;
}

struct agent_slot *agent_slot(struct agent *agent, struct agent_known *team, uint32_t slot) {
  if (slot >= PLANE_RANKS_MAX || (team->plane != NULL && slot >= team->plane->nranks))
    return NULL;
  if (slot >= team->nslots) {
    uint32_t nslots = slot + 1;
    struct agent_slot *slots = realloc(team->slots, nslots * sizeof(*slots));
    if (slots == NULL)
      return NULL;
    memset(slots + team->nslots, 0, (nslots - team->nslots) * sizeof(*slots));
    team->slots = slots;
    agent->nslots += nslots - team->nslots;
    team->nslots = nslots;
  }
  return &team->slots[slot];
}

bool agent_keep_said(struct agent_slot *slot, const void *said, size_t size) {
  slot->said = malloc(size > 0 ? size : 1);
  if (slot->said == NULL)
    return false;
  if (size > 0)
    memcpy(slot->said, said, size);
  slot->said_bytes = size;
  return true;
}

static void find_links(struct agent_known *team) {
  team->links = 0;
  for (uint32_t slot = 0; slot < team->nslots; slot++)
    if (team->slots[slot].where == SLOT_THERE)
      team->links |= UINT32_C(1) << team->slots[slot].link;
}

void agent_end_there(struct agent *agent, struct agent_known *team, uint32_t number,
                     struct plane_fate fate, bool lost) {
  agent_free_slot(&team->slots[number]);
  find_links(team);
  agent->owner.ended(agent->owner.context, team->key, number, fate, lost);
  if (team->plane == NULL)
    return;
  log_fail(log_of(team->plane, number));
  team->heard = team->event = true;
}

void agent_wake(struct agent_known *team) {
  if (team->heard && team->plane != NULL)
    mirror_tell(team->plane, team->event, &team->calm);
  team->heard = team->event = false;
}
