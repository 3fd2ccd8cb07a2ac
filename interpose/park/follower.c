/* When a parked thread sleeps and when it looks (follower.h). */
#include "interpose/park/follower.h"

#include <time.h>

#include "core/team/team_nap.h"
#include "interpose/comm/clock.h"

static uint64_t processor_time(void) {
  struct timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return (uint64_t)used.tv_sec * 1000000000 + (uint64_t)used.tv_nsec;
}

static void make_rhythm(struct endpoint *end) {
  end->rhythm = rhythm_create();
  rhythm_budget_begin(&end->budget, now_ns());
}

void follower_saw(const struct wait *wait, struct endpoint *end) {
  if (!team_may_nap(end->team))
    return;
  if (end->rhythm == NULL)
    make_rhythm(end);
  if (end->rhythm == NULL)
    return; /* no memory: the bell */
  if (end->rhythm_wait < wait->since_ns)
    rhythm_begin(end->rhythm);
  uint64_t now = now_ns();
  end->rhythm_wait = now;
  rhythm_saw(end->rhythm, team_loop_place(end->team), now);
  uint64_t looks = end->team->plane->looks, round = rhythm_round(end->rhythm);
  if (looks > 0 && round > 0 && round < RHYTHM_LONG)
    rhythm_budget_grant(&end->budget, looks);
}

static struct rhythm_plan plan_of(const struct wait *wait, const struct endpoint *end,
                                  const struct rhythm_budget *budget, uint64_t now) {
  if (end->rhythm == NULL || end->rhythm_wait < wait->since_ns || !team_may_nap(end->team))
    return (struct rhythm_plan){RHYTHM_BELL, 0};
  return rhythm_plan(end->rhythm, budget, now);
}

static struct rhythm_plan follower_earlier(struct rhythm_plan a, struct rhythm_plan b) {
  if (a.advice != b.advice)
    return a.advice > b.advice ? a : b;
  return a.until <= b.until ? a : b;
}
_Static_assert(RHYTHM_BELL < RHYTHM_SLEEP && RHYTHM_SLEEP < RHYTHM_LOOK, "earlier() compares them");

void follower_consider(struct wait *wait, struct endpoint *end) {
  if (end->rhythm == NULL)
    return;
  uint64_t now = now_ns();
  rhythm_looked(end->rhythm, now);
  rhythm_budget_earn(&end->budget, now);
  wait->plan = follower_earlier(wait->plan, plan_of(wait, end, &end->budget, now));
}

static void sleep_until(struct endpoint *end, uint32_t bell, uint64_t until) {
  struct plane *plane = end->team->plane;
  uint64_t before = processor_time();
  plane->nap(plane, bell, until);
  uint64_t now = now_ns(), used = processor_time() - before;
  if (now < until)
    rhythm_budget_spend(&end->budget, used);
  else
    rhythm_budget_slept(&end->budget, until, now, used);
}

/* A processor that has slept, or done something else, has lost from its caches what the way into
 * NCCL takes: 10 us in our measurements. They are spent before the unit comes. */
#define FORGOTTEN_NS 300000

static void warm_up(struct wait *wait, const struct endpoint *end) {
  struct unit unit;
  if (wait->nfound == 0 && team_foresees(end->team, &unit))
    shadows_rehearse(&wait->shadows, end, unit);
  team_rehearse(end->team);
}

/* A turn of looking takes a fraction of a microsecond. What takes as long as that was somebody
 * else's, who had the processor. */
#define TAKEN_NS 20000

/* Whether there is something to poll for. The processor's time is not asked of the kernel, whose
 * answer is a microsecond that would come behind the unit. */
static bool look_until(struct wait *wait, struct endpoint *end, uint32_t bell, uint64_t now,
                       uint64_t until) {
  struct plane *plane = end->team->plane;
  bool called = false;
  uint64_t used = 0;
  if (now - end->rhythm_wait > FORGOTTEN_NS) {
    warm_up(wait, end);
    uint64_t begun = now;
    now = now_ns();
    used = now - begun < TAKEN_NS ? now - begun : TAKEN_NS;
  }
  while (!called && now < until) {
    rhythm_looked(end->rhythm, now);
    plane->pause(plane);
    called = team_is_called(end->team, bell);
    uint64_t before = now;
    now = now_ns();
    used += now - before < TAKEN_NS ? now - before : 0;
  }
  rhythm_budget_spend(&end->budget, used);
  return called;
}

/* Something of another endpoint is due: the whole look around is for all of them. */
static void pause_for_others(struct endpoint *end, uint64_t now) {
  struct plane *plane = end->team->plane;
  plane->pause(plane);
  rhythm_budget_spend(&end->budget, now_ns() - now);
}

/* As team_wait. In a loop with long rounds nothing is to be had from looking first. */
static enum team_verdict wait_for_bell(const struct wait *wait, struct endpoint *end,
                                       struct unit *unit, unsigned milliseconds) {
  if (end->rhythm == NULL || end->rhythm_wait < wait->since_ns)
    return team_wait(end->team, unit, milliseconds);
  uint64_t before = processor_time();
  uint32_t bell;
  enum team_verdict verdict;
  if (rhythm_round(end->rhythm) < RHYTHM_LONG)
    verdict = team_wait(end->team, unit, milliseconds);
  else if ((verdict = team_announce(end->team, unit, true, &bell)) == TEAM_PARKED)
    end->team->plane->wait(end->team->plane, bell, milliseconds);
  rhythm_budget_spend(&end->budget, processor_time() - before);
  return verdict;
}

enum team_verdict follower_wait(struct wait *wait, struct endpoint *end, struct unit *unit,
                                unsigned milliseconds) {
  uint64_t now = now_ns(), limit = now + milliseconds * UINT64_C(1000000);
  if (end->rhythm != NULL) {
    rhythm_looked(end->rhythm, now);
    rhythm_budget_earn(&end->budget, now);
  }
  struct rhythm_plan here = plan_of(wait, end, &end->budget, now), others = wait->plan;
  wait->plan = (struct rhythm_plan){RHYTHM_BELL, 0};
  struct rhythm_plan plan = follower_earlier(here, others);
  if (plan.advice == RHYTHM_BELL)
    return wait_for_bell(wait, end, unit, milliseconds);
  uint32_t bell;
  enum team_verdict verdict = team_announce(end->team, unit, here.advice == RHYTHM_BELL, &bell);
  if (verdict != TEAM_PARKED)
    return verdict;
  uint64_t until = plan.until < limit ? plan.until : limit;
  if (plan.advice == RHYTHM_SLEEP)
    sleep_until(end, bell, until);
  else if (here.advice != RHYTHM_LOOK)
    pause_for_others(end, now);
  else if (look_until(wait, end, bell, now, until))
    return team_poll(end->team, unit);
  return TEAM_PARKED;
}
