/* What the ranks of a team tell each other, for those who agree (core/p2p, core/team,
 * core/overlap). The way to the words of logs and teams: these (words.h) are core/transport's own,
 * and nobody else sees them (tools/lint-layout compiles the others with PLANE_WORDS_HIDDEN). Who
 * has no part in the agreement asks plane_view.h. Sends and receives: operations.h. Members of
 * units: texts.h. What concerns all ranks of a team: questions.h.
 *
 * Whose: what takes `own` is for the rank whose log it is, and for the one of its threads that has
 * the team, unless it says "any thread". What takes `log` may be asked by any thread of any rank.
 * What takes a plane_team may be called by any.
 *
 * Order: sequentially consistent, as are the marks of who waits, unless a function says something
 * else. So of a rank that tells and one that is about to sleep, at least one sees the other.
 *
 * Indices are said by one more, where 0 is to mean none: "plus one".
 */
#ifndef NCCL_JOIN_CORE_LOGS_H
#define NCCL_JOIN_CORE_LOGS_H

#include "core/transport/plane.h"

/* For what must not be a call: a commit. */
#define LOG_INLINE inline __attribute__((always_inline))

/* The log of a rank, and what the ranks of the team share. */
static LOG_INLINE struct plane_log *log_of(const struct plane *plane, uint32_t rank);
static LOG_INLINE struct plane_team *plane_shared(const struct plane *plane);

/* ---- what a rank has passed ---- */

/* One index passed. */
struct log_entry {
  uint64_t hash; /* unit_hash; 0: LEAVE. Readers check what they follow against it */
  /* Units the rank has issued for real in all its teams, this one included; wraps. Also says which
   * of two units of different teams it came to first (overlap.h). */
  uint32_t reals;
  uint32_t run_start; /* index where the present run of reals, or shadows, began; wraps */
  uint32_t flags;     /* enum entry_flag */
  /* Of a real entry: the position of the rank's own text (texts.h), 0 if it was not claimed. Where
   * all stopped: 1 if for a rank that was stopped elsewhere. */
  uint32_t text;
  uint32_t source; /* whose unit it was, which has issued it for real: its text says which. Not of
                           ENTRY_EXPECTED */
  uint32_t last_joiner; /* with ENTRY_REJOIN */
  uint32_t epoch;       /* with ENTRY_BEHIND: its low 8 bits */
  uint32_t apart;       /* with ENTRY_APART: the mark of the unit that is apart (team_private.h) */
};

/* How many units a rank has passed: what is below is published, and stays for PLANE_RUN_AHEAD. */
static inline uint64_t log_passed(const struct plane_log *log);

/* Of what it has passed: once log_passed has said so. Relaxed. What a peer has written is not to be
 * trusted, so who decides by more than one word reads them once, together. */
static inline struct log_entry log_entry(const struct plane_log *log, uint64_t index);
static inline uint64_t log_hash(const struct plane_log *log, uint64_t index);
static inline uint32_t log_flags(const struct plane_log *log, uint64_t index);
static inline bool log_is_real(const struct plane_log *log, uint64_t index);
static inline uint32_t log_reals(const struct plane_log *log, uint64_t index);
/* What it had issued for real, in all its teams, before it passed an index. */
static inline uint32_t log_reals_before(const struct plane_log *log, uint64_t index);
/* Where its own text of what it claimed and issued there is (texts.h); 0: nowhere. */
static inline uint32_t log_text(const struct plane_log *log, uint64_t index);
/* Since which index it has issued nothing but reals, or shadows, at that one. */
static inline uint64_t log_run_start(const struct plane_log *log, uint64_t index);

/* Passes index log_passed(own): its entry, then the head. */
static inline void log_pass(struct plane_log *own, uint64_t index, const struct log_entry *entry);

/* The same of a unit that is expected by all and issued for real: a commit. Nobody reads its source
 * and text. Moves the rank's head on, and counts the unit. By pointers, so that each is read where
 * it is written: all at once would take more registers than the callers have left. */
static LOG_INLINE void log_commit(struct plane_log *own, uint64_t *head, const uint64_t *hash,
                                  uint32_t *reals, const uint32_t *run_start);

/* ---- what a rank claims ---- */

/* A claim: of a rank that is parked. */
struct log_claim {
  uint64_t hash;      /* unit_hash; 0: LEAVE, or a yield */
  uint64_t signature; /* unit_signature; 0: LEAVE */
  uint64_t bytes;     /* what the unit moves */
  uint64_t last_real; /* index plus one of what it issued for real last; 0: none */
  uint64_t rounds;    /* in which the rank stands (core/place/place_rounds.h); 0: not known */
  uint32_t text;      /* position of the members (texts.h) */
  uint32_t flags;     /* enum claim_flag */
  uint32_t mark;      /* enum mark; 0: it is none */
  uint32_t place;     /* id of the unit's place; 0: not known */
  uint32_t epoch;     /* how often the rank has come there by now (team_epochs.c); 0: not known */
  uint32_t reals;     /* reals when it was made */
};

