/* Endpoints: this process's ranks in their teams. Made of what ranks have said when they attached
 * (core/transport/attachment.h), shared by the communicators of a team.
 */
#ifndef NCCL_JOIN_INTERPOSE_ENDPOINT_H
#define NCCL_JOIN_INTERPOSE_ENDPOINT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/overlap/overlap.h"
#include "core/transport/attachment.h"
#include "core/predict/rhythm.h"
#include "core/p2p/sent.h"
#include "core/team/team.h"
#include "core/transport/plane_view.h"
#include "core/report/log.h"
#include "core/report/trace.h"
#include "hooks/shadow.h"
#include "hooks/state.h"
#include "interpose/self/thread.h"

struct communicator;

/* A thread that may commit without a lock: endpoint_begin_commit. Written by that thread only. */
struct seat {
  _Atomic(const struct thread *) thread; /* NULL, or one that has ended: free */
  _Atomic bool busy;                     /* between endpoint_begin_commit and endpoint_end_commit */
};
/* PyTorch uses two threads: the main one, and that of the backward pass. */
#define ENDPOINT_SEATS 4

/* park/rebuilt.h. Done: the rank has had its first gradient of the newest model. */
enum rebuilt { REBUILT_NOT, REBUILT_MISSED, REBUILT_DONE };

/* This process's rank in one team. Fields that belong together stand together. */
struct endpoint { /* NOLINT(clang-analyzer-optin.performance.Padding) */
  struct team *team;
  /* The seat of the thread that may commit without entering: no other has used the endpoint since
   * it last did, nothing is traced or remembered (sent), and nothing has failed. NULL: nobody.
   * Changed with `turn`. */
  _Atomic(struct seat *) plain;
  struct seat seats[ENDPOINT_SEATS];
  struct attachment *attachment; /* holds the team's logs */
  uint64_t identity;    /* see core/transport/attachment.h: of this device of this process */
  uint64_t *identities; /* of the team's ranks */
  /* Both may be asked for by a thread that is parked, while another one ends the endpoint. */
  _Atomic(struct overlap *) overlap; /* of this rank's teams; shared by its endpoints */
  /* This team in it; NULL once the endpoint no longer takes part. */
  _Atomic(struct overlap_team *) in_overlap;
  uint32_t tag; /* of the communicator that made the team: its name in messages */
  int device;
  _Atomic(struct communicator *) comms; /* by `next_in_team` */
  struct shadow *shadow;                /* NULL before the first one */
  struct trace *trace;                  /* NULL if not traced */
  struct sent
      *sent; /* NULL unless NCCL_JOIN_LOSSY is last for some kind (interpose/data/lossy.h) */
  struct rhythm *rhythm;       /* of what it shadows (follower.h); NULL before the first shadow */
  struct rhythm_budget budget; /* while it is waited in, once there is a rhythm */
  uint64_t rhythm_wait;        /* when it last shadowed anything */
  bool reads_program;          /* shadows may still be sending from the program's memory */
  /* RANK_PRESENT while it takes part. RANK_FAILED: nothing settles any more. RANK_DONE: it waited
   * to leave for NCCL_JOIN_TIMEOUT, and went on. */
  _Atomic(enum rank_state) state;
  uint64_t shadows;           /* since the rank has joined; 0: it has not */
  uint64_t made_ms;           /* when it was made, CLOCK_MONOTONIC */
  struct plane_joined joined; /* until it last came back; as all ranks see it: plane_view.h */
  uint64_t joined_since_ms;   /* 0: it is not joined */
  bool summed_up;             /* report_uneven has been called */
  uint64_t lossy_told;        /* the program has heard of all lossy shadows below this index */
  bool skew_warned, slow_told, ahead_told;
  _Atomic(ncclResult_t) told_failed; /* the program has got this error of ours, because a rank has
                                        failed; ncclSuccess: it has not */
  _Atomic uint64_t asked_ms; /* when the dead were last looked for because it asked for errors */
  /* Since when it has been seen that the program has yet to hear of an error, and how many units
   * had been passed then (membership_is_unheard). 0: it has heard of all. */
  _Atomic uint64_t unheard_ms, unheard_passed;
  struct state buffers; /* what is broadcast from the last joiner */
  bool state_moved;     /* that has been issued, and may not be done yet */
  bool hook_failed;     /* a plug-in, since the rank's program last heard of it */
  enum rebuilt rebuilt; /* whether this rank has taken part where gradients were laid out anew */
  bool started;         /* the broadcasts of the program's start are over (issue.h) */
  _Atomic uint32_t last_joiner; /* rank in the team */
  cudaStream_t stream;          /* of the last call that has been claimed */
  uint64_t exception; /* python_exception_at, when it last claimed a call of the program's */
  _Atomic uint64_t
      visits[PLACE_LEVELS]; /* in which round it was last, by level: interpose/calls/rounds.c */
  _Atomic uint64_t rounds[PLACE_LEVELS]; /* which ones it has come to: likewise */
  /* The level, plus one, of the loop of which its next request begins a round; 0: none. With the
   * bits: that it is not waited for, and not looked at; and that its rounds may be its own. */
  _Atomic uint32_t begins;
  _Atomic uint64_t says[PLACE_LEVELS]; /* what it says of that, by level: team_says */
#define ENDPOINT_BEGINS_PERHAPS (UINT32_C(1) << 31)
#define ENDPOINT_BEGINS_QUIETLY (UINT32_C(1) << 30)
#define ENDPOINT_BEGINS_UNSEEN (UINT32_C(1) << 29)
/* Rounds of the loop within may be its own. */
#define ENDPOINT_BEGINS_PERHAPS_WITHIN (UINT32_C(1) << 28)
#define ENDPOINT_BEGINS_HOW                                                                        \
  (ENDPOINT_BEGINS_PERHAPS | ENDPOINT_BEGINS_QUIETLY | ENDPOINT_BEGINS_UNSEEN |                    \
   ENDPOINT_BEGINS_PERHAPS_WITHIN)

