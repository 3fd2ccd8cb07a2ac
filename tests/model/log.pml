/* The logs of a team and how a rank publishes in its own, as core/team/team_commit.c and team_tell.c do; claims are in
 * claims.pml. R1 to R28 are the rules of docs/protocol.md.
 *
 * One transition is one access to memory that another rank may write or read, in the order in which
 * the C code makes them; what is private to a rank goes with the access before. Where several
 * accesses are one transition, a comment says why no rank can tell. Memory is sequentially
 * consistent. With COARSE, a claim is written, and claims are gathered, in one transition: for
 * configurations that check something else.
 *
 * What is marked "check" is not in C: it records what has been agreed, and changes nothing.
 * MUTANT is the number of a rule broken on purpose (mutants).
 *
 * Inlines use the variables of the process that they stand in: me, own, and those of SCRATCH.
 */

#ifndef MUTANT
#define MUTANT 0
#endif

#define LEAVE 0 /* claim_hash 0 */
#define YIELD 3 /* the units are 1, 2 and 4 */
#define NO_MEMBER 6
#define NOTHING 7 /* is expected here */
#define UNKNOWN 8

#define APART_BIT 8   /* CLAIM_APART */
#define EPOCH_BITS 16 /* times the epoch, 1 or 2; 0: the claim says none */
#define UNIT_OF(claim) ((claim) & 7)
#define EPOCH_OF(claim) ((claim) >> 4)
#define IS_UNIT(claim) (UNIT_OF(claim) == 1 || UNIT_OF(claim) == 2 || UNIT_OF(claim) == 4)
#define NOBODY RANKS
#define NO_TEXT 255 /* names the entry of a unit that was not claimed */

#define PRESENT 0 /* RANK_PRESENT, RANK_DONE, RANK_FAILED */
#define DONE 1
#define BROKEN 2

#define PARKED 0 /* TEAM_PARKED, TEAM_REAL, TEAM_SHADOW, TEAM_LEFT, TEAM_FAILED */
#define REAL 1
#define SHADOW 2
#define LEFT 3
#define FAILED 4
#define LEFT_ALONE 5 /* TEAM_FAILED with FAILURE_ENDED */

#define RING (2 * RUN_AHEAD) /* PLANE_RING, PLANE_RUN_AHEAD: 4096 and 2048 */

typedef entry_t {
  byte at; /* check: index in the sequence plus one */
  byte unit;
  bool real;
  bool expected;
  byte text;  /* position of the rank's own text, if it has claimed */
  byte source; /* the rank whose unit it was */
  byte apart;  /* ENTRY_APART: which units are told apart from the expected one */
  byte behind  /* ENTRY_BEHIND: the epoch; 0: of one */
};

typedef log_t {
  byte head;
  byte claim;
  byte claim_unit; /* stands for claim_hash, claim_bytes and claim_flags */
  byte claim_text;
  byte state;
  bool leaving;
  bool open; /* check: the claim has not settled */
  entry_t entries[RING];
  byte text[TEXT]
};

#ifdef EPOCHS
#define sum_t int
#define CLAIMS_MAX 45
#else
#define sum_t short
#define CLAIMS_MAX 13
#endif

/* With MACHINES ranks 0 and 1 are on one machine, and rank 2 is on another. Each machine has all logs; those of the
 * other one's ranks are mirrors, which agents write (agent.pml). */
#ifdef MACHINES
#define MACHINE(r) ((r) / 2)
#define LOGS (2 * RANKS)
#else
#define MACHINE(r) 0
#define LOGS RANKS
#endif

typedef team_t {
  log_t logs[LOGS];
  bool waiting; /* WAITING in attention */
#ifdef NAPS
  bool napping;
#endif
  /* What every rank's learner says of an index, given all indices before it, and what the winner
   * rule says, given the claims: any function, but one for all ranks. Chosen when first asked. */
  byte expects[RING];
  byte winner[RING];
  byte merged[RING]; /* R23: MERGED; 0: not asked yet */
  /* Check: the unit that the first rank passed the index with; the claims it settled on; and which
   * ranks issue the unit for real by them. */
  byte agreed[RING];
  sum_t claims[RING];
  byte reals[RING]
};

team_t teams[TEAMS];

/* Of the bell only matters whether it has changed since a rank read it. */
bool rung[RANKS];
bool asleep[RANKS]; /* in FUTEX_WAIT */

/* What a rank keeps for itself: struct team. */
typedef own_t {
  byte head;
  byte shown; /* index that its claim names, plus one */
  bool claimed;
  bool for_room; /* it is expected, and waits for room: nobody sees the claim */
  bool yielded;  /* at its head */
  bool written; /* the claim */
  bool texted;  /* its text */
#ifdef NAPS
  bool waited; /* an index has been passed since it was made */
#endif
  byte unit;
  byte said; /* the unit as the claim says it: UNIT_OF(said) */
  byte text; /* claim_text */
  byte text_end
};

