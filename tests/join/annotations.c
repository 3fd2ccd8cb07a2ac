/* What a program may say to nccl-join (hooks/include/nccl_join.h), and what becomes of its buffers
 * when all ranks are together again: programs/annotations, whose training is done here once more.
 */
#include "tests/join/expected.h"
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WEIGHTS = 4, WEIGHTS_PART = 1, MOMENTS = 2, ALL_PARTS = WEIGHTS_PART | MOMENTS };

struct model {
  double weights[WEIGHTS], mean[WEIGHTS], square[WEIGHTS], steps;
};

struct words {
  struct schedule schedule;
  bool say_leave, say_enter, ask;
  bool no_meeting;  /* no collective after an epoch */
  bool late;        /* weights grow by 1 after an epoch */
  int parts;        /* what is resynchronised */
  int not_received; /* ranks that do not get the weights, as bits */
  const char *options, *environment;
};

/* ---- the training once more ---- */

static void step(struct model *model, const double *gradient) {
  model->steps += 1;
  for (int w = 0; w < WEIGHTS; w++) {
    model->mean[w] = 0.9 * model->mean[w] + 0.1 * gradient[w];
    model->square[w] = 0.999 * model->square[w] + 0.001 * gradient[w] * gradient[w];
    model->weights[w] -= 0.05 * (model->mean[w] / (1 - pow(0.9, model->steps))) /
                         (sqrt(model->square[w] / (1 - pow(0.999, model->steps))) + 1e-8);
  }
}

static void add_model(struct lines *lines, int rank, const char *what, const struct model *model) {
  const double *weights = model->weights;
  lines_add(lines, rank, "%s %.17g %.17g %.17g %.17g %.17g %.17g %.17g", what, weights[0],
            weights[1], weights[2], weights[3], model->mean[0], model->square[0], model->steps);
}

static void step_all(struct model *models, struct lines *lines, const struct words *words,
                     int epoch, int i, unsigned active) {
  double sum[WEIGHTS] = {0};
  for (int rank = 0; rank < words->schedule.nranks; rank++)
    for (int w = 0; w < WEIGHTS && (active >> rank & 1); w++)
      sum[w] += (rank + 1) * (w + 1) - (i * (w + 2) + epoch) % 5;
  for (int rank = 0; rank < words->schedule.nranks; rank++) {
    char text[256];
    if (!(active >> rank & 1))
      continue;
    step(&models[rank], sum);
    snprintf(text, sizeof text, "step %d %d", epoch, i);
    add_model(lines, rank, text, &models[rank]);
    snprintf(text, sizeof text, "active %d %d %d", epoch, i, set_size(active));
    for (int other = 0; other < words->schedule.nranks; other++)
      if (active >> other & 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), " %d", other);
    if (words->ask)
      lines_add(lines, rank, "%s", text);
  }
}

static void take_over(struct model *models, const struct words *words, int last) {
  for (int rank = 0; rank < words->schedule.nranks; rank++) {
    const struct model from = models[last];
    if ((words->parts & WEIGHTS_PART) && !(words->not_received >> rank & 1))
      memcpy(models[rank].weights, from.weights, sizeof from.weights);
    if (!(words->parts & MOMENTS))
      continue;
    memcpy(models[rank].mean, from.mean, sizeof from.mean);
    memcpy(models[rank].square, from.square, sizeof from.square);
    models[rank].steps = from.steps;
  }
}

/* Expects what the program prints. *last: of the epoch before, then of this one. */
static void train_epoch(struct model *models, struct lines *lines, const struct words *words,
                        int epoch, int *last) {
  unsigned all = set_of_all(words->schedule.nranks), active, latest = all;
  bool uneven = false;
  for (int i = 0; (active = schedule_active(&words->schedule, epoch, i)) != 0; i++) {
    step_all(models, lines, words, epoch, i, active);
    latest = active;
    uneven |= active != all;
  }
  if (uneven || words->say_leave)
    for (int rank = 0; rank < words->schedule.nranks; rank++)
      *last = latest >> rank & 1 ? rank : *last;
  for (int rank = 0; rank < words->schedule.nranks && words->late; rank++)
    for (int w = 0; w < WEIGHTS; w++)
      models[rank].weights[w] += 1;
  if (uneven || words->say_leave)
    take_over(models, words, *last);
  for (int rank = 0; rank < words->schedule.nranks; rank++) {
    char text[64];
    if (!words->no_meeting)
      lines_add(lines, rank, "met %d %d", epoch, words->schedule.nranks);
    if (words->ask)
      lines_add(lines, rank, "last %d %d", epoch, *last);
    snprintf(text, sizeof text, "model %d", epoch);
    add_model(lines, rank, text, &models[rank]);
  }
}

