/* How far the ranks on each side of a link are in a team, and when a link is told
 * (agent_private.h).
 *
 * A side of a link is dry in a team if all of the team's ranks there are parked at one index, which
 * nobody is known to have passed: by themselves they do nothing more. So what there is to be told
 * comes in one message, which is due
 *   - when this side is dry: all its claims are in it;
 *   - when the other is, and a rank of this side has passed the index at which it stands: the units
 *     that it needs next;
 *   - when the other is, since it is PLANE_RUN_AHEAD before what it knows of this side, and may go
 *     on.
 * If several sides are not dry, those who are need to hear of one of them only: none passes an
 * index that another does not come to. That one is asked.
 *
 * Whatever else has happened waits for that, in order: to who hears of it, the link is slow. */
#include "core/agent/agent_private.h"

/* So far a rank that waited for room is to come at least before it is told. */
#define ROOM_MIN (PLANE_RUN_AHEAD / 4)

/* ---- how far they are ---- */

static const struct agent_stand nobody = {.slow = UINT64_MAX, .dry = true};

static bool is_nobody(const struct agent_stand *stand) {
  return stand->slow == UINT64_MAX;
}

/* Who is dry below the others follows them as soon as it hears of what they have passed. */
static void join_stand(struct agent_stand *stand, const struct agent_stand *more) {
  if (is_nobody(more))
    return;
  if (is_nobody(stand)) {
    *stand = *more;
    return;
  }
  stand->dry = stand->dry && more->dry && stand->top == more->top;
  stand->top = more->top > stand->top ? more->top : stand->top;
  stand->slow = more->slow < stand->slow ? more->slow : stand->slow;
}

static uint64_t known_top(const struct agent_known *team) {
  uint64_t top = team->own.top;
  for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++)
    if (team->links >> link & 1 && team->there[link].top > top)
      top = team->there[link].top;
  return top;
}

/* ---- who is asked ---- */

static bool is_dry_at(const struct agent_stand *stand, uint64_t top) {
  return stand->dry && stand->top == top;
}

static bool asks_us(const struct agent_known *team, uint32_t link, uint64_t top) {
  return team->there[link].asks && team->there[link].top == top;
}

/* Whom to ask, the larger the better: not who asks this, as it waits for us, and asks another as
 * soon as it hears that we do; who has been at work when it was last heard of; who has come
 * furthest. */
static bool is_better(const struct agent_known *team, uint32_t link, uint32_t than, uint64_t top) {
  const struct agent_stand *a = &team->there[link], *b = &team->there[than];
  if (asks_us(team, link, top) != asks_us(team, than, top))
    return !asks_us(team, link, top);
  if (a->dry != b->dry)
    return !a->dry;
  return a->top > b->top;
}

/* Of several that are not dry one, if anybody else is. Who has been dry all the time will be so
 * again, or is asked a little later. */
static void choose_asked(struct agent_known *team, uint64_t now_ms) {
  uint64_t top = known_top(team);
  uint32_t others = 0, best = 0;
  bool stuck = !is_nobody(&team->own);
  team->asked = 0;
  if (stuck && !is_dry_at(&team->own, top))
    return;
  for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++) {
    bool there = (team->links >> link & 1) != 0, dry = there && is_dry_at(&team->there[link], top);
    stuck |= dry;
    if (!there || dry)
      continue;
    if (others++ == 0 || is_better(team, link, best, top))
      best = link;
  }
  if (!stuck || others < 2)
    return;
  if (team->stuck_at != top + 1)
    team->stuck_ms = now_ms;
  team->stuck_at = top + 1;
  if (!team->there[best].dry || now_ms - team->stuck_ms >= AGENT_ASK_MS)
    team->asked = best + 1;
}

/* ---- this machine's ranks ---- */

/* head, claim: of a rank of this machine, as they are, or as they have been told. */
static void read_head(const struct agent_known *team, uint32_t slot, bool told, uint64_t *head,
                      uint64_t *claim) {
  const struct plane_log *log = log_of(team->plane, slot);
  const struct mirror *mirror = team->slots[slot].mirror;
  uint32_t reals;
  *head = told ? mirror_head(mirror) : log_passed(log);
  *claim = told ? mirror_claimed(mirror, &reals) : log_claimed(log);
}

