/* The agreed sequence as one rank keeps it (team.h): publishing, claiming, following.
 *
 * Everything another rank may read is in the plane's logs; everything in struct team is private.
 * What other ranks published is never trusted further than its hash: a text is copied out, measured
 * and hashed before it is used.
 */
#include "core/team.h"

#include <assert.h>
#include <stdlib.h>

#include "core/settle.h"
#include "core/team_private.h"

/* ---- creation ---- */

struct team *team_create(struct plane *plane) {
  struct team *team = calloc(1, sizeof(*team));
  if (team == NULL)
    return NULL;
  team->plane = plane;
  team->own = plane->logs[plane->rank];
  team->shared = plane->team;
  team->learner = learner_create();
  team->table = unit_table_create();
  team->peers = peers_create(plane);
  team->claims = calloc(plane->nranks, sizeof(*team->claims));
  team->lossy_seen = calloc(plane->nranks, sizeof(*team->lossy_seen));
  team->members_claimed = calloc(UNIT_MEMBERS_MAX, sizeof(struct member));
  team->members_followed = calloc(UNIT_MEMBERS_MAX, sizeof(struct member));
  if (team->learner == NULL || team->table == NULL || team->peers == NULL || team->claims == NULL ||
      team->lossy_seen == NULL || team->members_claimed == NULL || team->members_followed == NULL) {
    team_destroy(team);
    return NULL;
  }
  team->limit = PLANE_RUN_AHEAD;
  team->foreseen[0] = &team_nothing;
  team->expected = team->foreseen;
  atomic_store(&team->own->state, RANK_PRESENT);
  return team;
}

void team_destroy(struct team *team) {
  if (team == NULL)
    return;
  learner_destroy(team->learner);
  unit_table_destroy(team->table);
  peers_destroy(team->peers);
  free(team->claims);
  free(team->lossy_seen);
  free(team->members_claimed);
  free(team->members_followed);
  free(team);
}

struct known_unit team_nothing = {.nmembers = UINT32_MAX};

/* Whether the entry ring has room for one more entry. Moves the limit on. */
static bool has_room(struct team *team) {
  if (team->head < team->limit)
    return true;
  team->limit = team_slowest(team) + PLANE_RUN_AHEAD;
  return team->head < team->limit;
}

/* What the team learns and shows of a unit too big to be written out: one member that stands for
 * its hash. */
static struct unit stand_in(struct unit unit, struct member *member) {
  if (unit.nmembers <= UNIT_MEMBERS_MAX)
    return unit;
  *member = (struct member){.count = unit_hash(unit), .root = ROOT_NONE, .kind = 0xff};
  return (struct unit){member, 1};
}

/* ---- publishing ---- */

/* A unit that all claimed although some rank had been waiting for it is where ranks meet at the end
 * of a loop. It must not be committed later just because epochs were of equal length for a while.
 * Its place is known by the unit before it: a barrier and a loss may well have the same signature.
 */
static uint64_t meeting_bit(symbol_t before, symbol_t unit) {
  uint64_t mixed = (((uint64_t)before << 32) | unit) * UINT64_C(0x9e3779b97f4a7c15);
  return mixed >> 52; /* 4096 bits */
}

static bool is_meeting(const struct team *team, symbol_t before, symbol_t unit) {
  uint64_t bit = meeting_bit(before, unit);
  return (team->meetings[bit / 64] >> bit % 64 & 1) != 0;
}

/* Says what may be committed now: nothing, or one unit. */
static void foresee_one(struct team *team, struct known_unit *known) {
  team->foreseen[0] = known;
  team->foreseen[1] = &team_nothing;
  team->expected = team->foreseen;
  team->rounds = 0;
}

/* What may be committed after the unit that has just been learnt. */
static void expect(struct team *team) {
  symbol_t symbol = learner_expected(team->learner);
  /* Counts as a use on every rank alike: one will commit the unit without interning it, another
   * follow it and intern it. */
  struct known_unit *known = unit_table_use(team->table, symbol);
  bool may_commit = known != NULL && learner_is_firm(team->learner) &&
                    !(known->marked && is_meeting(team, team->symbol_last, symbol));
  team->symbol_expected = symbol;
  foresee_one(team, may_commit ? known : &team_nothing);
}