#if TEAMS == 1
#define IS_YIELDING own[0].yielded
#elif TEAMS == 2
#define IS_YIELDING (own[0].yielded || own[1].yielded)
#else
#define IS_YIELDING (own[0].yielded || own[1].yielded || own[2].yielded)
#endif

#define LOG_ON(t, machine, r) teams[t].logs[(machine) * RANKS + (r)]
#define LOG_OF(t, r) LOG_ON(t, MACHINE(r), r) /* its own */
#define LOG(t, r) LOG_ON(t, MACHINE(me), r)   /* as I see it */
#define SLOT(t) (own[t].head % RING)
#define IS_MEMBER(t, r) ((MEMBERS >> (3 * (t) + (r))) & 1)
#define HAS_PASSED(t, r) (IS_MEMBER(t, r) && LOG(t, r).head > own[t].head)
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define HEAD_OR_MINE(t, r) (IS_MEMBER(t, r) -> LOG(t, r).head : own[t].head)

/* plane_slowest. Heads only grow, by one: reading one after the other gives what reading all at once
 * gives at some moment in between. */
#define SLOWEST(t) MIN(MIN(HEAD_OR_MINE(t, 0), HEAD_OR_MINE(t, 1)), HEAD_OR_MINE(t, 2))

/* Check: the same of the ranks themselves. */
#ifdef MACHINES
#define HEAD_OR_ALL(t, r) (IS_MEMBER(t, r) -> LOG_OF(t, r).head : own[t].head)
#define HAVE_ALL_PASSED(t)                                                                         \
  (MIN(MIN(HEAD_OR_ALL(t, 0), HEAD_OR_ALL(t, 1)), HEAD_OR_ALL(t, 2)) == own[t].head)
#else
#define HAVE_ALL_PASSED(t) (SLOWEST(t) == own[t].head)
#endif

/* R3: has_room. Room that there is stays until the rank itself publishes, so asking for it can go
 * with the access that follows. `limit` in C saves reading the heads while the answer is known. */
#if MUTANT == 3
#define HAS_ROOM(t) true
#else
#define HAS_ROOM(t) (own[t].head < SLOWEST(t) + RUN_AHEAD)
#endif

/* Without BELL a rank that is parked looks again once there is something to see: that is polling
 * at any time, less the looks that find nothing. */
#define CLAIMS_HERE(t, r) (!IS_MEMBER(t, r) || LOG(t, r).claim == own[t].head + 1)
#define CAN_MOVE(t)                                                                                \
  ((own[t].for_room && HAS_ROOM(t)) || (MISSES_TEXT(t) && TEXT_FITS(t)) ||                         \
   (HAS_ROOM(t) && !MISSES_TEXT(t) && IS_DECIDED(t)))
#define IS_DECIDED(t)                                                                              \
  (HAS_PASSED(t, 0) || HAS_PASSED(t, 1) || HAS_PASSED(t, 2) ||                                     \
   (CLAIMS_HERE(t, 0) && CLAIMS_HERE(t, 1) && CLAIMS_HERE(t, 2)))
#define SET_ALL(flags, value)                                                                      \
  flags[0] = value;                                                                                \
  flags[1] = value;                                                                                \
  flags[2] = value

/* R8: team_write_text, text_needed, for a text ring of one unit, and at most two units of
 * run-ahead. Of a unit that was expected where it was issued the text is needed, too, if it was
 * claimed: by who settles an index before. */
#if MUTANT == 33
#define IS_WRITTEN_OUT(entry) (entry.real && !entry.expected && entry.unit != LEAVE)
#else
#define IS_WRITTEN_OUT(entry) (entry.real && entry.text != NO_TEXT && entry.unit != LEAVE)
#endif
#define BACK_OF(t, r, n) LOG(t, r).entries[(own[t].head + RING - (n)) % RING]
#if MUTANT == 30
#define IS_KEPT(t, n)                                                                              \
  (IS_WRITTEN_OUT(BACK_OF(t, me, n)) && !BACK_OF(t, (me + 1) % RANKS, n).real &&                   \
   !BACK_OF(t, (me + 2) % RANKS, n).real)
#else
#define IS_KEPT(t, n) IS_WRITTEN_OUT(BACK_OF(t, me, n))
#endif
#define MISSES_TEXT(t) (own[t].claimed && !own[t].for_room && !own[t].texted)
#define TEXT_FITS(t)                                                                               \
  (TEXT >= STEPS || MUTANT == 8 || SLOWEST(t) == own[t].head ||                                    \
   (!IS_KEPT(t, 1) && (SLOWEST(t) + 1 == own[t].head || !IS_KEPT(t, 2))))

#ifdef NAPS
#define NAPS_SCRATCH                                                                               \
  bool foreseen; /* what has been published was committed by somebody */                           \
  bool naps;
#else
#define NAPS_SCRATCH
#endif

