/* Texts: what a rank says with a claim that does not fit into one, written into a ring of its log,
 * and read by others where an entry or a claim names its position. What a text says is
 * team_text.c's.
 *
 * A text lies in one piece: what is left at the ring's end is skipped. Its bytes are counted from
 * the first that the rank has ever written; its position, which others read, is that in 8 bytes,
 * and wraps. Texts are written by the thread that has the team, before what names them is
 * published; reading is relaxed, and gets whatever stands there: readers compare what they have
 * read with the hash that it is to have.
 */
#ifndef NCCL_JOIN_CORE_TEXTS_H
#define NCCL_JOIN_CORE_TEXTS_H

#include "core/transport/plane.h"

/* Where a text of so many bytes begins, if all before `end` have been written; and the position
 * that names it, which is not 0. */
uint64_t text_begin(uint64_t end, uint64_t bytes);
uint32_t text_position(uint64_t begin);

/* Of the last texts written before `end`, the one that an entry names: where it begins. */
uint64_t text_named(uint64_t end, uint32_t position);

/* Copies bytes into a text that begins there, `at` bytes behind its begin: a multiple of 8. */
void text_write(struct plane_log *own, uint64_t begin, uint64_t at, const void *from,
                uint64_t bytes);

/* All texts before `end` have been written; released. */
void text_show(struct plane_log *own, uint64_t end);

/* Copies bytes out of the text at a position. False if it would have to go on beyond the ring's
 * end: that is none. */
bool text_read(const struct plane_log *log, uint32_t position, uint64_t at, void *to,
               uint64_t bytes);

#endif