void team_expect_nothing(struct team *team) {
  team_catch_up(team);
  foresee_one(team, &team_nothing);
  team->foresight = 0;
}

/* What may be committed after the first unit expected, if all goes on as it does: further with each
 * time that it did. In whole rounds of the loop body where there is room for one, see catch_up. */
static void look_ahead(struct team *team) {
  symbol_t symbols[TEAM_FORESEEN], before = team->symbol_expected;
  uint32_t count = 1, length = learner_body_length(team->learner);
  if (team->foreseen[0] == &team_nothing || team->rounds != 0)
    return;
  team->foresight = team->foresight == 0 ? 8 : 2 * team->foresight;
  if (team->foresight > TEAM_FORESEEN)
    team->foresight = TEAM_FORESEEN;
  uint32_t room = team->foresight;
  if (length <= room)
    room -= room % length;
  for (uint32_t n = learner_foresee(team->learner, symbols, room); count < n; count++) {
    struct known_unit *known = unit_table_known(team->table, symbols[count]);
    if (known == NULL || (known->marked && is_meeting(team, before, symbols[count])))
      break;
    team->foreseen[count] = known;
    before = symbols[count];
  }
  team->foreseen[count] = &team_nothing;
  /* The first unit comes after the last again: it must be one to be committed there too. */
  bool closed = !(team->foreseen[0]->marked && is_meeting(team, before, symbols[0]));
  team->rounds =
      count % length == 0 && count == team->foresight - team->foresight % length && closed ? count
                                                                                           : 0;
  team->rounds_used = false;
}

/* As expect does for one. */
static void use_foreseen(struct team *team, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    team->foreseen[i]->used = true;
}

void team_catch_up(struct team *team) {
  uint32_t count = (uint32_t)(team->expected - team->foreseen);
  if (count == 0)
    return;
  use_foreseen(team, count);
  team->symbol_last = team->foreseen[count - 1]->symbol;
  learner_steps_expected(team->learner, count);
  expect(team);
}

/* The same where whole rounds have been committed: the next ones are the same units. Nothing has
 * been interned in between, so they are still known, and what was used then still counts as used.
 */
static bool begin_rounds_again(struct team *team) {
  uint32_t count = (uint32_t)(team->expected - team->foreseen);
  if (count == 0 || count != team->rounds || team->foresight < TEAM_FORESEEN ||
      learner_calm(team->learner) < 2 * (uint64_t)count)
    return false;
  if (!team->rounds_used)
    use_foreseen(team, count);
  team->rounds_used = true;
  learner_steps_expected(team->learner, count);
  team->symbol_last = team->foreseen[count - 1]->symbol;
  team->expected = team->foreseen;
  return true;
}

void team_look_further(struct team *team) {
  if (!begin_rounds_again(team)) {
    team_catch_up(team);
    look_ahead(team);
  }
}

bool team_commit_slowly(struct team *team, struct unit unit) {
  team_look_further(team);
  const struct known_unit *expected = *team->expected;
  if (unit.nmembers != expected->nmembers ||
      memcmp(unit.members, expected->members, sizeof(*unit.members) * unit.nmembers) != 0 ||
      !has_room(team))
    return false;
  if (!team->run_real) {
    team->run_real = true;
    team->run_start = (uint32_t)team->head;
    team->shadows = 0;
  }
  bool committed = team_commit_expected(team);
  assert(committed);
  if (team_is_awaited(team))
    team_published(team);
  return committed;
}

static void learn(struct team *team, struct unit unit, uint32_t flags) {
  struct member member;
  symbol_t symbol = unit_table_intern(team->table, stand_in(unit, &member));
  if (flags & ENTRY_MEETING) {
    uint64_t bit = meeting_bit(team->symbol_last, symbol);
    team->meetings[bit / 64] |= UINT64_C(1) << bit % 64;
    unit_table_mark(team->table, symbol);
  }
  if (symbol != SYMBOL_NONE)
    learner_step(team->learner, symbol, unit_table_coarse(team->table, symbol));
  else /* out of memory: from here on this rank would expect something else than the others */
    team_fail(team, FAILURE_MEMORY, team->plane->rank, team->head);
  team->symbol_last = symbol;
  if (flags & ENTRY_DEVIATION) {
    team->deviations[team->ndeviations++ % TEAM_DEVIATIONS] = team->head - 1;
  }
  expect(team);
  /* Where all have met, the next phase may begin, and not with the same unit for all. */
  if (flags & ENTRY_DEVIATION)
    team_expect_nothing(team);
}