/* Runs the program and compares every number. The run is the caller's; models: at the end. */
static struct run *run_words(const struct words *words, struct model *models) {
  char options[1024];
  const char *say = words->say_enter ? "both" : words->say_leave ? "leave" : "none";
  snprintf(options, sizeof options, "--iterations %s --say %s --ask %d --meet %d --late %d %s",
           schedule_text(&words->schedule), say, words->ask, !words->no_meeting, words->late,
           words->options != NULL ? words->options : "");
  struct run *result = run(&(struct launch){.nranks = words->schedule.nranks,
                                            .program = "annotations",
                                            .options = options,
                                            .environment = words->environment});
  assert_went_well(result);
  struct lines *lines = lines_create();
  int last = words->schedule.nranks - 1;
  for (int rank = 0; rank < words->schedule.nranks; rank++)
    models[rank] = (struct model){.weights = {1, -2, 3, -4}};
  for (int epoch = 0; epoch < words->schedule.epochs; epoch++)
    train_epoch(models, lines, words, epoch, &last);
  lines_add_left(lines, words->schedule.nranks);
  assert_results(result, lines);
  lines_free(lines);
  return result;
}

static void check_words(const struct words *words) {
  struct model models[RUN_RANKS_MAX];
  run_free(run_words(words, models));
}

static bool are_equal(const struct model *models, int nranks) {
  for (int rank = 1; rank < nranks; rank++)
    if (memcmp(&models[rank], &models[0], sizeof *models) != 0)
      return false;
  return true;
}

static bool is_said(const struct run *run, const char *text) {
  return run_says_in_a_line(run, "NCCL-JOIN WARN", text, NULL);
}

/* ---- the end of a loop, said ---- */

/* Without any collective after the loop, and over several epochs of lengths that vary: nothing but
 * the word tells where a loop ends. */
Test(annotations, the_end_of_a_loop_is_where_the_program_says_it_is) {
  check_words(&(struct words){.schedule = {3, 4, {{3, 5, 9}, {7, 2, 4}, {6, 6, 6}, {0, 8, 1}}},
                              .say_leave = true,
                              .no_meeting = true});
}
Test(annotations, a_rank_without_data_where_it_had_some_before) {
  check_words(&(struct words){.schedule = {3, 3, {{10, 8, 12}, {10, 0, 10}, {5, 9, 0}}},
                              .say_leave = true});
}
Test(annotations, begin_and_end_are_said) {
  check_words(&(struct words){.schedule = {4, 3, {{4, 9, 0, 7}, {0, 3, 3, 12}, {20, 1, 2, 3}}},
                              .say_leave = true,
                              .say_enter = true});
}
Test(annotations, a_loop_that_is_well_learnt_ends_where_it_is_said) {
  check_words(&(struct words){
      .schedule = {2, 2, {{60, 35}, {30, 70}}}, .say_leave = true, .no_meeting = true});
}
Test(annotations, epochs_so_alike_that_their_end_is_part_of_the_pattern) {
  check_words(&(struct words){
      .schedule = {3, 6, {{3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 3, 3}, {3, 2, 5}, {4, 1, 1}}},
      .say_leave = true,
      .parts = ALL_PARTS,
      .no_meeting = true,
      .options = "--state all"});
}

/* The same program without the words cannot be told apart from one whose loop goes on. */
Test(annotations, without_words_the_ranks_of_that_program_meet_elsewhere) {
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "annotations", .options = "--iterations 3,5,9/7,2,4 --meet 0"});
  assert_went_well(result);
  cr_assert(strstr(result->output, "RESULT 0 step 1 6 ") != NULL);
  struct run *other =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 3,5,9/7,2,4 --meet 0 --say leave"});
  cr_assert_str_neq(strstr(result->output, "RESULT 0 step 1 6 "),
                    strstr(other->output, "RESULT 0 step 1 6 "));
  run_free(result);
  run_free(other);
}

