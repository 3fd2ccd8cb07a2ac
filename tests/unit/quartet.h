/* Four ranks of a team in one process that run a program, or parts of it:
 *
 *   for (...) {
 *     HEAD;
 *     if (rank == 0) THEN; else ELSE;    and sometimes THIRD
 *   }
 *   AFTER;
 */
#ifndef TESTS_UNIT_QUARTET_H
#define TESTS_UNIT_QUARTET_H

#include "core/team/team.h"

enum { RANKS = 4 };
enum { HEAD = 1, THEN, ELSE, THIRD, AFTER }; /* ids of places; further ones are in the loop */
enum { SUM = 100, OTHER = 7 }; /* elements: what units have to have in common to be one */

extern struct team *quartet[RANKS];
extern struct unit got; /* of the last expect_verdict */

/* Before and after each test. */
void quartet_start(void);
void quartet_stop(void);

struct place_node node(uint32_t id, uint16_t order, uint16_t loop);
struct place place_of(uint32_t id);

/* A unit, good until the second next call; and its hash. */
struct unit at(uint32_t place, uint64_t count);
uint64_t hash_at(uint32_t place, uint64_t count);

void claim(uint32_t rank, uint32_t place, uint64_t count);

/* Rank 0 claims a unit, and all others one of the same signature. */
void claim_branches(uint32_t of_rank_0, uint32_t of_others);

void expect_verdict(uint32_t rank, enum team_verdict verdict);
void expect_all_real(void);

/* All ranks issue a unit, each where it stands, asking only if it must. */
void issue_at(const uint32_t *places, uint64_t count);
void all_issue_at(uint32_t place, uint64_t count);

/* What a rank has in the sequence. */
uint64_t hash_of(uint32_t rank, uint64_t index);
uint32_t flags_of(uint32_t rank, uint64_t index);

/* All have the same in it; and the same in their tables of places, up to an id. */
void expect_agreement(void);
void expect_same_tables(uint32_t places);

#endif
