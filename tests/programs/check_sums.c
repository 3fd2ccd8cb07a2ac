/* Verifies what train.c wrote down: every sum that a rank got is the sum of the contributions of
 * the ranks that were active, that is, that have a record of the same epoch, iteration and bucket.
 * No NCCL here.
 *
 *   check_sums FOLDER [TOLERANCE]
 *
 * Sums are made in the order of ranks and must be equal. A tolerance (relative to the sum of the
 * absolute values) is for NCCL on GPUs, whose order is its own. Status 0 if all are right.
 */
#include "tests/programs/record.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64, RECORDS_MAX = 100000 };

/* All records of all ranks, by place in the program and then by rank. */
static struct entry {
  struct record record;
  int rank;
} entries[RECORDS_MAX];
static int nentries;

static int compare_places(const struct record *a, const struct record *b) {
  if (a->epoch != b->epoch)
    return a->epoch - b->epoch;
  if (a->iteration != b->iteration)
    return a->iteration - b->iteration;
  return a->bucket - b->bucket;
}

static int compare_entries(const void *left, const void *right) {
  const struct entry *a = left, *b = right;
  int places = compare_places(&a->record, &b->record);
  return places != 0 ? places : a->rank - b->rank;
}

/* Returns the number of ranks with a file. */
static int read_folder(const char *folder) {
  int nfiles = 0;
  for (int rank = 0; rank < RANKS_MAX; rank++) {
    FILE *file = record_open(folder, rank);
    if (file == NULL)
      continue;
    nfiles++;
    while (nentries < RECORDS_MAX && record_read(file, &entries[nentries].record))
      entries[nentries++].rank = rank;
    fclose(file);
  }
  return nfiles;
}

/* Whether all of these ranks got the sum of what these ranks contributed. */
static bool is_right(const struct entry *active, int nactive, float tolerance) {
  for (int i = 0; i < active->record.count; i++) {
    float sum = 0, magnitude = 0;
    for (int a = 0; a < nactive; a++) {
      sum += active[a].record.mine[i];
      magnitude += fabsf(active[a].record.mine[i]);
    }
    for (int a = 0; a < nactive; a++)
      if (!(fabsf(active[a].record.sum[i] - sum) <= tolerance * magnitude))
        return false;
  }
  return true;
}

static void complain(const struct entry *active, int nactive) {
  printf("wrong: epoch %d, iteration %d, bucket %d; active ranks:", active->record.epoch + 1,
         active->record.iteration + 1, active->record.bucket);
  for (int a = 0; a < nactive; a++)
    printf(" %d", active[a].rank);
  printf("\n");
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: check_sums FOLDER [TOLERANCE]\n");
    return 2;
  }
  float tolerance = argc > 2 ? strtof(argv[2], NULL) : 0;
  int nfiles = read_folder(argv[1]), sums = 0, right = 0, by_active[RANKS_MAX + 1] = {0};
  qsort(entries, (size_t)nentries, sizeof *entries, compare_entries);
  for (int first = 0, next; first < nentries; first = next) {
    const struct entry *active = &entries[first];
    for (next = first + 1; next < nentries; next++)
      if (compare_places(&entries[next].record, &active->record) != 0)
        break;
    sums++;
    by_active[next - first]++;
    if (is_right(active, next - first, tolerance))
      right++;
    else
      complain(active, next - first);
  }
  printf("%d of %d sums right", right, sums);
  for (int n = nfiles; n > 0; n--)
    if (by_active[n] > 0)
      printf("%s %d over %d rank%s", n == nfiles ? ":" : ",", by_active[n], n, n > 1 ? "s" : "");
  printf("\n");
  return sums > 0 && right == sums ? 0 : 1;
}
