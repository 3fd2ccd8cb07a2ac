/* What is set in the environment (findings.h). */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "core/settings/settings.h"
#include "core/settings/settings_private.h"
#include "tools/doctor/findings.h"

/* ---- names that are nearly a setting's ---- */

/* Letters that are left out, put in, changed, or change places with their neighbour: three at most
 * are counted. */
static unsigned distance(const char *a, const char *b, unsigned most) {
  while (*a != '\0' && toupper((unsigned char)*a) == *b)
    a++, b++;
  if (*a == '\0' || *b == '\0' || most == 0) {
    size_t rest = strlen(a) + strlen(b);
    return rest > most ? most + 1 : (unsigned)rest;
  }
  unsigned least = distance(a + 1, b + 1, most - 1);
  unsigned others[] = {distance(a + 1, b, most - 1), distance(a, b + 1, most - 1),
                       toupper((unsigned char)a[0]) == b[1] &&
                               toupper((unsigned char)a[1]) == b[0] && b[0] != b[1]
                           ? distance(a + 2, b + 2, most - 1)
                           : most};
  for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
    least = others[i] < least ? others[i] : least;
  return least + 1;
}

/* The setting that a variable's name is nearly; NULL none. Names with the prefix are errors
 * already. */
static const char *near_setting(const char *name) {
  if (strncmp(name, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) == 0 ||
      strcmp(name, "NCCL_JOIN") == 0)
    return NULL;
  unsigned most = strlen(name) > 12 ? 2 : 1;
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++)
    if (distance(name, setting->name, most) <= most)
      return setting->name;
  return NULL;
}

static void look_at_near_names(struct findings *findings) {
  for (char *const *entry = environ; *entry != NULL; entry++) {
    char name[64], remedy[128];
    size_t length = strcspn(*entry, "=");
    if (length >= sizeof name)
      continue;
    snprintf(name, sizeof name, "%.*s", (int)length, *entry);
    const char *meant = near_setting(name);
    if (meant == NULL)
      continue;
    snprintf(remedy, sizeof remedy, "if %s is meant, say so", meant);
    finding(findings, HEALTH_NOTE, "settings", remedy, "%s is no setting of nccl-join", name);
  }
}

/* ---- settings ---- */

static void look_at_values(struct findings *findings) {
  char set[2048] = "";
  size_t used = 0;
  for (const struct setting *setting = settings_table; setting->name != NULL; setting++) {
    const char *value = settings_value(environ, setting->name);
    char shown[SETTINGS_VALUE_SHOWN];
    if (value == NULL || *value == '\0' || used >= sizeof set)
      continue;
    used += (size_t)snprintf(set + used, sizeof set - used, "%s%s=%s", used > 0 ? ", " : "",
                             setting->name,
                             settings_as_line(value, strlen(value), shown, sizeof shown));
  }
  finding(findings, HEALTH_GOOD, "settings", NULL, "%s",
          used > 0 ? set : "none is set; nccl-join env prints the defaults");
}

static void look_at_errors(struct findings *findings, char *error) {
  for (char *line = error, *rest; line != NULL; line = rest) {
    rest = strchr(line, '\n');
    if (rest != NULL)
      *rest++ = '\0';
    finding(findings, HEALTH_WRONG, "settings",
            "correct or unset it: communicators are refused with ncclInvalidUsage", "%s", line);
  }
}

/* What a variable has; NULL: nothing. */
static const char *value_of(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? value : NULL;
}

void look_at_settings(struct findings *findings) {
  struct settings settings;
  char error[SETTINGS_ERROR_SIZE];
  if (settings_read(&settings, environ, error, sizeof error))
    look_at_values(findings);
  else
    look_at_errors(findings, error);
  look_at_paths(findings, &settings);
  look_at_near_names(findings);
  if (!settings.enabled)
    finding(findings, HEALTH_WRONG, "settings", "unset NCCL_JOIN", "NCCL_JOIN=0: nccl-join is off");
  const char *audit = value_of("LD_AUDIT"), *preloaded = value_of("LD_PRELOAD"),
             *profiler = value_of("NCCL_PROFILER_PLUGIN");
  if (audit != NULL)
    finding(findings, HEALTH_NOTE, "environment", "unset LD_AUDIT",
            "LD_AUDIT=%s can lead calls past nccl-join", audit);
  if (preloaded != NULL && strstr(preloaded, "libnccl-join.so") == NULL)
    finding(
        findings, HEALTH_NOTE, "environment",
        "nothing; nccl-join run puts itself first. nccl-join check says whether it is in the way",
        "LD_PRELOAD=%s is preloaded as well", preloaded);
  if (profiler != NULL)
    finding(findings, HEALTH_NOTE, "environment",
            "nothing, if it is meant: calls that bypass nccl-join are not noticed then",
            "NCCL_PROFILER_PLUGIN=%s is NCCL's profiler plug-in", profiler);
}