/* A rank that leaves for good has left the loop; one that says nothing is followed until it does.
 */
Test(annotations, ranks_that_say_nothing_are_followed_until_they_leave) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 2,5,7 --meet 0 --say leave,none,none"});
  assert_went_well(result);
  run_free(result);
}

Test(annotations, a_rank_that_fails_frees_those_who_wait_at_the_end_of_a_loop) {
  struct run *result =
      run(&(struct launch){.nranks = 2,
                           .program = "annotations",
                           .options = "--iterations 2,5 --meet 0 --say leave,none --end fail",
                           .each = true});
  cr_assert(!result->timed_out, "%s", result->errors);
  cr_assert_neq(result->rank_status[0], 0);
  cr_assert(strstr(result->output, "RESULT 0 error 6 nccl_join_leave") != NULL, "%s%s",
            result->output, result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 1 failed", "end of a loop", NULL),
            "%s", result->errors);
  run_free(result);
}

/* ---- questions ---- */

Test(annotations, who_was_last_and_who_is_active) {
  check_words(&(struct words){.schedule = {3, 2, {{3, 5, 4}, {9, 2, 9}}}, .ask = true});
  check_words(&(struct words){.schedule = {4, 3, {{0, 20, 3, 9}, {2, 2, 2, 2}, {5, 0, 0, 4}}},
                              .ask = true,
                              .say_leave = true});
}

Test(annotations, words_do_nothing_without_nccl_join) {
  static const char options[] =
      "--iterations 3 --say both --state all --ask 1 --wrong 1 --thread 1";
  struct run *without = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .without = RUN_ALL_RANKS});
  struct run *off = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .environment = "NCCL_JOIN=0"});
  struct run *alone = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = options, .without = 1 << 1});
  assert_went_well(without);
  cr_assert(strstr(without->output, "RESULT 1 last 0 -1\n") != NULL &&
                strstr(without->output, "RESULT 1 active 0 2 -1\n") != NULL &&
                strstr(without->output, "RESULT 0 wrong 0 0 0 0 0 0 0 0 0\n") != NULL,
            "%s", without->output);
  assert_went_well(off);
  assert_same_results(without, off);
  cr_assert_eq(alone->status, 0, "%s", alone->errors);
  cr_assert(strstr(alone->output, "RESULT 0 last 0 -1\n") != NULL, "%s", alone->output);
  run_free(without);
  run_free(off);
  run_free(alone);
}

/* 4: ncclInvalidArgument, 5: ncclInvalidUsage. */
Test(annotations, calls_that_are_wrong_are_refused_with_a_reason) {
  struct run *result = run(&(struct launch){
      .nranks = 2, .program = "annotations", .options = "--iterations 3,5 --wrong 1"});
  assert_went_well(result);
  for (int rank = 0; rank < 2; rank++) {
    char expected[64];
    snprintf(expected, sizeof expected, "RESULT %d wrong 4 4 4 4 4 4 4 4 5\n", rank);
    cr_assert(strstr(result->output, expected) != NULL, "%s", result->output);
  }
  cr_assert(is_said(result, "ncclJoinLeave: the communicator is NULL"), "%s", result->errors);
  cr_assert(is_said(result, "between ncclGroupStart and ncclGroupEnd"), "%s", result->errors);
  cr_assert(is_said(result, "is not registered"), "%s", result->errors);
  cr_assert(is_said(result, "the 8796093022208 bytes from"), "%s", result->errors);
  run_free(result);
}

Test(annotations, another_thread_may_ask_and_register_meanwhile) {
  check_words(&(struct words){.schedule = {3, 3, {{30, 12, 40}, {5, 50, 22}, {40, 30, 0}}},
                              .parts = ALL_PARTS,
                              .options = "--state all --thread 1"});
}

/* ---- resynchronisation ---- */

