/* What came of many programs, as tables. */
#ifndef NCCL_JOIN_TESTS_SIMULATION_REPORT_H
#define NCCL_JOIN_TESTS_SIMULATION_REPORT_H

#include <stdio.h>

#include "tests/simulation/run.h"

/* All that was counted, tab separated: a line a row. */
void report_rows(FILE *file, const struct tally *tally);

/* A line a class: shares of wrong and silent programs by what is seen of places, and more. */
void report_classes(FILE *file, const struct tally *tally);

/* A line a requirement. Whether all hold that are asserted. */
bool report_requirements(FILE *file, const struct tally *tally);

#endif
