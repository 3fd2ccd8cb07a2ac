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
 *   MACHINES     rank 2 is on a machine of its own: what ranks see of those on the other machine comes late (agent.pml)
 *   CUT          with MACHINES: the link between them is lost, or is not; with KILL, only behind a rank that was killed
 *   ABORT        one rank or none fails between two units, and says so
 *   YIELD_EARLY  ranks yield at any time, not only when nobody can move
 *   BRANCH       rank 0 names only the second unit, all others only the first
 *   APART        ranks say with CLAIM_APART, or not, that the unit expected is not what they claim
 *   EPOCHS       ranks say in which of two epochs they claim a unit, or do not
 *   EVEN         all ranks issue STEPS units, and expect them; rank 2 issues each only once rank 0 has,
 *                as a rank does that is told so outside of NCCL
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

#ifdef EVEN
#define IS_CALLED (me != 2 || LOG(0, 0).head > own[0].head)
#define MAY_LEAVE (steps == STEPS)
#else
#define IS_CALLED true
#define MAY_LEAVE true
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

/* Of a rank on another machine the agent says that it is gone. */
#define IS_SEEN(r) (MACHINE(r) == MACHINE(me))

/* R16: team_look_for_the_dead. For a rank that was killed nobody rings: waits that last look. */
inline look_for_the_dead(t)
{
  d_step {
    if
    :: dead != NOBODY && IS_MEMBER(t, dead) && IS_SEEN(dead) && LOG(t, dead).state == PRESENT ->
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

#ifdef ONE_TEAM
#include "one_team.pml"
#else
#include "several_teams.pml"
#endif

#ifdef MACHINES
#include "agent.pml"
#define AGENTS 2
#else
#define AGENTS 0
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
#ifdef MACHINES
    run agent(0); /* before the ranks: a process goes when all that came after it have gone */
    run agent(1);
#endif
    run rank(0);
    run rank(1);
    run rank(2)
  }
#ifdef KILL
  if
  :: atomic { LOG_OF(0, 0).state == PRESENT -> dead = 0; failed = 0 }
  :: atomic { LOG_OF(0, 1).state == PRESENT -> dead = 1; failed = 1 }
  :: atomic { LOG_OF(0, 2).state == PRESENT -> dead = 2; failed = 2 }
  :: _nr_pr == 1 + AGENTS
  fi;
#endif
  /* All ranks have come to their end. Every unit that one has issued, all have. */
  _nr_pr == 1 + AGENTS;
  for (i : 0 .. TEAMS * RING - 1) {
    assert(failed != NOBODY || teams[i / RING].agreed[i % RING] == UNKNOWN ||
           teams[i / RING].agreed[i % RING] == LEAVE)
  }
}
