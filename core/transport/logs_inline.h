/* The functions of logs.h, which says what they do. Not for anybody else: it is in a header so that
 * a commit calls nothing, and that a look at many ranks does not either. */
#ifndef NCCL_JOIN_CORE_LOGS_INLINE_H
#define NCCL_JOIN_CORE_LOGS_INLINE_H

#include "core/transport/words.h"

#define WORD_LOAD(word) atomic_load_explicit(&(word), memory_order_relaxed)
#define WORD_STORE(word, value) atomic_store_explicit(&(word), (value), memory_order_relaxed)
#define WORD_ACQUIRE(word) atomic_load_explicit(&(word), memory_order_acquire)
#define WORD_RELEASE(word, value) atomic_store_explicit(&(word), (value), memory_order_release)

static LOG_INLINE struct plane_log *log_of(const struct plane *plane, uint32_t rank) {
  return plane->logs[rank];
}

static LOG_INLINE struct plane_team *plane_shared(const struct plane *plane) {
  return plane->team;
}

/* ---- entries ---- */

static inline uint64_t log_passed(const struct plane_log *log) {
  return atomic_load(&log->head);
}

static inline uint64_t log_hash(const struct plane_log *log, uint64_t index) {
  return WORD_LOAD(log->entries[index % PLANE_RING].hash);
}

static inline uint32_t log_flags(const struct plane_log *log, uint64_t index) {
  return WORD_LOAD(log->entries[index % PLANE_RING].flags) & ENTRY_FLAGS;
}

static inline bool log_is_real(const struct plane_log *log, uint64_t index) {
  return (log_flags(log, index) & ENTRY_REAL) != 0;
}

static inline uint32_t log_reals(const struct plane_log *log, uint64_t index) {
  return WORD_LOAD(log->entries[index % PLANE_RING].reals);
}

static inline uint32_t log_reals_before(const struct plane_log *log, uint64_t index) {
  return index == 0 ? 0 : log_reals(log, index - 1);
}

static inline uint32_t log_text(const struct plane_log *log, uint64_t index) {
  uint32_t flags = WORD_LOAD(log->entries[index % PLANE_RING].flags);
  return (flags & (ENTRY_REAL | ENTRY_NO_UNIT)) == ENTRY_REAL ? flags >> ENTRY_FLAG_BITS : 0;
}

/* Published with 32 bits: not after the index, and less than 2^32 before it. */
static inline uint64_t log_run_start(const struct plane_log *log, uint64_t index) {
  uint32_t low = WORD_LOAD(log->entries[index % PLANE_RING].run_start);
  return index - (uint32_t)((uint32_t)index - low);
}

static inline struct log_entry log_entry(const struct plane_log *log, uint64_t index) {
  const struct plane_entry *entry = &log->entries[index % PLANE_RING];
  uint32_t flags = WORD_LOAD(entry->flags), ranks = WORD_LOAD(entry->ranks);
  return (struct log_entry){
      .hash = WORD_LOAD(entry->hash),
      .reals = WORD_LOAD(entry->reals),
      .run_start = WORD_LOAD(entry->run_start),
      .flags = flags & ENTRY_FLAGS,
      .text = flags >> ENTRY_FLAG_BITS,
      .source = ranks & UINT16_MAX,
      .last_joiner = ranks >> 16,
      .epoch = ranks >> 16 & UINT8_MAX,
      .apart = ranks >> 24,
  };
}

static inline void log_pass(struct plane_log *own, uint64_t index, const struct log_entry *passed) {
  struct plane_entry *entry = &own->entries[index % PLANE_RING];
  uint32_t high =
      passed->flags & ENTRY_REJOIN ? passed->last_joiner : passed->apart << 8 | passed->epoch;
  WORD_STORE(entry->hash, passed->hash);
  WORD_STORE(entry->reals, passed->reals);
  WORD_STORE(entry->run_start, passed->run_start);
  WORD_STORE(entry->flags, passed->text << ENTRY_FLAG_BITS | passed->flags);
  WORD_STORE(entry->ranks, high << 16 | passed->source);
  atomic_exchange(&own->head, index + 1);
}

