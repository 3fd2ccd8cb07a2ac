/* Ranks that run a program against the agreed sequence (team.pml), as interpose/park/wait.c and
 * leaving.c do: they commit or claim, stay in the call until the claim has settled, leave, fail.
 *
 * A program is any sequence of at most STEPS units, each of UNITS, in any team of the rank; it is
 * chosen as it goes, by each rank for itself. Then the rank leaves: all its teams at once (exit),
 * or one after the other in any order (ncclCommDestroy).
 *
 *   one of       ONE_TEAM, WORLD_AND_PAIR, TWO_PAIRS, TRIANGLE: three ranks and their teams
 *   STEPS        units of a program, at most
 *   UNITS        units that a program can name, 1 to 3
 *   RUN_AHEAD    PLANE_RUN_AHEAD
 *   TEXT         units that a text ring holds
 *   NAPS         with BELL: ranks that wake themselves for what is committed, or do not
 *   ONE_ACTIVE   only rank 0 has units, the others leave at once
 *   TWO_ACTIVE   rank 2 has none
 *   SYNCHRONISE  after each unit ranks wait until it is done: until all have issued it
 *   KILL         one rank or none is killed, between any two accesses
 *   ABORT        one rank or none fails between two units, and says so
 *   YIELD_EARLY  ranks yield at any time, not only when nobody can move
 *   BRANCH       rank 0 names only the second unit, all others only the first
 *   APART        ranks say with CLAIM_APART, or not, that the unit expected is not what they claim
 *   EPOCHS       ranks say in which of two epochs they claim a unit, or do not
 *   ASK          what is expected may be claimed all the same, as the ends of loops are
 *   PLACES       all units have one signature and differ in their places; else in their signatures
 */
#define RANKS 3

/* The ranks of each team, three bits a team. */
#if defined(ONE_TEAM)
#define TEAMS 1
#define MEMBERS 7
#elif defined(WORLD_AND_PAIR) /* {0,1,2} {0,1} */
#define TEAMS 2
#define MEMBERS (7 + (3 << 3))
#elif defined(TWO_PAIRS) /* {0,1} {1,2} */
#define TEAMS 2
#define MEMBERS (3 + (6 << 3))
#elif defined(TRIANGLE) /* {0,1} {1,2} {2,0} */
#define TEAMS 3
#define MEMBERS (3 + (6 << 3) + (5 << 6))
#endif

#include "team.pml"

/* The units are alike: it is enough if rank 0 begins with the first. */
#ifdef BRANCH
#define MAY_NAME_1 (me != 0)
#define MAY_NAME_2 (me == 0)
#else
#define MAY_NAME_1 true
#define MAY_NAME_2 !(me == 0 && steps == 1)
#endif

#ifdef ONE_ACTIVE
#define HAS_UNITS (me == 0)
#elif defined(TWO_ACTIVE)
#define HAS_UNITS (me != 2)
#else
#define HAS_UNITS true
#endif

byte dead = NOBODY;   /* killed: does nothing any more */
byte failed = NOBODY; /* killed, or failed by itself */

/* A rank stops between any two accesses once it is killed. Not said where nobody is killed, since
 * spin would take every statement to depend on it. */
#ifdef KILL
#define MORTAL unless { dead == me }
#else
#define MORTAL
#endif

/* R16: team_look_for_the_dead. For a rank that was killed nobody rings: waits that last look. */
inline look_for_the_dead(t)
{
  d_step {
    if
    :: dead != NOBODY && IS_MEMBER(t, dead) && LOG(t, dead).state == PRESENT ->
      LOG(t, dead).state = BROKEN
    :: else
    fi
  }
}

/* Somebody claims a unit at my index. */
#define CLAIMS_UNIT(t, r)                                                                          \
  (IS_MEMBER(t, r) && LOG(t, r).claim == own[t].head + 1 && IS_UNIT(LOG(t, r).claim_unit))
#if MUTANT == 19
#define IS_CLAIMED(t) true
#else
#define IS_CLAIMED(t) (CLAIMS_UNIT(t, 0) || CLAIMS_UNIT(t, 1) || CLAIMS_UNIT(t, 2))
#endif

/* ---- staying in a call, in a job of one team ---- */

#ifdef ONE_TEAM

/* R26: who has followed since it claimed may know when the next unit comes, and wake itself. In time,
 * too late, or never until it is rung: any of it. */
#define MAY_NAP (own[0].waited && own[0].texted)

