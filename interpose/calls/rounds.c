/* Where a round begins (rounds.h). */
#include "interpose/calls/rounds.h"

#include <stdlib.h>

#include "core/place/place_rounds.h"
#include "interpose/comm/apart.h"
#include "interpose/park/transaction.h"
#include "interpose/places/places.h"
#include "interpose/self/environment.h"

/* Where a rank was last in a team, as its endpoint keeps it: of each level a word. */
#define VISIT_EACH (UINT32_C(1) << 31)

enum { CLAIMED_EACH = 8 }; /* of the first rounds of a loop */

/* Which rounds it has come to, as a word: of which loop, the number of the last one, and how many.
 */
enum { COUNT_BITS = 8, COUNT_MAX = (1 << COUNT_BITS) - 1 };
_Static_assert(PLACE_NUMBERS_MAX <= 1u << (32 - COUNT_BITS), "all numbers of rounds");

static uint64_t word_of(const struct places_round *round, uint32_t level) {
  return (uint64_t)round->of[level].loop << 32 | round->of[level].number |
         (level == 0 && round->each ? VISIT_EACH : 0);
}

/* Whether a rank comes to another round of a loop with `now`. UNSEEN: nobody needs to look where
 * others are, as they have just been together, at a point that each round comes to; or it is the
 * first one, and nobody is in an earlier one. */
enum turn { TURNS_NOT, TURNS_UNSEEN, TURNS };

/* Of the outermost loop. last: the word. */
static enum turn turn_of_outermost(uint64_t last, const struct places_round *now) {
  uint32_t number = (uint32_t)last & ~VISIT_EACH, is = now->of[0].number;
  bool each = ((uint32_t)last & VISIT_EACH) != 0;
  if (now->of[0].loop == 0)
    return TURNS_NOT;
  if ((uint32_t)(last >> 32) != now->of[0].loop || is < number)
    return is > 1 ? TURNS : TURNS_UNSEEN;
  if (is == number)
    return TURNS_NOT;
  return each && is == number + 1 ? TURNS_UNSEEN : TURNS;
}

/* Of the loop in that one. */
static enum turn turn_within(uint64_t last, const struct places_round *now) {
  struct place_numbers before = place_numbers_of((uint32_t)last),
                       is = place_numbers_of(now->of[1].number);
  if (now->of[1].loop == 0)
    return TURNS_NOT;
  if (last >> 32 != now->of[1].loop || before.around != is.around)
    return is.number > 1 ? TURNS : TURNS_UNSEEN;
  return before.number != is.number ? TURNS : TURNS_NOT;
}

/* How many rounds of the loop at a level the rank has come to, this one among them. Their numbers
 * need not begin with 1. */
static uint32_t rounds_come_to(const struct endpoint *end, const struct places_round *now,
                               uint32_t level) {
  uint64_t rounds = atomic_load(&end->rounds[level]);
  uint32_t last = (uint32_t)rounds >> COUNT_BITS, count = (uint32_t)rounds & COUNT_MAX;
  if ((uint32_t)(rounds >> 32) != now->of[level].loop || now->of[level].number < last)
    return 1;
  return count + (now->of[level].number != last && count < COUNT_MAX);
}

static void note_round(struct endpoint *end, const struct places_round *now) {
  for (uint32_t level = 0; level < PLACE_LEVELS; level++) {
    if (now->of[level].loop != 0)
      atomic_store(&end->rounds[level], (uint64_t)now->of[level].loop << 32 |
                                            now->of[level].number << COUNT_BITS |
                                            rounds_come_to(end, now, level));
    if (now->of[level].loop != 0 || level == 0)
      atomic_store(&end->visits[level], word_of(now, level));
  }
}

/* Ranks wait for each other on the host where a call is claimed: of a loop of short rounds not each
 * begins so. */
static bool is_claimed(const struct endpoint *end, const struct places_round *now, uint32_t level) {
  return join_settings()->epochs == EPOCHS_WAIT || rounds_come_to(end, now, level) <= CLAIMED_EACH;
}

/* Whether ranks of a team of this process send and receive: then to wait for each other costs more
 * (core/team/team_runs.c). */
