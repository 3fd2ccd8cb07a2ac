/* Where a fault test runs: a /dev/shm of its own, so that it may be full or read-only, and so that
 * whatever a job leaves there is that job's.
 */
#ifndef TESTS_FAULTS_PLACE_H
#define TESTS_FAULTS_PLACE_H

#include <stdbool.h>
#include <stdint.h>

/* Moves this process (a test is one) into a mount namespace with an empty tmpfs on /dev/shm. False
 * without root, with a line that says so: then the test runs in the /dev/shm of all. */
bool place_try(void);

/* The same with options of the mount, such as "size=64k" or "ro". Skips the test without root. */
void place_make(const char *options);

/* Segments of nccl-join in that /dev/shm; 0 if it is everybody's. */
int place_segments(void);

/* Ends the test as skipped, with a line that says so. */
__attribute__((format(printf, 1, 2))) void place_skip(const char *format, ...);

/* Whether this is the long form (make faults), and a number of repetitions for it or the other. */
bool place_is_long(void);
int place_times(int short_form, int long_form);

/* Random numbers, the same for the same FAULTS_SEED; the seed is printed at the first use. */
uint64_t place_random(uint64_t below);

#endif
