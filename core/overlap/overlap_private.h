/* What the files of overlapping teams (overlap.h) share: overlap.c decides what a parked rank does,
 * overlap_order.c knows what comes before what, overlap_claims.c weighs claims, overlap_held.c asks
 * who is held up, overlap_step.c keeps step, overlap_quiet.c tells whether nothing moves. Not for
 * anybody else. */
#ifndef NCCL_JOIN_CORE_OVERLAP_PRIVATE_H
#define NCCL_JOIN_CORE_OVERLAP_PRIVATE_H

#include <sched.h>
#include <stdatomic.h>

#include "core/overlap/overlap.h"
#include "core/predict/rank_predictor.h"
#include "core/transport/logs.h"

#define NOWHERE UINT32_MAX

/* Who is known to hold up a rank, until it moves. */
struct overlap_holder {
  const struct plane_log *log; /* NULL: nobody is known */
  uint64_t moves;
};

struct overlap_team {
  struct overlap *overlap;
  struct team *team;
  uint64_t *identities;
  uint32_t *by_identity; /* the ranks, ordered by their identities */
  uint32_t *rank_in;     /* by team of the overlap and rank here: the rank there, or NOWHERE */
  struct overlap_holder *holders; /* by rank */
  bool available, removed;
  struct overlap_team *next_removed;
  uint64_t wait_from; /* index at which this wait began: what has been passed since are shadows */
  bool visited;       /* by a search that is under way */
  uint64_t answering; /* after how long it was decided in this wait that we have left it; 0: not */
  bool awaited;    /* we have issued a unit for real that not all ranks are known to have passed */
  uint64_t issued; /* the last one's index */
  uint32_t patience; /* overlap_patience, of those at work: milliseconds */
};

struct overlap {
  _Atomic uint32_t nteams; /* first: overlap_nteams */
  uint64_t identity;
  /* Held for the moment that a function of overlap.h takes: another thread of the process may make
   * or end a team while this one is parked. */
  atomic_flag busy;
  struct overlap_team **teams;
  struct overlap_team *removed;     /* kept, as the other thread may be about to ask for them */
  struct rank_predictor *predictor; /* NULL while there is one team */
  uint32_t reals;                   /* units issued for real, in all teams */
  uint64_t busy_until;              /* as published */
  uint64_t moved_at;
  uint64_t quiet;
  uint64_t asked_about, held; /* as published: overlap_held.c */
  uint64_t asking;            /* what is to be asked next */
  bool crosses;               /* of two teams each has ranks that the other has not */
  bool parked, waits;         /* waits: without claims (overlap_wait) */
  bool shadowed;              /* in this wait */
  bool keeps_step;            /* as published */
  bool asks;                  /* commits nothing any more */
  bool guessed, guess_said;   /* said: in this wait */
  struct unit guessed_request;
  struct member guessed_for;
};

static inline void overlap_enter(struct overlap *overlap) {
  while (atomic_flag_test_and_set_explicit(&overlap->busy, memory_order_acquire))
    sched_yield();
}

static inline void overlap_leave(struct overlap *overlap) {
  atomic_flag_clear_explicit(&overlap->busy, memory_order_release);
}

static inline bool overlap_is_single(const struct overlap *overlap) {
  return overlap->nteams < 2;
}

/* The rank in overlap->teams[there] that is `rank` in `here`. */
static inline uint32_t overlap_rank_there(const struct overlap_team *here, uint32_t there,
                                          uint32_t rank) {
  return here->rank_in[there * here->team->plane->nranks + rank];
}

/* Brings the count of units, and each team's, up to what any of them has come to: a rank with one
 * team counts there alone, until another one comes. */
void overlap_count(struct overlap *overlap);

/* Whether a rank of both teams has issued a unit of `other`, which we have not passed, before it
 * came to our place in `here`; or a rank that is not in `here`, if we claim there and have shadowed
 * in `other` since: we have left its loop, and catch up with it before we go on. But not while a
 * rank of both is behind there: all of both come to these units in one order. `other` is looked at
 * first: what a rank does there later comes after what it has done here by then. */
bool overlap_precedes(const struct overlap_team *other, uint32_t here_at);

/* Whether units that others have passed in a team are to be passed by us because they come before
 * what we are about to pass elsewhere: our claim, or what we shadow. */
bool overlap_comes_first(struct overlap_team *there);

/* Whether the team can be answered for now: no claim of ours is open there. */
bool overlap_can_answer(const struct overlap_team *team);

/* From now on this rank asks for every unit; those who share a team with it will. */
void overlap_ask(struct overlap *overlap);

/* ---- overlap_step.c ---- */

/* Publishes whether this rank waits for those behind, and these are at work (log_keeps_step). */
void overlap_say_keeps_step(struct overlap *overlap, bool keeps);

/* Whether a rank that is there has not passed what we have issued last in a team. */
bool overlap_is_behind(const struct overlap_team *team, uint32_t rank);

/* ---- overlap_held.c ---- */

/* A rank of the team that this one waits for is at work. Returns until when the rank that holds it
 * up was busy; now_ms if none is known to. Asks, if nothing else is being asked. */
uint64_t overlap_busy_of_holder(struct overlap_team *place, uint32_t rank, uint64_t now_ms);

/* Begins and ends a look at all ranks that this one waits for: what is asked is published, and the
 * others' questions are answered. */
void overlap_begin_asking(struct overlap *overlap);
void overlap_end_asking(struct overlap *overlap);

/* What this rank has said may no longer be so. */
void overlap_forget_held(struct overlap *overlap);

/* ---- overlap_order.c ---- */

/* A team's is_held. */
bool overlap_is_held(void *context);

/* ---- overlap_claims.c ---- */

/* A claim of a rank at the team's index; false if it claims nothing there. */
bool overlap_read_claim(struct team *team, uint32_t rank, struct overlap_claim *claim);

/* Above 0 if a stands in a loop that b does not stand in, below 0 the other way round. */
int overlap_compare_loops(const struct overlap_claim *a, const struct overlap_claim *b);

/* How many units each of two ranks has issued for real since both last issued the same one of a
 * team for real. */
void overlap_count_recent(const struct team *team, uint32_t a, uint32_t b,
                          struct overlap_claim *of_a, struct overlap_claim *of_b);

#endif
