/* Programs as readable source (program.h). */
#include "tests/simulation/program.h"

#include <stdio.h>

static const char *const functions[FUNCTIONS] = {"main", "train",  "step",   "validate",
                                                 "save", "helper", "wrapper"};

static const char *condition(const struct node *node, char text[64]) {
  uint32_t value = node->value;
  switch ((enum when)node->what) {
  case WHEN_STEPS:
    snprintf(text, 64, "++steps %% %u == 0", value);
    break;
  case WHEN_BATCHES:
    snprintf(text, 64, "(batch + 1) %% %u == 0", value);
    break;
  case WHEN_UPDATES:
    snprintf(text, 64, "(batch + 1) %% %u == 0 || batch + 1 == batches", value);
    break;
  case WHEN_FIRST_STEP:
    snprintf(text, 64, "first step");
    break;
  case WHEN_EPOCHS:
    snprintf(text, 64, "(epoch + 1) %% %u == 0", value);
    break;
  case WHEN_EPOCH_FROM:
    snprintf(text, 64, "epoch >= %u", value);
    break;
  case WHEN_EPOCH:
    snprintf(text, 64, "epoch == %u", value);
    break;
  case WHEN_RANK:
    snprintf(text, 64, "rank == %u", value);
    break;
  case WHEN_NOT_RANK:
    snprintf(text, 64, "rank != %u", value);
    break;
  case WHEN_LOCAL:
    snprintf(text, 64, "1 in %u by this rank's data", value);
    break;
  case WHEN_AGREED:
    snprintf(text, 64, "1 in %u, on all ranks alike", value);
    break;
  case WHEN_TRAINS:
    snprintf(text, 64, "batch < batches");
    break;
  case WHEN_VALIDATES:
    snprintf(text, 64, "batches of the validation set are left");
    break;
  case WHEN_HAS_DATA:
    snprintf(text, 64, "batches > 0");
    break;
  case WHEN_MINE:
    snprintf(text, 64, "it is this rank's, as each round here is");
    break;
  case WHEN_DATA_ENDS:
    snprintf(text, 64, "this rank's data end here: exit %u", value);
    break;
  }
  return text;
}

static const char *head(const struct node *node, char text[64]) {
  switch ((enum rounds)node->what) {
  case ROUNDS_EPOCHS:
    snprintf(text, 64, "for each epoch");
    break;
  case ROUNDS_TRAINING:
    snprintf(text, 64, "for each batch");
    break;
  case ROUNDS_VALIDATION:
    snprintf(text, 64, "for each batch of the validation set");
    break;
  case ROUNDS_FIXED:
    snprintf(text, 64, "%u times", node->value);
    break;
  case ROUNDS_STATES:
    snprintf(text, 64, "until done");
    break;
  }
  return text;
}

static void print_unit(const struct program *program, uint16_t at, int indent) {
  static const char *const axes[AXES] = {"", " tensor", " data"};
  const struct node *node = &program->tree.nodes[at];
  const struct place *place = &program->places[at];
  char text[256];
  printf("%*s%s%s;  // point %u, place ", indent, "",
         unit_describe((struct unit){node->slot.members, node->slot.nmembers}, text, sizeof(text)),
         axes[node->slot.axis], node->point);
  if (place->id == 0)
    printf("unknown");
  for (uint32_t i = 0; i < place->nnodes; i++) {
    const struct place_node *step = &place->nodes[i];
    printf(step->flags & PLACE_ORDERED ? "%s%s%u[%u,%u]" : "%s%s?", i ? " > " : "",
           step->flags & PLACE_LOOP ? "loop " : "", step->order, step->since, step->until);
  }
  printf("\n");
}

static void print_block(const struct program *program, uint16_t first, int indent) {
  const struct node *nodes = program->tree.nodes;
  char text[64];
  for (uint16_t at = first; at != 0; at = nodes[at].next)
    switch ((enum node_kind)nodes[at].kind) {
    case NODE_UNIT:
      print_unit(program, at, indent);
      break;
    case NODE_LOOP:
      printf("%*s%s {\n", indent, "", head(&nodes[at], text));
      print_block(program, nodes[at].first, indent + 2);
      printf("%*s}\n", indent, "");
      break;
    case NODE_BRANCH:
      printf("%*sif (%s) {\n", indent, "", condition(&nodes[at], text));
      print_block(program, nodes[at].first, indent + 2);
      if (nodes[at].otherwise != 0)
        printf("%*s} else {\n", indent, "");
      print_block(program, nodes[at].otherwise, indent + 2);
      printf("%*s}\n", indent, "");
      break;
    case NODE_CALL:
      printf("%*s%s() {\n", indent, "", functions[nodes[at].what]);
      print_block(program, nodes[at].first, indent + 2);
      printf("%*s}\n", indent, "");
      break;
    case NODE_BREAK:
      printf("%*sbreak;\n", indent, "");
      break;
    case NODE_CONTINUE:
      printf("%*scontinue;\n", indent, "");
      break;
    }
}

static void print_counts(const struct program *program, const char *name,
                         const uint16_t counts[PROGRAM_EPOCHS_MAX][PROGRAM_RANKS_MAX]) {
  printf("%s:", name);
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++)
      printf("%s%u", rank > 0 ? "," : epoch > 0 ? " / " : " ", counts[epoch][rank]);
  printf("\n");
}

void program_print(const struct program *program) {
  char name[ROW_NAME_SIZE];
  printf("%s: %u ranks, %u teams, %u epochs\n", row_name(program->row, name), program->nranks,
         program->nteams, program->epochs);
  print_counts(program, "batches", program->data.training);
  print_counts(program, "validation", program->data.validation);
  printf("exits:");
  for (uint32_t epoch = 0; epoch < program->epochs; epoch++)
    for (uint32_t rank = 0; rank < program->nranks; rank++)
      printf("%s%u", rank > 0 ? "," : epoch > 0 ? " / " : " ", program->data.exits[epoch][rank]);
  printf("\nspeeds:");
  for (uint32_t rank = 0; rank < program->nranks; rank++)
    printf(" %u", program->speed[rank]);
  printf("\nrun ahead %u, %s, synchronises every %u batches%s\n", program->run_ahead,
         program->one_stream ? "one stream" : "several streams", program->sync_every,
         program->sync_after ? " and after each epoch" : "");
  print_block(program, program->tree.nodes[0].first, 0);
}
