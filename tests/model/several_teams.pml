/* A rank's program in a job of several teams (ranks.pml): what it does, and its stay in a call. */

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
#else
#define IS_WAITING (own[0].claimed || own[1].claimed || own[2].claimed)
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
