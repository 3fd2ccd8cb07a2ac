/* The agreed sequence of a team as a rank comes to know it (core/team/team.c and the files beside it): following,
 * settling, committing, ending. Writes with log.pml and claims.pml, and follows their conventions.
 */
#include "claims.pml"

/* ---- following ---- */

/* Check: a text says what it is to say. In C: READ_CORRUPT. */
inline read_text(t, rank, position, u)
{
  assert(LOG(t, rank).text[(position) % TEXT] == u)
}

#define OTHERS_ENTRY(t) LOG(t, who).entries[SLOT(t)]

/* R24: issuer. Who commits names nobody: then it is its own. The text is where the rank has written
 * it whose unit it was, which may not have passed the index itself yet: find_text. */
#define ISSUER(entry) (entry.real && entry.expected -> who : entry.source)

/* R7: follow. What a rank that has passed my index has there is G. Its entry and its text stay
 * while I stand here, as the assertions check at any moment: reading and publishing are one
 * transition. With PLACES a text is read even where I claim the unit, for its place. Inside atomic.
 */
inline follow(t)
{
  assert(OTHERS_ENTRY(t).at == own[t].head + 1);
  found = OTHERS_ENTRY(t).unit;
  as_expected = OTHERS_ENTRY(t).expected;
  apart = OTHERS_ENTRY(t).apart;   /* R25 */
  behind = OTHERS_ENTRY(t).behind; /* R27 */
  source = ISSUER(OTHERS_ENTRY(t));
  if
  :: found == LEAVE -> assert(own[t].claimed && own[t].unit == LEAVE)
  :: found != LEAVE && as_expected -> assert(teams[t].expects[SLOT(t)] == found)
#ifndef PLACES
  :: found != LEAVE && !as_expected && own[t].claimed && own[t].unit == found
  :: found != LEAVE && !as_expected && !(own[t].claimed && own[t].unit == found) ->
#else
  :: found != LEAVE && !as_expected ->
#endif
#if MUTANT == 28
    if
    :: OTHERS_ENTRY(t).real -> source = who
    :: else
    fi;
#endif
    if
    :: LOG(t, source).head > own[t].head ->
      assert(LOG(t, source).entries[SLOT(t)].real);
      read_text(t, source, LOG(t, source).entries[SLOT(t)].text, found)
    :: else -> way = 2
    fi
  fi;
  if
  :: way != 2 ->
    decide(t, true);
    pass(t)
  :: else
  fi
}

/* R8: find_text, where the rank whose unit it is has not passed my index yet when I look: it may
 * still be claiming it. */
inline find_text(t)
{
  if
  :: LOG(t, source).head <= own[t].head ->
    low = LOG(t, source).claim_text;
    if
    :: LOG(t, source).claim == own[t].head + 1 -> ok = true
    :: LOG(t, source).claim != own[t].head + 1 && LOG(t, source).head > own[t].head
    :: else ->
      /* has_given_up: its failure, or what it has heard of, comes next. */
      assert(LOG(t, source).claim == 0 && MUTANT != 9);
      way = 3
    fi
  :: else
  fi;
  atomic {
    if
    :: way == 3 -> skip
    :: else ->
      if
      :: !ok ->
        assert(LOG(t, source).entries[SLOT(t)].real);
        low = LOG(t, source).entries[SLOT(t)].text
      :: else
      fi;
      read_text(t, source, low, found);
      low = 0;
      decide(t, true);
      pass(t)
    fi;
    ok = false;
    low = 0;
    way = 0;
    found = 0;
    apart = 0;
    behind = 0;
    source = 0
  }
}

/* ---- settling ---- */

