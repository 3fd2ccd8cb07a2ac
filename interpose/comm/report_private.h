/* What the files of report.h share. Not for anybody else. */
#ifndef NCCL_JOIN_INTERPOSE_REPORT_PRIVATE_H
#define NCCL_JOIN_INTERPOSE_REPORT_PRIVATE_H

#include "interpose/comm/report.h"

#define DESCRIPTION 256
#define REPORT_HOW (DESCRIPTION + PLACE_TEXT_MAX + 160)

/* What the unit is called in messages; returns text, or a name. */
const char *report_describe(struct unit unit, char text[DESCRIPTION]);

/* " at train.py:41": what is known of a place. What other ranks have published is printed only as
 * far as it is text. */
const char *report_at(const char *place, char text[PLACE_TEXT_MAX + 8]);

/* Adds a shadow to what all ranks see. Answers to sends and receives do not count: they are no
 * collectives. report_joined.c. */
void report_joined(struct endpoint *end, struct unit unit);

/* A guess of kind GUESS_MIXED. stops: the rank does. report_ranks.c. */
void report_mixed(const struct endpoint *end, const struct team_guess *guess, bool stops);

/* ", killed by signal 9 (SIGKILL: ...) after allreduce(...) at train.py:41": how a rank that has
 * failed has ended and, if `entered`, what it did last. entered: the caller has entered the
 * endpoint. */
const char *report_end_of(const struct endpoint *end, uint32_t rank, bool entered,
                          char how[REPORT_HOW]);

/* Told once: this rank has been joined for more iterations than NCCL_JOIN_SKEW_WARN says. */
void report_skew(struct endpoint *end);

#endif
