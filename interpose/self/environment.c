/* The settings of this process (environment.h). */
#include "interpose/self/environment.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "core/report/log.h"

static struct settings settings;
static bool settings_right;

static void read_settings(void) {
  char error[SETTINGS_ERROR_SIZE];
  settings_right = settings_read(&settings, environ, error, sizeof(error));
  if (settings_right)
    return;
  for (char *line = error, *rest; line != NULL; line = rest) {
    rest = strchr(line, '\n');
    if (rest != NULL)
      *rest++ = '\0';
    log_line(LOG_LEVEL_ERROR, "%s", line);
  }
}

const struct settings *join_settings(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, read_settings);
  return settings_right ? &settings : NULL;
}