/* R10: gather_claims, field by field; at the end of each rank's, whether its claim still stands. */
inline gather_claims(t)
{
  k = 0;
  do
  :: k == RANKS ->
    ok = true;
    break
  :: k < RANKS && !IS_MEMBER(t, k) ->
    units[k] = NO_MEMBER;
    k++
  :: k == me ->
    units[k] = (own[t].yielded && MUTANT != 20 -> YIELD : own[t].said);
    texts[k] = own[t].text;
    k++
#if MUTANT == 11
  :: k == RANKS - 1 && k != me -> k++
  :: k < RANKS - 1 && k != me && IS_MEMBER(t, k) ->
#else
  :: k < RANKS && k != me && IS_MEMBER(t, k) ->
#endif
    if
    :: LOG(t, k).claim == own[t].head + 1 ->
      units[k] = LOG(t, k).claim_unit;
      texts[k] = LOG(t, k).claim_text;
      if
      :: LOG(t, k).claim == own[t].head + 1 || MUTANT == 10 -> k++
      :: else -> break
      fi
    :: else -> break
    fi
  od;
  k = 0
}

#define CLAIM_DIGIT(r) (units[r] == NO_MEMBER -> 0 : units[r])
#define ISSUES(t, r)                                                                               \
  (IS_MEMBER(t, r) &&                                                                              \
   IS_SAME(t, teams[t].merged[SLOT(t)], units[r], THE_UNIT))

/* Check: all ranks that settle an index do so on the same claims; the text of every unit claimed is
 * there; and so are the entries before my index that the winner rule looks back at. */
inline check_settlement(t)
{
  sum = 1 + CLAIM_DIGIT(0) + CLAIMS_MAX * CLAIM_DIGIT(1) + CLAIMS_MAX * CLAIMS_MAX * CLAIM_DIGIT(2);
  assert(teams[t].claims[SLOT(t)] == 0 || teams[t].claims[SLOT(t)] == sum);
  teams[t].claims[SLOT(t)] = sum;
  sum = 0;
  for (k : 0 .. RANKS - 1) {
    if
    :: IS_UNIT(units[k]) ->
      low = UNIT_OF(units[k]);
      read_text(t, k, texts[k], low)
    :: else
    fi;
    low = own[t].head;
    do
    :: low > 0 && own[t].head - low < RUN_AHEAD - 1 ->
      assert(!IS_MEMBER(t, k) || LOG(t, k).entries[(low - 1) % RING].at == low);
      low--
    :: else -> break
    od
  }
  low = 0
}

#define LEAVES(r) (units[r] == LEAVE || units[r] == NO_MEMBER)

/* Check: who settles counts who issues the unit for real (R23: refusals, reunions and what all claim
 * hang on it), and all who settle count the same. */
inline count(t)
{
  relate(t);
  low = 8 + ISSUES(t, 0) + 2 * ISSUES(t, 1) + 4 * ISSUES(t, 2);
  assert(teams[t].reals[SLOT(t)] == 0 || teams[t].reals[SLOT(t)] == low);
  teams[t].reals[SLOT(t)] = low;
  low = 0
}

/* R27: settle_winner. Of what is one unit but for the epoch the earliest goes first: also before what
 * says none, or stands at another place. */
#define IS_AHEAD(r, claim) (IS_OUT_OF_STEP(units[r], claim) && EPOCH_OF(units[r]) > EPOCH_OF(claim))
#define IS_BEHIND(claim) (IS_AHEAD(0, claim) || IS_AHEAD(1, claim) || IS_AHEAD(2, claim))
#define GOES_BEFORE(t, r)                                                                          \
  (IS_BEHIND(units[r]) && !IS_BEHIND(found) &&                                                     \
   (UNIT_OF(units[r]) == UNIT_OF(found) || IS_SAME(t, teams[t].merged[SLOT(t)], units[r], found)))
inline choose_epoch(t)
{
#if !defined(EPOCHS) || MUTANT == 39
  skip
#else
  relate(t);
  found = (GOES_BEFORE(t, 0) -> units[0] : (GOES_BEFORE(t, 1) -> units[1] :
           (GOES_BEFORE(t, 2) -> units[2] : found)))
#endif
}

/* R27: note_epochs. Check: who issues a unit by the name of the winner, and says in which epoch, says
 * the earliest of those that are said. */
