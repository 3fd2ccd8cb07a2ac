/* Programs in Python, and what PyTorch and what is built upon it do (tests/join/python stands for them; with the real ones: tests/pytorch). */
#include "tests/join/run.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct run *run_script(const char *script, const char *options, uint64_t without) {
  char program[128];
  snprintf(program, sizeof program, "../../tests/join/python/%s.py", script);
  return run(&(struct launch){.nranks = 2,
                              .program = program,
                              .options = options,
                              .environment = "NCCL_JOIN_DEBUG=INFO",
                              .without = without});
}

/* The lines of a rank, for free(). */
static char *lines_of(const struct run *run, int rank) {
  char name[32], *state = NULL, *output = strdup(run->output);
  char *found = calloc(1, strlen(output) + 2);
  snprintf(name, sizeof name, "RESULT %d ", rank);
  for (char *line = strtok_r(output, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
    if (strncmp(line, name, strlen(name)) == 0)
      strcat(strcat(found, line + strlen(name)), "\n");
  free(output);
  return found;
}

static void check_lines(const struct run *run, int rank, const char *expected) {
  char *lines = lines_of(run, rank);
  cr_assert_str_eq(lines, expected, "%s", run->errors);
  free(lines);
}

/* ---- PyTorch's Join: nccl-join stands aside ---- */

/* Each rank prints the same with nccl-join as without, and nobody has answered for anybody; a rank
 * says that it stands aside. */
static void check_untouched(const char *options) {
  run_needs_python();
  struct run *with = run_script("own_join", options, 0);
  struct run *alone = run_script("own_join", options, RUN_ALL_RANKS);
  cr_assert(!with->timed_out && with->status == 0, "%s\n%s%s", options, with->output, with->errors);
  cr_assert(!alone->timed_out && alone->status == 0, "%s\n%s", options, alone->errors);
  for (int rank = 0; rank < 2; rank++) {
    char *lines = lines_of(with, rank), *expected = lines_of(alone, rank);
    cr_assert_str_eq(lines, expected, "%s\n%s", options, with->errors);
    free(lines);
    free(expected);
  }
  cr_assert(run_says(with, "the program uses PyTorch's Join"), "%s", with->errors);
  cr_assert(!run_says(with, "WARN"), "%s", with->errors);
  run_free(with);
  run_free(alone);
}

Test(own_join, ranks_without_data_answer_by_themselves) {
  check_untouched("2,5");
  check_untouched("6,3");
}
Test(own_join, a_rank_without_data) {
  check_untouched("0,3");
}
/* What a shadow contributes to the second sum of an iteration would not say that. */
Test(own_join, the_first_that_is_out_of_data_stops_all) {
  check_untouched("2,5 throw");
  check_untouched("4,0 throw");
}

/* Only with nccl-join does the first epoch come to its end. */
Test(own_join, after_an_uneven_epoch) {
  run_needs_python();
  struct run *result = run_script("own_join", "2,4 first=3,5", 0);
  cr_assert(!result->timed_out && result->status == 0, "%s%s", result->output, result->errors);
  check_lines(result, 0, "sum 0 3\nsum 1 3\nsum 2 3\nsum 0 3\nsum 1 3\nrounds 2\nat last 3\n");
  check_lines(result, 1,
              "sum 0 3\nsum 1 3\nsum 2 3\nsum 3 2\nsum 4 2\n"
              "sum 0 3\nsum 1 3\nsum 2 2\nsum 3 2\nrounds 0\nat last 3\n");
  run_free(result);
}

/* ---- Lightning: validation in the iteration of the last batch ---- */

static bool is_alone(struct run *result) {
  bool alone = false;
  for (int rank = 0; rank < 2; rank++) {
    char *lines = lines_of(result, rank);
    for (const char *at = lines; (at = strstr(at, "validation ")) != NULL; at++)
      alone |= strncmp(at + strlen("validation 0 "), "3 2\n", 4) != 0;
    free(lines);
  }
  return alone;
}

/* All have gone round the loop without it, so who comes to it has no more rounds. It is told, as a rank
 * might come to it by a count of its own, too. */
Test(last_batch, a_rank_waits_for_the_others_with_its_validation) {
  run_needs_python();
  const char *const lengths[] = {"4,9", "9,4", "4,9/7,2", "9,3/2,4/4,4"};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct run *result = run_script("last_batch", lengths[i], 0);
    cr_assert(!result->timed_out && result->status == 0, "%s\n%s", lengths[i], result->errors);
    cr_assert_not(is_alone(result), "%s\n%s%s", lengths[i], result->output, result->errors);
    cr_assert(run_says(result, "nothing tells which goes first"), "%s\n%s", lengths[i],
              result->errors);
    run_free(result);
  }
}

/* With a single batch no loop has gone round. */
Test(last_batch, that_a_rank_with_one_batch_validates_alone_is_told) {
  run_needs_python();
  const char *const lengths[] = {"1,4", "2,30/30,1/1,30"};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct run *result = run_script("last_batch", lengths[i], 0);
    cr_assert(!result->timed_out && result->status == 0, "%s\n%s", lengths[i], result->errors);
    cr_assert(!is_alone(result) || run_says(result, "nothing tells which goes first"), "%s\n%s%s",
              lengths[i], result->output, result->errors);
    run_free(result);
  }
}