static bool has_posted(void) {
  bool posted = false;
  for (struct endpoint *end = communicator_hold_endpoints(); end != NULL && !posted;
       end = end->next)
    posted = team_posts(end->team);
  communicator_release_endpoints();
  return posted;
}

/* What begins in the team with a call. */
struct beginning {
  uint32_t level;           /* the outermost that does; PLACE_LEVELS: none */
  uint32_t how;             /* of the endpoint's bits */
  bool turns[PLACE_LEVELS]; /* by level: a round begins */
};

static struct beginning rounds_beginning(const struct endpoint *end,
                                         const struct places_round *now) {
  const enum turn turns[] = {turn_of_outermost(atomic_load(&end->visits[0]), now),
                             turn_within(atomic_load(&end->visits[1]), now)};
  enum turn most = turns[0] > turns[1] ? turns[0] : turns[1];
  struct beginning beginning = {PLACE_LEVELS, 0, {false}};
  for (uint32_t level = PLACE_LEVELS; level-- > 0;) {
    beginning.turns[level] = turns[level] != TURNS_NOT;
    if (most != TURNS_NOT && turns[level] == most)
      beginning.level = level;
  }
  if (beginning.level == PLACE_LEVELS)
    return beginning;
  if (most == TURNS_UNSEEN)
    beginning.how = ENDPOINT_BEGINS_UNSEEN;
  else if (!is_claimed(end, now, beginning.level))
    beginning.how = ENDPOINT_BEGINS_QUIETLY;
  if (!now->of[beginning.level].comes)
    beginning.how |= ENDPOINT_BEGINS_PERHAPS;
  if (!now->of[PLACE_LEVELS - 1].comes)
    beginning.how |= ENDPOINT_BEGINS_PERHAPS_WITHIN;
  return beginning;
}

/* The same, where ranks say where their rounds begin. */
static struct beginning beginning_here(const struct endpoint *end, const struct places_round *now) {
  struct beginning beginning = rounds_beginning(end, now);
  if (beginning.level == PLACE_LEVELS || join_settings()->epochs == EPOCHS_WAIT || !has_posted())
    return beginning;
  team_say_no_rounds(end->team);
  beginning.level = PLACE_LEVELS;
  return beginning;
}

static bool rounds_are_on(void) {
  return join_settings()->epochs != EPOCHS_MIX && places_are_on();
}

bool rounds_are_due(ncclComm_t handle) {
  struct places_round now;
  struct communicator *comm =
      rounds_are_on() && places_round(&now, handle) ? communicator_find(handle) : NULL;
  if (comm == NULL)
    return false;
  if (beginning_here(comm->end, &now).level != PLACE_LEVELS)
    return true;
  note_round(comm->end, &now);
  places_round_noted(handle);
  return false;
}

/* For the next request (struct endpoint). */
static void say_beginning(struct endpoint *end, const struct places_round *now,
                          const struct beginning *beginning) {
  for (uint32_t level = 0; level < PLACE_LEVELS; level++) {
    uint32_t totals[] = {now->of[0].total, now->of[1].total};
    atomic_store(&end->says[level],
                 beginning->turns[level]
                     ? team_says(places_current(), totals, level, now->of[level].number)
                     : 0);
  }
  atomic_store(&end->begins, (beginning->level + 1) | beginning->how);
}

/* Whether the rank was last in the loop at a level. */
static bool is_in_loop(const struct endpoint *end, const struct places_round *now, uint32_t level) {
  uint64_t last = atomic_load(&end->visits[level]);
  return now->of[level].loop != 0 && (uint32_t)(last >> 32) == now->of[level].loop;
}

/* A round begins in the team, unless that is among the requests already: adds it to them. Takes
 * note of it. Returns how many there are. */
static uint32_t begin_round(struct endpoint *end, const struct places_round *now,
                            struct request *requests, uint32_t nrequests) {
  for (uint32_t i = 0; i < nrequests; i++)
    if (requests[i].end == end)
      return nrequests;
  struct beginning beginning = {.level = PLACE_LEVELS};
  if (!apart_is_set(end))
    beginning = beginning_here(end, now);
  if (beginning.level != PLACE_LEVELS)
    say_beginning(end, now, &beginning);
  if (beginning.level != PLACE_LEVELS &&
      !(beginning.how & (ENDPOINT_BEGINS_QUIETLY | ENDPOINT_BEGINS_UNSEEN))) {
    requests[nrequests] = (struct request){.end = end, .level = beginning.level};
    for (uint32_t i = 0; i < PLACE_LEVELS; i++)
      requests[nrequests].goes_round[i] = is_in_loop(end, now, i);
    nrequests++;
  }
  note_round(end, now);
  return nrequests;
}

