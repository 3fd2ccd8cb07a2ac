/* Reading options, schedules and lists. */
#include "tests/programs/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void refuse(const char *what, const char *text) {
  fprintf(stderr, "%s: %s; --help lists what there is\n", what, text);
  exit(2);
}

/* The number at *text, which is moved past it. */
static int number_at(const char **text) {
  char *end;
  long number = strtol(*text, &end, 10);
  if (end == *text || number < 0 || number > 1000000)
    refuse("not a number from 0 to 1000000", *text);
  *text = end;
  return (int)number;
}

static void print_help(const char *purpose, const struct option *options) {
  printf("%s\n\n", purpose);
  for (; options->name != NULL; options++) {
    printf("  %-16s %s", options->name, options->help);
    if (options->number != NULL)
      printf(" (%d)\n", *options->number);
    else
      printf(" (%s)\n", *options->text);
  }
}

void options_read(char **arguments, const char *purpose, const struct option *options) {
  for (char **argument = arguments + 1; *argument != NULL; argument += 2) {
    if (strcmp(*argument, "--help") == 0) {
      print_help(purpose, options);
      exit(0);
    }
    const struct option *option = options;
    while (option->name != NULL && strcmp(option->name, *argument) != 0)
      option++;
    if (option->name == NULL)
      refuse("unknown option", *argument);
    if (argument[1] == NULL)
      refuse("option without a value", *argument);
    if (option->text != NULL) {
      *option->text = argument[1];
      continue;
    }
    const char *rest = argument[1];
    *option->number = number_at(&rest);
    if (*rest != '\0')
      refuse("not a number", argument[1]);
  }
}

int schedule_epochs(const char *schedule) {
  int epochs = 1;
  for (; *schedule != '\0'; schedule++)
    epochs += *schedule == '/';
  return epochs;
}

int schedule_iterations(const char *schedule, int epoch, int rank) {
  const char *at = schedule;
  for (; epoch > 0 && (at = strchr(at, '/')) != NULL; epoch--)
    at++;
  if (at == NULL)
    refuse("no such epoch in the schedule", schedule);
  int iterations = number_at(&at);
  if (*at == '+') {
    at++;
    return iterations + rank * number_at(&at);
  }
  for (; rank > 0 && *at == ','; rank--) {
    at++;
    iterations = number_at(&at);
  }
  return iterations;
}

const char *list_item(const char *list, int rank) {
  static char item[64];
  for (const char *comma; rank > 0 && (comma = strchr(list, ',')) != NULL; rank--)
    list = comma + 1;
  snprintf(item, sizeof item, "%.*s", (int)strcspn(list, ","), list);
  return item;
}