static LOG_INLINE void log_commit(struct plane_log *own, uint64_t *head, const uint64_t *hash,
                                  uint32_t *reals, const uint32_t *run_start) {
  uint64_t index = *head;
  struct plane_entry *entry = &own->entries[index % PLANE_RING];
  WORD_STORE(entry->hash, *hash);
  WORD_STORE(entry->reals, ++*reals);
  WORD_STORE(entry->run_start, *run_start);
  WORD_STORE(entry->flags, ENTRY_REAL | ENTRY_EXPECTED);
  *head = index + 1;
  atomic_exchange(&own->head, index + 1);
}

/* ---- claims ---- */

static inline uint64_t log_claimed(const struct plane_log *log) {
  return atomic_load(&log->claim);
}

static inline bool log_claims(const struct plane_log *log, uint64_t index) {
  return log_claimed(log) == index + 1;
}

static inline bool log_read_claim(const struct plane_log *log, uint64_t index,
                                  struct log_claim *claim) {
  if (!log_claims(log, index))
    return false;
  uint32_t flags = WORD_ACQUIRE(log->claim_flags);
  *claim = (struct log_claim){
      .hash = WORD_ACQUIRE(log->claim_hash),
      .signature = WORD_ACQUIRE(log->claim_signature),
      .bytes = WORD_ACQUIRE(log->claim_bytes),
      .last_real = WORD_ACQUIRE(log->claim_last_real),
      .rounds = WORD_ACQUIRE(log->claim_rounds),
      .text = WORD_ACQUIRE(log->claim_text),
      .flags = flags & CLAIM_FLAGS,
      .mark = flags >> CLAIM_MARK_SHIFT,
      .place = WORD_ACQUIRE(log->claim_place),
      .epoch = WORD_ACQUIRE(log->claim_epoch),
      .reals = WORD_ACQUIRE(log->claim_reals),
  };
  return log_claims(log, index);
}

static inline void log_write_claim(struct plane_log *own, const struct log_claim *claim) {
  WORD_RELEASE(own->claim, 0);
  WORD_RELEASE(own->claim_hash, claim->hash);
  WORD_RELEASE(own->claim_signature, claim->signature);
  WORD_RELEASE(own->claim_bytes, claim->bytes);
  WORD_RELEASE(own->claim_rounds, claim->rounds);
  WORD_RELEASE(own->claim_text, claim->text);
  WORD_RELEASE(own->claim_flags, claim->mark << CLAIM_MARK_SHIFT | claim->flags);
  WORD_RELEASE(own->claim_place, claim->place);
  WORD_RELEASE(own->claim_epoch, claim->epoch);
  WORD_RELEASE(own->claim_reals, claim->reals);
  WORD_RELEASE(own->claim_last_real, claim->last_real);
}

static inline void log_claim(struct plane_log *own, uint64_t index) {
  atomic_exchange(&own->claim, index + 1);
}

static inline void log_withdraw_claim(struct plane_log *own) {
  atomic_store(&own->claim, 0);
}

static inline bool log_has_stopped(const struct plane_log *log, uint64_t index) {
  return log_claimed(log) > index && (WORD_ACQUIRE(log->claim_flags) & CLAIM_STOPPED) != 0;
}

/* ---- states ---- */

static inline enum rank_state log_state(const struct plane_log *log) {
  uint32_t state = atomic_load(&log->state);
  return state > RANK_FAILED ? RANK_FAILED : (enum rank_state)state;
}

static inline bool log_has_ended(uint32_t state) {
  return state >= RANK_DONE;
}

static inline void log_begin(struct plane_log *own) {
  atomic_store(&own->state, RANK_PRESENT);
}

static inline void log_end(struct plane_log *own, enum rank_state state, uint64_t issued) {
  WORD_STORE(own->failed_index, issued);
  atomic_store(&own->state, state);
}

static inline void log_fail_after(struct plane_log *own, uint64_t issued) {
  WORD_STORE(own->failed_index, issued);
  atomic_store(&own->state, LOG_FOLLOWED);
}

static inline void log_fail(struct plane_log *log) {
  uint32_t state = atomic_load(&log->state);
  if (log_has_ended(state))
    return;
  WORD_STORE(log->failed_index, log_passed(log));
  atomic_compare_exchange_strong(&log->state, &state, LOG_DIED);
}

