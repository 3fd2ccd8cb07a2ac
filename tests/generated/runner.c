/* Runs the programs of one file of generated source, one after the other.
 *
 *   BATCH RESULTS LIMIT_S [PROGRAM...]
 *
 * appends to the file RESULTS; all programs unless some are named by their numbers in the table.
 * Ranks are forked, so that the libraries are loaded once.
 */
#include "tests/generated/runner.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/generated/job.h"

/* Returns in the children: true; the rank is theirs. */
static struct rank *run(struct job *job, const struct program *program, double limit_s) {
  pid_t ranks[RANKS_MAX];
  job_reset(job, &program->setup);
  for (int i = 0; i < program->setup.nranks; i++) {
    ranks[i] = fork();
    if (ranks[i] == 0)
      return job_enter(job, i);
    if (ranks[i] < 0) {
      perror("fork");
      exit(1);
    }
  }
  job_watch(job, ranks, limit_s);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s RESULTS LIMIT_S [PROGRAM...]\n", argv[0]);
    return 2;
  }
  int file = open(argv[1], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  struct job *job = job_make();
  if (file < 0 || job == NULL) {
    perror(argv[1]);
    return 1;
  }
  int last = argc > 3 ? argc - 3 : nprograms;
  for (int i = 0; i < last; i++) {
    int number = argc > 3 ? atoi(argv[3 + i]) : i;
    if (number < 0 || number >= nprograms)
      return 2;
    struct rank *rank = run(job, &programs[number], strtod(argv[2], NULL));
    if (rank != NULL) {
      programs[number].run(rank);
      return job_leave(rank);
    }
    if (!job_write(job, number, file))
      return 1;
  }
  return 0;
}
