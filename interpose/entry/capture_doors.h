/* What capture_doors.c sees, told to capture.c. Apart, because the doors are declared otherwise
 * than in CUDA's headers: one table serves the runtime and the driver.
 */
#ifndef NCCL_JOIN_INTERPOSE_CAPTURE_DOORS_H
#define NCCL_JOIN_INTERPOSE_CAPTURE_DOORS_H

/* A capture is about to begin; has ended, or has not begun after all. Any thread. */
void capture_began(void);
void capture_ended(void);

#endif