/* R13: team_wait. Read the bell, say so, look again, sleep unless it has been rung meanwhile. */
inline wait_for_others()
{
#ifdef BELL
  if
  :: !announced ->
    rung[me] = false;
#ifdef NAPS
    if
    :: teams[0].waiting = true;
      naps = false
    :: MAY_NAP ->
      teams[0].napping = true;
      naps = true
    fi;
#else
    teams[0].waiting = true;
#endif
#if MUTANT == 17
    d_step { asleep[me] = !rung[me] }
    !asleep[me]
#else
    announced = true
#endif
  :: else ->
    announced = false;
    if
#ifdef NAPS
    :: naps -> naps = false
#endif
    :: true ->
#ifdef NAPS
      naps = false;
#endif
      d_step { asleep[me] = !rung[me] }
      if
      :: !asleep[me]
      :: dead != NOBODY ->
        asleep[me] = false;
        look_for_the_dead(0)
      fi
    fi
  fi
#else
  if
  :: CAN_MOVE(0) || HAS_BROKEN(0, 0) || HAS_BROKEN(0, 1) || HAS_BROKEN(0, 2)
  :: dead != NOBODY && LOG(0, dead).state == PRESENT && MUTANT != 16 -> look_for_the_dead(0)
  fi
#endif
}

inline stay()
{
  do
  :: true ->
    poll(0);
    if
    :: verdict == SHADOW && own[0].claimed -> announced = false
    :: verdict == PARKED -> wait_for_others()
    :: else -> break
    fi
  od;
  announced = false
}

proctype rank(byte me)
{
  own_t own[TEAMS];
  byte steps;
  byte unit;
  bool announced;
  SCRATCH;

  {
    do
    :: steps < STEPS && HAS_UNITS ->
      atomic {
        steps++;
        if
        :: MAY_NAME_1 -> unit = 1
        :: UNITS > 1 && MAY_NAME_2 -> unit = 2
        :: UNITS > 2 && MAY_NAME_2 -> unit = 4
        fi
      }
      commit(0, unit);
      if
      :: ok ->
        ok = false;
        unit = 0
      :: else ->
        make_claim(0, unit);
        unit = 0;
        stay();
        if
        :: verdict != REAL -> break
        :: else
        fi
      fi
#ifdef YIELD_EARLY
    :: steps < STEPS && IS_CLAIMED(0) && !own[0].yielded -> make_yield(0)
    :: own[0].yielded -> /* as a rank that is parked in another team */
      stay();
      if
      :: verdict != SHADOW -> break
      :: else
      fi
#endif
#ifdef ABORT
    :: atomic { failed == NOBODY -> failed = me };
      verdict = FAILED;
      break
#endif
    :: true ->
      make_claim(0, LEAVE);
      stay();
      break
    od;
    steps = STEPS;
    if
    :: verdict == LEFT -> end_with(0, DONE)
    :: else ->
      assert(verdict == FAILED && failed != NOBODY);
      d_step { /* team_give_up */
        close_claim(0);
        LOG(0, me).claim = 0
      }
      end_with(0, BROKEN)
    fi;
    verdict = 0
  }
  MORTAL
}

#endif

/* ---- staying in a call, in a job of several teams ---- */

#ifndef ONE_TEAM

/* R18: has_moved_on, is_answering. A rank of both teams has passed my index in team t and has not
 * come to my claim in team w: t is answered. Who leaves for good answers everywhere. */
#define AHEAD(t, w, r)                                                                             \
  (HAS_PASSED(t, r) && IS_MEMBER(w, r) && LOG(w, r).claim != own[w].head + 1 &&                    \
   LOG(w, r).head <= own[w].head)
#define MOVED_ON(t, w)                                                                             \
  (IS_MEMBER(w, me) && own[w].claimed && (AHEAD(t, w, 0) || AHEAD(t, w, 1) || AHEAD(t, w, 2)))
#define IS_MINE(t) (IS_MEMBER(t, me) && !gone[t])
#if MUTANT == 18
#define ANSWERS(t) (IS_MINE(t) && (own[t].claimed || own[t].yielded || answers[t] || for_good))
#elif TEAMS == 2
#define ANSWERS(t)                                                                                 \
  (IS_MINE(t) && (own[t].claimed || own[t].yielded || answers[t] || for_good ||                    \
                  MOVED_ON(t, 0) || MOVED_ON(t, 1)))
#else
#define ANSWERS(t)                                                                                 \
  (IS_MINE(t) && (own[t].claimed || own[t].yielded || answers[t] || for_good ||                    \
                  MOVED_ON(t, 0) || MOVED_ON(t, 1) || MOVED_ON(t, 2)))
#endif