void team_published(struct team *team) {
  uint64_t attention = atomic_load(&team->shared->attention);
  if ((attention & PLANE_WAITING) != 0 &&
      (atomic_fetch_and(&team->shared->attention, ~PLANE_WAITING) & PLANE_WAITING) != 0)
    team->plane->ring(team->plane);
}

/* Passes an index. */
static void publish(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                    uint32_t text) {
  struct plane_entry *entry = &team->own->entries[team->head % PLANE_RING];
  bool real = (flags & ENTRY_REAL) != 0;
  if (real != team->run_real || team->head == 0) {
    team->run_real = real;
    team->run_start = (uint32_t)team->head;
  }
  team->shadows = real ? 0 : team->shadows + 1;
  team->shadows_total += !real;
  team->reals += real;
  if (flags & ENTRY_LEAVE)
    team->left_at[team->leaves++ % TEAM_LEAVES] = team->head;
  STORE(entry->hash, hash);
  STORE(entry->reals, team->reals);
  STORE(entry->run_start, team->run_start);
  STORE(entry->flags, text << ENTRY_FLAG_BITS | flags);
  atomic_exchange(&team->own->head, ++team->head);
  if (!(flags & ENTRY_LEAVE))
    learn(team, unit, flags);
  team_published(team);
  assert(team_is_valid(team));
}

/* ---- claiming ---- */

/* ncclDataType_t in NCCL's order (nccl.h): int8, uint8, int32, uint32, int64, uint64, half, float,
 * double, bfloat16, and two of 8 bits. */
static uint64_t unit_bytes(struct unit unit) {
  static const uint8_t size[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < unit.nmembers; i++) {
    uint8_t datatype = unit.members[i].datatype;
    bytes += unit.members[i].count * (datatype < sizeof(size) ? size[datatype] : 1);
  }
  return bytes;
}

/* Says that this rank answers what is posted, if it does. Whether it has said anything new. */
static bool say_answering(struct team *team) {
  if (!peers_are_tracked(team->plane) || LOAD(team->own->answering) == team->head + 1 ||
      !team_is_answering(team))
    return false;
  atomic_store(&team->own->answering, team->head + 1);
  return true;
}

/* Writes the fields of a claim. Releases: whoever sees a new field sees that the old claim is gone,
 * and that our head had passed it before. */
static void write_claim(struct team *team, uint64_t hash, uint64_t bytes, uint32_t text,
                        uint32_t flags) {
  struct plane_log *own = team->own;
  atomic_store_explicit(&own->claim, 0, memory_order_release);
  atomic_store_explicit(&own->claim_hash, hash, memory_order_release);
  atomic_store_explicit(&own->claim_bytes, bytes, memory_order_release);
  atomic_store_explicit(&own->claim_text, text, memory_order_release);
  atomic_store_explicit(&own->claim_flags, flags, memory_order_release);
  atomic_store_explicit(&own->claim_reals, team->reals, memory_order_release);
}

/* Shows the claim at the present index, unless this rank has yielded there. A reader that looked
 * before sees another index afterwards, and looks again. */
static void show_claim(struct team *team) {
  if (!team->claim_text_written) {
    if (team->claim.nmembers != 0 && !team_write_text(team))
      return;
    team->claim_text_written = true;
  }
  if (team_is_yielding(team))
    return;
  if (!team->claim_written) {
    write_claim(team, team->claim_hash, unit_bytes(team->claim), team->claim_text,
                team->claim_flags);
    team->claim_written = true;
  }
  /* Sequentially consistent: of the last two claimants at least one sees that all have claimed. */
  if (LOAD(team->own->claim) == team->head + 1)
    return;
  /* First: of who is known to be parked it is known whether it answers. */
  (void)say_answering(team);
  atomic_exchange(&team->own->claim, team->head + 1);
  /* Others wait until all have come to their index. */
  if (peers_are_tracked(team->plane))
    team_published(team);
}

void team_yield(struct team *team) {
  assert(!team->claimed && !team_is_yielding(team));
  team_catch_up(team);
  write_claim(team, 0, 0, 0, CLAIM_YIELD);
  team->yielded = team->head + 1;
  team_expect_nothing(team);
  (void)say_answering(team);
  atomic_exchange(&team->own->claim, team->head + 1);
  team_published(team);
}