static uint32_t begin_for_calls(const struct call *calls, size_t ncalls,
                                const struct places_round *now, struct request *requests) {
  uint32_t nrequests = 0;
  for (size_t i = 0; i < ncalls; i++) {
    struct communicator *comm =
        calls[i].kind < CALL_SEND ? communicator_find(calls[i].handle) : NULL;
    if (comm != NULL)
      nrequests = begin_round(comm->end, now, requests, nrequests);
  }
  return nrequests;
}

/* Other teams of a rank that begins a round begin it with it, if it has been in the round before in
 * them: what it waits for in one team others may wait for in another. Makes room for them; without
 * memory they are left out. */
static uint32_t begin_for_others(const struct places_round *now, struct request **requests,
                                 uint32_t nrequests) {
  struct overlap *overlap = atomic_load(&(*requests)[0].end->overlap);
  struct endpoint *first = communicator_hold_endpoints();
  uint32_t room = nrequests;
  for (struct endpoint *end = first; end != NULL; end = end->next)
    room++;
  struct request *more = reallocarray(*requests, room, sizeof(**requests));
  if (more != NULL)
    *requests = more;
  for (struct endpoint *end = first;
       more != NULL && end != NULL && overlap != NULL && nrequests < room; end = end->next)
    if (is_in_loop(end, now, (*requests)[0].level) && atomic_load(&end->overlap) == overlap)
      nrequests = begin_round(end, now, *requests, nrequests);
  communicator_release_endpoints();
  return nrequests;
}

static bool has_several_teams(void) {
  const struct endpoint *first = communicator_hold_endpoints();
  bool several = first != NULL && first->next != NULL;
  communicator_release_endpoints();
  return several;
}

/* Of the present call. Of several teams that of the outermost loop alone: a rank without anything
 * to do in a round of the inner one may be waited for in another team, and then nobody comes to the
 * mark. False: it says none. */
static bool marks_here(struct round_marks *marks) {
  struct place place;
  struct place_begin begin;
  *marks = (struct round_marks){.levels = 0};
  if (!places_describe(&place))
    return false;
  uint32_t most = has_several_teams() ? 1 : PLACE_LEVELS;
  while (marks->levels < most && place_round_begins(&place, marks->levels, &begin))
    marks->of[marks->levels++] =
        (struct round_mark){round_member(begin.place.id, begin.number), begin.place, begin.comes};
  return marks->levels != 0;
}

/* The marks at the beginning of the round. */
static ncclResult_t wait_for_round(struct request *requests, uint32_t nrequests) {
  struct round_marks marks;
  if (nrequests == 0 || join_settings()->epochs != EPOCHS_WAIT || !marks_here(&marks))
    return ncclSuccess;
  for (uint32_t i = 0; i < nrequests; i++) {
    requests[i].unit = (struct unit){&marks.of[0].mark, 1};
    requests[i].place = &marks.of[0].place;
    requests[i].marks = &marks;
  }
  struct transaction transaction = {
      .kind = TRANSACTION_EXIT_POINT, .requests = requests, .nrequests = nrequests};
  ncclResult_t together = transaction_make(&transaction);
  return transaction_worse(transaction_result(&transaction), together);
}

ncclResult_t rounds_begin(const struct call *calls, size_t ncalls) {
  struct places_round now;
  if (!rounds_are_on() || !places_round(&now, NULL))
    return ncclSuccess;
  struct request *requests = calloc(ncalls, sizeof(*requests));
  if (requests == NULL)
    return ncclSystemError;
  uint32_t nrequests = begin_for_calls(calls, ncalls, &now, requests);
  if (nrequests > 0 && join_settings()->epochs == EPOCHS_WAIT)
    nrequests = begin_for_others(&now, &requests, nrequests);
  ncclResult_t result = wait_for_round(requests, nrequests);
  free(requests);
  return result;
}
