/* How a rank claims, gives a claim up and passes an index, as core/team/team_claim.c and team_text.c do; and which claims are one
 * unit. Follows the conventions of log.pml.
 */
#include "log.pml"

/* ---- claiming ---- */

/* R8: a text is not written over while a rank stands where it may need it. */
inline write_text(t)
{
#if TEXT < STEPS
  ok = TEXT_FITS(t);
  if
  :: ok ->
    LOG(t, me).text[own[t].text_end % TEXT] = UNKNOWN; /* half written */
    d_step {
      LOG(t, me).text[own[t].text_end % TEXT] = own[t].unit;
      own[t].text = own[t].text_end;
      own[t].text_end++
    }
  :: else
  fi
#else
  d_step {
    LOG(t, me).text[own[t].text_end] = own[t].unit;
    own[t].text = own[t].text_end;
    own[t].text_end++;
    ok = true
  }
#endif
}

/* R4: no claim while it is rewritten, then its fields. */
inline write_claim(t)
{
#if MUTANT == 35
  if
  :: !own[t].written -> LOG(t, me).claim = 0
  :: else
  fi;
#elif MUTANT != 4
  LOG(t, me).claim = 0;
#endif
  LOG(t, me).claim_unit = own[t].said;
  LOG(t, me).claim_text = own[t].text
}

/* What all expect here, if nobody has asked yet. Of what the course of a program can say (R22) this
 * is one case: loops are in team 0. */
#define EXPECTED(t) teams[t].expects[SLOT(t)]
#if MUTANT == 26
#define IS_ON_COURSE(t) true
#else
#define IS_ON_COURSE(t) (t == 0)
#endif
inline expect(t)
{
  if
  :: EXPECTED(t) == UNKNOWN && IS_ON_COURSE(t) ->
    if
#ifndef EVEN
    :: EXPECTED(t) = NOTHING
#endif
    :: EXPECTED(t) = 1
    :: UNITS > 1 -> EXPECTED(t) = 2
    :: UNITS > 2 -> EXPECTED(t) = 4
    fi
  :: else
  fi
}

/* What a rank says with its claim, and decides anew for each index. What the code tells it from is
 * not known here: any choice. R25: team_expects_another, what is expected here is another unit. R27:
 * team_epoch, in which epoch the rank stands. */
inline say_more(t)
{
  low = own[t].unit;
#if defined(APART) || defined(EPOCHS)
  atomic {
#ifdef APART
    expect(t);
    if
    :: true
    :: IS_UNIT(own[t].unit) && IS_UNIT(EXPECTED(t)) && EXPECTED(t) != own[t].unit ->
      low = own[t].unit + APART_BIT
    fi;
#endif
#ifdef EPOCHS
    if
    :: true
    :: IS_UNIT(own[t].unit) -> low = low + EPOCH_BITS
    :: IS_UNIT(own[t].unit) -> low = low + 2 * EPOCH_BITS
    fi;
#endif
    skip
  }
#endif
}

/* show_claim. R4: at last the index. R5: which moves on with the head, rewritten if it comes to say
 * something else there. R20: behind a YIELD it waits
 * until that has settled. */
inline show_claim(t)
{
  if
  :: !own[t].texted ->
    if
    :: IS_UNIT(own[t].unit) -> write_text(t)
    :: else -> ok = true
    fi;
    own[t].texted = ok;
    ok = false
  :: else
  fi;
  if
  :: own[t].texted && own[t].shown != own[t].head + 1 && (!own[t].yielded || MUTANT == 20) &&
     (MUTANT != 5 || own[t].shown == 0) ->
    say_more(t);
    if
    :: !own[t].written || own[t].said != low ->
      own[t].said = low;
      low = 0;
#ifdef COARSE
      d_step { write_claim(t) }
#else
      write_claim(t);
#endif
      own[t].written = true
    :: else -> low = 0
    fi;
    d_step {
      own[t].shown = own[t].head + 1;
      LOG(t, me).claim = own[t].shown
    }
  :: else
  fi
}

/* team_claim, team_claim_leave. R25: what is claimed may have the name of another unit, which this
 * rank's has been taken for; it is written as that, too (team_class). R3: what has been expected
 * while only room was missing (commit has left `crowded`) nobody is to see. */
inline make_claim(t, u)
{
  d_step {
    own[t].claimed = true;
    LOG(t, me).open = true;
    own[t].unit = u;
    own[t].for_room = crowded;
    crowded = false
  }
  if
  :: own[t].for_room
  :: else -> show_claim(t)
  fi
#if defined(NAPS) && MUTANT != 36
  ;
  if
  :: teams[t].napping -> ring_for_all(t)
  :: else
  fi
#endif
}

/* R19: team_yield, to a unit that another rank claims here. */
inline make_yield(t)
{
  d_step {
    own[t].yielded = true;
    LOG(t, me).open = true;
    LOG(t, me).claim = 0;
    LOG(t, me).claim_unit = YIELD
  }
  LOG(t, me).claim = own[t].head + 1
}

inline close_claim(t)
{
  own[t].claimed = false;
  own[t].for_room = false;
  own[t].written = false;
  own[t].texted = false;
#ifdef NAPS
  own[t].waited = false;
#endif
  own[t].shown = 0;
  own[t].unit = 0;
  own[t].said = 0;
  own[t].text = 0
}

/* ---- one unit or two ---- */

