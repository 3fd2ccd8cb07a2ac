/* What an agent tells of its own machine's ranks (agent_private.h), and in which order.
 *
 * All logs that are to be told are read as they are at one moment (mirror_read). From what has been
 * told up to there they are told step by step, each step one unit passed, or the claim and all
 * else, so that nobody comes before what has led to it. Three things are known of that:
 *   - Claims at an index come before a rank passes it, unless it was expected there.
 *   - The rank whose unit it was passes it before those who have followed, where it claims no more.
 *   - What a process does in several teams comes in the order of its `reals`.
 * What has really happened has been in such an order, so there is one. */
#include "core/agent/agent_private.h"

/* Ranks of this machine run no further than the logs of others let them, so a read that is all of
 * one moment comes: this is for a machine that is not as it should be. */
#define READS_MAX 1000u

static struct agent_slot *slot_of(const struct agent_telling *telling) {
  return &telling->team->slots[telling->slot];
}

static const struct plane_log *log_told(const struct agent_telling *telling) {
  return log_of(telling->team->plane, telling->slot);
}

/* ---- which ---- */

/* What the ranks of the team share, for all. */
static void tell_shared(struct agent *agent, struct agent_known *team) {
  struct mirror_team now = mirror_team_read(plane_shared(team->plane));
  if (!mirror_team_is_less(&team->shared, &now))
    return;
  team->shared = now;
  agent_tell_shared(agent, team, team->links);
}

static bool has_ending(const struct agent_known *team) {
  for (uint32_t i = 0; i < team->nhere; i++)
    if (team->slots[team->here[i]].ending)
      return true;
  return false;
}

/* Whether something has happened that all are to hear of, although nobody looks. */
static bool has_news(struct agent *agent) {
  bool news = false;
  for (uint32_t i = 0; i < agent->nteams; i++) {
    struct agent_known *team = agent->teams[i];
    if (team->plane == NULL ||
        (!plane_has_events(plane_shared(team->plane), &team->calm) && !has_ending(team)))
      continue;
    team->calm = plane_calm(plane_shared(team->plane));
    news = true;
  }
  return news;
}

/* From here on the team's bell wakes this agent: said before anything is read. */
static void wait_for_bell(const struct agent_known *team) {
  plane_say_napping(plane_shared(team->plane));
  plane_say_waiting(plane_shared(team->plane));
}

/* How far the ranks of this machine are, where somebody may have to be told. Whether any has passed
 * something, or claims it. */
static void look_at_ranks(struct agent *agent, uint64_t now_ms) {
  for (uint32_t i = 0; i < agent->nteams; i++) {
    struct agent_known *team = agent->teams[i];
    uint64_t top = team->own.top;
    if (team->plane != NULL && (agent->waits || agent_looks(agent) || team->wants != 0))
      wait_for_bell(team);
    agent_read_stand(team, false, now_ms);
    if (team->own.top != top)
      agent->moved_ms = now_ms;
  }
}

static void choose_logs(struct agent *agent) {
  agent->ntelling = 0;
  for (uint32_t i = 0; i < agent->nteams; i++) {
    struct agent_known *team = agent->teams[i];
    if (team->plane == NULL)
      continue;
    tell_shared(agent, team);
    for (uint32_t place = 0; place < team->nhere && agent->ntelling < agent->room; place++)
      agent->telling[agent->ntelling++] = (struct agent_telling){team, team->here[place]};
  }
}

static void read_logs(struct agent *agent) {
  bool same = false;
  for (uint32_t reads = 0; !same && reads < READS_MAX; reads++) {
    same = true;
    for (uint32_t i = 0; i < agent->ntelling; i++)
      same &= mirror_read(slot_of(&agent->telling[i])->mirror, log_told(&agent->telling[i]));
  }
}

/* ---- in which order ---- */

/* What a log tells next. */
struct step {
  bool passes; /* a unit; else the claim, and all else */
  uint64_t index;
  struct log_entry entry;
};

/* index: how many units have been told. */
static struct step step_at(const struct agent_telling *telling, uint64_t index) {
  const struct mirror *mirror = slot_of(telling)->mirror;
  struct step step = {.index = index};
  step.passes = step.index < mirror_head(mirror);
  if (step.passes)
    step.entry = log_entry(log_told(telling), step.index);
  else
    (void)mirror_claimed(mirror, &step.entry.reals);
  return step;
}

static struct step next_step(const struct agent_telling *telling) {
  return step_at(telling, mirror_written(slot_of(telling)->mirror));
}

static bool is_claimed_and_untold(const struct mirror *mirror, uint64_t index) {
  uint32_t reals;
  return mirror_claimed(mirror, &reals) == index + 1 && mirror_head(mirror) == index &&
         !mirror_is_written(mirror);
}

/* Whether another log of the team tells something first that has led to a unit which was claimed.
 */
