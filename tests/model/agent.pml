/* The agents of two machines (core/agent/agent_tell.c, core/transport/mirror.c): each tells the other machine what its
 * ranks have done, in frames that come in order, and late. Of what a rank has done the frames have every unit that it
 * has passed, and of its claims and its state what stands there when it is told. Follows the conventions of log.pml.
 *
 * When agents tell each other something (agent_stand.c) is not here: a frame may be told at any time, and come at any
 * time, but all of them come.
 */

#ifndef WIRE
#define WIRE 1 /* frames under way on each link */
#endif
#define LINK (RANKS + 1) /* `failed`: no rank has, the link is lost */

mtype = { UNIT_PASSED, CLAIM, STATE };
chan wires[2] = [WIRE] of { mtype, byte, byte, byte, byte }; /* by the machine that tells; a rank, and what it says */
bool lost[2];                                                /* a machine has heard that the link is */

/* What has been told of each rank of the machine. */
typedef told_t {
  byte head;
  byte claim;
  byte claim_unit;
  byte claim_text;
  byte state
};

#define IS_TELLER(r) (MACHINE(r) == from)
#define NEXT_ENTRY(r) LOG_OF(0, r).entries[told[r].head % RING]
#define CLAIM_IS_TOLD(r)                                                                           \
  (LOG_OF(0, r).claim == told[r].claim &&                                                          \
   (told[r].claim == 0 || (LOG_OF(0, r).claim_unit == told[r].claim_unit &&                        \
                           LOG_OF(0, r).claim_text == told[r].claim_text)))

/* R28, is_behind: what has led to a unit that was claimed is told before that is passed. */
#define LED_TO(r, o)                                                                               \
  (IS_TELLER(o) && o != r && told[o].head <= told[r].head &&                                       \
   ((LOG_OF(0, o).head == told[r].head && LOG_OF(0, o).claim == told[r].head + 1 &&                \
     !CLAIM_IS_TOLD(o)) ||                                                         \
    (NEXT_ENTRY(r).source == o && LOG_OF(0, o).head > told[r].head && MUTANT != 42)))
#define MAY_TELL_UNIT(r)                                                                           \
  (IS_TELLER(r) && told[r].head < LOG_OF(0, r).head &&                                             \
   (NEXT_ENTRY(r).expected || !(LED_TO(r, 0) || LED_TO(r, 1) || LED_TO(r, 2))))
#define MAY_TELL_CLAIM(r)                                                                          \
  (IS_TELLER(r) && (told[r].head == LOG_OF(0, r).head || MUTANT == 43) && !CLAIM_IS_TOLD(r))
#define MAY_TELL_STATE(r)                                                                          \
  (IS_TELLER(r) && told[r].state != LOG_OF(0, r).state &&                                          \
   ((told[r].head == LOG_OF(0, r).head && CLAIM_IS_TOLD(r)) || MUTANT == 44))

/* Inside d_step. */
inline tell_unit(r)
{
  wires[from] ! UNIT_PASSED, r, 0, 0, 0;
  told[r].head++
}

inline tell_claim(r)
{
  told[r].claim = LOG_OF(0, r).claim;
  told[r].claim_unit = (told[r].claim == 0 -> 0 : LOG_OF(0, r).claim_unit);
  told[r].claim_text = (told[r].claim == 0 -> 0 : LOG_OF(0, r).claim_text);
  wires[from] ! CLAIM, r, told[r].claim, told[r].claim_unit, told[r].claim_text
}

inline tell_state(r)
{
  told[r].state = LOG_OF(0, r).state;
  wires[from] ! STATE, r, told[r].state, 0, 0
}

/* What is in a log's rings stays there as long as a rank of any machine may need it (R3, R8), so that it may as well be
 * read when the frame comes. */
