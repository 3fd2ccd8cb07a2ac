/* What the variables of a function hold in a round of a loop, in terms of what they held where the
 * round began: the registers, and the words of the frame and of the object that native_contents.h
 * follows, by the numbers that they have there. For native_counters.c.
 *
 * First the code is read once, and what each block does to its variables is written down (struct
 * native_counting). Then, for a loop, that is put together along the ways from where a round begins
 * (native_words_find).
 */
#ifndef NCCL_JOIN_INTERPOSE_NATIVE_WORDS_H
#define NCCL_JOIN_INTERPOSE_NATIVE_WORDS_H

#include "interpose/places/flow/flow_rounds.h"
#include "interpose/places/native/native_contents.h"
#include "interpose/places/native/native_graph.h"

enum native_word_kind {
  NATIVE_WORD_UNKNOWN,
  NATIVE_WORD_NUMBER,   /* plus */
  NATIVE_WORD_VARIABLE, /* what that was, and plus */
  NATIVE_WORD_MEMORY, /* of the word at plus, or, with has_base, at what the variable was, and plus */
};

/* Without padding: equal ones have equal bytes. */
struct native_word {
  uint16_t kind; /* enum native_word_kind */
  uint16_t has_base;
  uint16_t of;    /* the variable */
  uint16_t width; /* so many of its lower bits are that: 8 to 64 */
  int64_t plus;
};

/* What variables that a block changes hold at its end, or where it calls, in terms of what they
 * held at its beginning. */
struct native_changes {
  uint32_t first, count; /* in struct native_counting's */
};

struct native_counting {
  struct native_change {
    uint32_t variable;
    struct native_word to;
  } * changes;
  struct native_changes *blocks;
  struct native_site {
    uint32_t block;
    uint32_t position; /* its last byte's */
    int64_t depth;     /* of the stack, as native_contents.h has it */
    struct native_changes changes;
  } * sites; /* calls */
  struct native_decision {
    uint32_t block;
    struct native_word a, b;
    uint32_t bits;
    enum native_jump jumps;
    bool is_bit; /* struct native_comparison */
  } * decisions;
  uint32_t nchanges, nsites, ndecisions;
  uint32_t changes_room, sites_room, decisions_room;
  bool failed; /* no memory: nothing is known */
};

/* False: no memory. Before a call, of which that is the last byte; at the end of a block. */
bool native_counting_begin(struct native_counting *counting, uint32_t nblocks);
void native_counting_call(struct native_counting *counting, const struct native_testing *testing,
                          uint32_t block, uint32_t position);
void native_counting_end(struct native_counting *counting, const struct native_testing *testing,
                         uint32_t block);
void native_counting_drop(struct native_counting *counting);

/* Of one loop. Arrays are by block, if nothing else is said. */
struct native_words {
  const struct native_graph *graph;
  struct flow_rounds *rounds;
  const struct native_counting *counting;
  const struct native_testing *testing;
  uint32_t nvariables;
  uint32_t *order; /* the blocks, as flow_rounds_order has them */
  uint32_t norder;
  uint32_t *rank;     /* there, from 1 on; 0: control does not come to it */
  uint32_t *decision; /* counting's at its end, from 1 on; 0: none */

  uint32_t loop;
  bool is_simple; /* there is no loop within */
  bool *within;   /* it is in the loop */
  bool *has;      /* and control comes to it from where a round begins */
  /* The first edge to it with which no round begins, and by edge the next one to the same block. */
  uint32_t *edge_to, *edge_next;
  struct native_word *before;              /* by block and variable */
  struct native_word round[NATIVE_TESTED]; /* by variable, where a round ends */
  bool has_round;                          /* one does */
};

/* All that is given must stay. False: no memory. */
bool native_words_make(struct native_words *words, const struct native_graph *graph,
                       struct flow_rounds *rounds, const struct native_counting *counting,
                       const struct native_testing *testing);
void native_words_drop(struct native_words *words);

/* For a loop. False: it takes too long. */
bool native_words_find(struct native_words *words, uint32_t loop);

/* What the variables hold while a call is made, to `there`. False: control does not come to it. */
bool native_words_at(const struct native_words *words, const struct native_site *site,
                     struct native_word *there);

/* What something of a block, in terms of its beginning, is in terms of the round's. */
struct native_word native_words_of(const struct native_words *words, uint32_t block,
                                   struct native_word word);

#endif
