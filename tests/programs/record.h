/* What train.c writes down of its gradients and check_sums.c verifies: one file per rank, one
 * record for every sum it got.
 *
 * A record is a header, count floats that the rank contributed, and count floats that it got.
 * Native byte order: the files do not leave the machine.
 */
#ifndef PROGRAMS_RECORD_H
#define PROGRAMS_RECORD_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct record {
  int32_t epoch, iteration, bucket, count;
  float *mine, *sum; /* owned by the reader of the file */
};

/* The file of a rank in a folder, for writing; ends the program if it cannot be made. */
FILE *record_create(const char *folder, int rank);

/* Appends a record. */
void record_write(FILE *file, int epoch, int iteration, int bucket, int count, const float *mine,
                  const float *sum);

/* The file of a rank for reading, NULL if there is none. */
FILE *record_open(const char *folder, int rank);

/* The next record; false at the end of the file, or where it is cut off. */
bool record_read(FILE *file, struct record *record);

#endif