#define SCRATCH                                                                                    \
  byte verdict;                                                                                    \
  byte k;                                                                                          \
  byte low;                                                                                        \
  byte who;                                                                                        \
  byte found;                                                                                      \
  byte source;                                                                                     \
  bool as_expected;                                                                                \
  bool crowded;                                                                                    \
  bool mine;                                                                                       \
  byte apart;                                                                                      \
  byte behind;                                                                                     \
  sum_t sum;                                                                                       \
  NAPS_SCRATCH                                                                                     \
  bool ok;                                                                                         \
  byte way;                                                                                        \
  byte units[RANKS];                                                                               \
  byte texts[RANKS]

/* ---- ringing: team_published, shm_ring ---- */

inline ring()
{
  d_step { SET_ALL(rung, true) }    /* bell++ */
  d_step { SET_ALL(asleep, false) } /* FUTEX_WAKE */
}

/* R14: who has published and sees a waiter clears it, and who has cleared it rings. Seeing and
 * clearing is one step: who sees a waiter and then finds it cleared does no more than who looks
 * later. */
inline ring_if_awaited(t)
{
#if MUTANT == 1
  LOG(t, me).entries[(own[t].head - 1) % RING].at = own[t].head;
#endif
#ifdef BELL
#if MUTANT != 14
  d_step {
    ok = teams[t].waiting;
    teams[t].waiting = false
  }
#endif
  if
  :: ok ->
    ok = false;
    ring()
  :: else
  fi
#else
  skip
#endif
}

/* R26: team_tell. Who wakes itself for what is committed is rung for anything else. */
inline ring_for_all(t)
{
#ifdef NAPS
  d_step {
    naps = teams[t].napping;
    teams[t].napping = false
  }
  if
  :: naps ->
    naps = false;
    teams[t].waiting = false;
    ring()
  :: else -> ring_if_awaited(t)
  fi
#else
  ring_if_awaited(t)
#endif
}

/* After an entry: an expected one rings for those only who wait for the bell. */
inline ring_for_entry(t)
{
#ifdef NAPS
  if
  :: foreseen -> ring_if_awaited(t)
  :: else -> ring_for_all(t)
  fi;
  foreseen = false
#else
  ring_if_awaited(t)
#endif
}

/* ---- publishing ---- */

#define ANY_LOG(t, k) teams[t].logs[k]

/* Check: I pass my index with unit u. What all have passed, one of them has issued for real; then
 * it is forgotten. */
inline agree(t, u)
{
  assert(teams[t].agreed[SLOT(t)] == UNKNOWN || teams[t].agreed[SLOT(t)] == u);
  teams[t].agreed[SLOT(t)] = u;
  low = SLOT(t);
  own[t].head++;
  LOG(t, me).head = own[t].head;
  if
  :: HAVE_ALL_PASSED(t) ->
    assert(LOG_OF(t, 0).entries[low].real || LOG_OF(t, 1).entries[low].real ||
           LOG_OF(t, 2).entries[low].real);
    teams[t].agreed[low] = UNKNOWN;
    teams[t].expects[low] = UNKNOWN;
    teams[t].winner[low] = UNKNOWN;
    teams[t].merged[low] = 0;
    teams[t].claims[low] = 0;
    teams[t].reals[low] = 0;
    for (k : 0 .. LOGS - 1) {
      if
      :: ANY_LOG(t, k).entries[low].real && !ANY_LOG(t, k).entries[low].expected && TEXT >= STEPS ->
        ANY_LOG(t, k).text[ANY_LOG(t, k).entries[low].text] = 0
      :: else
      fi;
      if
      :: !LOG_OF(t, k % RANKS).open && ANY_LOG(t, k).claim != 0 ->
        ANY_LOG(t, k).claim = 0;
        ANY_LOG(t, k).claim_unit = 0;
        ANY_LOG(t, k).claim_text = 0
      :: else
      fi;
      ANY_LOG(t, k).entries[low].unit = 0;
      ANY_LOG(t, k).entries[low].real = false;
      ANY_LOG(t, k).entries[low].expected = false;
      ANY_LOG(t, k).entries[low].text = 0;
      ANY_LOG(t, k).entries[low].source = 0;
      ANY_LOG(t, k).entries[low].apart = 0;
      ANY_LOG(t, k).entries[low].behind = 0
    }
    k = 0
  :: else
  fi;
  low = 0
}

/* R1: the entry is complete before the head passes it. Nobody reads an entry that the head has not
 * passed, so that all writes are one transition. Inside d_step or atomic; ring_if_awaited is to
 * follow. */
inline publish(t, u, is_real, is_expected, own_text, whose)
{
#if MUTANT != 1
  LOG(t, me).entries[SLOT(t)].at = own[t].head + 1;
#endif
  LOG(t, me).entries[SLOT(t)].unit = u;
  LOG(t, me).entries[SLOT(t)].real = is_real;
  LOG(t, me).entries[SLOT(t)].expected = is_expected;
  LOG(t, me).entries[SLOT(t)].text = own_text;
  LOG(t, me).entries[SLOT(t)].source = whose;
  LOG(t, me).entries[SLOT(t)].apart = (MUTANT == 34 -> 0 : apart);
  LOG(t, me).entries[SLOT(t)].behind = (MUTANT == 37 -> 0 : behind);
  agree(t, u)
}