/* The index claimed, plus one; 0: none, or it is being rewritten. */
static inline uint64_t log_claimed(const struct plane_log *log);
static inline bool log_claims(const struct plane_log *log, uint64_t index);

/* What is claimed at an index. False if nothing is, or the claim is just being rewritten: look
 * again. */
static inline bool log_read_claim(const struct plane_log *log, uint64_t index,
                                  struct log_claim *claim);

/* Takes away what is claimed, and writes something else. Releases: whoever sees a new field sees
 * that the old claim is gone, and that the head had passed it before. */
static inline void log_write_claim(struct plane_log *own, const struct log_claim *claim);

/* Claims an index with what has been written. Of the last two claimants at least one sees that all
 * have claimed. */
static inline void log_claim(struct plane_log *own, uint64_t index);
static inline void log_withdraw_claim(struct plane_log *own);

/* Whether the rank has said, at an index or after it, that it was stopped in another team. */
static inline bool log_has_stopped(const struct plane_log *log, uint64_t index);

/* ---- what becomes of a rank ---- */

static inline enum rank_state log_state(const struct plane_log *log);
static inline void log_begin(struct plane_log *own);

/* The rank ends, having issued so many. Any thread. */
static inline void log_end(struct plane_log *own, enum rank_state state, uint64_t issued);

/* The rank fails, having issued so many, and another has failed before it. And whether it was so.
 */
static inline void log_fail_after(struct plane_log *own, uint64_t issued);
static inline bool log_has_followed(const struct plane_log *log);

/* Any rank, of one whose process is gone: it has failed, unless it had ended before. And whether it
 * was so: killed, crashed or out of reach. */
static inline void log_fail(struct plane_log *log);
static inline bool log_has_died(const struct plane_log *log);

/* Whether the word `state` of a log is the last that it will be. */
static inline bool log_has_ended(uint32_t state);

/* Units issued when it ended, or failed. Relaxed: once log_state has said so. */
static inline uint64_t log_failed_index(const struct plane_log *log);

/* Whether its process is parked in a LEAVE, of this team or another. */
static inline bool log_is_leaving(const struct plane_log *log);
static inline void log_say_leaving(struct plane_log *own, bool leaving);

/* Since when it waits in a call, in milliseconds of the machine's clock; 0: it does not. For
 * messages. */
static inline uint64_t log_parked_since(const struct plane_log *log);
static inline void log_say_parked(struct plane_log *own, uint64_t since_ms);

/* Whether the rank waits for others to pass something, and shows no claim meanwhile. For its
 * machine's agent (core/agent). Any thread. */
static inline bool log_awaits(const struct plane_log *log);
static inline void log_say_awaits(struct plane_log *own, bool awaits);

/* What the rank has done for the others, in all: struct plane_joined, which its program tells. */
static inline uint64_t log_shadows(const struct plane_log *log);
static inline uint64_t log_joined_time(const struct plane_log *log);
static inline void log_say_joined(struct plane_log *own, uint64_t shadows, uint64_t time);

/* What was shadowed in teams of parts of these ranks, as far as the rank tells of it; and whether
 * it has told of all. Sequentially consistent: of two ranks, of which each says one of these and
 * then reads the other, one at least sees what the other has said. */
static inline uint64_t log_parts(const struct plane_log *log);
static inline void log_say_parts(struct plane_log *own, uint64_t parts);
static inline bool log_is_summed_up(const struct plane_log *log);
static inline void log_say_summed_up(struct plane_log *own);

/* The rank that the last refused unit was refused for, or that all ranks last stopped for. Relaxed:
 * read where an entry says so. */
static inline uint32_t log_refused_for(const struct plane_log *log);
static inline void log_set_refused_for(struct plane_log *own, uint32_t rank);

/* ---- units that a rank has spoiled by its shadow although it should be an error ---- */

struct log_lossy {
  uint64_t index;
  uint32_t kind; /* enum member_kind */
  uint32_t peer; /* point to point: the other rank */
};

static inline uint32_t log_lossy_count(const struct plane_log *log);
static inline struct log_lossy log_last_lossy(const struct plane_log *log);
static inline void log_add_lossy(struct plane_log *own, const struct log_lossy *lossy);

/* ---- sends and receives: the rest is in operations.h ---- */

/* Index plus one at which a rank is parked, here or in another team, and answers what is posted; 0,
 * or past it: it does not. */