void team_claim(struct team *team, struct unit unit, uint32_t flags) {
  assert(!team->claimed);
  team_catch_up(team);
  team->foresight = 0;
  team->claim = unit;
  if (unit.nmembers != 0 && unit.nmembers <= UNIT_MEMBERS_MAX) {
    memcpy(team->members_claimed, unit.members, unit.nmembers * sizeof(*unit.members));
    team->claim.members = team->members_claimed;
  }
  team->claim_hash = unit.nmembers == 0 ? 0 : unit_hash(unit);
  team->claim_flags = flags;
  team->claim_text = 0;
  team->claimed = true;
  team->claim_written = team->claim_text_written = false;
  show_claim(team);
}

void team_claim_leave(struct team *team) {
  team_claim(team, (struct unit){NULL, 0}, 0);
}

void team_give_up(struct team *team) {
  team->claimed = false;
  atomic_store(&team->own->claim, 0);
  team_stop_answering(team);
}

/* ---- following: some rank has passed our index ---- */

/* Passes the present index as the unit (or LEAVE) that G has there: the unit of rank `source`, with
 * the flags of the rank that knew. */
static enum team_verdict pass(struct team *team, struct unit unit, uint64_t hash, uint32_t flags,
                              uint32_t source) {
  bool mine = team->claimed && team->claim_hash == hash;
  team->source = source;
  uint32_t common =
      flags & (ENTRY_EXPECTED | ENTRY_LEAVE | ENTRY_MEETING | ENTRY_REFUSED | ENTRY_DEVIATION);
  if (mine) {
    team->claimed = false;
    publish(team, team->claim, hash, common | ENTRY_REAL, team->claim_text);
    if (flags & ENTRY_LEAVE)
      return TEAM_LEFT;
    return flags & ENTRY_REFUSED ? TEAM_REFUSED : TEAM_REAL;
  }
  publish(team, unit, hash, common, source);
  return flags & ENTRY_REFUSED ? TEAM_PARKED : TEAM_SHADOW;
}

/* Where the members of G[head] are written, given the entry of a rank that has passed it: in that
 * rank's log, or, where it only shadowed the unit, in the log of the rank it had it from (which may
 * not have passed the index itself yet, and then still claims it). */
static bool find_text(const struct team *team, uint32_t *rank, uint32_t flags, uint32_t *position) {
  uint32_t source = flags >> ENTRY_FLAG_BITS;
  if (flags & ENTRY_REAL) {
    *position = source;
    return true;
  }
  if (source >= team->plane->nranks)
    return false;
  *rank = source;
  const struct plane_log *log = team->plane->logs[*rank];
  if (atomic_load_explicit(&log->head, memory_order_acquire) <= team->head) {
    *position = atomic_load_explicit(&log->claim_text, memory_order_acquire);
    if (atomic_load_explicit(&log->claim, memory_order_acquire) == team->head + 1)
      return true;
    /* It has passed the index in this moment, and claims another already. */
    if (atomic_load_explicit(&log->head, memory_order_acquire) <= team->head)
      return false;
  }
  flags = LOAD(log->entries[team->head % PLANE_RING].flags);
  *position = flags >> ENTRY_FLAG_BITS;
  return (flags & ENTRY_REAL) != 0;
}

/* A rank that gives up takes its claim away, and with it what others may just be following: its
 * failure, or the one that it has heard of, is there or will be. */
static bool has_given_up(const struct team *team, uint32_t rank) {
  const struct plane_log *log = team->plane->logs[rank];
  return atomic_load(&log->claim) == 0 && atomic_load(&log->head) <= team->head;
}

/* No rank runs so far ahead that its ring has turned past our index: who believed that it does
 * would follow for ever what is in the ring. And units are refused for ranks that there are. */
static bool is_possible(const struct team *team, const struct plane_log *log, uint32_t flags) {
  uint64_t head = atomic_load_explicit(&log->head, memory_order_relaxed);
  return head - team->head <= PLANE_RUN_AHEAD &&
         (!(flags & ENTRY_REFUSED) || LOAD(log->refused_for) < team->plane->nranks);
}