  bool stopped;        /* the program's last call was told to stop: core/team/team_stop.h */
  uint64_t stopped_in; /* the wait in which the rank was last stopped here, or elsewhere (wait.c) */
  /* The thread whose program uses the endpoint: who last issued something. NULL: nobody yet. */
  _Atomic(const struct thread *) user;
  /* That one is an engine's, as autograd's are: it works for a thread that waits meanwhile. */
  _Atomic bool user_of_engine;
  const struct thread *creator; /* the thread that made it */
  bool is_world; /* all ranks have been told that they are all that there are, and their numbers */
  /* Of ranks that gather (gathering.h): the team that they are some ranks of, and by rank which.
   * NULL: it has, or had, a communicator. */
  struct endpoint *whole;
  uint32_t *rank_in_whole;
  /* The thread that last sent or received something. NULL: none. */
  _Atomic(const struct thread *) poster;
  _Atomic uint64_t posting_at; /* how many units had been issued then */
  _Atomic uint32_t posts_in_a_row;
  _Atomic uint32_t posts_in_vain; /* how often what they meet was waited for, and did not come */
  pthread_mutex_t turn; /* held between endpoint_enter and endpoint_exit, and while answered for */
  _Atomic int inside;   /* threads that hold it or wait for it */
  _Atomic(const struct thread *) holder; /* the thread that holds it, or NULL */
  _Atomic int broken; /* an ncclResult_t: another thread has broken this off, return that; 0: no */
  _Atomic bool awaited_death; /* endpoint_await_death has waited */
  /* Threads that use a communicator each: apart.c. */
  _Atomic uint32_t inside_for; /* tag of the communicator that the thread inside came for, or 0 */
  bool (*held_before)(void *context);
  void *held_before_context;
  uint64_t held_from_ms, held_until_ms, held_look_ms, held_runs;
  bool takes_turns;
  /* Since when its rank, and its thread, have done nothing, as far as a rank that leaves has seen:
   * orphans.c. */
  _Atomic uint64_t idle_head, idle_from_ms, idle_runs, asleep_from_ms;
  _Atomic bool ended;              /* its last communicator is gone: nobody's to answer for */
  _Atomic(struct endpoint *) next; /* of this process */
  struct endpoint *gone;           /* of those that have ended */
};

/* A thread is about to agree on, and issue, something of the endpoint: until endpoint_exit nobody
 * else does, and the endpoint does not end. Waits for another thread that has entered or is
 * committing. */
void endpoint_enter(struct endpoint *end);
void endpoint_exit(struct endpoint *end);

/* The same, but stops waiting once is_set(end), and returns false. endpoint_exit is to be called
 * all the same; until then nothing of the endpoint may be changed. */
bool endpoint_enter_unless(struct endpoint *end, bool (*is_set)(const struct endpoint *end));

/* The same, unless another thread is inside, or waits to be, or answers for it in this moment:
 * false then. */
bool endpoint_enter_if_free(struct endpoint *end);

/* What stands for the calling thread. */
static inline const struct thread *endpoint_this_thread(void) {
  return thread_self();
}

/* The thread that is to answer for the endpoint: its user, or the thread that made it if nobody has
 * used it yet or the user has ended. */
