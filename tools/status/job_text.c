/* A job's ranks, for people (job.h). */
#include <string.h>

#include "tools/status/job.h"

static void write_fate(const struct job_rank *rank, char *text, size_t size) {
  if (rank->fate.how == END_STATUS)
    snprintf(text, size, "ended with status %d", rank->fate.number);
  else if (rank->fate.how == END_SIGNAL)
    snprintf(text, size, "ended by signal %d (%s)", rank->fate.number,
             strsignal(rank->fate.number));
  else
    snprintf(text, size, "failed");
}

#define STOPPED "stopped by SIGSTOP, Ctrl-Z or a debugger"

/* "runs its program", "waits", "stopped (...)": what a rank does, in a few words. */
static void write_state(const struct job_rank *rank, char *text, size_t size) {
  if (rank->doing == DOING_ENDED)
    write_fate(rank, text, size);
  else if (rank->elsewhere != 0)
    snprintf(text, size, "waits in communicator %08x, as rank %u there", rank->elsewhere,
             rank->rank_elsewhere);
  else
    snprintf(text, size, "%s",
             rank->doing == DOING_WAITS  ? "waits"
             : rank->doing == DOING_LEFT ? "has left"
             : rank->stopped             ? STOPPED
             : rank->on_device           ? "waits on its device"
                                         : "runs its program");
}

static void write_doing(const struct job_rank *rank, char *text, size_t size) {
  char state[96], joined[64] = "";
  write_state(rank, state, sizeof state);
  if (rank->joined)
    snprintf(joined, sizeof joined, "; joined since collective %llu",
             (unsigned long long)rank->joined_since);
  snprintf(text, size, "%s%s%s%s%s%s%s%s%s%s", rank->machine[0] != '\0' ? "on " : "", rank->machine,
           rank->machine[0] != '\0' ? ": " : "", state,
           rank->unit[0] == '\0'        ? ""
           : rank->doing == DOING_WAITS ? " in "
                                        : ", last ",
           rank->unit, rank->place[0] == '\0' ? "" : " at ", rank->place, joined,
           rank->stopped && strcmp(state, STOPPED) != 0 ? "; its process is " STOPPED : "");
}

/* "0, 2": the ranks that wait, or those for which they wait: of these with what keeps them. How
 * many they are. */
static int write_ranks(const struct job *job, bool holds, char *text, size_t size) {
  int count = 0;
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t number = 0; number < job->nranks && used < size; number++) {
    const struct job_rank *rank = &job->ranks[number];
    char state[96] = "";
    if (!(holds ? rank->holds : rank->held))
      continue;
    if (rank->stopped)
      snprintf(state, sizeof state, STOPPED);
    else if (rank->elsewhere != 0)
      write_state(rank, state, sizeof state);
    bool told = state[0] != '\0' && holds;
    used += (size_t)snprintf(text + used, size - used, "%s%u%s%s%s", count++ == 0 ? "" : ", ",
                             number, told ? " (" : "", told ? state : "", told ? ")" : "");
  }
  return count;
}

/* What lets ranks go on that are stopped: "kill -CONT 4711 4712"; once for each process. */
static void print_remedy(FILE *out, const struct job *job) {
  bool any = false;
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    bool told = !rank->stopped || !rank->holds;
    for (uint32_t before = 0; before < i && !told; before++)
      told = job->ranks[before].pid == rank->pid;
    if (told)
      continue;
    fprintf(out, "%s %d", any ? "" : "  what lets them go on: kill -CONT", rank->pid);
    any = true;
  }
  if (any)
    fputc('\n', out);
}

/* Once for the ranks of one process. */
static void print_warnings(FILE *out, const struct job *job) {
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    bool told = rank->warning[0] == '\0';
    for (uint32_t before = 0; before < i && !told; before++)
      told = job->ranks[before].pid == rank->pid;
    if (!told)
      fprintf(out, "  last WARN of rank %u, %llu s ago: %s\n", i,
              (unsigned long long)rank->warned_s, rank->warning);
  }
}

/* Of the first rank of which it is known: those of a job run the same. */
static const char *program_of(const struct job *job) {
  for (uint32_t i = 0; i < job->nranks; i++)
    if (job->ranks[i].program[0] != '\0')
      return job->ranks[i].program;
  return "";
}

/* "4 ranks here", "2 ranks here and 2 on other machines". */
static void write_count(const struct job *job, char text[64]) {
  uint32_t elsewhere = 0;
  for (uint32_t i = 0; i < job->nranks; i++)
    elsewhere += job->ranks[i].machine[0] != '\0';
  if (elsewhere > 0)
    snprintf(text, 64, "%u ranks here and %u on other machines", job->nranks - elsewhere,
             elsewhere);
  else
    snprintf(text, 64, "%u ranks here", job->nranks);
}

void job_print(FILE *out, const struct job *job) {
  char waiting[1024], running[1024];
  const char *program = program_of(job);
  write_count(job, running);
  fprintf(out, "communicator %08x, %s%s%s\n", job->tag, running, *program != '\0' ? ": " : "",
          program);
  fprintf(out, "  rank      pid  collectives      waits\n");
  for (uint32_t i = 0; i < job->nranks; i++) {
    const struct job_rank *rank = &job->ranks[i];
    char doing[720], since[24] = "", pid[16];
    write_doing(rank, doing, sizeof doing);
    if (rank->doing == DOING_WAITS)
      snprintf(since, sizeof since, "%llu s", (unsigned long long)rank->waits_s);
    else if (rank->on_device)
      snprintf(since, sizeof since, "on device");
    if (rank->machine[0] != '\0')
      snprintf(pid, sizeof pid, "-");
    else
      snprintf(pid, sizeof pid, "%d", rank->pid);
    fprintf(out, "  %4u  %7s  %11llu  %9s  %s\n", i, pid, (unsigned long long)rank->passed, since,
            doing);
  }
  int held = write_ranks(job, false, waiting, sizeof waiting);
  int holding = write_ranks(job, true, running, sizeof running);
  if (held > 0 && holding > 0)
    fprintf(out, "  rank%s %s wait%s for rank%s %s\n", held == 1 ? "" : "s", waiting,
            held == 1 ? "s" : "", holding == 1 ? "" : "s", running);
  print_remedy(out, job);
  print_warnings(out, job);
  fputc('\n', out);
}