static void check_equal_at_the_end(const struct words *words) {
  struct model models[RUN_RANKS_MAX];
  run_free(run_words(words, models));
  cr_assert(are_equal(models, words->schedule.nranks));
}

Test(annotations, registered_buffers_become_those_of_the_last_joiner) {
  check_equal_at_the_end(&(struct words){.schedule = {3, 3, {{6, 12, 9}, {8, 8, 8}, {3, 5, 4}}},
                                         .parts = ALL_PARTS,
                                         .options = "--state all"});
  check_equal_at_the_end(&(struct words){.schedule = {4, 2, {{0, 9, 9, 4}, {7, 0, 0, 0}}},
                                         .parts = ALL_PARTS,
                                         .ask = true,
                                         .say_leave = true,
                                         .options = "--state all"});
}

/* Without it, and with the weights alone, Adam's state keeps the ranks apart. */
Test(annotations, what_is_not_registered_stays_as_it_was) {
  struct model models[RUN_RANKS_MAX];
  const struct schedule schedule = {3, 2, {{6, 12, 12}, {8, 8, 8}}};
  run_free(run_words(&(struct words){.schedule = schedule}, models));
  cr_assert_not(are_equal(models, 3));
  run_free(run_words(
      &(struct words){.schedule = schedule, .parts = WEIGHTS_PART, .options = "--state weights"},
      models));
  cr_assert_not(are_equal(models, 3));
}

Test(annotations, buffers_of_the_first_broadcasts_are_repeated_from_the_last_joiner) {
  const struct schedule schedule = {3, 3, {{6, 12, 9}, {8, 8, 8}, {12, 5, 7}}};
  static const char *const begins[] = {"--begin broadcast", "--begin group", "--begin barrier"};
  for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
    check_equal_at_the_end(&(struct words){.schedule = schedule,
                                           .parts = ALL_PARTS,
                                           .options = begins[i],
                                           .environment = "NCCL_JOIN_RESYNC=broadcasts"});
  check_words(&(struct words){.schedule = schedule,
                              .options = "--begin broadcast",
                              .environment = "NCCL_JOIN_RESYNC=none"});
}

Test(annotations, broadcasts_after_another_collective_are_not_the_start) {
  struct model models[RUN_RANKS_MAX];
  struct run *result = run_words(&(struct words){.schedule = {3, 1, {{6, 12, 9}}},
                                                 .options = "--begin late",
                                                 .environment = "NCCL_JOIN_RESYNC=broadcasts"},
                                 models);
  cr_assert(is_said(result, "the program has broadcast nothing before its first other collective"),
            "%s", result->errors);
  run_free(result);
}

/* An update that the device has yet to come to is not lost, on the last joiner nor elsewhere. */
Test(annotations, work_of_the_program_that_is_under_way_is_waited_for) {
  check_equal_at_the_end(&(struct words){.schedule = {3, 2, {{6, 12, 9}, {4, 2, 6}}},
                                         .parts = ALL_PARTS,
                                         .late = true,
                                         .options = "--state all"});
  check_equal_at_the_end(&(struct words){.schedule = {2, 2, {{6, 12}, {4, 2}}},
                                         .parts = ALL_PARTS,
                                         .late = true,
                                         .say_leave = true,
                                         .no_meeting = true,
                                         .options = "--state all"});
}

/* The last joiner is killed while all wait for its buffers, or for their own devices: nobody is
 * left waiting, whatever NCCL does about a dead peer. 6: ncclRemoteError. */
static void check_killed(const char *options, const char *death, const char *call) {
  char text[256];
  snprintf(text, sizeof text, "--iterations 3,6,4 --state all --late 2 %s", options);
  struct run *result = run(&(struct launch){
      .nranks = 3, .program = "annotations", .options = text, .environment = death, .each = true});
  cr_assert(!result->timed_out && result->seconds < 100, "%s%s", result->output, result->errors);
  cr_assert_eq(result->rank_status[1], 128 + 9);
  for (int rank = 0; rank < 3; rank += 2) {
    char line[64];
    snprintf(line, sizeof line, "RESULT %d error 6 %s", rank, call);
    cr_assert(strstr(result->output, line) != NULL, "%s%s", result->output, result->errors);
    cr_assert_eq(result->rank_status[rank], 1);
  }
  run_free(result);
}
Test(annotations, a_last_joiner_that_is_killed_frees_those_who_wait_for_its_buffers) {
  check_killed("--say leave --meet 0", "LOOPBACK_DEATH=hang LOOPBACK_HANG_S=0", "nccl_join_leave");
  check_killed("--say leave --meet 0", "LOOPBACK_DEATH=error", "nccl_join_leave");
  check_killed("", "LOOPBACK_DEATH=hang LOOPBACK_HANG_S=0", "ncclAllReduce");
}

