/* Units: what NCCL launches as one, described by what must be equal on all ranks.
 *
 * A unit is one ungrouped collective, or everything between an outermost ncclGroupStart and its
 * ncclGroupEnd. Its signature is the ordered list of its members. Pointers and streams are never
 * part of it: NCCL compares neither. A member with count 0 is not part of a unit: NCCL drops such a
 * collective on that rank alone (enqueue.cc, collectives with count 0).
 *
 * Used by the agreed stream (team.h), the logs (words.h) and the contributions (hooks/).
 * Everything here is pure; no function allocates unless it says so.
 */
#ifndef NCCL_JOIN_CORE_UNIT_H
#define NCCL_JOIN_CORE_UNIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/unit/kind.h"
#include "core/unit/look.h"

/* What a rank says by a MEMBER_MARK. A mark is only ever claimed. It loses to every unit that is
 * issued; of two marks the one with the higher number wins, and every mark wins over LEAVE. But
 * MARK_ROUND has a place, and goes before or after others by it, as what is issued does.
 *
 * 1 to MARK_EXIT_POINTS: the rank is about to call a function that is no collective of NCCL's, and
 * waits there until all that are behind it in the sequence have come, or stand at a function with a
 * lower number, or leave (interpose/exits/exit_points.h). */
#define MARK_EXIT_POINTS 40u
enum mark {
  MARK_NONE = 0,
  MARK_LOOP_BEGIN = MARK_EXIT_POINTS + 1, /* a loop begins */
  MARK_LOOP_END,                          /* no more data in this loop */
  MARK_STATE_DONE,                        /* the last joiner's buffers have been broadcast */
  MARK_OWN_JOIN, /* the program answers for ranks without data (interpose/park/own_join.h) */
  MARK_ROUND,    /* a round of a loop begins (interpose/calls/rounds.h) */
};

/* Any operator made by ncclRedOpCreatePreMulSum: its handle is a number local to one rank, so only
 * that it is one can be part of a signature. Built-in operators carry NCCL's own number (0 to 4).
 */
#define REDUCTION_PREMULSUM 0xffff
#define REDUCTION_NONE 0xfffe /* kinds that do not reduce */

#define ROOT_NONE (-1) /* kinds without a root */

/* ncclDataType_t's numbers, which NCCL's ABI fixes (nccl.h; hooks/shadow.c asserts that they
 * agree). Repeated so that core/ needs no CUDA headers and knows types that an older nccl.h lacks:
 * the float8 types came with NCCL 2.24. */
enum datatype {
  DATATYPE_INT8 = 0,
  DATATYPE_UINT8 = 1, /* bool travels as this, with max as "or" */
  DATATYPE_INT32 = 2,
  DATATYPE_UINT32 = 3,
  DATATYPE_INT64 = 4,
  DATATYPE_UINT64 = 5,
  DATATYPE_FLOAT16 = 6,
  DATATYPE_FLOAT32 = 7,
  DATATYPE_FLOAT64 = 8,
  DATATYPE_BFLOAT16 = 9,
  DATATYPE_FLOAT8E4M3 = 10, /* OCP E4M3: no infinity, largest 448 */
  DATATYPE_FLOAT8E5M2 = 11,
  DATATYPES = 12,
};

/* Bytes of an element; 0: not known here. */
uint32_t datatype_size(uint8_t datatype);

/* One collective of a unit. No padding: compared and hashed as bytes. */
struct member {
  uint64_t count;     /* elements, as passed to NCCL */
  uint32_t comm;      /* tag of the communicator: equal on all ranks, see team.h */
  int32_t root;       /* rank in the communicator, or ROOT_NONE */
  uint16_t reduction; /* ncclRedOp_t 0 to 4, REDUCTION_PREMULSUM or REDUCTION_NONE */
  uint8_t kind;       /* enum member_kind */
  uint8_t datatype;   /* enum datatype */
  uint32_t number; /* which buffer (MEMBER_STATE), enum mark (MEMBER_MARK, of which MARK_ROUND has
                         the round as its count, and the place as its root); of a unit's first
                         member, if that is a collective: the id of its place (place.h), 0 if it is
                         not known; otherwise 0 */
};
_Static_assert(sizeof(struct member) == 24, "no padding: members are compared as bytes");

