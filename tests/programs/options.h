/* Options of the test programs: one table per program, and lists that give each rank its own value.
 */
#ifndef PROGRAMS_OPTIONS_H
#define PROGRAMS_OPTIONS_H

struct option {
  const char *name;  /* with its dashes; NULL ends a table */
  const char **text; /* where its value goes, if it is a text */
  int *number;       /* where its value goes, if it is a number from 0 to 1,000,000 */
  const char *help;
};

/* Reads "--name value" pairs into the table's places, which hold the defaults before. --help prints
 * the table and ends the program with status 0; anything unknown ends it with status 2. */
void options_read(char **arguments, const char *purpose, const struct option *options);

/* Iterations by epoch and rank: "3,5,5" gives rank 0 three and all ranks after it five, "3+1" gives
 * rank r 3 + r, and a slash goes on to the next epoch: "3,5/5,3". */
int schedule_epochs(const char *schedule);
int schedule_iterations(const char *schedule, int epoch, int rank);

/* One rank's part of a list: "a,b" is a for rank 0 and b for all after it. Valid until the next
 * call. */
const char *list_item(const char *list, int rank);

#endif