#define DIFFER_FROM(claim)                                                                         \
  (IS_OUT_OF_STEP(units[0], claim) || IS_OUT_OF_STEP(units[1], claim) ||                           \
   IS_OUT_OF_STEP(units[2], claim))
#define IS_EARLIEST(t, r)                                                                          \
  (UNIT_OF(units[r]) != UNIT_OF(found) || !DIFFER_FROM(units[r]) || IS_BEHIND(units[r]) ||         \
   !IS_SAME(t, teams[t].merged[SLOT(t)], units[r], found))
inline note_epoch(t)
{
#ifdef EPOCHS
  relate(t);
  assert(IS_EARLIEST(t, 0) && IS_EARLIEST(t, 1) && IS_EARLIEST(t, 2));
  behind = (DIFFER_FROM(found) -> EPOCH_OF(found) : 0)
#else
  skip
#endif
}

/* R11: settle, settle_winner: one of the units claimed, and the same for all. R12: LEAVE loses to
 * every unit, and settles if all claim it. What is read stays while I stand here, as with follow.
 * Inside atomic. */
inline settle(t)
{
  check_settlement(t);
  if
#if MUTANT == 12
  :: units[0] == LEAVE || units[1] == LEAVE || units[2] == LEAVE ->
#else
  :: LEAVES(0) && LEAVES(1) && LEAVES(2) ->
#endif
    found = LEAVE;
    way = 1
#if MUTANT == 12
  :: units[0] != LEAVE && units[1] != LEAVE && units[2] != LEAVE ->
#else
  :: IS_UNIT(units[0]) || IS_UNIT(units[1]) || IS_UNIT(units[2]) ->
#endif
    apart = SAYS_APART(units[0]) | SAYS_APART(units[1]) | SAYS_APART(units[2]); /* R25 */
    if
    :: teams[t].winner[SLOT(t)] == UNKNOWN ->
      if
      :: IS_UNIT(units[0]) -> found = units[0]
      :: IS_UNIT(units[1]) && units[1] != units[0] -> found = units[1]
      :: IS_UNIT(units[2]) && units[2] != units[0] && units[2] != units[1] -> found = units[2]
      fi;
      choose_epoch(t)
    :: else -> found = teams[t].winner[SLOT(t)]
    fi;
#if MUTANT != 13
    teams[t].winner[SLOT(t)] = found;
#endif
    source = (units[0] == found -> 0 : (units[1] == found -> 1 : 2));
    note_epoch(t);
    found = UNIT_OF(found);
    way = 1
  :: else /* LEAVE and YIELD: nothing to issue here */
  fi;
  if
  :: way == 1 ->
    way = 0;
    count(t);
    decide(t, false);
    pass(t)
  :: else
  fi
}

inline forget_claims()
{
  d_step {
    for (k : 0 .. RANKS - 1) {
      units[k] = 0;
      texts[k] = 0
    }
    k = 0;
    ok = false
  }
}

/* ---- polling ---- */

#define HAS_ENDED(t, r)                                                                            \
  (IS_MEMBER(t, r) && LOG(t, r).state == DONE && LOG(t, r).claim != own[t].head + 1)
#define HAS_BROKEN(t, r) (IS_MEMBER(t, r) && LOG(t, r).state == BROKEN)