/* The rank whose unit an entry of `rank` is: its own, or, where it only shadowed it, that of the
 * rank it had it from, which did not. */
static uint32_t issuer(const struct team *team, uint32_t rank, uint32_t flags) {
  uint32_t from = flags >> ENTRY_FLAG_BITS;
  return (flags & ENTRY_REAL) || from >= team->plane->nranks ? rank : from;
}

/* Takes G[head] over from a rank that has passed it. */
static enum team_verdict follow(struct team *team, uint32_t rank, const struct plane_entry *entry,
                                struct unit *unit) {
  uint32_t flags = LOAD(entry->flags), position;
  uint64_t expected = LOAD(entry->hash), hash = 0;
  enum read_result read = READ_UNIT;
  if (!is_possible(team, team->plane->logs[rank], flags)) {
    team_fail(team, FAILURE_CORRUPT, rank, team->head);
    return TEAM_FAILED;
  }
  if (flags & ENTRY_REFUSED)
    STORE(team->own->refused_for, LOAD(team->plane->logs[rank]->refused_for));
  if (flags & ENTRY_LEAVE) {
    if (team->claimed && team->claim.nmembers == 0)
      return pass(team, *unit, 0, flags, rank);
    read = READ_CORRUPT;
  } else if (team->claimed && team->claim.nmembers != 0 && team->claim_hash == expected) {
    hash = team->claim_hash;
  } else if (flags & ENTRY_EXPECTED) {
    read = unit_table_get(team->table, team->symbol_expected, unit) ? READ_UNIT : READ_CORRUPT;
    hash = read == READ_UNIT ? unit_hash(*unit) : 0;
  } else if (find_text(team, &rank, flags, &position)) {
    read = team_read_text(team, team->plane->logs[rank], position, &hash, unit);
  } else if (has_given_up(team, rank)) {
    return TEAM_PARKED;
  } else {
    read = READ_CORRUPT;
  }
  if (read == READ_UNIT && expected == hash)
    return pass(team, *unit, hash, flags, issuer(team, rank, flags));
  team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, rank, team->head);
  return TEAM_FAILED;
}

static bool somebody_passed(const struct team *team, uint32_t *rank_out,
                            const struct plane_entry **out) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    /* Sequentially consistent: the other half of what makes team_commit see a waiter. */
    if (atomic_load(&log->head) <= team->head)
      continue;
    *rank_out = rank;
    *out = &log->entries[team->head % PLANE_RING];
    return true;
  }
  return false;
}

/* ---- settling: all have claimed our index ---- */

/* The index after the last one that all ranks issued for real, looking back as far as the logs go.
 * All ranks stand at our index. */
static uint64_t last_together(const struct team *team) {
  uint64_t floor = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  uint64_t end = team->head;
  while (end > floor) {
    uint64_t back = end;
    for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
      const struct plane_entry *entry = &team->plane->logs[rank]->entries[(end - 1) % PLANE_RING];
      if (LOAD(entry->flags) & ENTRY_REAL)
        continue;
      uint64_t start = log_unwrap(LOAD(entry->run_start), end - 1);
      if (start < back)
        back = start;
    }
    if (back == end)
      return end;
    end = back;
  }
  return floor;
}

/* How many units from one index to another the rank has issued for real. */
static uint32_t reals_between(const struct plane_log *log, uint64_t from, uint64_t to) {
  uint32_t reals = 0;
  while (to > from) {
    const struct plane_entry *entry = &log->entries[(to - 1) % PLANE_RING];
    uint64_t start = log_unwrap(LOAD(entry->run_start), to - 1);
    if (start < from)
      start = from;
    if (LOAD(entry->flags) & ENTRY_REAL)
      reals += (uint32_t)(to - start);
    to = start;
  }
  return reals;
}

/* All claims at our index; false while one is missing or is just being changed. */
static bool gather_claims(struct team *team) {
  uint64_t at = team->head + 1;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    struct plane_log *log = team->plane->logs[rank];
    if (atomic_load(&log->claim) != at)
      return false;
    struct claim *claim = &team->claims[rank];
    claim->hash = atomic_load_explicit(&log->claim_hash, memory_order_acquire);
    claim->bytes = atomic_load_explicit(&log->claim_bytes, memory_order_acquire);
    claim->flags = atomic_load_explicit(&log->claim_flags, memory_order_acquire);
    claim->text = atomic_load_explicit(&log->claim_text, memory_order_acquire);
    claim->recent_elsewhere = atomic_load_explicit(&log->claim_reals, memory_order_acquire);
    if (atomic_load_explicit(&log->claim, memory_order_acquire) != at)
      return false;
  }
  return true;
}

