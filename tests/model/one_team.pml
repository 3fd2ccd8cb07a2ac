/* A rank's program in a job of one team (ranks.pml): what it does, and its stay in a call. */

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
  :: dead != NOBODY && IS_SEEN(dead) && LOG(0, dead).state == PRESENT && MUTANT != 16 -> look_for_the_dead(0)
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
    :: steps < STEPS && HAS_UNITS && IS_CALLED ->
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
    :: MAY_LEAVE ->
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
