/* Reading a log, and writing frames of what has changed in it (mirror.h).
 *
 * What a rank writes last is read first, and applied last: so whatever the frame has of it, the
 * frame has what that speaks of. Entries, texts and operations are read from their rings when they
 * are written into a frame. They are still there: an entry stays until all ranks are so far that
 * their rings have room for what is written over it, and those of other machines are not, as long
 * as they have not been told (words.h); a text that a rank may need is not written over
 * (core/team/team_text.c), and what nobody needs may be anything. */
#include "core/transport/mirror.h"

#include <stdlib.h>

#include "core/transport/mirror_private.h"

#define CLAIM_NUMBERS 10u
/* Of an exchange, which moves what each rank says itself (core/team/team_claim.c). */
#define BYTES_OF_EXCHANGE UINT64_MAX

/* What stands in a log besides its rings. */
struct log_state {
  uint64_t head, claim, text_end, operations_end;
  uint64_t claimed[CLAIM_NUMBERS]; /* the fields of the claim */
  uint64_t words[MIRROR_WORDS];
};
enum { CLAIMED_HASH, CLAIMED_SIGNATURE, CLAIMED_BYTES, CLAIMED_LAST_REAL, CLAIMED_REALS = 7 };

struct pair_state {
  uint64_t key, issued;
};

struct mirror {
  struct log_state now, sent;
  uint64_t issued; /* of all pairs, as read: what operations_end comes to */
  uint64_t issued_sent;
  uint32_t back;  /* by how much the last hash of this part was found before it; 0: none was */
  uint32_t usual; /* the same of any part: where it is looked for first */
  struct pair_state pairs[PLANE_PAIRS], pairs_sent[PLANE_PAIRS];
};

struct mirror *mirror_create(void) {
  return calloc(1, sizeof(struct mirror));
}

void mirror_destroy(struct mirror *mirror) {
  free(mirror);
}

/* ---- reading ---- */

static void read_claimed(const struct plane_log *log, uint64_t claimed[CLAIM_NUMBERS]) {
  const uint64_t fields[CLAIM_NUMBERS] = {
      WORD_ACQUIRE(log->claim_hash),   WORD_ACQUIRE(log->claim_signature),
      WORD_ACQUIRE(log->claim_bytes),  WORD_ACQUIRE(log->claim_last_real),
      WORD_ACQUIRE(log->claim_rounds), WORD_ACQUIRE(log->claim_text),
      WORD_ACQUIRE(log->claim_flags),  WORD_ACQUIRE(log->claim_reals),
      WORD_ACQUIRE(log->claim_place),  WORD_ACQUIRE(log->claim_epoch),
  };
  memcpy(claimed, fields, sizeof(fields));
}

/* Operations that come after operations_end are counted the next time at the latest. */
static void read_pairs(struct mirror *mirror, const struct plane_log *log) {
  mirror->issued = 0;
  for (uint32_t i = 0; i < PLANE_PAIRS; i++) {
    uint64_t issued = atomic_load(&log->pairs[i].issued);
    uint64_t key = WORD_ACQUIRE(log->pairs[i].key);
    mirror->pairs[i] = (struct pair_state){key, key == 0 ? 0 : issued};
    mirror->issued += mirror->pairs[i].issued;
  }
}

/* A log that is not as it should be is told as one that could be. */
static void only_grows(uint64_t *position, uint64_t sent) {
  if (*position < sent || *position > UINT64_MAX / 2)
    *position = sent;
}

/* False: the claim was rewritten meanwhile. */
static bool read_state(struct mirror *mirror, const struct plane_log *log,
                       struct log_state *state) {
  for (uint32_t word = MIRROR_WORDS; word > WORD_ANSWERING + 1; word--)
    state->words[word - 1] = mirror_word_load(log, word - 1);
  state->claim = log_claimed(log);
  read_claimed(log, state->claimed);
  bool whole = log_claimed(log) == state->claim;
  for (uint32_t word = WORD_ANSWERING + 1; word > 0; word--)
    state->words[word - 1] = mirror_word_load(log, word - 1);
  state->head = log_passed(log);
  if (log_operations_end(log) != mirror->issued)
    read_pairs(mirror, log);
  state->operations_end = log_operations_end(log);
  state->text_end = WORD_ACQUIRE(log->text_end) / 8 * 8;
  only_grows(&state->head, mirror->sent.head);
  only_grows(&state->operations_end, mirror->sent.operations_end);
  only_grows(&state->text_end, mirror->sent.text_end);
  if (state->claim == 0)
    memset(state->claimed, 0, sizeof(state->claimed));
  return whole;
}

