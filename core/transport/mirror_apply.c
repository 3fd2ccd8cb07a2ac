/* Applying frames to a mirror (mirror.h). The order of the parts of a frame is that in which they
 * are applied, and each is checked before it is. */
#include "core/transport/mirror_private.h"

/* ---- texts ---- */

static void apply_texts(struct plane_log *log, struct mirror_in *in) {
  uint64_t end = WORD_LOAD(log->text_end);
  uint64_t begin = mirror_get(in), words = mirror_get_up_to(in, PLANE_TEXT / 8);
  in->bad |= begin % 8 != 0 || begin < end || begin > UINT64_MAX - PLANE_TEXT;
  for (uint64_t i = 0; i < words && !in->bad; i++) {
    uint64_t word = 0;
    unsigned mask = in->at < in->end ? *in->at++ : 0x100;
    if (mask > 0xff || in->end - in->at < __builtin_popcount(mask)) {
      in->bad = true;
      return;
    }
    for (unsigned byte = 0; byte < 8; byte++)
      if (mask >> byte & 1)
        word |= (uint64_t)*in->at++ << 8 * byte;
    WORD_STORE(log->text[(begin / 8 + i) % (PLANE_TEXT / 8)], word);
  }
  if (!in->bad)
    WORD_RELEASE(log->text_end, begin + 8 * words);
}

/* ---- operations ---- */

static void apply_operation(struct plane_log *log, uint64_t number, struct mirror_in *in) {
  uint64_t count = mirror_get(in), index = mirror_get(in);
  uint64_t rest[6];
  for (uint32_t i = 0; i < 6; i++)
    rest[i] = mirror_get_up_to(in, UINT32_MAX);
  if (in->bad)
    return;
  struct plane_operation *operation = &log->operations[number % PLANE_OPERATIONS];
  WORD_STORE(operation->count, count);
  WORD_STORE(operation->index, index);
  WORD_STORE(operation->comm, (uint32_t)rest[0]);
  WORD_STORE(operation->ordinal, (uint32_t)rest[1]);
  WORD_STORE(operation->group, (uint32_t)rest[2]);
  WORD_STORE(operation->what, (uint32_t)rest[3]);
  WORD_STORE(operation->place, (uint32_t)rest[4]);
  WORD_STORE(operation->flags, (uint32_t)rest[5]);
}

static void apply_operations(struct plane_log *log, struct mirror_in *in) {
  uint64_t begin = mirror_get(in), first = mirror_get(in);
  uint64_t count = mirror_get_up_to(in, PLANE_OPERATIONS), end = first + count;
  in->bad |= first < log_operations_end(log) || begin > first || end < first ||
             end - begin > PLANE_OPERATIONS || (first > log_operations_end(log) && begin < first);
  if (in->bad)
    return;
  uint64_t gone = begin < log_operations_end(log) ? begin : log_operations_end(log);
  if (gone > log_operations_begin(log))
    log_drop_operations(log, gone);
  for (uint64_t i = 0; i < count && !in->bad; i++)
    apply_operation(log, first + i, in);
  if (in->bad)
    return;
  log_show_operations(log, end);
  if (begin > log_operations_begin(log))
    log_drop_operations(log, begin);
}

static void apply_pairs(struct plane_log *log, struct mirror_in *in) {
  for (uint64_t left = mirror_get_up_to(in, PLANE_PAIRS); left > 0 && !in->bad; left--) {
    uint64_t at = mirror_get_up_to(in, PLANE_PAIRS - 1);
    uint64_t key = mirror_get(in), issued = mirror_get(in);
    struct plane_pair *pair = &log->pairs[at];
    if (in->bad)
      return;
    WORD_RELEASE(pair->key, key);
    atomic_store(&pair->issued, issued);
  }
}

/* ---- words ---- */

/* What has been said of a rank whose process is gone stays (log_fail). */
static bool apply_state(struct plane_log *log, uint32_t state) {
  uint32_t now = atomic_load(&log->state);
  while (!log_has_ended(now) && state <= LOG_FOLLOWED)
    if (atomic_compare_exchange_weak(&log->state, &now, state))
      return log_has_ended(state);
  return false;
}

static void apply_words(struct plane_log *log, uint64_t now_ms, struct mirror_in *in, bool *event) {
  for (uint64_t left = mirror_get_up_to(in, MIRROR_WORDS); left > 0 && !in->bad; left--) {
    uint32_t word = (uint32_t)mirror_get_up_to(in, MIRROR_WORDS - 1);
    uint64_t value = mirror_get(in);
    in->bad |= mirror_words[word].bytes == 4 && value > UINT32_MAX;
    if (in->bad)
      return;
    if (word == WORD_STATE)
      *event |= apply_state(log, (uint32_t)value);
    else
      mirror_word_store(log, word, mirror_word_receive(word, value, now_ms));
    *event |= word == WORD_LOSSY_COUNT || word == WORD_UNSTEADY;
  }
}

/* ---- entries ---- */

