/* What programs/annotations must print (annotated.h). */
#include "tests/join/annotated.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static void step(struct annotated_model *model, const double *gradient) {
  model->steps += 1;
  for (int w = 0; w < WEIGHTS; w++) {
    model->mean[w] = 0.9 * model->mean[w] + 0.1 * gradient[w];
    model->square[w] = 0.999 * model->square[w] + 0.001 * gradient[w] * gradient[w];
    model->weights[w] -= 0.05 * (model->mean[w] / (1 - pow(0.9, model->steps))) /
                         (sqrt(model->square[w] / (1 - pow(0.999, model->steps))) + 1e-8);
  }
}

static void add_model(struct lines *lines, int rank, const char *what,
                      const struct annotated_model *model) {
  const double *weights = model->weights;
  lines_add(lines, rank, "%s %.17g %.17g %.17g %.17g %.17g %.17g %.17g", what, weights[0],
            weights[1], weights[2], weights[3], model->mean[0], model->square[0], model->steps);
}

static void step_all(struct annotated_model *models, struct lines *lines,
                     const struct annotated *words, int epoch, int i, unsigned active) {
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

static void take_over(struct annotated_model *models, const struct annotated *words, int last) {
  for (int rank = 0; rank < words->schedule.nranks; rank++) {
    const struct annotated_model from = models[last];
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
static void train_epoch(struct annotated_model *models, struct lines *lines,
                        const struct annotated *words, int epoch, int *last) {
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

struct run *annotated_run(const struct annotated *words, struct annotated_model *models) {
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
    models[rank] = (struct annotated_model){.weights = {1, -2, 3, -4}};
  for (int epoch = 0; epoch < words->schedule.epochs; epoch++)
    train_epoch(models, lines, words, epoch, &last);
  lines_add_left(lines, words->schedule.nranks);
  assert_results(result, lines);
  lines_free(lines);
  return result;
}

void annotated_check(const struct annotated *words) {
  struct annotated_model models[RUN_RANKS_MAX];
  run_free(annotated_run(words, models));
}

bool annotated_are_equal(const struct annotated_model *models, int nranks) {
  for (int rank = 1; rank < nranks; rank++)
    if (memcmp(&models[rank], &models[0], sizeof *models) != 0)
      return false;
  return true;
}

bool annotated_is_said(const struct run *run, const char *text) {
  return run_says_in_a_line(run, "NCCL-JOIN WARN", text, NULL);
}