bool mirror_read(struct mirror *mirror, const struct plane_log *log) {
  struct log_state state;
  uint64_t issued = mirror->issued;
  bool same = read_state(mirror, log, &state) && issued == mirror->issued &&
              memcmp(&state, &mirror->now, sizeof(state)) == 0;
  mirror->now = state;
  return same;
}

uint64_t mirror_head(const struct mirror *mirror) {
  return mirror->now.head;
}

uint64_t mirror_written(const struct mirror *mirror) {
  return mirror->sent.head;
}

uint64_t mirror_claimed(const struct mirror *mirror, uint32_t *reals) {
  *reals = (uint32_t)mirror->now.claimed[CLAIMED_REALS];
  return mirror->now.claim;
}

bool mirror_is_written(const struct mirror *mirror) {
  return mirror->issued == mirror->issued_sent &&
         memcmp(&mirror->now, &mirror->sent, sizeof(mirror->now)) == 0;
}

/* ---- texts ---- */

static void put_bytes_of(struct mirror_out *out, uint64_t word) {
  unsigned char *mask = out->at++;
  *mask = 0;
  for (unsigned i = 0; i < 8; i++)
    if ((unsigned char)(word >> 8 * i) != 0) {
      *mask |= (unsigned char)(1u << i);
      *out->at++ = (unsigned char)(word >> 8 * i);
    }
}

static bool write_texts(struct mirror *mirror, const struct plane_log *log,
                        struct mirror_out *out) {
  uint64_t end = mirror->now.text_end, *sent = &mirror->sent.text_end;
  if (end > *sent + PLANE_TEXT)
    *sent = end - PLANE_TEXT;
  while (*sent < end && mirror_room(out) > 64) {
    uint64_t words = (end - *sent) / 8, room = (mirror_room(out) - 24) / 9;
    words = words < room ? words : room;
    *out->at++ = PART_TEXT;
    mirror_put(out, *sent);
    mirror_put(out, words);
    for (uint64_t i = 0; i < words; i++)
      put_bytes_of(out, WORD_LOAD(log->text[(*sent / 8 + i) % (PLANE_TEXT / 8)]));
    *sent += 8 * words;
  }
  return *sent == end;
}

/* ---- operations ---- */

static void put_operation(struct mirror_out *out, const struct plane_operation *operation) {
  mirror_put(out, WORD_LOAD(operation->count));
  mirror_put(out, WORD_LOAD(operation->index));
  mirror_put(out, WORD_LOAD(operation->comm));
  mirror_put(out, WORD_LOAD(operation->ordinal));
  mirror_put(out, WORD_LOAD(operation->group));
  mirror_put(out, WORD_LOAD(operation->what));
  mirror_put(out, WORD_LOAD(operation->place));
  mirror_put(out, WORD_LOAD(operation->flags));
}
#define OPERATION_BYTES 50u

/* One part. False: what was read may have been written over meanwhile. */
static bool write_operations_once(struct mirror *mirror, const struct plane_log *log,
                                  struct mirror_out *out) {
  struct mirror_out before = *out;
  uint64_t begin = log_operations_begin(log), end = mirror->now.operations_end;
  if (end > begin && end - begin > PLANE_OPERATIONS)
    begin = end - PLANE_OPERATIONS;
  uint64_t first = mirror->sent.operations_end > begin ? mirror->sent.operations_end : begin;
  first = first < end ? first : end;
  begin = begin < first ? begin : first;
  uint64_t count = end - first, room = (mirror_room(out) - 40) / OPERATION_BYTES;
  count = count < room ? count : room;
  *out->at++ = PART_OPERATIONS;
  mirror_put(out, begin);
  mirror_put(out, first);
  mirror_put(out, count);
  for (uint64_t i = first; i < first + count; i++)
    put_operation(out, &log->operations[i % PLANE_OPERATIONS]);
  if (log_operations_gone(log) > first && count > 0) {
    *out = before;
    return false;
  }
  mirror->sent.operations_end = first + count;
  return true;
}

static bool write_operations(struct mirror *mirror, const struct plane_log *log,
                             struct mirror_out *out) {
  uint64_t end = mirror->now.operations_end;
  for (unsigned tries = 0; mirror->sent.operations_end != end && tries < 64; tries++)
    if (mirror_room(out) < 128)
      return false;
    else
      (void)write_operations_once(mirror, log, out);
  return mirror->sent.operations_end == end;
}

