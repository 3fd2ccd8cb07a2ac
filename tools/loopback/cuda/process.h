/* The driver's state in this process: before cuInit, in use, in a forked child, or while the
 * process exits.
 *
 * Every function of the driver API but the error names begins with process_check. */
#ifndef LOOPBACK_CUDA_PROCESS_H
#define LOOPBACK_CUDA_PROCESS_H

#include <stdbool.h>

#include <cuda.h>

/* cuInit: reads the settings, makes the devices. Once per process; any thread. */
CUresult process_initialise(void);

/* Whether the calling thread may use the API now:
 *   CUDA_ERROR_NOT_INITIALIZED  before cuInit, and in a forked child of a process that had called
 *                               it ("CUDA contexts do not survive fork": what the real driver
 *                               returns there)
 *   CUDA_ERROR_DEINITIALIZED    after the driver's exit handler, which is registered by cuInit, has
 *                               run
 *   CUDA_ERROR_NOT_PERMITTED    in a host function or callback, which must not call CUDA
 *                               (cuLaunchHostFunc) */
CUresult process_check(void);

/* False in a forked child and during exit: locks may then be held by threads that are gone. */
bool process_is_alive(void);

/* Whether this is a forked child of a process that had called cuInit. */
bool process_is_forked(void);

/* Marks the calling thread as a stream's worker for good. */
void process_enter_worker(void);

/* Reports on stderr what the loopback cannot do; returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult process_unsupported(const char *what);

#endif
