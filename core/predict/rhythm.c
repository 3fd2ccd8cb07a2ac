/* When the next unit comes (rhythm.h). The estimate for a place is the shortest of its last few
 * gaps: a rank that wakes too early looks for a moment longer, one that wakes too late keeps others
 * waiting. */
#include "core/predict/rhythm.h"

#include <stdlib.h>

#define PLACES 1024u /* a power of two; places that meet in one slot relearn each time */
#define GAPS 5u
#define TICK 64u     /* nanoseconds: 32 bits of ticks are 274 seconds */
#define EXACT 20000u /* a look that was so little before: the time is known */
#define FIRST_STEP 16000u
#define GUARD 5000u     /* looked before the earliest time it has come at */
#define LOOK_MAX 200000 /* of one advice: there is more to look after */

/* On the way to the time a unit is due it may come earlier, because the loop has become faster: the
 * rank looks up so often, but spends no more than about 0.8 % of the time on it. If it only slept,
 * and the others waited for it, it would never learn that they could be faster. */
#define LOOKS_UNDERWAY 8
#define NAPS_APART 120

/* Late by more than that is a pause (a checkpoint, an evaluation), and the bell ends it. */
#define PAUSE 20000000u

/* Without budget a rank may look up now and then instead, if that makes it late by no more than
 * this part of the gap. */
#define TARDY 32

#define NAP_AT_FIRST 10000
#define OVERSHOOT_AT_FIRST 60000
#define OVERSHOOT_MAX 400000

struct slot {
  uint32_t place; /* 0: free */
  uint32_t count; /* gaps seen, in all; the last ones are kept */
  uint32_t late;  /* how often in a row it was found late */
  uint32_t gaps[GAPS];
  uint64_t seen; /* when the loop last stood there */
};

struct rhythm {
  uint64_t since;  /* when the last unit was found; 0: not known */
  uint64_t unsure; /* and how much earlier it may have come */
  uint64_t looked; /* when nothing had come yet */
  uint64_t round;
  uint32_t place;
  struct slot slots[PLACES];
};

struct rhythm *rhythm_create(void) {
  return calloc(1, sizeof(struct rhythm));
}

void rhythm_destroy(struct rhythm *rhythm) {
  free(rhythm);
}

void rhythm_begin(struct rhythm *rhythm) {
  rhythm->since = rhythm->looked = rhythm->unsure = 0;
  rhythm->place = 0;
}

void rhythm_looked(struct rhythm *rhythm, uint64_t now) {
  rhythm->looked = now;
}

/* ---- what is known of a place ---- */

static struct slot *slot_of(struct rhythm *rhythm, uint32_t place) {
  struct slot *slot = &rhythm->slots[place % PLACES];
  if (slot->place != place)
    *slot = (struct slot){.place = place};
  return slot;
}

struct gaps {
  uint64_t shortest, usual; /* the median */
};

static struct gaps gaps_of(const struct slot *slot) {
  uint32_t sorted[GAPS], n = 0;
  for (; n < GAPS && n < slot->count; n++) {
    uint32_t at = n;
    for (; at > 0 && sorted[at - 1] > slot->gaps[n]; at--)
      sorted[at] = sorted[at - 1];
    sorted[at] = slot->gaps[n];
  }
  return n == 0 ? (struct gaps){0, 0}
                : (struct gaps){(uint64_t)sorted[0] * TICK, (uint64_t)sorted[n / 2] * TICK};
}

/* How much before the shortest gap it may come: as much as the gaps differ, if that can be paid. A
 * gap that was long only because the machine was busy does not count. */
static uint64_t margin_of(struct gaps gaps, const struct rhythm_budget *budget) {
  uint64_t spread = (gaps.usual - gaps.shortest) / 2;
  uint64_t most = budget->left > 0 ? (uint64_t)budget->left / 8 : 0;
  return GUARD + budget->overshoot + (spread < most ? spread : most);
}

static void note_gap(struct slot *slot, uint64_t gap) {
  uint64_t ticks = gap / TICK;
  slot->gaps[slot->count++ % GAPS] = ticks < UINT32_MAX ? (uint32_t)ticks : UINT32_MAX;
}

/* Found when the rank came to look, before the time it was to look all the time: it is to come
 * earlier, and earlier by more each time that this is not enough. */
static uint64_t step_earlier(struct slot *slot, uint64_t gap, uint64_t unsure) {
  uint64_t step = (uint64_t)FIRST_STEP << (slot->late < 16 ? slot->late : 16);
  slot->late++;
  if (slot->late > 3 && step < unsure / 8)
    step = unsure / 8;
  if (step > unsure)
    step = unsure;
  return step < gap ? gap - step : 0;
}

/* When a unit has come that is found now: since the last look, and if that leaves a choice, when it
 * was due. Who is kept from its processor for a while does not lose the time of the loop. */
static uint64_t has_come(const struct rhythm *rhythm, const struct slot *slot, uint64_t now) {
  uint64_t due = rhythm->since + gaps_of(slot).usual;
  if (slot->count == 0 || due >= now)
    return now;
  return due > rhythm->looked ? due : rhythm->looked;
}

