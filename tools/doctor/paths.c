/* Whether what settings name can be opened (findings.h): plug-ins, and where traces, reports and
 * the log go. Nothing is made. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/settings/settings.h"
#include "tools/check/image.h"
#include "tools/doctor/findings.h"

static void look_at_plugin(struct findings *findings, const char *path) {
  char error[IMAGE_ERROR_SIZE];
  static const char remedy[] = "correct the path, or take it out of NCCL_JOIN_HOOK: communicators "
                               "are refused with ncclInvalidUsage";
  if (strchr(path, '/') == NULL)
    return; /* the dynamic linker looks for it in folders of its own */
  struct image *image = image_read(path, error);
  if (image == NULL)
    finding(findings, HEALTH_WRONG, "settings", remedy, "NCCL_JOIN_HOOK: %s %s", path, error);
  else if (!image->runs_here || !image->is_library)
    finding(findings, HEALTH_WRONG, "settings", remedy,
            "NCCL_JOIN_HOOK: %s is no library for this machine", path);
  image_free(image);
}

static void look_at_plugins(struct findings *findings, const char *list) {
  char paths[SETTINGS_PATH_SIZE];
  snprintf(paths, sizeof paths, "%s", list);
  for (char *rest = paths, *path; (path = strsep(&rest, ",")) != NULL;)
    if (*path != '\0')
      look_at_plugin(findings, path);
}

/* Cuts the last name off a path: "a/b" becomes "a", "/a" "/", "a" ".". */
static void cut_last(char *path) {
  char *slash = strrchr(path, '/');
  if (slash == NULL)
    memcpy(path, ".", sizeof ".");
  else
    slash[slash == path ? 1 : 0] = '\0';
}

/* Whether files can be made in a folder, which is made if it is missing. If not: of which folder
 * that is known, and why. */
static bool can_write_below(const char *folder, char at[PATH_MAX], int *error) {
  struct stat status;
  snprintf(at, PATH_MAX, "%s", folder);
  for (size_t size = strlen(at); size > 1 && at[size - 1] == '/';)
    at[--size] = '\0';
  while (stat(at, &status) != 0 && errno == ENOENT && strcmp(at, ".") != 0 && strcmp(at, "/") != 0)
    cut_last(at);
  *error = errno;
  if (stat(at, &status) == 0 && !S_ISDIR(status.st_mode))
    *error = ENOTDIR;
  else if (access(at, W_OK | X_OK) == 0)
    return true;
  else
    *error = errno;
  return false;
}

static void look_at_folder(struct findings *findings, const char *name, const char *folder,
                           const char *what) {
  char at[PATH_MAX], remedy[160];
  int error;
  if (*folder == '\0' || can_write_below(folder, at, &error))
    return;
  snprintf(remedy, sizeof remedy, "set %s to a folder that may be written to: there will be no %s",
           name, what);
  finding(findings, HEALTH_WRONG, "settings", remedy, "%s=%s: %s cannot be written to: %s", name,
          folder, at, strerror(error));
}

/* Its folder is not made, and may have a rank or a process in its name. */
static void look_at_log(struct findings *findings, const char *path) {
  char folder[SETTINGS_PATH_SIZE];
  struct stat status;
  snprintf(folder, sizeof folder, "%s", path);
  cut_last(folder);
  if (*path == '\0' || strchr(folder, '%') != NULL)
    return;
  int error = access(folder, W_OK | X_OK) == 0 ? 0 : errno;
  if (error == 0 && stat(path, &status) == 0)
    error = S_ISDIR(status.st_mode) ? EISDIR : access(path, W_OK) == 0 ? 0 : errno;
  if (error != 0)
    finding(findings, HEALTH_WRONG, "settings",
            "make its folder, or set another path: the log goes to stderr",
            "NCCL_JOIN_DEBUG_FILE=%s cannot be written to: %s", path, strerror(error));
}

void look_at_paths(struct findings *findings, const struct settings *settings) {
  bool reports =
      strcmp(settings->report, REPORT_OFF) != 0 && strcmp(settings->report, REPORT_LINE) != 0;
  look_at_plugins(findings, settings->hooks);
  look_at_folder(findings, "NCCL_JOIN_TRACE", settings->trace_folder, "traces");
  look_at_folder(findings, "NCCL_JOIN_REPORT", reports ? settings->report : "", "reports");
  look_at_log(findings, settings->log_file);
}