symbol_t team_symbol_at(const struct team *team, uint64_t index) {
  uint64_t after = 0; /* LEAVEs after the index */
  for (; after < team->leaves; after++) {
    uint64_t at = team->left_at[(team->leaves - 1 - after) % TEAM_LEAVES];
    if (at == index || after == TEAM_LEAVES)
      return SYMBOL_NONE;
    if (at < index)
      break;
  }
  return learner_symbol(team->learner, team->head - 1 - index - after);
}

static bool issued_by_all(const struct team *team, uint64_t index) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (!(LOAD(team->plane->logs[rank]->entries[index % PLANE_RING].flags) & ENTRY_REAL))
      return false;
  return true;
}

/* Where the ranks went on the last time they had all issued the unit at which they last met: behind
 * that occurrence. It is looked for among what the logs still hold, then among the units that all
 * claimed. UINT64_MAX if this is the first time. */
static uint64_t after_last_meeting(const struct team *team, uint64_t together) {
  uint64_t oldest = team->head > TEAM_HISTORY ? team->head - TEAM_HISTORY : 0;
  uint64_t held = team->head >= PLANE_RUN_AHEAD ? team->head - PLANE_RUN_AHEAD + 1 : 0;
  if (together == 0)
    return UINT64_MAX;
  symbol_t met = team_symbol_at(team, together - 1);
  for (uint64_t at = together - 1; at > held; at--)
    if (team_symbol_at(team, at - 1) == met && issued_by_all(team, at - 1))
      return at;
  for (uint64_t i = team->ndeviations; i > 0 && i + TEAM_DEVIATIONS > team->ndeviations; i--) {
    uint64_t index = team->deviations[(i - 1) % TEAM_DEVIATIONS];
    if (index >= oldest && index < together - 1 && team_symbol_at(team, index) == met)
      return index + 1;
  }
  return UINT64_MAX;
}

/* Of the first time nothing is known but how often each unit has come: those of the loop have come
 * more often than what follows it. */
static uint64_t order_from(const struct team *team, uint64_t from, symbol_t symbol) {
  uint64_t oldest = team->head > TEAM_HISTORY ? team->head - TEAM_HISTORY : 0, count = 0;
  if (symbol == SYMBOL_NONE)
    return UINT64_MAX;
  for (uint64_t at = from == UINT64_MAX ? oldest : from; at < team->head; at++) {
    if (team_symbol_at(team, at) != symbol)
      continue;
    if (from != UINT64_MAX)
      return at - from;
    count++;
  }
  return UINT64_MAX - count;
}

/* What the winner rule needs beyond what is published as such. */
static bool weigh_claims(struct team *team) {
  uint64_t together = last_together(team);
  uint64_t from = after_last_meeting(team, together);
  uint64_t expected = 0;
  struct unit unit;
  if (unit_table_get(team->table, team->symbol_expected, &unit))
    expected = unit_hash(unit);
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    struct claim *claim = &team->claims[rank];
    claim->recent = reals_between(log, together, team->head);
    claim->recent_elsewhere -= log_reals_before(log, together); /* it was claim_reals */
    claim->on_course = (claim->flags & CLAIM_ON_COURSE) != 0;
    claim->expected = claim->hash != 0 && claim->hash == expected;
    claim->seen = false;
    claim->order = UINT64_MAX;
    claim->symbol = SYMBOL_NONE;
    if (claim->hash == 0)
      continue;
    uint64_t hash = 0;
    enum read_result read = team_read_text(team, log, claim->text, &hash, &unit);
    switch (hash == claim->hash ? read : READ_CORRUPT) {
    case READ_UNIT:
      claim->symbol = unit_table_find(team->table, unit);
      claim->seen = claim->symbol != SYMBOL_NONE;
      claim->order = order_from(team, from, claim->symbol);
      break;
    case READ_TOO_BIG:
      break;
    case READ_CORRUPT:
      team_fail(team, FAILURE_CORRUPT, rank, team->head);
      return false;
    }
  }
  team_look_back(team);
  return true;
}