/* The second model's sums are new, and all have gone round the loop around its batches without them. But they
 * stand in the loop of batches, which ranks have been in: who has no batch has had no part in it. */
Test(last_batch, what_is_new_in_a_loop_that_ranks_have_been_in_is_no_last_one) {
  run_needs_python();
  struct run *result = run_script("cells", "2,4/3,5/4,4+0,2/1,3", 0);
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  static const int n[2][5] = {{2, 3, 4, 0, 1}, {4, 5, 4, 2, 3}};
  for (int rank = 0; rank < 2; rank++) {
    char expected[2048] = "", *at = expected;
    for (int cell = 0; cell < 5; cell++) {
      const char *model = cell < 3 ? "first" : "second";
      at += sprintf(at, "begin %s %d 3\n", model, cell % 3);
      for (int i = 0; i < n[rank][cell]; i++)
        at +=
            sprintf(at, "sum %s %d %d %d\n", model, cell % 3, i, i < n[!rank][cell] ? 3 : rank + 1);
    }
    check_lines(result, rank, expected);
  }
  run_free(result);
}

Test(last_batch, of_equal_lengths_it_meets_all) {
  run_needs_python();
  struct run *result = run_script("last_batch", "4,4/7,7", 0);
  cr_assert(!result->timed_out && result->status == 0, "%s", result->errors);
  for (int rank = 0; rank < 2; rank++) {
    char *lines = lines_of(result, rank);
    cr_assert(strstr(lines, "validation 0 3 2\n") && strstr(lines, "validation 1 3 2\n"), "%s%s",
              lines, result->errors);
    free(lines);
  }
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  run_free(result);
}

/* ---- a leader and workers ---- */

/* All ranks make the same collectives, each in a way of its own: the leader sends from several points what the workers
 * receive at one. */
Test(commands, of_a_root_meet_those_who_wait_for_them) {
  run_needs_python();
  static const int epochs[][3] = {{3, 2, 2}, {1, 5, 1}, {1, 1, 0}};
  for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
    char options[32], expected[1024] = "", *at = expected;
    sprintf(options, "%d,%d,%d", epochs[i][0], epochs[i][1], epochs[i][2]);
    struct run *result = run_script("commands", options, 0);
    cr_assert(!result->timed_out && result->status == 0, "%s\n%s", options, result->errors);
    for (int epoch = 0; epoch < 3; epoch++) {
      for (int batch = 0; batch < epochs[i][epoch]; batch++)
        at += sprintf(at, "train 3\n");
      at += sprintf(at, "evaluate 3\n");
    }
    check_lines(result, 0, expected);
    sprintf(at, "stop 3\n");
    check_lines(result, 1, expected);
    run_free(result);
  }
}

/* ---- epochs with nothing between them ---- */

/* Of each epoch the batches of both ranks, and whether a sum of both ends it; ends with batches below 0. */
struct epoch_lengths {
  int n[2];
  bool ends;
};

#define WAIT "NCCL_JOIN_EPOCHS=wait"

static void check_epochs(const struct run *run, const struct epoch_lengths *epochs) {
  for (int rank = 0; rank < 2; rank++) {
    char expected[4096] = "", *at = expected;
    for (int epoch = 0; epochs[epoch].n[0] >= 0; epoch++) {
      for (int i = 0; i < epochs[epoch].n[rank]; i++)
        at += sprintf(at, "sum %d %d %d %d\n", epoch, i, epoch, i < epochs[epoch].n[!rank] ? 2 : 1);
      if (epochs[epoch].ends)
        at += sprintf(at, "end %d %d 2\n", epoch, epoch);
    }
    check_lines(run, rank, expected);
  }
}