static bool is_parked_at(const struct agent_known *team, uint32_t slot, bool told, uint64_t index) {
  enum rank_state state = log_state(log_of(team->plane, slot));
  uint64_t head, claim;
  read_head(team, slot, told, &head, &claim);
  return state == RANK_DONE || state == RANK_FAILED || (head == index && claim == index + 1);
}

static void read_own(struct agent_known *team, bool told) {
  for (uint32_t i = 0; i < team->nhere; i++) {
    uint64_t head, claim;
    read_head(team, team->here[i], told, &head, &claim);
    join_stand(&team->own, &(struct agent_stand){.top = head, .slow = head, .dry = true});
  }
  uint64_t top = known_top(team);
  for (uint32_t i = 0; team->own.dry && i < team->nhere; i++)
    team->own.dry = is_parked_at(team, team->here[i], told, top);
}

void agent_read_stand(struct agent_known *team, bool told, uint64_t now_ms) {
  team->own = nobody;
  if (team->plane != NULL)
    read_own(team, told);
  choose_asked(team, now_ms);
}

/* Of all on this side of a link. */
static struct agent_stand side_of(const struct agent_known *team, uint32_t link) {
  struct agent_stand side = team->own;
  for (uint32_t other = 0; other < AGENT_LINKS_MAX; other++)
    if (other != link && team->links >> other & 1)
      join_stand(&side, &team->there[other]);
  side.asks = team->asked == link + 1;
  return side;
}

/* ---- what is due ---- */

static bool is_let_on(const struct agent_stand *there, const struct agent_stand *told,
                      const struct agent_stand *side) {
  return told->slow + PLANE_RUN_AHEAD <= there->top &&
         side->slow + PLANE_RUN_AHEAD >= there->top + ROOM_MIN;
}

static bool is_due(const struct agent_known *team, uint32_t link) {
  struct agent_stand side = side_of(team, link);
  const struct agent_stand *there = &team->there[link], *told = &team->told[link];
  if (is_nobody(&side))
    return false;
  if (side.dry && (team->pending >> link & 1 || !is_dry_at(told, side.top)))
    return true;
  if (side.asks && !(told->asks && told->top == side.top))
    return true;
  return team->wants >> link & 1 && (side.top > there->top || is_let_on(there, told, &side));
}

uint32_t agent_links_due(const struct agent *agent) {
  uint32_t due = 0;
  for (uint32_t i = 0; i < agent->nteams; i++)
    for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++)
      if (agent->teams[i]->links >> link & 1 && is_due(agent->teams[i], link))
        due |= UINT32_C(1) << link;
  return due;
}

/* ---- saying it ---- */

static void tell_stand(struct agent *agent, struct agent_known *team, uint32_t link) {
  uint32_t bit = UINT32_C(1) << link;
  struct agent_stand side = side_of(team, link), *told = &team->told[link];
  bool changed = side.top != told->top || side.slow != told->slow || side.dry != told->dry ||
                 side.asks != told->asks;
  team->pending &= ~bit;
  if (!changed || is_nobody(&side))
    return;
  agent_put(agent, bit, team,
            &(struct agent_head){ITEM_STAND, 4, {side.top, side.slow, side.dry, side.asks}}, NULL,
            0);
  if (side.dry || side.top > team->there[link].top)
    team->wants &= ~bit;
  *told = side;
}

void agent_tell_stands(struct agent *agent, uint32_t links) {
  for (uint32_t i = 0; i < agent->nteams; i++)
    for (uint32_t link = 0; link < AGENT_LINKS_MAX; link++)
      if (links >> link & 1 && agent->teams[i]->links >> link & 1)
        tell_stand(agent, agent->teams[i], link);
}

void agent_hear_stand(struct agent_known *team, uint32_t link, const struct agent_stand *stand) {
  uint32_t bit = UINT32_C(1) << link;
  team->there[link] = *stand;
  if ((stand->dry || stand->asks) && !is_dry_at(&team->told[link], stand->top))
    team->wants |= bit;
  else
    team->wants &= ~bit;
}