/* team_poll, up to one verdict. */
inline poll(t)
{
  verdict = PARKED;
  /* R6: team_look_for_failures. A state changes once: reading one after the other finds what
   * reading all at the last of them does. */
#if (defined(KILL) || defined(ABORT)) && MUTANT != 6
  if
  :: HAS_BROKEN(t, 0) || HAS_BROKEN(t, 1) || HAS_BROKEN(t, 2) -> verdict = FAILED
  :: else
  fi;
#endif
  if
  :: verdict == PARKED && own[t].for_room && HAS_ROOM(t) ->
    atomic { commit_claimed(t) }
    if
    :: verdict == REAL -> ring_if_awaited(t)
    :: else
    fi
  :: else
  fi;
  if
  :: verdict == PARKED && !own[t].for_room ->
    if
    :: own[t].claimed -> show_claim(t)
    :: else
    fi;
    /* somebody_passed: which of several is found depends on when each head is read. */
    atomic {
      if
      :: !HAS_ROOM(t) || (own[t].claimed && !own[t].texted) -> way = 1
      :: HAS_ROOM(t) && !(own[t].claimed && !own[t].texted) ->
        if
        :: HAS_PASSED(t, 0) -> who = 0
        :: HAS_PASSED(t, 1) -> who = 1
        :: HAS_PASSED(t, 2) -> who = 2
        :: else -> who = NOBODY
        fi;
        if
        :: who != NOBODY -> follow(t)
        :: else
        fi
      fi
    }
    if
    :: way == 2 ->
      who = 0;
      find_text(t)
    :: way == 0 && who == NOBODY && (own[t].claimed || own[t].yielded) ->
      who = 0;
#ifdef COARSE
      d_step { gather_claims(t) }
#else
      gather_claims(t);
#endif
      if
      :: ok -> atomic { settle(t) }
      :: else ->
        /* R17: somebody_ended. Who has ended changes nothing more. */
        if
        :: own[t].claimed && (HAS_ENDED(t, 0) || HAS_ENDED(t, 1) || HAS_ENDED(t, 2)) &&
             !(HAS_PASSED(t, 0) || HAS_PASSED(t, 1) || HAS_PASSED(t, 2)) -> verdict = LEFT_ALONE
        :: else
        fi
      fi;
      forget_claims()
    :: else ->
      who = 0;
      way = 0
    fi;
    if
    :: verdict == REAL || verdict == SHADOW || verdict == LEFT -> ring_for_entry(t)
    :: else
    fi;
    if
    :: verdict == SHADOW && own[t].claimed -> show_claim(t)
    :: else
    fi
  :: else
  fi
}

/* R2: team_commit. R22: with several teams a rank commits only what its program, over all of them, is
 * expected to do next: else two ranks could each commit in another team, and their devices wait for
 * each other. What all expect here is published without asking, by a rank that has no claim
 * open. R25: so it may be by a rank whose own unit has been taken for it: here any, and only where
 * it likes. Leaves in `ok` whether it was; and in `crowded` whether only room was missing (R3). */
#define MAY_COMMIT(t) (!own[t].yielded)
inline commit(t, u)
{
  atomic {
    expect(t);
    if
    :: (EXPECTED(t) == u || MUTANT == 2) && MAY_COMMIT(t) -> found = u
#ifdef PLACES
    :: EXPECTED(t) != u && IS_UNIT(EXPECTED(t)) && MAY_COMMIT(t) ->
#if MUTANT == 32
      found = u
#else
      found = EXPECTED(t)
#endif
    :: EXPECTED(t) != u
#ifdef ASK
    :: true /* the end of a loop is asked for, though it is expected */
#endif
#else
    :: EXPECTED(t) != u && MUTANT != 2
#endif
    :: !MAY_COMMIT(t)
    fi;
    if
    :: found != 0 && !HAS_ROOM(t) ->
      found = 0;
      crowded = MUTANT != 40
    :: else
    fi;
#if MUTANT == 14
    if
    :: found != 0 ->
      ok = teams[t].waiting;
      teams[t].waiting = false
    :: else
    fi
  }
  atomic {
#endif
    if
    :: found != 0 ->
      publish(t, found, true, true, NO_TEXT, 0);
      found = 0;
      way = 1
    :: else
    fi
  }
  if
  :: way == 1 ->
    ring_if_awaited(t);
    way = 0;
    ok = true
  :: else -> ok = false
  fi
}

/* R15: team_end. The state first, then the bell, whoever waits. */
inline end_with(t, how)
{
  d_step {
    LOG(t, me).state = how
  }
#if defined(BELL) && MUTANT != 15
  ring()
#endif
}
