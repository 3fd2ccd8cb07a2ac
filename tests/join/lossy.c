/* Collectives to which a joined rank cannot contribute nothing: refused, or allowed by
 * NCCL_JOIN_LOSSY. */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { THEN = 3 }; /* all-reduces after a refusal, in programs/lossy */

static struct run *run_lossy(const struct schedule *schedule, const char *collective, int root,
                             const char *environment) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s --collective %s --root %d --then %d",
           schedule_text(schedule), collective, root, THEN);
  struct run *result = run(&(struct launch){
      .nranks = schedule->nranks, .program = "lossy", .options = text, .environment = environment});
  assert_went_well(result);
  return result;
}

/* Rank `joined` leaves; every other rank is refused, within so many iterations, and all leave in
 * peace. One line names the joined rank, the call and the setting. */
static struct run *check_refused_with(const char *environment, const struct schedule *schedule,
                                      const char *collective, int joined, int root, int within) {
  struct run *result = run_lossy(schedule, collective, root, environment);
  char rank_name[16];
  snprintf(rank_name, sizeof rank_name, "rank %d", joined);
  cr_assert(run_says_in_a_line(result, rank_name, collective, "NCCL_JOIN_LOSSY", NULL),
            "no line names %s, %s and NCCL_JOIN_LOSSY:\n%s", rank_name, collective, result->errors);
  assert_refused(result, schedule->nranks, joined);
  assert_not_gone_on(result, schedule, joined, within);
  return result;
}

/* While every unit is still asked for, all ranks are refused at the same one, over machines too,
 * and go on in step. */
static void check_refused_at_once(const struct schedule *schedule, const char *collective,
                                  int joined, int root) {
  struct run *result = check_refused_with("", schedule, collective, joined, root, 1);
  unsigned active = set_of_all(schedule->nranks) & ~(1u << joined);
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int step = 0; step < THEN && rank != joined; step++) {
      char text[64];
      snprintf(text, sizeof text, "after %d %u %d\n", step, active, set_size(active) * (step + 1));
      cr_assert(has_result(result, rank, text), "rank %d: no \"%s\"\n%s", rank, text,
                result->output);
    }
  run_free(result);
}

/* In a loop that is learnt, a collective may be on its way before its rank can know: it is done
 * with zeros, and the error comes with the next call. */
static void check_refused_once_learnt(const struct schedule *schedule, const char *collective,
                                      int joined, int root) {
  run_free(check_refused_with("", schedule, collective, joined, root,
                              heard_within(schedule->nranks, 1)));
}

Test(lossy, allgather_is_refused) {
  check_refused_at_once(&(struct schedule){3, 1, {{1, 6, 6}}}, "allgather", 0, 0);
}
Test(lossy, allgather_is_refused_once_learnt) {
  check_refused_once_learnt(&(struct schedule){3, 1, {{12, 20, 20}}}, "allgather", 0, 0);
}
Test(lossy, allgather_is_refused_to_a_rank_without_iterations) {
  check_refused_at_once(&(struct schedule){3, 1, {{5, 0, 5}}}, "allgather", 1, 0);
}
Test(lossy, alltoall_is_refused) {
  check_refused_at_once(&(struct schedule){3, 1, {{6, 2, 6}}}, "alltoall", 1, 0);
}
Test(lossy, alltoall_is_refused_once_learnt) {
  check_refused_once_learnt(&(struct schedule){2, 1, {{20, 10}}}, "alltoall", 1, 0);
}
Test(lossy, gather_is_refused) {
  check_refused_at_once(&(struct schedule){3, 1, {{2, 6, 6}}}, "gather", 0, 1);
}
Test(lossy, scatter_is_refused) {
  check_refused_at_once(&(struct schedule){3, 1, {{2, 6, 6}}}, "scatter", 0, 0);
}
Test(lossy, scatter_is_refused_once_learnt) {
  check_refused_once_learnt(&(struct schedule){3, 1, {{12, 20, 20}}}, "scatter", 0, 0);
}

/* A pair of numbers for each rank, zeros for those that have joined. */
static void describe_gathered(char *text, size_t size, unsigned active, int nranks, int i) {
  size_t length = (size_t)snprintf(text, size, "got %d", i);
  for (int rank = 0; rank < nranks; rank++) {
    bool heard = active >> rank & 1;
    length += (size_t)snprintf(text + length, size - length, " %d %d", heard ? 100 * (rank + 1) : 0,
                               heard ? i + 1 : 0);
  }
}