static struct run *run_epochs(const char *how, const struct epoch_lengths *epochs,
                              const char *environment) {
  char options[512], program[] = "../../tests/join/python/epochs.py";
  int used = snprintf(options, sizeof options, "%s ", how);
  for (int i = 0; epochs[i].n[0] >= 0; i++)
    used += snprintf(options + used, sizeof options - (size_t)used, "%s%d,%d%s", i == 0 ? "" : "/",
                     epochs[i].n[0], epochs[i].n[1], epochs[i].ends ? "+" : "");
  struct run *result = run(&(struct launch){
      .nranks = 2, .program = program, .options = options, .environment = environment});
  cr_assert(!result->timed_out, "%s\n%s%s", options, result->output, result->errors);
  return result;
}

/* Those that end well, with a WARN that says this, or NULL: without one. */
static struct run *run_epochs_well(const char *how, const struct epoch_lengths *epochs,
                                   const char *environment, const char *warning) {
  struct run *result = run_epochs(how, epochs, environment);
  cr_assert(result->status == 0, "%s%s", result->output, result->errors);
  cr_assert_eq(run_says(result, "WARN"), warning != NULL, "%s", result->errors);
  cr_assert(warning == NULL || run_says(result, warning), "%s", result->errors);
  return result;
}

/* A rank waits where it begins a round, and its peers are not there. Also where some epochs have an end, or have nothing for one rank. */
Test(epochs, with_nothing_between_them_do_not_mix) {
  run_needs_python();
  const struct epoch_lengths of[][6] = {
      {{{3, 5}, false}, {{3, 5}, false}, {{5, 3}, false}, {{4, 4}, false}, {{-1, -1}, false}},
      {{{3, 3}, false}, {{0, 2}, false}, {{2, 0}, false}, {{1, 3}, true}, {{-1, -1}, false}},
      {{{3, 4}, true}, {{0, 2}, false}, {{0, 3}, true}, {{2, 2}, false}, {{-1, -1}, false}},
      {{{0, 2}, false}, {{3, 0}, false}, {{1, 4}, false}, {{3, 3}, false}, {{-1, -1}, false}},
      {{{2, 0}, false}, {{2, 0}, false}, {{2, 3}, true}, {{-1, -1}, false}},
  };
  const char *const hows[] = {"for",   "list",   "bar", "thread",    "models",
                              "items", "values", "zip", "backwards", "down"};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    for (size_t how = 0; how < sizeof hows / sizeof *hows; how++) {
      /* An end that looks like the batches, behind a condition, which no rank has come to yet. */
      const char *warning = of[i][0].ends ? "both look alike" : NULL;
      struct run *result = run_epochs_well(hows[how], of[i], WAIT, warning);
      check_epochs(result, of[i]);
      run_free(result);
    }
}

/* Nothing says where they begin, on one rank or on both, or that has not been asked for: the third batch of
 * rank 1 meets the next epoch's. Said where it is seen, unless it is wanted. */
