/* make sim-machines: the agreement over many machines, with the code of core/ as it is but for the
 * sizes of logs and tables (many.h): each machine has a copy of the log of each rank.
 *
 *   sim-machines [MACHINES [RANKS]]
 *       2 machines of so many ranks each, four times as many, and so on, up to MACHINES. Of each:
 *       what a unit that all claim costs on all links together; and a loop that the last rank
 *       leaves early
 *
 * A machine takes 1.4 kB of memory for each rank of all, and a rank 0.2 MB: 1,280 machines of 8
 * ranks took 20 GB, and 17 minutes of a processor. Exit status 0 if everything was as it must be, 1
 * if not, 2 if it could not be run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "tests/simulation/alike.h"

enum { FEW = 2, MORE = 6, BATCHES = 6, LESS = 4 };
#define LINK_MESSAGES 2.1 /* a claim; now and then one is asked who was at work a moment before */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static double memory_gb(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1e6;
}

static bool is_right(struct alike alike, const char *what, const struct simulation *result) {
  const char *wrong = alike_wrong(result);
  if (wrong != NULL)
    printf("%u machines of %u ranks, %s: %s\n", alike.nmachines, alike.each, what, wrong);
  return wrong == NULL;
}

/* Whether all is right. */
static bool run(struct alike alike) {
  double begin = now();
  struct simulation few = alike_claim(alike, FEW), more = alike_claim(alike, MORE);
  struct simulation uneven = alike_train(alike, BATCHES, LESS, false);
  double messages = (double)(more.traffic.messages - few.traffic.messages) / (MORE - FEW);
  double bytes = (double)(more.traffic.bytes - few.traffic.bytes) / (MORE - FEW);
  printf("%8u %8u %12.1f %10.2f %14.0f %12.0f %10.0f %8.1f\n", alike.nmachines,
         alike.nmachines * alike.each, messages, messages / (alike.nmachines - 1), bytes,
         bytes / messages, now() - begin, memory_gb());
  fflush(stdout);
  bool right = is_right(alike, "claims", &few) & is_right(alike, "claims", &more) &
               is_right(alike, "a loop", &uneven);
  if (messages > LINK_MESSAGES * (alike.nmachines - 1))
    right = false, puts("more than two messages a link and claim");
  if (uneven.shadows != ALIKE_UNITS * (BATCHES - LESS))
    right = false, printf("%llu shadows\n", (unsigned long long)uneven.shadows);
  return right;
}

int main(int argc, char **argv) {
  unsigned long most = argc > 1 ? strtoul(argv[1], NULL, 10) : 512;
  unsigned long each = argc > 2 ? strtoul(argv[2], NULL, 10) : 8;
  if (argc > 3 || most < 2 || each < 1 || most > PROGRAM_RANKS_MAX / each) {
    fprintf(stderr, "usage: sim-machines [MACHINES [RANKS]]: at most %u ranks in all\n",
            PROGRAM_RANKS_MAX);
    return 2;
  }
  puts("A unit that all claim, over all links of a tree of up to 16 children:");
  printf("%8s %8s %12s %10s %14s %12s %10s %8s\n", "machines", "ranks", "messages", "... a link",
         "bytes", "... a message", "seconds", "GB");
  bool right = true;
  for (unsigned long nmachines = 2;; nmachines *= 4) {
    nmachines = nmachines < most ? nmachines : most;
    right &= run((struct alike){(uint32_t)nmachines, (uint32_t)each});
    if (nmachines == most)
      break;
  }
  return right ? 0 : 1;
}
