/* A segment's file as the input says, for the target `segment`: any header, any slots, any size,
 * and peers of which some live and some do not. */
#ifndef TESTS_FUZZ_SEGMENT_FILE_H
#define TESTS_FUZZ_SEGMENT_FILE_H

#include "core/transport/plane_shm.h"
#include "tests/fuzz/fuzz.h"

#define SEGMENT_FILE_SLOTS 5u

/* Lays out a file for nranks slots, spoils it, attaches to the slot of a rank, asks for all that
 * can be asked, and makes the plane; NULL where attaching or that failed, which is in order if the
 * file was spoilt. *segment is to be given to segment_file_detach in any case.
 *
 * Input: a byte for what to spoil: bits 0 to 3 the header's fields, bit 4 the size, bit 5 slots,
 * bit 6 the map from ranks to slots, bit 7 other ranks' slots are not taken; then the values, in
 * this order. */
struct plane *segment_file_attach(struct input *input, uint32_t rank, uint32_t nranks,
                                  struct segment **segment);
void segment_file_detach(struct segment *segment);

/* Another process, which ends with this one, holds the locks on so many bytes of a file from the
 * first on: closing any descriptor of the file would lose this one's. */
void segment_file_hold(int locked, uint32_t first, uint32_t count);

#endif