static bool is_behind(const struct step *step, const struct agent_telling *of,
                      const struct agent_telling *other) {
  const struct mirror *mirror = slot_of(other)->mirror;
  const struct agent_known *team = of->team;
  uint32_t source = step->entry.source;
  if (team->slot_of != NULL)
    source = source < team->nranks ? team->slot_of[source] : of->slot;
  if (mirror_written(mirror) > step->index)
    return false;
  return is_claimed_and_untold(mirror, step->index) ||
         (source == other->slot && mirror_head(mirror) > step->index);
}

/* Whether another log of the process tells something first. */
static bool is_later(const struct step *step, const struct agent_telling *other) {
  struct step theirs = next_step(other);
  if (!theirs.passes)
    return false;
  int32_t by = (int32_t)(theirs.entry.reals - step->entry.reals);
  bool real = step->passes && (step->entry.flags & ENTRY_REAL) != 0;
  return by < 0 || (by == 0 && (theirs.entry.flags & ENTRY_REAL) != 0 && !real);
}

static bool may_tell(const struct agent *agent, const struct agent_telling *telling,
                     const struct step *step) {
  bool claimed = step->passes && !(step->entry.flags & ENTRY_EXPECTED);
  for (uint32_t i = 0; i < agent->ntelling; i++) {
    const struct agent_telling *other = &agent->telling[i];
    if (other == telling)
      continue;
    if (other->team == telling->team
            ? claimed && is_behind(step, telling, other)
            : slot_of(other)->identity == slot_of(telling)->identity && is_later(step, other))
      return false;
  }
  return true;
}

/* ---- telling ---- */

/* Whether there was anything. */
static bool agent_tell_mirror(struct agent *agent, const struct agent_telling *telling,
                              uint64_t below, uint64_t now_ms) {
  bool told = false;
  struct mirror *mirror = slot_of(telling)->mirror;
  size_t size;
  while ((size = mirror_write(mirror, log_told(telling), below, now_ms, agent->frame,
                              AGENT_FRAME_MAX)) != 0) {
    agent_put_frame(agent, telling->team->links, telling->team, telling->slot,
                    &(struct agent_frame){agent->frame, size});
    told = true;
  }
  return told;
}

/* Tells all of a log that may be told now, in one go; at least one step if it is forced. Whether
 * there was anything. */
static bool tell_log(struct agent *agent, const struct agent_telling *telling, bool forced,
                     uint64_t now_ms) {
  if (mirror_is_written(slot_of(telling)->mirror))
    return false;
  struct step step = next_step(telling);
  uint64_t first = step.index;
  while ((forced && step.index == first) || may_tell(agent, telling, &step)) {
    if (!step.passes)
      return agent_tell_mirror(agent, telling, UINT64_MAX, now_ms);
    step = step_at(telling, step.index + 1);
  }
  return step.index != first && agent_tell_mirror(agent, telling, step.index, now_ms);
}

static bool is_all_told(const struct agent *agent) {
  for (uint32_t i = 0; i < agent->ntelling; i++)
    if (!mirror_is_written(slot_of(&agent->telling[i])->mirror))
      return false;
  return true;
}

/* What cannot be told now, as its log is being written over, is told the next time. */
static void tell_logs(struct agent *agent, uint64_t now_ms) {
  for (bool told = true; told && !is_all_told(agent);) {
    told = false;
    for (uint32_t i = 0; i < agent->ntelling; i++)
      told |= tell_log(agent, &agent->telling[i], false, now_ms);
    for (uint32_t i = 0; i < agent->ntelling && !told; i++)
      told = tell_log(agent, &agent->telling[i], true, now_ms);
  }
}

static void tell_endings(struct agent *agent, struct agent_known *team) {
  for (uint32_t place = 0; place < team->nhere;) {
    uint32_t slot = team->here[place];
    if (!team->slots[slot].ending) {
      place++;
      continue;
    }
    agent_tell_ended(agent, team, slot, team->slots[slot].fate, false, AGENT_LINKS_MAX);
    agent_free_slot(team, slot);
  }
}

/* Whether the ranks of this machine are dry where somebody is to hear of it: they may say something
 * new. */
static bool is_dry(const struct agent *agent) {
  for (uint32_t i = 0; i < agent->nteams; i++)
    if (agent->teams[i]->plane != NULL && agent->teams[i]->links != 0 && agent->teams[i]->own.dry)
      return true;
  return false;
}

uint32_t agent_tell_ranks(struct agent *agent, uint64_t now_ms) {
  look_at_ranks(agent, now_ms);
  bool all = has_news(agent) || agent_looks(agent);
  if (!all && !is_dry(agent) && agent_links_due(agent) == 0)
    return 0;
  choose_logs(agent);
  read_logs(agent);
  tell_logs(agent, now_ms);
  for (uint32_t i = 0; i < agent->nteams; i++) {
    agent_read_stand(agent->teams[i], true, now_ms);
    if (agent->teams[i]->plane != NULL)
      tell_endings(agent, agent->teams[i]);
  }
  uint32_t due = all ? ALL_LINKS : agent_links_due(agent);
  agent_tell_stands(agent, due);
  return due;
}