/* More members than this cannot be described to a joined rank (logs are of fixed size). A unit
 * beyond it still takes part in the agreed stream, by its hash alone; shadowing it is refused. */
#define UNIT_MEMBERS_MAX 1024

/* A unit by reference: the members belong to somebody else. */
struct unit {
  const struct member *members;
  uint32_t nmembers; /* 0: the special unit LEAVE */
};

static inline bool unit_is_leave(struct unit unit) {
  return unit.nmembers == 0;
}
bool unit_equal(struct unit a, struct unit b);

/* The unit that says something: its member, which the caller keeps. */
static inline struct member mark_member(enum mark mark) {
  return (struct member){.root = ROOT_NONE,
                         .reduction = REDUCTION_NONE,
                         .kind = MEMBER_MARK,
                         .number = (uint32_t)mark};
}

/* MARK_ROUND, with the id of the place at which the round begins, and its number. */
static inline struct member round_member(uint32_t place, uint32_t round) {
  struct member member = mark_member(MARK_ROUND);
  member.root = (int32_t)place;
  member.count = round;
  return member;
}

/* The unit of a group of sends and receives between all ranks of a communicator, as above. */
static inline struct member exchange_member(uint32_t comm, uint32_t place) {
  return (struct member){.comm = comm,
                         .root = ROOT_NONE,
                         .reduction = REDUCTION_NONE,
                         .kind = MEMBER_EXCHANGE,
                         .number = place};
}
static inline bool unit_is_exchange(struct unit unit) {
  return unit.nmembers == 1 && unit.members->kind == MEMBER_EXCHANGE;
}

/* Whether a unit is a mark of a rank that is about to leave through a function. */
bool unit_is_exit_point(struct unit unit);

/* Whether a unit consists of the program's buffers that are resynchronised. */
static inline bool unit_is_state(struct unit unit) {
  return unit.nmembers > 0 && unit.members->kind == MEMBER_STATE;
}

/* MARK_NONE if the unit is not a mark. */
static inline enum mark unit_mark(struct unit unit) {
  return unit.nmembers == 1 && unit.members->kind == MEMBER_MARK ? (enum mark)unit.members->number
                                                                 : MARK_NONE;
}
uint64_t unit_hash(struct unit unit); /* never 0 */

static inline bool unit_is_round(struct unit unit) {
  return unit_mark(unit) == MARK_ROUND;
}

/* The id of a unit's place, and whether it may have one: 0 of LEAVE, of other marks and of what is
 * resynchronised. */
static inline bool unit_may_have_place(struct unit unit) {
  return unit.nmembers > 0 && (unit.members->kind <= MEMBER_SPLIT || unit_is_round(unit));
}
static inline uint32_t unit_place(struct unit unit) {
  if (!unit_may_have_place(unit))
    return 0;
  return unit_is_round(unit) ? (uint32_t)unit.members->root : unit.members->number;
}

/* unit_hash of the same unit at no place: equal where NCCL can be given one for the other. */
uint64_t unit_signature(struct unit unit);

/* The same, without counts: units that differ in counts only have equal coarse hashes. Never 0. */
uint64_t unit_coarse_hash(struct unit unit);

/* Writes "allreduce(sum, float32, 1024)" or "group{...}" for messages; always terminated; returns
 * text. */
const char *unit_describe(struct unit unit, char *text, size_t size);

/* Units by small number, so that the learner compares symbols instead of members. A symbol is
 * deterministic: ranks that intern the same sequence of units get the same symbols. The table
 * forgets the units not seen for longest (second chance); a forgotten unit gets a new symbol when
 * it comes back, and a symbol never comes to mean another unit. */
typedef uint32_t symbol_t;
#define SYMBOL_NONE 0u

