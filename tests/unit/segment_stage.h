/* What the tests of segments and of planes over them share: ranks are forked children that answer
 * by their exit status, on a stage where they wait for each other.
 */
#ifndef NCCL_JOIN_TESTS_UNIT_SEGMENT_STAGE_H
#define NCCL_JOIN_TESTS_UNIT_SEGMENT_STAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/transport/segment.h"

#define EXIT_REFUSED 99 /* attach failed */
#define EXIT_ALONE 98   /* waited for others for a minute */

/* What the processes of a test share beside the segment: counters with the meaning a test gives
 * them. */
struct stage {
  _Atomic uint32_t arrived, go, seen, unlinked;
};
extern struct stage *stage;

/* The test's segment: a random name, the path that it has in segment_folder, and why attach failed.
 */
extern char stage_name[ATTACHMENT_NAME_SIZE], stage_path[SEGMENT_PATH_SIZE];
extern char stage_reason[ATTACHMENT_REASON_SIZE];

/* Where it is: a folder of the test's own. In the one that all jobs share, whoever begins another
 * job removes what a dead one has left. */
extern char stage_folder[];

/* Before and after each test. */
void stage_set_up(void);
void stage_tear_down(void);

/* From now on the segments are in another folder. */
void stage_move(const char *folder);

/* Attaches with a mark that can be recognised: identity 100 + slot, key -slot, one communicator 7.
 */
struct segment *attach(uint32_t slots, uint32_t slot, uint32_t expected);

/* The plane over all slots, rank by slot. */
struct plane *whole_plane(struct segment *segment, uint32_t slot, uint32_t slots);

/* A child that runs body and ends with what it returns. It is killed if the test ends first. */
pid_t start(int (*body)(uint32_t), uint32_t argument);

/* Its exit status, or minus the signal that killed it. */
int finish(pid_t pid);
void kill_and_reap(pid_t pid);

/* A child that attaches to slot 0 and stays until it is killed; returns once it is there. */
pid_t start_staying(uint32_t slots);

void nap(unsigned milliseconds);
unsigned milliseconds_since(int64_t start_time);

/* Waits until a counter has come to a value. Ends the process with EXIT_ALONE if it does not: a
 * test that fails leaves none behind. */
void await(_Atomic uint32_t *word, uint32_t value);

bool exists(const char *file);

/* Changes some bytes of the test's segment; from another process, which spares this one's locks. */
void damage(off_t offset, const void *bytes, size_t count);

#endif