/* Epochs so short and so alike that nobody waits at their end: a rank that joins once comes back
 * unnoticed, and is like the others once they have waited for each other, here where they leave. */
Test(annotations, a_rank_that_comes_back_unnoticed_is_said_to_be_resynchronised_later) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 3/3/3/3/3/3/3/3/2,3,3/3 "
                                      "--state all --end destroy",
                           .environment = "NCCL_JOIN_DEBUG=INFO NCCL_JOIN_PLACES=0"});
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 0 had joined, but the others have",
                               "where the ranks next wait for each other", NULL),
            "%s", result->errors);
  cr_assert(run_says(result, "rank 2, the last to join: 4 buffers of it are all ranks' now"), "%s",
            result->errors);
  run_free(result);
}

/* ---- several ranks in a process ---- */

/* Each rank's state is what it began with and the sums that it took part in, then the last
 * joiner's. each: ranks of one thread. */
static void check_devices(const char *options, int processes, const struct schedule *schedule,
                          int each) {
  char text[256];
  snprintf(text, sizeof text, "--iterations %s %s", schedule_text(schedule), options);
  struct run *result =
      run(&(struct launch){.nranks = processes, .program = "devices", .options = text});
  assert_went_well(result);
  struct lines *lines = lines_create();
  double states[RUN_RANKS_MAX];
  int nranks = schedule->nranks * each;
  for (int rank = 0; rank < nranks; rank++)
    states[rank] = 100.0 * rank;
  for (int epoch = 0; epoch < schedule->epochs; epoch++) {
    unsigned active;
    for (int i = 0; (active = schedule_active(schedule, epoch, i)) != 0; i++)
      for (int rank = 0; rank < nranks; rank++)
        states[rank] += active >> rank / each & 1 ? each * set_size(active) : 0;
    int last = 0;
    for (int rank = 0; rank < nranks; rank++)
      last = schedule->n[epoch][rank / each] >= schedule->n[epoch][last / each] ? rank : last;
    for (int rank = 0; rank < nranks; rank++)
      states[rank] = states[last];
    for (int rank = 0; rank < nranks; rank++)
      lines_add(lines, rank, "state %d %g", epoch, states[rank]);
  }
  assert_results(result, lines);
  lines_free(lines);
  run_free(result);
}

Test(annotations, a_process_with_a_thread_for_each_rank) {
  const struct schedule schedule = {3, 3, {{20, 10, 0}, {3, 3, 9}, {4, 8, 4}}};
  check_devices("--mode threads --say leave", 1, &schedule, 1);
  check_devices("--mode threads --say both", 1, &schedule, 1);
  check_devices("--mode threads --say none", 1, &schedule, 1);
}
Test(annotations, processes_with_one_thread_for_two_ranks) {
  const struct schedule schedule = {2, 3, {{20, 10}, {3, 9}, {8, 0}}};
  check_devices("--mode pairs --say leave", 2, &schedule, 2);
  check_devices("--mode pairs --say both", 2, &schedule, 2);
  check_devices("--mode pairs --say none", 2, &schedule, 2);
}

/* More buffers than one unit holds. */
Test(annotations, a_thousand_buffers) {
  check_equal_at_the_end(&(struct words){.schedule = {3, 2, {{6, 12, 9}, {3, 2, 1}}},
                                         .parts = ALL_PARTS,
                                         .options = "--state all --repeat 1000"});
}

