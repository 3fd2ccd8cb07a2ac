/* Who is known to an agent (agent_private.h): teams, and their slots. */
#include <stdlib.h>
#include <string.h>

#include "core/agent/agent_private.h"

/* ---- slots ---- */

static uint32_t place_here(const struct agent_known *team, uint32_t slot) {
  uint32_t place = 0;
  while (place < team->nhere && team->here[place] < slot)
    place++;
  return place;
}

bool agent_use_slot_here(struct agent_known *team, uint32_t slot) {
  uint32_t place = place_here(team, slot);
  uint32_t *here = realloc(team->here, (team->nhere + 1) * sizeof(*here));
  if (here == NULL)
    return false;
  team->here = here;
  memmove(here + place + 1, here + place, (team->nhere++ - place) * sizeof(*here));
  here[place] = slot;
  team->slots[slot].where = SLOT_HERE;
  return true;
}

void agent_use_slot_there(struct agent_known *team, uint32_t slot, uint32_t link) {
  team->slots[slot].where = SLOT_THERE;
  team->slots[slot].link = link;
  team->links |= UINT32_C(1) << link;
  team->behind[link]++;
}

static void drop_here(struct agent_known *team, uint32_t slot) {
  uint32_t place = place_here(team, slot);
  memmove(team->here + place, team->here + place + 1,
          (--team->nhere - place) * sizeof(*team->here));
}

static void drop_there(struct agent_known *team, uint32_t link) {
  if (--team->behind[link] == 0)
    team->links &= ~(UINT32_C(1) << link);
}

void agent_free_slot(struct agent_known *team, uint32_t number) {
  struct agent_slot *slot = &team->slots[number];
  if (slot->where == SLOT_HERE)
    drop_here(team, number);
  if (slot->where == SLOT_THERE)
    drop_there(team, slot->link);
  mirror_destroy(slot->mirror);
  free(slot->said);
  *slot = (struct agent_slot){.where = SLOT_FREE};
}

/* ---- teams ---- */

void agent_free_team(struct agent_known *team) {
  for (uint32_t slot = 0; slot < team->nslots; slot++)
    agent_free_slot(team, slot);
  free(team->slots);
  free(team->here);
  free(team->slot_of);
  free(team);
}

/* Where the team of a key stands, or would. */
static uint32_t place_of(const struct agent *agent, uint64_t key) {
  uint32_t first = 0, end = agent->nteams;
  while (first < end) {
    uint32_t middle = first + (end - first) / 2;
    if (agent->teams[middle]->key < key)
      first = middle + 1;
    else
      end = middle;
  }
  return first;
}

struct agent_known *agent_find(const struct agent *agent, uint64_t key) {
  uint32_t place = place_of(agent, key);
  return place < agent->nteams && agent->teams[place]->key == key ? agent->teams[place] : NULL;
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
  uint32_t place = place_of(agent, key);
  memmove(teams + place + 1, teams + place,
          (agent->nteams++ - place) * sizeof(struct agent_known *));
  teams[place] = team;
  return team;
}

static bool is_empty(const struct agent_known *team) {
  return team->plane == NULL && team->nhere == 0 && team->links == 0;
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

/* Of a team whose ranks are here it is known how many slots it has. */
static bool make_room(struct agent_known *team, uint32_t slot) {
  uint32_t room = team->plane != NULL     ? team->plane->nranks
                  : slot < 2 * team->room ? 2 * team->room
                                          : slot + 1;
  struct agent_slot *slots = realloc(team->slots, room * sizeof(*slots));
  if (slots == NULL)
    return false;
  memset(slots + team->room, 0, (room - team->room) * sizeof(*slots));
  team->slots = slots;
  team->room = room;
  return true;
}

struct agent_slot *agent_slot(struct agent *agent, struct agent_known *team, uint32_t slot) {
  if (slot >= PLANE_RANKS_MAX || (team->plane != NULL && slot >= team->plane->nranks))
    return NULL;
  if (slot >= team->room && !make_room(team, slot))
    return NULL;
  if (slot >= team->nslots) {
    agent->nslots += slot + 1 - team->nslots;
    team->nslots = slot + 1;
  }
  return &team->slots[slot];
}

bool agent_keep_said(struct agent_slot *slot, const void *said, size_t size) {
  if (size == 0)
    return true;
  slot->said = malloc(size);
  if (slot->said == NULL)
    return false;
  memcpy(slot->said, said, size);
  slot->said_bytes = size;
  return true;
}

void agent_end_there(struct agent *agent, struct agent_known *team, uint32_t number,
                     struct plane_fate fate, bool lost) {
  agent_free_slot(team, number);
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
