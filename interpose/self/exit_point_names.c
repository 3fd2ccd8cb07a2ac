/* Which functions are exit points (environment.h). */
#include "interpose/self/environment.h"

#include <string.h>

#include "core/unit/unit.h"

/* A row for each name under which a program may come to one: MPI's profiling names as well, which
 * its Fortran library calls. mark: the position in settings_built_in_exits plus one; so rows of one
 * mark are one exit point, which messages and "-name" call as it is called there. */
#define PYTORCH_SHARES_ID                                                                          \
  "_ZN4c10d16ProcessGroupNCCL21broadcastUniqueNCCLIDEP12ncclUniqueIdbRKNSt7__cxx1112basic_"        \
  "stringIcSt11char_traitsIcESaIcEEEi"
static const struct exit_point built_in[] = {
    {"MPI_Finalize", 1, EXIT_POINT_OF_MPI, false},
    {"PMPI_Finalize", 1, EXIT_POINT_OF_MPI, false},
    {"MPI_Barrier", 2, EXIT_POINT_OF_MPI, true},
    {"PMPI_Barrier", 2, EXIT_POINT_OF_MPI, true},
    {PYTORCH_SHARES_ID, 3, EXIT_POINT_OF_PYTORCH, false},
};
#define BUILT_IN (sizeof built_in / sizeof built_in[0])
_Static_assert(BUILT_IN + SETTINGS_NAMES_MAX == EXIT_POINTS_MAX, "room for all");
_Static_assert(SETTINGS_BUILT_IN_EXITS + SETTINGS_NAMES_MAX <= MARK_EXIT_POINTS, "a mark for each");

static struct exit_point points[EXIT_POINTS_MAX];
static size_t npoints;
static char listed[SETTINGS_PATH_SIZE]; /* what the names of the user point into */

static void exit_points_add(const struct exit_point *point) {
  for (size_t i = 0; i < npoints; i++)
    if (strcmp(points[i].name, point->name) == 0)
      return;
  points[npoints++] = *point;
}

/* Whether the list of the settings has "-name". */
static bool exit_points_refuses(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strchr(list, '-'); at != NULL; at = strchr(at + 1, '-'))
    if (strncmp(at + 1, name, length) == 0 && (at[length + 1] == ',' || at[length + 1] == '\0'))
      return true;
  return false;
}

/* The user's that are named first go first where ranks have come to different ones. */
static void exit_points_add_listed(void) {
  struct exit_point point = {.mark = SETTINGS_BUILT_IN_EXITS + SETTINGS_NAMES_MAX};
  char *rest = listed;
  for (; (point.name = strsep(&rest, ",")) != NULL; point.mark--)
    if (*point.name != '\0' && *point.name != '-')
      exit_points_add(&point);
}

size_t exit_points_read(const struct settings *settings) {
  memcpy(listed, settings->exit_on, sizeof listed);
  for (size_t i = 0; i < BUILT_IN; i++)
    if (!exit_points_refuses(listed, settings_built_in_exits[built_in[i].mark - 1]))
      exit_points_add(&built_in[i]);
  exit_points_add_listed();
  return npoints;
}

const struct exit_point *exit_point(size_t number) {
  return &points[number];
}

const char *exit_point_name(uint32_t mark) {
  if (mark >= 1 && mark <= SETTINGS_BUILT_IN_EXITS)
    return settings_built_in_exits[mark - 1];
  for (size_t i = 0; i < npoints; i++)
    if (points[i].mark == mark)
      return points[i].name;
  return "a function of NCCL_JOIN_EXIT_ON";
}