static inline bool log_has_died(const struct plane_log *log) {
  return atomic_load(&log->state) == LOG_DIED;
}

static inline bool log_has_followed(const struct plane_log *log) {
  return atomic_load(&log->state) == LOG_FOLLOWED;
}

static inline uint64_t log_failed_index(const struct plane_log *log) {
  return WORD_LOAD(log->failed_index);
}

static inline bool log_is_leaving(const struct plane_log *log) {
  return atomic_load(&log->leaving) != 0;
}

static inline void log_say_leaving(struct plane_log *own, bool leaving) {
  atomic_store(&own->leaving, leaving);
}

static inline uint64_t log_parked_since(const struct plane_log *log) {
  return WORD_LOAD(log->parked_ms);
}

static inline void log_say_parked(struct plane_log *own, uint64_t since_ms) {
  WORD_STORE(own->parked_ms, since_ms);
}

static inline bool log_awaits(const struct plane_log *log) {
  return atomic_load(&log->awaits) != 0;
}

static inline void log_say_awaits(struct plane_log *own, bool awaits) {
  atomic_store(&own->awaits, awaits);
}

static inline uint64_t log_shadows(const struct plane_log *log) {
  return WORD_LOAD(log->shadows);
}

static inline uint64_t log_joined_time(const struct plane_log *log) {
  return WORD_LOAD(log->joined_time);
}

static inline void log_say_joined(struct plane_log *own, uint64_t shadows, uint64_t time) {
  WORD_STORE(own->shadows, shadows);
  WORD_STORE(own->joined_time, time);
}

static inline uint64_t log_parts(const struct plane_log *log) {
  return atomic_load(&log->parts);
}

static inline void log_say_parts(struct plane_log *own, uint64_t parts) {
  atomic_store(&own->parts, parts);
}

static inline bool log_is_summed_up(const struct plane_log *log) {
  return atomic_load(&log->summed_up) != 0;
}

static inline void log_say_summed_up(struct plane_log *own) {
  atomic_store(&own->summed_up, 1);
}

static inline uint32_t log_refused_for(const struct plane_log *log) {
  return WORD_LOAD(log->refused_for);
}

static inline void log_set_refused_for(struct plane_log *own, uint32_t rank) {
  WORD_STORE(own->refused_for, rank);
}

/* ---- lossy shadows ---- */

static inline uint32_t log_lossy_count(const struct plane_log *log) {
  return atomic_load(&log->lossy_count);
}

static inline struct log_lossy log_last_lossy(const struct plane_log *log) {
  return (struct log_lossy){.index = atomic_load(&log->lossy_index),
                            .kind = atomic_load(&log->lossy_kind),
                            .peer = atomic_load(&log->lossy_peer)};
}

static inline void log_add_lossy(struct plane_log *own, const struct log_lossy *lossy) {
  atomic_store(&own->lossy_kind, lossy->kind);
  atomic_store(&own->lossy_peer, lossy->peer);
  atomic_store(&own->lossy_index, lossy->index);
  atomic_fetch_add(&own->lossy_count, 1);
}

/* ---- sends and receives ---- */

static inline uint64_t log_answering(const struct plane_log *log) {
  return atomic_load(&log->answering);
}

static inline void log_say_answering(struct plane_log *own, uint64_t index) {
  atomic_store(&own->answering, index + 1);
}

static inline void log_stop_answering(struct plane_log *own) {
  if (WORD_LOAD(own->answering) != 0)
    atomic_store(&own->answering, 0);
}

static inline bool log_has_mirrored(const struct plane_log *log, uint64_t index) {
  return atomic_load(&log->mirrored) == index + 1;
}

static inline void log_say_mirrored(struct plane_log *own, uint64_t index) {
  atomic_store(&own->mirrored, index + 1);
}

/* ---- several teams ---- */

static inline uint64_t log_busy_until(const struct plane_log *log) {
  return atomic_load(&log->busy_until);
}

static inline void log_say_busy(struct plane_log *own, uint64_t until) {
  atomic_store(&own->busy_until, until);
}

static inline uint64_t log_asks_about(const struct plane_log *log) {
  return atomic_load(&log->asks_about);
}