static bool write_pairs(struct mirror *mirror, struct mirror_out *out) {
  if (mirror->issued == mirror->issued_sent)
    return true;
  for (uint32_t i = 0; i < PLANE_PAIRS; i++) {
    const struct pair_state *pair = &mirror->pairs[i];
    if (pair->key == mirror->pairs_sent[i].key && pair->issued == mirror->pairs_sent[i].issued)
      continue;
    if (mirror_room(out) < 32)
      return false;
    *out->at++ = PART_PAIRS;
    mirror_put(out, 1);
    mirror_put(out, i);
    mirror_put(out, pair->key);
    mirror_put(out, pair->issued);
    mirror->pairs_sent[i] = *pair;
  }
  mirror->issued_sent = mirror->issued;
  return true;
}

/* ---- words ---- */

static bool write_words(struct mirror *mirror, struct mirror_out *out, enum word_when when,
                        bool answering, uint64_t now_ms) {
  uint32_t changed[MIRROR_WORDS], count = 0;
  for (uint32_t word = 0; word < MIRROR_WORDS; word++)
    if (mirror_words[word].when == when && (word == WORD_ANSWERING) == answering &&
        mirror->now.words[word] != mirror->sent.words[word])
      changed[count++] = word;
  if (count == 0)
    return true;
  if (mirror_room(out) < 2 + count * 11)
    return false;
  *out->at++ = PART_WORDS;
  mirror_put(out, count);
  for (uint32_t i = 0; i < count; i++) {
    mirror_put(out, changed[i]);
    mirror_put(out, mirror_word_send(changed[i], mirror->now.words[changed[i]], now_ms));
    mirror->sent.words[changed[i]] = mirror->now.words[changed[i]];
  }
  return true;
}

/* ---- entries ---- */

/* How far before an index the same hash stands, among what has been written; 0: nowhere near. */
static uint32_t find_hash(const struct mirror *mirror, const struct plane_log *log, uint64_t index,
                          uint64_t hash) {
  if (mirror->usual != 0 && mirror->usual <= index && log_hash(log, index - mirror->usual) == hash)
    return mirror->usual;
  for (uint32_t back = 1; back <= ENTRY_BACK_MAX && back <= index; back++)
    if (log_hash(log, index - back) == hash)
      return back;
  return 0;
}

static void put_entry(struct mirror *mirror, const struct plane_log *log, uint64_t index,
                      struct mirror_out *out) {
  static const struct plane_entry none;
  const struct plane_entry *entry = &log->entries[index % PLANE_RING];
  const struct plane_entry *before = index == 0 ? &none : &log->entries[(index - 1) % PLANE_RING];
  uint64_t hash = WORD_LOAD(entry->hash);
  uint32_t flags = WORD_LOAD(entry->flags), ranks = WORD_LOAD(entry->ranks);
  uint32_t reals = WORD_LOAD(before->reals) + (flags & ENTRY_REAL);
  uint32_t back = find_hash(mirror, log, index, hash);
  unsigned char *says = out->at++;
  *says = (unsigned char)((back == 0 ? ENTRY_SAYS_HASH : 0) |
                          (back != 0 && back != mirror->back ? ENTRY_SAYS_BACK : 0) |
                          (WORD_LOAD(entry->reals) != reals ? ENTRY_SAYS_REALS : 0) |
                          (WORD_LOAD(entry->run_start) != WORD_LOAD(before->run_start)
                               ? ENTRY_SAYS_START
                               : 0) |
                          (flags != WORD_LOAD(before->flags) ? ENTRY_SAYS_FLAGS : 0) |
                          (ranks != WORD_LOAD(before->ranks) ? ENTRY_SAYS_RANKS : 0));
  if (*says & ENTRY_SAYS_HASH)
    mirror_put_8(out, hash);
  if (*says & ENTRY_SAYS_BACK)
    mirror_put(out, back);
  if (*says & ENTRY_SAYS_FLAGS)
    mirror_put(out, flags);
  if (*says & ENTRY_SAYS_REALS)
    mirror_put(out, mirror_signed((uint64_t)(int32_t)(WORD_LOAD(entry->reals) - reals)));
  if (*says & ENTRY_SAYS_START)
    mirror_put(out, (uint32_t)index - WORD_LOAD(entry->run_start));
  if (*says & ENTRY_SAYS_RANKS)
    mirror_put(out, ranks);
  if (back != 0)
    mirror->back = mirror->usual = back;
}