static void apply_entry(struct plane_log *log, uint64_t index, uint64_t *back,
                        struct mirror_in *in) {
  static const struct plane_entry none;
  const struct plane_entry *before = index == 0 ? &none : &log->entries[(index - 1) % PLANE_RING];
  uint32_t says = in->at < in->end ? *in->at++ : UINT32_MAX;
  in->bad |= says > ENTRY_SAYS;
  uint64_t hash = !in->bad && says & ENTRY_SAYS_HASH ? mirror_get_8(in) : 0;
  if (!in->bad && says & ENTRY_SAYS_BACK)
    *back = mirror_get_up_to(in, index < ENTRY_BACK_MAX ? index : ENTRY_BACK_MAX);
  in->bad |= !(says & ENTRY_SAYS_HASH) && (*back == 0 || *back > index);
  if (in->bad)
    return;
  uint64_t flags =
      says & ENTRY_SAYS_FLAGS ? mirror_get_up_to(in, UINT32_MAX) : WORD_LOAD(before->flags);
  uint64_t more = says & ENTRY_SAYS_REALS ? mirror_unsigned(mirror_get(in)) : 0;
  uint64_t start = says & ENTRY_SAYS_START ? (uint32_t)index - mirror_get_up_to(in, UINT32_MAX)
                                           : WORD_LOAD(before->run_start);
  uint64_t ranks =
      says & ENTRY_SAYS_RANKS ? mirror_get_up_to(in, UINT32_MAX) : WORD_LOAD(before->ranks);
  if (in->bad)
    return;
  struct plane_entry *entry = &log->entries[index % PLANE_RING];
  WORD_STORE(entry->hash, says & ENTRY_SAYS_HASH ? hash : log_hash(log, index - *back));
  WORD_STORE(entry->reals,
             WORD_LOAD(before->reals) + (uint32_t)(flags & ENTRY_REAL) + (uint32_t)more);
  WORD_STORE(entry->run_start, (uint32_t)start);
  WORD_STORE(entry->flags, (uint32_t)flags);
  WORD_STORE(entry->ranks, (uint32_t)ranks);
}

static void apply_entries(struct plane_log *log, struct mirror_in *in) {
  uint64_t head = log_passed(log), back = 0;
  uint64_t first = mirror_get(in), count = mirror_get_up_to(in, PLANE_RING);
  in->bad |= first < head || first > UINT64_MAX - PLANE_RING;
  for (uint64_t i = 0; i < count && !in->bad; i++)
    apply_entry(log, first + i, &back, in);
  if (!in->bad)
    atomic_exchange(&log->head, first + count);
}

/* ---- the claim ---- */

static void apply_claim(struct plane_log *log, struct mirror_in *in) {
  uint64_t claim = log_passed(log) + mirror_unsigned(mirror_get(in));
  bool fields = mirror_get_up_to(in, 1) != 0;
  uint64_t hash = fields ? mirror_get_8(in) : 0, signature = fields ? mirror_get_8(in) : 0;
  uint64_t numbers[8] = {0};
  for (uint32_t i = 0; fields && i < 8; i++)
    numbers[i] = mirror_get_up_to(in, i < 3 ? UINT64_MAX : UINT32_MAX);
  if (in->bad)
    return;
  if (fields)
    log_write_claim(log, &(struct log_claim){.hash = hash,
                                             .signature = signature,
                                             .bytes = numbers[0],
                                             .last_real = numbers[1],
                                             .rounds = numbers[2],
                                             .text = (uint32_t)numbers[3],
                                             .flags = (uint32_t)numbers[4] & CLAIM_FLAGS,
                                             .mark = (uint32_t)numbers[4] >> CLAIM_MARK_SHIFT,
                                             .reals = (uint32_t)numbers[5],
                                             .place = (uint32_t)numbers[6],
                                             .epoch = (uint32_t)numbers[7]});
  atomic_exchange(&log->claim, claim);
}

/* ---- a frame ---- */

static void apply_part(struct plane_log *log, uint64_t now_ms, struct mirror_in *in, bool *event) {
  switch (*in->at++) {
  case PART_QUIET:
    atomic_store(&log->answering, 0);
    break;
  case PART_TEXT:
    apply_texts(log, in);
    break;
  case PART_OPERATIONS:
    apply_operations(log, in);
    break;
  case PART_PAIRS:
    apply_pairs(log, in);
    break;
  case PART_WORDS:
    apply_words(log, now_ms, in, event);
    break;
  case PART_ENTRIES:
    apply_entries(log, in);
    break;
  case PART_CLAIM:
    apply_claim(log, in);
    break;
  case PART_TAKEN:
    log_withdraw_claim(log);
    break;
  default:
    in->bad = true;
  }
}

enum mirror_applied mirror_apply(struct plane_log *log, uint64_t now_ms, const void *frame,
                                 size_t size) {
  struct mirror_in in = {frame, (const unsigned char *)frame + size, size == 0};
  bool event = false;
  in.bad = in.bad || *in.at++ != MIRROR_VERSION;
  while (!in.bad && in.at < in.end)
    apply_part(log, now_ms, &in, &event);
  return in.bad ? MIRROR_MALFORMED : event ? MIRROR_EVENT : MIRROR_APPLIED;
}

void mirror_tell(struct plane *plane, bool event, uint64_t *calm) {
  if (event)
    plane_add_event(plane->team, calm);
  /* Whoever has said that it waits before this is seen by us, or sees what has been applied. */
  atomic_thread_fence(memory_order_seq_cst);
  bool naps = plane_take_napping(plane->team), waits = plane_take_waiting(plane->team);
  if (naps || waits || event)
    plane->ring(plane);
}
