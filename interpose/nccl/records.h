/* The events by which a program sees whether a collective is done. It records one when its call of
 * NCCL has returned, and may ask at once: even on a stream that has passed the device takes some
 * microseconds for it.
 */
#ifndef NCCL_JOIN_INTERPOSE_RECORDS_H
#define NCCL_JOIN_INTERPOSE_RECORDS_H

/* The next event that the calling thread records with the CUDA runtime is done when that returns; a
 * second at most is waited for it. From the first time on, cudaEventRecord is seen in all that was
 * loaded by then: a jump more in each call. Only where a single CUDA runtime is called. */
void records_complete_next(void);

#endif
