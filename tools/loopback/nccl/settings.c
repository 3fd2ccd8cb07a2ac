/* The table of settings, and reading it. */
#include "settings.h"

#include "report.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const int hang_seconds_default = 10;

static struct settings settings;
static pthread_once_t settings_once = PTHREAD_ONCE_INIT;

/* Index of the variable's value among choices (the first is the default). */
static int setting_choice(const char *name, const char *first, const char *second) {
  const char *value = getenv(name);
  if (value == NULL || *value == '\0' || strcmp(value, first) == 0)
    return 0;
  if (strcmp(value, second) == 0)
    return 1;
  report_stop("%s=%s is not a value I know: %s or %s", name, value, first, second);
}

static int setting_number(const char *name, int standard, const char *unit) {
  const char *value = getenv(name);
  if (value == NULL || *value == '\0')
    return standard;
  char *end;
  long number = strtol(value, &end, 10);
  if (*end != '\0' || number < 0 || number > 1000000)
    report_stop("%s=%s is not a number of %s", name, value, unit);
  return (int)number;
}

static const char *setting_text(const char *name) {
  const char *value = getenv(name);
  return value != NULL && *value != '\0' ? strdup(value) : NULL;
}

static void settings_read(void) {
  settings.connect = setting_choice("LOOPBACK_CONNECT", "1", "0") == 0;
  settings.connect_ms = setting_number("LOOPBACK_CONNECT_MS", 0, "milliseconds");
  settings.destroy_meets = setting_choice("LOOPBACK_DESTROY", "alone", "meet") == 1;
  settings.nvls = setting_choice("LOOPBACK_NVLS", "0", "1") == 1;
  settings.duplicate_gpu_error = setting_choice("LOOPBACK_DUPLICATE_GPU", "allow", "error") == 1;
  settings.hang_seconds = setting_number("LOOPBACK_HANG_S", hang_seconds_default, "seconds");
  settings.death_is_error = setting_choice("LOOPBACK_DEATH", "error", "hang") == 0;
  settings.mismatch_hangs = setting_choice("LOOPBACK_MISMATCH", "stop", "hang") == 1;
  settings.folder = setting_text("LOOPBACK_FOLDER");
  settings.log = setting_text("LOOPBACK_LOG");
}

const struct settings *settings_get(void) {
  pthread_once(&settings_once, settings_read);
  return &settings;
}