/* R23: settle_is_same. Which claims are one unit is told from their places and from what all ranks
 * know before the index: any relation, but one for all ranks. Bit a | b: a and b are one unit; bit
 * 0: it has been chosen. Without PLACES no two units are. R25: nor are the one that is expected and
 * one of which any rank that claims it has said so: `apart` has those. R27: settle_is_out_of_step, nor is one unit in two epochs. */
#define SAYS_APART(claim) (IS_UNIT(claim) && ((claim) & APART_BIT) -> UNIT_OF(claim) : 0)
#define IS_APART(claim) (((claim) & APART_BIT) || (apart & UNIT_OF(claim)))
#define IS_SAID(t, a, b)                                                                           \
  ((IS_APART(a) && UNIT_OF(b) == EXPECTED(t)) || (IS_APART(b) && UNIT_OF(a) == EXPECTED(t)))
#define IS_OUT_OF_STEP(a, b)                                                                       \
  (UNIT_OF(a) == UNIT_OF(b) && EPOCH_OF(a) != 0 && EPOCH_OF(b) != 0 && EPOCH_OF(a) != EPOCH_OF(b))
#define IS_SAME(t, relation, a, b)                                                                 \
  ((UNIT_OF(a) == UNIT_OF(b) && !IS_OUT_OF_STEP(a, b)) ||                                          \
   (UNIT_OF(a) != UNIT_OF(b) && IS_UNIT(a) && IS_UNIT(b) && !IS_SAID(t, a, b) &&                   \
    (((relation) >> (UNIT_OF(a) | UNIT_OF(b))) & 1)))

#ifdef PLACES
#define CAN_MERGE(a, b) (IS_UNIT(a) && IS_UNIT(b))
#else
#define CAN_MERGE(a, b) false
#endif

inline choose_relation(relation)
{
#ifdef PLACES
  relation = 1;
  if
  :: true
  :: relation = relation | (1 << 3)
  fi;
#if UNITS > 2
  if
  :: true
  :: relation = relation | (1 << 5)
  fi;
  if
  :: true
  :: relation = relation | (1 << 6)
  fi
#endif
#else
  relation = 1
#endif
}

/* Inside atomic. */
inline relate(t)
{
  if
  :: teams[t].merged[SLOT(t)] == 0 ->
    choose_relation(low);
    teams[t].merged[SLOT(t)] = low;
    low = 0
  :: else
  fi
}

/* What G has here, as it is claimed. */
#define THE_UNIT (found + behind * EPOCH_BITS)

/* Leaves in `mine` whether the unit of G is mine. R25: of an expected one, which all may have
 * issued without asking, each rank that claims a unit decides for itself. M29: who follows takes
 * only what it claims for its own. */
inline decide(t, follows)
{
  if
  :: as_expected && own[t].claimed && (own[t].unit == found || CAN_MERGE(own[t].unit, found)) ->
    if
    :: mine = true
    :: mine = false
    fi
  :: !as_expected && own[t].claimed ->
#if MUTANT == 27
    choose_relation(low);
    mine = IS_SAME(t, low, own[t].said, THE_UNIT);
    low = 0
#else
    relate(t);
    mine = (follows && MUTANT == 29 -> own[t].unit == found :
            IS_SAME(t, teams[t].merged[SLOT(t)], own[t].said, THE_UNIT));
#if MUTANT == 38
    mine = mine && (behind == 0 || EPOCH_OF(own[t].said) == behind)
#endif
#endif
  :: else -> mine = false
  fi
}

/* R9: pass. A unit that is mine I issue for real, which closes my claim. Any other I shadow, and
 * keep my claim. R23: it has the name that the winner has. R24: and the entry says whose it was, as
 * the one that I follow does. R20: a YIELD is for one index. Inside d_step or atomic. */
inline pass(t)
{
  /* Check: for real issue what is settled those that the settlers have counted; and who has yielded
   * there, as it likes. */
  assert(as_expected || own[t].yielded || mine == ((teams[t].reals[SLOT(t)] >> me) & 1));
#ifdef NAPS
  foreseen = as_expected;
#endif
  own[t].yielded = false;
  if
  :: mine ->
    verdict = (found == LEAVE -> LEFT : REAL);
    LOG(t, me).open = false;
#if MUTANT == 31
    found = own[t].unit;
#endif
    publish(t, found, true, as_expected, own[t].text, source);
    close_claim(t)
  :: else ->
    verdict = SHADOW;
    LOG(t, me).open = own[t].claimed;
#ifdef NAPS
    own[t].waited = own[t].claimed;
#endif
    publish(t, found, false, as_expected, NO_TEXT, source)
  fi;
  mine = false;
  apart = 0;
  behind = 0;
  found = 0;
  source = 0;
  as_expected = false
}

/* team_commit_claimed. R3: there is room again for what has been claimed while only that was
 * missing. It is committed, if that is still allowed (R20: the rank has yielded nowhere); else it
 * becomes a claim that all see. R25: of one that has been taken for the expected unit, either.
 * Inside atomic. */
inline commit_claimed(t)
{
  own[t].for_room = false;
  if
  :: !IS_YIELDING && EXPECTED(t) == own[t].unit && MUTANT != 41 -> found = own[t].unit
#ifdef PLACES
  :: !IS_YIELDING && EXPECTED(t) != own[t].unit -> found = EXPECTED(t)
  :: EXPECTED(t) != own[t].unit
#endif
  :: IS_YIELDING || MUTANT == 41
  fi;
  if
  :: found != 0 ->
    LOG(t, me).open = false;
    publish(t, found, true, true, NO_TEXT, 0);
    close_claim(t);
    found = 0;
    verdict = REAL
  :: else
  fi
}