/* Zeros in the place of the joined ranks, everything else as it should be. all: each rank gets a
 * part from every rank; otherwise the root alone does. */
static void check_zeros_with(const char *environment, const struct schedule *schedule,
                             const char *collective, bool all, int root) {
  struct run *result = run_lossy(schedule, collective, root, environment);
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule->nranks; rank++)
    for (int i = 0; i < schedule->n[0][rank]; i++) {
      char text[256];
      unsigned active = schedule_active(schedule, 0, i);
      lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
      describe_gathered(text, sizeof text, active, schedule->nranks, i);
      if (all || rank == root)
        lines_add(lines, rank, "%s", text);
    }
  lines_add_left(lines, schedule->nranks);
  finish_run(result, lines);
}

static void check_zeros(const struct schedule *schedule, const char *collective, bool all,
                        int root) {
  check_zeros_with("NCCL_JOIN_LOSSY=zero", schedule, collective, all, root);
}

Test(lossy, allgather_with_zeros) {
  check_zeros(&(struct schedule){3, 1, {{2, 8, 6}}}, "allgather", true, 0);
}
Test(lossy, allgather_with_zeros_once_learnt) {
  check_zeros(&(struct schedule){3, 1, {{20, 12, 16}}}, "allgather", true, 0);
}
Test(lossy, alltoall_with_zeros) {
  check_zeros(&(struct schedule){3, 1, {{8, 2, 6}}}, "alltoall", true, 0);
}
Test(lossy, gather_with_zeros) {
  check_zeros(&(struct schedule){3, 1, {{2, 8, 8}}}, "gather", false, 1);
}

/* A scatter's root that has joined has nothing but zeros to give. */
Test(lossy, scatter_with_zeros) {
  const struct schedule schedule = {3, 1, {{2, 6, 6}}};
  struct run *result = run_lossy(&schedule, "scatter", 0, "NCCL_JOIN_LOSSY=zero");
  struct lines *lines = lines_create();
  for (int rank = 0; rank < schedule.nranks; rank++)
    for (int i = 0; i < schedule.n[0][rank]; i++) {
      unsigned active = schedule_active(&schedule, 0, i);
      lines_add(lines, rank, "sum %d %u %d", i, active, set_size(active) * (i + 1));
      lines_add(lines, rank, "got %d %d %d", i, i < 2 ? 100 : 0, i < 2 ? i + 1 : 0);
    }
  lines_add_left(lines, schedule.nranks);
  finish_run(result, lines);
}

/* ---- each kind for itself ---- */