#define IS_BROKEN(t) (own[t].claimed && (HAS_BROKEN(t, 0) || HAS_BROKEN(t, 1) || HAS_BROKEN(t, 2)))
#define CAN_LOOK(t)                                                                                \
  (ANSWERS(t) && (CAN_MOVE(t) || IS_BROKEN(t) ||                                                   \
                  (own[t].claimed && (HAS_ENDED(t, 0) || HAS_ENDED(t, 1) || HAS_ENDED(t, 2)))))

/* R18: where nobody can move, whoever has passed my index is answered. */
#define MAY_ANSWER(t)                                                                              \
  (IS_MINE(t) && !ANSWERS(t) && MUTANT != 18 && MUTANT != 25 &&                                    \
   (HAS_PASSED(t, 0) || HAS_PASSED(t, 1) || HAS_PASSED(t, 2)))

/* R19. Exactly when nobody can move, or with YIELD_EARLY at any time. */
#define MAY_YIELD(t) (IS_MINE(t) && !own[t].claimed && !own[t].yielded && IS_CLAIMED(t))
#ifdef YIELD_EARLY
#define IS_QUIET true
#else
#define IS_QUIET timeout
#endif

/* R21: team_all_leaving, leave_in_another_order: seen, looked again without anything moving, and
 * seen once more. In a program that leaves at its end none of this is ever untrue again. */
#if MUTANT == 21
#define IS_LEAVING(t, r)                                                                           \
  (!IS_MEMBER(t, r) || LOG(t, r).leaving || LOG(t, r).claim == own[t].head + 1)
#else
#define IS_LEAVING(t, r)                                                                           \
  (!IS_MEMBER(t, r) || LOG(t, r).leaving ||                                                        \
   (LOG(t, r).claim == own[t].head + 1 && LOG(t, r).claim_unit == LEAVE))
#endif
#define ALL_LEAVING(t)                                                                             \
  (IS_MINE(t) && own[t].claimed && own[t].unit == LEAVE && IS_LEAVING(t, 0) &&                     \
   IS_LEAVING(t, 1) && IS_LEAVING(t, 2))

#if TEAMS == 2
#define IS_WAITING (own[0].claimed || own[1].claimed)
#define IS_YIELDING (own[0].yielded || own[1].yielded)
#else
#define IS_WAITING (own[0].claimed || own[1].claimed || own[2].claimed)
#define IS_YIELDING (own[0].yielded || own[1].yielded || own[2].yielded)
#endif

inline go_away(t)
{
  gone[t] = true;
  end_with(t, DONE)
}

/* The claim stays behind for those that come here later. */
inline leave_in_another_order(t)
{
  if
  :: stalled[t] || MUTANT == 24 ->
    stalled[t] = false;
    close_claim(t);
    go_away(t)
  :: else -> stalled[t] = true
  fi
}

inline say_leaving(value)
{
  d_step {
    for (k : 0 .. TEAMS - 1) {
      LOG(k, me).leaving = value && IS_MEMBER(k, me)
    }
    k = 0
  }
}

/* How accesses within one look, or one claim, are interleaved is checked with one team. Here a look
 * at all teams of a rank is one transition, and so is a call up to where the rank waits. */

/* Until no claim is open, or one can no longer settle: failure. */
inline stay()
{
  do
  :: IS_WAITING && !failure ->
    atomic {
      t = 0;
      do
      :: t < TEAMS ->
        if
        :: ANSWERS(t) ->
          poll(t);
          if
          :: verdict == LEFT || (verdict == LEFT_ALONE && own[t].unit == LEAVE) ->
            close_claim(t);
            go_away(t)
          :: own[t].claimed &&
             (verdict == FAILED || (verdict == LEFT_ALONE && own[t].unit != LEAVE)) ->
            assert(failed != NOBODY);
            failure = true
          :: else
          fi;
          moved = moved || verdict != PARKED;
          verdict = PARKED
        :: else
        fi;
        t++
      :: else -> break
      od;
      t = 0
    }
    if
    :: !IS_WAITING || failure || moved -> moved = false
    :: IS_WAITING && !failure && !moved ->
      if
      :: CAN_LOOK(0) || CAN_LOOK(1)
#if TEAMS > 2
      :: CAN_LOOK(2)
#endif
      :: IS_QUIET && MAY_ANSWER(0) -> answers[0] = true
      :: IS_QUIET && MAY_ANSWER(1) -> answers[1] = true
#if TEAMS > 2
      :: IS_QUIET && MAY_ANSWER(2) -> answers[2] = true
#endif
#if MUTANT != 22
      :: IS_QUIET && MAY_YIELD(0) -> make_yield(0)
      :: IS_QUIET && MAY_YIELD(1) -> make_yield(1)
#if TEAMS > 2
      :: IS_QUIET && MAY_YIELD(2) -> make_yield(2)
#endif
#endif
#if MUTANT != 23
      :: ALL_LEAVING(0) -> leave_in_another_order(0)
      :: ALL_LEAVING(1) -> leave_in_another_order(1)
#if TEAMS > 2
      :: ALL_LEAVING(2) -> leave_in_another_order(2)
#endif
#endif
      fi
    fi
  :: else -> break
  od;
  skip;
  d_step {
    for (k : 0 .. TEAMS - 1) {
      answers[k] = false;
      stalled[k] = false
    }
    k = 0
  }
}