/* Whether a rank was waiting at the index before: it issued that as a shadow. */
static bool somebody_waited(const struct team *team) {
  if (team->head == 0)
    return false;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_entry *entry =
        &team->plane->logs[rank]->entries[(team->head - 1) % PLANE_RING];
    if (!(LOAD(entry->flags) & ENTRY_REAL))
      return true;
  }
  return false;
}

/* Whether one of the ranks that would have to shadow the winner's unit would spoil it. */
static bool is_refused(const struct team *team, const struct claim *winner, struct unit unit) {
  if (!(winner->flags & CLAIM_STRICT) || team->is_lossy == NULL)
    return false;
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    if (team->claims[rank].hash == winner->hash ||
        !team->is_lossy(team->is_lossy_context, unit, rank))
      continue;
    STORE(team->own->refused_for, rank);
    return true;
  }
  return false;
}

uint32_t team_refused_for(const struct team *team) {
  return LOAD(team->own->refused_for);
}

/* A loop has ended here, not for the first time perhaps: it had gone round often, and nothing else
 * came in between. */
#define LOOP_ROUNDS 8
static bool loop_has_ended(const struct team *team) {
  uint64_t body = learner_body_length(team->learner);
  uint64_t deviated =
      team->ndeviations == 0 ? 0 : team->deviations[(team->ndeviations - 1) % TEAM_DEVIATIONS] + 1;
  return team->symbol_expected != SYMBOL_NONE && body != 0 &&
         team->head - deviated >= LOOP_ROUNDS * body;
}

/* Whether a rank has answered for sends and receives that it has not in its own program: a loop of
 * them ends here. All ranks are asked, and none of them mirrors anything at this index any more. */
static bool somebody_mirrored(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (atomic_load(&team->plane->logs[rank]->mirrored) == team->head + 1)
      return true;
  return false;
}

static enum team_verdict settle_unanimous(struct team *team) {
  uint32_t flags = 0;
  struct unit expected;
  bool deviates = !unit_table_get(team->table, team->symbol_expected, &expected) ||
                  unit_hash(expected) != team->claim_hash;
  if (team->claim_hash == 0)
    flags = ENTRY_LEAVE;
  else if (deviates && (somebody_waited(team) || loop_has_ended(team)))
    flags = ENTRY_MEETING;
  if (team->claim_hash != 0 && somebody_mirrored(team))
    flags |= ENTRY_MEETING;
  if (deviates && team->claim_hash != 0 && team->symbol_expected != SYMBOL_NONE)
    flags |= ENTRY_DEVIATION;
  return pass(team, team->claim, team->claim_hash, flags, team->plane->rank);
}

/* Of the ranks that settle an index one tells that it was a guess: the winner itself may find it
 * settled. */
static bool is_told(struct team *team) {
  uint64_t told = atomic_load(&team->shared->told);
  while (told <= team->head)
    if (atomic_compare_exchange_weak(&team->shared->told, &told, team->head + 1))
      return false;
  return true;
}

static void note_guess(struct team *team, uint32_t winner) {
  uint32_t loser;
  uint64_t hash;
  struct unit unit;
  if (!settle_is_guess(team->claims, team->plane->nranks, winner, &loser) || is_told(team) ||
      team_read_text(team, team->plane->logs[loser], team->claims[loser].text, &hash, &unit) !=
          READ_UNIT)
    return;
  team->guessed = true;
  team->guessed_for = winner;
  team->guessed_over = loser;
  team->guessed_member = unit.members[0];
}

/* Nobody yields but to a unit: where that has been given up, nothing settles. */
static bool somebody_yields(const struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++)
    if (team->claims[rank].flags & CLAIM_YIELD)
      return true;
  return false;
}