Test(lossy, the_kinds_that_are_named_are_allowed) {
  const struct schedule schedule = {3, 1, {{2, 6, 6}}};
  check_zeros_with("NCCL_JOIN_LOSSY=allgather:zero", &schedule, "allgather", true, 0);
  check_zeros_with("NCCL_JOIN_LOSSY=send:error,alltoall:zero", &schedule, "alltoall", true, 0);
  check_zeros_with("NCCL_JOIN_LOSSY=scatter:error,gather:zero", &schedule, "gather", false, 1);
}
Test(lossy, the_other_kinds_are_refused) {
  const struct schedule schedule = {3, 1, {{2, 6, 6}}};
  static const struct {
    const char *environment, *collective, *says;
    int root;
  } cases[] = {
      {"NCCL_JOIN_LOSSY=alltoall:zero,gather:zero,scatter:zero,send:zero", "allgather",
       "NCCL_JOIN_LOSSY=allgather:zero", 0},
      {"NCCL_JOIN_LOSSY=allgather:zero,gather:zero", "alltoall", "NCCL_JOIN_LOSSY=alltoall:zero",
       0},
      {"NCCL_JOIN_LOSSY=allgather:zero,gather:error", "gather", "NCCL_JOIN_LOSSY=gather:zero", 1},
      {"NCCL_JOIN_LOSSY=allgather:zero", "scatter", "NCCL_JOIN_LOSSY=scatter:zero", 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct run *result = check_refused_with(cases[i].environment, &schedule, cases[i].collective, 0,
                                            cases[i].root, 1);
    cr_assert(run_says(result, cases[i].says), "%s", result->errors);
    run_free(result);
  }
}

/* Even loops know no joined rank: nothing is refused. */
Test(lossy, nothing_is_refused_while_nobody_has_joined) {
  static const char *const collectives[] = {"allgather", "alltoall", "gather", "scatter"};
  for (int c = 0; c < 4; c++) {
    struct run *result = run_lossy(&(struct schedule){3, 1, {{6, 6, 6}}}, collectives[c], 0, "");
    cr_assert(strstr(result->output, "refused") == NULL, "%s\n%s", collectives[c], result->errors);
    run_free(result);
  }
}

/* ---- who ends first ---- */

/* Programs that take the refusal as any other error: each ends with it, and takes its communicator
 * along. Every active rank gets the refusal, and none its peer's end, whoever is first. */
static void check_that_all_hear_why(int nranks, const char *iterations, int times) {
  char options[128];
  snprintf(options, sizeof options, "--collective allgather --strict 1 --iterations %s",
           iterations);
  for (int i = 0; i < times; i++) {
    struct run *result = run(
        &(struct launch){.nranks = nranks, .program = "lossy", .options = options, .each = true});
    cr_assert_not(result->timed_out, "%s", result->errors);
    for (int rank = 1; rank < nranks; rank++) {
      char error[32], who[32];
      snprintf(error, sizeof error, "error %d", 5); /* ncclInvalidUsage */
      cr_assert(has_result(result, rank, error), "rank %d\n%s%s", rank, result->output,
                result->errors);
      /* As NCCL's last error, too. */
      snprintf(who, sizeof who, "rank %d: ", rank);
      cr_assert(run_says_in_a_line(result, who, "rank 0", "NCCL_JOIN_LOSSY=allgather", NULL), "%s",
                result->errors);
    }
    /* The joined rank hears who failed. */
    cr_assert_not(run_says(result, "(nccl-join: )"), "%s", result->errors);
    run_free(result);
  }
}
Test(lossy, all_hear_why_whoever_ends_first) {
  check_that_all_hear_why(3, "1,6,6", 6);
}
Test(lossy, all_hear_why_once_learnt_whoever_ends_first) {
  check_that_all_hear_why(3, "12,20,20", 6);
}
/* Who waits to be told of a broadcast's root learns that another has gone. */
Test(lossy, all_hear_why_although_a_broadcast_has_lost_a_rank) {
  check_that_all_hear_why(4, "12,20,20,20 --behind 1", 6);
  check_that_all_hear_why(4, "12,20,20,20 --behind 0", 6);
}
/* The one that hears it first ends before it has issued what the other waits for on the device. */
Test(lossy, all_hear_why_although_nccl_has_noticed_that_a_rank_is_gone) {
  check_that_all_hear_why(3, "12,20,20 --late 12", 1);
}
/* It may notice that before the program prints what the error is: NCCL has told of another since.
 */
Test(lossy, all_hear_why_although_nccl_has_told_of_another_error) {
  check_that_all_hear_why(3, "12,20,20 --late 12 --ask 1 --blunder 1", 1);
}

/* ---- who lives on ---- */

static bool has_heard(const struct running *running, int rank) {
  char error[32], refused[32];
  snprintf(error, sizeof error, "RESULT %d error 5", rank); /* ncclInvalidUsage */
  snprintf(refused, sizeof refused, "RESULT %d refused", rank);
  return run_has_said(running, error) || run_has_said(running, refused);
}

/* Every active rank hears of it, although who has heard it first does nothing more. */
static void check_that_all_hear(const char *options) {
  static const double looks_s = 0.05, limit_s = 25;
  struct running *running = run_start(
      &(struct launch){.nranks = 4, .program = "lossy", .options = options, .each = true});
  int heard = 1;
  for (double s = 0; s < limit_s * run_slowness() && heard < 4; s += looks_s) {
    run_goes_on(running, looks_s);
    while (heard < 4 && has_heard(running, heard))
      heard++;
  }
  struct run *result = run_end(running);
  cr_assert(heard == 4, "rank %d, %s\n%s%s", heard, options, result->output, result->errors);
  cr_assert(run_says(result, "NCCL_JOIN_LOSSY=allgather"), "%s", result->errors);
  run_free(result);
}

/* Rank 3 is refused where the others have issued more, and wait for it on their devices. */
Test(lossy, all_hear_of_it_although_who_has_heard_first_lives_on) {
  check_that_all_hear("--iterations 12,20,20,20 --late 12 --ask 1 --linger 600000 --then 0");
}

/* They want what nobody expects, and are parked in that call. */
Test(lossy, all_hear_of_it_who_are_parked_for_one_that_lives_on) {
  check_that_all_hear("--iterations 12,13,13,20 --late 12 --final 1 --linger 600000 --then 0");
}