/* A unit that the table knows: what a commit compares and publishes. One cache line. Valid until
 * the next intern, which may forget the unit and give its place to another. */
struct known_unit {
  _Alignas(64) uint64_t hash; /* unit_hash */
  struct member *members;     /* &single, or allocated and owned by the table */
  struct member single;       /* the member, if there is exactly one */
  uint32_t nmembers;
  uint32_t coarse; /* see unit_table_coarse */
  symbol_t symbol; /* SYMBOL_NONE while the place is free */
  bool used;       /* since the hand of second chance last came by (unit_table.c) */
  bool marked;     /* the owner of the table has something to say about the unit */
  look_t look;     /* of the member, if there is exactly one */
  look_t *looks;   /* &look, or allocated and owned by the table; NULL: all 0 */
};
_Static_assert(sizeof(struct known_unit) == 64, "one cache line");

static inline struct unit known_unit(const struct known_unit *known) {
  return (struct unit){known->members, known->nmembers};
}

/* What a struct unit_table begins with, so that looking a symbol up costs no call. A symbol's low
 * bits are its place. */
#ifndef UNIT_TABLE_BITS /* tests/simulation/many.h */
#define UNIT_TABLE_BITS 10
#endif
#define UNIT_TABLE_PLACES (1u << UNIT_TABLE_BITS)

struct unit_table;

/* Allocates (about 80 KiB); NULL if there is no memory. Owned by the caller. One thread at a time.
 */
struct unit_table *unit_table_create(void);
void unit_table_destroy(struct unit_table *table);

/* The unit's symbol, adding it if it is new. Copies the members. SYMBOL_NONE only if there is no
 * memory. */
symbol_t unit_table_intern(struct unit_table *table, struct unit unit);

/* The unit's symbol if it is known, else SYMBOL_NONE. Changes nothing. */
symbol_t unit_table_find(const struct unit_table *table, struct unit unit);

/* The same, by its unit_hash. */
symbol_t unit_table_find_hash(const struct unit_table *table, uint64_t hash);

/* The unit behind a symbol, valid until the next intern; false if the table has forgotten it. */
bool unit_table_get(const struct unit_table *table, symbol_t symbol, struct unit *unit);

/* The same without a copy, or NULL. */
static inline struct known_unit *unit_table_known(struct unit_table *table, symbol_t symbol) {
  struct known_unit *known = (struct known_unit *)(void *)table + symbol % UNIT_TABLE_PLACES;
  return known->symbol == symbol && symbol != SYMBOL_NONE ? known : NULL;
}

/* The unit at one of UNIT_TABLE_PLACES places; NULL: it is free. */
static inline const struct known_unit *unit_table_at(struct unit_table *table, uint32_t place) {
  const struct known_unit *known = (struct known_unit *)(void *)table + place;
  return known->symbol == SYMBOL_NONE ? NULL : known;
}

/* The same, and counts as a use, as interning does. For the unit expected next: a rank that issues
 * it as expected does not intern it, and what is expected must not be forgotten, nor sooner on one
 * rank than on another. */
static inline struct known_unit *unit_table_use(struct unit_table *table, symbol_t symbol) {
  struct known_unit *known = unit_table_known(table, symbol);
  if (known != NULL)
    known->used = true;
  return known;
}

/* Marks a unit that the table has not forgotten, for as long as it does not. */
void unit_table_mark(struct unit_table *table, symbol_t symbol);

/* How the members of a unit that is known look: nmembers of them, copied; NULL: all 0. False if
 * there is no memory. */
bool unit_table_set_looks(struct unit_table *table, symbol_t symbol, const look_t *looks);

/* The same, or NULL; valid until the next intern, or until they are set. */
const look_t *unit_table_looks(const struct unit_table *table, symbol_t symbol);

/* A number that is not 0 and that units share which differ in counts only: the learner's coarse
 * symbol. 0 if the unit has been forgotten. */
uint32_t unit_table_coarse(const struct unit_table *table, symbol_t symbol);

#endif