proctype rank(byte me)
{
  own_t own[TEAMS];
  bool answers[TEAMS];
  bool gone[TEAMS];
  bool stalled[TEAMS];
  bool moved;
  byte steps;
  byte unit;
  byte t;
  byte w;
  bool for_good;
  bool failure;
  SCRATCH;

  {
    do
    :: steps < STEPS && !failure ->
      atomic {
        steps++;
        if
        :: IS_MEMBER(0, me) -> t = 0
        :: IS_MEMBER(1, me) -> t = 1
#if TEAMS > 2
        :: IS_MEMBER(2, me) -> t = 2
#endif
        fi;
        if
        :: MAY_NAME_1 -> unit = 1
        :: UNITS > 1 && MAY_NAME_2 -> unit = 2
        :: UNITS > 2 && MAY_NAME_2 -> unit = 4
        fi;
        if
        :: !IS_YIELDING -> commit(t, unit)
        :: else
        fi;
        if
        :: !ok -> make_claim(t, unit)
        :: else
        fi;
        ok = false;
        w = t;
        t = 0
      }
      stay();
      d_step {
        t = w;
        w = 0
      }
#ifdef SYNCHRONISE
      SLOWEST(t) == own[t].head || failed != NOBODY;
#endif
      unit = 0;
      t = 0
#ifdef ABORT
    :: atomic { failed == NOBODY && !failure -> failed = me };
      failure = true;
      break
#endif
    :: true -> break
    od;
    steps = STEPS;
    /* Out of a destructor of each communicator, in any order, or out of exit. */
    do
    :: failure -> break
    :: !failure ->
      atomic {
        if
        :: IS_MINE(0) -> t = 0
        :: IS_MINE(1) -> t = 1
#if TEAMS > 2
        :: IS_MINE(2) -> t = 2
#endif
        :: !for_good -> for_good = true
        :: !IS_MINE(0) && !IS_MINE(1) && (TEAMS < 3 || !IS_MINE(TEAMS - 1)) -> break
        fi;
        say_leaving(true);
        if
        :: for_good ->
          t = 0;
          do
          :: t < TEAMS ->
            if
            :: IS_MINE(t) -> make_claim(t, LEAVE)
            :: else
            fi;
            t++
          :: else -> break
          od
        :: else -> make_claim(t, LEAVE)
        fi;
        t = 0
      }
      stay();
      say_leaving(false)
    od;
    if
    :: failure ->
      t = 0;
      do
      :: t < TEAMS ->
        if
        :: IS_MINE(t) ->
          d_step {
            close_claim(t);
            LOG(t, me).claim = 0
          }
          end_with(t, BROKEN)
        :: else
        fi;
        t++
      :: else -> break
      od
    :: else
    fi
  }
  MORTAL
}

#endif

init
{
  byte i;
  d_step {
    for (i : 0 .. TEAMS * RING - 1) {
      teams[i / RING].expects[i % RING] = UNKNOWN;
      teams[i / RING].winner[i % RING] = UNKNOWN;
      teams[i / RING].agreed[i % RING] = UNKNOWN
    }
    i = 0
  }
  atomic {
    run rank(0);
    run rank(1);
    run rank(2)
  }
#ifdef KILL
  if
  :: atomic { LOG(0, 0).state == PRESENT -> dead = 0; failed = 0 }
  :: atomic { LOG(0, 1).state == PRESENT -> dead = 1; failed = 1 }
  :: atomic { LOG(0, 2).state == PRESENT -> dead = 2; failed = 2 }
  :: _nr_pr == 1
  fi;
#endif
  /* All ranks have come to their end. Every unit that one has issued, all have. */
  _nr_pr == 1;
  for (i : 0 .. TEAMS * RING - 1) {
    assert(failed != NOBODY || teams[i / RING].agreed[i % RING] == UNKNOWN ||
           teams[i / RING].agreed[i % RING] == LEAVE)
  }
}