/* The gap before the unit found now. Returns when it has come. */
static uint64_t rhythm_learn(struct rhythm *rhythm, struct slot *slot, uint64_t now) {
  uint64_t came = has_come(rhythm, slot, now), gap = came - rhythm->since;
  uint64_t unsure = now - rhythm->looked;
  bool known = slot->count > 0;
  if (rhythm->looked <= rhythm->since) { /* it was there at once, or while we were late anyway */
    if (!known || rhythm->unsure == 0)
      note_gap(slot, 0);
    return came;
  }
  bool was_due = known && rhythm->looked - rhythm->since >= gaps_of(slot).shortest;
  bool late = known && unsure > EXACT && !was_due;
  bool counts = !known || rhythm->unsure <= gap / 8;
  rhythm->unsure = late ? unsure : 0;
  if (late)
    gap = step_earlier(slot, gap, unsure);
  else
    slot->late = 0;
  if (counts || late)
    note_gap(slot, gap);
  return came;
}

void rhythm_saw(struct rhythm *rhythm, uint32_t place, uint64_t now) {
  uint64_t came = now;
  if (rhythm->since != 0 && rhythm->place != 0)
    came = rhythm_learn(rhythm, slot_of(rhythm, rhythm->place), now);
  struct slot *slot = slot_of(rhythm, place);
  rhythm->round = slot->seen == 0 ? 0 : now - slot->seen;
  slot->seen = now;
  rhythm->place = place;
  rhythm->since = came;
}

uint64_t rhythm_round(const struct rhythm *rhythm) {
  return rhythm->round;
}

/* ---- the plan ---- */

/* Until it is due: one sleep, or where that is long several. */
static struct rhythm_plan sleep_until_due(const struct rhythm *rhythm,
                                          const struct rhythm_budget *budget, uint64_t now,
                                          uint64_t gap, uint64_t due) {
  uint64_t step = gap / LOOKS_UNDERWAY, passed = now - rhythm->since;
  if (step < NAPS_APART * budget->nap)
    step = NAPS_APART * budget->nap;
  uint64_t end = due - passed <= step + step / 2 ? due : passed + step;
  return (struct rhythm_plan){RHYTHM_SLEEP, rhythm->since + end};
}

/* Whether a sleep that long will have brought what it costs. */
static bool can_pay(const struct rhythm_budget *budget, uint64_t sleep) {
  return budget->left + (int64_t)(sleep / RHYTHM_SHARE) >= (int64_t)budget->nap;
}

struct rhythm_plan rhythm_plan(const struct rhythm *rhythm, const struct rhythm_budget *budget,
                               uint64_t now) {
  const struct slot *slot = &rhythm->slots[rhythm->place % PLACES];
  if (rhythm->since == 0 || slot->place != rhythm->place || slot->count == 0)
    return (struct rhythm_plan){RHYTHM_BELL, 0};
  struct gaps gaps = gaps_of(slot);
  uint64_t gap = gaps.shortest, passed = now - rhythm->since, lead = margin_of(gaps, budget);
  uint64_t due = gap > lead ? gap - lead : 0;
  if (passed + budget->nap < due)
    return can_pay(budget, due - passed) ? sleep_until_due(rhythm, budget, now, gap, due)
                                         : (struct rhythm_plan){RHYTHM_BELL, 0};
  if (budget->left > 0 && passed < 2 * gap + PAUSE)
    return (struct rhythm_plan){
        RHYTHM_LOOK, now + (uint64_t)(budget->left < LOOK_MAX ? budget->left : LOOK_MAX)};
  /* Until a sleep can be paid. */
  uint64_t rest = (uint64_t)((int64_t)budget->nap - budget->left) * RHYTHM_SHARE;
  if (passed < 2 * gap + PAUSE && rest <= passed / TARDY)
    return (struct rhythm_plan){RHYTHM_SLEEP, now + rest};
  return (struct rhythm_plan){RHYTHM_BELL, 0};
}

/* ---- the budget ---- */

void rhythm_budget_begin(struct rhythm_budget *budget, uint64_t now) {
  *budget = (struct rhythm_budget){
      .left = RHYTHM_SAVED, .at = now, .nap = NAP_AT_FIRST, .overshoot = OVERSHOOT_AT_FIRST};
}

void rhythm_budget_earn(struct rhythm_budget *budget, uint64_t now) {
  uint64_t earned = (now - budget->at) / RHYTHM_SHARE;
  budget->at += earned * RHYTHM_SHARE;
  budget->left =
      earned > UINT64_C(2) * RHYTHM_SAVED || budget->left + (int64_t)earned > RHYTHM_SAVED
          ? RHYTHM_SAVED
          : budget->left + (int64_t)earned;
}

void rhythm_budget_spend(struct rhythm_budget *budget, uint64_t used) {
  budget->left -= used < RHYTHM_SAVED ? (int64_t)used : RHYTHM_SAVED;
  if (budget->left < -RHYTHM_SAVED)
    budget->left = -RHYTHM_SAVED;
}

/* Follows what grows at once, and what shrinks slowly. Once far too much is an accident. */
static uint64_t rhythm_follow(uint64_t known, uint64_t seen) {
  if (seen > 2 * known)
    seen = 2 * known;
  return seen > known ? known + (seen - known) / 4 : known - (known - seen) / 16;
}

void rhythm_budget_slept(struct rhythm_budget *budget, uint64_t until, uint64_t now,
                         uint64_t used) {
  uint64_t over = now > until ? now - until : 0;
  budget->overshoot = rhythm_follow(budget->overshoot, over < OVERSHOOT_MAX ? over : OVERSHOOT_MAX);
  budget->nap = rhythm_follow(budget->nap, used < OVERSHOOT_MAX ? used : OVERSHOOT_MAX);
  rhythm_budget_spend(budget, used);
}

void rhythm_budget_grant(struct rhythm_budget *budget, uint64_t looking) {
  int64_t granted = (int64_t)(budget->nap + looking);
  if (budget->left < granted)
    budget->left = granted;
}
