/* In which round of the outermost loop around it a call is made (places.h). What a place says of it is
 * remembered by the place's id; the number is read again. */
#include "interpose/places/places.h"

#include <stdlib.h>

#include "core/place/place_rounds.h"
#include "interpose/places/python/python_frames.h"
#include "interpose/self/thread.h"

enum { KEPT = 32 };

/* Whose frame the loop is one of. */
enum loop_of { LOOP_NONE, LOOP_OWN, LOOP_WAITING };

struct kept {
  uint32_t id;
  struct places_round round;
  enum loop_of of;
  struct python_loop in;
  uint32_t looks; /* python_waiting_looks, when it was read */
  /* Who has taken note of which round: places_round_noted. */
  const void *asker;
  uint32_t noted;
};

/* KEPT of them, of the thread's own, by the low bits of ids; NULL: none yet, or no memory. */
static _Thread_local struct kept *kept;

static void forget_places(void) {
  free(kept);
  kept = NULL;
}

static struct kept *find_kept(uint32_t id) {
  if (kept == NULL && (kept = calloc(KEPT, sizeof(*kept))) != NULL)
    thread_at_end(forget_places);
  return kept == NULL ? NULL : &kept[id % KEPT];
}

static enum loop_of find_loop(struct python_loop *loop) {
  if (places_are_missed())
    return python_loop(loop) ? LOOP_OWN : LOOP_NONE;
  return python_waiting_loop(loop) ? LOOP_WAITING : LOOP_NONE;
}

/* Looks at the place, which has this id. */
static bool look_at_place(struct kept *to, uint32_t id) {
  struct place place;
  struct place_begin begin;
  *to = (struct kept){.id = 0};
  if (!places_describe(&place) || place.id != id || place.nnodes == 0)
    return false;
  *to = (struct kept){.id = id};
  if (!place_round_begins(&place, &begin) || (to->of = find_loop(&to->in)) == LOOP_NONE)
    return true;
  to->looks = python_waiting_looks();
  to->round = (struct places_round){.loop = begin.place.id,
                                    .number = begin.number,
                                    .comes = begin.comes,
                                    .each = place_is_of_each_epoch(&place)};
  return true;
}

/* Reads the number again. False: it has to be looked at. */
static bool read_again(struct kept *kept_one) {
  struct place_round round;
  uint32_t looks = python_waiting_looks();
  if (kept_one->of == LOOP_NONE || (kept_one->of == LOOP_WAITING && kept_one->looks == looks))
    return true;
  bool is_there = kept_one->of == LOOP_OWN ? python_loop_round(&kept_one->in, &round)
                                           : python_waiting_round(&kept_one->in, &round);
  if (!is_there || round.number == 0)
    return false;
  kept_one->round.number = round.number;
  kept_one->looks = looks;
  return true;
}

static struct kept *kept_here(void) {
  uint32_t id = python_is_present() ? places_current() : 0;
  return id == 0 ? NULL : find_kept(id);
}

bool places_round(struct places_round *round, const void *asker) {
  struct kept *of = kept_here();
  uint32_t id = places_current();
  if (of == NULL || ((of->id != id || !read_again(of)) && !look_at_place(of, id)))
    return false;
  if (asker != NULL && of->asker == asker && of->noted == of->round.number)
    return false;
  *round = of->round;
  return true;
}

void places_round_noted(const void *asker) {
  struct kept *of = kept_here();
  if (of == NULL || of->id != places_current())
    return;
  of->asker = asker;
  of->noted = of->round.number;
}