static bool write_entries(struct mirror *mirror, const struct plane_log *log, uint64_t below,
                          struct mirror_out *out) {
  uint64_t *sent = &mirror->sent.head;
  uint64_t end = below < mirror->now.head ? below : mirror->now.head;
  if (end > *sent && end - *sent > PLANE_RING)
    *sent = end - PLANE_RING;
  while (*sent < end && mirror_room(out) > 2 * (size_t)ENTRY_BYTES_MAX) {
    uint64_t count = end - *sent, room = (mirror_room(out) - 24) / ENTRY_BYTES_MAX;
    count = count < room ? count : room;
    *out->at++ = PART_ENTRIES;
    mirror_put(out, *sent);
    mirror_put(out, count);
    mirror->back = 0; /* a part is read by itself */
    for (uint64_t i = 0; i < count; i++)
      put_entry(mirror, log, (*sent)++, out);
  }
  return *sent >= end;
}

/* ---- the claim ---- */

static bool write_claim(struct mirror *mirror, struct mirror_out *out) {
  const struct log_state *now = &mirror->now;
  bool fields = memcmp(now->claimed, mirror->sent.claimed, sizeof(now->claimed)) != 0;
  if (now->claim == mirror->sent.claim && !fields)
    return true;
  if (mirror_room(out) < 112)
    return false;
  *out->at++ = now->claim == 0 ? PART_TAKEN : PART_CLAIM;
  if (now->claim != 0) {
    mirror_put(out, mirror_signed(now->claim - now->head));
    *out->at++ = fields;
  }
  if (now->claim != 0 && fields) {
    mirror_put_8(out, now->claimed[CLAIMED_HASH]);
    mirror_put_8(out, now->claimed[CLAIMED_SIGNATURE]);
    for (uint32_t i = CLAIMED_BYTES; i < CLAIM_NUMBERS; i++)
      mirror_put(out, now->claimed[i]);
  }
  mirror->sent.claim = now->claim;
  memcpy(mirror->sent.claimed, now->claimed, sizeof(now->claimed));
  return true;
}

/* Of an exchange the rank says that it answers once it has claimed, of all else before. */
static bool write_claim_answering(struct mirror *mirror, struct mirror_out *out, uint64_t now_ms) {
  bool exchange = mirror->now.claimed[CLAIMED_BYTES] == BYTES_OF_EXCHANGE;
  return (exchange || write_words(mirror, out, WORD_LATE, true, now_ms)) &&
         write_claim(mirror, out) && write_words(mirror, out, WORD_LATE, true, now_ms);
}

/* ---- a frame ---- */

static void write_quiet(struct mirror *mirror, struct mirror_out *out) {
  uint64_t *sent = &mirror->sent.words[WORD_ANSWERING];
  if (*sent == 0 || mirror->now.words[WORD_ANSWERING] == *sent)
    return;
  *out->at++ = PART_QUIET;
  *sent = 0;
}

size_t mirror_write(struct mirror *mirror, const struct plane_log *log, uint64_t below,
                    uint64_t now_ms, void *frame, size_t room) {
  struct mirror_out out = {frame, (unsigned char *)frame + room};
  if (room < MIRROR_FRAME_MIN)
    return 0;
  *out.at++ = MIRROR_VERSION;
  write_quiet(mirror, &out);
  if (write_texts(mirror, log, &out) && write_operations(mirror, log, &out) &&
      write_words(mirror, &out, WORD_EARLY, false, now_ms) && write_pairs(mirror, &out) &&
      write_entries(mirror, log, below, &out) && below > mirror->now.head &&
      write_words(mirror, &out, WORD_LATE, false, now_ms) &&
      write_claim_answering(mirror, &out, now_ms))
    (void)write_words(mirror, &out, WORD_LAST, false, now_ms);
  size_t size = (size_t)(out.at - (unsigned char *)frame);
  return size == 1 ? 0 : size;
}

/* ---- what the ranks of a team share ---- */

struct mirror_team mirror_team_read(const struct plane_team *team) {
  return (struct mirror_team){.told = atomic_load(&team->told),
                              .posting = atomic_load(&team->point_to_point),
                              .apart = atomic_load(&team->apart)};
}

bool mirror_team_is_less(const struct mirror_team *a, const struct mirror_team *b) {
  return a->told < b->told || a->posting < b->posting || a->apart < b->apart;
}

static bool raise_word(_Atomic uint32_t *word, uint32_t value) {
  uint32_t now = atomic_load(word);
  while (now < value)
    if (atomic_compare_exchange_weak(word, &now, value))
      return true;
  return false;
}

bool mirror_team_raise(struct plane_team *team, const struct mirror_team *said, bool *event) {
  bool raised = false;
  uint64_t told = atomic_load(&team->told);
  while (!raised && told < said->told)
    raised = atomic_compare_exchange_weak(&team->told, &told, said->told);
  *event = said->apart <= 1 && raise_word(&team->apart, said->apart);
  if (said->posting <= POSTING_LOST)
    raised |= raise_word(&team->point_to_point, said->posting);
  return raised || *event;
}