static inline const struct thread *endpoint_owner(const struct endpoint *end) {
  const struct thread *user = atomic_load(&end->user);
  return user == NULL || thread_has_ended(user) ? end->creator : user;
}
/* Whether that is the calling thread; or it is an engine's, which works for the one that made the
 * endpoint while that waits: if that one is here, the engine's has nothing to do. */
static inline bool endpoint_is_own(const struct endpoint *end) {
  const struct thread *self = endpoint_this_thread();
  return !atomic_load(&end->ended) && (endpoint_owner(end) == self ||
                                       (atomic_load(&end->user_of_engine) && end->creator == self));
}

/* The fast path: whether the calling thread, whose seat this is, may commit without a lock; if so
 * it is to call endpoint_end_commit at once afterwards. Biased locking: the thread that `plain`
 * names pays a load and two stores; one that wants to enter takes `plain` away, makes all threads
 * of the process pass a barrier (membarrier), and waits until the seat is not busy. */
static inline __attribute__((always_inline)) bool endpoint_begin_commit(struct endpoint *end,
                                                                        struct seat *seat) {
  atomic_store_explicit(&seat->busy, true, memory_order_relaxed);
  /* The other half of this fence is the membarrier of who enters. */
  atomic_signal_fence(memory_order_seq_cst);
  if (atomic_load_explicit(&end->plain, memory_order_acquire) == seat)
    return true;
  atomic_store_explicit(&seat->busy, false, memory_order_release);
  return false;
}
static inline __attribute__((always_inline)) void endpoint_end_commit(struct seat *seat) {
  atomic_store_explicit(&seat->busy, false, memory_order_release);
}

/* The endpoint no longer takes part: what happens in its team means nothing for the rank's others.
 */
void endpoint_retire(struct endpoint *end, enum rank_state state);

/* A rank has given up, or NCCL has: because a rank of another machine has died, perhaps. NCCL, and
 * ranks that have heard it from NCCL, may be faster than this machine's agent. Waits for at most
 * ENDPOINT_DEATH_MS until it is known who has died, or the endpoint is broken; once. Where all
 * ranks are on this machine only if by_nccl, NCCL itself having said that something is wrong: it
 * hears of the end of a process while the kernel still ends it. */
#define ENDPOINT_DEATH_MS 1000u
void endpoint_await_death(struct endpoint *end, bool by_nccl);

/* The communicator with a tag in an endpoint's team, or NULL. */
struct communicator *endpoint_communicator(const struct endpoint *end, uint32_t tag);

/* Whether a rank of this identity is in an endpoint's team. */
bool endpoint_has_rank(const struct endpoint *end, uint64_t identity);

/* For lines of the log: the rank in its team, and the communicator that made that, if it is still
 * there. */
struct log_subject endpoint_subject(const struct endpoint *end);

/* The communicator of an endpoint that stands for all in plug-ins: the one that made the team, or
 * the oldest that there still is; NULL if there is none. */
const struct communicator *endpoint_eldest(const struct endpoint *end);

/* The rest is for communicator.c, with its lock held. */

/* Puts a pending communicator, whose creation is complete, into its team, or turns it off with one
 * line that says why. first: the communicators of the process in order of creation. *endpoints: the
 * list that a new endpoint is put in front of. */
void endpoint_activate(struct communicator *comm, struct communicator *first,
                       _Atomic(struct endpoint *) *endpoints);

/* This rank's end of a team whose plane is the attachment's; identities: of its ranks, copied. Of
 * the calling thread; in no list, with no communicator, and named by nothing yet. NULL without
 * memory, or if plane is NULL. */
struct endpoint *endpoint_create(struct attachment *attachment, struct plane *plane,
                                 const uint64_t *identities);

/* Adds its team to the others of its rank; false without memory. */
bool endpoint_enter_overlap(struct endpoint *end, struct endpoint *others);

/* Sets `plain` to nobody: from here on no thread commits without entering. */
void endpoint_end_plain(struct endpoint *end);

/* Takes the communicator out of its team. With the last one, the endpoint ends: its rank is `how`
 * to the others, it is in no list any more, and endpoint_reap frees what it has. Of a communicator
 * that never joined, lets go of its attachment. */
void endpoint_drop(struct communicator *comm, _Atomic(struct endpoint *) *endpoints,
                   enum rank_state how);

/* The same of one that has no communicator. */
void endpoint_end(struct endpoint *end, _Atomic(struct endpoint *) *endpoints, enum rank_state how);

/* Frees what ended endpoints have. No other thread may be going along the list of endpoints, of
 * which this is the first. */
void endpoint_reap(const struct endpoint *endpoints);

/* Frees what one has that is in no list. */
void endpoint_empty(struct endpoint *end);

#endif