static inline uint64_t log_answering(const struct plane_log *log);
static inline void log_say_answering(struct plane_log *own, uint64_t index);
static inline void log_stop_answering(struct plane_log *own);

/* Whether it has mirrored something at an index. */
static inline bool log_has_mirrored(const struct plane_log *log, uint64_t index);
static inline void log_say_mirrored(struct plane_log *own, uint64_t index);

/* ---- processes of several teams (overlap.h) ---- */

/* When the rank, or one that it waits for, was last seen at work, in milliseconds of the machine's
 * clock; 0: it is at work. */
static inline uint64_t log_busy_until(const struct plane_log *log);
static inline void log_say_busy(struct plane_log *own, uint64_t until);

/* While parked: which rank at work it asks about, and which one it holds up (overlap_held.c;
 * identities plus one, 0: none); and how often it has moved. */
static inline uint64_t log_asks_about(const struct plane_log *log);
static inline void log_ask_about(struct plane_log *own, uint64_t identity);
static inline uint64_t log_holds(const struct plane_log *log);
static inline void log_say_holds(struct plane_log *own, uint64_t identity);
static inline uint64_t log_moves(const struct plane_log *log);
static inline void log_move(struct plane_log *own);

/* Whether it is parked without a claim, since others are behind that are at work, or parked so. */
static inline bool log_keeps_step(const struct plane_log *log);
static inline void log_say_keeps_step(struct plane_log *own, bool keeps);

/* Whether it is out of step, and commits nothing. */
static inline bool log_asks(const struct plane_log *log);
static inline void log_say_asks(struct plane_log *own, bool asks);

/* Whether a rank has been in a loop whose end others have committed: from now on all are to ask for
 * such ends, however steady the loop is. */
static inline bool log_is_unsteady(const struct plane_log *log);
static inline void log_say_unsteady(struct plane_log *own);

/* What a rank says of the round of its outermost loop, and of the loop in that one (team_epochs.c);
 * 0: nothing. Sequentially consistent: of two ranks that say one, and then look at the other's, at
 * least one sees it. */
static inline uint64_t log_begun(const struct plane_log *log, bool within);
static inline void log_say_begun(struct plane_log *own, bool within, uint64_t begun);

/* ---- attention: one load tells an active rank that nobody needs anything ---- */

/* What a rank remembers of the events that it has attended to: 0 at first. */
typedef uint64_t plane_calm_t;

/* All events up to now. Noted before they are looked for: what happens meanwhile is looked for
 * again. */
static inline plane_calm_t plane_calm(const struct plane_team *shared);

/* Whether nobody waits, and nothing has happened since. */
static LOG_INLINE bool plane_is_calm(const struct plane_team *shared, const plane_calm_t *calm);

/* Whether something has happened since. Relaxed: of what is not seen yet the next call hears. */
static LOG_INLINE bool plane_has_events(const struct plane_team *shared, const plane_calm_t *calm);

/* Something has happened that every rank must look at: a lossy shadow, a failure. calm: of the rank
 * that says so and need not look; NULL: it looks, too. */
static inline void plane_add_event(struct plane_team *shared, plane_calm_t *calm);

/* A rank that is about to wait for the bell: said before it looks a last time, and sleeps. */
static inline void plane_say_waiting(struct plane_team *shared);

/* Takes that away; whether it was there: then ring. */
static inline bool plane_take_waiting(struct plane_team *shared);

/* The same of ranks that wake themselves in time for what others commit (team_nap.h), so that a
 * commit does not look. Whoever claims, posts or waits does. What stays set between two sleeps is
 * not written again: it lies beside what a commit reads. */
static inline bool plane_is_napping(const struct plane_team *shared);
static inline void plane_say_napping(struct plane_team *shared);
static inline bool plane_take_napping(struct plane_team *shared);

/* Changes whenever the bell is rung: read before waiting is said. Acquires. */
static inline uint32_t plane_bell(const struct plane *plane);

/* Of all ranks that settle an index by guess one tells of it: whether this one is not to. */
static inline bool plane_is_told(struct plane_team *shared, uint64_t index);
/* Whether a rank of this machine has said that epochs mix; plane_say_mixed: says so, and returns
 * whether one had. */
static inline bool plane_is_mixed(const struct plane_team *shared);
static inline bool plane_say_mixed(struct plane_team *shared);
/* The last one that a rank has told of, plus one; 0: none. */
static inline uint64_t plane_last_told(const struct plane_team *shared);

/* Whether ranks stand aside of the team (interpose/comm/apart.h). To say so: plane_set_apart. */
static inline bool plane_is_apart(const struct plane_team *shared);

#ifndef PLANE_WORDS_HIDDEN
#include "core/transport/logs_inline.h"
#endif

#endif