Test(epochs, they_mix_where_nothing_tells_them_apart) {
  run_needs_python();
  const struct epoch_lengths of[] = {{{2, 3}, false}, {{3, 2}, false}, {{-1, -1}, false}};
  const struct {
    const char *how, *environment, *warning;
  } cases[] = {{"for", NULL, "begins round 2 of the outermost loop"},
               {"list", NULL, "they mix. If rounds of the outermost loop are epochs"},
               {"thread", NULL, "begins round 2 of the outermost loop"},
               {"keys", NULL, "begins round 2 of the outermost loop"},
               {"zip", NULL, "begins round 2 of the outermost loop"},
               {"backwards", NULL, "begins another round of the outermost loop"},
               {"models", NULL, "begins round 2 of the loop within the outermost one"},
               {"threads", NULL, NULL},
               {"for", "NCCL_JOIN_EPOCHS=mix", NULL},
               {"while", NULL, NULL},
               {"while", WAIT, NULL},
               {"map", NULL, NULL},
               {"map", WAIT, "count its rounds alike"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct run *result = run_epochs_well(cases[i].how, of, cases[i].environment, cases[i].warning);
    char *lines = lines_of(result, 1);
    cr_expect(strstr(lines, "sum 0 2 0.5 2\n") != NULL, "%s", lines);
    free(lines);
    run_free(result);
  }
}

/* A rank that waits where a round begins in one team may be waited for in another. */
Test(epochs, wait_for_nobody_who_waits_for_them_in_another_team) {
  run_needs_python();
  const struct {
    int nranks, ends;
    const char *lengths;
  } cases[] = {{3, 3, "1,0,2:0,1,2:2,0,2"},
               {3, 6, "1,1,1/0,1,2:2,1,1/1,1,0"},
               {4, 4, "1,1,1,1/1,1,1,1:1,1,1,1/0,1,2,1"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char program[] = "../../tests/join/python/parity.py", all[8];
    struct run *result = run(&(struct launch){.nranks = cases[i].nranks,
                                              .program = program,
                                              .options = cases[i].lengths,
                                              .environment = WAIT});
    cr_assert(result->status == 0 && !result->timed_out, "%s\n%s%s", cases[i].lengths,
              result->output, result->errors);
    snprintf(all, sizeof all, " %d\n", cases[i].nranks);
    int ends = 0, together = 0;
    for (const char *at = result->output; (at = strstr(at, " end ")) != NULL; at++) {
      const char *line_end = strchr(at, '\n');
      ends++;
      together += line_end != NULL && strncmp(line_end - 2, all, strlen(all)) == 0;
    }
    cr_expect_eq(ends, together, "%s\n%s", cases[i].lengths, result->output);
    cr_expect_geq(ends, cases[i].ends);
    run_free(result);
  }
}

/* Of many rounds: no claim shows where the last of them begins. */
Test(epochs, that_mix_after_many_even_ones_are_told) {
  run_needs_python();
  struct epoch_lengths of[21] = {
      [18] = {{2, 3}, false}, [19] = {{3, 2}, false}, [20] = {{-1, -1}, false}};
  for (int i = 0; i < 18; i++)
    of[i].n[0] = of[i].n[1] = 1;
  const char *const cases[][2] = {
      {"for", "begins round 20 of the outermost loop"},
      {"many", "begins round 620 of the outermost loop"},
      {"models", "begins round 2 of the loop within the outermost one"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    run_free(run_epochs_well(cases[i][0], of, NULL, cases[i][1]));
}

Test(epochs, the_job_stops_where_it_is_seen_that_they_mix) {
  run_needs_python();
  const struct epoch_lengths of[] = {{{2, 3}, false}, {{3, 2}, false}, {{-1, -1}, false}};
  struct run *result = run_epochs("for", of, "NCCL_JOIN_UNSURE=stop");
  cr_expect(result->status != 0);
  cr_expect(run_says(result, "the rank stops (NCCL_JOIN_UNSURE=stop)"), "%s", result->errors);
  run_free(result);
  result = run_epochs_well("for", of, "NCCL_JOIN_UNSURE=stop NCCL_JOIN_EPOCHS=mix", NULL);
  run_free(result);
}

Test(epochs, even_ones_are_left_alone) {
  run_needs_python();
  const struct epoch_lengths of[] = {{{3, 3}, false}, {{0, 0}, false}, {{2, 2}, true},
                                     {{2, 2}, false}, {{4, 4}, false}, {{-1, -1}, false}};
  const char *const hows[] = {"for", "list", "while", "map", "thread", "threads", "models"};
  for (int i = 0; i < 14; i++) {
    const char *how = hows[i / 2];
    const char *warning = i % 2 && strcmp(how, "map") == 0 ? "count its rounds alike" : NULL;
    struct run *result = run_epochs_well(
        how, of, i % 2 ? WAIT " NCCL_JOIN_DEBUG=INFO" : "NCCL_JOIN_DEBUG=INFO", warning);
    check_epochs(result, of);
    cr_expect(!run_says(result, "has joined"), "%s: %s", how, result->errors);
    run_free(result);
  }
}

/* They begin a round together: one after the other the first would wait for the second for ever. */
Test(epochs, of_two_ranks_that_one_thread_drives) {
  run_needs_python();
  struct run *result = run(&(struct launch){.nranks = 1,
                                            .program = "../../tests/join/python/driven.py",
                                            .options = "2/1/2",
                                            .environment = WAIT,
                                            .here = true,
                                            .limit_s = 60});
  cr_assert(!result->timed_out && result->status == 0, "%s%s", result->output, result->errors);
  check_lines(result, 0, "sum 0 0 0 0\nsum 0 1 0 0\nsum 1 0 1 1\nsum 2 0 2 2\nsum 2 1 2 2\n");
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  run_free(result);
}

/* ---- ends of epochs behind conditions ---- */

static void check_ends(const char *how, const char *words, const char *environment,
                       const char *warning) {
  char options[256], program[] = "../../tests/join/python/ends.py";
  int nranks = 1;
  for (const char *at = words; *at != '\0' && *at != '/'; at++)
    nranks += *at == ',';
  snprintf(options, sizeof options, "%s %s", how, words);
  struct run *result = run(&(struct launch){
      .nranks = nranks, .program = program, .options = options, .environment = environment});
  cr_assert(!result->timed_out && result->status == 0, "%s\n%s%s", options, result->output,
            result->errors);
  for (int rank = 0; rank < nranks; rank++)
    check_lines(result, rank, "wrong 0\n");
  cr_expect_eq(run_says(result, "WARN"), warning != NULL, "%s: %s", options, result->errors);
  cr_expect(warning == NULL || run_says(result, warning), "%s: %s", options, result->errors);
  run_free(result);
}

static const char *const uneven[] = {"3,5/3,5/5,3/4,4", "2,2/0,2/2,2/3,1", "3,3/3,0/0,2/4,4/1,0",
                                     "1,2,1/2,1,1/3,0,2/2,3,3"};
enum { UNEVEN = sizeof uneven / sizeof *uneven };

/* Whether each round comes to them the code leaves open; that ranks have been in the same rounds tells. */
Test(ends, what_a_condition_leads_to_is_told_by_rounds_that_all_count_alike) {
  run_needs_python();
  const char *const hows[] = {"early", "flag", "handler", "same"};
  for (size_t how = 0; how < sizeof hows / sizeof *hows; how++)
    for (size_t i = how % 2; i < UNEVEN; i += 2) {
      /* No rank has come to the end yet, and one looks like another batch. */
      bool alike = strcmp(hows[how], "same") == 0 && uneven[i] == uneven[3];
      check_ends(hows[how], uneven[i], NULL, alike ? "both look alike" : NULL);
    }
}

Test(ends, of_a_rank_without_a_batch_that_has_one_of_its_own) {
  run_needs_python();
  for (size_t i = 1; i < UNEVEN; i++)
    check_ends("skip", uneven[i], NULL, "nccl_join_leave");
}

Test(ends, where_only_some_epochs_have_one_those_without_can_be_kept_apart) {
  run_needs_python();
  for (size_t i = 0; i < UNEVEN; i += 3)
    check_ends("every", uneven[i], WAIT, NULL);
}

/* In which round a rank is has nothing to do with the others' rounds. */
Test(ends, of_items_that_each_rank_has_for_itself) {
  run_needs_python();
  check_ends("shared", "2,2/3,3/1,1", NULL, NULL);
  check_ends("shared", "3,5/2,4/4,4", NULL, NULL);
  check_ends("shared", "2,2,2/1,3,2/3,3,1", NULL, NULL);
}

Test(ends, of_an_even_program_whose_ranks_come_to_batches_by_other_branches_each_time) {
  run_needs_python();
  check_ends("ways", "6,6/6,6/6,6/6,6", NULL, "since they look alike");
  check_ends("ways", "5,5,5/5,5,5/5,5,5", NULL, "since they look alike");
}

/* The columns of such code tell nothing. */
Test(ends, code_that_each_rank_is_given_with_a_number_of_its_own_is_one_place) {
  run_needs_python();
  check_ends("spawned", "3,3,2/3,3,3/2,3,3", NULL, NULL);
  check_ends("spawned", "3,3,3/2,2,2", NULL, NULL);
}

/* ---- PyTorch's timers while a rank is parked ---- */

/* Rank 0 waits for 5 times half a second. The next record waits, and only that one. */
Test(timers, parked_rank_makes_timeouts_longer_and_comes_back_with_its_work_done) {
  run_needs_python();
  char options[512];
  snprintf(options, sizeof options, "2,7 %s/plugins/libtorch_cuda.so", run_build_folder());
  struct run *result = run_script("timers", options, 0);
  cr_assert(!result->timed_out && result->status == 0, "%s%s", result->output, result->errors);
  check_lines(result, 0, "added 2 first 0 second 600\n");
  check_lines(result, 1, "added 0 first 600 second 600\n");
  cr_assert(!run_says(result, "WARN"), "%s", result->errors);
  run_free(result);
}