#define MIRROR(r) LOG_ON(0, 1 - from, r)
inline copy_entry(r)
{
  i = MIRROR(r).head % RING;
  MIRROR(r).entries[i].at = LOG_OF(0, r).entries[i].at;
  MIRROR(r).entries[i].unit = LOG_OF(0, r).entries[i].unit;
  MIRROR(r).entries[i].real = LOG_OF(0, r).entries[i].real;
  MIRROR(r).entries[i].expected = LOG_OF(0, r).entries[i].expected;
  MIRROR(r).entries[i].text = LOG_OF(0, r).entries[i].text;
  MIRROR(r).entries[i].source = LOG_OF(0, r).entries[i].source;
  MIRROR(r).entries[i].apart = LOG_OF(0, r).entries[i].apart;
  MIRROR(r).entries[i].behind = LOG_OF(0, r).entries[i].behind;
  i = 0;
  MIRROR(r).head++
}

inline copy_texts(r)
{
  for (i : 0 .. TEXT - 1) {
    MIRROR(r).text[i] = LOG_OF(0, r).text[i]
  }
  i = 0
}

/* One frame comes; what comes behind the loss of the link does not. */
inline apply()
{
  if
  :: lost[1 - from] || MIRROR(r).state != PRESENT
  :: !lost[1 - from] && MIRROR(r).state == PRESENT ->
    if
    :: kind == UNIT_PASSED ->
      copy_texts(r);
      copy_entry(r)
    :: kind == CLAIM ->
      copy_texts(r);
      MIRROR(r).claim = a;
      MIRROR(r).claim_unit = b;
      MIRROR(r).claim_text = c
    :: kind == STATE -> MIRROR(r).state = a
    fi
  fi;
  kind = 0;
  r = 0;
  a = 0;
  b = 0;
  c = 0
}

/* agent_cut_link: the ranks behind it have ended. */
inline lose(machine)
{
  lost[machine] = true;
  for (i : 0 .. RANKS - 1) {
    if
    :: MACHINE(i) != machine && LOG_ON(0, machine, i).state == PRESENT ->
      LOG_ON(0, machine, i).state = BROKEN
    :: else
    fi
  }
  i = 0
}

/* With KILL it is the rank's machine that is gone, for the others. */
#ifndef CUT
#define MAY_LOSE(machine) false
#elif defined(KILL)
#define MAY_LOSE(machine) (!lost[machine] && dead == 2 && machine == 0)
#else
#define MAY_LOSE(machine) (!lost[machine] && failed == LINK)
#endif

proctype agent(byte from)
{
  told_t told[RANKS];
  mtype kind;
  byte r, a, b, c, i;

end:
  do
  :: d_step { nfull(wires[from]) && MAY_TELL_UNIT(0) -> tell_unit(0) }
  :: d_step { nfull(wires[from]) && MAY_TELL_UNIT(1) -> tell_unit(1) }
  :: d_step { nfull(wires[from]) && MAY_TELL_UNIT(2) -> tell_unit(2) }
  :: d_step { nfull(wires[from]) && MAY_TELL_CLAIM(0) -> tell_claim(0) }
  :: d_step { nfull(wires[from]) && MAY_TELL_CLAIM(1) -> tell_claim(1) }
  :: d_step { nfull(wires[from]) && MAY_TELL_CLAIM(2) -> tell_claim(2) }
  :: d_step { nfull(wires[from]) && MAY_TELL_STATE(0) -> tell_state(0) }
  :: d_step { nfull(wires[from]) && MAY_TELL_STATE(1) -> tell_state(1) }
  :: d_step { nfull(wires[from]) && MAY_TELL_STATE(2) -> tell_state(2) }
  :: d_step {
      nempty(wires[from]);
      wires[from] ? kind, r, a, b, c;
      apply()
    }
#ifdef KILL
  /* The agent looks whether its ranks live. */
  :: d_step { dead != NOBODY && IS_TELLER(dead) && LOG_OF(0, dead).state == PRESENT -> LOG_OF(0, dead).state = BROKEN }
#endif
#ifdef CUT
#ifndef KILL
  :: atomic { failed == NOBODY -> failed = LINK }
#endif
  :: d_step { MAY_LOSE(from) -> lose(from) }
#endif
  od
}