/* Freed on a rank that is not the last: it alone goes without. */
Test(annotations, a_buffer_that_has_been_freed_is_left_out) {
  struct model models[RUN_RANKS_MAX];
  struct run *result = run_words(&(struct words){.schedule = {3, 2, {{6, 12, 9}, {4, 6, 5}}},
                                                 .parts = ALL_PARTS,
                                                 .not_received = 1 << 2,
                                                 .options = "--state all --lose keep,keep,free"},
                                 models);
  cr_assert(run_says_in_a_line(result, "NCCL-JOIN WARN", "rank 2: the buffer of 4 elements",
                               "was registered, has been freed", NULL),
            "%s", result->errors);
  run_free(result);
}

/* Another allocation where the buffer was: its content is its own. */
Test(annotations, memory_that_is_another_buffers_now_is_left_alone) {
  struct model models[RUN_RANKS_MAX];
  struct run *result = run_words(&(struct words){.schedule = {3, 1, {{6, 12, 9}}},
                                                 .parts = ALL_PARTS,
                                                 .not_received = 1 << 0,
                                                 .options = "--state all --lose replace,keep,keep"},
                                 models);
  cr_assert(is_said(result, "rank 0: the buffer of 4 elements"), "%s", result->errors);
  run_free(result);
}

/* Freed on the last joiner: nobody gets what was never its model. */
Test(annotations, a_buffer_that_the_last_joiner_has_freed_is_left_out_everywhere) {
  struct model models[RUN_RANKS_MAX];
  struct run *result = run_words(&(struct words){.schedule = {3, 1, {{6, 12, 9}}},
                                                 .parts = MOMENTS,
                                                 .options = "--state all --lose keep,free,keep"},
                                 models);
  cr_assert(is_said(result, "rank 1: the buffer of 4 elements"), "%s", result->errors);
  run_free(result);
}

/* Ranks that have registered less, or nothing, or other sizes: no collective meets another. */
Test(annotations, ranks_that_register_other_buffers_go_without) {
  struct run *result =
      run(&(struct launch){.nranks = 3,
                           .program = "annotations",
                           .options = "--iterations 6,12,9 --state none,all,less"});
  assert_went_well(result);
  cr_assert(is_said(result, "rank 0 has no buffer for one that is resynchronised"), "%s",
            result->errors);
  run_free(result);
}

/* The communicator ends the last epoch: the model is the last joiner's when ncclCommDestroy
 * returns. */
Test(annotations, the_end_of_a_communicator_resynchronises_too) {
  struct run *result = run(&(struct launch){.nranks = 2,
                                            .program = "annotations",
                                            .options = "--iterations 3,5 --meet 0 --state all",
                                            .environment = "NCCL_JOIN_DEBUG=INFO"});
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  cr_assert(run_says(result, "rank 1, the last to join: 4 buffers of it are all ranks' now"), "%s",
            result->errors);
  run_free(result);
}

/* ---- Python ---- */

/* Of weights that begin with the rank: the sums of both ranks, then those of rank 1 alone. */
Test(annotations, the_example_in_python_runs) {
  if (system("command -v python3 >/dev/null") != 0) { /* NOLINT(cert-env33-c) */
    fputs("tests/join: no test of docs/annotations.py: there is no python3\n", stderr);
    cr_skip("no python3");
  }
  if (strcmp(run_build_folder(), "build") != 0)
    cr_skip("a sanitizer must be the first thing that a process loads, and Python has none");
  struct run *with =
      run(&(struct launch){.nranks = 2, .program = "../../docs/annotations.py", .options = "3,5"});
  struct run *without = run(&(struct launch){.nranks = 2,
                                             .program = "../../docs/annotations.py",
                                             .options = "3",
                                             .without = RUN_ALL_RANKS});
  assert_went_well(with);
  cr_assert(strstr(with->output, "RESULT 0 weights 14 last 1 active [0, 1]\n") != NULL &&
                strstr(with->output, "RESULT 1 weights 14 last 1 active [1]\n") != NULL,
            "%s", with->output);
  assert_went_well(without);
  cr_assert(strstr(without->output, "RESULT 0 weights 9 last -1 active None\n") != NULL &&
                strstr(without->output, "RESULT 1 weights 10 last -1 active None\n") != NULL,
            "%s", without->output);
  run_free(with);
  run_free(without);
}
