/* Where the tests of interpose/ get their programs: built by the compiler from parts/ once per run,
 * in a folder of their own below the build folder, and run by the shell.
 *
 * Environment: JOIN_TEST_BUILD (the build folder, "build" if unset), NCCL_LIBRARY (a real
 * libnccl.so.2; tests that want one are skipped without), CC. The tests run in the root of the
 * repository.
 *
 * What parts/build.sh builds:
 *   double.so       the preload object with double.c in the place of the handlers
 *   fake/           libnccl.so.2 that has every function of the table: fake_nccl.c
 *   old/            the same without what came after 2.18
 *   versioned/      the same with versions at its names, ANY_1.0
 *   telling/        libnccl.so.2 that tells what configurations it is given: telling_nccl.c
 *   other/          the same under another name, libother.so: it says "other" for "real"
 *   driver/         libcuda.so.1 that only knows which contexts there are: fake_cuda.c
 *   front.so        front.c: an NCCL that calls another
 *   profiler.so     a preloaded tool that wraps ncclAllReduce and calls the next
 *   linked, now     host.c and client.c linked to NCCL, resolved lazily and at once
 *   host            host.c alone
 *   plugin.so       client.c linked to NCCL, for host to open; other_plugin.so: to libother.so
 *   orphan.so       client.c linked to no NCCL; entangled.so: to the double, then to libother.so
 *   capturer12.so, capturer13.so
 *                   capturer.c linked to fake_cudart.c as that release of the CUDA runtime, for
 *                   host; lonely_capturer.so: to none; capturing: a program of host.c and it
 *   maker.so        maker.c linked to NCCL; other_maker.so: to libother.so
 *   weak, weak_now  weak.c linked to NCCL, resolved lazily and at once; weak_alone: to no NCCL
 *   seeker          seeker.c and client.c, linked to no NCCL
 *   only/           outer.so needs plugin.so and finds it by its RUNPATH; libonly.so: inner.c
 *   libbehind.so    inner.c
 *   endings           endings.c linked to NCCL
 *   configs         configs.c linked to telling/
 *   asker           asker.c linked to NCCL
 *   crowd           crowd.c linked to NCCL
 *   libsteps.so     steps.c
 *   stepper, stepper_now, stepper_fixed, stepper_direct
 *                   stepper.c linked to NCCL and libsteps.so: resolved lazily, at once and
 *                   read-only since, at a fixed address and of the older version, without a PLT;
 *                   stepless: to NCCL alone
 *   stepping.so, stepping_now.so
 *                   stepper.c as libraries linked to libsteps.so, for these to open
 *   arguments       arguments.c; arguments_fixed: the same, not position-independent
 */
#ifndef TESTS_INTERPOSE_WORKSHOP_H
#define TESTS_INTERPOSE_WORKSHOP_H

#include <stdbool.h>
#include <stddef.h>

#define WORKSHOP_OUTPUT 16384

struct outcome {
  int status;                   /* exit status as the shell tells it: 128 + signal if killed */
  char output[WORKSHOP_OUTPUT]; /* stdout and stderr together, cut if longer */
};

/* Whether there is a real NCCL. */
bool workshop_has_nccl(void);

/* Whether the build folder has the preload object itself. */
bool workshop_has_product(void);

/* Whether programs for aarch64 can be built and run. */
bool workshop_has_aarch64(void);

/* Runs a shell command, in which $W is the workshop, $B the build folder, $J the assignment that
 * preloads the double, $P the one that preloads the product, $N the real NCCL and $L its folder.
 * Killed after 280 seconds. */
struct outcome workshop_run(const char *command);

/* Adds to a text in a buffer of that size, which must be large enough. */
void workshop_append(char *text, size_t size, const char *more);

/* Runs it and asserts both what it says and how it ends. */
void workshop_expect(const char *command, int status, const char *output);

#endif