static inline void log_ask_about(struct plane_log *own, uint64_t identity) {
  atomic_store(&own->asks_about, identity);
}

static inline uint64_t log_holds(const struct plane_log *log) {
  return atomic_load(&log->holds);
}

static inline void log_say_holds(struct plane_log *own, uint64_t identity) {
  atomic_store(&own->holds, identity);
}

static inline uint64_t log_moves(const struct plane_log *log) {
  return atomic_load(&log->moves);
}

static inline void log_move(struct plane_log *own) {
  atomic_store(&own->moves, atomic_load(&own->moves) + 1);
}

static inline bool log_keeps_step(const struct plane_log *log) {
  return atomic_load(&log->keeps_step) != 0;
}

static inline void log_say_keeps_step(struct plane_log *own, bool keeps) {
  atomic_store(&own->keeps_step, keeps);
}

static inline bool log_asks(const struct plane_log *log) {
  return atomic_load(&log->asks) != 0;
}

static inline void log_say_asks(struct plane_log *own, bool asks) {
  atomic_store(&own->asks, asks);
}

static inline bool log_is_unsteady(const struct plane_log *log) {
  return atomic_load(&log->unsteady) != 0;
}

static inline void log_say_unsteady(struct plane_log *own) {
  atomic_store(&own->unsteady, 1);
}

static inline uint64_t log_begun(const struct plane_log *log, bool within) {
  return atomic_load(within ? &log->begun_within : &log->begun);
}

static inline void log_say_begun(struct plane_log *own, bool within, uint64_t begun) {
  atomic_store(within ? &own->begun_within : &own->begun, begun);
}

/* ---- attention ---- */

static inline plane_calm_t plane_calm(const struct plane_team *shared) {
  return atomic_load(&shared->attention) / PLANE_EVENT * PLANE_EVENT;
}

static LOG_INLINE bool plane_is_calm(const struct plane_team *shared, const plane_calm_t *calm) {
  return atomic_load(&shared->attention) == *calm;
}

static LOG_INLINE bool plane_has_events(const struct plane_team *shared, const plane_calm_t *calm) {
  return WORD_LOAD(shared->attention) / PLANE_EVENT != *calm / PLANE_EVENT;
}

static inline void plane_add_event(struct plane_team *shared, plane_calm_t *calm) {
  if (calm != NULL)
    *calm += PLANE_EVENT;
  atomic_fetch_add(&shared->attention, PLANE_EVENT);
}

static inline void plane_say_waiting(struct plane_team *shared) {
  atomic_fetch_or(&shared->attention, PLANE_WAITING);
}

static inline bool plane_take_waiting(struct plane_team *shared) {
  return (atomic_load(&shared->attention) & PLANE_WAITING) != 0 &&
         (atomic_fetch_and(&shared->attention, ~PLANE_WAITING) & PLANE_WAITING) != 0;
}

static inline bool plane_is_napping(const struct plane_team *shared) {
  return atomic_load(&shared->napping) != 0;
}

static inline void plane_say_napping(struct plane_team *shared) {
  if (!plane_is_napping(shared))
    atomic_store(&shared->napping, 1);
}

static inline bool plane_take_napping(struct plane_team *shared) {
  return plane_is_napping(shared) && atomic_exchange(&shared->napping, 0) != 0;
}

static inline uint32_t plane_bell(const struct plane *plane) {
  return WORD_ACQUIRE(plane->team->bell);
}

static inline bool plane_is_told(struct plane_team *shared, uint64_t index) {
  uint64_t told = atomic_load(&shared->told);
  while (told <= index)
    if (atomic_compare_exchange_weak(&shared->told, &told, index + 1))
      return false;
  return true;
}

static inline bool plane_is_mixed(const struct plane_team *shared) {
  return WORD_LOAD(shared->mixed) != 0;
}

static inline bool plane_say_mixed(struct plane_team *shared) {
  return atomic_exchange(&shared->mixed, 1) != 0;
}

static inline uint64_t plane_last_told(const struct plane_team *shared) {
  return atomic_load(&shared->told);
}

static inline bool plane_is_apart(const struct plane_team *shared) {
  return atomic_load(&shared->apart) != 0;
}

#endif