static enum team_verdict settle(struct team *team, struct unit *unit) {
  if (settle_is_unanimous(team->claims, team->plane->nranks))
    return somebody_yields(team) ? TEAM_PARKED : settle_unanimous(team);
  if (!weigh_claims(team))
    return TEAM_FAILED;
  uint32_t winner = settle_winner(team->claims, team->plane->nranks);
  note_guess(team, winner); /* before the winner's unit is read, to the same place */
  const struct claim *claim = &team->claims[winner];
  uint64_t hash = claim->hash;
  enum read_result read = READ_UNIT;
  if (hash == team->claim_hash)
    *unit = team->claim;
  else
    read = team_read_text(team, team->plane->logs[winner], claim->text, &hash, unit);
  if (read != READ_UNIT) {
    team_fail(team, read == READ_TOO_BIG ? FAILURE_TOO_BIG : FAILURE_CORRUPT, winner, team->head);
    return TEAM_FAILED;
  }
  bool refused = is_refused(team, claim, *unit);
  if (refused)
    team->guessed = false; /* nobody's unit goes first */
  return pass(team, *unit, hash, refused ? ENTRY_REFUSED : 0, winner);
}

/* ---- polling ---- */

/* Whether a rank that we wait for has ended. It may have passed our index before: then it is to be
 * followed. */
static bool somebody_ended(struct team *team) {
  for (uint32_t rank = 0; rank < team->plane->nranks; rank++) {
    const struct plane_log *log = team->plane->logs[rank];
    uint32_t passed_by;
    const struct plane_entry *entry;
    if (rank == team->plane->rank ||
        atomic_load_explicit(&log->state, memory_order_acquire) != RANK_DONE ||
        atomic_load(&log->claim) == team->head + 1 || somebody_passed(team, &passed_by, &entry))
      continue;
    team_fail(team, FAILURE_ENDED, rank, atomic_load(&log->head));
    return true;
  }
  return false;
}

/* Sends and receives that stand before our index: what is to be mirrored, and whether all ranks
 * have come so far. TEAM_REAL: nothing stands against passing the index. */
static enum team_verdict answer_posts(struct team *team, struct unit *unit) {
  if (say_answering(team))
    team_published(team);
  if (LOAD(team->own->answering) != team->head + 1)
    return TEAM_REAL;
  uint32_t nmembers = 0;
  switch (peers_look(team->peers, team->head, team->members_followed, &nmembers)) {
  case PEERS_PASS:
    return TEAM_REAL;
  case PEERS_HOLD:
    return TEAM_PARKED;
  case PEERS_MIRROR:
    break;
  }
  team_published(team);
  *unit = (struct unit){team->members_followed, nmembers};
  return TEAM_MIRROR;
}

/* Asked after it has been seen that the index can be passed: what other ranks did before they came
 * to it is to be seen by then. */
static bool is_held(const struct team *team) {
  return team->is_held != NULL && team->is_held(team->is_held_context);
}

enum team_verdict team_poll(struct team *team, struct unit *unit) {
  team_catch_up(team);
  for (;;) {
    if (team_look_for_failures(team))
      return TEAM_FAILED;
    if (team->claimed)
      show_claim(team);
    /* Without room the slowest rank is on its way to our index: nothing can settle here before. */
    if (!has_room(team) || (team->claimed && !team->claim_text_written))
      return TEAM_PARKED;
    enum team_verdict posts = answer_posts(team, unit);
    if (posts != TEAM_REAL)
      return posts;
    uint64_t before = team->head;
    uint32_t rank;
    const struct plane_entry *entry;
    enum team_verdict verdict = TEAM_PARKED;
    if (somebody_passed(team, &rank, &entry)) {
      if (is_held(team))
        return TEAM_PARKED;
      verdict = follow(team, rank, entry, unit);
    } else if (team->claimed || team_is_yielding(team)) {
      if (gather_claims(team))
        verdict = is_held(team) ? TEAM_PARKED : settle(team, unit);
      else if (team->claimed && somebody_ended(team))
        return TEAM_FAILED;
    }
    if (team->claimed && team->head != before)
      show_claim(team);
    /* A refused unit is passed without anything to issue: look on. */
    if (verdict != TEAM_PARKED || team->head == before)
      return verdict;
  }
}

enum team_verdict team_wait(struct team *team, struct unit *unit, unsigned milliseconds) {
  enum team_verdict verdict;
  for (uint64_t since = 0; team->plane->spin(team->plane, &since);)
    if ((verdict = team_poll(team, unit)) != TEAM_PARKED)
      return verdict;
  uint32_t bell = plane_bell(team->plane);
  atomic_fetch_or(&team->shared->attention, PLANE_WAITING);
  verdict = team_poll(team, unit);
  if (verdict == TEAM_PARKED)
    team->plane->wait(team->plane, bell, milliseconds);
  return verdict;
}
